"""A segment table in the pipeline: segments are planned, claimed, merged, and published by a commit of the status.

::

    status  --plans-->  wave  --claim-->  units  --engine-->  proofs  --commit-->  status

A wave is registered in one commit, so that no other run merges the same segments, and published in one commit. Each
merge is committed or lost on its own: a segment that was deleted or overwritten in between costs only the merge that
read it. A registration names its run; registrations of dead runs are ended first, and `clean` removes their files by
the recorded names.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import (
    ConflictError,
    CorruptionError,
    InvalidInputError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    storage_sentence,
)
from packstone.model.codec import Name
from packstone.model.maintenance import PublishedRun, Recovered
from packstone.model.outcome import SkipKind, Skipped
from packstone.model.segment import SegmentId
from packstone.model.sizes import plural
from packstone.model.work import Commit, PlannedPart, Totals, WaveLimits
from packstone.rewrite.sorted_merge.spec import WrittenBlockFile
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.folder import end_dead_runs, is_run_id, remove_old_runs
from packstone.runs.interrupts import finish_first
from packstone.runs.state_folder import find_state_folder
from packstone.strategy.custom import CustomOptions, check_ids
from packstone.strategy.pick import Reason
from packstone.strategy.segment_rounds import Merge, Rounds, first_wave, join_segments, plan_rounds
from packstone.tables.optimistic import OptimisticTable
from packstone.tables.segments.clean import plan_clean, remove_expired
from packstone.tables.segments.damage import check_no_lost_load, check_segments
from packstone.tables.segments.format import properties
from packstone.tables.segments.format.commit import check_can_commit, commit_edit
from packstone.tables.segments.format.edits import (
    Change,
    abandon_attempt,
    begin_compaction,
    describe_status,
    finish_compaction,
)
from packstone.tables.segments.format.layout import (
    LinkGuard,
    index_file_name,
    index_file_path,
    segment_file_name,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.format.status_files import read_history, read_latest, read_retired
from packstone.tables.segments.health import observe_segments
from packstone.tables.segments.leftovers import (
    end_registrations,
    find_dead_registrations,
    is_registered,
    read_attempt,
    read_created,
    without_dead_compactions,
)
from packstone.tables.segments.options import (
    SegmentOptions,
    SegmentStrategy,
    may_resort,
    merge_options,
    run_properties,
    view_entry,
    view_status,
)
from packstone.tables.segments.published import find_claims, output_of, plan_undo, undo_planned
from packstone.tables.segments.tasks import SEGMENTS_MERGE_JOB, MergeContext, MergeUnit
from packstone.tables.segments.units import MergeUnits, SegmentMerge, read_entry_file, read_merge_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packstone.model.maintenance import CheckRequest, CleanRequest, RestorePlan, TableCheck, ToProve
    from packstone.model.outcome import UnitOutcome
    from packstone.model.segment import SegmentId
    from packstone.model.work import Work
    from packstone.runs.folder import PartRecord, Run, WaveRecord
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import PlanContext
    from packstone.tables.segments.clean import SegmentClean
    from packstone.tables.segments.format.properties import Properties
    from packstone.tables.segments.format.status import RunningCompaction, StatusEntry, TableStatus
    from packstone.tables.segments.health import SegmentHealth
    from packstone.tables.segments.options import MergeOptions

    MergeWork = Work[SegmentMerge, MergeUnit, WrittenBlockFile]

_WAVE_MERGES: Final = 64  # registered at once; a killed run loses at most this many


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMember:
    """A segment of a saved plan, with the facts that must still hold when the plan is run."""

    id: SegmentId
    segment_file: Name | None  # None: an earlier merge of the plan makes it


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMerge:
    """One merge of a saved plan."""

    round: int
    output: SegmentId
    members: tuple[SavedMember, ...]
    reason: Reason
    is_major: bool


class SegmentsTable(OptimisticTable[SegmentMerge, MergeUnit, WrittenBlockFile]):
    """A segment table, opened for one command."""

    job = SEGMENTS_MERGE_JOB
    detail = SavedMerge

    def __init__(self, io: FileIO, path: str, options: SegmentOptions | None = None) -> None:
        self.io, self.options = io, options or SegmentOptions()
        self.root = self.path = path
        self.state = find_state_folder(io, self.root)
        self.strategy, self.verify = self.options.strategy, self.options.verify
        self.wave = WaveLimits(units=_WAVE_MERGES, size_bytes=self.options.commit_every_bytes)
        self.totals = Totals(why_empty="The table holds no segments yet.")
        self._opened: SegmentPlanner | None = None
        self._units: MergeUnits | None = None
        self._run: Run | None = None
        self._claimed: set[SegmentId] = set()  # outputs of merges that are registered but not committed

    def own_options(self) -> Mapping[str, str]:
        """The properties of the table."""
        status = read_latest(self.io, self.root)
        return dict(properties.describe(properties.parse_properties(status.properties, status.columns)))

    def check_writable(self) -> None:
        """Refuse a store on which two writers could publish the same version."""
        check_can_commit(self.io, self.root)

    def begin(self, run: Run) -> Sequence[Recovered]:
        """Refuse a table that lost status files, and end the registrations of dead runs."""
        self._run = run
        return self.recover(run)

    def is_half_done(self, run_id: str) -> bool:
        """Whether the status still names a run."""
        return is_registered(self.io, self.root, run_id)

    # ---- plan ----

    def plans(self, number: int, ctx: PlanContext) -> Iterator[SegmentMerge | Skipped]:
        """Yield the merges for the newest status; for display, all merges of all rounds at once, with estimates."""
        if number > 1 and self.options.strategy is SegmentStrategy.CUSTOM:
            return
        status = read_latest(self.io, self.root)
        if ctx.is_dry:
            status = without_dead_compactions(self.io, self.root, status, now_ms=now_ms())
        planner = self._planner(status)
        planner.min_age_ms = int(ctx.filters.min_age_seconds * 1000)
        rounds = planner.plan(status, now_ms=now_ms())
        yield from planner.skipped
        if number == 1 and not rounds.merges and rounds.why_not:
            yield Skipped(what=self.root, why=rounds.why_not, kind=SkipKind.NOT_NEEDED)
        for merge in rounds.merges if ctx.is_dry else first_wave(rounds):
            plan = planner.offer(merge)
            yield plan if ctx.is_dry else planner.read(plan)

    def _planner(self, status: TableStatus) -> SegmentPlanner:
        """The planner of the command, which keeps the table's status from when the command began."""
        if self._opened is None:
            self._opened = SegmentPlanner(io=self.io, table=self.root, options=self.options, start=status)
            self._units = MergeUnits(self.io, self.root, status.columns, self._opened.properties, self.options)
            self.totals.parts = len(status.live)
            self.totals.files = sum(entry.files for entry in status.live)
            self.totals.bytes = sum(entry.data_bytes for entry in status.live)
        return self._opened

    @property
    def _maker(self) -> MergeUnits:
        assert self._units is not None  # set when the plan was offered
        return self._units

    def describe(self, plan: SegmentMerge, *, is_saved: bool) -> PlannedPart[SavedMerge]:
        """Return a merge in the form in which it is shown and saved."""
        files = {entry.id: entry.segment_file for entry in plan.entries}
        members = plan.merge.members if is_saved else ()
        return PlannedPart(
            part=plan.part,
            files_in=plan.file_count,
            files_out=plan.files_out,
            read_bytes=plan.read_bytes,
            units=(plan.planned(),),
            detail=SavedMerge(
                round=plan.merge.wave + 1,
                output=plan.output,
                members=tuple(SavedMember(id=one.id, segment_file=files.get(one.id)) for one in members),
                reason=plan.merge.reason,
                is_major=plan.merge.result.is_major,
            ),
        )

    def resume(self, saved: Iterable[PlannedPart[SavedMerge]], number: int) -> Iterator[SegmentMerge | Skipped]:
        """Yield the saved merges of a round whose members still have the same segment files."""
        status = read_latest(self.io, self.root)
        planner = self._planner(status)
        planner.use_status(status)
        is_offered, later = False, []
        for one in saved:
            if one.detail.round == number:
                plan = self._resumed(one, status, planner)
                is_offered |= not isinstance(plan, Skipped)
                yield plan
            elif one.detail.round > number:
                later.append(one.part)
        for part in later if not is_offered else ():
            yield Skipped(
                what=part, why="an earlier merge of the plan was not made; plan again", kind=SkipKind.CONFLICT
            )

    def _resumed(
        self, saved: PlannedPart[SavedMerge], status: TableStatus, planner: SegmentPlanner
    ) -> SegmentMerge | Skipped:
        members: list[StatusEntry] = []
        for one in saved.detail.members:
            entry = status.find(one.id)
            if entry is None or not self._is_as_saved(entry, one):
                why = f"segment {one.id} has changed since it was planned; plan again"
                return Skipped(what=saved.part, why=why, kind=SkipKind.CONFLICT)
            members.append(entry)
        merge = Merge(
            members=(segments := tuple(map(view_entry, members))),
            result=join_segments(segments, saved.detail.output, is_major=saved.detail.is_major),
            reason=saved.detail.reason,
            why=saved.why,
            wave=0,
        )
        return planner.read(planner.offer(merge))

    def _is_as_saved(self, entry: StatusEntry, saved: SavedMember) -> bool:
        if saved.segment_file is None:
            return self._run is not None and entry.attempt == self._run.id
        return entry.segment_file == saved.segment_file

    # ---- run ----

    def claim(self, plans: Sequence[SegmentMerge], run: Run) -> Mapping[str, str]:
        """Register the merges of a wave in one commit; leaves out segments that another compaction has claimed."""
        lost: dict[str, str] = {}

        def edit(status: TableStatus) -> Change:
            lost.clear()
            changed = status
            for plan in plans:
                try:
                    changed = begin_compaction(
                        changed,
                        attempt=run.id,
                        inputs=plan.read,
                        output=plan.output,
                        now_ms=now_ms(),
                        is_major=plan.merge.result.is_major,
                    ).status
                except ConflictError as conflict:
                    lost[plan.part] = conflict.message
            return Change(status=changed)

        run.check_not_fenced()
        self._commit_edit(edit, operation="begin-compact")
        self._claimed |= {plan.output for plan in plans if plan.part not in lost}
        taken = [plan for plan in plans if plan.part not in lost]
        if taken:
            self._maker.size_pieces(taken, parallelism=run.parallelism())
        return lost

    def context(self, run: Run) -> MergeContext:
        """What all units of a run have in common."""
        return MergeContext(table=self.root, run_folder=run.folder)

    def units(self, work: MergeWork) -> Sequence[MergeUnit]:
        """Return first the units that sort, then the pieces of the merge."""
        assert self._run is not None  # set when the run claimed the part
        return self._maker.next_stage(work, self._run)

    def label(self, part: str, name: str) -> str:
        """Return the label of a file of a merge."""
        return f"{part}: {name}" if name else part

    def outcomes(self, work: MergeWork) -> tuple[UnitOutcome, ...]:
        """Return the reported outcome of a merge."""
        return (self._maker.outcome(work),)

    def commit(self, works: Sequence[MergeWork], run: Run) -> Commit:
        """Replace members by their merged segments; only the merges whose members changed are lost."""
        run.check_not_fenced()
        facts = {work.part: self._maker.write_segment(work, run) for work in works}
        lost: dict[str, str] = {}

        def edit(status: TableStatus) -> Change:
            lost.clear()
            changed = status
            retired: list[StatusEntry] = []
            for work in works:
                plan = work.plan
                try:
                    change = finish_compaction(
                        changed,
                        facts[work.part],
                        attempt=run.id,
                        output=plan.output,
                        now_ms=now_ms(),
                        read=plan.read,
                    )
                except ConflictError as conflict:
                    lost[work.part] = conflict.message
                    change = abandon_attempt(changed, attempt=run.id, outputs={plan.output}, now_ms=now_ms())
                changed = change.status
                retired += change.retired
            return Change(status=changed, retired=tuple(retired))

        status = self._commit_edit(edit, operation="compact")
        self._claimed -= {work.plan.output for work in works}
        committed = [work for work in works if work.part not in lost]
        for work in committed:
            run.note_published(self._maker.committed_paths(work, run))
            self._maker.end(work, run)
        return Commit(
            committed={work.part: self.outcomes(work) for work in committed},
            lost=lost,
            version=status.version if committed else None,
        )

    def discard(self, work: MergeWork, run: Run) -> None:
        """Remove the recorded files of a merge that is certainly not committed."""
        output = work.plan.output
        own = (
            index_file_path("", index_file_name(output, run.id)).removeprefix("/"),
            segment_file_path("", segment_file_name(output, run.id)).removeprefix("/"),
        )
        folder = f"{segment_folder(output)}/"
        self._remove_created(run, lambda path: path in own or path.startswith(folder))
        self._maker.end(work, run)

    def _remove_created(self, run: Run, is_wanted: Callable[[str], bool]) -> None:
        """Remove files that the run created and did not publish; if that fails, `clean` removes them later."""
        with contextlib.suppress(OSError, PackstoneError):
            guard = LinkGuard(self.io, self.root)
            found = (path for path in read_created(self.io, self.root, run.id) if is_wanted(path))
            paths = [f"{self.root}/{path}" for path in found if guard.may_remove(path)]
            run.discard([path for path in paths if path not in run.published])

    def again(self, work: MergeWork, lost: str | None) -> Skipped | None:
        """Never repeat a part: a merged segment is a new part, and a lost merge is left to the next command."""
        return None if lost is None else Skipped(what=work.part, why=lost, kind=SkipKind.CONFLICT)

    def release(self, plans: Sequence[SegmentMerge], run: Run, *, unfinished: bool) -> None:
        """End registrations in one commit; if the outcome of a commit is unknown, keeps them and the files."""
        outputs = {plan.output for plan in plans} & self._claimed
        if unfinished or not outputs:
            return

        def edit(status: TableStatus) -> Change:
            return abandon_attempt(status, attempt=run.id, outputs=outputs, now_ms=now_ms())

        self._commit_edit(edit, operation="abandon-compact")
        self._claimed -= outputs

    def _commit_edit(self, edit: Callable[[TableStatus], Change], *, operation: str) -> TableStatus:
        return commit_edit(self.io, self.root, edit, clock=system_clock(), operation=operation)

    def finish(self, run: Run) -> None:
        """Remove the files of task tries whose results were not used."""
        if run.tasks_may_outlive:
            self._remove_created(run, lambda _: True)

    def find_committed(self, wave: WaveRecord[Any, MergeUnit, WrittenBlockFile]) -> frozenset[str]:
        """The merges of a recorded wave whose segment is or was in the table."""
        status = read_latest(self.io, self.root)
        known = (*status.live, *read_retired(self.io, self.root, status), *read_history(self.io, self.root, status))
        made = {entry.id for entry in known if entry.attempt == wave.run and entry.segment_file is not None}
        return frozenset(part.part for part in wave.parts if output_of(part) in made)

    # ---- other verbs ----

    def health(self, *, into: Any = None) -> SegmentHealth:
        """Return segments, files, rows, what a compaction would gain, and what prevents it."""
        return observe_segments(self.io, self.root, now_ms=now_ms())

    def read_published(self, run_id: str) -> PublishedRun:
        """Return what a run published, from its records and the table's status."""
        published = self.folders.read_published(run_id, self.job, self.find_committed)
        return replace(published, is_undone=bool(published.outcomes) and self._was_undone(run_id))

    def _was_undone(self, run_id: str) -> bool:
        try:
            return not plan_undo(self.io, self.root, run=run_id, parts=self._published_parts(run_id)).parts
        except RefusedError:  # merged again, or cleaned: not undone
            return False

    def recover(self, run: Run) -> Sequence[Recovered]:
        """End dead runs and their registrations; `clean` removes their files by the recorded names."""
        check_no_lost_load(self.io, self.root)
        status, found = read_latest(self.io, self.root), list[Recovered]()
        dead = find_dead_registrations(
            self.io, self.root, status, now_ms=int(run.store_now() * 1000), take_over=run.take_over
        )
        if dead:
            for one in dead:
                self.folders.fence(one)
            end_registrations(self.io, self.root, dead, clock=system_clock(), operation="abandon")
            found += _describe_ended(status, dead)
        return (*found, *end_dead_runs(run, is_half_done=self.is_half_done))

    def check(self, request: CheckRequest) -> TableCheck:
        """Begin to check a version."""
        return check_segments(self.io, self.root, request)

    def plan_clean(self, request: CleanRequest) -> SegmentClean:
        """Plan the removal of leftovers of dead runs, and of expired segments, versions and trash."""
        return plan_clean(self.io, self.root, now_ms=now_ms())

    def clean(self, plan: SegmentClean, run: Run, request: CleanRequest) -> SegmentClean:
        """Remove what the plan lists, and the folders of runs whose records are no longer needed."""
        check_no_lost_load(self.io, self.root)
        try:
            with finish_first():
                remove_expired(self.io, plan, clock=system_clock())
                tuple(end_dead_runs(run, is_half_done=self.is_half_done))
                remove_old_runs(run)
        except OSError as error:
            raise UnavailableError(f"{storage_sentence(error)} Run clean again to remove the rest.") from error
        return plan

    def prove(self, run_id: str) -> Iterator[ToProve[MergeUnit, WrittenBlockFile]]:
        """Yield the merges of a run whose segments are live, with their inputs while these exist."""
        live = {entry.key for entry in read_latest(self.io, self.root).live}
        for part in self._published_parts(run_id):
            if (output_of(part), run_id) in live:
                yield from find_claims(self.io, self.root, part)

    def plan_restore(self, run_id: str) -> RestorePlan:
        """Return what undoing a run would change: its inputs become live again, its merged segments are retired."""
        if self.folders.read_info(run_id) is not None and not self.folders.is_dead(run_id, now_seconds=now_ms() / 1000):
            raise ConflictError(f"Run {run_id} is still running; wait for it, or stop it.")
        parts = self._published_parts(run_id)
        if not parts:
            raise InvalidInputError(f"Run {run_id} left no record of merges of {self.root}; there is nothing to undo.")
        return plan_undo(self.io, self.root, run=run_id, parts=parts)

    def restore(self, plan: RestorePlan, run: Run) -> RestorePlan:
        """Undo the planned merges in one commit."""
        return undo_planned(self.io, self.root, plan)

    def _published_parts(self, run_id: str) -> list[PartRecord[MergeUnit, WrittenBlockFile]]:
        """The merges of a run that were committed, in the order of its waves."""
        if not is_run_id(run_id):
            raise InvalidInputError(f"{run_id!r} is not the id of a run.")
        found: list[PartRecord[MergeUnit, WrittenBlockFile]] = []
        for wave in self.folders.read_waves(run_id, self.job):
            committed = self.find_committed(wave)
            found += [part for part in wave.parts if part.part in committed]
        return found


def _describe_ended(status: TableStatus, dead: Sequence[str]) -> Iterator[Recovered]:
    for entry in status.loading:
        if entry.attempt in dead:
            yield Recovered(run=entry.attempt, part=str(entry.id), action="load abandoned")
    for one in status.running:
        if one.attempt in dead:
            part = " ".join(map(str, one.inputs))
            yield Recovered(run=one.attempt, part=part, action=f"merge into {one.output} abandoned")


_MB: Final = 1 << 20


@dataclass(slots=True)
class SegmentPlanner:
    """Plans merges over the segments that existed when the command began, in every round on the newest status.

    Segments that another live run is merging are left alone, and so are those that this run has offered before: a merge
    that was lost, refused or over the budget is not tried again.
    """

    io: FileIO
    table: str
    options: SegmentOptions
    start: TableStatus
    min_age_ms: int = 0  # segments loaded more recently are left alone
    skipped: list[Skipped] = field(default_factory=list)  # what the last call of `plan` left alone
    properties: Properties = field(init=False)
    _last_load: int = field(init=False)
    _offered: set[SegmentId] = field(default_factory=set)
    _reported: set[tuple[str, SegmentId]] = field(default_factory=set)  # merges of other runs
    _is_age_reported: bool = False
    _entries: Mapping[SegmentId, StatusEntry] = field(default_factory=dict)
    _files_out: dict[SegmentId, int] = field(default_factory=dict)  # estimated number of files of merged segments

    def __post_init__(self) -> None:
        self.properties = run_properties(self.start, self.options)
        self._last_load = max((entry.id.load for entry in self.start.entries), default=-1)

    def plan(self, status: TableStatus, *, now_ms: int) -> Rounds:
        """Plan merges on a status until there is nothing left to merge."""
        self.skipped = []
        self._entries = {entry.id: entry for entry in status.entries}
        taken = self._find_taken(status)
        view = view_status(status, left_out=self._offered | taken | self._find_young(status, now_ms), now_ms=now_ms)
        view = replace(view, last_load=self._last_load)
        options = self._options(status, taken)
        if options is None:
            return Rounds(merges=(), why_not="")
        if isinstance(options, CustomOptions):
            self._check_not_retired(status, options)
            check_ids(view, options)
        return plan_rounds(view, options)

    def offer(self, merge: Merge) -> SegmentMerge:
        """Return a merge with the number of its files; its members are not offered again."""
        self._offered.update(member.id for member in merge.members)
        size_bytes = merge.result.size_bytes
        self._files_out[merge.result.id] = max(1, -(-size_bytes // (self.properties.table_blocksize * _MB)))
        return SegmentMerge(
            merge=merge,
            entries=tuple(self._entries[one.id] for one in merge.members if one.id in self._entries),
            file_count=sum(self._file_count(member.id) for member in merge.members),
            files_out=self._files_out[merge.result.id],
        )

    def read(self, plan: SegmentMerge) -> SegmentMerge | Skipped:
        """Return the merge with the files that it reads, or the reason why these cannot be merged."""
        try:
            inputs = read_merge_inputs(
                self.io, self.table, plan.entries, columns=self.start.columns, properties=self.properties
            )
        except CorruptionError as error:
            return Skipped(what=plan.part, why=error.message, kind=SkipKind.UNREADABLE)
        except RefusedError as error:
            return Skipped(what=plan.part, why=error.message, kind=SkipKind.REFUSED)
        return replace(plan, inputs=inputs)

    def use_status(self, status: TableStatus) -> None:
        """Use the entries of this status for the merges of a saved plan."""
        self._entries = {entry.id: entry for entry in status.entries}

    def _file_count(self, segment: SegmentId) -> int:
        entry = self._entries.get(segment)
        return entry.files if entry is not None else self._files_out.get(segment, 0)

    def _options(self, status: TableStatus, taken: set[SegmentId]) -> MergeOptions | None:
        """The options of the strategy; None if another run is merging a requested segment."""
        if self.options.strategy is SegmentStrategy.CUSTOM and taken.intersection(self.options.ids):
            return None
        return merge_options(self.properties, self.options, resort=self._may_resort(status))

    def _may_resort(self, status: TableStatus) -> bool:
        if len(self.options.ids) != 1:
            return False
        entry = status.find(self.options.ids[0])
        if entry is None or entry.segment_file is None:
            return False
        if entry.delete_file is not None:
            return True
        return may_resort(read_entry_file(self.io, self.table, entry), self.properties)

    def _check_not_retired(self, status: TableStatus, options: CustomOptions) -> None:
        """Report the status of a requested segment that is retired, instead of saying that it does not exist."""
        gone = [wanted for wanted in options.ids if status.find(wanted) is None]
        found = read_retired(self.io, self.table, status) if gone else ()
        retired = {entry.id: entry for entry in sorted(found, key=lambda entry: entry.modified_ms or 0)}
        for wanted in gone:
            if wanted in retired:
                raise InvalidInputError(
                    f"Segment {wanted} is {describe_status(retired[wanted])}; name only segments that can be merged.",
                    segment=str(wanted),
                )

    def _find_taken(self, status: TableStatus) -> set[SegmentId]:
        """The segments that other runs are merging; each of their merges is reported once."""
        taken: set[SegmentId] = set()
        for running in status.running:
            taken.update(running.inputs)
            key = (running.attempt, running.output)
            if key not in self._reported:
                self._reported.add(key)
                self.skipped.append(self._describe_taken(running))
        return taken

    def _find_young(self, status: TableStatus, now_ms: int) -> set[SegmentId]:
        """The segments whose newest load began within the minimum age; reported once."""
        if self.min_age_ms == 0:
            return set()
        if self.options.strategy is SegmentStrategy.CUSTOM:
            raise InvalidInputError("--min-age does not go with --strategy custom, which names its segments by --ids.")
        young = {entry.id for entry in status.live if now_ms - entry.newest_load_ms < self.min_age_ms}
        if young and not self._is_age_reported:
            self._is_age_reported = True
            why = f"{plural(len(young), 'segment')} of {len(status.live)} younger than --min-age"
            self.skipped.append(Skipped(what=self.table, why=why, kind=SkipKind.FILTERED))
        return young

    def _describe_taken(self, running: RunningCompaction) -> Skipped:
        record = read_attempt(self.io, self.table, running.attempt)
        who = running.attempt if record is None else f"{running.attempt} ({record.process})"
        named = set(running.inputs).intersection(self.options.ids)
        return Skipped(
            what=" ".join(map(str, running.inputs)),
            why=f"being merged into {running.output} by the compaction {who}",
            # A user who names segments wants them merged now; otherwise another run is doing this work.
            kind=SkipKind.CONFLICT if named else SkipKind.LEFT_ALONE,
        )
