"""Scans of Paimon tables: the rows that their makers read, with any filter applied to merged rows only."""

import json
import random
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))

from paimon_interop.rows import plain
from tests.paimon_lake import PaimonLake

from packstone.errors import RefusedError
from packstone.pipeline.table import Table
from packstone.query.scan.caches import ScanCaches
from packstone.query.scan.read_split import count_split, read_split
from packstone.query.scan.request import ScanOptions
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.format.snapshot import read_latest_snapshot
from packstone.tables.paimon.format.store import open_store
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy
from packstone.tables.paimon.scan import plan_paimon_scan

IO = LocalFileIO()
FIXTURES = Path(__file__).parents[1] / "testdata" / "paimon"
CASES = sorted(path.name for path in FIXTURES.iterdir() if (path / "expected.json").exists())


def scan(path, *, columns=None, where=None, explain=False):
    """The plan, and all rows of it."""
    store, caches = open_store(IO, str(path)), ScanCaches.make()
    snapshot = read_latest_snapshot(IO, store.path)
    plan = plan_paimon_scan(
        IO, store, snapshot, columns=columns, where=where, caches=caches, options=ScanOptions(explain=explain)
    )
    batches = [batch for split in plan.splits for batch in read_split(IO, split, caches=caches)]
    assert all(batch.num_rows and batch.schema == plan.schema for batch in batches)
    assert sum(count_split(IO, split, caches=caches) for split in plan.splits) == sum(b.num_rows for b in batches)
    return plan, pa.Table.from_batches(batches, schema=plan.schema)


def in_words(table, columns):
    """Rows in the words of the expected ones."""
    return sorted(([plain(row[name]) for name in columns] for row in table.to_pylist()), key=repr)


def expected_of(name):
    """What the maker reads."""
    return json.loads((FIXTURES / name / "expected.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_a_scan_reads_what_the_maker_reads(name):
    """Every engine, format and evolved schema: the merged rows."""
    expected = expected_of(name)
    _, found = scan(FIXTURES / name / "table")
    assert in_words(found, expected["columns"]) == sorted(expected["rows"], key=repr)


def literal_of(value):
    """A value as both dialects write it; None for what a filter cannot say."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, str) and "'" not in value and "\\" not in value:
        return f"'{value}'"
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"DATE '{value}'"
    return None


def random_leaf(rng, whole):
    """One test of a column with a value from some row, as packstone and as DuckDB write it."""
    column = rng.choice(whole.column_names)
    value = literal_of(whole.column(column)[rng.randrange(whole.num_rows)].as_py())
    if value is None or rng.randrange(6) == 0:
        return f"`{column}` IS {rng.choice(['', 'NOT '])}NULL"
    if rng.randrange(5) == 0:
        return f"`{column}` {rng.choice(['', 'NOT '])}IN ({value}, {value})"
    return f"`{column}` {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {value}"


def random_filter(rng, whole, depth=2):
    """A tree of tests."""
    kind = rng.randrange(4) if depth else 3
    if kind == 3:
        return random_leaf(rng, whole)
    if kind == 2:
        return f"NOT ({random_filter(rng, whole, depth - 1)})"
    parts = [random_filter(rng, whole, depth - 1) for _ in range(2)]
    return "(" + (" AND " if kind else " OR ").join(parts) + ")"


def check_filters(path, rng, *, count):
    """Compare scans with random filters with DuckDB's filter over the whole scan; how many left a file out."""
    _, whole = scan(path)
    left_out = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("whole", whole)
        for _ in range(count if whole.num_rows else 0):
            where = random_filter(rng, whole)
            columns = rng.choice([None, [rng.choice(whole.column_names)]])
            names = "*" if columns is None else f'"{columns[0]}"'
            expected = connection.sql(f"SELECT {names} FROM whole WHERE {where}").to_arrow_table()
            plan, found = scan(path, columns=columns, where=where, explain=rng.random() < 0.5)
            assert in_words(found, found.column_names) == in_words(expected, found.column_names), where
            left_out += plan.report.levels[-1].kept < plan.report.levels[-1].total
    return left_out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(3)
def test_a_filter_sees_merged_rows_only(name):
    """Of every engine and format: the rows of a pruned scan are those of the whole scan that DuckDB selects."""
    check_filters(FIXTURES / name / "table", random.Random(name), count=6)


def test_the_newest_version_hides_an_older_one_that_matches(tmp_path):
    """A file whose statistics exclude `v = 1` still has to be merged: it holds the row's newest version."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1, 2: 1})
    lake.append({1: 7})
    _, found = scan(lake.table, where="v = 1")
    assert found.to_pydict() == {"id": [2], "v": [1]}


def test_a_delete_marker_that_nobody_counted_hides_its_row(tmp_path):
    """Pypaimon records no deletes; they are found nevertheless."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1, 2: 2})
    lake.append({2: 2}, deleted=(2,))
    assert scan(lake.table)[1].to_pydict() == {"id": [1], "v": [1]}


def test_a_filter_on_the_key_leaves_files_of_a_merge_out(tmp_path):
    """All versions of a row share its key, so files without it are not read."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append(dict.fromkeys(range(10), 1))
    lake.append(dict.fromkeys(range(5, 20), 2))
    plan, found = scan(lake.table, where="id = 3")
    assert found.to_pydict() == {"id": [3], "v": [1]}
    assert str(plan.report.levels[-1]) == "files: 1 of 2"


@pytest.mark.parametrize("seed", range(3))
def test_random_writes_read_back_filtered(tmp_path, seed):
    """Random upserts and deletes in partitions and buckets, some compacted: scans find what a plain dict says."""
    rng, model = random.Random(seed), {}
    lake = PaimonLake(tmp_path / "t", buckets=2, partitioned=True).create()
    for round_ in range(6):
        partition = rng.randrange(3)
        rows = {rng.randrange(40): rng.randrange(5) for _ in range(rng.randrange(1, 20))}
        deleted = {key for key in rows if rng.randrange(6) == 0}
        lake.append(rows, partition=partition, deleted=deleted)
        for key, value in rows.items():
            model[partition, key] = value
            if key in deleted:
                del model[partition, key]
        if round_ == 3:
            Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FULL))
    _, whole = scan(lake.table)
    assert {(row["p"], row["id"]): row["v"] for row in whole.to_pylist()} == model
    assert whole.num_rows == len(model)
    check_filters(lake.table, rng, count=25)


def test_partitions_are_left_out_by_their_values(tmp_path):
    """Only the partitions that can match are read, and the report says so."""
    lake = PaimonLake(tmp_path / "t", buckets=1, partitioned=True).create()
    for partition in range(4):
        lake.append({1: partition}, partition=partition)
    plan, found = scan(lake.table, where="p >= 2 AND v < 3", explain=True)
    assert found.to_pydict() == {"id": [1], "v": [2], "p": [2]}
    assert [str(level) for level in plan.report.levels] == [
        "partitions: 2 of 4", "buckets: 2 of 4", "files: 2 of 4"
    ]  # fmt: skip
    assert [str(effect) for effect in plan.report.predicates] == ["p >= 2: excludes 2 files", "v < 3: excludes 0 files"]
    assert plan.needs_merge


def test_a_compacted_table_is_read_raw(tmp_path):
    """After a full compaction nothing is merged any more."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1, 2: 1})
    lake.append({1: 7})
    Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FULL))
    plan, found = scan(lake.table, where="v > 1")
    assert not plan.needs_merge
    assert found.to_pydict() == {"id": [1], "v": [7]}


def test_what_cannot_be_read_rightly_is_refused_by_name(tmp_path):
    """A table whose columns live in files of their own is not half-read."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**{"data-evolution.enabled": "true"})
    with pytest.raises(RefusedError, match=r"data-evolution\.enabled"):
        scan(lake.table)


def test_an_empty_table_has_a_schema_and_no_splits(tmp_path):
    """Without a snapshot there is nothing to read."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    plan, found = scan(lake.table, columns=["V"])
    assert (plan.splits, found.column_names) == ((), ["v"])
