"""The values that a family of tables and the loop of a compaction exchange, and the protocols of these values.

A run is **rounds** of **waves** of **parts** of **units**. A part is what a family plans, claims and publishes as one
thing: a partition, a bucket, a merge of segments. A wave is what is written, proved and committed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from packstone.model.limits import Allowance
from packstone.model.outcome import BucketOutcome, UnitOutcome
from packstone.model.unit import How, OutputT, UnitResult, UnitStatus


class Unit(Protocol):
    """The payload of one unit; its number is unique within the run."""

    @property
    def number(self) -> int:
        """The number of the unit in the run."""
        ...

    @property
    def input_bytes(self) -> int:
        """The number of bytes it reads: the measure of its work."""
        ...

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes, each with the name of its format; () if a crash in it must blame no file."""
        ...


class PartPlan(Protocol):
    """What should happen to one part: the pure result of planning, frozen."""

    @property
    def part(self) -> str:
        """The name of the part: ``dt=1``, ``dt=1/bucket-0``, ``0 1 2 3``; the folder of a table without partitions."""
        ...

    @property
    def file_count(self) -> int:
        """The number of files that are merged; ``Budget.max_files`` limits it."""
        ...

    @property
    def read_bytes(self) -> int:
        """The number of bytes that are read; ``--max-bytes`` limits it."""
        ...

    @property
    def write_bytes(self) -> int:
        """The space that must be free, for outputs, copies and sorted runs."""
        ...

    @property
    def unit_count(self) -> int:
        """The number of merges; ``WaveLimits.units`` limits it."""
        ...

    def within(self, left: Allowance) -> tuple[Self | None, str]:
        """Cut the plan to the rest of a budget: what still fits, and why the rest does not (empty if all fits)."""
        ...


WholeT = TypeVar("WholeT", bound=PartPlan)


class WholePart:
    """Base of plans that are carried out as a whole or not at all, and write about as much as they read."""

    __slots__ = ()

    @property
    def write_bytes(self: PartPlan) -> int:
        """The number of bytes that are read."""
        return self.read_bytes

    def within(self: WholeT, left: Allowance) -> tuple[WholeT | None, str]:  # noqa: PYI019 - Self has no read_bytes
        """The whole plan or nothing: a part of the files that the strategy chose is not its choice."""
        why = left.why_not(self.read_bytes, self.file_count)
        return (None, why) if why else (self, "")


PlanT = TypeVar("PlanT", bound=PartPlan)
UnitT = TypeVar("UnitT", bound=Unit)
DetailT = TypeVar("DetailT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart(Generic[DetailT]):
    """A part of a plan as it is shown and saved; the detail is what the family needs to carry out exactly this."""

    part: str
    files_in: int
    files_out: int
    read_bytes: int
    units: tuple[UnitOutcome, ...]
    detail: DetailT
    bucket: BucketOutcome | None = None  # of a merge tree: what the strategy chose, and from what
    is_estimate: bool = False  # a later round over files that do not exist yet: shown, but never saved

    @property
    def why(self) -> str:
        """The strategy's reason, as a sentence."""
        return self.units[0].why if self.units else ""

    def __str__(self) -> str:
        return f"{self.part}: {self.files_in} files -> {self.files_out}, {self.why}"


@dataclass(slots=True, kw_only=True)
class Work(Generic[PlanT, UnitT, OutputT]):
    """A part that is being processed; the only value here that changes."""

    plan: PlanT
    passes: int = 1  # 2, 3 …: further passes over the same part
    units: dict[int, UnitT] = field(default_factory=dict)
    results: dict[int, UnitResult[OutputT]] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """The name of the part."""
        return self.plan.part

    @property
    def failures(self) -> list[tuple[UnitT, UnitResult[OutputT]]]:
        """The units that were not written."""
        found = ((self.units[number], result) for number, result in self.results.items())
        return [(unit, result) for unit, result in found if result.status is not UnitStatus.WRITTEN]

    @property
    def is_written(self) -> bool:
        """Whether there is something to commit: a unit that was written, or a part that needed none."""
        done = (result for result in self.results.values() if result.status is UnitStatus.WRITTEN)
        return not self.units or any(result.how is not How.COPY for result in done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a commit published, by part, and the parts of the group that it could not publish."""

    committed: Mapping[str, tuple[UnitOutcome, ...]]
    lost: Mapping[str, str] = field(default_factory=dict)  # part -> why; the others are committed nevertheless
    conflicts: Mapping[str, str] = field(default_factory=dict)  # as lost, but such a part is not planned again
    failed: Mapping[str, str] = field(default_factory=dict)  # part -> why; it may be half-done
    reader_gap_ms: float = 0.0  # of swaps in place: how long a reader could see too few files
    version: int | None = None  # the snapshot or the status that was published


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLimits:
    """When a wave is full: it bounds staging space, the driver's memory, and what a kill can cost."""

    units: int
    size_bytes: int


@dataclass(slots=True, kw_only=True)
class Totals:
    """What planning found at the target; grows while plans are made."""

    parts: int = 0
    files: int = 0
    bytes: int = 0
    is_filtered: bool = False  # the caller chose some parts
    why_empty: str = ""  # the message for a table without files, if it needs more than that it has none
