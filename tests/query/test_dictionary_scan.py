"""Scans that test dictionaries: row groups without the value are not read, and the rows are the same."""

import random

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.random_scan import ARROW, random_leaf, random_table

import packstone
from packstone.errors import UnreadableFileError
from packstone.pipeline.table import Table
from packstone.query.filter.evaluate import select
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter
from packstone.query.scan.blocklet_scan import scan_blocklets
from packstone.query.scan.caches import ScanCaches
from packstone.query.scan.dictionaries import read_dictionaries
from packstone.query.scan.plan import ScanFile
from packstone.query.scan.scanned_file import ScannedFile
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
WRITERS = {
    "PyArrow": lambda rows, path: pq.write_table(rows, path, row_group_size=400),
    "pages of version 2, no codec": lambda rows, path: pq.write_table(
        rows, path, row_group_size=400, data_page_version="2.0", compression="none", data_page_size=600
    ),
    "checksums, format 1.0": lambda rows, path: pq.write_table(
        rows, path, row_group_size=400, version="1.0", compression="gzip", write_page_checksum=True
    ),
    "dictionaries that grow too big": lambda rows, path: pq.write_table(
        rows, path, row_group_size=400, dictionary_pagesize_limit=60, data_page_size=60, write_batch_size=20
    ),
    "no dictionaries": lambda rows, path: pq.write_table(rows, path, row_group_size=400, use_dictionary=False),
    "DuckDB": lambda rows, path: duckdb.from_arrow(rows).write_parquet(str(path), row_group_size=2048),
    "Polars": lambda rows, path: pl.from_arrow(rows).write_parquet(path, row_group_size=400),
}


def scanned(path, caches=None, names=ARROW.names):
    """A file as a scan opens it."""
    file = ScanFile(path=str(path), size_bytes=path.stat().st_size)
    return ScannedFile(IO, file, names, caches=caches or ScanCaches.make())


def chosen(path, where, *, caches=None, schema=ARROW):
    """The row groups that dictionaries leave."""
    opened = scanned(path, caches, schema.names)
    every = range(len(opened.footer.group_rows))
    found = opened.prune_by_dictionaries(
        prepare_filter(parse_filter(where), schema), schema, groups=every, sure=frozenset()
    )
    opened.close()
    return list(found)


@pytest.mark.parametrize("writer", WRITERS)
def test_dictionaries_never_exclude_a_match(tmp_path, writer):
    """Files of several writers, random rows with nulls, NaN and both zeros: of each test, no row group with a match."""
    rng, path, excluded = random.Random(writer), tmp_path / "f.parquet", 0
    for _ in range(2):
        rows = random_table(rng, 1500)
        WRITERS[writer](rows, path)
        caches = ScanCaches.make()
        with pq.ParquetFile(path) as file:
            groups = [file.read_row_group(at).cast(ARROW).combine_chunks() for at in range(file.num_row_groups)]
        for _ in range(40):
            where = random_leaf(rng)[0]
            test = prepare_filter(parse_filter(where), ARROW)
            left = chosen(path, where, caches=caches)
            for at, group in enumerate(groups):
                matches = sum(select(test, batch).true_count for batch in group.to_batches())
                assert not matches or at in left, (where, at)
            excluded += len(groups) - len(left)
    assert excluded or writer in {"no dictionaries", "DuckDB", "Polars"}


def test_a_dictionary_has_each_value_of_its_row_group(tmp_path):
    """In the column's own type and in the order of the codes, as PyArrow decodes them from the rows."""
    rng, path = random.Random(3), tmp_path / "f.parquet"
    for options in ({}, {"compression": "zstd"}, {"data_page_version": "2.0"}, {"compression": "none"}):
        rows = random_table(rng, 1200)
        pq.write_table(rows, path, row_group_size=400, **options)
        metadata = pq.read_metadata(path)
        with IO.open_input(str(path)) as source, pq.ParquetFile(path) as file:
            for leaf, name in enumerate(["id", "n", "x", "s", "d", "ts", "c"]):
                kind = ARROW.field(name).type
                found = read_dictionaries(source, metadata, leaf=leaf, groups=[0, 1, 2], kind=kind)
                for group, entries in found.items():
                    values = file.read_row_group(group, columns=[name]).column(0).combine_chunks().drop_null()
                    assert entries.type == kind
                    assert [str(one) for one in entries] == [str(one) for one in values.dictionary_encode().dictionary]


def test_a_value_on_a_page_that_is_not_coded_is_found(tmp_path):
    """The writer gave up its dictionary in the middle: the value is in none, and in the rows."""
    path = tmp_path / "f.parquet"
    rows = pa.table({"s": [f"text {at:06}" for at in range(5000)]})
    pq.write_table(rows, path, row_group_size=2500, dictionary_pagesize_limit=4096, data_page_size=1024)
    assert pq.read_metadata(path).row_group(0).column(0).has_dictionary_page
    with IO.open_input(str(path)) as source:
        metadata = pq.read_metadata(path)
        assert read_dictionaries(source, metadata, leaf=0, groups=[0, 1], kind=pa.string()) == {0: None, 1: None}
    assert chosen(path, "s = 'text 004999'", schema=rows.schema) == [0, 1]


STATES = "id long, code long, state string"


def states(first, skipped):
    """Sixty states and numbers in any order, of which one is in no row."""
    rng, kept = random.Random(first), [at for at in range(60) if at != skipped]
    return pa.table({
        "id": range(first, first + 4000),
        "code": [at**8 * 100 for at in rng.choices(kept, k=4000)],
        "state": [f"the state number {at:02}" for at in rng.choices(kept, k=4000)],
    })  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Four loads of two row groups; each lacks one state within its bounds."""
    path = tmp_path_factory.mktemp("lake") / "t"
    made = packstone.create(str(path), STATES, properties={"TABLE_BLOCKLET_ROWS": "2000"})
    for at in range(4):
        made.segments.load(states(4000 * at, at + 1))
    return Table(str(path))


@pytest.mark.parametrize(
    ("where", "kept", "columns"),
    [
        ("state = 'the state number 02'", 6, "state"),
        ("code = 250", 0, "code"),
        ("state IN ('the state number 01', 'the state number 02')", 8, "state"),
        ("state IN ('the state number 02', 'the state number 2')", 6, "state"),
        ("state LIKE 'the state number 02%'", 6, "state"),
        ("state = 'the state number 01' AND code = 25600", 4, "code, state"),
        ("state = 'the state number 1' OR code = 150", 0, "code, state"),
        ("state = 'the state number 02' AND id >= 0", 6, "state"),
    ],
)
def test_a_value_that_is_in_no_dictionary_is_not_looked_for(table, where, kept, columns):
    """Bounds leave all eight row groups; the dictionaries of the columns that are compared leave these."""
    levels = {level.name: level for level in table.scan(where=where).explain().pruned.levels}
    assert levels["row groups"].kept == 8
    assert (levels["dictionaries"].kept, levels["dictionaries"].how) == (kept, f"of {columns}")
    rows = pa.concat_tables([pq.read_table(path) for path in table.segments.files().paths])  # noqa: F841 - by DuckDB
    with duckdb.connect() as connection:
        ((expected,),) = connection.sql(f"select count(*) from rows where {where}").fetchall()
    assert table.scan(where=where).count() == table.scan(where=where).to_arrow().num_rows == expected


@pytest.mark.parametrize(
    "where",
    [
        "state <> 'the state number 02'",
        "NOT state IN ('the state number 02')",
        "state > 'the state number 02'",
        "state IS NULL",
        "code = 250 OR id > 5",
    ],
)
def test_other_filters_test_no_dictionary(table, where):
    """A row without the value may match, or nearly every dictionary has an entry that passes."""
    assert "dictionaries" not in [level.name for level in table.scan(where=where).explain().pruned.levels]


def test_a_cached_dictionary_saves_reading_the_file(tmp_path):
    """The first scan reads the dictionaries; the second, for another value, does not open the file."""
    path, caches = tmp_path / "f.parquet", ScanCaches.make()
    pq.write_table(states(0, 2), path, row_group_size=500)
    assert chosen(path, "code = 250", caches=caches, schema=states(0, 2).schema) == []
    before = caches.dictionary.stats()
    path.rename(tmp_path / "gone.parquet")
    file = ScanFile(path=str(path), size_bytes=(tmp_path / "gone.parquet").stat().st_size)
    schema = pa.schema([("code", pa.int64())])
    where = prepare_filter(parse_filter("code = 350"), schema)
    wanted = {"schema": schema, "filter_schema": schema, "expression": where, "caches": caches}
    assert list(scan_blocklets(IO, [file], **wanted)) == []
    after = caches.dictionary.stats()
    assert (before.entries, before.loads, after.loads, after.hits - before.hits) == (8, 8, 8, 8)


def test_dictionaries_that_exclude_nothing_are_not_read_on(tmp_path, monkeypatch):
    """A value that is in the first eight dictionaries is likely in the others: those are never read."""
    monkeypatch.setattr("packstone.query.scan.dictionaries._LEAST_EXCLUDED", 4)
    path, caches, rows = tmp_path / "f.parquet", ScanCaches.make(), pa.concat_tables([states(0, 2)] * 5)
    pq.write_table(rows, path, row_group_size=500)
    for where in ("code = 100", "state = 'the state number 01'", "code = 100", "code = 656100"):
        assert len(chosen(path, where, caches=caches, schema=rows.schema)) == 40
    assert caches.dictionary.stats().loads == 16


def test_small_row_groups_pay_once_they_were_scanned_often(tmp_path, monkeypatch):
    """One scan decodes them faster than it reads their dictionaries; so do a few, and then they are read, once."""
    monkeypatch.setattr("packstone.query.scan.dictionaries._TEST_US", 20.0)
    monkeypatch.setattr("packstone.query.scan.dictionaries._WORTH", 2)
    path, caches, rows = tmp_path / "f.parquet", ScanCaches.make(), pa.concat_tables([states(0, 2)] * 5)
    pq.write_table(rows, path, row_group_size=5000)
    left = [len(chosen(path, "code = 250", caches=caches, schema=rows.schema)) for _ in range(20)]
    scans = left.index(0)
    assert 2 <= scans < 20
    assert left == [4] * scans + [0] * (20 - scans)
    assert caches.dictionary.stats().loads == 4


def test_a_damaged_dictionary_is_reported(tmp_path):
    """Its checksum does not fit: no row group is excluded by it, and reading the rows names the file."""
    path, rows = tmp_path / "f.parquet", states(0, 2)
    pq.write_table(rows, path, write_page_checksum=True, compression="none")
    chunk = pq.read_metadata(path).row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset - 8] ^= 1  # in the last entry
    path.write_bytes(data)
    caches = ScanCaches.make()
    assert chosen(path, "code = 250", caches=caches, schema=rows.schema) == [0]
    schema = pa.schema([("code", pa.int64())])
    where = prepare_filter(parse_filter("code = 250"), schema)
    file = ScanFile(path=str(path), size_bytes=path.stat().st_size)
    wanted = {"schema": schema, "filter_schema": schema, "expression": where, "caches": caches}
    with pytest.raises(UnreadableFileError, match=r"f\.parquet has a broken data page"):
        list(scan_blocklets(IO, [file], **wanted))


def test_dictionaries_take_no_more_memory_than_their_limit(tmp_path):
    """The least recently used are evicted; the scan finds the same."""
    path, rows = tmp_path / "f.parquet", states(0, 2)
    pq.write_table(rows, path, row_group_size=100)
    caches = ScanCaches.make({"dictionary": 2000})
    for _ in range(2):
        assert chosen(path, "code = 250", caches=caches, schema=rows.schema) == []
    stats = caches.dictionary.stats()
    assert stats.evictions
    assert stats.bytes <= 2000
