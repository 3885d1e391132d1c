"""What a compaction of a segment table is told, beside the table's own properties."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId
from packstone.model.unit import Verify

_GB = 1 << 30
_MB = 1 << 20


class SegmentStrategy(StrEnum):
    """How segments are chosen."""

    MINOR = "minor"  # by their number, in levels
    MAJOR = "major"  # by their size
    CUSTOM = "custom"  # by their ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions:
    """Which segments to merge, and how the work is cut."""

    strategy: SegmentStrategy = SegmentStrategy.MINOR  # its name will do
    ids: tuple[SegmentId, ...] = ()  # of a custom compaction, in any order
    overrides: tuple[tuple[str, str], ...] = ()  # properties for this run only
    verify: Verify = Verify.CONTENT
    task_bytes: int = 256 * _MB  # a bigger merge is split by key over tasks
    memory_bytes: int = 256 * _MB
    commit_every_bytes: int = 16 * _GB  # merges that do not touch each other run side by side up to this

    def __post_init__(self) -> None:
        """Refuse ids where they mean nothing, and their absence where they mean everything."""
        object.__setattr__(self, "strategy", parse_segment_strategy(self.strategy))
        if self.strategy is SegmentStrategy.CUSTOM and not self.ids:
            raise InvalidInputError("A custom compaction needs the ids of its segments, for example --ids 1,2.")
        if self.strategy is not SegmentStrategy.CUSTOM and self.ids:
            raise InvalidInputError(f"--ids goes with --strategy custom; {self.strategy} chooses its segments itself.")
        if len(set(self.ids)) != len(self.ids):
            raise InvalidInputError(f"--ids {','.join(map(str, self.ids))} names a segment twice.")
        for name in ("task_bytes", "memory_bytes", "commit_every_bytes"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(f"{name} must be larger than zero.", option=name)


def parse_segment_strategy(name: str) -> SegmentStrategy:
    """Read a strategy's name."""
    try:
        return SegmentStrategy(name)
    except ValueError:
        known = ", ".join(SegmentStrategy)
        raise InvalidInputError(f"{name} is no strategy for segment tables; use one of {known}.") from None


def parse_segment_ids(text: str) -> tuple[SegmentId, ...]:
    """Read ``1,2`` or ``0.2,4.1``."""
    return tuple(SegmentId.parse(part.strip()) for part in text.split(","))
