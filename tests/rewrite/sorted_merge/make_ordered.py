"""Rows of any types, their order in plain Python, and files made of them."""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from packstone.rewrite.merge_tree.spec import pack_schema
from packstone.rewrite.sorted_merge.merge import merge_ordered
from packstone.rewrite.sorted_merge.spec import BlockOutput, OrderedFile, OrderedMergeSpec
from packstone.rewrite.sorted_merge.verify import verify_ordered
from packstone.storage.memory import MemoryFileIO

FOLDER = "/t"
TEXTS = st.builds(
    lambda head, tail: head + tail,
    st.sampled_from(["", "customer-0000-0000-", "x" * 300, "ä"]),
    st.text(alphabet="ab\0é\U0001f600", max_size=6),
)
SORT_TYPES = {
    "boolean": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.sampled_from([-(2**63), 2**63 - 1, 0]) | st.integers(-5, 5)),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, math.nan]) | st.floats(width=32)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.inf]) | st.floats()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-99999, 99999, places=2)),
    "big decimal": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), st.binary(max_size=20) | st.just(b"\xff" * 300)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**15)),
    "timestamp_ntz": (pa.timestamp("us"), st.datetimes()),
}
NESTED_TYPES = {
    "list": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.float64())]),
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.floats(-5, 5)}),
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9)).map(lambda found: list(found.items())),
    ),
}


def sort_value(value):
    """A value as Java compares it: nulls first, -0.0 below 0.0, NaN last and all equal, texts by bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 1, 0.0, 0)
        return (1, 0, value, math.copysign(1, value))
    return (1, value.encode() if isinstance(value, str) else value)


def sort_key(row, sort_columns):
    """What rows are sorted by."""
    return tuple(sort_value(row[name]) for name in sort_columns)


def _identity(value):
    """A value that can be counted, and is equal only to what is really the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return tuple((name, _identity(item)) for name, item in value.items())
    return tuple(map(_identity, value)) if isinstance(value, list | tuple) else value


def count_rows(table):
    """The multiset of rows."""
    return Counter(tuple(map(_identity, row.values())) for row in table.to_pylist())


def is_sorted(table, sort_columns):
    """Whether rows are in order."""
    keys = [sort_key(row, sort_columns) for row in table.select(list(sort_columns)).to_pylist()]
    return all(a <= b for a, b in itertools.pairwise(keys))


@st.composite
def tables(draw, *, max_rows=40):
    """A schema with one to three sort columns and some others, and rows of few different values."""
    kinds = draw(st.lists(st.sampled_from(sorted(SORT_TYPES)), min_size=1, max_size=3))
    others = draw(st.lists(st.sampled_from(sorted({**SORT_TYPES, **NESTED_TYPES})), max_size=3))
    fields, columns = [], []
    rows = draw(st.integers(0, max_rows))
    places = draw(st.permutations(range(len(kinds) + len(others))))
    for at, kind in enumerate([*kinds, *others]):
        arrow, values = {**SORT_TYPES, **NESTED_TYPES}[kind]
        pool = draw(st.lists(st.none() | values, min_size=1, max_size=6))
        fields.append(pa.field(f"k{at}" if at < len(kinds) else f"v{at}", arrow))
        columns.append(pa.array(draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows)), arrow))
    # Nested columns may stand before sort columns: footers then number the columns otherwise.
    schema = pa.schema([fields[at] for at in places])
    table = pa.table([columns[at] for at in places], schema=schema)
    return table, tuple(f"k{at}" for at in range(len(kinds)))


def sort_table(table, sort_columns):
    """Sort in plain Python."""
    rows = table.select(list(sort_columns)).to_pylist()
    order = sorted(range(table.num_rows), key=lambda at: sort_key(rows[at], sort_columns))
    return table.take(pa.array(order, pa.int64()))


def put_file(io, name, table, *, row_group_size=7):
    """Write a Parquet file into memory."""
    path = f"{FOLDER}/{name}"
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_group_size, store_schema=False)
    data = sink.getvalue().to_pybytes()
    io.make_dirs(FOLDER)
    io.replace(path, data)
    return OrderedFile(path=path, size_bytes=len(data), rows=table.num_rows)


def make_spec(table, sort_columns, **options):
    """What to do with files of such rows."""
    output = BlockOutput(
        directory=FOLDER,
        block_rows=options.pop("block_rows", 10),
        target_bytes=options.pop("target_bytes", 256 << 20),
        sort_columns=sort_columns,
    )
    return OrderedMergeSpec(arrow_schema=pack_schema(table.schema), sort_columns=sort_columns, output=output, **options)


def merge(io, spec):
    """Merge, verify, and return the result."""
    result = merge_ordered(io, spec, name_file=lambda at: f"out-{at}.parquet")
    verify_ordered(io, spec, result.files)
    return result


def read_back(io, result, schema):
    """The rows of all outputs, file after file."""
    found = [pq.read_table(pa.BufferReader(io.read_bytes(file.path))).cast(schema) for file in result.files]
    return pa.concat_tables([schema.empty_table(), *found])


def make_io():
    """Storage in memory."""
    return MemoryFileIO()


def names_in(io):
    """What is in the folder."""
    return sorted(entry.name for entry in io.list_dir(FOLDER))
