"""The three families of tables as a simulation drives them: a load comes in, a strategy compacts, parts are counted.

Each wraps the strategy's own view and lets the strategy's own `apply` do the work. Only the sizes are set anew, because
`apply` takes no rows away; what a merge really leaves is said by simulate_merging.py.

Merge trees and segments have keys. Append tables and Hive directories have none: merging them removes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from packstone.model.megabytes import MB
from packstone.model.segment import Segment, SegmentId
from packstone.model.sorted_run import SortedRun
from packstone.strategy.append_view import AppendFile, AppendView
from packstone.strategy.fixpoint import Strategy, run_round, to_fixpoint
from packstone.strategy.segment_view import SegmentView
from packstone.strategy.simulate_merging import Content, merge_contents
from packstone.strategy.small_files import Candidate
from packstone.strategy.tree_view import TreeView

if TYPE_CHECKING:
    from packstone.model.exact_size import ExactSize
    from packstone.model.sorted_run import Level
    from packstone.strategy.pick import Decision, OutputT, ViewT

# A run or segment is cut into files of this size, Paimon's default for tables with keys; only file counts need it.
FILE_BYTES: Final = 128 * MB
SECONDS_A_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One arrival: its rows, and when it comes."""

    size_bytes: int
    content: Content
    at_seconds: int
    every_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a reader has to look into: a sorted run, a segment or a file."""

    group: str  # its level, how often it was merged, or who wrote it
    size_bytes: int
    file_count: int = 1


class SimulatedTable(Protocol):
    """What a simulation needs of a table; every method gives a new value."""

    @property
    def written_bytes(self) -> int:
        """What compaction has written so far."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the table is made of."""
        ...

    def load(self, load: Load) -> SimulatedTable:
        """Take in one arrival."""
        ...

    def compact(self, *, is_repeated: bool) -> SimulatedTable:
        """Run the strategy: until it picks nothing, or one round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTable:
    """A merge tree; every load is a run on level 0 and spans all keys."""

    strategy: Strategy[TreeView, Level]
    view: TreeView
    contents: tuple[Content, ...]  # of the runs, newest first like them
    written_bytes: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The sorted runs, by level."""
        return tuple(_cut(f"L{run.level}", run.size_bytes) for run in self.view.runs)

    def load(self, load: Load) -> TreeTable:
        """Put a run on level 0."""
        since = self.view.ms_since_full
        view = replace(
            self.view,
            runs=(SortedRun(level=0, size_bytes=load.size_bytes), *self.view.runs),
            ms_since_full=None if since is None else since + 1000 * load.every_seconds,
        )
        return replace(self, view=view, contents=(load.content, *self.contents))

    def compact(self, *, is_repeated: bool) -> TreeTable:
        """Run the strategy."""
        bound = Strategy(name=self.strategy.name, pick=TreeTable._pick, apply=TreeTable._apply)
        return _run(bound, self, is_repeated=is_repeated)

    def _pick(self) -> Decision[Level]:
        return self.strategy.pick(self.view)

    def _apply(self, decision: Decision[Level]) -> TreeTable:
        """Apply the pick; a single run only changes its level, so nothing is written."""
        view = self.strategy.apply(self.view, decision)
        contents, written = self.contents, self.written_bytes
        for pick in decision.picks:
            taken = len(pick.inputs)
            merged = merge_contents(reversed(contents[:taken]))
            contents = (merged, *contents[taken:])
            run = replace(view.runs[0], size_bytes=round(merged.size_bytes), name="")
            view = replace(view, runs=(run, *view.runs[1:]))
            written += run.size_bytes if taken > 1 else 0
        return replace(self, view=view, contents=contents, written_bytes=written)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTable:
    """Segments; every load is one, named by its number."""

    strategy: Strategy[SegmentView, SegmentId]
    view: SegmentView
    contents: dict[SegmentId, Content]
    first_day: int
    next_load: int  # a number is never used twice, also if its segment was merged
    written_bytes: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments, by how often they were merged."""
        return tuple(_cut(_merges(segment), segment.size_bytes) for segment in self.view.segments)

    def load(self, load: Load) -> SegmentTable:
        """Add a segment, and begin a command that knows it."""
        day = self.first_day + load.at_seconds // SECONDS_A_DAY
        segment = Segment(id=SegmentId(self.next_load), size_bytes=load.size_bytes, load_day=day)
        view = SegmentView(segments=(*self.view.segments, segment), today=day, last_load=self.next_load)
        contents = {**self.contents, segment.id: load.content}
        return replace(self, view=view, contents=contents, next_load=self.next_load + 1)

    def compact(self, *, is_repeated: bool) -> SegmentTable:
        """Run the strategy."""
        bound = Strategy(name=self.strategy.name, pick=SegmentTable._pick, apply=SegmentTable._apply)
        return _run(bound, self, is_repeated=is_repeated)

    def _pick(self) -> Decision[SegmentId]:
        return self.strategy.pick(self.view)

    def _apply(self, decision: Decision[SegmentId]) -> SegmentTable:
        view = self.strategy.apply(self.view, decision)
        contents, written = dict(self.contents), self.written_bytes
        sizes: dict[SegmentId, int] = {}
        for pick in decision.picks:
            members = [self.view.segments[at].id for at in pick.inputs]
            merged = merge_contents(contents.pop(member) for member in sorted(members))
            contents[pick.output] = merged
            sizes[pick.output] = round(merged.size_bytes)
            written += sizes[pick.output]
        segments = tuple(
            replace(segment, size_bytes=sizes[segment.id]) if segment.id in sizes else segment
            for segment in view.segments
        )
        if segments != view.segments:
            view = replace(view, segments=segments)
        return replace(self, view=view, contents=contents, written_bytes=written)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTable:
    """Files of an append table without buckets."""

    strategy: Strategy[AppendView, ExactSize]
    view: AppendView
    written_bytes: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files, by who wrote them."""
        return tuple(Part(group=_who(file.is_compacted), size_bytes=file.size_bytes) for file in self.view.files)

    def load(self, load: Load) -> AppendTable:
        """Add a file."""
        file = AppendFile(size_bytes=load.size_bytes)
        return replace(self, view=replace(self.view, files=(*self.view.files, file)))

    def compact(self, *, is_repeated: bool) -> AppendTable:
        """Run the strategy."""
        bound = Strategy(name=self.strategy.name, pick=AppendTable._pick, apply=AppendTable._apply)
        return _run(bound, self, is_repeated=is_repeated)

    def _pick(self) -> Decision[ExactSize]:
        return self.strategy.pick(self.view)

    def _apply(self, decision: Decision[ExactSize]) -> AppendTable:
        view = self.strategy.apply(self.view, decision)
        return replace(self, view=view, written_bytes=self.written_bytes + _output_bytes(decision))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTable:
    """Files of one Hive partition, in name order."""

    strategy: Strategy[tuple[Candidate, ...], ExactSize]
    view: tuple[Candidate, ...]
    written_bytes: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files, by who wrote them."""
        return tuple(Part(group=_who(file.is_known_output), size_bytes=file.size_bytes) for file in self.view)

    def load(self, load: Load) -> DirectoryTable:
        """Add a file."""
        return replace(self, view=(*self.view, Candidate(size_bytes=load.size_bytes)))

    def compact(self, *, is_repeated: bool) -> DirectoryTable:
        """Run the strategy."""
        bound = Strategy(name=self.strategy.name, pick=DirectoryTable._pick, apply=DirectoryTable._apply)
        return _run(bound, self, is_repeated=is_repeated)

    def _pick(self) -> Decision[ExactSize]:
        return self.strategy.pick(self.view)

    def _apply(self, decision: Decision[ExactSize]) -> DirectoryTable:
        view = self.strategy.apply(self.view, decision)
        return replace(self, view=view, written_bytes=self.written_bytes + _output_bytes(decision))


def tree_table(strategy: Strategy[TreeView, Level], view: TreeView) -> TreeTable:
    """Begin with these runs; what they hold is live, none of it twice."""
    return TreeTable(strategy=strategy, view=view, contents=tuple(_unique(run.size_bytes) for run in view.runs))


def segment_table(strategy: Strategy[SegmentView, SegmentId], view: SegmentView) -> SegmentTable:
    """Begin with these segments; what they hold is live, none of it twice."""
    contents = {segment.id: _unique(segment.size_bytes) for segment in view.segments}
    newest = max((segment.id.load for segment in view.segments), default=-1)
    return SegmentTable(strategy=strategy, view=view, contents=contents, first_day=view.today, next_load=newest + 1)


def _run(strategy: Strategy[ViewT, OutputT], table: ViewT, *, is_repeated: bool) -> ViewT:
    rounds = to_fixpoint(strategy, table) if is_repeated else (run_round(strategy, table),)
    return rounds[-1].after


def _unique(size_bytes: int) -> Content:
    return Content(size_bytes=size_bytes)


def _cut(group: str, size_bytes: int) -> Part:
    return Part(group=group, size_bytes=size_bytes, file_count=max(1, -(-size_bytes // FILE_BYTES)))


def _merges(segment: Segment) -> str:
    if segment.is_major:
        return "major"
    return f".{segment.id.merges}" if segment.id.merges else "loads"


def _who(is_ours: bool) -> str:  # noqa: FBT001 - a truth value is the subject
    return "merged" if is_ours else "arrived"


def _output_bytes(decision: Decision[ExactSize]) -> int:
    return sum(pick.output for pick in decision.picks)
