"""Compacting while others delete, overwrite, load and compact, or have died: each merge stands or falls by itself."""

import contextlib
import os
import threading
from dataclasses import replace

import pytest
from segment_lake import SegmentLake, open_run, record_files

from packstone.errors import CommitUnknownError, UnavailableError, VerificationError
from packstone.model.limits import Budget, Filters
from packstone.model.outcome import SkipKind, Status
from packstone.model.segment import SegmentId
from packstone.model.times import TimeWindow
from packstone.model.unit import UnitStatus
from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.engine import InlineEngine, LazyEngine
from packstone.runs.interrupts import Interrupted
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import begin_compaction
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
MINE = ProcessIdentity.mine()
GONE = replace(MINE, pid=2**22 + 1)


@pytest.fixture
def lake(tmp_path):
    """A table with eight loads, so that a minor compaction has two merges side by side."""
    made = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="4,0")
    for seed in range(8):
        made.load([{"id": at, "v": f"{seed}-{at}"} for at in range(20)])
    return made


class Meddling(InlineEngine):
    """Does something to the table when the tasks have run, before their results are looked at."""

    def __init__(self, meddle, *, change=None):
        super().__init__(IO)
        self._meddle, self._change, self._is_done = meddle, change, False

    def run(self, job, tasks, *, staging, what, on_progress):
        """Run all tasks, meddle once, and maybe change what came back."""
        results = list(super().run(job, tasks, staging=staging, what=what, on_progress=on_progress))
        if not self._is_done:
            self._is_done = True
            self._meddle()
            results = [self._change(result) for result in results] if self._change else results
        return iter(results)


def compact(lake, engine=None, *, options=None, **more):
    """Compact in this process."""
    return Table(lake.table, io=IO, engine=lambda: engine or InlineEngine(IO)).compact(options, **more)


def take(lake, ids, *, process, output):
    """Register a compaction of somebody else."""
    attempt = open_run(IO, lake.table, process=process, command="compact")
    inputs = [SegmentId.parse(one) for one in ids]
    commit_edit(
        IO,
        lake.table,
        lambda one: begin_compaction(
            one, attempt=attempt, inputs=inputs, output=SegmentId.parse(output), now_ms=now_ms()
        ),
        clock=system_clock(),
        operation="compact",
    )
    return attempt


def runs_left(lake):
    """Runs that are not over, or that left records of files."""
    return sorted(lake.open_runs())


def test_a_segment_deleted_meanwhile_aborts_its_merge_only(lake):
    """The other merge is committed; what was written for the first is gone; the deleted rows stay deleted."""
    outcome = compact(lake, Meddling(lambda: lake.delete("2")))
    assert outcome.status is Status.PARTIAL
    assert [unit.partition for unit in outcome.units] == ["4.1"]
    (skip,) = outcome.skipped
    assert (skip.what, skip.kind) == ("0 1 2 3", SkipKind.CONFLICT)
    assert lake.ids() == ["0", "1", "3", "4.1"]
    assert sum(lake.count().values()) == 140
    assert not list((lake.path / "Fact/Segment_0.1").iterdir())
    assert lake.status()["running"] == []
    assert runs_left(lake) == []
    assert lake.problems() == []


def test_an_overwrite_meanwhile_aborts_all(lake):
    """Nothing of the old rows comes back."""
    outcome = compact(lake, Meddling(lambda: lake.load([{"id": 1, "v": "new"}], overwrite=True)))
    assert outcome.status is Status.CONFLICT
    assert lake.ids() == ["8"]
    assert sum(lake.count().values()) == 1
    assert runs_left(lake) == []


def test_loads_meanwhile_are_none_of_its_business(lake):
    """Four loads come in while it works; they wait for the next command."""
    rows = [{"id": 1, "v": "late"}]
    outcome = compact(lake, Meddling(lambda: [lake.load(rows) for _ in range(4)]))
    assert outcome.status is Status.COMMITTED
    assert lake.ids() == ["0.1", "4.1", "8", "9", "10", "11"]
    assert [unit.partition for unit in compact(lake).units] == ["8.1"]


def test_what_a_living_compaction_has_taken_is_left_alone(lake):
    """Its segments are as if they were not there, and that is reported; who names one of them gets a conflict."""
    take(lake, ["0", "1"], process=MINE, output="0.1")
    outcome = compact(lake)
    assert [unit.inputs for unit in outcome.units] == [("2", "3", "4", "5")]
    assert outcome.status is Status.COMMITTED
    assert outcome.skipped[0].what == "0 1"
    assert "being merged into 0.1" in outcome.skipped[0].why
    named = compact(lake, options=SegmentOptions(strategy="custom", ids=(SegmentId(1), SegmentId(6))))
    assert named.status is Status.CONFLICT
    assert len(lake.status()["running"]) == 1


def test_a_dead_compaction_is_ended_first(lake):
    """Its segments are free again; what it left goes with `clean`."""
    attempt = take(lake, ["0", "1"], process=GONE, output="0.1")
    left = f"Fact/Segment_0.1/part-00001-00000-{attempt}-0.parquet"
    record_files(IO, lake.table, attempt, left)
    (lake.path / left).parent.mkdir()
    (lake.path / left).write_bytes(b"half")
    outcome = compact(lake)
    assert [unit.partition for unit in outcome.units] == ["0.1", "4.1"]
    assert outcome.recovered == (f"run {attempt}, 0 1: merge into 0.1 abandoned",)
    assert runs_left(lake) == [attempt]
    assert Table(lake.table, io=IO).clean(dry_run=False).to_json(dry_run=False)["attempts"][0]["attempt"] == attempt
    assert not (lake.path / left).exists()
    assert runs_left(lake) == []
    assert lake.problems() == []


def test_two_compactions_at_once_share_the_work(lake):
    """Threads of one process: every segment is merged once, no row is lost or doubled, both make progress or stop."""
    before = lake.count()
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(compact(lake))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(unit.partition for outcome in outcomes for unit in outcome.units) == ["0.1", "4.1"]
    assert lake.ids() == ["0.1", "4.1"]
    assert lake.count() == before
    assert lake.problems() == []
    assert runs_left(lake) == []


def test_a_failed_proof_stops_the_run_and_keeps_the_evidence(lake):
    """Nothing is committed; the files of the merge that was wrong stay until `clean`, its segments are free."""

    def spoil(result):
        is_first = result.number == 1
        return replace(result, status=UnitStatus.MISMATCH, message="rows differ", outputs=()) if is_first else result

    with pytest.raises(VerificationError, match="0 1 2 3: rows differ"):
        compact(lake, Meddling(lambda: None, change=spoil))
    assert len(lake.ids()) == 8
    assert lake.status()["running"] == []
    assert list((lake.path / "Fact/Segment_0.1").iterdir())
    assert not list((lake.path / "Fact/Segment_4.1").iterdir())
    assert len(runs_left(lake)) == 1


def test_a_broken_file_leaves_its_merge_out(lake):
    """The other merge is done; the command says that something is broken, also if nothing else was to do."""
    path = lake.files("1")[0]
    os.truncate(path, 100)
    outcome = compact(lake)
    assert outcome.status is Status.PARTIAL
    assert [unit.partition for unit in outcome.units] == ["4.1"]
    assert outcome.skipped[0].kind is SkipKind.UNREADABLE
    assert path in outcome.skipped[0].why
    assert compact(lake).status is Status.FAILED
    assert runs_left(lake) == []


def test_a_missing_segment_file_leaves_its_merge_out(lake):
    """It is found before anything is registered."""
    (lake.path / "Metadata/segments" / lake.live()["6"]["segment_file"]).unlink()
    outcome = compact(lake)
    assert [unit.partition for unit in outcome.units] == ["0.1"]
    assert "segment 6 is missing" in outcome.skipped[0].why


def test_an_engine_that_fails_leaves_nothing_behind(lake):
    """Registrations are ended, files are removed, and the error is reported."""

    def fail():
        raise UnavailableError("Spark is away.")

    with pytest.raises(UnavailableError, match="Spark is away"):
        compact(lake, Meddling(fail))
    assert lake.status()["running"] == []
    assert runs_left(lake) == []
    assert len(lake.data_on_disk()) == 8


def test_what_is_committed_stays_though_the_run_is_interrupted(lake, monkeypatch):
    """A signal that was held back over the commit ends the run, and its answer is what it committed."""

    @contextlib.contextmanager
    def interrupted_behind():
        yield
        if lake.ids() == ["0.1", "4.1"]:
            raise Interrupted

    monkeypatch.setattr("packstone.pipeline.compact.finish_first", interrupted_behind)
    before = lake.count()
    outcome = compact(lake, LazyEngine(lambda: InlineEngine(IO)))
    assert outcome.status is Status.PARTIAL
    assert len(outcome.units) == 2
    assert lake.count() == before
    assert lake.problems() == []


def test_an_unknown_commit_keeps_everything(lake, monkeypatch):
    """Whether it was published is not known: files and records stay for the next command."""

    def unknown(*_, **__):
        raise CommitUnknownError("who knows")

    def meddle():
        monkeypatch.setattr("packstone.tables.segments.table.commit_edit", unknown)

    with pytest.raises(CommitUnknownError):
        compact(lake, Meddling(meddle))
    assert len(runs_left(lake)) == 1
    assert len(lake.status()["running"]) == 2
    assert list((lake.path / "Fact/Segment_0.1").iterdir())


def test_budgets_and_hours_leave_the_rest_for_the_next_run(lake):
    """One merge fits the budget of files; outside the hours nothing begins."""
    outcome = compact(lake, budget=Budget(max_files=4))
    assert [unit.partition for unit in outcome.units] == ["0.1"]
    assert "over the budget of 4 files" in outcome.skipped[0].why
    assert compact(lake, budget=Budget(max_bytes=1)).status is Status.NOTHING_TO_DO
    assert compact(lake, budget=Budget(max_seconds=0)).skipped[0].kind is SkipKind.FILTERED
    now = now_ms() // 3_600_000 % 24
    elsewhen = TimeWindow.parse(f"{(now + 5) % 24:02d}:00-{(now + 6) % 24:02d}:00")
    assert compact(lake, filters=Filters(window=elsewhen)).status is Status.REFUSED
    assert [unit.partition for unit in compact(lake).units] == ["4.1"]
