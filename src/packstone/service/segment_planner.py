"""What a compaction of a segment table would merge: asked before the first wave, and again after each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.segment_options import SegmentStrategy
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.runs.clock import now_ms, system_clock
from packstone.strategy.custom import CustomOptions, check_ids
from packstone.strategy.segment_rounds import Rounds, plan_rounds
from packstone.tables.segments.attempts import is_dead, read_attempt
from packstone.tables.segments.commit import commit_edit
from packstone.tables.segments.edits import Change, abandon_attempt, in_words
from packstone.tables.segments.merge_inputs import read_entry_file
from packstone.tables.segments.segments_view import may_resort, merge_options, run_properties, view_status
from packstone.tables.segments.status_files import read_latest, read_retired

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packstone.model.segment import SegmentId
    from packstone.model.segment_options import SegmentOptions
    from packstone.storage.fileio import FileIO
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.column_types import Column
    from packstone.tables.segments.properties import Properties
    from packstone.tables.segments.segments_view import MergeOptions
    from packstone.tables.segments.status import RunningCompaction, StatusEntry, TableStatus


@dataclass(slots=True)
class SegmentPlanner:
    """Plans over the segments that existed when the command began."""

    io: FileIO
    table: str
    asked: SegmentOptions
    start: TableStatus
    skipped: SkipLog = field(default_factory=SkipLog)
    properties: Properties = field(init=False)
    _last_load: int = field(init=False)
    _left_out: set[SegmentId] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)  # compactions of others that were told of
    _files: dict[SegmentId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.properties = run_properties(self.start, self.asked)
        self._last_load = max((entry.id.load for entry in self.start.entries), default=-1)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns; nothing changes them."""
        return self.start.columns

    def plan(self, status: TableStatus | None = None) -> tuple[TableStatus, Rounds]:
        """Plan to the fixpoint on the newest status, or on one given."""
        status = status or read_latest(self.io, self.table)
        taken = self._find_taken(status)
        view = view_status(status, left_out=self._left_out | taken, now_ms=now_ms())
        view = replace(view, last_load=self._last_load)
        options = self._options(status, taken)
        self._files = {entry.id: entry.files for entry in status.entries}
        if options is None:
            return status, Rounds(merges=(), why_not="")
        if isinstance(options, CustomOptions):
            self._check_not_retired(status, options)
            check_ids(view, options)
        return status, plan_rounds(view, options)

    def leave_out(self, ids: Iterable[SegmentId]) -> None:
        """Do not choose these any more."""
        self._left_out.update(ids)

    def entries_of(self, status: TableStatus, merge: Merge) -> tuple[StatusEntry, ...]:
        """The entries of a merge's members, in id order."""
        wanted = {member.id for member in merge.members}
        return tuple(entry for entry in status.entries if entry.id in wanted)

    def file_count(self, segment: SegmentId, made: Mapping[SegmentId, int] | None = None) -> int:
        """How many files a segment has; ``made`` tells of segments that do not exist yet."""
        return self._files.get(segment, 0) or (made or {}).get(segment, 0)

    def files_of(self, merge: Merge) -> int:
        """How many files a merge of existing segments reads."""
        return sum(self.file_count(member.id) for member in merge.members)

    def _options(self, status: TableStatus, taken: set[SegmentId]) -> MergeOptions | None:
        """How to choose; None if somebody else is merging a segment that was named."""
        if self.asked.strategy is SegmentStrategy.CUSTOM and taken.intersection(self.asked.ids):
            return None
        return merge_options(self.properties, self.asked, resort=self._may_resort(status))

    def _may_resort(self, status: TableStatus) -> bool:
        if len(self.asked.ids) != 1:
            return False
        entry = status.find(self.asked.ids[0])
        if entry is None or entry.segment_file is None:
            return False
        return may_resort(read_entry_file(self.io, self.table, entry), self.properties)

    def _check_not_retired(self, status: TableStatus, options: CustomOptions) -> None:
        """Tell what became of a named segment, rather than that there is none."""
        gone = [wanted for wanted in options.ids if status.find(wanted) is None]
        retired = {entry.id: entry for entry in read_retired(self.io, self.table, status)} if gone else {}
        for wanted in gone:
            if wanted in retired:
                raise InvalidInputError(
                    f"Segment {wanted} is {in_words(retired[wanted])}; name only segments that can be merged.",
                    segment=str(wanted),
                )

    def _find_taken(self, status: TableStatus) -> set[SegmentId]:
        """The segments that others are merging; each of the others is told of once."""
        taken: set[SegmentId] = set()
        for running in status.running:
            taken.update(running.inputs)
            if running.attempt not in self._told:
                self._told.add(running.attempt)
                self.skipped.append(self._tell(running))
        return taken

    def _tell(self, running: RunningCompaction) -> Skipped:
        record = read_attempt(self.io, self.table, running.attempt)
        who = running.attempt if record is None else f"{running.attempt} ({record.process})"
        named = set(running.inputs).intersection(self.asked.ids)
        return Skipped(
            what=" ".join(map(str, running.inputs)),
            why=f"being merged into {running.output} by the compaction {who}",
            # Who names segments wants them merged now; otherwise somebody else is doing our work.
            kind=SkipKind.CONFLICT if named else SkipKind.LEFT_ALONE,
        )


def end_dead_compactions(io: FileIO, table: str, status: TableStatus) -> TableStatus:
    """End the registrations of compactions whose process is gone; what they left, `clean` knows by name."""
    dead = _find_dead(io, table, status)
    if not dead:
        return status
    edit = lambda base: Change(status=_without(base, dead))  # noqa: E731 - as the other edits
    return commit_edit(io, table, edit, clock=system_clock(), operation="abandon-compact")


def without_dead_compactions(io: FileIO, table: str, status: TableStatus) -> TableStatus:
    """The status as `end_dead_compactions` will make it; nothing is written."""
    return _without(status, _find_dead(io, table, status))


def _find_dead(io: FileIO, table: str, status: TableStatus) -> tuple[str, ...]:
    now = now_ms()
    return tuple(
        running.attempt
        for running in status.running
        if is_dead(io, table, running.attempt, started_ms=running.started_ms, now_ms=now)
    )


def _without(status: TableStatus, dead: tuple[str, ...]) -> TableStatus:
    changed = status
    for attempt in dead:
        if changed.find_compaction(attempt) is not None:
            changed = abandon_attempt(changed, attempt=attempt, now_ms=now_ms()).status
    return changed
