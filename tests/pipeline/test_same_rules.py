"""What holds for every family: filters, budgets and space are treated alike."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_lake import PaimonLake
from segment_lake import SegmentLake

from packstone.errors import InvalidInputError
from packstone.history.store import open_history
from packstone.model.limits import Budget, Filters
from packstone.model.outcome import Status
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy
from packstone.tables.segments import table as segments_table
from packstone.tables.segments.format.status_files import read_latest
from packstone.tables.segments.options import SegmentOptions, parse_segment_ids

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)


@pytest.fixture
def paimon(tmp_path):
    """A table of two buckets after three commits that overlap."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


@pytest.fixture
def segments(tmp_path):
    """A table of eight loads."""
    lake = SegmentLake(tmp_path / "s").create(SORT_COLUMNS="id")
    for number in range(8):
        lake.load([{"id": number * 10 + at, "v": "x"} for at in range(10)])
    return lake


def test_filters_that_paimon_cannot_apply_are_errors(paimon):
    """Ignored, they would let a run touch what its caller wanted to keep out."""
    table = Table(paimon.table)
    for call in (table.plan, table.compact):
        with pytest.raises(InvalidInputError, match="Paimon tables cannot be filtered by exclude"):
            call(filters=Filters(exclude=("p=1",)))


def test_a_young_table_of_paimon_is_left_alone(paimon):
    """The least age compares the newest file of a partition; a table without partitions is one."""
    outcome = Table(paimon.table).compact(strategy="full", filters=Filters(min_age_seconds=3600))
    assert (outcome.status, outcome.units) == ("nothing-to-do", ())
    assert "its newest file is younger than --min-age" in {skip.why for skip in outcome.skipped}
    time.sleep(0.05)
    assert Table(paimon.table).compact(strategy="full", filters=Filters(min_age_seconds=0.01)).status == "committed"


@pytest.mark.parametrize("filters", [Filters(where="id = 1"), Filters(exclude=("0",))])
def test_filters_that_segments_cannot_apply_are_errors(segments, filters):
    """Segments have no partitions that one could choose."""
    table = Table(segments.table)
    for call in (table.plan, table.compact):
        with pytest.raises(InvalidInputError, match="segment tables cannot be filtered by"):
            call(filters=filters)


def test_young_segments_are_left_alone(segments, monkeypatch):
    """The least age compares the newest load of a segment, so a merge makes no segment younger."""
    table, young = Table(segments.table), Filters(min_age_seconds=3600)
    assert table.compact(filters=young).status == "nothing-to-do"
    (line,) = [skip.why for skip in table.plan(filters=young).outcome.skipped if skip.kind == "filtered"]
    assert line == "8 segments of 8 younger than --min-age"
    with pytest.raises(InvalidInputError, match="does not go with --strategy custom"):
        table.plan(SegmentOptions(strategy="custom", ids=parse_segment_ids("0,1")), filters=young)
    *_, previous, newest = [entry.newest_load_ms for entry in read_latest(LocalFileIO(), segments.table).live]
    monkeypatch.setattr(segments_table, "now_ms", lambda: newest + 1)
    (merged,) = table.compact(strategy="major", filters=Filters(min_age_seconds=(newest + 1 - previous) / 1000)).units
    assert merged.inputs == tuple(map(str, range(7)))
    again = table.compact(SegmentOptions(strategy="custom", ids=parse_segment_ids("0.1,7")))
    assert again.status == "committed"


def test_too_little_space_skips_the_buckets(paimon, monkeypatch):
    """Nothing is changed, and each bucket says how much it needs."""
    monkeypatch.setattr(LocalFileIO, "free_bytes", lambda *_: 100)
    rows = paimon.rows()
    outcome = Table(paimon.table).compact(FULL)
    assert (outcome.status, [skip.what for skip in outcome.skipped]) == (Status.REFUSED, ["bucket-0", "bucket-1"])
    assert all("100 B are free in" in skip.why for skip in outcome.skipped)
    assert paimon.rows() == rows


def test_space_for_one_bucket_compacts_one(paimon, monkeypatch):
    """What fits is done; the other is left for the next run."""
    plan = Table(paimon.table).plan(FULL).outcome
    enough = max(bucket.rewrite_bytes for bucket in plan.buckets) * 3 // 2
    monkeypatch.setattr(LocalFileIO, "free_bytes", lambda *_: enough)
    outcome = Table(paimon.table).compact(FULL)
    assert (outcome.status, len(outcome.units), len(outcome.skipped)) == (Status.COMMITTED, 1, 1)


def test_too_little_space_skips_the_merges(segments, monkeypatch):
    """Nothing is registered in the status for a merge that cannot run."""
    version = segments.status()["version"]
    monkeypatch.setattr(LocalFileIO, "free_bytes", lambda *_: 100)
    outcome = Table(segments.table).compact()
    assert outcome.status is Status.REFUSED
    assert all("100 B are free in" in skip.why for skip in outcome.skipped)
    assert segments.status()["version"] == version


class Meddling(InlineEngine):
    """Runs the tasks, and then lets somebody else work on the table, once."""

    def __init__(self, meddle):
        super().__init__(LocalFileIO())
        self._meddle = meddle

    def run(self, job, tasks, **facts):
        """Run them, then meddle."""
        results = list(super().run(job, tasks, **facts))
        meddle, self._meddle = self._meddle, lambda: None
        meddle()
        return iter(results)


def test_another_try_counts_against_the_budget(paimon):
    """What is planned again because somebody else changed it is read again, so the budget covers both."""

    def meddle():
        Table(paimon.table).compact(FULL)
        for first in (0, 5):
            paimon.append(dict.fromkeys(range(first, first + 10), first))

    plan = Table(paimon.table).plan(FULL).outcome
    allowed = sum(bucket.rewrite_bytes for bucket in plan.buckets)
    table = Table(paimon.table, engine=lambda: Meddling(meddle))
    outcome = table.compact(FULL, budget=Budget(max_bytes=allowed))
    assert outcome.units == ()
    assert {skip.why.partition(" --")[0] for skip in outcome.skipped} == {"over the budget of"}
    assert Table(paimon.table).compact(FULL).status is Status.COMMITTED


def test_the_merge_after_a_load_is_recorded(tmp_path):
    """The history knows it as a run of the load; a load after which nothing is merged leaves no row."""
    url = f"sqlite:///{tmp_path}/history.db"
    lake = SegmentLake(tmp_path / "s").create(AUTO_LOAD_MERGE="true")
    table = Table(lake.table, history=url)
    for number in range(4):
        report = table.segments.load(pa.table({"id": pa.array([number], pa.int64()), "v": ["x"]}))
    with open_history(url) as history:
        (run,) = history.list_runs()
    assert (run.command, run.family, run.status) == ("load", "segments", "committed")
    assert report.merged.run == run.run


def test_a_paimon_run_has_a_heartbeat(paimon):
    """Other hosts see by it that the run lives, whatever the age of its files; it goes with the run."""
    found = []
    state = paimon.path.parent / ".packstone"

    def look():
        (beat,) = state.glob("*/runs/*/heartbeat")
        found.append((beat.parent / "run.json").exists())

    outcome = Table(paimon.table, engine=lambda: Meddling(look)).compact(FULL)
    assert (outcome.status, found) == (Status.COMMITTED, [True])
    assert not list(state.glob("*/runs/*/heartbeat"))


class Failing(LocalFileIO):
    """Files below one folder cannot be read: not a fault of the store, but one that a decoder raises."""

    def __init__(self, folder, error):
        super().__init__()
        self._folder, self._error = folder, error
        self.is_armed = False

    def open_input(self, path):
        """Open a file, or fail."""
        if self.is_armed and f"/{self._folder}/" in path:
            raise self._error
        return super().open_input(path)


class Arming(InlineEngine):
    """Planning may read all files; tasks may not."""

    def __init__(self, io):
        super().__init__(io)
        self._store = io

    def run(self, job, tasks, **facts):
        """Run the tasks."""
        self._store.is_armed = True
        return super().run(job, tasks, **facts)


@pytest.fixture
def folders(tmp_path):
    """A Hive directory of two partitions."""
    for part in ("p=1", "p=2"):
        for number in range(5):
            path = tmp_path / "h" / part / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": [number]}), path)
    return tmp_path / "h"


@pytest.mark.parametrize(
    "error", [MemoryError("no memory"), ValueError("a bad value")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize(
    ("family", "folder", "options", "left"),
    [
        ("folders", "p=1", None, ["p=2"]),
        ("paimon", "bucket-0", FULL, ["bucket-1"]),
        ("segments", "Segment_1", None, ["4.1"]),
    ],
    ids=["hive", "paimon", "segments"],
)
def test_an_error_in_a_unit_costs_that_unit(request, family, folder, options, left, error):
    """A unit that runs out of memory, or meets a value that a decoder rejects, fails; the other parts are published."""
    lake = request.getfixturevalue(family)
    io = Failing(folder, error)
    table = Table(str(getattr(lake, "table", lake)), io=io, engine=lambda: Arming(io))
    outcome = table.compact(options)
    assert outcome.status is Status.PARTIAL
    assert [unit.partition for unit in outcome.units if unit.how != "none"] == left
    assert any(str(error) in skip.why for skip in outcome.skipped)


def test_a_later_round_counts_against_the_budget(tmp_path):
    """Merges of merged segments are read like any others: a budget that the first round uses up stops the second."""
    lake = SegmentLake(tmp_path / "s").create(SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="2,2")
    for number in range(4):
        lake.load([{"id": number, "v": "x"}])
    outcome = Table(lake.table).compact(budget=Budget(max_files=4))
    assert [unit.partition for unit in outcome.units] == ["0.1", "2.1"]
    assert ["over the budget" in skip.why for skip in outcome.skipped] == [True]
    assert [unit.partition for unit in Table(lake.table).compact().units] == ["0.2"]
