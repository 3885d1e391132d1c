"""Statistics of floating-point columns: a merge must not change what readers find by them."""

import datetime as dt
import math
import shutil
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from float_files import COLUMNS, FILTERS, READERS, Filter, all_rows, draw_files, merge_files, new_mistakes

from packstone.rewrite.formats.parquet_file_writer import float_leaves, nan_leaves
from packstone.rewrite.formats.parquet_thrift import read_struct

NAN, INF = math.nan, math.inf
FILTERS_A_CASE = 6


@pytest.fixture
def small_groups(monkeypatch):
    """Cut row groups after a few rows, in the middle of those of the inputs."""

    def set_rows(rows):
        monkeypatch.setattr("packstone.rewrite.small_files.parquet_kernel.MAX_ROW_GROUP_ROWS", rows)
        monkeypatch.setattr("packstone.rewrite.small_files.parquet_splice.MAX_ROW_GROUP_ROWS", rows)
        monkeypatch.setattr("packstone.rewrite.formats.parquet_batches._MAX_BATCH_ROWS", rows)

    return set_rows


def check_seed(folder, seed, small_groups):
    """Ask every reader some filters before and after the merge of random files; return how they were merged."""
    before, after = folder / "before", folder / "after"
    dice = draw_files(seed, before)
    small_groups(dice.choice([2, 5, 1 << 20]))
    ways = merge_files(before, after)
    table = all_rows(before)
    assert sorted(all_rows(after)["id"].to_pylist()) == sorted(table["id"].to_pylist())
    below_nan = [Filter(column, "<", NAN) for column in COLUMNS]  # PyArrow judges it by whether bounds are known
    for one in (*below_nan, *dice.sample(FILTERS, FILTERS_A_CASE)):
        for reader, (find, judge) in READERS.items():
            mistakes = new_mistakes(find(before, one), find(after, one), judge(table, one))
            assert not mistakes, (seed, reader, one.to_sql(), sorted(mistakes)[:5])
    return ways


@pytest.mark.slow
def test_readers_find_what_they_found(tmp_path, small_groups):
    """No reader judges a row wrongly by a filter that it judged rightly before the merge, whoever wrote the files."""
    ways = set()
    for seed in range(60):
        ways |= check_seed(tmp_path / str(seed), seed, small_groups)
    assert ways == {"splice", "rewrite"}


@pytest.mark.soak
@pytest.mark.parametrize("part", range(50))
def test_readers_find_what_they_found_in_many_files(tmp_path, small_groups, part):
    """The long form: 5,000 directories, six filters each, three readers."""
    for seed in range(10_000 + part * 100, 10_100 + part * 100):
        check_seed(tmp_path / str(seed), seed, small_groups)
        shutil.rmtree(tmp_path / str(seed))


def merge(folder, *tables, rows=1, **options):
    """Write tables, each as often as they need to have ``rows`` rows, merge them; return the way, and the file."""
    before, after = folder / "before", folder / "after"
    before.mkdir()
    for number, table in enumerate(tables):
        many = pa.concat_tables([table] * -(-rows // table.num_rows))
        pq.write_table(many, before / f"{number}.parquet", **options)
    (way,) = merge_files(before, after)
    (path,) = after.iterdir()
    return way, path


def bounds(path, column=0):
    """Least and greatest value that the footer states, by row group; None where it states none."""
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(at).column(column).statistics for at in range(metadata.num_row_groups)]
    return [(found.min, found.max) if found is not None and found.has_min_max else None for found in groups]


@pytest.mark.parametrize(("way", "rows", "dictionary"), [("rewrite", 1, True), ("splice", 2000, False)])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 2.0], [-3.0, INF], (-3.0, INF)),
        ([1.0, 2.0], [0.5, NAN], None),
        ([1.0, 2.0], [NAN], None),
        ([1.0, None], [2.0], (1.0, 2.0)),
        ([1.0, None], [None], (1.0, 1.0)),
        ([1.0, 1.0], [2.0], None),
        ([1.0, 2.0], [0.0], None),
        ([1.0], [1.0], (1.0, 1.0)),
        ([0.0], [-0.0], (0.0, 0.0)),
    ],
)
def test_bounds_of_a_merged_chunk(tmp_path, way, rows, dictionary, first, second, expected):
    """A chunk has bounds only if no value is NaN and PyArrow errs no more by them than before; nulls are counted."""
    kind = pa.float64()
    tables = [pa.table({"x": pa.array(values, kind)}) for values in (first, second)]
    found, path = merge(tmp_path, *tables, rows=rows, use_dictionary=dictionary)
    assert (found, bounds(path)) == (way, [expected])
    nulls = pq.read_table(path)["x"].null_count
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).statistics.null_count == nulls


def write_some_with_statistics(folder, *, rows, **options):
    """Write six files of which only the first states bounds of its floating-point columns; merge them."""
    before, after = folder / "before", folder / "after"
    before.mkdir()
    items = [{"a": float(at % 7)} for at in range(rows)]
    columns = {"x": [1.0, 2.0, 3.0] * (rows // 3), "s": items, "k": ["a", "b", "c"] * (rows // 3)}
    for number in range(6):
        ids = {"id": range(number * rows, (number + 1) * rows)}
        stated = True if number == 0 else ["id", "k"]
        pq.write_table(pa.table(ids | columns), before / f"{number}.parquet", write_statistics=stated, **options)
    return before, after, merge_files(before, after)


@pytest.mark.parametrize(
    ("way", "rows", "dictionary"),
    [("rewrite", 3, False), ("splice", 3000, ["k"]), ("splice", 3000, ["x", "s.a"]), ("splice", 3000, True)],
)
def test_bounds_are_not_introduced(tmp_path, way, rows, dictionary):
    """One input with bounds among others without gives the merged chunk none, or PyArrow finds rows of ``x < NaN``."""
    before, after, ways = write_some_with_statistics(tmp_path, rows=rows, use_dictionary=dictionary)
    (path,) = after.iterdir()
    assert (ways, bounds(path, 1), bounds(path, 2)) == ({way}, [None], [None])
    assert bounds(path, 0) == [(0, 6 * rows - 1)]
    assert not pq.ParquetFile(path).metadata.row_group(0).column(1).has_column_index
    table = pq.read_table(before)
    for column in ("x", "s.a"):
        one = Filter(column, "<", NAN)
        for reader, (find, judge) in READERS.items():
            assert not new_mistakes(find(before, one), find(after, one), judge(table, one)), (reader, column)


def test_missing_bounds_follow_the_rows(tmp_path, small_groups):
    """Only the row groups that hold rows of an input without bounds state none, wherever these were cut."""
    small_groups(4)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    for number, stated in enumerate([True, True, False, True, True]):
        table = pa.table({"x": [float(number), number + 0.5, number + 0.75]})
        pq.write_table(table, before / f"{number}.parquet", write_statistics=stated)
    merge_files(before, after)
    (path,) = after.iterdir()
    rows = [group.num_rows for group in groups_of(path)]
    sources = [at // 3 for at in range(15)]
    starts = [sum(rows[:at]) for at in range(len(rows))]
    expected = [2 in sources[start : start + count] for start, count in zip(starts, rows, strict=True)]
    assert [found is None for found in bounds(path)] == expected
    assert True in expected
    assert False in expected


def test_nulls_of_another_row_group(tmp_path, small_groups):
    """A chunk cut in two has its null in one of them; the other one states no range either."""
    small_groups(2)
    _, path = merge(tmp_path, pa.table({"x": [None, 1.0, 2.0, 3.0]}), pa.table({"x": [4.0, 5.0]}))
    assert bounds(path) == [(1.0, 1.0), None, (4.0, 5.0)]


def groups_of(path):
    """The row groups that the footer lists."""
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(at) for at in range(metadata.num_row_groups)]


def test_chunks_without_nan_keep_their_bounds(tmp_path, small_groups):
    """One row group with a NaN does not cost the others their statistics."""
    small_groups(2)
    _, path = merge(tmp_path, pa.table({"x": [1.0, 2.0]}), pa.table({"x": [NAN, 3.0]}), pa.table({"x": [4.0, 5.0]}))
    assert bounds(path) == [(1.0, 2.0), None, (4.0, 5.0)]


@pytest.mark.parametrize("page_index", [False, True])
def test_pages_have_no_bounds_either(tmp_path, page_index):
    """Neither the page index nor the header of a page states bounds of a chunk with a NaN."""
    tables = [pa.table({"x": [1.0, NAN], "y": [1.0, 2.0]})] * 2
    _, path = merge(tmp_path, *tables, write_page_index=page_index, use_dictionary=False, compression="none")
    data = path.read_bytes()
    x, y = (pq.ParquetFile(path).metadata.row_group(0).column(at) for at in (0, 1))
    assert (x.has_column_index, y.has_column_index) == (False, True)
    assert x.has_offset_index
    for chunk in (x, y):
        header, _ = read_struct(data, chunk.data_page_offset)
        assert not header[5][1].get(5, (0, {}))[1]


def test_a_minimum_of_zero_keeps_its_sign(tmp_path):
    """DuckDB takes a minimum from exact bounds, and 0.0 is written there as -0.0: so such bounds are not exact."""
    _, path = merge(
        tmp_path, pa.table({"x": [0.0, 1.0], "y": [1.0, 2.0]}), pa.table({"x": [2.0, 3.0], "y": [3.0, 4.0]})
    )
    assert duckdb.sql(f"select min(x)::varchar, min(y)::varchar from '{path}'").fetchall() == [("0.0", "1.0")]


def test_a_dictionary_is_no_proof_about_zeros(tmp_path):
    """Spark skips a chunk whose dictionary has the other zero: the footer states none where a zero may be."""
    columns = {"x": [-0.0, 1.0] * 5, "y": [NAN, 2.0] * 5, "z": [1.0, 2.0] * 5, "n": [-1.0, -2.0] * 5}
    _, path = merge(tmp_path, pa.table(columns), pa.table(columns))
    data = path.read_bytes()
    footer, _ = read_struct(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    chunks = [chunk[3][1] for chunk in footer[4][1].items[0][1][1].items]
    assert [13 in chunk for chunk in chunks] == [False, False, True, True]
    assert pq.read_table(path)["x"].to_pylist() == columns["x"] * 2


def test_every_leaf_is_looked_into():
    """NaN is found in structs, lists, maps, dictionaries and half floats, and only within a slice."""
    x = [1.0, NAN]
    table = pa.table(
        {
            "i": pa.array([1, 2]),
            "s": pa.array([{"a": 1.0, "b": NAN}, {"a": 2.0, "b": 1.0}]),
            "l": pa.array([[1.0], [2.0, NAN]]),
            "fixed": pa.array([[1.0, 2.0], [3.0, NAN]], pa.list_(pa.float32(), 2)),
            "m": pa.array([[("k", 1.0)], [("k", NAN)]], pa.map_(pa.string(), pa.float64())),
            "d": pa.array(x).dictionary_encode(),
            "h": pa.array(np.array(x, np.float16)),
            "f": pa.array(x, pa.float32()),
        }
    )
    assert float_leaves(table.schema) == (1, 2, 3, 4, 6, 7, 8, 9)
    assert nan_leaves(table) == {2, 3, 4, 6, 7, 8, 9}
    assert nan_leaves(table.slice(0, 1)) == {2, 7}  # a dictionary offers all its values to every slice
    assert nan_leaves(table.slice(1)) == {3, 4, 6, 7, 8, 9}
    assert nan_leaves(table.slice(0, 0)) <= {7}


OTHERS = {
    "int8": (pa.int8(), [-128, 127, 0, None]),
    "uint32": (pa.uint32(), [0, 2**31, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1, 1]),
    "bool": (pa.bool_(), [True, False, None]),
    "small decimal": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("9999999.99"), None]),
    "decimal": (pa.decimal128(38, 0), [Decimal(-1), Decimal(10**38 - 1), Decimal(0), Decimal(-(10**38) + 1)]),
    "text": (pa.string(), ["", "a", "Z", "é", "\x7f", "\U0001f600", "\uffff", None]),
    "long text": (pa.string(), ["x" * 5000, "x" * 4999 + "y", "a"]),
    "binary": (pa.binary(), [b"\xff", b"\x7f", b"", b"\x80\x00"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "time": (pa.time64("us"), [dt.time(0, 0), dt.time(23, 59, 59, 999_999)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23)]),  # noqa: DTZ001
}


@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("what", OTHERS)
def test_statistics_of_other_types_are_true(tmp_path, what, int96):
    """Where inputs state nothing, what a merged file states is true of its values, and readers find the same by it."""
    kind, values = OTHERS[what]
    tables = [pa.table({"v": pa.array([value, values[0]], kind)}) for value in values]
    options = {"write_statistics": False, "use_deprecated_int96_timestamps": int96, "store_decimal_as_integer": int96}
    _, path = merge(tmp_path, *tables, **options)
    found = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    stored = pq.read_table(path)["v"]
    assert found is None or found.null_count == stored.null_count
    comparable = [v.encode() if isinstance(v, str) else v for v in stored.to_pylist() if v is not None]
    if found is not None and found.has_min_max:
        low, high = (v.encode() if isinstance(v, str) else v for v in (found.min, found.max))
        assert (low, high) == (min(comparable), max(comparable))
    for value in {value for value in values if value is not None}:
        for operator in ("=", "<", ">="):
            asked = f"select v from read_parquet('{tmp_path}/{{}}/*.parquet') where v {operator} ? order by v"
            before, after = (duckdb.execute(asked.format(folder), [value]).fetchall() for folder in ("before", "after"))
            assert after == before
