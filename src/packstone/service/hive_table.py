"""A Hive-style directory as users see it: health, plan, compact, restore, recover, clean, verify."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError, PackstoneError
from packstone.model.filters import Budget, Filters
from packstone.model.merge_options import MergeOptions
from packstone.model.outcome import Cost, Outcome, Status, UnitOutcome, status_of
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.runs.clock import new_run_id
from packstone.runs.deaths import note_deaths
from packstone.runs.engine import Engine, InlineEngine, LazyEngine
from packstone.runs.tasks import NoProgress, Progress
from packstone.service import maintenance
from packstone.service.commit import check_backup_root
from packstone.service.health import Health, observe_health
from packstone.service.measure_read import measure_reads
from packstone.service.merge_run import MergeRun
from packstone.service.planner import Planner
from packstone.service.record import BegunRun, Recorder
from packstone.service.run_session import RunSession
from packstone.service.unrecorded import table_spool
from packstone.service.working_hours import may_go_on, outside_window
from packstone.storage.exclusive import check_exclusive
from packstone.storage.fileio import Kind
from packstone.storage.location import scheme_of
from packstone.storage.stores import open_store
from packstone.strategy.small_files import REASON
from packstone.tables.hive.journal import Journal
from packstone.tables.hive.layout import check_not_nested, find_layout
from packstone.tables.hive.restore import is_undone
from packstone.tables.hive.swap import check_can_swap
from packstone.tables.hive.tasks import HIVE_JOB
from packstone.tables.probe import check_mergeable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.service.maintenance import CleanReport, RecoverReport, RestoreReport, VerifyReport
    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.listing import FolderSource
    from packstone.tables.hive.plan_partition import PartitionPlan
    from packstone.tables.hive.switch import ByLocation, LocationCatalog

MAX_PLANNED_UNITS_SHOWN = 10_000  # a plan of a million units is a number, not a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What ``compact`` would do now."""

    outcome: Outcome
    options: MergeOptions
    filters: Filters


class HiveTable:
    """One partition, or a table with all its partitions; opened by ``packstone.open``."""

    def __init__(
        self,
        path: str,
        *,
        engine: Callable[[], Engine] | None = None,
        io: FileIO | None = None,
        progress: Progress | None = None,
        history: str | None = None,
        folders: FolderSource | None = None,
        publish: ByLocation | None = None,
        catalog: LocationCatalog | None = None,
    ) -> None:
        self._io: FileIO = io or open_store(path)
        self._engine = engine or (lambda: InlineEngine(self._io))
        self._progress: Progress = progress or NoProgress()
        self.path = path
        _check_folder(self._io, path)
        check_mergeable(self._io, path)
        self.layout, self.partition = find_layout(self._io, path)
        check_not_nested(self._io, self.layout)
        self.journal = Journal(io=self._io, layout=self.layout)
        self._recorder = Recorder(url=history, beside=table_spool(self._io, self.layout.state, root=self.layout.root))
        self._publish = publish
        self._catalog = publish.catalog if publish is not None else catalog
        self._folders = folders  # what a metastore names, in place of what lies below the path

    def health(self, options: MergeOptions | None = None, *, health: Health | None = None) -> Health:
        """Describe the files: how many, how small, what stands in the way of merging them; adds to ``health``."""
        options = options or MergeOptions()
        return observe_health(self.journal, self.partition, options, folders=self._folders, health=health)

    def plan(
        self,
        options: MergeOptions | None = None,
        *,
        filters: Filters | None = None,
        strategy: str = "small-files",
    ) -> Plan:
        """Say what ``compact`` would do and why; writes nothing to the table."""
        _check_strategy(strategy)
        options, filters = options or MergeOptions(), filters or Filters()
        began = time.perf_counter()
        engine = LazyEngine(self._engine)
        try:
            with self._scratch() as staging:
                planner = self._planner(options, filters, engine=engine, staging=staging)
                outcome = _planned(self.path, planner, self.partition, verified=options.verify, began=began)
        finally:
            engine.close()
        return Plan(outcome=outcome, options=options, filters=filters)

    def compact(
        self,
        plan: Plan | MergeOptions | None = None,
        *,
        filters: Filters | None = None,
        budget: Budget | None = None,
        take_over: bool = False,
        measure_read: bool = False,
        command: str = "compact",
    ) -> Outcome:
        """Merge the small files, verify, publish, record.

        A plan is made anew from its options: files may have changed since.
        """
        options = plan.options if isinstance(plan, Plan) else plan or MergeOptions()
        filters = filters or (plan.filters if isinstance(plan, Plan) else Filters())
        begun = self._recorder.begin(command=command, family="hive", table=self.path, strategy=REASON)
        with begun:
            try:
                outcome = self._compact(options, filters, budget=budget or Budget(), take_over=take_over, begun=begun)
            except InvalidInputError:
                raise  # a wrong call is no run
            except PackstoneError as error:
                begun.record_error(empty_outcome(self.path, Status.FAILED, (), verified="none"), error)
                raise
            if measure_read and outcome.run is not None:
                outcome = replace(outcome, read_times=measure_reads(self.journal, outcome.run))
            return begun.record(outcome)

    def _compact(
        self, options: MergeOptions, filters: Filters, *, budget: Budget, take_over: bool, begun: BegunRun
    ) -> Outcome:
        if self._publish is None:
            check_can_swap(self._io, self.path)
        else:
            check_exclusive(self._io, self.layout.state, what="partition")
        closed = outside_window(filters)
        if closed is not None:
            skipped = (Skipped(what=self.path, why=closed, kind=SkipKind.REFUSED),)
            return empty_outcome(self.path, Status.REFUSED, skipped, verified=options.verify)
        began = time.perf_counter()
        engine = LazyEngine(self._engine)
        try:
            with RunSession(self.journal, command=begun.command, run=begun.run, take_over=take_over) as session:
                # Asked again now that our own records can be seen: of two that begin at once, one sees the other.
                check_not_nested(self._io, self.layout)
                check_backup_root(session, options.backup_root)
                note_deaths(self._io, f"{self.layout.state}/staging", folder=self.layout.deaths, job=HIVE_JOB)
                recovered = maintenance.recover_first(session, take_over=take_over, catalog=self._catalog)
                staging = session.layout.staging(session.run)
                planner = self._planner(options, filters, engine=engine, staging=staging)
                run = MergeRun(
                    session=session,
                    planner=planner,
                    engine=engine,
                    options=options,
                    budget=budget,
                    may_go_on=may_go_on(filters, budget),
                    progress=self._progress,
                    publish=self._publish,
                )
                run.run(planner.plan(self.partition))
        finally:
            engine.close()
            self._progress.close()
        return _done(self.path, run, planner, verified=options.verify, began=began, recovered=recovered)

    def recover(self, *, take_over: bool = False) -> RecoverReport:
        """Finish or undo what dead runs left."""
        return maintenance.recover(self.journal, take_over=take_over, catalog=self._catalog)

    def restore(self, run: str, *, take_over: bool = False) -> RestoreReport:
        """Undo exactly one run; of a partition, only what the run did there."""
        report = maintenance.restore(
            self.journal, run, partition=self.partition, take_over=take_over, catalog=self._catalog
        )
        if report.partitions and is_undone(self.journal, run):
            self._recorder.mark_restored(run, table=self.path)
        return report

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Remove originals whose time is over."""
        return maintenance.clean(self.journal, dry_run=dry_run, catalog=self._catalog)

    def verify(self, run: str) -> VerifyReport:
        """Prove one run again, from the files that still exist."""
        engine = LazyEngine(self._engine)
        try:
            return maintenance.verify(self.journal, run, engine=engine)
        finally:
            engine.close()

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[str]:
        """A folder for what the tasks of a plan answer, in a place that they share with us; made when one is run."""
        if scheme_of(self.path) == "file":
            with tempfile.TemporaryDirectory(prefix="packstone-plan-") as folder:
                yield folder
            return
        staging = self.layout.plan_staging(new_run_id())
        try:
            yield staging
        finally:
            if self._io.stat(staging) is not None:
                self._io.remove_tree(staging)

    def _planner(self, options: MergeOptions, filters: Filters, *, engine: Engine, staging: str) -> Planner:
        return Planner(
            journal=self.journal,
            options=options,
            filters=filters,
            engine=engine,
            facts_staging=staging,
            folders=self._folders,
        )

    def __repr__(self) -> str:
        return f"HiveTable({self.path!r})"


def _check_folder(io: FileIO, path: str) -> None:
    found = io.stat(path)
    if found is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    if found.kind is not Kind.DIRECTORY:
        raise InvalidInputError(f"{path} is a {found.kind}; give the folder of a table or of a partition.", path=path)


def _check_strategy(strategy: str) -> None:
    if strategy != REASON:
        raise InvalidInputError(f"{strategy} is no strategy for Hive directories; use {REASON}.")


def _planned(path: str, planner: Planner, partition: str, *, verified: str, began: float) -> Outcome:
    units: list[UnitOutcome] = []
    skipped = SkipLog()
    count, files_in, bytes_in = 0, 0, 0
    for plan in planner.plan(partition):
        skipped.extend(plan.skipped)
        count += len(plan.units)
        files_in += sum(len(unit.inputs) for unit in plan.units)
        bytes_in += sum(unit.input_bytes for unit in plan.units)
        units.extend(_planned_units(plan) if len(units) < MAX_PLANNED_UNITS_SHOWN else ())
    return Outcome(
        run=None,
        table=path,
        strategy=REASON,
        status=status_of(committed=count, skipped=tuple(skipped), planned=True),
        files_before=planner.totals.files,
        files_after=planner.totals.files - files_in + count,
        bytes_before=planner.totals.bytes,
        bytes_after=planner.totals.bytes,
        verified=verified,
        cost=Cost.of(bytes_in, bytes_in, files_in=files_in, files_out=count),
        seconds=time.perf_counter() - began,
        units=tuple(units),
        skipped=tuple(skipped),
        message=_message(count, planner, tuple(skipped)),
        warnings=_warnings(planner),
    )


def _planned_units(plan: PartitionPlan) -> list[UnitOutcome]:
    return [
        UnitOutcome(
            partition=plan.listing.partition,
            inputs=tuple(file.name for file in unit.inputs),
            outputs=(),
            how=unit.how,
            why=unit.why,
            bytes_before=unit.input_bytes,
        )
        for unit in plan.units
    ]


def _done(
    path: str, run: MergeRun, planner: Planner, *, verified: str, began: float, recovered: tuple[Any, ...]
) -> Outcome:
    units, skipped = tuple(run.units), tuple(run.skipped)
    files_in = sum(len(unit.inputs) for unit in units)
    return Outcome(
        run=run.session.run if units else None,
        table=path,
        strategy=REASON,
        status=status_of(committed=len(units), skipped=skipped),
        files_before=planner.totals.files,
        files_after=planner.totals.files - run.files_removed,
        bytes_before=planner.totals.bytes,
        bytes_after=planner.totals.bytes - run.bytes_removed,
        rows=sum(unit.rows for unit in units),
        verified=verified if units else "none",
        seconds=time.perf_counter() - began,
        verify_seconds=sum(unit.read_seconds_before + unit.read_seconds_after for unit in units),
        swap_ms=run.swap_ms,
        cost=Cost.of(
            sum(u.bytes_before for u in units),
            sum(u.bytes_after for u in units),
            files_in=files_in,
            files_out=len(units),
        ),
        units=units,
        skipped=skipped,
        recovered=tuple(str(one) for one in recovered),
        message=_message(len(units), planner, skipped),
        warnings=_warnings(planner),
    )


def empty_outcome(path: str, status: Status, skipped: tuple[Skipped, ...], *, verified: str) -> Outcome:
    """The answer of a run that did nothing."""
    return Outcome(
        run=None,
        table=path,
        strategy=REASON,
        status=status,
        files_before=0,
        files_after=0,
        bytes_before=0,
        bytes_after=0,
        verified=verified,
        cost=Cost.of(0, 0, files_in=0, files_out=0),
        skipped=skipped,
    )


def _warnings(planner: Planner) -> tuple[str, ...]:
    """What a careful engineer wants to know before she runs this again."""
    layout = planner.journal.layout
    if not layout.state.startswith(f"{layout.root}/"):
        return ()
    inside = (
        f"Packstone's records lie inside the table ({layout.state}), because nothing can be written beside it; Spark "
        "and Hive pass over them, DuckDB's and Polars' readers of whole folders may not."
    )
    return (inside,)


def _message(count: int, planner: Planner, skipped: tuple[Skipped, ...] = ()) -> str:
    if count:
        return ""
    if planner.totals.files == 0:
        return "There are no data files here."
    kinds = {skip.kind for skip in skipped}
    if SkipKind.UNREADABLE in kinds:
        return "Files that cannot be read stand in the way, and nothing else needs merging."
    if kinds - {SkipKind.NOT_NEEDED}:
        return "Nothing is merged; what was left alone, and why, is listed."
    return "No partition needs merging."
