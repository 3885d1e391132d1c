"""Compact a segment table: say what would be merged, or merge it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from packstone.model.filters import Budget, Filters
from packstone.model.outcome import Cost, Outcome, Status, UnitOutcome, status_of
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.model.unit import How
from packstone.runs.deaths import note_deaths
from packstone.runs.engine import InlineEngine
from packstone.runs.tasks import NoProgress
from packstone.service.segment_attempts import CompactionAttempts
from packstone.service.segment_planner import SegmentPlanner, end_dead_compactions, without_dead_compactions
from packstone.service.segment_run import SegmentRun
from packstone.service.working_hours import may_go_on, outside_window
from packstone.tables.segments.layout import attempts_folder, deaths_folder
from packstone.tables.segments.merge_tasks import SEGMENTS_MERGE_JOB
from packstone.tables.segments.missing_files import check_no_lost_load
from packstone.tables.segments.status_files import read_latest

if TYPE_CHECKING:
    from packstone.model.segment_options import SegmentOptions
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import FileIO
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.status import TableStatus

FAMILY: Final = "segments"
MAX_PLANNED_UNITS_SHOWN: Final = 10_000  # as for the other families
_MB: Final = 1 << 20


def plan_segments(io: FileIO, table: str, options: SegmentOptions, *, filters: Filters | None = None) -> Outcome:
    """Say what `compact_segments` would do and why, merge by merge to the end; writes nothing.

    The sizes of segments that do not exist yet are the sums of their members.
    """
    began = time.perf_counter()
    start = without_dead_compactions(io, table, read_latest(io, table))
    planner = SegmentPlanner(io=io, table=table, asked=options, start=start)
    _, rounds = planner.plan(start)
    _tell_nothing(planner, rounds.why_not, is_nothing=not rounds.merges)
    files, size_bytes = sum(entry.files for entry in start.live), sum(entry.data_bytes for entry in start.live)
    cost = _planned_cost(rounds.merges, planner)
    closed = outside_window(filters or Filters())
    skipped = tuple(planner.skipped)
    return Outcome(
        run=None,
        table=table,
        family=FAMILY,
        strategy=options.strategy,
        status=status_of(committed=len(rounds.merges), skipped=skipped, planned=True),
        files_before=files,
        files_after=files - cost.files_in + cost.files_out,
        bytes_before=size_bytes,
        bytes_after=size_bytes,
        verified=options.verify,
        cost=cost,
        seconds=time.perf_counter() - began,
        units=tuple(_planned_unit(merge) for merge in rounds.merges[:MAX_PLANNED_UNITS_SHOWN]),
        skipped=skipped,
        message=_message(len(rounds.merges), start, skipped),
        warnings=() if closed is None else (f"A compaction would be refused: {closed}.",),
    )


def compact_segments(
    io: FileIO,
    table: str,
    options: SegmentOptions,
    *,
    engine: Engine,
    filters: Filters | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
    run_id: str | None = None,
) -> Outcome:
    """Merge, verify and commit, wave after wave, until nothing is left to merge; the engine stays open."""
    began = time.perf_counter()
    filters, budget = filters or Filters(), budget or Budget()
    check_no_lost_load(io, table)
    note_deaths(io, attempts_folder(table), folder=deaths_folder(table), job=SEGMENTS_MERGE_JOB)
    start = end_dead_compactions(io, table, read_latest(io, table))
    closed = outside_window(filters)
    if closed is not None:
        return _refused(start, table, options, why=closed)
    planner = SegmentPlanner(io=io, table=table, asked=options, start=start)
    _, rounds = planner.plan(start)
    _tell_nothing(planner, rounds.why_not, is_nothing=not rounds.merges)
    if not rounds.merges:
        return _done(start, planner, None, began=began)
    has_stragglers = not isinstance(engine, InlineEngine)
    with CompactionAttempts(io, table, has_stragglers=has_stragglers, run=run_id) as attempts:
        run = SegmentRun(
            planner=planner,
            attempts=attempts,
            engine=engine,
            asked=options,
            budget=budget,
            may_go_on=may_go_on(filters, budget),
            progress=progress or NoProgress(),
        )
        run.run()
    return _done(start, planner, run, began=began)


def _done(start: TableStatus, planner: SegmentPlanner, run: SegmentRun | None, *, began: float) -> Outcome:
    units = tuple(run.units) if run else ()
    log = SkipLog()
    log.extend(planner.skipped)
    log.extend(run.skipped if run else ())
    skipped = tuple(log)
    size_bytes, files = sum(entry.data_bytes for entry in start.live), sum(entry.files for entry in start.live)
    read_bytes, written_bytes = sum(unit.bytes_before for unit in units), sum(unit.bytes_after for unit in units)
    return Outcome(
        run=run.attempts.run if run and units else None,
        table=planner.table,
        family=FAMILY,
        strategy=planner.asked.strategy,
        status=status_of(committed=len(units), skipped=skipped),
        files_before=files,
        files_after=files - (run.files_removed if run else 0),
        bytes_before=size_bytes,
        bytes_after=size_bytes - read_bytes + written_bytes,
        rows=sum(unit.rows for unit in units),
        verified=planner.asked.verify if units else "none",
        seconds=time.perf_counter() - began,
        verify_seconds=sum(unit.read_seconds_before + unit.read_seconds_after for unit in units),
        swap_ms=run.commit_ms if run else 0.0,
        cost=Cost.of(
            read_bytes,
            written_bytes,
            files_in=run.files_in if run else 0,
            files_out=sum(len(unit.outputs) for unit in units),
        ),
        units=units,
        skipped=skipped,
        message=_message(len(units), start, skipped),
    )


def _refused(start: TableStatus, table: str, options: SegmentOptions, *, why: str) -> Outcome:
    size_bytes, files = sum(entry.data_bytes for entry in start.live), sum(entry.files for entry in start.live)
    return Outcome(
        run=None,
        table=table,
        family=FAMILY,
        strategy=options.strategy,
        status=Status.REFUSED,
        files_before=files,
        files_after=files,
        bytes_before=size_bytes,
        bytes_after=size_bytes,
        verified="none",
        cost=Cost.of(0, 0, files_in=0, files_out=0),
        skipped=(Skipped(what=table, why=why, kind=SkipKind.REFUSED),),
        message=why,
    )


def _planned_unit(merge: Merge) -> UnitOutcome:
    return UnitOutcome(
        partition=str(merge.result.id),
        inputs=tuple(str(member.id) for member in merge.members),
        outputs=(),
        how=How.REWRITE,
        why=merge.why,
        bytes_before=merge.result.size_bytes,
    )


def _planned_cost(merges: tuple[Merge, ...], planner: SegmentPlanner) -> Cost:
    """What all merges read and write; what one writes and another reads counts for both."""
    made = {merge.result.id: _output_count(merge, planner) for merge in merges}
    files_in = sum(planner.file_count(member.id, made) for merge in merges for member in merge.members)
    size_bytes = sum(merge.result.size_bytes for merge in merges)
    return Cost.of(size_bytes, size_bytes, files_in=files_in, files_out=sum(made.values()))


def _output_count(merge: Merge, planner: SegmentPlanner) -> int:
    return max(1, -(-merge.result.size_bytes // (planner.properties.table_blocksize * _MB)))


def _tell_nothing(planner: SegmentPlanner, why_not: str, *, is_nothing: bool) -> None:
    if is_nothing and why_not:
        planner.skipped.append(Skipped(what=planner.table, why=why_not, kind=SkipKind.NOT_NEEDED))


def _message(count: int, start: TableStatus, skipped: tuple[Skipped, ...]) -> str:
    if count:
        return ""
    if {skip.kind for skip in skipped} - {SkipKind.NOT_NEEDED, SkipKind.FILTERED}:
        return "Nothing is merged; what was left alone, and why, is listed."
    return "No segments need merging." if start.live else "The table holds no segments yet."
