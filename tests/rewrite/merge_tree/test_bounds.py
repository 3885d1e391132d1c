"""What a written file states of its floats and times hides no row, and values change for nobody."""

from __future__ import annotations

import dataclasses
import math
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from make_runs import FOLDER, make_file, make_io, make_schema, make_spec, merge, read_back, replace_output, with_keys

from packstone.errors import RefusedError
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge_tree.merge import run_append
from packstone.rewrite.merge_tree.spec import (
    AppendSpec,
    ColumnFacts,
    ColumnSource,
    DataFormat,
    OutputSpec,
    pack_schema,
)
from packstone.tables.paimon.format.binary_row import decode_row
from packstone.tables.paimon.format.data_file import parse_stats_mode, value_stats
from packstone.tables.paimon.format.data_type import DataField, parse_data_type

FORMATS = [DataFormat.PARQUET, DataFormat.ORC, DataFormat.AVRO]
FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1.5, 2.0**100, -(2.0**100), None]
TEXTS = ["", "a", "a" * 16, "a" * 17, "é" * 20, "\ud7ff" * 18, "\U0010ffff" * 17, "z\U0010ffff" * 9, "b" * 40, None]
NESTED = pa.struct([("d", pa.float64()), ("l", pa.list_(pa.float32())), ("m", pa.map_(pa.string(), pa.float64()))])
DAY_NS = 86_400 * 10**9
JULIAN_1970 = 2_440_588


def append(io, schema, rows, *, file_format=DataFormat.PARQUET, block_bytes=128 << 20):
    """Write rows without keys into one file."""
    file = make_file(io, "in", rows, schema)
    output = OutputSpec(directory=FOLDER, file_format=file_format, block_bytes=block_bytes)
    spec = AppendSpec(inputs=(file,), arrow_schema=pack_schema(schema), output=output)
    (written,) = run_append(io, spec, name_file=lambda at: f"out-{at}.{file_format}").files
    return written


def footer(io, written):
    """The statistics of the first row group by column."""
    metadata = pq.read_metadata(pa.BufferReader(io.read_bytes(written.path)))
    group = metadata.row_group(0)
    return {group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)}


def java_order(value):
    """As Double.compareTo: -0.0 before 0.0, NaN last."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))


def may_hold(operation, literal, low, high, *, key):
    """Whether Java or pypaimon reads a file with these bounds."""
    if low is None or high is None:
        return True
    low, high, literal = key(low), key(high), key(literal)
    return {
        "=": low <= literal <= high,
        "<>": not low == literal == high,
        "<": low < literal,
        "<=": low <= literal,
        ">": high > literal,
        ">=": high >= literal,
    }[operation]


def matches(operation, value, literal, *, key):
    """Whether a row matches."""
    value, literal = key(value), key(literal)
    return {
        "=": value == literal,
        "<>": value != literal,
        "<": value < literal,
        "<=": value <= literal,
        ">": value > literal,
        ">=": value >= literal,
    }[operation]


def stated(facts, text, mode):
    """Smallest and largest value as the manifest has them."""
    kind = parse_data_type(text)
    stats, _ = value_stats(
        [facts], [DataField(id=0, name=facts.name, type=kind)], [parse_stats_mode(mode)], dense=False
    )
    return decode_row(stats.min_values, [kind])[0], decode_row(stats.max_values, [kind])[0]


@pytest.mark.parametrize(
    "cases", [pytest.param(400, id="short"), pytest.param(6000, id="long", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("file_format", FORMATS)
def test_no_bound_hides_a_matching_row(file_format, cases):
    """Random columns, random filters: neither the manifest nor the footer lets Java or pypaimon skip a match."""
    rng = random.Random(f"bounds {file_format}")
    schema = pa.schema([("x", pa.float64()), ("f", pa.float32()), ("s", pa.string())])
    io = make_io()
    for _ in range(cases // 40):
        rows = [
            {"x": rng.choice(FLOATS[:n]), "f": rng.choice(FLOATS[-n:]), "s": rng.choice(TEXTS)}
            for n in [rng.randint(2, len(FLOATS))]
            for _ in range(rng.randint(1, 6))
        ]
        written = append(io, schema, rows, file_format=file_format)
        facts = {one.name: one for one in written.columns}
        bounds = {name: [stated(facts[name], kind, "truncate(16)")] for name, kind in KINDS.items()}
        if file_format is DataFormat.PARQUET:
            for name, found in footer(io, written).items():
                if found is not None and found.has_min_max and name != "s":
                    bounds[name].append((found.min, found.max))
        for _ in range(40):
            ask_column(rng, rows, bounds)
        io.remove(written.path)
        io.remove(f"{FOLDER}/in.parquet")


KINDS = {"x": "DOUBLE", "f": "FLOAT", "s": "STRING"}


def ask_column(rng, rows, bounds):
    """One random filter on one column, in each reader's order."""
    name, operation = rng.choice(list(KINDS)), rng.choice(["=", "<>", "<", "<=", ">", ">="])
    literal = rng.choice([one for one in (TEXTS if name == "s" else FLOATS) if one is not None])
    values = [row[name] for row in rows if row[name] is not None]
    orders = [str.encode] if name == "s" else [java_order, float]
    for low, high in bounds[name]:
        for key in orders:
            found = [value for value in values if matches(operation, value, literal, key=key)]
            assert not found or may_hold(operation, literal, low, high, key=key), (operation, literal, low, high)


def test_a_chunk_with_nan_has_no_bounds_in_the_footer():
    """Also inside structs, lists and maps; null counts stay, and so do the bounds of other columns and row groups."""
    io = make_io()
    schema = pa.schema([("i", pa.int64()), ("x", pa.float64()), ("y", pa.float64()), ("n", NESTED), ("z", NESTED)])
    nan = {"d": math.nan, "l": [1.0, math.nan], "m": [("a", math.nan)]}
    fine = {"d": 1.0, "l": [1.0], "m": [("a", 1.0)]}
    rows = [
        {"i": at, "x": (math.nan, 1.0, None)[at], "y": 2.0, "n": (nan, fine, None)[at], "z": fine} for at in range(3)
    ]
    found = footer(io, append(io, schema, rows))
    with_bounds = {path for path, one in found.items() if one is not None and one.has_min_max}
    assert with_bounds == {
        "i",
        "y",
        "n.m.key_value.key",
        "z.d",
        "z.l.list.element",
        "z.m.key_value.key",
        "z.m.key_value.value",
    }
    assert found["x"].null_count == 1


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_column_with_nan_has_no_bounds(file_format):
    """The facts state none of it and exact ones of the column beside; zeros have the sign that makes them extreme."""
    io = make_io()
    schema = pa.schema([("x", pa.float64()), ("y", pa.float32())])
    written = append(
        io, schema, [{"x": 1.0, "y": 0.0}, {"x": math.nan, "y": -1.0}, {"x": None, "y": -0.0}], file_format=file_format
    )
    x, y = written.columns
    assert (x.minimum, x.maximum, x.null_count) == (None, None, 1)
    assert (y.minimum, y.maximum, math.copysign(1, y.maximum)) == (-1.0, 0.0, 1.0)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(("values", "bounds"), [([b"a", b"b\x7f"], (b"a", b"b\x7f")), ([b"a", b"\x80"], (None, None))])
def test_binaries_have_bounds_only_where_all_readers_agree(file_format, values, bounds):
    """A byte from 0x80 is negative for Java Paimon up to 1.4, so a column with one has no bounds."""
    io = make_io()
    rows = [{"b": value} for value in [*values, None]]
    (facts,) = append(io, pa.schema([("b", pa.binary())]), rows, file_format=file_format).columns
    assert (facts.minimum, facts.maximum, facts.null_count) == (*bounds, 1)


def test_a_cut_binary_is_raised_without_a_negative_byte():
    """The largest value of 0x7f has no next one that every reader takes for larger."""
    facts = ColumnFacts(name="b", minimum=b"a", maximum=b"b\x7f\x7fc", null_count=0)
    assert stated(facts, "BYTES", "truncate(3)") == (b"a", b"c")
    assert stated(dataclasses.replace(facts, maximum=b"\x7f" * 4), "BYTES", "truncate(3)") == (None, None)


def test_nanoseconds_beside_coarser_times():
    """Nanoseconds are INT96 and coarser units INT64 with their type, as Java writes them, also inside other types."""
    io = make_io()
    inner = pa.struct([("a", pa.timestamp("ns")), ("b", pa.timestamp("us", tz="UTC"))])
    values = [("t", pa.timestamp("ns")), ("u", pa.timestamp("ms")), ("n", inner), ("l", pa.list_(pa.timestamp("ms")))]
    schema = make_schema([("k", pa.int64())], [*values, ("m", pa.map_(pa.string(), pa.timestamp("us")))])
    instant = {"t": -5, "u": -7, "n": {"a": 9, "b": -11}, "l": [-1, None], "m": [("x", 13)]}
    record = with_keys({"k": 1, "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0, **instant}, ["k"])
    empty = with_keys({"k": 2, "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0}, ["k"])
    spec = make_spec(io, [[record, empty]], schema)
    (written,) = merge(io, spec).files
    file = pq.ParquetFile(pa.BufferReader(io.read_bytes(written.path)))
    columns = {file.schema.column(at).path: file.schema.column(at) for at in range(len(file.schema))}
    kinds = {path: (column.physical_type, column.logical_type.type) for path, column in columns.items()}
    assert (kinds["t"], kinds["n.a"]) == (("INT96", "NONE"), ("INT96", "NONE"))
    coarse = {"u", "n.b", "l.list.element", "m.key_value.value"}
    assert {path for path, kind in kinds.items() if kind == ("INT64", "TIMESTAMP")} == coarse
    assert file.schema_arrow.field("u").type == pa.timestamp("ms")
    expected = pa.Table.from_pylist([record, empty], schema=schema).to_pylist()
    assert read_back(io, [written], schema) == expected
    (low,) = (one.minimum for one in written.columns if one.name == "u")
    assert low == -7


def int96_file(io, name, day, nanos):
    """A file with one INT96 of these bytes."""
    ordinary = 1_577_836_800_000_000_000
    schema = pa.schema([("t", pa.timestamp("ns")), ("n", pa.struct([("t", pa.timestamp("ns"))]))])
    table = pa.Table.from_pylist([{"t": ordinary, "n": {"t": ordinary}}], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none")
    before = struct.pack("<qi", ordinary % DAY_NS, ordinary // DAY_NS + JULIAN_1970)
    data = sink.getvalue().to_pybytes().replace(before, struct.pack("<qi", nanos, day + JULIAN_1970))
    io.write_new(f"{FOLDER}/{name}.parquet", data)
    described = make_file(io, f"{name}-other", table.to_pylist(), schema)
    return dataclasses.replace(described, path=f"{FOLDER}/{name}.parquet", size_bytes=len(data)), schema


@pytest.mark.parametrize(
    ("day", "nanos"), [(-1, DAY_NS - 5), (0, -5), (-5173, 22_500_000_123_456), (-5172, 22_500_000_123_456 - DAY_NS)]
)
def test_times_before_1970_in_both_forms(day, nanos):
    """Flink and Paimon store negative nanoseconds of the day after, others positive ones: both are the same instant."""
    io = make_io()
    file, schema = int96_file(io, "f", day, nanos)
    (batch,) = read_rows(io, file, schema)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [day * DAY_NS + nanos]


@pytest.mark.parametrize(
    ("day", "nanos"),
    [(-171_662, 123_456_789), (-171_661, 123_456_789 - DAY_NS), (500_000, 0), (-(2**31) + JULIAN_1970, 1)],
)
def test_times_that_nanoseconds_do_not_hold_are_refused(day, nanos):
    """PyArrow makes other centuries of them without a word, in some forms in every unit."""
    io = make_io()
    file, schema = int96_file(io, "f", day if day > -(2**30) else -2_440_588, nanos)
    with pytest.raises(RefusedError, match="outside 1677-2262"):
        list(read_rows(io, file, schema))
    with pytest.raises(RefusedError, match="outside 1677-2262"):  # inside a row too
        list(read_rows(io, file, pa.schema([schema.field("n")])))


LENGTHS = [
    (pa.string(), ["ab", None, "cde"], 0, 3, True),
    (pa.string(), ["ab", "cdef"], 0, 3, False),
    (pa.string(), ["äöü"], 0, 3, True),  # characters, not bytes
    (pa.string(), ["ab"], 4, 4, False),  # CHAR(4) is padded
    (pa.string(), ["abcd"], 4, 4, True),
    (pa.binary(), [b"ab", b""], 0, 2, True),
    (pa.binary(), [b"abc"], 0, 2, False),
    (pa.binary(), [b"a"], 2, 2, False),
    (pa.string(), [None], 4, 4, True),
]


@pytest.mark.parametrize(("kind", "values", "low", "high", "is_fine"), LENGTHS)
def test_a_value_that_readers_cut_or_pad_is_refused(kind, values, low, high, is_fine):
    """A text or binary whose length changed is taken only if every value is already what readers make of it."""
    io = make_io()
    schema = pa.schema([("v", kind)])
    source = ColumnSource(target="v", source="v", min_length=low, max_length=high)
    file = make_file(io, "old", [{"v": value} for value in values], schema, sources=(source,))
    if is_fine:
        assert pa.Table.from_batches(read_rows(io, file, schema)).column("v").to_pylist() == values
    else:
        with pytest.raises(RefusedError, match="column v holds values of"):
            list(read_rows(io, file, schema))


@pytest.mark.parametrize("file_format", FORMATS)
def test_nulls_of_an_older_schema_are_refused_where_a_column_is_not_null_now(file_format):
    """No format stores them, and nothing is written."""
    io = make_io()
    schema = make_schema([("k", pa.int64())], [("v", pa.int64())])
    record = with_keys({"k": 1, "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0, "v": None}, ["k"])
    spec = replace_output(make_spec(io, [[record]], schema), file_format=file_format)
    strict = schema.set(schema.get_field_index("v"), pa.field("v", pa.int64(), nullable=False))
    with pytest.raises(RefusedError, match="column v is NOT NULL"):
        merge(io, dataclasses.replace(spec, arrow_schema=pack_schema(strict)))
