"""What was left alone, and why: shown by plan, by compact and in the history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SkipKind(StrEnum):
    """What the reason means for the outcome of the run."""

    NOT_NEEDED = "not-needed"  # nothing wrong
    LEFT_ALONE = "left-alone"  # cannot be merged, and need not
    FILTERED = "filtered"  # by the caller's own filters or budget
    REFUSED = "refused"  # must not be merged
    UNREADABLE = "unreadable"  # broken input
    CONFLICT = "conflict"  # somebody else is at it
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One thing left alone."""

    what: str
    why: str
    kind: SkipKind

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"
