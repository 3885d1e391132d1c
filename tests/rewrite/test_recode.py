"""Merged dictionaries and new codes: every reader sees the rows and finds what it found, whatever wrote the files."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packstone.errors import UnreadableFileError
from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec, UnitStatus, Verify
from packstone.rewrite.formats.parquet_codes import count_level, merge_dictionaries, pack, recode, unpack
from packstone.rewrite.formats.parquet_pages import DICTIONARY_PAGE, walk_pages
from packstone.rewrite.formats.parquet_thrift import read_struct
from packstone.rewrite.proof.verify_statistics import check_statistics
from packstone.rewrite.small_files import parquet_splice
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.rewrite.small_files.parquet_splice import plan_splice, splice_parquet
from packstone.rewrite.small_files.spliced_file import CannotSpliceError
from packstone.rewrite.small_files.verify_splice import check_readable, fingerprint_splice
from packstone.storage.local import LocalFileIO

FILES, ROWS = 4, 2_000
NAN = math.nan


@pytest.fixture
def tiny_pages(monkeypatch):
    """Splice pages however small they are, so that small tables will do."""
    monkeypatch.setattr(parquet_splice, "_MIN_PAGE_VALUES", 0)
    monkeypatch.setattr(parquet_splice, "_MIN_COPIED_PCT", 0)


def splice(folder, output=None):
    """Merge the files of a folder; return the output and how its columns were made."""
    io, paths = LocalFileIO(), [str(path) for path in sorted(folder.iterdir())]
    output = output or folder.parent / f"{folder.name}.parquet"
    return output, splice_parquet(io, paths, str(output), plan=plan_splice(io, paths))


def footer_of(path):
    """The footer with all its fields, and the content of the file."""
    data = Path(path).read_bytes()
    return read_struct(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])[0], data


def orders_of(path):
    """Which pages have codes (D) and which have none (p), by row group and column."""
    footer, data = footer_of(path)
    found = []
    for group in footer[4][1].items:
        orders = []
        for chunk in group[1][1].items:
            metadata = chunk[3][1]
            begin = metadata.get(11, metadata[9])[1]
            pages = walk_pages(data[begin : begin + metadata[7][1]])
            orders.append("".join("pD"[page.is_coded] for page in pages if page.kind != DICTIONARY_PAGE))
        found.append(orders)
    return found


def same(one, other):
    """Whether two tables are equal, NaN included."""
    return all(
        left.combine_chunks().equals(right.combine_chunks()) or repr(left.to_pylist()) == repr(right.to_pylist())
        for left, right in zip(one.columns, other.columns, strict=True)
    )


def check_rows(folder, output):
    """PyArrow, DuckDB and Polars see in the output what they see in the inputs, row by row."""
    inputs = sorted(folder.iterdir())
    expected = pa.concat_tables([pq.read_table(path, partitioning=None) for path in inputs])
    assert same(pq.ParquetFile(output, page_checksum_verification=True).read(), expected)
    names = [str(path) for path in inputs]
    assert str(duckdb.read_parquet(str(output)).fetchall()) == str(duckdb.read_parquet(names).fetchall())
    assert pl.read_parquet(output, glob=False).equals(pl.concat([pl.read_parquet(path, glob=False) for path in inputs]))
    return expected


def check_filters(expected, output):
    """Equality, ranges and nulls find the same rows by statistics, dictionaries, page indexes and bloom filters."""
    for field in expected.schema:
        if pa.types.is_nested(field.type) or pa.types.is_floating(field.type) or pa.types.is_boolean(field.type):
            continue
        column = expected[field.name]
        values = column.drop_null()
        found = duckdb.sql(f'select count(*) from "{output}" where "{field.name}" is null').fetchall()
        assert found == [(column.null_count,)]
        for value in {values[at * (len(values) - 1) // 3].as_py() for at in range(4)} if len(values) else ():
            scalar = pa.scalar(value, field.type)
            for operator, judge in (("=", pc.equal), ("<", pc.less), (">=", pc.greater_equal)):
                rows = pc.sum(judge(column, scalar)).as_py() or 0
                asked = f'select count(*) from "{output}" where "{field.name}" {operator} ?'
                assert duckdb.execute(asked, [value]).fetchall() == [(rows,)], (field.name, operator, value)
            by_polars = pl.scan_parquet(output, glob=False).filter(pl.col(field.name) == value).select(pl.len())
            by_arrow = pq.read_table(output, filters=[(field.name, "==", value)], partitioning=None)
            rows = pc.sum(pc.equal(column, scalar)).as_py()
            assert (by_polars.collect().item(), by_arrow.num_rows) == (rows, rows), (field.name, value)


def check(folder):
    """Merge, and compare rows and filters; return the output and how its columns were made."""
    output, spliced = splice(folder)
    check_filters(check_rows(folder, output), output)
    for orders in orders_of(output):
        assert all("pD" not in order for order in orders)
    prove(folder, output, spliced)
    return output, spliced


def prove(folder, output, spliced):
    """The proof accepts the output."""
    io, paths = LocalFileIO(), [str(path) for path in sorted(folder.iterdir())]
    check_readable(io, str(output), paths, leaves=spliced.copied)
    before, after = (fingerprint_splice(io, some, copied=spliced.copied) for some in (paths, [str(output)]))
    assert before == after
    check_statistics(io, paths, str(output))


def rows_of(at, rows=ROWS):
    """A table of many types whose values repeat, differently in every file; some columns are null in some files."""
    dice = random.Random(at)
    maybe = np.array([dice.random() < 0.2 for _ in range(rows)])
    few = [dice.randrange(7) for _ in range(rows)]
    some = [dice.randrange(at * 50, at * 50 + 400) for _ in range(rows)]
    day = dt.date(2024, 1, 1)
    pair = pa.struct({"x": pa.int32(), "y": pa.string()})
    sorted_words = sorted(f"w{n % 90:03}" for n in some)
    return pa.table(
        {
            "few": pa.array([f"few {n}" for n in few], mask=maybe),
            "some": [f"some {n}" for n in some],
            "one": ["one"] * rows,
            "sorted": sorted_words,
            "null_in_some": pa.array([None if at % 2 else f"n{n}" for n in few], pa.string()),
            "null": pa.array([None] * rows, pa.string()),
            "empty": pa.array(["" if n % 2 else "häß→" for n in few]),
            "int": pa.array(some, pa.int32(), mask=maybe),
            "long": pa.array([n * 10**10 for n in few], pa.int64()),
            "unsigned": pa.array([n * 6 * 10**8 for n in few], pa.uint32()),
            "double": pa.array([n / 4 for n in few], mask=maybe),
            "float": pa.array([n / 4 for n in some], pa.float32()),
            "decimal": pa.array([decimal.Decimal(n) / 8 for n in some], pa.decimal128(25, 3)),
            "date": pa.array([day + dt.timedelta(n) for n in some], mask=maybe),
            "flag": pa.array([n % 2 == 0 for n in few], mask=maybe),
            "time": pa.array([n * 1_000_000 for n in some], pa.timestamp("us")),
            "binary": pa.array([bytes([n, 255]) for n in few]),
            "list": pa.array([None if n == 3 else [n, None, n * 2][: n % 4] for n in few], pa.list_(pa.int32())),
            "words": pa.array([None if n == 2 else [f"x{n}"] * (n % 3) for n in few], pa.list_(pa.string())),
            "pair": pa.array([None if n == 5 else {"x": n, "y": f"y{n}"} for n in few], pair),
            "map": pa.array([[(f"k{n}", n)] * (n % 2) for n in few], pa.map_(pa.string(), pa.int64())),
        }
    )


WAYS = {
    "version 1": {},
    "version 2": {"data_page_version": "2.0"},
    "overflow": {"dictionary_pagesize_limit": 600, "write_batch_size": 250},
    "overflow, version 2": {"dictionary_pagesize_limit": 600, "write_batch_size": 250, "data_page_version": "2.0"},
    "many pages": {"data_page_size": 500, "write_batch_size": 400},
    "page index": {"write_page_index": True},
    "page index, many pages": {"write_page_index": True, "data_page_size": 500, "write_batch_size": 400},
    "page index, version 2": {"write_page_index": True, "data_page_size": 500, "data_page_version": "2.0"},
    "checksums": {"write_page_checksum": True},
    "row groups": {"row_group_size": 700},
    "no statistics": {"write_statistics": False},
    "int96": {"use_deprecated_int96_timestamps": True},
    "int96, version 2": {"use_deprecated_int96_timestamps": True, "data_page_version": "2.0"},
    "bloom filters": {"bloom_filter_options": {"few": {"ndv": 100, "fpp": 0.01}, "int": {"ndv": 1000, "fpp": 0.01}}},
    **{codec: {"compression": codec} for codec in ("none", "gzip", "zstd", "brotli", "lz4")},
}


def write_pyarrow(folder, **options):
    """Write the files by PyArrow, one without rows among them."""
    folder.mkdir()
    for at in range(FILES):
        pq.write_table(rows_of(at), folder / f"{at}.parquet", **options)
    pq.write_table(rows_of(0).slice(0, 0), folder / "2b.parquet", **options)


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(3)
def test_files_of_pyarrow(tmp_path, way):
    """Pages of both versions, codecs, overflows, nulls, nested columns, INT96, indexes and bloom filters."""
    write_pyarrow(tmp_path / "t", **WAYS[way])
    output, spliced = check(tmp_path / "t")
    assert "recoded" in spliced.note
    if "overflow" not in way:
        assert "encoded" not in spliced.note.replace("recoded", "")
    before = pq.read_metadata(tmp_path / "t" / "0.parquet").row_group(0)
    after = pq.read_metadata(output).row_group(0)
    for leaf in range(after.num_columns):
        had, has = before.column(leaf), after.column(leaf)
        assert (has.bloom_filter_offset is not None) == (had.bloom_filter_offset is not None)
        assert has.has_offset_index == had.has_offset_index
        assert has.compression == had.compression


def filtered_columns(metadata):
    """The columns of the first row group that have a bloom filter."""
    group = metadata.row_group(0)
    return [at for at in range(metadata.num_columns) if group.column(at).bloom_filter_offset is not None]


SQL = """
    select i, 's' || (hash(i) % 7) low, case when hash(i * 3) % 5 > 0 then 'm' || (hash(i + 1) % 300) end mid,
        'u' || i uni,
        (hash(i * 7) % 100)::int small, (hash(i) % 9)::double / 4 dbl, (hash(i * 11) % 500)::decimal(12, 2) dec,
        timestamp '2024-01-01' + interval (hash(i) % 500) hour ts, date '2024-01-01' + (hash(i) % 300)::int as day,
        hash(i) % 2 = 0 flag, case when hash(i) % 4 > 0 then [(hash(i) % 10)::bigint, null] end l,
        {{'a': 'x' || (hash(i) % 6), 'b': (hash(i) % 4)::bigint}} st, null::varchar nothing,
        case when i < 4000 then 'n' || (i % 9) end null_in_some
    from range({}, {}) t(i)
"""


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize(
    "options", ["compression snappy", "compression zstd", "compression lz4_raw", "parquet_version v2"]
)
@pytest.mark.sample(2)
def test_files_of_duckdb(tmp_path, options):
    """DuckDB gives every dictionary a bloom filter: the merged file has them too, for exactly its values."""
    (tmp_path / "t").mkdir()
    for at in range(FILES):
        rows = SQL.format(at * ROWS, (at + 1) * ROWS)
        duckdb.sql(f"copy ({rows}) to '{tmp_path}/t/{at}.parquet' (format parquet, {options})")
    output, _ = check(tmp_path / "t")
    before, after = (pq.read_metadata(path) for path in (tmp_path / "t" / "0.parquet", output))
    filtered = [
        at for at in range(before.num_columns) if before.row_group(0).column(at).bloom_filter_offset is not None
    ]
    assert filtered
    assert all(after.row_group(0).column(at).bloom_filter_offset is not None for at in filtered)
    for value, excluded in (("s3", False), ("absent", True)):
        probe = duckdb.execute("select * from parquet_bloom_probe(?, 'low', ?)", [str(output), value]).fetchall()
        assert [row[-1] for row in probe] == [excluded]


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"data_page_size": 2_000, "row_group_size": 1_000}])
@pytest.mark.sample(2)
def test_files_of_polars(tmp_path, options):
    """Polars states statistics in the headers of pages, too; they stay true."""
    (tmp_path / "t").mkdir()
    for at in range(FILES):
        table = pl.from_arrow(rows_of(at).drop_columns(["map"]))
        table.write_parquet(tmp_path / "t" / f"{at}.parquet", **options)
    check(tmp_path / "t")


# ---- the order of pages ----


def write_column(folder, name, values, **options):
    """Write one file of one column."""
    folder.mkdir(exist_ok=True)
    table = values if isinstance(values, pa.Table) else pa.table({"v": values})
    pq.write_table(table, folder / f"{name}.parquet", **options)


WORDS = pa.array([f"w{n % 50}" for n in range(ROWS)])
PLAIN, CODED = {"use_dictionary": False}, {"use_dictionary": True}
OVERFLOW = {"use_dictionary": True, "dictionary_pagesize_limit": 200, "write_batch_size": 500}
DELTAS = {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}}
UNIQUE = pa.array([f"u{n}" for n in range(ROWS)])
NOTHING = pa.array([None] * ROWS, pa.string())
ORDERS = {
    "codes": ([(WORDS, CODED), (WORDS, CODED)], "recoded"),
    "plain": ([(WORDS, PLAIN), (WORDS, PLAIN)], "copied"),
    "plain after codes": ([(WORDS, CODED), (WORDS, PLAIN), (WORDS, PLAIN)], "recoded"),
    "codes after plain": ([(WORDS, PLAIN), (WORDS, CODED)], "encoded"),
    "overflow at the end": ([(WORDS, CODED), (UNIQUE, OVERFLOW)], "recoded"),
    "two overflows": ([(UNIQUE, OVERFLOW), (UNIQUE, OVERFLOW)], "encoded"),
    "plain nulls first": ([(NOTHING, PLAIN), (WORDS, CODED)], "recoded"),
    "plain nulls between": ([(WORDS, CODED), (NOTHING, PLAIN), (WORDS, CODED)], "recoded"),
    "plain nulls last": ([(WORDS, CODED), (NOTHING, PLAIN)], "recoded"),
    "coded nulls first": ([(NOTHING, CODED), (WORDS, CODED)], "recoded"),
    "coded nulls before plain": ([(NOTHING, CODED), (WORDS, PLAIN)], "recoded"),
    "coded nulls after plain": ([(WORDS, PLAIN), (NOTHING, CODED)], "recoded"),
    "nulls of both kinds": ([(NOTHING, CODED), (NOTHING, PLAIN)], "recoded"),
    "deltas of nulls": ([(WORDS, CODED), (NOTHING, DELTAS), (WORDS, CODED)], "recoded"),
    "nulls everywhere": ([(NOTHING, PLAIN), (NOTHING, PLAIN)], "copied"),
    "nulls after an overflow": ([(UNIQUE, OVERFLOW), (NOTHING, CODED), (UNIQUE, PLAIN)], "recoded"),
}


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["snappy", "none"])
@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.sample(2)
def test_codes_never_follow_plain_pages(tmp_path, what, codec, version):
    """Spark returns wrong values of such chunks; pages of nulls fit anywhere."""
    columns, way = ORDERS[what]
    for at, (values, options) in enumerate(columns):
        table = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values)})
        write_column(
            tmp_path / "t", str(at), table, compression=codec, data_page_version=version,
            **options | {"use_dictionary": ["v"] if options["use_dictionary"] else False},
        )  # fmt: skip
    _, spliced = check(tmp_path / "t")
    expected = {"copied": "2 copied", "recoded": "1 copied, 1 recoded"}
    assert spliced.note.startswith(expected.get(way, "1 copied, 1 encoded (v: a page with codes would"))


@pytest.mark.usefixtures("tiny_pages")
def test_a_row_group_ends_before_a_second_dictionary(tmp_path, monkeypatch):
    """Where row groups have a usual size by then, a new one begins, and nothing is encoded."""
    monkeypatch.setattr(parquet_splice, "_MIN_GROUP_ROWS", ROWS)
    for at in range(3):
        write_column(tmp_path / "t", str(at), UNIQUE, **OVERFLOW)
    output, spliced = check(tmp_path / "t")
    assert pq.read_metadata(output).num_row_groups == 3
    assert spliced.note == "1 recoded"


# ---- sizes ----


def widths_of(path):
    """The widths of the codes of each page of a file with one required column, without a codec."""
    chunk = pq.read_metadata(path).row_group(0).column(0)
    begin = chunk.dictionary_page_offset
    data = memoryview(path.read_bytes())[begin : begin + chunk.total_compressed_size]
    return [data[page.body] for page in walk_pages(data) if page.is_coded]


@pytest.mark.usefixtures("tiny_pages")
def test_codes_are_as_long_as_those_of_their_page_need(tmp_path):
    """The first files have small codes, so theirs are short, whatever the length of the dictionary."""
    (tmp_path / "t").mkdir()
    dice = np.random.default_rng(5)
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    for at in range(6):
        rows = pa.table([pa.array(dice.integers(0, 100, ROWS) + 1000 * at)], schema)
        pq.write_table(rows, tmp_path / "t" / f"{at}.parquet", compression="none")
    output, _ = check(tmp_path / "t")
    assert widths_of(output) == [7, 8, 9, 9, 9, 10]


@pytest.mark.usefixtures("tiny_pages")
def test_codes_that_compress_better_in_whole_bytes_have_whole_bytes(tmp_path):
    """What zstd finds in codes of 8 bits, it does not find in those of 9, so a chunk that grew is made again."""
    for at in range(4):
        values = pa.array([f"{at} {n % 250}" for n in range(50 * ROWS)])
        write_column(tmp_path / "t", str(at), values, compression="zstd")
    output, _ = check(tmp_path / "t")
    assert output.stat().st_size <= sum(path.stat().st_size for path in (tmp_path / "t").iterdir())


@pytest.mark.usefixtures("tiny_pages")
def test_a_row_group_that_would_grow_is_cut(tmp_path, monkeypatch):
    """Values of each file's own make one big dictionary with long codes; row groups end earlier then."""
    monkeypatch.setattr(parquet_splice, "_MIN_GROUP_ROWS", 4_000)
    monkeypatch.setattr(parquet_splice, "_MIN_GROWTH_BYTES", 0)
    dice = np.random.default_rng(5)
    for at in range(16):
        write_column(tmp_path / "t", f"{at:02}", pa.array(dice.integers(0, 250, 4_000) + 1000 * at, pa.int64()))
    output, _ = check(tmp_path / "t")
    inputs = sum(path.stat().st_size for path in (tmp_path / "t").iterdir())
    assert pq.read_metadata(output).num_row_groups > 1
    assert output.stat().st_size < inputs * 1.3


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("min_group_rows", [100_000, 4_000])
@pytest.mark.parametrize("nulls_pct", [0, 60])
def test_a_dictionary_that_does_not_pay_is_not_merged(tmp_path, monkeypatch, nulls_pct, min_group_rows):
    """Codes of values that never repeat would grow in any row group: they are stored plainly, in one row group."""
    monkeypatch.setattr(parquet_splice, "_MIN_GROUP_ROWS", min_group_rows)
    dice = np.random.default_rng(5)
    for at in range(16):
        values = pa.array(dice.integers(0, 1 << 60, ROWS), pa.int64(), mask=dice.random(ROWS) * 100 < nulls_pct)
        write_column(tmp_path / "t", f"{at:02}", values)
    output, spliced = check(tmp_path / "t")
    assert spliced.note.startswith("1 encoded (v: one dictionary of all files would take more")
    assert pq.read_metadata(output).num_row_groups == 1
    assert output.stat().st_size <= sum(path.stat().st_size for path in (tmp_path / "t").iterdir())


@pytest.mark.usefixtures("tiny_pages")
def test_dictionaries_are_bounded(tmp_path, monkeypatch):
    """A row group ends before the dictionaries of a column exceed what a reader should hold."""
    monkeypatch.setattr(parquet_splice, "_MAX_DICTIONARY_BYTES", 100_000)
    for at in range(6):
        values = pa.array([f"{at} {n % 500} {'x' * 90}" for n in range(ROWS)])
        write_column(tmp_path / "t", str(at), values)
    output, _ = check(tmp_path / "t")
    assert pq.read_metadata(output).num_row_groups == 3


# ---- what the footer states ----


@pytest.mark.usefixtures("tiny_pages")
def test_page_index_and_sizes_are_those_of_the_pages(tmp_path):
    """Every page is where the index says, begins with the row that it says, and lies within its bounds."""
    write_pyarrow(tmp_path / "t", write_page_index=True, data_page_size=500, write_batch_size=400)
    output, _ = splice(tmp_path / "t")
    footer, data = footer_of(output)
    table = pq.read_table(output)
    (group,) = footer[4][1].items
    names = [chunk[3][1][3][1].items[0].decode() for chunk in group[1][1].items]
    for name, chunk in zip(names, group[1][1].items, strict=True):
        metadata, places = chunk[3][1], read_struct(data, chunk[4][1])[0]
        begin = metadata.get(11, metadata[9])[1]
        pages = [page for page in walk_pages(data[begin : begin + metadata[7][1]]) if page.kind != DICTIONARY_PAGE]
        stated = [(place[1][1], place[2][1]) for place in places[1][1].items]
        assert stated == [(begin + page.begin, page.end - page.begin) for page in pages]
        starts = [place[3][1] for place in places[1][1].items]
        assert starts[0] == 0
        assert starts == sorted(starts)
        if 16 in metadata and 3 in metadata[16][1]:
            assert sum(metadata[16][1][3][1].items) == metadata[5][1]
        if pa.types.is_nested(table[name].type):
            continue
        assert starts == list(np.cumsum([0, *(page.values for page in pages[:-1])]))
        if 6 not in chunk:
            continue
        index = read_struct(data, chunk[6][1])[0]
        for at, start in enumerate(starts):
            rows = table[name].slice(start, pages[at].values)
            assert index[5][1].items[at] == rows.null_count
            assert index[1][1].items[at] == (rows.null_count == len(rows))
            values = [value.encode() if isinstance(value, str) else None for value in rows.to_pylist()]
            if pa.types.is_string(rows.type) and any(values):
                low, high = index[2][1].items[at], index[3][1].items[at]
                assert (low, high) == (min(v for v in values if v is not None), max(v for v in values if v is not None))


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("options", [CODED, PLAIN, OVERFLOW | {"dictionary_pagesize_limit": 40}])
@pytest.mark.parametrize("index", [True, False])
def test_no_bounds_where_a_value_is_nan(tmp_path, options, index):
    """Whether it is in a dictionary or in a plain page; columns without NaN keep their bounds."""
    for at in range(2):
        numbers = [float(n % 20) + 1 for n in range(ROWS)]
        table = pa.table({"x": [*numbers[:-1], NAN if at else 1.0], "y": numbers})
        write_column(tmp_path / "t", str(at), table, write_page_index=index, **options)
    output, _ = splice(tmp_path / "t")
    x, y = (pq.read_metadata(output).row_group(0).column(at) for at in (0, 1))
    assert (x.statistics.has_min_max, y.statistics.has_min_max) == (False, True)
    assert (x.has_column_index, y.has_column_index) == (False, index)
    check_rows(tmp_path / "t", output)


# ---- broken pages ----


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("options", [{"compression": "snappy"}, {"compression": "none", "write_page_checksum": True}])
@pytest.mark.parametrize("place", ["dictionary", "codes"])
def test_a_broken_page_is_blamed_on_its_file(tmp_path, options, place):
    """A new checksum must not hide that the old one was wrong."""
    for at in range(3):
        write_column(tmp_path / "t", str(at), WORDS, **options)
    broken = tmp_path / "t" / "1.parquet"
    chunk = pq.read_metadata(broken).row_group(0).column(0)
    data = bytearray(broken.read_bytes())
    end = (
        chunk.data_page_offset if place == "dictionary" else chunk.dictionary_page_offset + chunk.total_compressed_size
    )
    data[end - 12 : end - 4] = b"\xff" * 8
    broken.write_bytes(data)
    with pytest.raises(UnreadableFileError) as caught:
        splice(tmp_path / "t")
    assert caught.value.facts["file"] == str(broken) or place == "dictionary"


@pytest.mark.usefixtures("tiny_pages")
def test_a_code_beyond_the_dictionary_gets_no_meaning(tmp_path):
    """It is an error in its file, and stays one where the dictionary of another file has an entry at that place."""
    schema = pa.schema([pa.field("v", pa.string(), nullable=False)])
    for at, letters in enumerate(("abc" * 5 + "a", "abcd" * 4)):
        table = pa.table({"v": list(letters)}, schema=schema)
        write_column(tmp_path / "t", str(at), table, compression="none")
    broken = tmp_path / "t" / "0.parquet"
    chunk = pq.read_metadata(broken).row_group(0).column(0)
    data = bytearray(broken.read_bytes())
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    assert data[end - 6 : end - 4] == bytes([2, 5])  # codes of two bits, two groups of them
    data[end - 1] = 0xFF
    broken.write_bytes(data)
    with pytest.raises(UnreadableFileError, match=r"0\.parquet.*beyond the end of the dictionary"):
        splice(tmp_path / "t")


def test_a_footer_that_says_only_nulls_is_not_believed(tmp_path, monkeypatch):
    """Values that a wrong null count hides are not dropped."""
    monkeypatch.setattr(parquet_splice, "_is_null", lambda piece, leaf: piece.path.endswith("1.parquet"))
    for at, options in enumerate((CODED, PLAIN, CODED)):
        write_column(tmp_path / "t", str(at), WORDS, **options)
    with pytest.raises(CannotSpliceError, match="holds values"):
        splice(tmp_path / "t")


# ---- codes ----


@given(bits=st.integers(0, 32), groups=st.integers(1, 40), seed=st.integers(0, 1000))
def test_codes_are_packed_with_the_least_bit_first(bits, groups, seed):
    """Packing equals the arithmetic of one big number, and unpacking reverses it."""
    dice = random.Random(seed)
    codes = [dice.randrange(1 << bits) for _ in range(groups * 8)]
    number = sum(code << at * bits for at, code in enumerate(codes))
    packed = pack(np.array(codes, np.uint64), bits)
    assert packed == number.to_bytes(groups * bits, "little")
    assert unpack(packed, bits, groups).tolist() == codes


@st.composite
def coded_pages(draw):
    """Runs of codes as a page stores them, and the codes."""
    bits = draw(st.integers(1, 18))
    entries = draw(st.integers(1, min(1 << bits, 5000)))
    code = st.integers(0, entries - 1)
    data, codes = bytearray([bits]), []
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            length, one = draw(st.integers(1, 300)), draw(code)
            data += _varint(length << 1) + one.to_bytes((bits + 7) // 8, "little")
            codes += [one] * length
        else:
            groups = draw(st.integers(1, 70))
            dice = random.Random(draw(st.integers(0, 99)))
            packed = [dice.randrange(entries) for _ in range(groups * 8)]
            data += _varint(groups << 1 | 1) + pack(np.array(packed, np.uint64), bits)
            codes += packed
    return bytes(data), codes, entries


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_codes(data):
    """The codes of a page, by the arithmetic of big numbers."""
    bits = data[0]
    runs = data[1:]
    found, at = [], 0
    while at < len(runs):
        header = shift = 0
        while True:
            byte = runs[at]
            at += 1
            header |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if header & 1:
            size = (header >> 1) * bits
            number = int.from_bytes(runs[at : at + size], "little")
            found += [number >> place * bits & (1 << bits) - 1 for place in range((header >> 1) * 8)]
            at += size
        else:
            size = (bits + 7) // 8
            found += [int.from_bytes(runs[at : at + size], "little")] * (header >> 1)
            at += size
    return found


@settings(deadline=None)
@given(page=coded_pages(), seed=st.integers(0, 99), more=st.integers(0, 70_000))
def test_every_code_gets_its_new_number(page, seed, more):
    """Whatever the runs are, the codes are those of the merged dictionary; what is before them stays."""
    data, codes, entries = page
    new = np.array(random.Random(seed).sample(range(entries + more), entries), np.uint64)
    bits = (entries + more - 1).bit_length()
    found = recode(b"levels" + data, 6, new, bits=bits, count=lambda: len(codes))
    assert found[:6] == b"levels"
    assert read_codes(found[6:]) == [int(new[code]) for code in codes]


@pytest.mark.parametrize("values", [1, 5, 7, 8])
def test_only_padding_may_be_beyond_the_dictionary(values):
    """The last group of a page may hold anything after its values; a value must be in the dictionary."""
    codes = [0, 1, 2, 0, 1, 2, 0, 1][:values] + [7] * (8 - values)
    data = bytes([3, 3]) + pack(np.array(codes, np.uint64), 3)
    found = recode(data, 0, np.array([5, 6, 4], np.uint64), bits=3, count=lambda: values)
    assert read_codes(found)[:values] == [(5, 6, 4)[code] for code in codes[:values]]
    if values < 8:
        with pytest.raises(ValueError, match="beyond"):
            recode(data, 0, np.array([5, 6, 4], np.uint64), bits=3, count=lambda: values + 1)
    with pytest.raises(ValueError, match="beyond"):
        recode(bytes([3, 10, 7]), 0, np.array([5, 6, 4], np.uint64), bits=3, count=lambda: 5)


@given(levels=st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_levels_are_counted(levels):
    """Packed or repeated, up to the number of values of a page."""
    padded = levels + [3] * (-len(levels) % 8)
    packed = _varint(len(padded) // 8 << 1 | 1) + pack(np.array(padded, np.uint64), 2)
    runs = b"".join(_varint(2) + bytes([level]) for level in levels)
    for data in (packed, runs):
        assert count_level(data, 3, bits=2, values=len(levels)) == levels.count(3)


@given(st.lists(st.lists(st.binary(max_size=6), max_size=8), min_size=1, max_size=5))
def test_dictionaries_of_strings_are_merged_in_order_of_appearance(pages):
    """Each value once, and the new code of every old one."""
    stored = [(b"".join(len(v).to_bytes(4, "little") + v for v in page), len(page)) for page in pages]
    merged = merge_dictionaries(stored, width_bytes=0)
    expected = list(dict.fromkeys(value for page in pages for value in page))
    assert merged.entries.to_pylist() == expected
    assert merged.plain == b"".join(len(v).to_bytes(4, "little") + v for v in expected)
    assert [[expected[int(c)] for c in codes] for codes in merged.codes] == pages


@given(
    width=st.sampled_from([4, 8, 12, 13, 16]), seed=st.integers(0, 99), counts=st.lists(st.integers(0, 6), min_size=1)
)
def test_dictionaries_of_fixed_width_are_merged_by_their_bytes(width, seed, counts):
    """NaN and both zeros are entries of their own."""
    dice = random.Random(seed)
    choice = [dice.randbytes(width) for _ in range(4)] + [bytes(width), bytes(width - 1) + b"\x80", b"\xff" * width]
    pages = [[dice.choice(choice) for _ in range(count)] for count in counts]
    merged = merge_dictionaries([(b"".join(page), len(page)) for page in pages], width_bytes=width)
    expected = list(dict.fromkeys(value for page in pages for value in page))
    assert merged.plain == b"".join(expected)
    assert [[expected[int(c)] for c in codes] for codes in merged.codes] == pages


@pytest.mark.parametrize("page", [(b"\x01\x00\x00\x00ab", 1), (b"\x05\x00\x00\x00ab", 1), (b"\x01\x00\x00\x00a", 2)])
def test_a_dictionary_page_of_another_length_is_refused(page):
    """More bytes than entries, or fewer."""
    with pytest.raises((ValueError, OSError)):
        merge_dictionaries([page], width_bytes=0)


VALUES = {
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ä", "long " * 20]) | st.text(max_size=3)),
    "int32": (pa.int32(), st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-3, 3)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, NAN, 1.5, math.inf])),
    "decimal": (pa.decimal128(30, 2), st.decimals(-100, 100, places=2)),
    "timestamp": (pa.timestamp("us"), st.datetimes().filter(lambda time: 1900 < time.year < 2200)),
    "list": (pa.list_(pa.string()), st.lists(st.sampled_from("abc") | st.none(), max_size=3)),
    "struct": (pa.struct({"a": pa.int32()}), st.fixed_dictionaries({"a": st.integers(0, 3) | st.none()})),
}


@st.composite
def tables(draw):
    """Some tables of one random schema, whose values repeat."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    schema = pa.schema([pa.field(f"c{at}", VALUES[kind][0]) for at, kind in enumerate(kinds)])
    made = []
    for _ in range(draw(st.integers(2, 4))):
        rows = draw(st.integers(0, 40))
        columns = []
        for kind in kinds:
            few = draw(st.lists(VALUES[kind][1] | st.none(), min_size=1, max_size=5))
            dice = random.Random(draw(st.integers(0, 99)))
            columns.append(pa.array([dice.choice(few) for _ in range(rows)], VALUES[kind][0]))
        made.append(pa.table(columns, schema=schema))
    return made


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=tables(),
    options=st.sampled_from(
        [
            {},
            {"data_page_version": "2.0", "compression": "zstd"},
            {"dictionary_pagesize_limit": 20, "write_batch_size": 3},
            {"data_page_size": 8, "write_batch_size": 4, "write_page_index": True, "write_page_checksum": True},
            {"use_deprecated_int96_timestamps": True, "compression": "none"},
        ]
    ),
)
def test_random_tables(tmp_path_factory, tiny_pages, made, options):
    """Rows in order for random values of random types, nulls among them, and the rows of a filter on each column."""
    folder = tmp_path_factory.mktemp("random") / "t"
    folder.mkdir()
    for at, table in enumerate(made):
        pq.write_table(table, folder / f"{at}.parquet", **options)
    expected = pa.concat_tables(made)
    if not expected.num_rows:
        return
    output, _ = splice(folder)
    found = pq.ParquetFile(output, page_checksum_verification=True).read()
    assert str(found.to_pylist()) == str(pq.read_table(folder).to_pylist())
    assert all("pD" not in order for orders in orders_of(output) for order in orders)
    for name in expected.column_names:
        is_null = f'select count(*) from "{output}" where {name} is null'
        assert duckdb.sql(is_null).fetchall() == [(expected[name].null_count,)]


@pytest.mark.parametrize("mode", Verify)
def test_codes_that_no_reader_decodes_are_not_published(tmp_path, monkeypatch, mode):
    """Also ``--verify count`` decodes recoded columns: a fault of our own must not leave a file that nobody reads."""
    paths = []
    for at in range(6):
        paths.append(tmp_path / f"{at}.parquet")
        rows = {"s": [f"value {number % 97} of {at}" for number in range(2_000)]}
        pq.write_table(pa.table(rows), paths[-1], data_page_size=4 << 10)
    found = paths[0].stat()
    permissions = Permissions(uid=found.st_uid, gid=found.st_gid, mode=0o644)
    inputs = tuple(
        FileEntry(
            name=path.name,
            size_bytes=path.stat().st_size,
            mtime_ns=path.stat().st_mtime_ns,
            permissions=permissions,
        )
        for path in paths
    )
    spec = UnitSpec(
        number=1, partition="", directory=str(tmp_path), inputs=inputs, how=How.REWRITE, file_format="parquet",
        output_name="x.parquet", why="", verify=mode, permissions=permissions,
    )  # fmt: skip
    staging = tmp_path / "staging"
    staging.mkdir()
    good = run_unit(LocalFileIO(), spec, staging=str(staging), attempt="good")
    assert (good.status, good.how) == (UnitStatus.WRITTEN, How.SPLICE)

    def faulty(*args, **options):
        return recode(*args, **options)[:-3] + b"\xff\xff\xff"

    monkeypatch.setattr(parquet_splice, "recode", faulty)
    assert run_unit(LocalFileIO(), spec, staging=str(staging), attempt="bad").status is UnitStatus.MISMATCH
