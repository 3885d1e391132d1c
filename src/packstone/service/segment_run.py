"""One compaction of a segment table: waves of merges that do not touch each other, until nothing is left to merge.

A wave is planned on the newest status, over what existed when the command began. Its merges are registered in one
commit, run side by side, verified, and put in place in one commit; each of them stands or falls by itself: what
somebody deleted or overwrote meanwhile takes only the merge with it that had read it.

    status  --plan-->  wave  --begin_compaction-->  units  --engine-->  proofs  --finish_compaction-->  status

Segments that another compaction at work has taken are left alone. A registration whose process is dead is ended first;
what that one left behind is known by name and goes with `clean`.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.segment_options import SegmentStrategy
from packstone.model.sizes import format_bytes
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.model.unit import UnitStatus
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.tasks import pack_units
from packstone.service.segment_group import Group, GroupMaker, group_outcome
from packstone.strategy.segment_rounds import first_wave
from packstone.tables.segments.commit import commit_edit
from packstone.tables.segments.edits import Change, abandon_attempt, begin_compaction, finish_compaction
from packstone.tables.segments.layout import deaths_folder
from packstone.tables.segments.merge_inputs import read_merge_inputs
from packstone.tables.segments.merge_tasks import SEGMENTS_MERGE_JOB, MergeContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packstone.model.filters import Budget
    from packstone.model.outcome import UnitOutcome
    from packstone.model.segment_options import SegmentOptions
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.service.segment_attempts import CompactionAttempts
    from packstone.service.segment_planner import SegmentPlanner
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.edits import SegmentFacts
    from packstone.tables.segments.merge_tasks import MergeUnit
    from packstone.tables.segments.status import StatusEntry, TableStatus

SPACE_MARGIN_PCT: Final = 10
WAVE_MERGES: Final = 64  # registered at once; each has a folder and a heartbeat
_SKIPS: Final = {UnitStatus.UNREADABLE: SkipKind.UNREADABLE, UnitStatus.UNFAITHFUL: SkipKind.REFUSED}


@dataclass(slots=True)
class SegmentRun:
    """The state of one run; ``units`` and ``skipped`` are its answer."""

    planner: SegmentPlanner
    attempts: CompactionAttempts
    engine: Engine
    asked: SegmentOptions
    budget: Budget
    may_go_on: Callable[[], str | None]
    progress: Progress
    units: list[UnitOutcome] = field(default_factory=list)
    skipped: SkipLog = field(default_factory=SkipLog)
    files_removed: int = 0
    files_in: int = 0
    commit_ms: float = 0.0
    _maker: GroupMaker = field(init=False)
    _waves: int = 0
    _bytes_taken: int = 0
    _files_taken: int = 0
    _done_units: int = 0
    _done_bytes: int = 0

    def __post_init__(self) -> None:
        planner = self.planner
        self._maker = GroupMaker(planner.io, planner.table, planner.columns, planner.properties, self.asked)

    def run(self) -> None:
        """Wave after wave; if the run must stop, what it committed before is still its answer."""
        try:
            self._run_waves()
        except Interrupted:
            if not self.units:
                raise
            self._note_stop("It was interrupted.")
        except (PackstoneError, OSError) as error:
            stop = error if isinstance(error, PackstoneError) else UnavailableError(storage_sentence(error))
            if not self.units:
                raise stop from error
            self._note_stop(stop.message)

    def _note_stop(self, why: str) -> None:
        why = f"The run stopped before its end. {why}"
        self.skipped.append(Skipped(what=self.planner.table, why=why, kind=SkipKind.FAILED))

    def _run_waves(self) -> None:
        while True:
            status, rounds = self.planner.plan()
            wave = self._take_up(first_wave(rounds))
            if wave:
                self._run_wave(status, wave)
            elif not first_wave(rounds):
                return
            if self.asked.strategy is SegmentStrategy.CUSTOM:
                return

    def _take_up(self, merges: Iterable[Merge]) -> list[Merge]:
        """Choose what runs side by side now; what the clock or the budget forbid is left out for good."""
        wave: list[Merge] = []
        wave_bytes = 0
        for merge in merges:
            stop = self._why_stop(merge)
            if stop is not None:
                self._leave_out(merge, stop, SkipKind.FILTERED)
                continue
            if len(wave) == WAVE_MERGES or (
                wave and wave_bytes + merge.result.size_bytes > self.asked.commit_every_bytes
            ):
                break
            self._bytes_taken += merge.result.size_bytes
            self._files_taken += self.planner.files_of(merge)
            wave.append(merge)
            wave_bytes += merge.result.size_bytes
        return wave

    def _why_stop(self, merge: Merge) -> str | None:
        budget, stop = self.budget, self.may_go_on()
        if stop is not None:
            return stop
        if budget.max_bytes is not None and self._bytes_taken + merge.result.size_bytes > budget.max_bytes:
            return f"over the budget of --max-bytes {format_bytes(budget.max_bytes)}"
        if budget.max_files is not None and self._files_taken + self.planner.files_of(merge) > budget.max_files:
            return f"over the budget of --max-files {budget.max_files}"
        return None

    def _leave_out(self, merge: Merge, why: str, kind: SkipKind) -> None:
        """Say why these segments are not merged, and do not choose them again in this run."""
        ids = tuple(member.id for member in merge.members)
        self.skipped.append(Skipped(what=" ".join(map(str, ids)), why=why, kind=kind))
        self.planner.leave_out(ids)

    def _run_wave(self, status: TableStatus, wave: Sequence[Merge]) -> None:
        self._waves += 1
        groups: list[Group] = []
        staging = self.attempts.staging(self._waves)
        try:
            for merge in wave:
                self._open_group(status, merge, groups)
            groups[:] = self._register(self._with_room(groups))
            self.planner.io.make_dirs(staging)
            parallelism = self.budget.parallel or (self.engine.parallelism if groups else 1)
            piece_bytes = self._maker.piece_bytes(groups, parallelism=parallelism)
            self._sort_first(groups, staging, piece_bytes)
            self._merge(groups, staging, piece_bytes)
            self._commit(groups)
        except BaseException:
            with contextlib.suppress(OSError, PackstoneError), finish_first():  # `clean` does what cannot be done now
                self._give_up(groups)
            raise
        self.planner.io.remove_tree(staging)

    def _open_group(self, status: TableStatus, merge: Merge, groups: list[Group]) -> None:
        entries = self.planner.entries_of(status, merge)
        try:
            inputs = read_merge_inputs(
                self.planner.io,
                self.planner.table,
                entries,
                columns=self.planner.columns,
                properties=self.planner.properties,
            )
        except CorruptionError as error:
            self._leave_out(merge, error.message, SkipKind.UNREADABLE)
        except RefusedError as error:
            self._leave_out(merge, error.message, SkipKind.REFUSED)
        else:
            attempt = self.attempts.open([entry.id for entry in entries])
            groups.append(Group(merge=merge, attempt=attempt, entries=entries, inputs=inputs))

    def _register(self, groups: list[Group]) -> list[Group]:
        """Tell everybody that these segments are taken; somebody quicker keeps what it has."""
        lost: dict[str, str] = {}

        def edit(status: TableStatus) -> Change:
            lost.clear()
            changed = status
            for group in groups:
                try:
                    changed = begin_compaction(
                        changed,
                        attempt=group.attempt,
                        inputs=[entry.id for entry in group.entries],
                        output=group.output,
                        now_ms=now_ms(),
                        is_major=group.merge.result.is_major,
                    ).status
                except ConflictError as conflict:
                    lost[group.attempt] = conflict.message
            return Change(status=changed)

        if groups:
            self._commit_edit(edit, operation="begin-compact")
        self._drop_lost(groups, lost)
        return [group for group in groups if group.attempt not in lost]

    def _drop_lost(self, groups: Iterable[Group], lost: dict[str, str]) -> None:
        for group in groups:
            if group.attempt in lost:
                self._leave_out(group.merge, lost[group.attempt], SkipKind.CONFLICT)
                self.attempts.discard(group.attempt)

    def _with_room(self, groups: Sequence[Group]) -> list[Group]:
        """Leave out the merges for which there is no space, before anybody hears of them."""
        free = self.planner.io.free_bytes(self.planner.table)
        kept: list[Group] = []
        for group in groups:
            sorting = sum(file.size_bytes for file in group.inputs.unsorted)
            need = (group.inputs.size_bytes + sorting) * (100 + SPACE_MARGIN_PCT) // 100
            if need > free:
                why = f"the merged segment needs {format_bytes(need)} and {format_bytes(free)} are free at the table"
                self._leave_out(group.merge, why, SkipKind.REFUSED)
                self.attempts.discard(group.attempt)
                continue
            free -= need
            kept.append(group)
        return kept

    def _sort_first(self, groups: list[Group], staging: str, piece_bytes: int) -> None:
        units = {group.attempt: self._maker.sorting_units(group, piece_bytes) for group in groups}
        self._run_units(groups, [unit for own in units.values() for unit in own], f"{staging}/sort")
        self._drop_bad(groups)
        for group in groups:
            if units[group.attempt]:
                self._maker.take_sorted(group, units[group.attempt])

    def _merge(self, groups: list[Group], staging: str, piece_bytes: int) -> None:
        for group in groups:
            group.units = self._maker.merging_units(group, piece_bytes)
        self._run_units(groups, [unit for group in groups for unit in group.units], f"{staging}/merge")
        self._drop_bad(groups)

    def _run_units(self, groups: Sequence[Group], units: list[MergeUnit], staging: str) -> None:
        if not units:
            return
        owner = {group.attempt: group for group in groups}
        owners = {unit.number: owner[unit.attempt] for unit in units}
        total_bytes = sum(unit.input_bytes for unit in units)

        def report(count: int, size_bytes: int) -> None:
            self.progress.update(
                done_units=self._done_units + count,
                units=self._done_units + len(units),
                done_bytes=self._done_bytes + size_bytes,
                total_bytes=self._done_bytes + total_bytes,
            )

        report(0, 0)
        self.planner.io.make_dirs(staging)
        table = self.planner.table
        context, deaths = MergeContext(table=table), deaths_folder(table)
        tasks = pack_units(units, context=context, parallel=self.budget.parallel, deaths=deaths)
        what = f"compact {len(groups)} groups of segments of {self.planner.table}"
        for result in self.engine.run(SEGMENTS_MERGE_JOB, tasks, staging=staging, what=what, on_progress=report):
            owners[result.number].results[result.number] = result
        self._done_units += len(units)
        self._done_bytes += total_bytes

    def _drop_bad(self, groups: list[Group]) -> None:
        """Stop at a proof that failed, with the evidence; leave out what could not be read or written."""
        for group in groups:
            for result in group.bad_results:
                if result.status is UnitStatus.MISMATCH:
                    groups.remove(group)
                    self._abandon([group])
                    self.attempts.leave(group.attempt)
                    raise VerificationError(f"Segments {group}: {result.message}", segments=str(group))
        for group in [group for group in groups if group.bad_results]:
            bad = group.bad_results[0]
            self._leave_out(group.merge, bad.message, _SKIPS.get(bad.status, SkipKind.FAILED))
            groups.remove(group)
            self._give_up([group])

    def _commit(self, groups: list[Group]) -> None:
        """Put all merged segments in the place of their members; one whose members changed is dropped alone."""
        if not groups:
            return
        facts = {group.attempt: self._maker.write_segment(group) for group in groups}
        lost: dict[str, str] = {}
        began = time.perf_counter()
        try:
            with finish_first():
                self._commit_edit(lambda status: _finish_all(status, groups, facts, lost=lost), operation="compact")
                self.commit_ms += (time.perf_counter() - began) * 1000
                committed = [group for group in groups if group.attempt not in lost]
                groups[:] = [group for group in groups if group.attempt in lost]  # the others are not ours to give up
                for group in committed:
                    self._note_committed(group)
        except CommitUnknownError:
            for group in groups:  # what they created must stay, and stay known by name
                self.attempts.leave(group.attempt)
            groups.clear()
            raise
        self._drop_lost(groups, lost)

    def _note_committed(self, group: Group) -> None:
        self.units.append(group_outcome(group, table=self.planner.table))
        files = sum(entry.files for entry in group.entries)
        self.files_in += files
        self.files_removed += files - len(group.written)
        self.attempts.discard(group.attempt, keep=self._maker.committed_paths(group))

    def _give_up(self, groups: Sequence[Group]) -> None:
        """End registrations first: a merge that nobody waits for must not be found half removed."""
        self._abandon(groups)
        for group in groups:
            self.attempts.discard(group.attempt)

    def _abandon(self, groups: Sequence[Group]) -> None:
        def edit(status: TableStatus) -> Change:
            changed = status
            for group in groups:
                changed = abandon_attempt(changed, attempt=group.attempt, now_ms=now_ms()).status
            return Change(status=changed)

        if groups:
            self._commit_edit(edit, operation="abandon-compact")

    def _commit_edit(self, edit: Callable[[TableStatus], Change], *, operation: str) -> TableStatus:
        return commit_edit(self.planner.io, self.planner.table, edit, clock=system_clock(), operation=operation)


def _finish_all(
    status: TableStatus, groups: Sequence[Group], facts: dict[str, SegmentFacts], *, lost: dict[str, str]
) -> Change:
    lost.clear()
    changed = status
    retired: list[StatusEntry] = []
    for group in groups:
        try:
            change = finish_compaction(
                changed,
                facts[group.attempt],
                attempt=group.attempt,
                now_ms=now_ms(),
                read_files=group.read_files,
            )
        except ConflictError as conflict:
            lost[group.attempt] = conflict.message
            change = abandon_attempt(changed, attempt=group.attempt, now_ms=now_ms())
        changed = change.status
        retired += change.retired
    return Change(status=changed, retired=tuple(retired))
