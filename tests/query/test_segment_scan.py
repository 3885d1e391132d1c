"""Scans of segment tables: the rows that DuckDB finds in all files, whatever is left out by the indexes."""

import json
import math
import pickle
import random
from collections import Counter
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.random_scan import ARROW, SCHEMA, random_filter, random_table

import packstone
from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.codec import from_plain, to_plain
from packstone.pipeline.table import Table
from packstone.query.filter.expression import col
from packstone.query.scan.caches import ScanCaches
from packstone.query.scan.plan import Split
from packstone.query.scan.read_split import check_pushed, count_split, read_split
from packstone.query.scan.request import ScanOptions
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.options import SegmentOptions
from packstone.tables.segments.scan import plan_segment_scan
from packstone.tables.segments.user_verbs import list_live_files, read_status

IO = LocalFileIO()


def counted(table):
    """Rows with how often they occur; NaN is one value, and the zeros are one."""
    return Counter(
        tuple("nan" if isinstance(v, float) and math.isnan(v) else str(v) for v in row.values())
        for row in table.to_pylist()
    )


def scan(path, *, columns=None, where=None, caches=None, version=None, options=None):
    """The plan, and all rows of it."""
    status = read_status(IO, path, version=version)
    caches = caches or ScanCaches.make()
    plan = plan_segment_scan(
        IO, path, status=status, columns=columns, where=where, caches=caches, options=options or ScanOptions()
    )
    batches = [batch for split in plan.splits for batch in read_split(IO, split, caches=caches)]
    assert all(batch.num_rows and batch.schema == plan.schema for batch in batches)
    assert sum(count_split(IO, split, caches=caches) for split in plan.splits) == sum(b.num_rows for b in batches)
    return plan, pa.Table.from_batches(batches, schema=plan.schema)


def all_rows(path):
    """Every row of the newest version, as PyArrow reads the files."""
    files = [file.path for file in list_live_files(IO, path, read_status(IO, path)).files]
    return pa.concat_tables([pq.read_table(file, schema=ARROW) for file in files])


def make(path, rng, *, segments=3, sort_by=()):
    """A table of several loads, in row groups of 1000 rows, of some columns with bloom filters."""
    blooms = ",".join(rng.sample(["id", "n", "s", "d", "ts", "c"], 3))
    properties = {"TABLE_BLOCKLET_ROWS": "1000", "BLOOM_COLUMNS": blooms}
    table = packstone.create(str(path), SCHEMA, sort_by=sort_by, properties=properties)
    for _ in range(segments):
        table.segments.load(random_table(rng, rng.choice([50, 2500])))
    return table


@pytest.fixture(params=[False, True], ids=["vector", "tree"])
def searched(request, monkeypatch):
    """Sorted segments are small in tests: here they are searched by their keys nevertheless."""
    if request.param:
        monkeypatch.setattr("packstone.query.filter.key_search.SEARCH_COST_BLOCKLETS", 0.1)
        monkeypatch.setattr("packstone.tables.segments.scan._SEARCHED_FROM", 2)
    return request.param


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(3)
def test_pruned_rows_are_those_of_the_whole_table(tmp_path, seed, searched):
    """Whatever the filter, a pruned scan has the rows that DuckDB selects from all files."""
    rng = random.Random(seed * 2 + searched)
    path = str(tmp_path / "t")
    make(path, rng, sort_by=rng.choice([(), ("id",), ("s", "id"), ("x",), ("d", "n")]))
    whole, caches, pruned = all_rows(path), ScanCaches.make(), 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("whole", whole)
        for _ in range(40):
            ours, theirs = random_filter(rng)
            columns = rng.choice([None, ["id"], ["tags", "s"], ["S", "x", "id"]])
            names = "*" if columns is None else ", ".join(columns)
            expected = connection.sql(f"SELECT {names} FROM whole WHERE {theirs}").to_arrow_table()
            plan, found = scan(path, columns=columns, where=ours, caches=caches)
            assert counted(found) == counted(expected), (ours, plan.report)
            pruned += plan.report.levels[-1].kept < plan.report.levels[-1].total
    assert pruned > 5


def table_of(path, rows, **properties):
    """A table of one load: id 0, 1, ..., text of few values, a number that is null in the first thousand rows."""
    table = packstone.create(str(path), "id long, s string, n int", properties={"TABLE_BLOCKLET_ROWS": "1000"})
    texts = [f"t{number % 7}" for number in range(rows)]
    table.segments.load(
        pa.table({"id": range(rows), "s": texts, "n": [None] * 1000 + list(range(1000, rows))}), **properties
    )
    return str(path)


def test_only_row_groups_that_may_match_are_read(tmp_path):
    """The report counts segments, files and row groups, and what each part of the filter would exclude."""
    path = table_of(tmp_path / "t", 5000)
    plan, found = scan(path, where="id >= 1500 AND id < 2500 AND n IS NOT NULL", options=ScanOptions(explain=True))
    assert found.column("id").to_pylist() == list(range(1500, 2500))
    assert [(level.name, level.kept, level.total) for level in plan.report.levels] == [
        ("segments", 1, 1), ("files", 1, 1), ("row groups", 2, 5)
    ]  # fmt: skip
    assert {effect.predicate: effect.excluded for effect in plan.report.predicates} == {
        "id >= 1500": 1, "id < 2500": 2, "n IS NOT NULL": 1
    }  # fmt: skip
    assert (plan.report.kept_rows, plan.report.total_rows) == (2000, 5000)
    assert 0 < plan.report.read_bytes < plan.report.total_bytes
    assert plan.report.to_json()["levels"][2]["kept"] == 2
    assert "row groups: 2 of 5" in str(plan.report)


def test_rows_of_row_groups_that_must_match_are_not_tested(tmp_path):
    """A range that covers row groups whole needs no row filter for them, and the others keep theirs."""
    path = table_of(tmp_path / "t", 5000)
    plan, found = scan(path, columns=["s"], where="id BETWEEN 1000 AND 2999")
    assert [split.filter for split in plan.splits] == [""]
    assert found.num_rows == 2000
    plan, found = scan(path, where="id BETWEEN 1000 AND 3500")
    assert [bool(split.filter) for split in plan.splits] == [True]
    assert [file.must_match for split in plan.splits for file in split.files] == [(1, 2)]
    assert found.num_rows == 2501


def test_splits_travel(tmp_path):
    """A split that went through JSON, or through pickle, reads the same rows."""
    path = table_of(tmp_path / "t", 3000)
    plan, found = scan(path, where="s IN ('t1', 't2') AND NOT n < 1500")
    for split in plan.splits:
        assert from_plain(Split, json.loads(json.dumps(to_plain(split)))) == split
        again = pickle.loads(pickle.dumps(split))  # noqa: S301 - our own bytes
        batches = list(read_split(IO, again, caches=ScanCaches.make()))
        assert sum(batch.num_rows for batch in batches) == found.num_rows > 0


def test_a_filter_from_operators_is_the_same_as_one_from_text(tmp_path):
    """`where` takes both."""
    path = table_of(tmp_path / "t", 3000)
    _, ours = scan(path, where=(col("ID") < 10) & col("s").startswith("t1"))
    assert ours.column("id").to_pylist() == [1, 8]


def test_without_columns_batches_still_have_rows(tmp_path):
    """Who only counts needs no column."""
    path = table_of(tmp_path / "t", 3000)
    for where, count in ((None, 3000), ("id >= 1000", 2000), ("s = 't3'", 429), ("n IS NULL", 1000)):
        plan, _ = scan(path, columns=["id"], where=where)
        assert sum(count_split(IO, split) for split in plan.splits) == count
        status = read_status(IO, path)
        plan = plan_segment_scan(IO, path, status=status, columns=[], where=where)
        assert sum(batch.num_rows for split in plan.splits for batch in read_split(IO, split)) == count


def test_a_part_that_needs_spark_prunes_nothing_and_is_refused_without(tmp_path):
    """What is understood still prunes; the rest is for Spark, or refused by name."""
    path = table_of(tmp_path / "t", 3000)
    status = read_status(IO, path)
    plan = plan_segment_scan(IO, path, status=status, where="id < 10 AND upper(s) = 'T1'")
    assert plan.report.levels[-1].kept == 1
    assert sum(batch.num_rows for split in plan.splits for batch in read_split(IO, split)) == 10
    with pytest.raises(RefusedError, match="UPPER"):
        check_pushed(plan)


def test_nothing_matches(tmp_path):
    """A contradiction, or a value outside all bounds, leaves no split."""
    path = table_of(tmp_path / "t", 3000)
    for where in ("id < 1 AND id > 2", "id = 99999", "FALSE", "s = 'zz'", "n IS NULL AND id > 1000"):
        plan, found = scan(path, where=where)
        assert (plan.splits, found.num_rows) == ((), 0)


def test_columns_that_are_not_there_are_named(tmp_path):
    """Names are compared without regard to case; what is unknown or requested twice is an error that names it."""
    path = table_of(tmp_path / "t", 1000)
    assert scan(path, columns=["N", "Id"])[1].column_names == ["n", "id"]
    with pytest.raises(InvalidInputError, match="no column 'z'"):
        scan(path, columns=["z"])
    with pytest.raises(InvalidInputError, match="twice"):
        scan(path, columns=["id", "ID"])
    with pytest.raises(InvalidInputError, match="list of names"):
        scan(path, columns="id")
    with pytest.raises(InvalidInputError, match="'z'"):
        scan(path, where="z = 1")


def test_versions_are_planned_apart_and_indexes_are_read_once(tmp_path):
    """A newer version is never answered from an older one's index; of what both have, nothing is read again."""
    path, caches = table_of(tmp_path / "t", 2000), ScanCaches.make()
    first = read_status(IO, path).version
    assert scan(path, caches=caches)[1].num_rows == 2000
    loads = caches.stats()["index"].loads
    Table(path).segments.load(pa.table({"id": [7], "s": ["new"], "n": [1]}))
    assert scan(path, caches=caches, where="id = 7")[1].num_rows == 2
    assert caches.stats()["index"].loads == loads + 2  # the new segment, and the new version's view of all
    assert scan(path, caches=caches, where="id = 7", version=first)[1].num_rows == 1
    assert caches.stats()["index"].loads == loads + 2
    assert caches.stats()["footer"].loads == 2


def test_after_compaction_the_same_rows_are_found(tmp_path):
    """Loads and their merge answer alike."""
    rng = random.Random(5)
    table = make(tmp_path / "t", rng, segments=4, sort_by=("id",))
    path = str(tmp_path / "t")
    filters = [random_filter(rng)[0] for _ in range(15)]
    before = [counted(scan(path, where=where)[1]) for where in filters]
    table.compact(SegmentOptions(strategy="major"))
    assert read_status(IO, path).live[0].is_major
    assert [counted(scan(path, where=where)[1]) for where in filters] == before


def test_a_version_that_is_cleaned_meanwhile_is_distinguished_from_a_damaged_one(tmp_path):
    """Whoever reads a version while it is removed takes a newer one; a file that is gone otherwise is damage."""
    path = table_of(tmp_path / "t", 1000)
    status = read_status(IO, path)
    (index,) = (tmp_path / "t/Metadata/index").iterdir()
    index.unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        plan_segment_scan(IO, path, status=status, caches=ScanCaches.make())
    with pytest.raises(InvalidInputError, match="cleaned while it was read"):
        plan_segment_scan(IO, path, status=replace(status, version=99), caches=ScanCaches.make())
