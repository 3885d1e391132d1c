"""A merged Parquet file gives a reader the same facts as its inputs: schema, metadata, codec, order, indexes."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import uuid
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from packstone import HiveOptions, Table
from packstone.rewrite.small_files import parquet_splice as splice_plan

BERLIN = "Europe/Berlin"
KEPT = {b"writer.model.name": b"example", b"org.apache.spark.timeZone": b"UTC", b"\xff": b"\xfe"}

# What DuckDB calls the logical type that an old-style annotation alone means.
LOGICAL = {
    "UTF8": "StringType()",
    "LIST": "ListType()",
    "MAP": "MapType()",
    "DATE": "DateType()",
    **{
        f"{sign}INT_{bits}": f"IntType(bitWidth={chr(bits)}, isSigned={int(not sign)})"
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
}
PLAIN_INTEGERS = (LOGICAL["INT_32"], LOGICAL["INT_64"])


def schema_of(path):
    """The schema as DuckDB sees it, without the root's name.

    An old-style annotation counts as the logical type it means: PyArrow writes both. That a 32-bit integer is a
    signed 32-bit integer is not news either.
    """
    columns = "name, type, type_length, repetition_type, num_children, scale, precision, field_id"
    query = f"select converted_type, logical_type, {columns} from parquet_schema(?)"
    found = duckdb.execute(query, [str(path)]).fetchall()
    return [(*row[2:], _logical(row[0], row[1])) for row in found[1:]]


def _logical(converted, logical):
    meaning = logical or LOGICAL.get(converted, converted)
    return None if meaning in PLAIN_INTEGERS else meaning


def merge(folder, **options):
    """Merge all files of a folder; return the only one left."""
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2, **options))
    assert [skip.why for skip in outcome.skipped] == []
    (merged,) = [path for path in folder.iterdir() if path.is_file()]
    return merged


def why_not(folder, **options):
    """Why the files of a folder are left alone, planned and run alike."""
    before = sorted(path.name for path in folder.iterdir())
    hive = Table(str(folder))
    plan = hive.plan(HiveOptions(min_files=2, **options)).outcome
    outcome = hive.compact(HiveOptions(min_files=2, **options))
    assert plan.units == outcome.units == ()
    assert sorted(path.name for path in folder.iterdir()) == before
    return outcome.skipped[0].why


@pytest.fixture(autouse=True, params=["pages copied", "encoded again"])
def way(request, monkeypatch):
    """Both ways to merge: pages are copied where they can be, however small they are, or never."""
    monkeypatch.setattr(splice_plan, "_MIN_PAGE_VALUES", 0)
    monkeypatch.setattr(splice_plan, "_MIN_COPIED_PCT", 0 if request.param == "pages copied" else 101)
    return request.param


@pytest.fixture
def folder(tmp_path) -> Path:
    """An empty table."""
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def write_twice(folder, table, **options):
    """Write the same rows as two files; return the first."""
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(table, folder / name, **options)
    return folder / "a.parquet"


def write_with_notes(path, notes):
    """Write a file with these key-values and no others."""
    table = pa.table({"a": [1]})
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(notes)


def array(values, kind):
    """Values of a type, with a null."""
    return pa.array([*values, None], kind)


NESTED = pa.list_(pa.list_(pa.struct({"a": pa.list_(pa.int8()), "m": pa.map_(pa.string(), pa.list_(pa.float32()))})))
ARRAYS = {
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "dictionary of integers": pa.array([1, 2, None]).dictionary_encode(),
    "ordered dictionary": pa.DictionaryArray.from_arrays([0, 1], ["a", "b"], ordered=True),
    "list of dictionary": pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()),
    "struct of dictionary": pa.StructArray.from_arrays([pa.array(["a", "b"]).dictionary_encode()], ["d"]),
    "uuid": array([uuid.UUID(int=7).bytes], pa.uuid()),
    "json": array(['{"a": 1}'], pa.json_()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), array([1], pa.int8())),
    "fixed bytes": array([b"abc"], pa.binary(3)),
    "float16": pa.array(np.array([1, 2.5, np.nan, -0.0], dtype="float16")),
    "duration": array([1], pa.duration("us")),
    "date64": array([86_400_000], pa.date64()),
    "null": pa.nulls(2),
    "large list": array([[1], []], pa.large_list(pa.int8())),
    "fixed list": array([[1, 2]], pa.list_(pa.int8(), 2)),
    "list view": array([[1, 2]], pa.list_view(pa.int8())),
    "large string": array(["a"], pa.large_string()),
    "string view": array(["a", "a long string, not inlined"], pa.string_view()),
    "binary view": array([b"a"], pa.binary_view()),
    "map": array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
    "sorted map": array([[("a", 1)]], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
    "map of required": array([[("a", 1)]], pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
    "nested": array([[[{"a": [1, None], "m": [("k", [1.5])]}], None]], NESTED),
    "required element": array([[1]], pa.list_(pa.field("element", pa.int8(), nullable=False))),
    **{f"time {unit}": array([1], kind(unit)) for kind, units in ((pa.time32, ("s", "ms")), (pa.time64, ("us", "ns")))
       for unit in units},
    **{f"timestamp {unit} {zone}": array([10**9], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns")
       for zone in (None, "UTC", BERLIN)},
    **{f"decimal {p}": array([decimal.Decimal(5)], pa.decimal128(p, 0)) for p in range(1, 39)},
    "decimal 60": array([decimal.Decimal(5)], pa.decimal256(60, 3)),
    "decimal32": array([decimal.Decimal(5)], pa.decimal32(5, 3)),
    "decimal64": array([decimal.Decimal(5)], pa.decimal64(15, 3)),
}  # fmt: skip
if int(pa.__version__.split(".")[0]) < 26:
    del ARRAYS["fixed list"]  # these cannot read a null in one, not even their own
WRITERS = {
    "as it is": {},
    "without ARROW:schema": {"store_schema": False},
    "old element names": {"use_compliant_nested_type": False},
    "decimals as integers": {"store_decimal_as_integer": True},
    "int96": {"use_deprecated_int96_timestamps": True},
    "times in utc": {"write_time_adjusted_to_utc": True},
    "format 1.0": {"version": "1.0"},
    "pages of version 2": {"data_page_version": "2.0", "use_dictionary": False},
}


@pytest.mark.parametrize("writer", WRITERS)
def test_schema_and_metadata_are_kept_for_every_type(folder, writer):
    """Names, types, repetition, logical types and ARROW:schema come back byte for byte, in all ways PyArrow writes."""
    columns = {
        name: pa.concat_arrays([values, pa.nulls(4 - len(values), values.type)]) for name, values in ARRAYS.items()
    }
    first = write_twice(folder, pa.table(columns).replace_schema_metadata(KEPT), **WRITERS[writer])
    schema, notes, seen = pq.read_schema(first), pq.read_metadata(first).metadata, schema_of(first)
    rows = pq.read_table(first, partitioning=None).to_pylist()

    merged = merge(folder)

    assert schema_of(merged) == seen
    assert pq.read_metadata(merged).metadata == notes
    assert pq.read_schema(merged).equals(schema, check_metadata=True)
    assert str(pq.read_table(merged, partitioning=None).to_pylist()) == str(2 * rows)


def test_names_ids_and_requirements_are_kept(folder):
    """Field ids, nullability at every depth, field metadata, odd and doubled column names come back."""
    inner = pa.struct([pa.field("b", pa.string(), nullable=False, metadata={b"PARQUET:field_id": b"9"})])
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False, metadata={b"PARQUET:field_id": b"7", b"comment": b"hi"}),
            pa.field("s", inner, nullable=False),
            pa.field("日本 🙂", pa.int64()),
            pa.field("x.y", pa.int64()),
            pa.field("", pa.int64()),
            pa.field("twice", pa.int64()),
            pa.field("twice", pa.string()),
        ]
    )
    row = [pa.array([1], pa.int32()), pa.array([{"b": "x"}], inner), *[pa.array([2])] * 4, pa.array(["z"])]
    first = write_twice(folder, pa.table(row, schema=schema), compression={"x.y": "ZSTD"})
    seen, arrow = schema_of(first), pq.read_schema(first)

    merged = merge(folder)

    assert schema_of(merged) == seen
    assert pq.read_schema(merged).equals(arrow, check_metadata=True)
    assert {row[7] for row in schema_of(merged)} >= {7, 9}


def test_no_arrow_schema_is_added(folder):
    """Files without ARROW:schema become a file without it; their own keys stay."""
    for at in range(2):
        write_with_notes(folder / f"{at}.parquet", KEPT)
    assert pq.read_metadata(merge(folder)).metadata == KEPT


def test_pandas_index_survives(folder):
    """Pandas reads its index back, although the range in its note differs from file to file."""
    for at in range(3):
        pd.DataFrame({"x": [at, at]}, index=pd.Index([f"r{at}", "s"], name="key")).to_parquet(folder / f"{at}.parquet")
    frame = pd.read_parquet(merge(folder))
    assert list(frame.columns) == ["x"]
    assert list(frame.index) == ["r0", "s", "r1", "s", "r2", "s"]


def test_pandas_range_does_not_separate(folder):
    """Frames of different length differ only in the range of their row index, so they merge; pandas sees all rows."""
    for at in range(3):
        pd.DataFrame({"x": list(range(at + 1))}).to_parquet(folder / f"{at}.parquet")
    merged = merge(folder)
    frame = pd.read_parquet(merged)
    assert frame["x"].tolist() == [0, 0, 1, 0, 1, 2]
    assert pandas_ranges(merged) == [{"kind": "range", "name": None, "start": 0, "stop": 6, "step": 1}]


def test_pandas_range_of_a_file_of_copied_pages(folder):
    """A file that was made by copying pages states the range of all its rows too."""
    for at in range(3):
        frame = pd.DataFrame({"x": np.arange(2000) * 1.5 + at})
        pq.write_table(pa.Table.from_pandas(frame), folder / f"{at}.parquet", use_dictionary=False)
    merged = merge(folder)
    assert [index["stop"] for index in pandas_ranges(merged)] == [6000]
    assert list(pd.read_parquet(merged).index[[0, -1]]) == [0, 5999]


@pytest.mark.parametrize(
    "index", [{"start": 0, "name": "key"}, {"start": 7}, {"start": 0, "step": 2}], ids=["named", "later", "steps"]
)
def test_an_index_that_only_the_footer_holds_is_left_alone(folder, index):
    """A range is the only copy of pandas' row index: such files stay as they are, and the reason names it."""
    start, step, name = index["start"], index.get("step", 1), index.get("name")
    for at in range(6):
        first = start + at * 3 * step
        rows = pd.RangeIndex(first, first + 3 * step, step, name=name)
        pd.DataFrame({"x": [1, 2, 3]}, index=rows).to_parquet(folder / f"{at}.parquet")
    if start == 0:  # the first of them alone might be an index of pandas' making
        (folder / "0.parquet").unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert (outcome.units, {path: path.read_bytes() for path in folder.iterdir()}) == ((), before)
    assert len(outcome.skipped) >= len(before)
    assert all(f"pandas' row index{' key' if name else ''} (" in skip.why for skip in outcome.skipped[: len(before)])


def pandas_ranges(path):
    """The index in pandas' note, which is in the footer twice."""
    note = json.loads(pq.read_metadata(path).metadata[b"pandas"])["index_columns"]
    assert pq.read_schema(path).pandas_metadata["index_columns"] == note
    return note


DUCKDB_TYPES = [
    *("1::tinyint", "1::smallint", "1::integer", "1::bigint", "1::hugeint", "1::utinyint", "1::usmallint"),
    *("1::uinteger", "1::ubigint", "1.5::float", "1.5::double", "1.5::decimal(4,1)", "1.5::decimal(18,1)"),
    *("1.5::decimal(38,1)", "'x'", "'x'::blob", "date '9999-12-31'", "date '0001-01-01'", "timestamp '2020-01-01'"),
    *("timestamptz '2020-01-01 00:00:00+00'", "'2020-01-01'::timestamp_ns", "'2020-01-01'::timestamp_s", "true"),
    *("'2020-01-01'::timestamp_ms", "time '01:00:00'", "[1, null]", "{'a': 1}", "map{'a': 1}"),
    *("uuid()", "'{}'::json", "'a'::enum('a', 'b')", "'101'::bit", "[1, 2]::int[2]", "null"),
]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_files_of_duckdb(folder, version):
    """What DuckDB writes of all its types merges, and DuckDB reads the same types and rows."""
    for name in ("a", "b"):
        columns = ", ".join(f"{expression} as c{at}" for at, expression in enumerate(DUCKDB_TYPES))
        target = f"'{folder}/{name}.parquet' (format parquet, parquet_version {version}, kv_metadata {{who: 'me'}})"
        duckdb.sql(f"copy (select {columns}) to {target}")
    first = folder / "a.parquet"
    seen, described = schema_of(first), duckdb.read_parquet(str(first)).types
    rows = duckdb.read_parquet(f"{folder}/*.parquet").fetchall()

    merged = merge(folder)

    assert schema_of(merged) == seen
    assert duckdb.read_parquet(str(merged)).types == described
    assert sorted(map(str, duckdb.read_parquet(str(merged)).fetchall())) == sorted(map(str, rows))
    assert pq.read_metadata(merged).metadata[b"who"] == b"me"


def test_files_of_polars(folder):
    """What Polars writes of all its types merges, and Polars reads the same types and rows."""
    now = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a naive time is the case
    frame = pl.DataFrame(
        {
            "text": ["x", None],
            "list": [[1], None],
            "struct": [{"a": 1}, None],
            "categorical": pl.Series(["a", "b"], dtype=pl.Categorical),
            "enum": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])),
            "time": [dt.time(1), None],
            "stamp": [now, None],
            "zoned": pl.Series([now] * 2).dt.replace_time_zone(BERLIN),
            "duration": [dt.timedelta(1), None],
            "decimal": [decimal.Decimal("1.5"), None],
            "bytes": [b"x", None],
            "small": pl.Series([1, 2], dtype=pl.Int8),
            "unsigned": pl.Series([1, 2], dtype=pl.UInt8),
            "null": pl.Series([None, None], dtype=pl.Null),
            "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)),
        }
    )
    for name in ("a", "b"):
        frame.write_parquet(folder / f"{name}.parquet")
    seen, notes = schema_of(folder / "a.parquet"), pq.read_metadata(folder / "a.parquet").metadata

    merged = merge(folder)

    assert schema_of(merged) == seen
    assert pq.read_metadata(merged).metadata == notes
    again = pl.read_parquet(merged)
    assert again.schema == frame.schema
    assert again.rows() == 2 * frame.rows()


CODECS = {"none": "UNCOMPRESSED", "snappy": "SNAPPY", "gzip": "GZIP", "brotli": "BROTLI", "zstd": "ZSTD", "lz4": "LZ4"}


def codecs(path):
    """The codec of every column of every row group."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return {group.column(at).compression for group in groups for at in range(metadata.num_columns)}


@pytest.mark.parametrize("codec", CODECS)
def test_codec_is_kept(folder, codec):
    """Every codec that PyArrow writes comes back."""
    first = write_twice(folder, pa.table({"a": ["x" * 100], "l": [[1]]}), compression=codec)
    assert codecs(first) == {CODECS[codec]} == codecs(merge(folder))


def test_codec_by_column_is_kept(folder):
    """Each column keeps its own codec."""
    table = pa.table({"a": ["x"], "l": [[1]], "s": [{"t": 1}]})
    write_twice(folder, table, compression={"a": "ZSTD", "l.list.element": "GZIP", "s.t": "NONE"})
    group = pq.read_metadata(merge(folder)).row_group(0)
    assert [group.column(at).compression for at in range(3)] == ["ZSTD", "GZIP", "UNCOMPRESSED"]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip"])
def test_codec_is_changed_on_request(folder, codec):
    """``--codec`` changes all columns, and then files of different codecs merge."""
    for at, old in enumerate(CODECS):
        pq.write_table(pa.table({"a": ["x" * 100]}), folder / f"{at}.parquet", compression=old)
    assert codecs(merge(folder, codec=codec)) == {codec.upper()}


def test_row_groups_are_joined(folder):
    """Many files of many row groups become one row group: what was slow to read does not stay slow."""
    for at in range(20):
        pq.write_table(pa.table({"a": range(100)}), folder / f"{at}.parquet", row_group_size=10)
    metadata = pq.read_metadata(merge(folder))
    assert (metadata.num_row_groups, metadata.num_rows) == (1, 2000)


def test_page_index_is_kept(folder):
    """Files with a page index become a file with one, the others without."""
    for wanted in (True, False):
        one = folder / str(wanted)
        one.mkdir()
        write_twice(one, pa.table({"a": [1, 2], "b": ["x", "y"]}), write_page_index=wanted)
        group = pq.read_metadata(merge(one)).row_group(0)
        assert [group.column(at).has_offset_index for at in range(2)] == [wanted] * 2
        assert [group.column(at).has_column_index for at in range(2)] == [wanted] * 2


def test_bloom_filters_are_kept_and_true(folder):
    """A column with a bloom filter keeps one that knows all its values and few others; the rest gets none."""
    for at in range(3):
        numbers = range(at * 1000, at * 1000 + 1000)
        table = pa.table({"id": numbers, "name": [f"n{n}" for n in numbers]})
        pq.write_table(table, folder / f"{at}.parquet", bloom_filter_options={"id": True})
    merged = str(merge(folder))
    group = pq.read_metadata(merged).row_group(0)
    assert group.column(0).bloom_filter_offset is not None
    assert group.column(1).bloom_filter_offset is None

    def excluded(value):
        query = f"select bool_and(bloom_filter_excludes) from parquet_bloom_probe('{merged}', 'id', {value}::bigint)"
        return duckdb.sql(query).fetchall() == [(True,)]

    assert not any(excluded(value) for value in (0, 999, 1000, 2999))
    assert sum(excluded(value) for value in range(10_000, 10_100)) > 80


@pytest.mark.parametrize(("descending", "nulls_first"), [(False, False), (False, True), (True, False), (True, True)])
def test_sorting_columns_are_kept_and_true(folder, descending, nulls_first):
    """Files that claim an order become a file that claims it and has it."""
    order = [pq.SortingColumn(1, descending, nulls_first), pq.SortingColumn(0, not descending, nulls_first)]
    wanted = [("k", "descending" if descending else "ascending"), ("a", "ascending" if descending else "descending")]
    nulls = "at_start" if nulls_first else "at_end"
    in_order = pc.SortOptions(sort_keys=[(*key, nulls) for key in wanted])
    draw = random.Random(7)
    for at in range(3):
        rows = {
            "a": [draw.randint(0, 9) for _ in range(200)],
            "k": [draw.choice(["x", "y", "ü", None]) for _ in range(200)],
        }
        table = pa.table(rows)
        ordered = table.take(pc.sort_indices(table, options=in_order))
        pq.write_table(ordered, folder / f"{at}.parquet", sorting_columns=order)

    merged = merge(folder)

    metadata, table = pq.read_metadata(merged), pq.read_table(merged, partitioning=None)
    assert list(metadata.row_group(0).sorting_columns) == order
    assert table.num_rows == 600
    assert table.equals(table.take(pc.sort_indices(table, options=in_order)))


@pytest.mark.parametrize(
    ("kind", "order", "why"),
    [
        ("double", [pq.SortingColumn(0)], "NaN"),
        ("integer[]", [pq.SortingColumn(0)], "nested"),
        ("integer", [pq.SortingColumn(0, nulls_first=True), pq.SortingColumn(1)], "nulls first in one column"),
    ],
)
def test_an_order_that_we_cannot_keep_is_left_alone(folder, kind, order, why):
    """Where sorting is doubtful the files stay as they are."""
    table = duckdb.sql(f"select null::{kind} as a, 1 as b").to_arrow_table()
    write_twice(folder, table, sorting_columns=order)
    assert why in why_not(folder)


@pytest.mark.parametrize("values", [pa.array(["a", "b"]).dictionary_encode(), pa.array(["a"], pa.string_view())])
def test_an_order_that_pyarrow_cannot_sort_is_left_alone(folder, values):
    """Whether PyArrow can sort by a column is found out when planning, by trying."""
    write_twice(folder, pa.table({"w": values}), sorting_columns=[pq.SortingColumn(0)])
    try:
        merged = merge(folder)
    except AssertionError:
        assert "PyArrow cannot keep" in why_not(folder)
    else:  # a later PyArrow can
        words = pq.read_table(merged, partitioning=None)["w"].to_pylist()
        assert words == sorted(2 * values.to_pylist())


def test_files_without_rows(folder):
    """Files of no rows merge with each other and with others; the schema stays."""
    empty = pa.table({"a": pa.array([], pa.int64())})
    for at in range(3):
        pq.write_table(empty, folder / f"{at}.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), folder / "rows.parquet")
    merged = merge(folder)
    assert pq.read_table(merged, partitioning=None)["a"].to_pylist() == [1, 2]


def test_only_files_without_rows(folder):
    """Files of no rows alone become one file of no rows, which others can read."""
    empty = pa.table({"a": pa.array([], pa.int64())})
    seen = schema_of(write_twice(folder, empty))
    merged = merge(folder)
    assert schema_of(merged) == seen
    assert duckdb.read_parquet(str(merged)).fetchall() == []
    assert pl.read_parquet(merged).schema == {"a": pl.Int64}


def edit_footer(path, *edits):
    """Replace bytes in a footer and set its length anew; the data before it stay where they are."""
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    footer = whole[begin:-8]
    for old, new in edits:
        assert old in footer, old
        footer = footer.replace(old, new)
    path.write_bytes(whole[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


# Thrift, compact: a name of one byte, then the old-style annotation UTF8 (0), as DuckDB writes it.
TEXT = b"\x18\x01x\x25\x00"
ODD_FILES = {
    "enum": ("'a'", [(TEXT, b"\x18\x01x\x25\x08")], "Enum"),
    "bson": ("'a'", [(TEXT, b"\x18\x01x\x25\x28")], "BSON"),
    "decimal in bytes": ("'\1'", [(TEXT, b"\x18\x01x\x25\x0a\x15\x00\x15\x0a")], "Decimal"),
    "interval": ("interval 1 day", [], "Interval"),
    "hive's list": ("[1]", [(b"\x04list", b"\x03bag"), (b"\x07element", b"\x0darray_element")], "bag"),
    "avro's list": ("[1]", [(b"\x04list", b"\x05array")], "array"),
    "spark 2's map": ("map{'a': 1}", [(b"\x09key_value", b"\x03map")], "map"),
}


@pytest.mark.parametrize("rows", [1, 50])
@pytest.mark.parametrize("name", ODD_FILES)
def test_what_pyarrow_would_write_otherwise_is_copied_or_left_alone(folder, name, rows, way):
    """Layouts and types that PyArrow reads but writes differently: pages can be copied, nothing else can be done."""
    value, edits, mark = ODD_FILES[name]
    for at in range(2):
        path = folder / f"{at}.parquet"
        duckdb.sql(f"copy (select {value} as x from range({rows})) to '{path}' (format parquet)")
        edit_footer(path, *edits)
    if way == "encoded again" or (name == "interval" and rows == 50):  # with a bloom filter that cannot be made again
        why = why_not(folder)
        assert why.startswith("it cannot be written back identically: PyArrow would write")
        assert mark in why
        return
    seen, values = pq.read_metadata(path).schema, pq.read_table(path)["x"].to_pylist()
    known = None if name == "bson" else duckdb.read_parquet(str(path)).fetchall()  # which DuckDB does not read
    merged = merge(folder)
    assert pq.read_metadata(merged).schema.equals(seen)
    assert pq.read_table(merged, partitioning=None)["x"].to_pylist() == 2 * values
    assert known is None or duckdb.read_parquet(str(merged)).fetchall() == 2 * known


def test_a_broken_arrow_schema_is_no_crash(folder):
    """A file whose ARROW:schema is garbage is left alone and reported; the others are merged."""
    write_with_notes(folder / "0.parquet", {b"ARROW:schema": b"garbage"})
    for at in range(1, 4):
        pq.write_table(pa.table({"a": [1]}), folder / f"{at}.parquet")
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert len(outcome.units) == 1
    assert [skip.what for skip in outcome.skipped] == ["0.parquet"]


def test_nested_dictionaries_over_several_row_groups(folder):
    """Dictionaries inside structs and lists merge, whatever the row groups are."""
    kind = pa.struct([pa.field("w", pa.dictionary(pa.int32(), pa.string()), nullable=False)])
    rows = [{"w": "x"}, None, {"w": "y"}, {"w": "x"}]
    write_twice(folder, pa.table({"s": pa.array(rows, kind)}), row_group_size=1)
    assert pq.read_table(merge(folder), partitioning=None)["s"].to_pylist() == 2 * rows
