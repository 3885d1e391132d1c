"""Merged Parquet files are no bigger than their inputs plus 2 %, or the outcome says why."""

from __future__ import annotations

import functools
import random

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import size_shapes

from packstone.rewrite.formats.parquet_encodings import choose_encodings
from packstone.rewrite.formats.parquet_footer import held_bytes
from packstone.rewrite.small_files import merge_unit, parquet_splice

FILES, ROWS = 10, 2000


def write_pyarrow(table, path, codec, **options):
    """As PyArrow does if nobody says how."""
    pq.write_table(table, path, compression=codec, **options)


def write_pandas(table, path, codec):
    """By pandas, which has its own notes in the footer."""
    table.to_pandas().to_parquet(path, compression=codec)


def write_polars(table, path, codec):
    """By Polars, which gives up dictionaries that do not pay."""
    pl.from_arrow(table).write_parquet(path, compression=codec)


def write_duckdb(table, path, codec, version="v1"):
    """By DuckDB, with its choice of encodings."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("rows", table)
        connection.execute(f"copy rows to '{path}' (format parquet, compression '{codec}', parquet_version {version})")


WRITERS = {
    "pyarrow": write_pyarrow,
    "pandas": write_pandas,
    "polars": write_polars,
    "duckdb": write_duckdb,
    "duckdb-v2": functools.partial(write_duckdb, version="v2"),
    "pyarrow-indexed": functools.partial(write_pyarrow, use_dictionary=False, write_page_index=True),
}


def fill(lake, shape, write, *, codec="snappy", files=FILES, rows=ROWS):
    """Write a table of small files."""
    folder = lake.folder()
    for at in range(files):
        write(shape(at, rows), folder / f"{at:04d}.parquet", codec)


def merge(packstone, lake):
    """Merge all files of the table; return the outcome and the one file."""
    done = packstone("compact", lake.table, "--format", "json")
    assert done.code == 0, done.out + done.err
    assert (done.code, done.json["status"], len(done.json["units"])) == (0, "committed", 1), done.out + done.err
    (merged,) = lake.table.glob("packstone-*.parquet")
    return done.json["units"][0], merged


def encodings(path):
    """The encodings of each column in the first row group."""
    group = pq.read_metadata(path).row_group(0)
    return {group.column(at).path_in_schema: set(group.column(at).encodings) for at in range(group.num_columns)}


def has_dictionary(path):
    """The columns that have a dictionary."""
    return {name for name, found in encodings(path).items() if "RLE_DICTIONARY" in found}


@pytest.fixture
def encoded_again(monkeypatch):
    """Splice nothing: all columns are encoded again."""
    monkeypatch.setattr(parquet_splice, "_MIN_COPIED_PCT", 101)


# What zstd makes of running numbers depends on its version, level and the length of a page, by up to a third.
ZSTD_OF_NUMBERS = {("duckdb", size_shapes.nested, "zstd")}


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
@pytest.mark.parametrize("shape", size_shapes.NOT_BIGGER, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.sample(5)
def test_an_output_does_not_exceed_its_inputs(packstone, lake, writer, shape, codec):
    """Whoever wrote the files: one file takes at most 2 % more than the many, and then nothing needs to be said."""
    fill(lake, shape, WRITERS[writer], codec=codec)
    unit, _ = merge(packstone, lake)
    if unit["bytes_after"] <= unit["bytes_before"] * 1.02:
        assert "why_bigger" not in unit
    else:
        assert (writer, shape, codec) in ZSTD_OF_NUMBERS
        assert "compressed less well than by its writer" in unit["why_bigger"]


@pytest.mark.usefixtures("encoded_again")
def test_unique_values_get_no_dictionary(packstone, lake):
    """A dictionary of values that never repeat would hold each of them, and the file a code for each besides."""
    fill(lake, size_shapes.orders, write_polars)
    _, merged = merge(packstone, lake)
    assert has_dictionary(merged) == {"name"}


@pytest.mark.usefixtures("encoded_again")
def test_values_that_repeat_across_files_get_a_dictionary(packstone, lake):
    """No input has a dictionary, because it does not pay for one file; for all of them it does."""
    fill(lake, size_shapes.shared, write_polars, files=20, rows=1000)
    assert all(not has_dictionary(path) for path in lake.table.glob("*.parquet"))
    unit, merged = merge(packstone, lake)
    assert has_dictionary(merged) == {"sku", "price"}
    assert unit["bytes_after"] < unit["bytes_before"] * 0.7


@pytest.mark.usefixtures("encoded_again")
def test_leaves_of_nested_columns_are_decided_one_by_one(packstone, lake):
    """In one struct, a unique id is stored plainly and a kind in a dictionary."""
    fill(lake, size_shapes.nested, write_polars)
    _, merged = merge(packstone, lake)
    coded = has_dictionary(merged)
    assert "event.kind" in coded
    assert "event.id" not in coded
    assert any(name.startswith("tags") for name in coded)


def test_int96_times_without_repeats_get_no_dictionary(packstone, lake):
    """INT96, which has no statistics, is decided like any other column."""
    write = functools.partial(write_pyarrow, use_deprecated_int96_timestamps=True, use_dictionary=False)
    fill(lake, size_shapes.orders, write)
    unit, merged = merge(packstone, lake)
    assert "ts" not in has_dictionary(merged)
    assert unit["bytes_after"] <= unit["bytes_before"] * 1.02


@pytest.mark.parametrize("write", [write_pandas, write_pyarrow])
def test_categories_keep_a_dictionary(packstone, lake, write):
    """Arrow's categories, of which each file has its own and an index of a byte, are one dictionary in the output."""

    def shape(file, rows):
        draw = random.Random(file)
        values = [f"category-{draw.randrange(file * 5, file * 5 + 60)}" for _ in range(rows)]
        codes = pa.DictionaryArray.from_arrays(
            pa.array([sorted(set(values)).index(value) for value in values], pa.int8()), sorted(set(values))
        )
        return pa.table({"c": codes, "n": pa.array([draw.randrange(100) for _ in range(rows)])})

    fill(lake, shape, write)
    before = duckdb.sql(f"select c, n, count(*) from '{lake.table}/*.parquet' group by all order by all").fetchall()
    types = pq.read_schema(next(lake.table.glob("*.parquet"))).types
    _, merged = merge(packstone, lake)
    assert duckdb.sql(f"select c, n, count(*) from '{merged}' group by all order by all").fetchall() == before
    assert pq.read_schema(merged).types == types
    chunk = pq.read_metadata(merged).row_group(0).column(0)
    assert chunk.total_compressed_size < 1.5 * FILES * ROWS  # at most 9 bits each; a plain value has 12 bytes or more


DELTAS = {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"}


def delta_shape(file, rows):
    """Columns for which encodings of Parquet's second version are made."""
    ids = range(file * rows, (file + 1) * rows)
    draw = random.Random(file)
    return pa.table({
        "id": ids, "name": [f"a-long-prefix-{at:012d}" for at in ids], "x": [20 + draw.random() for _ in ids]
    })  # fmt: skip


@pytest.mark.usefixtures("encoded_again")
def test_encodings_of_the_inputs_stay(packstone, lake):
    """Where pages cannot be copied, deltas are encoded as deltas again: plainly they would take many times more."""
    write = functools.partial(write_pyarrow, use_dictionary=False, column_encoding=DELTAS)
    fill(lake, delta_shape, write)
    unit, merged = merge(packstone, lake)
    assert unit["how"] == "rewrite"
    assert all(encoding in encodings(merged)[name] for name, encoding in DELTAS.items())
    assert unit["bytes_after"] <= unit["bytes_before"] * 1.02


def test_no_encoding_is_introduced_that_readers_may_not_know(packstone, lake):
    """Deltas would be smaller; files without them stay without them."""
    write = functools.partial(write_pyarrow, use_dictionary=False, write_page_index=True)
    fill(lake, delta_shape, write)
    _, merged = merge(packstone, lake)
    assert set().union(*encodings(merged).values()) <= {"PLAIN", "RLE", "RLE_DICTIONARY"}


def test_an_output_that_grows_says_why(packstone, lake):
    """Values that repeat within files only need longer codes in one file: the column and the reason are named."""
    fill(lake, size_shapes.local, write_polars, files=30, rows=5000)
    unit, merged = merge(packstone, lake)
    before, after = unit["bytes_before"], unit["bytes_after"]
    assert before * 1.02 < after < before * 3
    assert "30 files of" in unit["why_bigger"]
    assert f"(+{after * 100 / before - 100:.1f} %)" in unit["why_bigger"]
    assert "column session" in unit["why_bigger"]
    assert "one dictionary has longer codes" in unit["why_bigger"]
    assert merged.stat().st_size == after


# How much bigger a file may be, in percent. One file needs at least the bits that tell the values of all files apart.
PRIVATE = {
    size_shapes.private_text: {"none": 4, "snappy": 0, "zstd": 0},
    size_shapes.private_and_shared: {"none": 5, "snappy": 4, "zstd": 9},
    size_shapes.private_doubles: {"none": 17, "snappy": 18, "zstd": 12},
    size_shapes.private_pair: {"none": 180, "snappy": 80, "zstd": 15},
}


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("shape", PRIVATE, ids=lambda shape: shape.__name__)
def test_values_of_one_file_only_cost_few_bits(packstone, lake, shape, codec):
    """Each page has codes of the width that it needs, or of whole bytes where the codec finds more in them."""
    fill(lake, shape, write_pyarrow, codec=codec, files=12, rows=10_000)
    unit, merged = merge(packstone, lake)
    assert unit["how"] == "splice"
    assert unit["bytes_after"] <= unit["bytes_before"] * (100 + PRIVATE[shape][codec]) / 100
    assert pq.read_metadata(merged).num_row_groups == 1


@pytest.mark.parametrize(("files", "groups"), [(12, range(2, 12)), (120, [120])])
def test_a_file_that_grew_too_much_gets_smaller_row_groups(packstone, lake, monkeypatch, files, groups):
    """Such files used to be left as they are; in the end, the row groups stay as they are, which never takes more."""
    monkeypatch.setattr(merge_unit, "MAX_GROWTH_BYTES", 0)
    shape = size_shapes.private_doubles if files == 12 else size_shapes.private_pair
    fill(lake, shape, write_pyarrow, files=files, rows=10_000)
    before = duckdb.sql(f"select * from '{lake.table}/*.parquet' order by all").fetchall()
    unit, merged = merge(packstone, lake)
    assert unit["how"] == "splice"
    assert pq.read_metadata(merged).num_row_groups in groups
    assert unit["bytes_after"] <= unit["bytes_before"] * 1.1
    assert duckdb.sql(f"select * from '{merged}' order by all").fetchall() == before


def test_the_console_shows_why_an_output_grew(packstone, lake):
    """Without JSON, the sentence is a line of the outcome."""
    fill(lake, size_shapes.local, write_polars, files=30, rows=5000)
    done = packstone("compact", lake.table)
    assert done.code == 0
    shown = " ".join(done.out.split())
    assert "bigger 30 files of" in shown
    assert "column session" in shown


def test_another_codec_is_the_reason_that_is_given(packstone, lake):
    """Growth by a codec that the caller chose is explained by the choice."""
    fill(lake, size_shapes.text, write_polars, codec="zstd")
    done = packstone("compact", lake.table, "--codec", "snappy", "--format", "json")
    (unit,) = done.json["units"]
    assert unit["bytes_after"] > unit["bytes_before"] * 1.02
    assert unit["why_bigger"].endswith("it was written with --codec snappy")


def test_zstd_is_not_weaker_than_its_writer_made_it(packstone, lake):
    """Files of Polars are compressed at zstd's own level, so big pages of text do not grow."""
    fill(lake, size_shapes.text, write_polars, codec="zstd", files=6, rows=20_000)
    unit, _ = merge(packstone, lake)
    assert unit["bytes_after"] <= unit["bytes_before"] * 1.02


SCALED = {
    "uniform": lambda draw, at, rows: draw.randrange(rows // 4),
    "few": lambda draw, at, rows: draw.randrange(10),
    "unique": lambda draw, at, rows: at * 1_000_003,
    "skewed": lambda draw, at, rows: int(rows * draw.random() ** 8) * 1_000_003,
    "sorted": lambda draw, at, rows: at // 50 * 1_000_003,
    "local": lambda draw, at, rows: (at // 5000 * 100 + draw.randrange(100)) * 1_000_003,
}


@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("values", SCALED)
@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "ZSTD"])
def test_a_sample_finds_the_smaller_encoding(values, kind, codec):
    """Chosen by a sample of 8,192 rows, a file of 100,000 has nearly the size of the smaller of both forms."""
    draw, rows = random.Random(5), 100_000
    numbers = [SCALED[values](draw, at, rows) for at in range(rows)]
    table = pa.table({"c": numbers if kind == "number" else [f"value-{one:014d}" for one in numbers]})

    def size_bytes(**options):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression=codec, **options)
        return sink.tell()

    chosen = choose_encodings(table, {"compression": codec}, max_dictionary_bytes=16 << 20)
    both = size_bytes(use_dictionary=True, dictionary_pagesize_limit=16 << 20), size_bytes(use_dictionary=False)
    assert size_bytes(**chosen) <= 1.05 * min(both)


def test_a_dictionary_may_be_longer_than_pyarrows_limit():
    """A third of the rows differ and take 3 MB: written with PyArrow's limit of 1 MiB most rows would have no code."""
    table = pa.table({"c": [f"{at % 40_000:080d}" for at in range(120_000)]})
    chosen = choose_encodings(table, {"compression": "NONE"}, max_dictionary_bytes=16 << 20)
    assert chosen["use_dictionary"] == ["c"]
    assert chosen["dictionary_pagesize_limit"] > 40_000 * 84
    small = choose_encodings(table, {"compression": "NONE"})
    assert small["use_dictionary"] is False


def test_the_memory_for_a_long_dictionary_is_counted():
    """What an open file holds in memory includes a dictionary beyond the usual limit."""

    def held(limit):
        sink = pa.BufferOutputStream()
        table = pa.table({"c": [f"{at % 40_000:080d}" for at in range(400_000)]})
        pq.write_table(table, sink, dictionary_pagesize_limit=limit, compression="NONE", data_page_size=1 << 16)
        return held_bytes(pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0))

    assert held(16 << 20) >= 40_000 * 84


def test_rows_too_wide_for_a_sample_are_not_tried():
    """Values of megabytes are not encoded three times over: PyArrow's own choice stays."""
    wide = pa.table({"blob": [bytes([at]) * (1 << 20) for at in range(8)]})
    assert choose_encodings(wide, {"compression": "SNAPPY"}) == {"use_dictionary": True}
    one_wide = pa.table({"blob": [b"x" * (20 << 20)] + [b""] * 10_000})
    assert choose_encodings(one_wide, {"compression": "SNAPPY"}) == {"use_dictionary": True}
    narrow = pa.table({"blob": [b"x"] * 10_000})
    assert choose_encodings(narrow, {"compression": "SNAPPY"})["use_dictionary"] == ["blob"]


def test_a_table_without_rows_has_encodings_too():
    """Nothing can be learned from no rows."""
    empty = pa.schema([("a", pa.int64())]).empty_table()
    assert choose_encodings(empty, {"compression": "SNAPPY"}) == {"use_dictionary": True}
