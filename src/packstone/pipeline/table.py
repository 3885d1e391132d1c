"""A table as users see it, whatever its family: health, plan, compact, verify, restore, recover, clean, scan."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from packstone.errors import InvalidInputError, PackstoneError
from packstone.history.spool import table_spool
from packstone.model.limits import Budget, Filters
from packstone.model.maintenance import CheckRequest, CleanRequest
from packstone.model.outcome import Skipped, Status
from packstone.pipeline.compact import Admission, Compaction, Tally, outside_hours
from packstone.pipeline.outcome import Answer, PlanSketch
from packstone.pipeline.plan import Plan, PlanHeader
from packstone.pipeline.record import Recorder
from packstone.runs.clock import new_run_id, now_utc
from packstone.runs.deaths import note_deaths
from packstone.runs.engine import InlineEngine, LazyEngine
from packstone.runs.folder import Run
from packstone.runs.interrupts import Interrupted, finish_first, is_interruption
from packstone.runs.tasks import NoProgress
from packstone.storage.location import scheme_of
from packstone.storage.stores import open_store
from packstone.tables.families import find_format, find_table, is_plain
from packstone.tables.family import PlanContext
from packstone.tables.lake import check_listable, check_one_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packstone.model.health import Health
    from packstone.model.maintenance import CleanPlan, Recovered, RestorePlan
    from packstone.model.outcome import Outcome
    from packstone.model.times import Moment
    from packstone.model.work import PlannedPart
    from packstone.pipeline.contract import FamilyTable
    from packstone.pipeline.maintain import CheckReport, RecoverReport, VerifyReport
    from packstone.pipeline.record import RecordedRun
    from packstone.pipeline.scan import Scan
    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import CacheStats
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import Family, Option
    from packstone.tables.segments.user_verbs import SegmentVerbs

_LOG = logging.getLogger("packstone")


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactRequest:
    """The arguments of one compaction."""

    filters: Filters
    budget: Budget
    take_over: bool = False
    saved: Plan | None = None
    engine: Engine | None = None  # the caller's, who closes it; None: the table makes and closes its own


class Table:
    """One table, or a partition of one; opened by ``packstone.open``."""

    def __init__(
        self,
        path: str,
        *,
        engine: Callable[[], Engine] | None = None,
        io: FileIO | None = None,
        progress: Progress | None = None,
        history: str | None = None,
        named: Mapping[str, Any] | None = None,
    ) -> None:
        if "://" not in path:
            path = os.path.abspath(path)  # records name whole paths
        self._io: FileIO = io or open_store(path)
        self._engine = engine or (lambda: InlineEngine(self._io))
        self._progress: Progress = progress or NoProgress()
        self._named = dict(named or {})  # what a catalog says about the table, for the family that uses it
        self._family, self.path = _find(self._io, path)
        try:
            opened = self.open()  # a damaged table raises now
        except PermissionError:  # its file name may be one that does not exist: the folder cannot be entered
            check_listable(self._io, self.path)
            raise
        if not self._named and is_plain(self._family):
            check_one_table(self._io, self.path)
        spool = table_spool(self._io, opened.state, root=opened.root)
        self._recorder = Recorder(url=history, beside=spool)

    @property
    def family_row(self) -> Family:
        """The description of the table's family."""
        return self._family

    @property
    def family(self) -> str:
        """The kind of table: ``hive``, ``paimon``, ``segments``."""
        return self._family.name

    def open(self, options: Any = None) -> FamilyTable[Any, Any, Any, Any]:
        """Open the family's own table for one command; for tests and for verbs that only one family has."""
        kind = self._family.load_options()
        if options is not None and not isinstance(options, kind):
            raise InvalidInputError(
                f"{self.path} is {self._family.singular}, which takes {kind.__name__}, not {type(options).__name__}."
            )
        opened: FamilyTable[Any, Any, Any, Any] = self._family.load_table()(
            self._io, self.path, kind() if options is None else options, **self._named
        )
        return opened

    def plan(
        self,
        options: Any = None,
        *,
        filters: Filters | None = None,
        strategy: str | None = None,
        where: str | None = None,
        is_kept: bool = True,
    ) -> Plan:
        """Plan what ``compact`` would do, with reasons; write nothing to the table.

        ``strategy`` and ``where`` override those of the options and filters. ``is_kept=False`` leaves the parts out of
        the plan: enough to show it, and cheaper for a table of a million files.
        """
        options, filters = self._chosen(options, strategy), self._checked(filters, where)
        table = self.open(options)
        table.check_allowed()
        answer, sketch = Answer(self._family, table), PlanSketch()
        plan = Plan(
            PlanHeader(table=self.path, family=self.family, filters=replace(filters, window=None)),
            family=self._family,
            options=options,
        )
        engine = LazyEngine(self._engine)
        try:
            with self._scratch(table) as staging:
                ctx = self._context(filters, Budget(), engine=engine, staging=staging, is_dry=True)
                for one in table.plans(1, ctx):
                    if isinstance(one, Skipped):
                        sketch.skipped.append(one)
                        continue
                    part: PlannedPart[Any] = table.describe(one, is_saved=is_kept)
                    sketch.add(part)
                    if is_kept and not part.is_estimate:
                        plan.add(part)
        finally:
            engine.close()
        outcome = answer.planned(sketch, engine=engine.used)
        closed = outside_hours(filters)
        if closed is not None:
            warning = f"A compaction would be refused now: {closed}."
            outcome = replace(outcome, warnings=(*outcome.warnings, warning))
        return plan.answered(outcome)

    def compact(
        self,
        plan: Any = None,
        *,
        options: Any = None,
        filters: Filters | None = None,
        budget: Budget | None = None,
        take_over: bool = False,
        strategy: str | None = None,
        where: str | None = None,
        command: str = "compact",
    ) -> Outcome:
        """Merge, verify, publish, record; a ``Plan`` is carried out exactly, parts whose inputs changed are skipped.

        Without a plan, ``options`` are those of the family (they may also come first), or its defaults.
        """
        plan = chosen_options(plan, options)
        saved = plan if isinstance(plan, Plan) else None
        if saved is not None:
            self._check_plan(saved, filters, is_changed=strategy is not None or where is not None)
        options = saved.options if saved is not None else self._chosen(plan, strategy)
        request = _CompactRequest(
            filters=saved.within_hours(filters) if saved is not None else self._checked(filters, where),
            budget=budget or Budget(),
            take_over=take_over,
            saved=saved,
        )
        return self._recorded(options, request, command)

    def _recorded(self, options: Any, request: _CompactRequest, command: str) -> Outcome:
        """Compact, and record the outcome."""
        table = self.open(options)
        begun = self._recorder.begin(
            command=command, family=self.family, table=self.path, strategy=str(options.strategy)
        )
        answer, tally = Answer(self._family, table), Tally()
        _LOG.info("%s: %s of %s begins", begun.run, command, self.path)
        with begun:
            try:
                outcome = self._compact(table, answer, request, begun=begun, tally=tally)
            except InvalidInputError:
                raise  # invalid arguments are not recorded as a run
            except BaseException as error:
                if is_interruption(error):
                    if not tally.is_whole:
                        tally.note_interrupt(table.root)  # before the first part: the loop has noted later ones
                    outcome = answer.done(tally, begun.run)
                    if isinstance(error, KeyboardInterrupt):  # from a notebook, which must receive it too
                        begun.record(outcome)
                        raise
                elif isinstance(error, PackstoneError):
                    begun.record_error(answer.empty(Status.FAILED), error)
                    raise
                else:
                    raise
            _LOG.info("%s: ended, %s, %d merges", begun.run, outcome.status.value, len(outcome.units))
            return begun.record(outcome)

    def _compact(
        self,
        table: FamilyTable[Any, Any, Any, Any],
        answer: Answer,
        request: _CompactRequest,
        *,
        begun: RecordedRun,
        tally: Tally,
    ) -> Outcome:
        table.check_allowed()
        closed = outside_hours(request.filters)
        if closed is not None:
            return answer.empty(Status.REFUSED, why=f"{closed[0].upper()}{closed[1:]}; nothing new was started.")
        table.check_writable()  # before hours of work
        engine = request.engine or LazyEngine(self._engine, parallel=request.budget.parallel)
        admission: Admission[Any, Any, Any] = Admission(request.filters, request.budget)
        try:
            with self._run(table, begun.command, id=begun.run, take_over=request.take_over) as run:
                run.reuses = True
                run.parallelism = lambda: request.budget.parallel or engine.parallelism
                recovered = self._recover_first(table, run)
                compaction = Compaction(
                    table=table,
                    run=run,
                    engine=engine,
                    admission=admission,
                    progress=self._progress,
                    is_saved=request.saved is not None,
                    tally=tally,
                )
                staging = run.folders.staging(run.id)
                ctx = self._context(request.filters, request.budget, engine=engine, staging=staging)
                saved = request.saved
                try:
                    if saved is None:
                        compaction.carry_out(lambda number: table.plans(number, ctx))
                    else:
                        compaction.carry_out(lambda number: table.resume(saved.parts, number))
                finally:
                    recovered += _end_inherited(table, run)
        finally:
            if request.engine is None:
                engine.close()
            self._progress.close()
        return answer.done(tally, run.id, recovered=recovered, engine=engine.used)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        where: str | Expression | None = None,
        *,
        version: int | None = None,
        as_of: Moment | None = None,
        timezone: str | None = None,
    ) -> Scan:
        """Scan the rows that pass a filter, as Arrow or as a DataFrame.

        ``version`` is the number of a snapshot or of a status. ``where`` is SQL text or made of ``packstone.col``; its
        local times are in ``timezone`` (default: UTC; for a DataFrame the session's). Only files and row groups that
        may hold matching rows are read.
        """
        from packstone.model.times import read_moment
        from packstone.pipeline.scan import Scan
        from packstone.tables.scan_source import open_source

        moment = None if as_of is None else read_moment(as_of)
        source = open_source(self._io, self.path, version=version, as_of_ms=moment)
        return Scan(source, columns=columns, where=where, timezone=timezone)

    def cache_stats(self) -> dict[str, CacheStats]:
        """The size and the hits of the caches of this process, which all tables share."""
        from packstone.pipeline.scan import cache_stats

        return cache_stats()

    @property
    def segments(self) -> SegmentVerbs:
        """The verbs of segment tables: load, show, show_frame, delete, alter, versions, files, describe, to_df."""
        from packstone.spark.frames import SparkFrames
        from packstone.tables.segments.user_verbs import SegmentVerbs

        if self.family != "segments":
            raise InvalidInputError(f"{self.path} is {self._family.singular}, not a segment table.", path=self.path)
        return SegmentVerbs(
            self._io,
            self.path,
            engine=self._engine,
            progress=self._progress,
            frames=SparkFrames(),
            merge=self.merge_loaded,
            scan=self.scan,
        )

    def merge_loaded(self, engine: Engine) -> Outcome:
        """Merge what is worth merging after a load, with the engine of the load."""
        request = _CompactRequest(filters=Filters(), budget=Budget(), engine=engine)
        return self._recorded(self._chosen(None, None), request, "load")

    def health(self, options: Any = None) -> Health:
        """Describe the table: files, sizes, what compacting would gain, what prevents it."""
        return self.open(options).health()

    def list_options(self) -> tuple[Option, ...]:
        """The options of the table's family, each with its default and its value for this table."""
        own = self.open().own_options()
        known: tuple[Option, ...] = self._family.load_options().all_options()
        return tuple(replace(one, value=own.get(one.key, one.default)) for one in known)

    def recover(self, *, take_over: bool = False) -> RecoverReport:
        """Finish or undo what dead runs left."""
        from packstone.pipeline import maintain

        table = self.open()
        return maintain.recover(table, lambda: self._run(table, "recover", take_over=take_over))

    def clean(self, request: CleanRequest | None = None, options: Any = None, *, dry_run: bool = False) -> CleanPlan:
        """Remove, by recorded names, what dead runs left and what has outlived its retention."""
        from packstone.pipeline import maintain

        table, request = self.open(options), request or CleanRequest()
        for name in (given.removesuffix("_seconds") for given in request.given):
            if name not in self._family.clean_arguments:
                what = f"--{name.replace('_', '-')} is not for {self._family.title}; {self.path} is one of them."
                raise InvalidInputError(what, option=name)
        return maintain.clean(table, request, lambda: self._run(table, "clean"), dry_run=dry_run)

    def verify(self, run: str, *, measure_read: bool = False) -> VerifyReport:
        """Prove one run again, from the files that still exist.

        ``measure_read`` reads originals and merged files in turns, where the family keeps the originals apart.
        """
        from packstone.pipeline import maintain

        table, engine = self.open(), LazyEngine(self._engine)
        try:
            report = maintain.verify(table, run, lambda: self._run(table, "verify"), engine=engine)
            return replace(report, read_times=table.measure_reads(run)) if measure_read else report
        finally:
            engine.close()

    def check(self, *, version: int | None = None, deep: bool = False) -> CheckReport:
        """Check that all files of a version exist and are what was written, and that metadata and data agree.

        Metadata, sizes and the footers of data files are checked; ``deep`` also reads all data. Nothing is changed.
        """
        from packstone.pipeline import maintain

        table, engine = self.open(), LazyEngine(self._engine)
        request = CheckRequest(version=version, deep=deep)
        try:
            with self._scratch(table) as staging:
                return maintain.check(table, request, family=self.family, engine=engine, staging=staging)
        finally:
            engine.close()

    def restore(
        self,
        run: str,
        options: Any = None,
        *,
        take_over: bool = False,
    ) -> RestorePlan:
        """Undo exactly one run; if the target is a partition, only what the run did there."""
        from packstone.pipeline import maintain

        table = self.open(options)
        report = maintain.restore(table, run, lambda: self._run(table, "restore", take_over=take_over, restores=run))
        if report.is_whole if report.parts else self._was_undone(table, run):
            self._recorder.mark_restored(run, family=self.family, table=self.path)
        return report

    def was_undone(self, run: str) -> bool:
        """Whether an earlier restore undid all of a run; InvalidInputError if there is no such run."""
        from packstone.pipeline import maintain

        table = self.open()
        maintain.check_known(table, run)
        return self._was_undone(table, run)

    def _was_undone(self, table: FamilyTable[Any, Any, Any, Any], run: str) -> bool:
        """Whether an earlier restore undid the run; it may have been killed before it could tell the history."""
        published = table.read_published(run)
        return published is not None and published.is_undone

    def _run(self, table: FamilyTable[Any, Any, Any, Any], command: str, **facts: Any) -> Run:
        return Run(
            self._io,
            table.root,
            state=table.state,
            family=self.family,
            command=command,
            is_half_done=table.is_half_done,
            **facts,
        )

    def _recover_first(self, table: FamilyTable[Any, Any, Any, Any], run: Run) -> tuple[Any, ...]:
        note_deaths(self._io, f"{table.state}/staging", folder=run.folders.deaths, job=table.job)
        return tuple(table.begin(run))

    def _context(
        self, filters: Filters, budget: Budget, *, engine: Engine, staging: str, is_dry: bool = False
    ) -> PlanContext:
        return PlanContext(
            filters=filters,
            now=now_utc(),
            engine=engine,
            staging=staging,
            parallel=budget.parallel,
            is_dry=is_dry,
            find_format=find_format,
        )

    def _chosen(self, options: Any, strategy: str | None) -> Any:
        chosen = self._family.load_options()() if options is None else options
        if strategy is None:
            return chosen
        return replace(chosen, strategy=self._family.check_strategy(strategy))

    def _checked(self, filters: Filters | None, where: str | None) -> Filters:
        filters = filters or Filters()
        if where is not None:
            filters = replace(filters, where=where)
        filters.check_honoured(self._family.filters, family=self._family.title)
        return filters

    def _check_plan(self, plan: Plan, filters: Filters | None, *, is_changed: bool) -> None:
        if plan.header.table != self.path:
            raise InvalidInputError(f"The plan is for {plan.header.table}, and this is {self.path}.")
        if is_changed or replace(filters or Filters(), window=None) != Filters():
            raise InvalidInputError("A plan is carried out as it is; give filters and a strategy when you make it.")

    @contextlib.contextmanager
    def _scratch(self, table: FamilyTable[Any, Any, Any, Any]) -> Iterator[str]:
        """A folder for the results of the tasks of a plan, on storage that executors share; made by the first task."""
        if scheme_of(self.path) == "file":
            with tempfile.TemporaryDirectory(prefix="packstone-plan-") as folder:
                yield folder
            return
        staging = f"{table.state}/staging/plan-{new_run_id()}"
        try:
            yield staging
        finally:
            if self._io.stat(staging) is not None:
                self._io.remove_tree(staging)

    def close(self) -> None:
        """Close what the table holds open: the metastore of a table opened by its name, nothing otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Table({self.path!r})"


def chosen_options(plan: Any, options: Any) -> Any:
    """The plan or the options of a call: options may be passed by name, or first in place of a plan."""
    if plan is not None and options is not None:
        raise InvalidInputError("Give a plan or options, not both: a plan holds the options that it was made with.")
    return plan if options is None else options


def _end_inherited(table: FamilyTable[Any, Any, Any, Any], run: Run) -> tuple[Recovered, ...]:
    """End the killed runs whose finished units this run could reuse; what fails now, the next command does."""
    found: tuple[Recovered, ...] = ()
    if run.inherited:
        run.reuses = False
        with contextlib.suppress(OSError, PackstoneError, Interrupted), finish_first():
            found = tuple(one for one in table.recover(run) if not one.is_left)
    return found


def _find(io: FileIO, path: str) -> tuple[Family, str]:
    given = path.rstrip("/") or "/"
    if io.stat(given) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, root = find_table(io, given)
    if root != given and not family.has_partition_targets:
        what = family.singular.removeprefix("a ")
        parts = f", and choose {family.part}s with --where" if "where" in family.filters else ""
        raise InvalidInputError(f"{path} lies inside the {what} {root}; give the table{parts}.", path=path)
    return family, given
