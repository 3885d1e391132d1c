"""Types: as Paimon writes them, as SQL shows them, as Arrow stores them."""

import pyarrow as pa
import pytest

from packstone.errors import InvalidInputError
from packstone.tables.paimon.format.data_type import DataField, TypeRoot, parse_data_type, to_arrow, to_arrow_field

NESTED = {
    "type": "ROW NOT NULL",
    "fields": [
        {"id": 1, "name": "a", "type": {"type": "ARRAY", "element": "INT NOT NULL"}},
        {"id": 2, "name": "m", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "DECIMAL(10, 2)"}},
    ],
}


@pytest.mark.parametrize(
    "text",
    [
        "BOOLEAN",
        "TINYINT NOT NULL",
        "SMALLINT",
        "INT",
        "BIGINT NOT NULL",
        "FLOAT",
        "DOUBLE",
        "CHAR(3)",
        "VARCHAR(10) NOT NULL",
        "STRING",
        "BINARY(4)",
        "VARBINARY(5)",
        "BYTES NOT NULL",
        "DECIMAL(38, 18)",
        "DATE",
        "TIME(3)",
        "TIMESTAMP(9)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        "VARIANT",
        "BLOB",
    ],
)
def test_a_simple_type_prints_as_it_was_written(text):
    """A simple type prints as it was written."""
    assert str(parse_data_type(text)) == text


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("INTEGER", "INT"),
        ("NUMERIC(5,1)", "DECIMAL(5, 1)"),
        ("DEC", "DECIMAL(10, 0)"),
        ("DOUBLE PRECISION NOT NULL", "DOUBLE NOT NULL"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIME", "TIME(0)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("varchar( 7 )  not null", "VARCHAR(7) NOT NULL"),
    ],
)
def test_aliases_and_defaults_are_java_s(written, same):
    """Aliases, left-out parameters and blanks mean what they mean to Java."""
    assert str(parse_data_type(written)) == same


def test_a_nested_type_prints_and_maps_with_its_nullability():
    """Nested types keep ids, names and nullability, in SQL and in Arrow."""
    parsed = parse_data_type(NESTED)
    assert str(parsed) == "ROW<`a` ARRAY<INT NOT NULL>, `m` MAP<STRING NOT NULL, DECIMAL(10, 2)>> NOT NULL"
    arrow = to_arrow(parsed)
    assert arrow.field("a").type == pa.list_(pa.field("element", pa.int32(), nullable=False))
    assert not arrow.field("a").type.value_field.nullable
    assert arrow.field("m").type == pa.map_(pa.string(), pa.decimal128(10, 2))
    assert [field.metadata[b"PARQUET:field_id"] for field in arrow] == [b"1", b"2"]
    assert not parsed.is_atomic


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(4)", pa.timestamp("us")),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP(7)", pa.timestamp("ns")),
        ("TIME(0)", pa.time32("ms")),
        ("DATE", pa.date32()),
        ("DECIMAL(5, 2)", pa.decimal128(5, 2)),
        ("BINARY(3)", pa.binary()),
        ("CHAR(3)", pa.string()),
        ("TINYINT", pa.int8()),
    ],
)
def test_arrow_types_hold_what_java_writes(text, arrow):
    """Each type maps to the Arrow type that Java's Parquet files hold."""
    assert to_arrow(parse_data_type(text)) == arrow


def test_other_nested_types_map():
    """Multisets are maps to counts, vectors lists of a fixed length."""
    multiset = parse_data_type({"type": "MULTISET", "element": "STRING"})
    vector = parse_data_type({"type": "VECTOR", "element": "FLOAT", "length": 3})
    assert to_arrow(multiset).item_type == pa.int32()
    assert to_arrow(vector).list_size == 3
    assert (str(multiset), str(vector)) == ("MULTISET<STRING>", "VECTOR<FLOAT, 3>")


def test_a_column_keeps_its_id_and_nullability_in_arrow():
    """A NOT NULL column is not nullable in Arrow and carries its id."""
    field = to_arrow_field(DataField(id=7, name="k", type=parse_data_type("INT NOT NULL")))
    assert (field.nullable, field.metadata) == (False, {b"PARQUET:field_id": b"7"})


@pytest.mark.parametrize("bad", ["GEOMETRY", "INT(", "ROW", {"type": "TREE"}, {"no": "type"}, 5, None])
def test_an_unknown_type_is_named(bad):
    """A type of a newer Paimon is refused by name, not misread."""
    with pytest.raises(InvalidInputError):
        parse_data_type(bad)


def test_only_types_that_a_key_can_hold_are_atomic():
    """Variants and blobs are no keys, though they are written as one word."""
    assert [root for root in ("VARIANT", "BLOB", "INT") if parse_data_type(root).is_atomic] == [TypeRoot.INT]
