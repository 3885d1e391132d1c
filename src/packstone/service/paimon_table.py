"""An Apache Paimon table as users see it: health, plan, compact, scan, clean."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError, PackstoneError, RefusedError
from packstone.model.filters import Budget, Filters
from packstone.model.outcome import BucketOutcome, Cost, Outcome, Status, UnitOutcome, status_of
from packstone.model.paimon_options import PaimonOptions, parse_strategy
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.model.unit import How
from packstone.runs.engine import Engine, InlineEngine, LazyEngine
from packstone.runs.tasks import NoProgress, Progress
from packstone.service.paimon_clean import PaimonCleaner
from packstone.service.paimon_health import PaimonHealth, observe_paimon
from packstone.service.paimon_planner import PaimonPlanner
from packstone.service.paimon_run import PaimonRun
from packstone.service.paimon_session import PaimonSession
from packstone.service.record import BegunRun, Recorder
from packstone.service.segment_status import Moment, read_moment
from packstone.service.table_scan import Scan, cache_stats
from packstone.service.working_hours import may_go_on, outside_window
from packstone.storage import stores
from packstone.tables.paimon.publish import check_can_publish
from packstone.tables.paimon.refusals import refuse_table, uncalled_callbacks
from packstone.tables.paimon.snapshot_files import read_latest_snapshot
from packstone.tables.paimon.store import PaimonStore, open_store
from packstone.tables.scan_source import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packstone.pruning.expression import Expression
    from packstone.service.paimon_clean import PaimonCleanReport
    from packstone.storage.fileio import FileIO
    from packstone.storage.lru_cache import CacheStats
    from packstone.tables.paimon.plan_bucket import BucketPlan
    from packstone.tables.paimon.snapshot import Snapshot

MAX_PLANNED_UNITS_SHOWN = 10_000  # as for Hive directories
FAMILY = "paimon"
FILTERS = frozenset({"where"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonPlan:
    """What ``compact`` would do now."""

    outcome: Outcome
    options: PaimonOptions
    filters: Filters


class PaimonTable:
    """One table with all its partitions and buckets; opened by ``packstone.open``."""

    def __init__(
        self,
        path: str,
        *,
        engine: Callable[[], Engine] | None = None,
        io: FileIO | None = None,
        progress: Progress | None = None,
        history: str | None = None,
    ) -> None:
        self._io: FileIO = io or stores.open_store(path)
        self._engine = engine or (lambda: InlineEngine(self._io))
        self._progress: Progress = progress or NoProgress()
        self._recorder = Recorder(url=history)
        self.path = open_store(self._io, path).path
        if path.rstrip("/") != self.path:
            raise InvalidInputError(
                f"{path} lies inside the Paimon table {self.path}; give the table, and choose partitions with "
                "--partitions or --where."
            )

    def health(self) -> PaimonHealth:
        """Describe the table: files, levels, sorted runs, what stands in the way of compacting it."""
        return observe_paimon(open_store(self._io, self.path))

    def plan(
        self,
        options: PaimonOptions | None = None,
        *,
        filters: Filters | None = None,
        strategy: str | None = None,
    ) -> PaimonPlan:
        """Say what ``compact`` would do and why; writes nothing. ``strategy`` goes over that of the options."""
        options, filters = options or PaimonOptions(), filters or Filters()
        filters.check_honoured(FILTERS, family="Paimon tables")
        if strategy is not None:
            options = replace(options, strategy=parse_strategy(strategy))
        began = time.perf_counter()
        store = open_store(self._io, self.path, overrides=options.overrides)
        _check_allowed(store)
        snapshot = read_latest_snapshot(self._io, self.path)
        if snapshot is None:
            outcome = _empty(store, Status.NOTHING_TO_DO, options=options, message="The table has no snapshot yet.")
        else:
            planner = PaimonPlanner(store=store, snapshot=snapshot, asked=options, filters=filters)
            outcome = _planned(store, planner, options=options, began=began)
        return PaimonPlan(outcome=outcome, options=options, filters=filters)

    def compact(
        self,
        plan: PaimonPlan | PaimonOptions | None = None,
        *,
        filters: Filters | None = None,
        budget: Budget | None = None,
        command: str = "compact",
    ) -> Outcome:
        """Merge runs, verify, publish a COMPACT snapshot, record; a plan is made anew from its options."""
        options = plan.options if isinstance(plan, PaimonPlan) else plan or PaimonOptions()
        filters = filters or (plan.filters if isinstance(plan, PaimonPlan) else Filters())
        filters.check_honoured(FILTERS, family="Paimon tables")
        begun = self._recorder.begin(command=command, family=FAMILY, table=self.path, strategy=options.strategy)
        with begun:
            try:
                outcome = self._compact(options, filters, budget=budget or Budget(), begun=begun)
            except InvalidInputError:
                raise  # a wrong call is no run
            except PackstoneError as error:
                store = open_store(self._io, self.path)
                begun.record_error(_empty(store, Status.FAILED, options=options), error)
                raise
            return begun.record(outcome)

    def _compact(self, options: PaimonOptions, filters: Filters, *, budget: Budget, begun: BegunRun) -> Outcome:
        store = open_store(self._io, self.path, overrides=options.overrides)
        _check_allowed(store)
        closed = outside_window(filters)
        if closed is not None:
            return _empty(store, Status.REFUSED, options=options, message=closed)
        snapshot = read_latest_snapshot(self._io, self.path)
        if snapshot is None:
            return _empty(store, Status.NOTHING_TO_DO, options=options, message="The table has no snapshot yet.")
        check_can_publish(self._io, self.path, single_writer=options.single_writer)  # before hours of work
        return self._run(store, snapshot, options, filters=filters, budget=budget, begun=begun)

    def _run(
        self,
        store: PaimonStore,
        snapshot: Snapshot,
        options: PaimonOptions,
        *,
        filters: Filters,
        budget: Budget,
        begun: BegunRun,
    ) -> Outcome:
        began = time.perf_counter()
        engine = LazyEngine(self._engine)
        planner = PaimonPlanner(store=store, snapshot=snapshot, asked=options, filters=filters)
        try:
            with PaimonSession(self._io, self.path, command=begun.command, run=begun.run) as session:
                run = PaimonRun(
                    session=session,
                    store=store,
                    planner=planner,
                    engine=engine,
                    asked=options,
                    budget=budget,
                    may_go_on=may_go_on(filters, budget),
                    progress=self._progress,
                )
                run.run(planner.plan())
        finally:
            engine.close()
            self._progress.close()
        return _done(store, run, options=options, began=began)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        where: str | Expression | None = None,
        *,
        version: int | None = None,
        as_of: Moment | None = None,
        timezone: str | None = None,
    ) -> Scan:
        """Rows through a filter, as Arrow or as a DataFrame; ``version`` is the number of a snapshot.

        ``where`` is SQL text or made of ``packstone.col``; its wall times are of ``timezone`` (default: UTC; for a
        DataFrame the session's).
        """
        moment = None if as_of is None else read_moment(as_of)
        source = open_source(self._io, self.path, version=version, as_of_ms=moment)
        return Scan(source, columns=columns, where=where, timezone=timezone)

    def cache_stats(self) -> dict[str, CacheStats]:
        """What the caches of this process hold, and how often they helped; tables share them."""
        return cache_stats()

    def cleaner(self, *, single_writer: bool = False) -> PaimonCleaner:
        """What removes leftovers of dead runs and, if asked to, expires snapshots."""
        return PaimonCleaner(open_store(self._io, self.path), single_writer=single_writer)

    def clean(self, *, dry_run: bool = False, single_writer: bool = False) -> PaimonCleanReport:
        """Remove what dead runs left behind, by recorded names."""
        return self.cleaner(single_writer=single_writer).clean(dry_run=dry_run)

    def __repr__(self) -> str:
        return f"PaimonTable({self.path!r})"


def _check_allowed(store: PaimonStore) -> None:
    why = refuse_table(store.schema)
    if why is not None:
        raise RefusedError(f"{store.path} is not compacted: {why}.", table=store.path)


def _planned(store: PaimonStore, planner: PaimonPlanner, *, options: PaimonOptions, began: float) -> Outcome:
    units: list[UnitOutcome] = []
    buckets: list[BucketOutcome] = []
    count, rewritten_in, read_bytes, planned_files = 0, 0, 0, 0
    for plan in (plan for bucket in planner.buckets() for plan in planner.plan_rounds(bucket)):
        count += len(plan.units)
        read_bytes += plan.rewrite_bytes
        rewrites = [unit for unit in plan.units if unit.how is not How.UPGRADE]
        rewritten_in += sum(len(unit.files) for unit in rewrites)
        planned_files += sum(_output_count(unit.input_bytes, store) for unit in rewrites)
        if plan.units and len(units) < MAX_PLANNED_UNITS_SHOWN:
            units.extend(_planned_units(store, plan))
            buckets.append(_bucket_outcome(store, plan))
    skipped, totals = tuple(planner.skipped), planner.totals
    return Outcome(
        run=None,
        table=store.path,
        family=FAMILY,
        strategy=options.strategy,
        status=status_of(committed=count, skipped=skipped, planned=True),
        files_before=totals.files,
        files_after=totals.files - rewritten_in + planned_files,
        bytes_before=totals.bytes,
        bytes_after=totals.bytes,
        verified=options.verify,
        cost=Cost.of(read_bytes, read_bytes, files_in=rewritten_in, files_out=planned_files),
        seconds=time.perf_counter() - began,
        units=tuple(units),
        buckets=tuple(buckets),
        skipped=skipped,
        message=_message(count, planner, skipped),
        warnings=_warnings(store),
    )


def _planned_units(store: PaimonStore, plan: BucketPlan) -> list[UnitOutcome]:
    return [
        UnitOutcome(
            partition=store.bucket_label(plan.bucket),
            inputs=tuple(file.file_name for file in unit.files),
            outputs=(),
            how=unit.how,
            why=plan.why,
            bytes_before=unit.input_bytes,
        )
        for unit in plan.units
    ]


def _bucket_outcome(store: PaimonStore, plan: BucketPlan) -> BucketOutcome:
    return BucketOutcome(
        bucket=store.bucket_label(plan.bucket),
        runs=plan.runs,
        reason=plan.reason,
        why=plan.why,
        output=plan.output,
        picked=plan.picked,
        rewrite_bytes=plan.rewrite_bytes,
        upgraded_files=plan.upgraded,
    )


def _done(store: PaimonStore, run: PaimonRun, *, options: PaimonOptions, began: float) -> Outcome:
    units = tuple(run.units)
    log = SkipLog()
    log.extend(run.planner.skipped)
    log.extend(run.skipped)
    skipped, totals = tuple(log), run.planner.totals
    rewrites = [unit for unit in units if unit.how != How.UPGRADE]
    return Outcome(
        run=run.session.run if units else None,
        table=store.path,
        family=FAMILY,
        strategy=options.strategy,
        status=status_of(committed=len(units), skipped=skipped),
        files_before=totals.files,
        files_after=totals.files - run.files_removed,
        bytes_before=totals.bytes,
        bytes_after=totals.bytes - run.bytes_removed,
        rows=sum(unit.rows for unit in units),
        verified=options.verify if rewrites else "none",
        seconds=time.perf_counter() - began,
        verify_seconds=sum(unit.read_seconds_before + unit.read_seconds_after for unit in units),
        swap_ms=run.commit_ms,
        cost=Cost.of(
            sum(unit.bytes_before for unit in rewrites),
            sum(unit.bytes_after for unit in rewrites),
            files_in=sum(len(unit.inputs) for unit in rewrites),
            files_out=sum(len(unit.outputs) for unit in rewrites),
        ),
        units=units,
        skipped=skipped,
        snapshots=tuple(published.snapshot_id for published in run.published),
        message=_message(len(units), run.planner, skipped),
        warnings=_warnings(store),
    )


def _empty(store: PaimonStore, status: Status, *, options: PaimonOptions, message: str = "") -> Outcome:
    skipped = (Skipped(what=store.path, why=message, kind=SkipKind.REFUSED),) if status is Status.REFUSED else ()
    nothing = Outcome(
        run=None,
        table=store.path,
        family=FAMILY,
        strategy=options.strategy,
        status=status,
        files_before=0,
        files_after=0,
        bytes_before=0,
        bytes_after=0,
        verified="none",
        cost=Cost.of(0, 0, files_in=0, files_out=0),
        skipped=skipped,
    )
    return replace(nothing, message=message)


def _output_count(size_bytes: int, store: PaimonStore) -> int:
    return max(1, -(-size_bytes // store.options.target_file_bytes))


def _message(count: int, planner: PaimonPlanner, skipped: tuple[Skipped, ...]) -> str:
    if count:
        return ""
    if {skip.kind for skip in skipped} - {SkipKind.NOT_NEEDED, SkipKind.FILTERED}:
        return "Nothing is compacted; what was left alone, and why, is listed."
    if planner.totals.buckets == 0 and planner.is_filtered:
        return "No bucket matches the filters."
    return "No bucket needs compacting." if planner.totals.files else "No bucket holds files."


def _warnings(store: PaimonStore) -> tuple[str, ...]:
    """What is lost though every row stays."""
    found = []
    indexes = sorted(name for name, _ in store.schema.options if name.startswith("file-index.") and ".columns" in name)
    if indexes:
        named = ", ".join(indexes)
        found.append(f"Rewritten files get no file index ({named}): rows stay right, skipping gets coarser.")
    callbacks = uncalled_callbacks(store.schema)
    if callbacks is not None:
        found.append(f"{callbacks}.")
    return tuple(found)
