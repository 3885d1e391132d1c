"""Simulate a pattern of loads under a strategy: what compaction writes, what readers read, what is stored after each.

After each load (or each n-th) the strategy picks and applies until it picks nothing, or once. Then it measures:

- *write amplification*: bytes written by compaction / bytes arrived, both since the beginning. 0 means no compaction;
  writing the loads themselves is not counted.
- *read amplification*: the number of sorted runs, segments or files that a reader has to read.
- *space amplification*: bytes stored / bytes live. 1 means no stale row. Inputs that are kept until they are cleaned,
  and the space a merge needs while it runs, are not counted.

    universal, trigger 5, six levels, loads of 1 MB, nothing overwritten

    load   1     2     3     4     5          6
    runs   0:1   0:1×2 0:1×3 0:1×4 5:5        0:1 5:5
    write  0     0     0     0     5 / 5 = 1  5 / 6

Nothing is random and no clock is read: equal arguments give equal series.

**Tables.** Each simulated table wraps the strategy's own view and uses the strategy's own `apply`. Only the sizes are
replaced, because `apply` does not remove rows. Merge trees and segments have keys. Append tables and Hive directories
have none: merging them removes nothing.

**Merging.** A load of *S* bytes overwrites ``update_pct`` percent of *S* and adds the rest. What it overwrites is
spread evenly over the live rows, *L* bytes of them, so it hits the share ``h = min(1, update_pct / 100 × S / L)`` of
any older rows. The stale versions remain until a merge includes both: it keeps the newest row of each key among its
inputs.

    older A, newer B -> B + A × kept(B)        kept of one load is 1 - h, of a merge the product over its members
    live rows        -> S + L × (1 - h)

All loads merged hold exactly the live rows, in whatever order they were merged. Sizes are expected values, not random
samples, so a simulation gives the same numbers each time. Where members of two inputs alternate in age (segments that
were skipped, then merged), the input that begins first counts as older as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar, cast

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId
from packstone.model.sizes import MB, ExactSize
from packstone.model.sorted_run import Level, SortedRun
from packstone.strategy.append_bins import AppendFile, AppendView
from packstone.strategy.pick import OutputT, Strategy, ViewT, run_round, to_fixpoint
from packstone.strategy.segment_view import SegmentView
from packstone.strategy.small_files import Candidate
from packstone.strategy.tree_view import TreeView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packstone.strategy.pick import Decision

MAX_ARRIVALS: Final = 10_000  # a minor compaction scans all segments after each load: the time is quadratic
MAX_TOTAL_BYTES: Final = 2**53  # expected sizes are doubles, exact for whole bytes up to here
MAX_PCT: Final = 100
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """The loads: how many, how often, how big, and how much of each overwrites older rows."""

    arrivals: int
    sizes_bytes: tuple[int, ...]  # taken in turn
    update_pct: float = 0.0
    every_seconds: int = 3600

    def __post_init__(self) -> None:
        """Refuse values out of range, and a total that is too large."""
        if not 1 <= self.arrivals <= MAX_ARRIVALS:
            raise InvalidInputError(f"{self.arrivals} arrivals; simulate 1 to {MAX_ARRIVALS:,}.")
        if not self.sizes_bytes or min(self.sizes_bytes) < 1:
            raise InvalidInputError("A load must have a size of at least one byte.")
        if max(self.sizes_bytes) * self.arrivals > MAX_TOTAL_BYTES:
            raise InvalidInputError(
                f"All loads together are more than {MAX_TOTAL_BYTES // MB:,} MB; simulate fewer or smaller loads."
            )
        if not 0 <= self.update_pct <= MAX_PCT:
            raise InvalidInputError(f"update_pct is {self.update_pct}; it must lie between 0 and {MAX_PCT}.")
        if self.every_seconds < 0:
            raise InvalidInputError(f"every_seconds is {self.every_seconds}; it must be at least 0.")

    def size_of(self, number: int) -> int:
        """Return the size of the load with this number, from 1."""
        return self.sizes_bytes[(number - 1) % len(self.sizes_bytes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When compaction runs, and how far it goes."""

    compact_every: int = 1  # after every n-th load; 0: never
    is_repeated: bool = True  # until nothing is picked, or one round

    def __post_init__(self) -> None:
        """Refuse a negative number."""
        if self.compact_every < 0:
            raise InvalidInputError(f"compact_every is {self.compact_every}; it must be at least 0.")

    def is_due(self, number: int) -> bool:
        """Whether compaction runs after the load with this number."""
        return self.compact_every > 0 and number % self.compact_every == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The parts of one level, or of one kind."""

    label: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The table after one load and the compaction that followed it."""

    arrivals: int
    seconds: int
    arrived_bytes: int
    written_bytes: int
    stored_bytes: int
    live_bytes: int
    read_amp: int
    file_count: int
    groups: tuple[Group, ...]

    @property
    def write_amp(self) -> float:
        """Bytes written by compaction for each byte that arrived."""
        return self.written_bytes / self.arrived_bytes

    @property
    def space_amp(self) -> float:
        """Bytes stored for each byte that is live."""
        return self.stored_bytes / self.live_bytes


def simulate(table: SimulatedTable, pattern: Pattern, schedule: Schedule) -> tuple[Point, ...]:
    """Simulate the loads; return one point for each. The initial content of the table counts as live."""
    live = float(sum(part.size_bytes for part in table.parts))
    arrived = 0
    points = []
    for number in range(1, pattern.arrivals + 1):
        size = pattern.size_of(number)
        content = load_content(size, live_bytes=live, update_pct=pattern.update_pct)
        live = merge_contents((Content(size_bytes=live), content)).size_bytes
        arrived += size
        seconds = (number - 1) * pattern.every_seconds
        table = table.load(
            SimulatedLoad(size_bytes=size, content=content, at_seconds=seconds, every_seconds=pattern.every_seconds)
        )
        if schedule.is_due(number):
            table = table.compact(is_repeated=schedule.is_repeated)
        points.append(_measure(table, number, seconds=seconds, arrived_bytes=arrived, live_bytes=round(live)))
    return tuple(points)


def thin(items: Sequence[ItemT], *, at_most: int) -> tuple[ItemT, ...]:
    """Return at most this many items, evenly spaced and always with the last one."""
    if len(items) <= at_most:
        return tuple(items)
    return tuple(items[len(items) * at // at_most - 1] for at in range(1, at_most + 1))


def _measure(table: SimulatedTable, number: int, *, seconds: int, arrived_bytes: int, live_bytes: int) -> Point:
    parts = sorted(table.parts, key=lambda part: part.group)
    groups = []
    for label, same in groupby(parts, key=lambda part: part.group):
        sizes = [part.size_bytes for part in same]
        groups.append(Group(label=label, count=len(sizes), size_bytes=sum(sizes)))
    return Point(
        arrivals=number,
        seconds=seconds,
        arrived_bytes=arrived_bytes,
        written_bytes=table.written_bytes,
        stored_bytes=sum(part.size_bytes for part in parts),
        live_bytes=live_bytes,
        read_amp=len(parts),
        file_count=sum(part.file_count for part in parts),
        groups=tuple(groups),
    )


# ---- simulated tables ----

# A run or segment is cut into files of this size, Paimon's default for tables with keys; only file counts need it.
FILE_BYTES: Final = 128 * MB
SECONDS_A_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLoad:
    """One load: its rows, and its time."""

    size_bytes: int
    content: Content
    at_seconds: int
    every_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a reader has to read: a sorted run, a segment or a file."""

    group: str  # its level, how often it was merged, or whether a compaction wrote it
    size_bytes: int
    file_count: int = 1


class SimulatedTable(Protocol):
    """The table of a simulation; every method returns a new value."""

    @property
    def written_bytes(self) -> int:
        """The bytes that compaction has written so far."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the table."""
        ...

    def load(self, load: SimulatedLoad) -> SimulatedTable:
        """Add one load."""
        ...

    def compact(self, *, is_repeated: bool) -> SimulatedTable:
        """Run the strategy until it picks nothing, or for one round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ViewedTable(Generic[ViewT, OutputT]):
    """A view of the table, the strategy that compacts it, and what compaction has written."""

    strategy: Strategy[ViewT, OutputT]
    view: ViewT
    written_bytes: int = 0

    def compact(self, *, is_repeated: bool) -> Self:
        """Run the strategy until it picks nothing, or for one round."""
        bound: Strategy[Self, OutputT] = Strategy(
            name=self.strategy.name,
            pick=lambda table: table.strategy.pick(table.view),
            apply=lambda table, decision: table.apply(decision),
        )
        rounds = to_fixpoint(bound, self) if is_repeated else (run_round(bound, self),)
        return rounds[-1].after

    def apply(self, decision: Decision[OutputT]) -> Self:
        """Apply the picks; by default their outputs are sizes, and all of them are written."""
        view = self.strategy.apply(self.view, decision)
        written_bytes = self.written_bytes + sum(cast("int", pick.output) for pick in decision.picks)
        return replace(self, view=view, written_bytes=written_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTable(_ViewedTable[TreeView, Level]):
    """A merge tree; every load is a run on level 0 and spans all keys."""

    contents: tuple[Content, ...]  # of the runs, newest first like them

    @property
    def parts(self) -> tuple[Part, ...]:
        """The sorted runs, by level."""
        return tuple(_cut(f"L{run.level}", run.size_bytes) for run in self.view.runs)

    def load(self, load: SimulatedLoad) -> TreeTable:
        """Add a run on level 0."""
        since = self.view.ms_since_full
        view = replace(
            self.view,
            runs=(SortedRun(level=0, size_bytes=load.size_bytes), *self.view.runs),
            ms_since_full=None if since is None else since + 1000 * load.every_seconds,
        )
        return replace(self, view=view, contents=(load.content, *self.contents))

    def apply(self, decision: Decision[Level]) -> Self:
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
class SegmentTable(_ViewedTable[SegmentView, SegmentId]):
    """Segments; every load is one, named by its number."""

    contents: dict[SegmentId, Content]
    first_day: int
    next_load: int  # a number is never used twice, even if its segment was merged

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments, by how often they were merged."""
        return tuple(_cut(_merges(segment), segment.size_bytes) for segment in self.view.segments)

    def load(self, load: SimulatedLoad) -> SegmentTable:
        """Add a segment, and begin a command that includes it."""
        day = self.first_day + load.at_seconds // SECONDS_A_DAY
        segment = Segment(id=SegmentId(self.next_load), size_bytes=load.size_bytes, load_day=day)
        view = SegmentView(segments=(*self.view.segments, segment), today=day, last_load=self.next_load)
        contents = {**self.contents, segment.id: load.content}
        return replace(self, view=view, contents=contents, next_load=self.next_load + 1)

    def apply(self, decision: Decision[SegmentId]) -> Self:
        """Apply the merges; the sizes are those of the merged content."""
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
class AppendTable(_ViewedTable[AppendView, ExactSize]):
    """Files of an append table without buckets."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files, loaded or merged."""
        return tuple(Part(group=_origin(file.is_compacted), size_bytes=file.size_bytes) for file in self.view.files)

    def load(self, load: SimulatedLoad) -> AppendTable:
        """Add a file."""
        file = AppendFile(size_bytes=load.size_bytes)
        return replace(self, view=replace(self.view, files=(*self.view.files, file)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTable(_ViewedTable[tuple[Candidate, ...], ExactSize]):
    """Files of one Hive partition, in name order."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files, loaded or merged."""
        return tuple(Part(group=_origin(file.is_known_output), size_bytes=file.size_bytes) for file in self.view)

    def load(self, load: SimulatedLoad) -> DirectoryTable:
        """Add a file."""
        return replace(self, view=(*self.view, Candidate(size_bytes=load.size_bytes)))


def tree_table(strategy: Strategy[TreeView, Level], view: TreeView) -> TreeTable:
    """Begin with these runs, which hold live rows only, each once."""
    return TreeTable(strategy=strategy, view=view, contents=tuple(_unique(run.size_bytes) for run in view.runs))


def segment_table(strategy: Strategy[SegmentView, SegmentId], view: SegmentView) -> SegmentTable:
    """Begin with these segments, which hold live rows only, each once."""
    contents = {segment.id: _unique(segment.size_bytes) for segment in view.segments}
    newest = max((segment.id.load for segment in view.segments), default=-1)
    return SegmentTable(strategy=strategy, view=view, contents=contents, first_day=view.today, next_load=newest + 1)


def _unique(size_bytes: int) -> Content:
    return Content(size_bytes=size_bytes)


def _cut(group: str, size_bytes: int) -> Part:
    return Part(group=group, size_bytes=size_bytes, file_count=max(1, -(-size_bytes // FILE_BYTES)))


def _merges(segment: Segment) -> str:
    if segment.is_major:
        return "major"
    return f".{segment.id.merges}" if segment.id.merges else "loads"


def _origin(is_ours: bool) -> str:  # noqa: FBT001 - a truth value is the subject
    return "merged" if is_ours else "arrived"


# ---- sizes after a merge ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The rows of a load or of a merge: their expected size, and the share of older rows that stay valid."""

    size_bytes: float
    kept: float = 1.0


def merge_contents(oldest_first: Iterable[Content]) -> Content:
    """Merge contents, keeping the newest row of each key."""
    size_bytes, kept = 0.0, 1.0
    for content in oldest_first:
        size_bytes = content.size_bytes + size_bytes * content.kept
        kept *= content.kept
    return Content(size_bytes=size_bytes, kept=kept)


def load_content(size_bytes: int, *, live_bytes: float, update_pct: float) -> Content:
    """Return the content of a load into a table with this many live bytes; an empty table has nothing to overwrite."""
    hit = min(1.0, update_pct / 100 * size_bytes / live_bytes) if live_bytes else 0.0
    return Content(size_bytes=size_bytes, kept=1.0 - hit)
