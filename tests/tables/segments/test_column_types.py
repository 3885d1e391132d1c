"""Schemas as text: what is accepted, how it is stored, what Arrow and Spark make of it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.tables.segments.format.columns import (
    ATOMIC_NAMES,
    ArrayType,
    AtomicType,
    DecimalType,
    MapType,
    StructType,
    TableColumn,
    columns_from_arrow,
    parse_columns,
    to_arrow,
    to_ddl,
)

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=6)
atomic = st.sampled_from(sorted(set(ATOMIC_NAMES.values()))).map(AtomicType)
decimals = st.integers(1, 38).flatmap(lambda digits: st.builds(DecimalType, st.just(digits), st.integers(0, digits)))
types = st.recursive(
    atomic | decimals,
    lambda inner: (
        st.builds(ArrayType, inner)
        | st.builds(MapType, inner, inner)
        | st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda one: one[0].lower())
        .map(tuple)
        .map(StructType)
    ),
    max_leaves=5,
)
columns = st.lists(
    st.builds(
        lambda name, kind, null: TableColumn(name=name, type_text=str(kind), nullable=null), names, types, st.booleans()
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda column: column.name.lower(),
).map(tuple)


@given(columns)
def test_a_schema_reads_back_as_it_was_written(schema):
    """Any names and any types: the text of a schema parses to the same schema."""
    assert parse_columns(to_ddl(schema)) == schema


@given(columns)
def test_arrow_holds_the_same_columns(schema):
    """To Arrow and back nothing is lost."""
    assert columns_from_arrow(to_arrow(schema)) == schema


def test_texts_with_a_length_and_comments_of_other_systems():
    """CarbonData's CREATE TABLE runs unchanged: lengths are not enforced and comments are not kept."""
    text = (
        "a varchar(10) NOT NULL COMMENT 'it''s, a \\' (b)', b CHAR(3), c array<varchar(5)>, `comment` string comment ''"
    )
    assert to_ddl(parse_columns(text)) == "a string not null, b string, c array<string>, comment string"
    for wrong in ("a varchar(x)", "a varchar(3", "a string comment", "a string comment b", "'a' string", "a 'string'"):
        with pytest.raises(InvalidInputError):
            parse_columns(wrong)


def test_other_names_and_cases_are_one_type():
    """SQL's and Spark's names, in any case and spacing, are stored under one name each."""
    found = parse_columns(
        "a BIGINT,b smallint not NULL , c Tinyint, d INTEGER, e Decimal( 5 , 2 ), f dec, g numeric(4)"
    )
    assert to_ddl(found) == ("a long, b short not null, c byte, d int, e decimal(5,2), f decimal(10,0), g decimal(4,0)")


def test_arrow_types():
    """Instants are microseconds in UTC, clock readings have no zone; NOT NULL is kept."""
    schema = to_arrow(parse_columns("t timestamp not null, n timestamp_ntz, m map<string,array<int>>, d date"))
    assert schema.field("t") == pa.field("t", pa.timestamp("us", tz="UTC"), nullable=False)
    assert schema.field("n").type == pa.timestamp("us")
    assert schema.field("m").type.item_type.value_type == pa.int32()
    assert schema.field("d").type == pa.date32()


def test_arrow_types_of_others_are_taken_where_nothing_is_lost():
    """Large and dictionary types are text anyway; an unsigned number has no place."""
    found = columns_from_arrow(pa.schema({"a": pa.large_string(), "b": pa.dictionary(pa.int8(), pa.string())}))
    assert to_ddl(found) == "a string, b string"
    with pytest.raises(InvalidInputError, match="Column 'u' has the Arrow type uint64"):
        columns_from_arrow(pa.schema({"u": pa.uint64()}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The schema lacks a column name at its end"),
        ("id", "Column 'id' lacks a type at its end"),
        ("id long,", "lacks a column name at its end"),
        ("id lnog", "Column 'id' has the type 'lnog', which is not one of boolean"),
        ("id long name string", "Column 'id' has 'name' where ',' is expected"),
        ("id long not", "Column 'id' has 'not' where ',' is expected"),
        ("a int, A string", "'a' and 'A' have the same name"),
        ("s struct<a:int,A:int>", "column 's'.*'a' and 'A' have the same name"),
        ("d decimal(39,2)", "Column 'd' is a decimal.39,2."),
        ("d decimal(5,6)", "Column 'd' is a decimal.5,6."),
        ("d decimal(x)", "Column 'd' has 'x' where a number is expected"),
        ("t array<int", "Column 't' has 'its end' where '>' is expected"),
        ("t array<array<int>", "Column 't' has 'its end' where '>' is expected"),
        ("m map<int>", "Column 'm' has '>' where ',' is expected"),
        ("s struct<>", "Column 's' lacks a field name before '>'"),
        ("id long; drop", "cannot be read at '; drop'"),
        ("`x long", "cannot be read at '`x long'"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(text, sentence):
    """Every mistake names the column and what stands where."""
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        parse_columns(text)
    assert "\n" not in caught.value.message
