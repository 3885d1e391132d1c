"""The health of a table: a score, documented JSON, and a report that any surface can draw.

A family knows what its numbers mean, and a surface knows how to draw. `Report` is what passes between them, so a new
family needs no drawing of its own::

    score             health ██████────────────────────────── 18 of 100  orders
    facts             32 files in 6 buckets of 3 partitions, 110.4 KB
    histogram, worst  level                        files    worst buckets           runs  files    bytes
                      L0     ████████████████████     30    dt=2024-05-02/bucket-0     8      8  22.5 KB
                      L5     █▍                        2    dt=2024-05-02/bucket-1     8      8  22.6 KB
    hazards           rescaled  dt=2024-05-01/bucket-0: its files were written for 4 buckets, the table has 2
    notes             inspected 1,000 of 4,200 small files

A report holds everything that the family found; the surface decides how many rows fit on a screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

_MB: Final = 1 << 20
_SIZE_EDGES: Final = (
    ("< 1 MB", 1 * _MB),
    ("1-8 MB", 8 * _MB),
    ("8-32 MB", 32 * _MB),
    ("32-120 MB", 120 * _MB),
    ("120-512 MB", 512 * _MB),
)
_BIGGEST: Final = "> 512 MB"
SIZE_CLASSES: Final = (*(name for name, _ in _SIZE_EDGES), _BIGGEST)


class Health(Protocol):
    """The state of one table, as its family sees it."""

    @property
    def score(self) -> int:
        """100 is as good as it gets, 0 is the worst."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the documented keys."""
        ...

    def report(self) -> Report:
        """Describe what to draw."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Something that makes merging dangerous or impossible."""

    name: str  # as docs/hazards.md spells it
    where: str  # inside the table; "." is the table itself
    evidence: str

    def to_json(self) -> dict[str, str]:
        """Return the documented keys."""
        return {"hazard": self.name, "where": self.where, "evidence": self.evidence}

    def __str__(self) -> str:
        return f"{self.name} in {self.where}: {self.evidence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line of text; ``strong`` is the part of it that matters most."""

    text: str
    strong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts by class, such as files by size; a surface may leave out empty classes at both ends."""

    title: str  # what the classes are: "size", "level"
    unit: str  # what is counted: "files"
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstPart:
    """One part of a table in the columns of its `WorstParts`."""

    name: str  # empty for a table that is not divided
    cells: tuple[str, ...]
    score: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstParts:
    """The parts that a compaction would improve most, the worst first; all of them have a score, or none has."""

    title: str
    columns: tuple[str, ...]
    parts: tuple[WorstPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What to draw, from top to bottom."""

    table: str
    score: int
    facts: tuple[Fact, ...]
    histogram: Histogram | None = None
    worst: WorstParts | None = None
    hazards: tuple[Hazard, ...] = ()
    notes: tuple[str, ...] = ()  # what the report does not cover


def size_class(size_bytes: int) -> str:
    """Return the one of `SIZE_CLASSES` that a size belongs to."""
    return next((name for name, edge in _SIZE_EDGES if size_bytes < edge), _BIGGEST)


def rate(count: int, *, ideal: int) -> int:
    """Return the score of a number of files, runs or segments: 100 for the ideal number, 1 for a hundred times it."""
    return max(0, min(100, 100 * ideal // count)) if count else 100


def share_pct(part: int, whole: int) -> int:
    """Return a share in percent; 0 of nothing."""
    return 100 * part // whole if whole else 0
