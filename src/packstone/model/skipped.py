"""What was left alone, and why: shown by plan, by compact and in the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class SkipLog:
    """Collects skips; of those that nobody has to act on, the first ten thousand by name and the rest by number.

    A table has a million partitions that need nothing, and a driver has one memory.
    """

    NAMED = 10_000
    _QUIET = frozenset({SkipKind.NOT_NEEDED, SkipKind.FILTERED})

    def __init__(self) -> None:
        self._kept: list[Skipped] = []
        self._quiet: dict[SkipKind, int] = dict.fromkeys(self._QUIET, 0)

    def append(self, skip: Skipped) -> None:
        """Add one."""
        if skip.kind in self._QUIET:
            self._quiet[skip.kind] += 1
            if self._quiet[skip.kind] > self.NAMED:
                return
        self._kept.append(skip)

    def extend(self, skips: Iterable[Skipped]) -> None:
        """Add several."""
        for skip in skips:
            self.append(skip)

    def __iter__(self) -> Iterator[Skipped]:
        yield from self._kept
        for kind, count in sorted(self._quiet.items()):
            if count > self.NAMED:
                yield Skipped(what=f"{count - self.NAMED} more", why=f"{kind}, not listed one by one", kind=kind)
