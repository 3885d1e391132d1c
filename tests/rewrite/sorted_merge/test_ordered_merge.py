"""Sorted and unsorted files of any types are merged in order, with every row kept, and broken order is found."""

from __future__ import annotations

import itertools

import duckdb
import make_ordered as made
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import CorruptionError, InvalidInputError, VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import KeyRange, pack_value
from packstone.rewrite.sorted_merge.merge import merge_ordered
from packstone.rewrite.sorted_merge.spec import OrderedFile
from packstone.rewrite.sorted_merge.verify import verify_ordered


def cut(draw, table, parts):
    """Cut a table into N parts, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, table.num_rows), min_size=parts - 1, max_size=parts - 1)))
    ends = [0, *places, table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(ends)]


@st.composite
def inputs(draw):
    """Runs of one section, some of two files, and unsorted files."""
    table, sort_columns = draw(made.tables())
    parts = cut(draw, table, draw(st.integers(1, 6)))
    is_sorted = [draw(st.booleans()) for _ in parts]
    return table, sort_columns, parts, is_sorted, draw(st.integers(0, 4))


def put_inputs(io, parts, is_sorted, *, sort_columns, halves):
    """Write the parts; sorted ones, up to ``halves``, as runs of two files."""
    runs, unsorted = [], []
    for at, (part, as_run) in enumerate(zip(parts, is_sorted, strict=True)):
        if not as_run:
            unsorted.append(made.put_file(io, f"u{at}.parquet", part))
            continue
        part = made.sort_table(part, sort_columns)  # noqa: PLW2901 - the same rows
        middle = part.num_rows // 2 if at < halves else 0
        pieces = [part.slice(0, middle), part.slice(middle)] if middle else [part]
        runs.append(tuple(made.put_file(io, f"r{at}-{n}.parquet", piece) for n, piece in enumerate(pieces)))
    return tuple(runs), tuple(unsorted)


@settings(deadline=None, max_examples=100)
@given(inputs(), st.sampled_from([1 << 12, 1 << 26]))
def test_all_rows_come_out_in_order(given_inputs, memory_bytes):
    """Whatever the types, nulls and doubles: the outputs hold each row as often as the inputs, in order."""
    table, sort_columns, parts, is_sorted, halves = given_inputs
    io = made.make_io()
    runs, unsorted = put_inputs(io, parts, is_sorted, sort_columns=sort_columns, halves=halves)
    spec = made.make_spec(table, sort_columns, sections=(runs,), unsorted=unsorted, memory_bytes=memory_bytes)
    result = made.merge(io, spec)
    found = made.read_back(io, result, table.schema)
    assert made.count_rows(found) == made.count_rows(table)
    assert made.is_sorted(found, sort_columns)
    assert result.rows_in == result.rows_out == table.num_rows
    assert bool(result.files) == bool(table.num_rows)


@settings(deadline=None, max_examples=80)
@given(inputs(), st.data())
def test_ranges_hold_every_row_once(given_inputs, data):
    """Split by any bounds, also null-free, NaN and zero ones, each row is in exactly one range."""
    table, sort_columns, parts, is_sorted, halves = given_inputs
    io = made.make_io()
    runs, unsorted = put_inputs(io, parts, is_sorted, sort_columns=sort_columns, halves=halves)
    first = table.schema.field(sort_columns[0])
    values = [value for value in table.column(first.name).to_pylist() if value is not None]
    drawn = data.draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    bounds = sorted(drawn, key=made.sort_value)
    packed = [None, *(pack_value(pa.scalar(value, first.type)) for value in bounds), None]
    found = []
    for at, (lower, upper) in enumerate(itertools.pairwise(packed)):
        spec = made.make_spec(
            table, sort_columns, sections=(runs,), unsorted=unsorted, key_range=KeyRange(lower=lower, upper=upper)
        )
        result = merge_ordered(io, spec, name_file=lambda n, at=at: f"out-{at}-{n}.parquet")
        verify_ordered(io, spec, result.files)
        part = made.read_back(io, result, table.schema)
        if at:
            assert not part.column(first.name).null_count
        found.append(part)
    joined = pa.concat_tables(found)
    assert made.count_rows(joined) == made.count_rows(table)
    assert made.is_sorted(joined, sort_columns)


@settings(deadline=None, max_examples=50)
@given(made.tables(), st.integers(1, 4), st.data())
def test_sections_follow_each_other(table_and_columns, count, data):
    """Sections that do not overlap are merged one by one, and with unsorted files all at once: the same rows."""
    table, sort_columns = table_and_columns
    table = made.sort_table(table, sort_columns)
    io = made.make_io()
    sections = []
    for at, part in enumerate(cut(data.draw, table, count)):
        halves = [part.take(pa.array(range(start, part.num_rows, 2), pa.int64())) for start in (0, 1)]
        sections.append(tuple((made.put_file(io, f"s{at}-{n}.parquet", half),) for n, half in enumerate(halves)))
    spec = made.make_spec(table, sort_columns, sections=tuple(sections))
    found = made.read_back(io, made.merge(io, spec), table.schema)
    assert made.is_sorted(found, sort_columns)
    assert made.count_rows(found) == made.count_rows(table)


def make_events(rows, *, seed=3):
    """Rows with keys that repeat, nulls and texts."""
    draw = np.random.default_rng(seed)
    ids = pa.array(draw.integers(0, rows // 4, rows), mask=draw.random(rows) < 0.02)
    return pa.table(
        {
            "id": ids,
            "ts": pa.array(draw.integers(10**15, 10**15 + 10**6, rows)).cast(pa.timestamp("us", "UTC")),
            "name": pa.array([f"name {number}" for number in draw.integers(0, 999, rows)]),
            "amount": draw.random(rows),
            "tags": pa.array([["a", None]] * rows, pa.list_(pa.string())),
        }
    )


def test_duckdb_and_polars_sort_alike():
    """Thirty thousand rows in nine runs and three unsorted files come out in the order that others sort them in."""
    table, sort_columns = make_events(30_000), ("id", "name")
    io, runs, unsorted = made.make_io(), [], []
    for at in range(12):
        part = table.slice(at * 2500, 2500)
        if at % 4:
            part = part.sort_by([("id", "ascending", "at_start"), ("name", "ascending", "at_start")])
            runs.append((made.put_file(io, f"r{at}.parquet", part, row_group_size=1000),))
        else:
            unsorted.append(made.put_file(io, f"u{at}.parquet", part, row_group_size=1000))
    spec = made.make_spec(
        table, sort_columns, sections=(tuple(runs),), unsorted=tuple(unsorted), memory_bytes=1 << 20, block_rows=1000
    )
    result = made.merge(io, spec)
    found = made.read_back(io, result, table.schema).select(["id", "name"])
    with duckdb.connect() as base:
        base.register("t", table)
        ordered = base.sql("SELECT id, name FROM t ORDER BY id NULLS FIRST, name NULLS FIRST").to_arrow_table()
    assert found.equals(ordered.cast(found.schema))
    other = pl.from_arrow(table.select(["id", "name"])).sort("id", "name", nulls_last=False)
    assert found.to_pylist() == other.to_dicts()


@pytest.mark.parametrize("runs", [1, 2, 300])
@pytest.mark.parametrize("key", [7, None])
@pytest.mark.sample(3)
def test_one_key_for_all_rows(runs, key):
    """Runs of a single key, or of nulls only, are merged in windows of bounded size."""
    table = pa.table({"k": pa.array([key] * 3000, pa.int64()), "v": pa.array(range(3000))})
    io, size = made.make_io(), 3000 // runs
    files = tuple((made.put_file(io, f"r{at}.parquet", table.slice(at * size, size)),) for at in range(runs))
    spec = made.make_spec(table, ("k",), sections=(files,), memory_bytes=1 << 20)
    found = made.read_back(io, made.merge(io, spec), table.schema)
    assert sorted(found.column("v").to_pylist()) == list(range(3000))


def test_equal_rows_stay_in_the_order_of_runs():
    """Of equal keys in a window the rows of the earlier run come first."""
    table = pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]})
    io = made.make_io()
    runs = tuple((made.put_file(io, f"r{at}.parquet", table),) for at in range(2))
    found = made.read_back(io, made.merge(io, made.make_spec(table, ("k",), sections=(runs,))), table.schema)
    assert found.column("v").to_pylist() == ["a", "b", "a", "b", "c", "c"]


def test_without_sort_columns_files_are_joined():
    """Rows keep the order of the files, whatever they hold."""
    table = pa.table({"v": [3, 1, 2, None, 0]})
    io = made.make_io()
    files = [made.put_file(io, f"f{at}.parquet", table.slice(at)) for at in range(4)]
    spec = made.make_spec(table, (), sections=(((files[0],), (files[1],)),), unsorted=(files[2], files[3]))
    result = made.merge(io, spec)
    assert made.read_back(io, result, table.schema).column("v").to_pylist() == [
        *(3, 1, 2, None, 0),
        *(1, 2, None, 0),
        *(2, None, 0),
        *(None, 0),
    ]
    wrong = made.make_spec(table, (), sections=(((files[1],), (files[0],)),), unsorted=(files[2], files[3]))
    with pytest.raises(VerificationError, match="not those of the inputs"):
        verify_ordered(io, wrong, result.files)


def test_no_rows_no_files():
    """Inputs without rows, sorted or not, or no inputs at all make no file."""
    table = pa.table({"k": pa.array([], pa.int64())})
    io = made.make_io()
    empty = made.put_file(io, "e.parquet", table)
    for sections, unsorted in [((((empty,),),), (empty,)), ((), (empty,)), ((((empty,), (empty,)),), ()), ((), ())]:
        spec = made.make_spec(table, ("k",), sections=sections, unsorted=unsorted)
        assert made.merge(io, spec).files == ()
    assert made.names_in(io) == ["e.parquet"]


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("with_range", [False, True])
@pytest.mark.parametrize("keys", [[1, 2, 9, 3, 4, 20], [5, 4], [None, 3, None], [*list(range(100)), 50]])
def test_unsorted_input_is_named(runs, with_range, keys):
    """A file that is said to be sorted and is not is named, and no file stays behind."""
    table = pa.table({"k": pa.array(keys, pa.int64())})
    good = pa.table({"k": pa.array(range(0, 60, 3), pa.int64())})
    io = made.make_io()
    files = [made.put_file(io, f"r{at}.parquet", good) for at in range(runs - 1)]
    files.append(made.put_file(io, "bad.parquet", table))
    share = KeyRange(lower=pack_value(pa.scalar(-1, pa.int64()))) if with_range and None not in keys else None
    spec = made.make_spec(table, ("k",), sections=(tuple((file,) for file in files),), key_range=share)
    with pytest.raises(CorruptionError, match="not sorted") as caught:
        merge_ordered(io, spec, name_file=lambda at: f"out-{at}.parquet")
    assert caught.value.facts["file"] == f"{made.FOLDER}/bad.parquet"
    assert not [name for name in made.names_in(io) if name.startswith("out")]


@pytest.mark.parametrize("keys", [[1, 9, 2], [9, 1, 2, 8], [4, 5, 6, 1]])
def test_no_range_loses_rows_of_an_unsorted_input(keys):
    """Ranges of a file that is not sorted either fail or hold all its rows: none stops where others would go on."""
    table = pa.table({"k": pa.array(keys, pa.int64())})
    io = made.make_io()
    file = made.put_file(io, "bad.parquet", table, row_group_size=2)
    bound = pack_value(pa.scalar(5, pa.int64()))
    rows, failed = 0, 0
    for at, share in enumerate((KeyRange(upper=bound), KeyRange(lower=bound))):
        spec = made.make_spec(table, ("k",), sections=(((file,),),), key_range=share)
        try:
            result = merge_ordered(io, spec, name_file=lambda n, at=at: f"out-{at}-{n}.parquet")
            rows += result.rows_out
            verify_ordered(io, spec, result.files)
        except CorruptionError:
            failed += 1
    assert failed or rows == len(keys)


def test_sections_that_overlap_are_found():
    """A section that begins below the end of the one before it is not a section."""
    table = pa.table({"k": [1, 5]})
    io = made.make_io()
    files = [made.put_file(io, f"r{at}.parquet", table) for at in range(2)]
    spec = made.make_spec(table, ("k",), sections=(((files[0],),), ((files[1],),)))
    with pytest.raises(CorruptionError, match="overlap"):
        merge_ordered(io, spec, name_file=lambda at: f"out-{at}.parquet")
    assert made.names_in(io) == ["r0.parquet", "r1.parquet"]


def test_an_input_that_lost_rows_or_columns_is_named():
    """Counts and columns that are not as recorded stop the merge."""
    table = pa.table({"k": [1, 5], "v": [1, 2]})
    io = made.make_io()
    file = made.put_file(io, "r.parquet", table)
    short = OrderedFile(path=file.path, size_bytes=file.size_bytes, rows=3)
    with pytest.raises(CorruptionError, match="holds 2 rows"):
        merge_ordered(io, made.make_spec(table, ("k",), sections=(((short,),),)), name_file=str)
    other = made.make_spec(pa.table({"k": [1], "w": [1]}), ("k",), sections=(((file,),),))
    with pytest.raises(CorruptionError, match="no column w"):
        merge_ordered(io, other, name_file=str)
    other = made.make_spec(pa.table({"k": [1], "v": ["a"]}), ("k",), sections=(((file,),),))
    with pytest.raises(CorruptionError, match="is int64, not string"):
        merge_ordered(io, other, name_file=str)
    assert made.names_in(io) == ["r.parquet"]


def test_bounds_have_the_type_of_the_column():
    """A bound of another type, which would compare otherwise, is refused."""
    table = pa.table({"k": [1, 5]})
    io = made.make_io()
    file = made.put_file(io, "r.parquet", table)
    share = KeyRange(lower=pack_value(pa.scalar("3")))
    with pytest.raises(InvalidInputError, match="range of k"):
        merge_ordered(io, made.make_spec(table, ("k",), sections=(((file,),),), key_range=share), name_file=str)


def test_count_reads_sort_columns_only():
    """The cheap form finds a lost row, and does not see another value."""
    table = pa.table({"k": [1, 5], "v": [1, 2]})
    io = made.make_io()
    file = made.put_file(io, "r.parquet", table)
    spec = made.make_spec(table, ("k",), sections=(((file,),),), verify=Verify.COUNT)
    result = made.merge(io, spec)
    made.put_file(io, "r.parquet", pa.table({"k": [1, 5], "v": [1, 3]}))
    verify_ordered(io, spec, result.files)
    twice = made.make_spec(table, ("k",), sections=(((file,), (file,)),), verify=Verify.COUNT)
    with pytest.raises(VerificationError, match="4 rows"):
        verify_ordered(io, twice, result.files)


def test_row_groups_are_skipped_by_their_statistics(tmp_path):
    """A range reads only the row groups that may hold rows of it."""
    table = pa.table({"k": pa.array(range(1000), pa.int64()), "v": ["x" * 50] * 1000})
    io = made.make_io()
    file = made.put_file(io, "r.parquet", table, row_group_size=100)
    broken = bytearray(io.read_bytes(file.path))
    first = pq.ParquetFile(pa.BufferReader(bytes(broken))).metadata.row_group(0).column(1)
    broken[first.data_page_offset : first.data_page_offset + 8] = b"\xff" * 8
    io.replace(file.path, bytes(broken))
    share = KeyRange(lower=pack_value(pa.scalar(550, pa.int64())), upper=pack_value(pa.scalar(650, pa.int64())))
    spec = made.make_spec(table, ("k",), sections=(((file,),),), key_range=share)
    found = made.read_back(io, made.merge(io, spec), table.schema)
    assert found.column("k").to_pylist() == list(range(550, 650))
