"""Avro by columns gives what Avro by records gives."""

import io
from contextlib import suppress

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.formats.avro_file import read_columns, write_records

SCHEMA = {
    "type": "record",
    "name": "outer",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "skip_double", "type": "double"},
        {"name": "maybe", "type": ["null", "long"]},
        {"name": "text", "type": "string"},
        {"name": "skip_array", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "skip_map", "type": {"type": "map", "values": "string"}},
        {"name": "skip_fixed", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "skip_again", "type": "four"},
        {"name": "skip_enum", "type": {"type": "enum", "name": "e", "symbols": ["a", "b"]}},
        {"name": "skip_bool", "type": "boolean"},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "inside",
                "fields": [
                    {"name": "raw", "type": ["null", "bytes"]},
                    {"name": "list", "type": {"type": "array", "items": "string"}},
                    {"name": "small", "type": "int"},
                ],
            },
        },
    ],
}
RECORD = st.fixed_dictionaries(
    {
        "n": st.integers(-(2**63), 2**63 - 1),
        "skip_double": st.floats(allow_nan=False),
        "maybe": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.text(max_size=100),
        "skip_array": st.lists(st.none() | st.integers(-100, 2**40), max_size=5),
        "skip_map": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        "skip_fixed": st.binary(min_size=4, max_size=4),
        "skip_again": st.binary(min_size=4, max_size=4),
        "skip_enum": st.sampled_from("ab"),
        "skip_bool": st.booleans(),
        "inner": st.fixed_dictionaries(
            {
                "raw": st.none() | st.binary(max_size=80),
                "list": st.lists(st.text(max_size=5), max_size=3),
                "small": st.integers(-(2**31), 2**31 - 1),
            }
        ),
    }
)
WANTED = frozenset({"n", "maybe", "text", "inner.raw", "inner.list", "inner.small", "not.there"})


def avro(records, *, sync_interval):
    """A file of another writer with blocks of a given size."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, SCHEMA, records, sync_interval=sync_interval, codec="deflate")
    return buffer.getvalue()


def rows(table):
    """Columns as tuples of values again."""

    def span(name, row):
        column = table.columns[name]
        if not column.present[row]:
            return None
        start = int(column.starts[row])
        return table.body[start : start + int(column.values[row])]

    numbers = table.columns
    return [
        (
            int(numbers["n"].values[row]),
            int(numbers["maybe"].values[row]) if numbers["maybe"].present[row] else None,
            span("text", row).decode(),
            span("inner.raw", row),
            int(numbers["inner.list"].values[row]),
            int(numbers["inner.small"].values[row]),
        )
        for row in range(sum(table.file_rows))
    ]


@given(st.lists(st.lists(RECORD, max_size=12), min_size=1, max_size=3), st.sampled_from([1, 100, 100_000]))
def test_columns_hold_what_records_hold(files, sync_interval):
    """Whatever the records, the block size and the number of files: every wanted field of every record, in order."""
    named = [(f"f{number}", avro(records, sync_interval=sync_interval)) for number, records in enumerate(files)]
    table = read_columns(named, wanted=WANTED)
    expected = [
        (one["n"], one["maybe"], one["text"], one["inner"]["raw"], len(one["inner"]["list"]), one["inner"]["small"])
        for records in files
        for one in records
    ]
    assert rows(table) == expected
    assert table.file_rows == tuple(map(len, files))
    assert "not.there" not in table.columns


SMALL = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}


def test_arrays_in_parts_with_sizes_are_walked_over():
    """A writer may give the size of a part of an array, so that readers can jump over it."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}},
                                                        {"name": "n", "type": "long"}]}  # fmt: skip
    data = write_records(schema, [{"a": [], "n": 7}], codec="null")
    sized = bytes([0x03, 0x04, 0x02, 0x04, 0x02, 0x06, 0x00, 0x0E])  # -2 items in 2 bytes; 1 item; end; n = 7
    at = data.index(b"\x02\x04\x00\x0e")  # one record of two bytes
    changed = data[:at] + bytes([0x02, len(sized) * 2]) + sized + data[at + 4 :]
    assert list(fastavro.reader(io.BytesIO(changed))) == [{"a": [1, 2, 3], "n": 7}]
    assert read_columns([("p", changed)], wanted=frozenset({"n"})).columns["n"].values.tolist() == [7]


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damage_never_raises_anything_else(at, flip):
    """A changed byte is noticed or harmless; it never crashes the reader or makes it read outside the file."""
    data = bytearray(write_records(SMALL, [{"n": n, "t": "x" * n} for n in range(100)], codec="null"))
    data[at % len(data)] ^= flip
    with suppress(CorruptionError, InvalidInputError):
        read_columns([("p", bytes(data))], wanted=frozenset({"n", "t"}))


def test_of_many_files_the_damaged_one_is_named():
    """Files are walked through together, but the error names the right one."""
    good = write_records(SMALL, [{"n": 1, "t": "abc"}], codec="null")
    bad = good.replace(b"\x06abc", b"\x7fabc")
    with pytest.raises(CorruptionError, match="A record of bad cannot be read"):
        read_columns([("good", good), ("bad", bad), ("later", good)], wanted=frozenset({"n"}))


def test_a_file_without_records_has_no_rows():
    """An empty file among others changes nothing."""
    empty, one = write_records(SMALL, [], codec="zstd"), write_records(SMALL, [{"n": 5, "t": ""}], codec="zstd")
    table = read_columns([("a", empty), ("b", one), ("c", empty)], wanted=frozenset({"n"}))
    assert (table.file_rows, table.columns["n"].values.tolist()) == ((0, 1, 0), [5])
    assert read_columns([("a", empty)], wanted=frozenset({"n"})).file_rows == (0,)
