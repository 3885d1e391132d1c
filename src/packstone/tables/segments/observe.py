"""Plan the merges of a segment table's compaction, in every round, on the newest status.

Segments that another live run is merging are left alone, and so are those that this run has offered before: a merge
that was lost, refused or over the budget is not tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.outcome import SkipKind, Skipped
from packstone.model.sizes import plural
from packstone.strategy.custom import CustomOptions, check_ids
from packstone.strategy.segment_rounds import Rounds, plan_rounds
from packstone.tables.segments.format.edits import describe_status
from packstone.tables.segments.format.status_files import read_retired
from packstone.tables.segments.leftovers import read_attempt
from packstone.tables.segments.options import SegmentStrategy, may_resort, merge_options, run_properties, view_status
from packstone.tables.segments.units import SegmentMerge, read_entry_file, read_merge_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.model.segment import SegmentId
    from packstone.storage.fileio import FileIO
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.format.properties import Properties
    from packstone.tables.segments.format.status import RunningCompaction, StatusEntry, TableStatus
    from packstone.tables.segments.options import MergeOptions, SegmentOptions

_MB: Final = 1 << 20


@dataclass(slots=True)
class SegmentPlanner:
    """Plans over the segments that existed when the command began."""

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
