"""Rows: byte for byte what Java writes, and its order."""

import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.format.binary_row import comparable_key, decode_row, encode_row, row_arity
from packstone.tables.paimon.format.data_file import EMPTY_ROW
from packstone.tables.paimon.format.data_type import parse_data_type
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_all_manifests
from packstone.tables.paimon.format.schema import read_schema
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_snapshot

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"


def types(*texts):
    """Types of their SQL."""
    return [parse_data_type(text) for text in texts]


GOLDEN = [
    ("BIGINT", 4, "00000001 0000000000000000 0400000000000000"),
    ("INT", -1, "00000001 0000000000000000 ffffffff00000000"),
    ("BOOLEAN", True, "00000001 0000000000000000 0100000000000000"),
    ("INT", None, "00000001 0001000000000000 0000000000000000"),
    ("STRING", "", "00000001 0000000000000000 0000000000000080"),
    ("STRING", "sevenab", "00000001 0000000000000000 736576656e616287"),
    ("STRING", "eight ab", "00000001 0000000000000000 0800000010000000 6569676874206162"),
    ("STRING", "nine  abc", "00000001 0000000000000000 0900000010000000 6e696e6520206162 6300000000000000"),
    ("BYTES", b"\x00\xff", "00000001 0000000000000000 00ff000000000082"),
    ("DECIMAL(18, 2)", Decimal("-1.50"), "00000001 0000000000000000 6affffffffffffff"),
    (
        "DECIMAL(19, 2)",
        Decimal("-1.28"),
        "00000001 0000000000000000 0100000010000000 8000000000000000 0000000000000000",
    ),
    ("DECIMAL(19, 2)", None, "00000001 0001000000000000 0000000010000000 0000000000000000 0000000000000000"),
    ("TIMESTAMP(3)", 1001, "00000001 0000000000000000 e903000000000000"),
    ("TIMESTAMP(6)", 1001, "00000001 0000000000000000 e803000010000000 0100000000000000"),
    ("TIMESTAMP(9)", -1, "00000001 0000000000000000 3f420f0010000000 ffffffffffffffff"),
    ("TIMESTAMP(6)", None, "00000001 0001000000000000 0000000010000000 0000000000000000"),
    ("DOUBLE", 1.0, "00000001 0000000000000000 000000000000f03f"),
]


@pytest.mark.parametrize(("text", "value", "expected"), GOLDEN)
def test_one_value_has_java_s_bytes(text, value, expected):
    """Header, null bit, inline texts, large decimals and fine timestamps stand where Java puts them, nulls too."""
    assert encode_row([value], types(text)).hex() == expected.replace(" ", "")
    assert decode_row(bytes.fromhex(expected), types(text)) == (value,)


def test_an_empty_row_is_twelve_zero_bytes():
    """The key of an append table is the row without fields."""
    assert encode_row([], []) == EMPTY_ROW
    assert decode_row(EMPTY_ROW, []) == ()


@pytest.mark.parametrize(("arity", "header"), [(0, 8), (1, 8), (56, 8), (57, 16), (120, 16), (121, 24)])
def test_the_header_grows_with_the_fields(arity, header):
    """A header word holds 56 fields beside the row kind, each further one 64."""
    row = encode_row([None] * arity, types(*["INT"] * arity))
    assert len(row) == 4 + header + 8 * arity
    assert decode_row(row, types(*["INT"] * arity)) == (None,) * arity


def test_objects_of_python_become_what_arrow_stores():
    """Dates, times and moments are taken as objects too, and come back as numbers."""
    kinds = types("DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(6)")
    moment = datetime(1970, 1, 1, 0, 0, 1, 5)  # noqa: DTZ001 - Paimon's TIMESTAMP has no zone
    values = [date(1969, 12, 31), time(0, 0, 1, 2000), moment, moment, moment, moment.replace(tzinfo=UTC)]
    assert decode_row(encode_row(values, kinds), kinds) == (-1, 1002, 1000, 1000005, 1000005000, 1000005)


SCALARS = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=20),
    "BYTES": st.binary(max_size=20),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(0)": st.integers(-(2**63), 2**63 - 1),
    "TIMESTAMP(6)": st.integers(-(2**63), 2**63 - 1),
    "TIMESTAMP(9)": st.integers(-(2**63), 2**63 - 1),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(10, 3)": st.decimals(-9999999, 9999999, places=3),
    "DECIMAL(38, 5)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(f"{number}e-5")),
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(SCALARS)), max_size=70).flatmap(
    lambda names: st.tuples(st.just(names), st.tuples(*(st.none() | SCALARS[name] for name in names)))))  # fmt: skip
def test_any_row_comes_back_as_it_went_in(drawn):
    """Encoding loses nothing, for rows of every type and with nulls anywhere."""
    names, values = drawn
    kinds = types(*names)
    row = encode_row(values, kinds)
    assert decode_row(row, kinds) == values
    assert row_arity(row) == len(values)


def test_every_row_of_real_tables_is_written_back_byte_for_byte():
    """Partitions, keys and statistics that Java and pypaimon wrote are re-encoded to the same bytes."""
    io, rows = LocalFileIO(), 0
    for table in sorted(map(str, FIXTURES.glob("*/table"))):
        for number in list_snapshot_ids(io, table):
            for meta in read_all_manifests(io, table, read_snapshot(io, table, number)):
                for entry in read_manifest(io, f"{table}/manifest/{meta.file_name}"):
                    for row, kinds in rows_of(entry, read_schema(io, table, entry.file.schema_id)):
                        assert encode_row(decode_row(row, kinds), kinds) == row
                        rows += 1
    assert rows > 1000


def rows_of(entry, schema):
    """All rows of an entry with their types."""
    file = entry.file
    names = file.value_stats_cols if file.value_stats_cols is not None else [field.name for field in schema.fields]
    values = [schema.field(name).type for name in names]
    yield entry.partition, schema.partition_types
    for row in (file.min_key, file.max_key, file.key_stats.min_values, file.key_stats.max_values):
        yield row, schema.key_types if row_arity(row) else ()
    for row in (file.value_stats.min_values, file.value_stats.max_values):
        yield row, values if row_arity(row) else ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INT", "x"),
        ("TINYINT", 128),
        ("STRING", 5),
        ("BYTES", "text"),
        ("DECIMAL(4, 2)", Decimal("1.005")),
        ("DECIMAL(4, 2)", Decimal(100)),
        ("DECIMAL(20, 2)", Decimal("NaN")),
        ("DECIMAL(4, 2)", 1.5),
        ("TIMESTAMP(6)", "now"),
        ("STRING", "\ud800"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(text, value):
    """Nothing is rounded or cut: the value and the type are named."""
    with pytest.raises(InvalidInputError, match="is not a value of"):
        encode_row([value], types(text))


@pytest.mark.parametrize(
    "data", ["", "000000", "00000001 0000000000000000", "ffffffff", "00000001 0000000000000000 ff00000010000000"]
)
def test_a_cut_row_is_a_corruption(data):
    """A row that ends too early is never read as something else."""
    with pytest.raises(CorruptionError):
        decode_row(bytes.fromhex(data), types("STRING"))


def test_a_row_of_another_arity_is_a_corruption():
    """A key of two columns is not a key of one."""
    with pytest.raises(CorruptionError, match="has 2 fields where 1"):
        decode_row(encode_row([1, 2], types("INT", "INT")), types("INT"))


def test_a_nested_column_is_read_as_nothing():
    """Statistics hold null for nested columns; whatever the bytes are, reading does not fail."""
    nested = parse_data_type({"type": "ARRAY", "element": "INT"})
    row = encode_row([None, 5], [nested, *types("INT")])
    assert decode_row(row, [nested, *types("INT")]) == (None, 5)
    filled = encode_row(["some bytes of an array", 5], types("STRING", "INT"))
    assert decode_row(filled, [nested, *types("INT")]) == (None, 5)


@pytest.mark.parametrize(
    ("text", "ascending"),
    [
        ("DOUBLE", [None, float("-inf"), -1.5, -1e-300, -0.0, 0.0, 1e-300, 1.5, float("inf"), float("nan")]),
        ("FLOAT", [None, -2.0, -0.0, 0.0, 2.0, float("nan")]),
        ("STRING", [None, "", "A", "a", "aa", "é", "漢", "\uffff", "😀"]),
        ("BYTES", [None, b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
        ("BOOLEAN", [None, False, True]),
        ("DECIMAL(20, 2)", [None, Decimal(-5), Decimal("-1.50"), Decimal(0), Decimal("1.5")]),
        ("TIMESTAMP(6)", [None, -1, 0, 1]),
    ],
)
def test_order_is_java_s(text, ascending):
    """Nulls first; -0.0 before 0.0, NaN last; texts and binaries by their unsigned bytes."""
    keys = [comparable_key([value], types(text)) for value in ascending]
    assert all(one < two for one, two in pairwise(keys))


def test_all_nans_are_equal_in_order():
    """Whatever its bits, a NaN is one value."""
    other = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    assert comparable_key([float("nan")], types("DOUBLE")) == comparable_key([other], types("DOUBLE"))


def test_composite_keys_compare_column_by_column():
    """The first column decides, then the next."""
    kinds = types("STRING", "INT")
    keys = [comparable_key(values, kinds) for values in [("a", 2), ("a", 10), ("b", None), ("b", 0)]]
    assert keys == sorted(keys)
