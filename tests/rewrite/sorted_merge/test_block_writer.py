"""Row groups have the rows they should have, files the size, and the index says the truth of each."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import duckdb
import make_ordered as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import CorruptionError
from packstone.rewrite.sorted_merge.block_facts import cut_bounds, part_schema, read_part
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.spec import BlockOutput


def write(table, *, sort_columns=(), batch_rows=7, **options):
    """Write a table into memory; return the storage and the files."""
    io = made.make_io()
    io.make_dirs(made.FOLDER)
    output = BlockOutput(directory=made.FOLDER, sort_columns=sort_columns, **options)
    writer = BlockWriter(io, output, schema=table.schema, name_file=lambda at: f"f{at}.parquet")
    for batch in table.to_batches(max_chunksize=batch_rows):
        writer.write(batch)
    return io, writer.close()


def parquet(io, file):
    """Open an output."""
    return pq.ParquetFile(pa.BufferReader(io.read_bytes(file.path)))


def group_rows(io, files):
    """The rows of each row group of each file."""
    footers = [parquet(io, file).metadata for file in files]
    return [[footer.row_group(at).num_rows for at in range(footer.num_row_groups)] for footer in footers]


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 1000])
def test_row_groups_have_the_same_number_of_rows(batch_rows):
    """Whatever the batches are, only the last row group is smaller."""
    table = pa.table({"v": range(1050)})
    io, files = write(table, batch_rows=batch_rows, block_rows=100)
    assert group_rows(io, files) == [[100] * 10 + [50]]
    assert pq.read_table(pa.BufferReader(io.read_bytes(files[0].path))).equals(table)


def test_files_roll_near_the_target():
    """Files end at the row group that brings them nearest to the target."""
    draw = np.random.default_rng(1)
    table = pa.table({"v": draw.integers(0, 2**62, 100_000)})
    io, files = write(table, batch_rows=3000, block_rows=5000, target_bytes=200_000, compression="none")
    assert {rows for groups in group_rows(io, files) for rows in groups} == {5000}
    assert all(170_000 < file.size_bytes < 235_000 for file in files[:-1])


def test_a_row_group_bigger_than_the_target_is_cut():
    """Small files are what a small target asks for."""
    draw = np.random.default_rng(1)
    table = pa.table({"v": draw.integers(0, 2**62, 100_000)})
    _, files = write(table, batch_rows=3000, block_rows=50_000, target_bytes=100_000, compression="none")
    assert len(files) >= 6  # the first is bigger: nothing was known of the rows then
    assert all(file.size_bytes < 150_000 for file in files[1:])


def test_wide_rows_make_smaller_row_groups():
    """A row group is held in memory, so it also ends at a number of bytes."""
    table = pa.table({"v": ["x" * 10_000] * 100})
    io, files = write(table, block_rows=1000, block_bytes=100_000, batch_rows=100)
    assert max(rows for groups in group_rows(io, files) for rows in groups) <= 14


def test_the_footer_tells_the_order_and_pages():
    """Sort columns are recorded by leaf, and there is a page index."""
    nested = pa.array([{"a": 1, "b": [1]}] * 3, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))]))
    table = pa.table({"s": nested, "x": ["a", "b", "c"], "k": [None, 1, 2]})
    io, files = write(table, sort_columns=("k", "x"))
    footer = parquet(io, files[0]).metadata
    assert footer.row_group(0).sorting_columns == (
        pq.SortingColumn(3, nulls_first=True),
        pq.SortingColumn(2, nulls_first=True),
    )
    assert footer.row_group(0).column(3).has_offset_index
    assert footer.row_group(0).column(3).has_column_index


def test_facts_of_difficult_values():
    """NaN, zeros, nulls, long and highest strings, decimals, early dates and both kinds of times are correct."""
    schema = pa.schema(
        [
            ("f", pa.float64()),
            ("z", pa.float32()),
            ("n", pa.float64()),
            ("s", pa.string()),
            ("b", pa.binary()),
            ("e", pa.string()),
            ("d", pa.decimal128(38, 3)),
            ("day", pa.date32()),
            ("ts", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("ok", pa.bool_()),
            ("nothing", pa.int64()),
        ]
    )
    early = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    past = dt.datetime(1969, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC).replace(tzinfo=None)
    rows = [
        (math.nan, 0.0, math.nan, "é" * 200, b"\xff" * 300, "", Decimal("-1.5"), dt.date(1969, 12, 31), early, None),
        (-1.0, -0.0, None, "z", b"", "", Decimal(10**30), dt.date(1900, 1, 1), None, past),
        (None, 0.0, math.nan, None, None, "", None, None, None, last),
    ]
    columns = [*map(list, zip(*rows, strict=True)), [True, None, False], [None] * 3]
    table = pa.table([pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema=schema)
    _, files = write(table)
    part = read_part(files[0].part)
    assert part.schema == part_schema(schema, ())
    (facts,) = part.to_pylist()
    found = {name: (facts[f"min.{name}"], facts[f"max.{name}"], facts[f"nulls.{name}"]) for name in schema.names}
    assert found["f"] == (-1.0, -1.0, 1)
    assert (facts["nan.f"], facts["nan.z"], facts["nan.n"]) == (True, False, True)
    assert [math.copysign(1, bound) for bound in found["z"][:2]] == [-1, 1]
    assert found["n"] == (None, None, 1)
    assert found["s"] == (b"z", ("é" * 128).encode()[:-1] + b"\xaa", 1)
    assert found["b"] == (b"", None, 1)
    assert found["e"] == (b"", b"", 0)
    assert (facts["exact.s"], facts["exact.b"], facts["exact.e"]) == (False, False, True)
    assert found["d"] == (Decimal("-1.500"), Decimal(10**30), 1)
    assert found["day"] == (dt.date(1900, 1, 1), dt.date(1969, 12, 31), 1)
    assert found["ts"] == (early, early, 2)
    assert found["ntz"] == (past, last, 1)
    assert found["ok"] == (False, True, 1)
    assert found["nothing"] == (None, None, 3)


@settings(deadline=None, max_examples=80)
@given(made.tables(max_rows=30))
def test_facts_hold(table_and_columns):
    """Of any rows: every value lies within the bounds of its row group, counts and ends are exact."""
    table, sort_columns = table_and_columns
    table = made.sort_table(table, sort_columns)
    io, files = write(table, sort_columns=sort_columns, block_rows=8, batch_rows=5)
    if not table.num_rows:
        assert files == ()
        return
    part = read_part(files[0].part)
    assert part.column("row_group").to_pylist() == list(range(part.num_rows))
    for at, facts in enumerate(part.to_pylist()):
        rows = table.slice(at * 8, 8)
        assert facts["rows"] == rows.num_rows
        for name in sort_columns:
            values = rows.column(name).to_pylist()
            ends = [facts[f"start.{name}"], facts[f"end.{name}"]]
            assert list(map(made.sort_value, ends)) == list(map(made.sort_value, [values[0], values[-1]]))
        for field in table.schema:
            if f"nulls.{field.name}" in facts:
                check_column(rows.column(field.name).to_pylist(), facts, field)
    footer = parquet(io, files[0]).metadata
    sizes = [
        sum(footer.row_group(at).column(n).total_compressed_size for n in range(footer.num_columns))
        for at in range(part.num_rows)
    ]
    assert part.column("size_bytes").to_pylist() == sizes
    assert part.column("offset")[0].as_py() == 4


def check_column(values, facts, field):
    """Compare the values of a row group against their description."""
    known = [value for value in values if value is not None]
    numbers = [value for value in known if not (isinstance(value, float) and math.isnan(value))]
    low, high = facts[f"min.{field.name}"], facts[f"max.{field.name}"]
    assert facts[f"nulls.{field.name}"] == len(values) - len(known)
    if pa.types.is_floating(field.type):
        assert facts[f"nan.{field.name}"] == (len(numbers) < len(known))
    if f"exact.{field.name}" in facts:
        numbers = [value.encode() if isinstance(value, str) else value for value in numbers]
        if not facts[f"exact.{field.name}"]:
            assert low <= min(numbers)
            assert high is None or high >= max(numbers)
            return
    assert (low, high) == ((min(numbers), max(numbers)) if numbers else (None, None))


@given(st.binary(max_size=600) | st.integers(0, 600).map(lambda n: b"\xff" * n), st.binary(max_size=20))
def test_cut_bounds_hold(text, tail):
    """A cut bound is short, and still below or above what it was made of and all that begins alike."""
    low, high, is_exact = cut_bounds(text, text)
    assert len(low) <= 256
    assert low <= text
    assert is_exact == (len(text) <= 256)
    if not is_exact:
        assert high is None or (len(high) <= 256 and high > text[:256] + tail)


def test_rows_out_of_order_are_found():
    """A batch that begins below the end of the last is not written."""
    with pytest.raises(CorruptionError, match="after a larger one"):
        write(pa.table({"k": [1, 2, 1]}), sort_columns=("k",), batch_rows=1)


def test_abandoned_files_are_removed():
    """Nothing stays of what was begun."""
    io = made.make_io()
    io.make_dirs(made.FOLDER)
    table = pa.table({"v": range(100)})
    output = BlockOutput(directory=made.FOLDER, block_rows=10, target_bytes=100)
    writer = BlockWriter(io, output, schema=table.schema, name_file=lambda at: f"f{at}.parquet")
    writer.write(table.to_batches()[0])
    assert len(made.names_in(io)) > 1
    writer.abandon()
    assert made.names_in(io) == []


def test_a_row_group_with_nan_has_bounds_in_the_index_only():
    """Other readers would skip a NaN by the footer's bounds; the index has a mark for it, and keeps its bounds."""
    nan = math.nan
    table = pa.table({"f": [1.0, nan, 3.0, 4.0], "s": [{"x": 1.0}, {"x": 2.0}, {"x": nan}, {"x": 4.0}]})
    io, (file,) = write(table, block_rows=2)
    footer = parquet(io, file).metadata
    chunks = [[footer.row_group(group).column(leaf) for group in (0, 1)] for leaf in (0, 1)]
    assert [[chunk.statistics.has_min_max for chunk in leaf] for leaf in chunks] == [[False, True], [True, False]]
    assert [[chunk.has_column_index for chunk in leaf] for leaf in chunks] == [[False, True], [True, False]]
    facts = read_part(file.part).to_pylist()
    assert [(group["min.f"], group["max.f"], group["nan.f"]) for group in facts] == [
        (1.0, 1.0, True),
        (3.0, 4.0, False),
    ]


def test_duckdb_finds_nan_in_the_files(tmp_path):
    """A reader that knows no index, and trusts the footer, finds by filters what a full scan finds."""
    values = [1.0, math.nan, -0.0, 3.0, math.inf, math.nan, 0.0, None]
    rows = pa.table({"id": range(8), "f": values})
    io, (file,) = write(rows, block_rows=2)
    path = tmp_path / "f.parquet"
    path.write_bytes(io.read_bytes(file.path))
    for test in ("= 'nan'", "< 'nan'", "> 5", "<> 'nan'", "= 0", "<= 0", "> '-inf'"):
        asked = f"select id from {{}} where f {test} order by id"
        assert duckdb.sql(asked.format(f"'{path}'")).fetchall() == duckdb.sql(asked.format("rows")).fetchall()
