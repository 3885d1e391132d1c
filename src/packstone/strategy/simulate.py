"""A pattern of loads through a strategy: what compaction writes, what readers meet, what is stored, load by load.

After each load (or each n-th) the strategy picks and applies until it picks nothing, or once. Then is measured:

- *write amplification*: bytes written by compaction / bytes arrived, both since the beginning. 0 is no compaction;
  the loads' own writing is not counted.
- *read amplification*: how many sorted runs, segments or files a reader has to look into.
- *space amplification*: bytes stored / bytes live. 1 is no stale row. Inputs that are kept until they are cleaned,
  and the room a merge needs while it runs, are not counted.

    universal, trigger 5, six levels, loads of 1 MB, nothing overwritten

    load   1     2     3     4     5          6
    runs   0:1   0:1×2 0:1×3 0:1×4 5:5        0:1 5:5
    write  0     0     0     0     5 / 5 = 1  5 / 6

Nothing is random and no clock is read: equal arguments give equal series. How merging shrinks is in
simulate_merging.py, what a load means to each family in simulate_tables.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.megabytes import MB
from packstone.strategy.simulate_merging import Content, load_content, merge_contents
from packstone.strategy.simulate_tables import Load

if TYPE_CHECKING:
    from packstone.strategy.simulate_tables import SimulatedTable

MAX_ARRIVALS: Final = 10_000  # a minor compaction looks at all segments after each load: the time grows with the square
MAX_TOTAL_BYTES: Final = 2**53  # expected sizes are doubles, exact for whole bytes up to here
MAX_PCT: Final = 100
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What arrives: how often, how much each time, and how much of it overwrites."""

    arrivals: int
    sizes_bytes: tuple[int, ...]  # taken in turn
    update_pct: float = 0.0
    every_seconds: int = 3600

    def __post_init__(self) -> None:
        """Refuse what is no pattern, or too much of one."""
        if not 1 <= self.arrivals <= MAX_ARRIVALS:
            raise InvalidInputError(f"{self.arrivals} arrivals; simulate 1 to {MAX_ARRIVALS:,}.")
        if not self.sizes_bytes or min(self.sizes_bytes) < 1:
            raise InvalidInputError("A load must have a size of at least one byte.")
        if max(self.sizes_bytes) * self.arrivals > MAX_TOTAL_BYTES:
            raise InvalidInputError(f"All loads together are more than {MAX_TOTAL_BYTES // MB:,} MB; imagine less.")
        if not 0 <= self.update_pct <= MAX_PCT:
            raise InvalidInputError(f"update_pct is {self.update_pct}; it must lie between 0 and {MAX_PCT}.")
        if self.every_seconds < 0:
            raise InvalidInputError(f"every_seconds is {self.every_seconds}; it must be at least 0.")

    def size_of(self, number: int) -> int:
        """The bytes of the load with this number, from 1."""
        return self.sizes_bytes[(number - 1) % len(self.sizes_bytes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When compaction runs, and how far it goes."""

    compact_every: int = 1  # after every n-th load; 0: never
    is_repeated: bool = True  # until nothing is picked, or one round

    def __post_init__(self) -> None:
        """Refuse a number that no load could reach."""
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
    """Send the loads through the table; one point for each. What the table holds at the start counts as live."""
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
            Load(size_bytes=size, content=content, at_seconds=seconds, every_seconds=pattern.every_seconds)
        )
        if schedule.is_due(number):
            table = table.compact(is_repeated=schedule.is_repeated)
        points.append(_measure(table, number, seconds=seconds, arrived_bytes=arrived, live_bytes=round(live)))
    return tuple(points)


def thin(items: Sequence[ItemT], *, at_most: int) -> tuple[ItemT, ...]:
    """Keep so many, evenly spaced, the last one always among them."""
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
