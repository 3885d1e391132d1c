"""A Hive-style directory in the pipeline: the small files of each partition are merged and swapped in by a journal.

Each partition is a separate commit, under an owner file; a conflict skips only that partition. After a swap the
partition is planned again over the files known at the start and the outputs of this run, until that plan is empty, so
that a second command has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from packstone.errors import CommitUnknownError, ConflictError, CorruptionError, InvalidInputError
from packstone.model.codec import AbsolutePath, RelativePath
from packstone.model.files import FileEntry, Permissions
from packstone.model.maintenance import (
    CheckRequest,
    CleanRequest,
    ProvedUnit,
    PublishedRun,
    Recovered,
    RestorePlan,
    TableCheck,
    ToProve,
)
from packstone.model.outcome import SkipKind, Skipped, UnitOutcome
from packstone.model.sizes import plural
from packstone.model.unit import How, StagedFile, UnitSpec, UnitStatus, Verify
from packstone.model.work import Commit, PlannedPart, Totals, WaveLimits
from packstone.runs.clock import now_seconds
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.storage.fileio import EntryKind
from packstone.storage.store_checks import check_exclusive, why_no_move
from packstone.tables.foreign import check_mergeable
from packstone.tables.hive.commit import (
    Claims,
    Publication,
    WaveCommit,
    check_backup_root,
    second_listing,
)
from packstone.tables.hive.journal import Journal
from packstone.tables.hive.layout import KEPT_SUFFIX, check_not_nested, find_layout
from packstone.tables.hive.listing import PartitionListing, list_again
from packstone.tables.hive.observe import HivePlanner
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.plan import PartitionPlan, PlannedUnit, output_name
from packstone.tables.hive.recover import is_half_done, recover_table, unexplained_backups, unfinished_swaps
from packstone.tables.hive.swap import check_can_swap
from packstone.tables.hive.tasks import HIVE_JOB, measure_reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packstone.model.work import Work
    from packstone.runs.folder import Run
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.family import PlanContext
    from packstone.tables.hive.clean import HiveClean
    from packstone.tables.hive.health import HiveHealth
    from packstone.tables.hive.journal import Mark, OutputFile, SwapIntent
    from packstone.tables.hive.listing import FolderSource
    from packstone.tables.hive.relocate import LocationCatalog, LocationPublish

_WAVE: Final = WaveLimits(units=512, size_bytes=4 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFileMerge:
    """One merge of a saved plan: its inputs with their sizes and times, which must still be the same."""

    inputs: tuple[FileEntry, ...]
    how: How
    file_format: str
    group: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPartition:
    """What a saved plan does in one partition."""

    partition: RelativePath
    directory: AbsolutePath
    merges: tuple[SavedFileMerge, ...]

    def __post_init__(self) -> None:
        """A file is merged once."""
        names = [file.name for merge in self.merges for file in merge.inputs]
        if len(set(names)) != len(names):
            raise ValueError("merges: a file is listed twice")


@dataclass(slots=True)
class _InFlight:
    """The files of a partition that the run may still merge, and its folder's entry before anything was read."""

    allowed: set[str]
    folder: Entry | None


class HiveTable:
    """One partition, or a table with all its partitions, opened for one command."""

    job = HIVE_JOB
    detail = SavedPartition
    wave = _WAVE
    one_commit = False
    whole_parts = False

    def __init__(
        self,
        io: FileIO,
        path: str,
        options: HiveOptions | None = None,
        *,
        folders: FolderSource | None = None,
        publish: LocationPublish | None = None,
        catalog: LocationCatalog | None = None,
    ) -> None:
        self.io, self.path, self.options = io, path, options or HiveOptions()
        found = io.stat(path)
        if found is None:
            raise InvalidInputError(f"{path} does not exist.", path=path)
        if found.kind is not EntryKind.DIRECTORY:
            what = f"{path} is a {found.kind}; give the folder of a table or of a partition."
            raise InvalidInputError(what, path=path)
        check_mergeable(io, path)
        self.layout, self.partition = find_layout(io, path)
        check_not_nested(io, self.layout)
        self.root, self.state = self.layout.root, self.layout.state
        self.journal = Journal(io=io, layout=self.layout)
        self.strategy, self.verify = self.options.strategy, self.options.verify
        self.totals = Totals()
        self.folders = folders  # the folders that a metastore names, instead of those below the path
        self.publish = publish  # None: in place
        self.catalog = publish.catalog if publish is not None else catalog
        self._planner: HivePlanner | None = None
        self._claims: Claims | None = None
        self._numbers = count(1)
        self._in_flight: dict[str, _InFlight] = {}

    @property
    def output_home(self) -> str:
        """Merged files wait in the staging folder."""
        return self.state

    def warnings(self) -> tuple[str, ...]:
        """Return a warning if the records lie inside the table."""
        if not self.state.startswith(f"{self.root}/"):
            return ()
        inside = (
            f"Packstone's records lie inside the table ({self.state}), because nothing can be written beside it; Spark "
            "and Hive ignore them, DuckDB's and Polars' readers of whole folders may not."
        )
        return (inside,)

    def check_allowed(self) -> None:
        """Refuse ``statistics`` for a path, which has none; opening the table refused what must not be merged."""
        if self.options.statistics and self.catalog is None:
            what = f"statistics requires a table's name and --metastore; {self.path} is a path."
            raise InvalidInputError(what, option="statistics")

    def own_options(self) -> Mapping[str, str]:
        """A directory sets no options."""
        return {}

    def check_writable(self) -> None:
        """Refuse, by name, a store on which nothing can be published."""
        if self.publish is None:
            check_can_swap(self.io, self.path)
        else:
            check_exclusive(self.io, self.state, what="partition")

    def begin(self, run: Run) -> Sequence[Recovered]:
        """Recover what dead runs left half-way; CorruptionError if their records are damaged."""
        # Checked again now that our own records are visible: of two runs that begin at once, one sees the other.
        check_not_nested(self.io, self.layout)
        check_backup_root(self.journal, self.options.backup_root, run=run.id)
        with finish_first():
            found = self._recover(run)
        for one in found:
            if one.is_damaged:
                raise CorruptionError(f"Nothing was changed: {one}.", run=one.run)
        return found

    def is_half_done(self, run_id: str) -> bool:
        """Whether a swap of a run is half-way."""
        return is_half_done(self.journal, run_id)

    # ---- plan ----

    def plans(self, number: int, ctx: PlanContext) -> Iterator[PartitionPlan | Skipped]:
        """Offer every partition that the filters select; ``again`` does all later rounds."""
        if number > 1:
            return
        self._planner = self._make_planner(ctx)
        for plan in self._planner.plan(self.partition):
            yield from plan.skipped
            if plan.units:
                yield plan if ctx.is_dry else self._checked(plan)

    def _make_planner(self, ctx: PlanContext) -> HivePlanner:
        self.totals.is_filtered = ctx.filters.where is not None or bool(ctx.filters.exclude)
        return HivePlanner(
            journal=self.journal,
            options=self.options,
            filters=ctx.filters,
            moves_whole=self.publish is not None,
            engine=ctx.engine,
            facts_staging=ctx.staging,
            folders=self.folders,
            totals=self.totals,
            find_format=ctx.find_format,
        )

    def _checked(self, plan: PartitionPlan) -> PartitionPlan | Skipped:
        """Skip a partition that is a separate mount or encryption zone: files cannot be moved out of it."""
        why = self._why_not_movable(plan.listing.directory)
        if why is not None:
            return Skipped(what=plan.part, why=why, kind=SkipKind.REFUSED)
        return replace(plan, copies_rest=self.publish is not None)

    def _why_not_movable(self, directory: str) -> str | None:
        places = (directory, f"{self.state}/staging", self.options.backup_root or f"{self.state}/backup")
        if len({self.io.store_id(path) for path in places}) != 1:
            return "it is on another file system than its table's backup, and originals are moved, not copied"
        return why_no_move(self.io, directory, self.state)

    def describe(self, plan: PartitionPlan, *, is_saved: bool) -> PlannedPart[SavedPartition]:
        """Describe a partition's plan, to be shown or saved."""
        merges = tuple(
            SavedFileMerge(
                inputs=unit.inputs, how=unit.how, file_format=unit.file_format, group=unit.group, why=unit.why
            )
            for unit in (plan.units if is_saved else ())
        )
        listing = plan.listing
        return PlannedPart(
            part=plan.part,
            files_in=plan.file_count,
            files_out=len(plan.units),
            read_bytes=plan.read_bytes,
            units=tuple(_planned_outcome(listing.partition, unit) for unit in plan.units),
            detail=SavedPartition(partition=listing.partition, directory=listing.directory, merges=merges),
        )

    def resume(self, saved: Iterable[PlannedPart[SavedPartition]], number: int) -> Iterator[PartitionPlan | Skipped]:
        """Offer the saved partitions whose inputs are still the same files, by size and time."""
        recorded = {} if self.folders is None else {folder.directory: folder.facts for folder in self.folders()}
        for one in saved if number == 1 else ():
            detail = one.detail
            if not self.layout.is_folder_of(detail.directory, detail.partition) and detail.directory not in recorded:
                why = f"{detail.directory} is not a folder of {self.root}; plan again"
                yield Skipped(what=one.part, why=why, kind=SkipKind.CONFLICT)
                continue
            before = PartitionListing(
                partition=detail.partition,
                directory=detail.directory,
                files=(),
                ignored=(),
                summaries=(),
                writing=None,
                refused=None,
                facts=recorded.get(detail.directory),
            )
            try:
                listing = list_again(self.io, self.root, before, now_seconds=now_seconds())
            except FileNotFoundError:
                yield Skipped(what=one.part, why=f"{detail.directory} is gone; plan again", kind=SkipKind.CONFLICT)
                continue
            yield self._resumed(one, listing)

    def _resumed(self, saved: PlannedPart[SavedPartition], listing: PartitionListing) -> PartitionPlan | Skipped:
        self.totals.parts += 1
        self.totals.files += len(listing.files)
        self.totals.bytes += listing.total_bytes
        now = {file.name: file for file in listing.files}
        units = []
        for merge in saved.detail.merges:
            for file in merge.inputs:
                found = now.get(file.name)
                if found is None or (found.size_bytes, found.mtime_ns) != (file.size_bytes, file.mtime_ns):
                    why = f"{file.name} changed or was removed since the plan was made; plan again"
                    return Skipped(what=saved.part, why=why, kind=SkipKind.CONFLICT)
            inputs = tuple(now[file.name] for file in merge.inputs)
            units.append(
                PlannedUnit(
                    inputs=inputs, how=merge.how, file_format=merge.file_format, group=merge.group, why=merge.why
                )
            )
        refused = listing.refused or listing.writing
        if refused is not None:
            return Skipped(what=saved.part, why=refused, kind=SkipKind.REFUSED)
        return self._checked(PartitionPlan(listing=listing, units=tuple(units), skipped=()))

    # ---- run ----

    def claim(self, plans: Sequence[PartitionPlan], run: Run) -> Mapping[str, str]:
        """Own each partition by its owner file."""
        taken: dict[str, str] = {}
        for plan in plans:
            try:
                self._claimed(run).claim(plan.listing.partition)
            except ConflictError as conflict:
                taken[plan.part] = conflict.facts.get("why", conflict.message)
                continue
            flight = self._in_flight.get(plan.part)
            if flight is None:
                flight = _InFlight(allowed={file.name for file in plan.listing.files}, folder=None)
            self._in_flight[plan.part] = replace(flight, folder=self.io.stat(plan.listing.directory))
        return taken

    def _claimed(self, run: Run) -> Claims:
        if self._claims is None:
            self._claims = Claims(self.journal, run)
        return self._claims

    def context(self, run: Run) -> None:
        """Units share no context."""

    def units(self, work: Work[PartitionPlan, UnitSpec, StagedFile]) -> Sequence[UnitSpec]:
        """All merges of a partition and, for a new folder, the copies of what stays as it is."""
        if work.units:
            return ()
        plan = work.plan
        specs = [self._spec(plan, planned) for planned in plan.units]
        return [*specs, *(self._copies(plan) if self.publish is not None else ())]

    def _spec(self, plan: PartitionPlan, planned: PlannedUnit) -> UnitSpec:
        number, listing = next(self._numbers), plan.listing
        assert self._claims is not None  # a part is claimed before it is worked on
        return UnitSpec(
            number=number,
            partition=listing.partition,
            directory=listing.directory,
            inputs=planned.inputs,
            how=planned.how,
            file_format=planned.file_format,
            output_name=output_name(self._claims.run.id, number, planned.inputs),
            why=planned.why,
            codec=self.options.codec,
            header_lines=listing.header_lines(self.options.header_lines) or 0,
            verify=self.options.verify,
            accept_invalid_text=self.options.accept_invalid_text,
            permissions=self._permissions(listing.directory, planned.inputs[0]),
        )

    def _permissions(self, directory: str, first: FileEntry) -> Permissions:
        """Return the permissions that all inputs of a unit share; a task reports an input that has been removed."""
        try:
            return self.io.read_permissions(f"{directory}/{first.name}")
        except FileNotFoundError:
            return first.permissions

    def _copies(self, plan: PartitionPlan) -> Iterator[UnitSpec]:
        merged = {file.name for unit in plan.units for file in unit.inputs}
        for file in plan.listing.files:
            if file.name not in merged:
                yield UnitSpec(
                    number=next(self._numbers),
                    partition=plan.listing.partition,
                    directory=plan.listing.directory,
                    inputs=(file,),
                    how=How.COPY,
                    file_format="",
                    output_name=file.name,
                    why="carried over into the new folder",
                    permissions=file.permissions,
                )

    def label(self, part: str, name: str) -> str:
        """Return the label of a file: with its partition, or the file name alone if the table has no partitions."""
        if not name:
            return part
        return name if part in (self.root, self.path) or part.startswith("/") else f"{part}/{name}"

    def changed_input(self, unit: UnitSpec) -> str | None:
        """Say which input another writer changed: then a mismatch proves neither damage nor a wrong merge."""
        for file in unit.inputs:
            path = f"{unit.directory}/{file.name}"
            found = self.io.stat(path)
            if found is None or (found.size_bytes, found.mtime_ns) != (file.size_bytes, file.mtime_ns):
                return f"{path} changed or was removed while it was being read; nothing was changed."
        return None

    def outcomes(self, work: Work[PartitionPlan, UnitSpec, StagedFile]) -> tuple[UnitOutcome, ...]:
        """Return the outcomes of the merges that were written."""
        return tuple(
            UnitOutcome(
                partition=spec.partition,
                inputs=tuple(file.name for file in spec.inputs),
                outputs=(spec.output_name,),
                how=work.results[spec.number].how,
                why=spec.why,
                bytes_before=spec.input_bytes,
                bytes_after=work.results[spec.number].outputs[0].size_bytes,
                **UnitOutcome.sums([work.results[spec.number]]),
            )
            for spec in _written(work)
        )

    # ---- commit ----

    def commit(self, works: Sequence[Work[PartitionPlan, UnitSpec, StagedFile]], run: Run) -> Commit:
        """Swap the merged files of each partition in, or publish its new folder; each succeeds or fails alone."""
        commit = WaveCommit(self._claimed(run), self.options, self.publish)
        try:
            done = commit.commit([self._publication(work) for work in works])
        except OSError as error:
            raise CommitUnknownError(
                f"The journal of {self.root} cannot be written ({error}); run `packstone recover {self.root}`."
            ) from error
        parts = {work.plan.listing.partition: work for work in works}
        for partition in done.gaps_ms:
            run.note_published()
            flight, written = self._in_flight[parts[partition].part], _written(parts[partition])
            flight.allowed -= {file.name for spec in written for file in spec.inputs}
            flight.allowed |= {spec.output_name for spec in written}
        return Commit(
            committed={parts[partition].part: self.outcomes(parts[partition]) for partition in done.gaps_ms},
            conflicts={parts[partition].part: why for partition, why in done.conflicts.items()},
            failed={parts[partition].part: why for partition, why in done.failed.items()},
            reader_gap_ms=sum(done.gaps_ms.values()),
        )

    def _publication(self, work: Work[PartitionPlan, UnitSpec, StagedFile]) -> Publication:
        copies = (spec for spec in work.units.values() if spec.how is How.COPY)
        done = ((spec.inputs[0], work.results.get(spec.number)) for spec in copies)
        return Publication(
            listing=work.plan.listing,
            folder=self._in_flight[work.part].folder,
            written=_written(work),
            results=work.results,
            number=work.passes,
            # The commit copies a file whose copy by a task failed.
            copied={file: one.outputs[0].path for file, one in done if one is not None and one.outputs},
        )

    def discard(self, work: Work[PartitionPlan, UnitSpec, StagedFile], run: Run) -> None:
        """Do nothing: removing the staging folder removes what was not published."""

    def again(
        self,
        work: Work[PartitionPlan, UnitSpec, StagedFile],
        lost: str | None,
    ) -> PartitionPlan | Skipped | None:
        """Plan a partition over the files known at the start and our outputs, without those that cannot be merged."""
        broken = self._broken(work)
        if self.publish is not None or not (broken or _written(work)):
            return None  # by location, each pass would copy all remaining files again
        flight = self._in_flight[work.part]
        flight.allowed -= broken
        if len(flight.allowed) < self.options.min_files:
            return None  # too few to merge, whatever a listing shows
        try:
            listing = second_listing(self.journal, work.plan.listing)
        except ConflictError as conflict:
            return Skipped(what=work.part, why=conflict.message, kind=SkipKind.CONFLICT)
        assert self._planner is not None  # a saved plan is never planned again
        plan = self._planner.plan_again(listing, flight.allowed)
        return plan if plan.units else None

    def _broken(self, work: Work[PartitionPlan, UnitSpec, StagedFile]) -> set[str]:
        """Return the names not to try again: the blamed file of a failed unit, or all its inputs."""
        broken: set[str] = set()
        for unit, result in work.failures:
            blamed = result.blamed.rpartition("/")[2] if result.status is UnitStatus.UNREADABLE else ""
            is_sure = bool(blamed) and self.changed_input(unit) is None
            broken |= {blamed} if is_sure else {file.name for file in unit.inputs}
        return broken

    def release(self, plans: Sequence[PartitionPlan], run: Run, *, unfinished: bool) -> None:
        """Give partitions back."""
        for plan in plans:
            self._in_flight.pop(plan.part, None)
            self._claimed(run).release(plan.listing.partition, unfinished=unfinished)

    def finish(self, run: Run) -> None:
        """Do nothing: every swap was checked when it was made."""

    # ---- other verbs ----

    def recover(self, run: Run) -> Sequence[Recovered]:
        """Finish or undo every swap that stopped half-way; name backups that no record explains."""
        found = self._recover(run)
        named = {one.run for one in found if one.is_damaged}
        return (*found, *(one for one in unexplained_backups(self.journal) if one.run not in named))

    def _recover(self, run: Run) -> tuple[Recovered, ...]:
        return recover_table(
            self.journal,
            me=run.owner,
            now_seconds=run.store_now(),
            take_over=run.take_over,
            catalog=self.catalog,
            inherit=run.inherit,
        )

    def check(self, request: CheckRequest) -> TableCheck:
        """Begin to check the files and records of the target."""
        from packstone.tables.hive.health import check_hive  # a compaction does not need it

        return check_hive(self.journal, self.partition, request, folders=self.folders)

    def plan_clean(self, request: CleanRequest) -> HiveClean:  # there are no extra requests
        """Plan to remove the originals whose retention has expired."""
        from packstone.tables.hive.clean import plan_table_clean

        return plan_table_clean(self.journal, catalog=self.catalog)

    def clean(self, plan: HiveClean, run: Run, request: CleanRequest) -> HiveClean:  # planned again under the claims
        """Remove the expired originals, partition by partition, each under its owner file."""
        from packstone.tables.hive.clean import clean_table

        self.begin(run)
        claims = Claims(self.journal, run)
        try:
            return clean_table(claims, catalog=self.catalog)
        finally:
            claims.release_all(unfinished=True)

    def plan_restore(self, run_id: str) -> RestorePlan:
        """Plan to undo a run's swaps at or below the target, newest first; RefusedError if one cannot be undone."""
        from packstone.tables.hive.recover import plan_restore

        swaps = plan_restore(self.journal, run_id, partition=self.partition, catalog=self.catalog)
        is_switch = any(intent.switch is not None for intent in swaps)
        return RestorePlan(
            table=self.root,
            run=run_id,
            parts=tuple(sorted({intent.partition for intent in swaps})),
            files_restored=sum(len(intent.inputs) for intent in swaps),
            files_removed=sum(len(intent.outputs) for intent in swaps if intent.switch is None),
            bytes_restored=sum(file.size_bytes for intent in swaps for file in intent.inputs),
            note="the folders that were published stay until `packstone clean`" if is_switch else "",
            detail=swaps,
        )

    def restore(self, plan: RestorePlan, run: Run) -> RestorePlan:
        """Undo the planned swaps, one after another, each under its owner file."""
        from packstone.tables.hive.recover import is_undone, restore_swap

        claims, done = Claims(self.journal, run), 0
        try:
            for partition in plan.parts:
                claims.claim(partition)
            plan = self.plan_restore(plan.run)  # again, now that no other run can change anything
            for intent in plan.detail:
                with finish_first():
                    claims.check_owned(intent.partition)
                    restore_swap(self.journal, intent, by=run.id, now_seconds=now_seconds(), catalog=self.catalog)
                    done += 1
        except BaseException as error:
            is_whole = isinstance(error, Interrupted) and 0 < done == len(plan.detail)
            with finish_first():
                claims.release_all(unfinished=not is_whole)
            if isinstance(error, Interrupted) and not is_whole:
                raise Interrupted(_restored_so_far(plan, done)) from None
            if not is_whole:
                raise
        run.note_published()  # a request to stop from here on has nothing left to stop
        claims.release_all()
        return replace(plan, is_whole=is_undone(self.journal, plan.run))

    def prove(self, run_id: str) -> Iterator[ToProve[UnitSpec, StagedFile]]:
        """Yield the merged files of a run to prove, with their originals while they are kept."""
        from packstone.tables.hive.recover import find_later_run

        numbers = count(1)
        for intent, _ in self._published(run_id):
            by_name = {file.name: file for file in intent.inputs}
            for output in intent.outputs:
                path = intent.published(output)
                if self.io.stat(path) is None:
                    if find_later_run(self.journal, intent, output) is None:
                        problem = f"{path}: the merged file is gone, and no later run merged it"
                        yield ToProve(label=path, proved=None, problem=problem)
                    continue
                inputs = tuple(by_name[name] for name in output.inputs)
                yield ToProve(
                    label=path,
                    proved=ProvedUnit(
                        unit=_kept_unit(intent, output, inputs, number=next(numbers)),
                        outputs=(StagedFile(path=path, ordered=output.ordered, copied_columns=output.copied_columns),),
                        has_inputs=all(self.io.stat(intent.kept(file)) is not None for file in inputs),
                    ),
                    rows=output.rows,
                    fingerprint=output.known_fingerprint,
                    is_counted=output.verified == Verify.COUNT or not output.known_fingerprint,
                )

    def _published(self, run_id: str) -> Iterator[tuple[SwapIntent, Mark]]:
        """Yield the swaps of a run that are done and not restored."""
        for intent in self.journal.read_intents(run_id):
            mark = self.journal.read_mark(intent, "done")
            if mark is not None and not self.journal.has_mark(intent, "restored"):
                yield intent, mark

    def read_published(self, run_id: str) -> PublishedRun | None:
        """Return what a run published, from its journal; None while one of its swaps has to be recovered first."""
        from packstone.tables.hive.recover import is_undone

        if any(intent.run == run_id for intent in unfinished_swaps(self.journal)):
            return None
        marks = ((intent, self.journal.read_mark(intent, "done")) for intent in self.journal.read_intents(run_id))
        swaps = [(intent, mark) for intent, mark in marks if mark is not None]
        outputs = [(intent, output) for intent, _ in swaps for output in intent.outputs]
        return PublishedRun(
            outcomes=tuple(_recorded_outcome(intent, output) for intent, output in outputs),
            verified=outputs[0][1].verified if outputs else "none",
            ended_seconds=max((mark.at for _, mark in swaps), default=None),
            reader_gap_ms=sum(mark.swap_ms for _, mark in swaps),
            is_undone=bool(swaps) and is_undone(self.journal, run_id),
        )

    def measure_reads(self, run_id: str) -> tuple[dict[str, object], ...]:
        """Read the originals and the merged files of a run in turns, cold and warm."""
        return measure_reads(self.journal, run_id)

    def health(self, *, into: HiveHealth | None = None) -> HiveHealth:
        """Count the files, sizes and hazards; ``into``: add them to the health of other folders."""
        from packstone.tables.hive.health import observe_hive

        return observe_hive(
            self.journal,
            self.partition,
            self.options,
            now_seconds=now_seconds(),
            folders=self.folders,
            health=into,
        )


def _written(work: Work[PartitionPlan, UnitSpec, StagedFile]) -> list[UnitSpec]:
    """Return the merges that were written and proved; copies are not merges."""
    merges = (spec for spec in work.units.values() if spec.how is not How.COPY)
    return [spec for spec in merges if work.results[spec.number].status is UnitStatus.WRITTEN]


def _restored_so_far(plan: RestorePlan, done: int) -> str:
    """Return the message of an interrupted restore; swaps are undone partition by partition."""
    if not done:
        return ""
    left = {intent.partition for intent in plan.detail[done:]}
    restored, verb = len(set(plan.parts) - left), "is" if len(set(plan.parts) - left) == 1 else "are"
    return (
        f"Interrupted: {restored:,} of {plural(len(plan.parts), 'partition')} {verb} restored, the others are still "
        "merged; run the command again to continue."
    )


def _planned_outcome(partition: str, unit: PlannedUnit) -> UnitOutcome:
    return UnitOutcome(
        partition=partition,
        inputs=tuple(file.name for file in unit.inputs),
        outputs=(),
        how=unit.how,
        why=unit.why,
        bytes_before=unit.input_bytes,
    )


def _recorded_outcome(intent: SwapIntent, output: OutputFile) -> UnitOutcome:
    sizes = {file.name: file.size_bytes for file in intent.inputs}
    return UnitOutcome(
        partition=intent.partition,
        inputs=output.inputs,
        outputs=(output.name,),
        how=output.how,
        why=output.why,
        bytes_before=sum(sizes[name] for name in output.inputs),
        bytes_after=output.size_bytes,
        rows=output.rows,
        fingerprint=output.fingerprint,
        seconds=output.seconds,
        read_seconds_before=output.read_seconds_before,
        read_seconds_after=output.read_seconds_after,
    )


def _kept_unit(intent: SwapIntent, output: OutputFile, inputs: tuple[FileEntry, ...], *, number: int) -> UnitSpec:
    """Return the spec of a merge with its inputs at the paths where the originals are kept."""
    suffix = KEPT_SUFFIX if intent.switch is None else ""
    return UnitSpec(
        number=number,
        partition=intent.partition,
        directory=intent.backup_directory,
        inputs=tuple(replace(file, name=f"{file.name}{suffix}") for file in inputs),
        how=How(output.how),
        file_format=output.merged_as,
        output_name=output.name,
        why=output.why,
        header_lines=output.header_lines,
        verify=output.verified,
        permissions=inputs[0].permissions,
    )
