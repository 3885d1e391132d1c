"""How merging shrinks: what is left of rows that newer loads overwrite.

A load of *S* bytes overwrites ``update_pct`` percent of *S* and adds the rest. What it overwrites is spread evenly over
the live rows, *L* bytes of them, so it hits the share ``h = min(1, update_pct / 100 × S / L)`` of any older rows. The
stale versions stay where they are until a merge meets both: it keeps the newest row of each key among its inputs.

    older A, newer B -> B + A × kept(B)        kept of one load is 1 - h, of a merge the product over its members
    live rows        -> S + L × (1 - h)

All loads merged hold exactly the live rows, in whatever order they were merged. That is the expected size, not a draw:
a simulation has no chance in it and gives the same numbers each time.

Where members of two inputs alternate in age (segments that were passed over, then merged), the input that begins
first counts as older altogether.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The rows of a load or of a merge: their expected bytes, and the share of older rows they leave valid."""

    size_bytes: float
    kept: float = 1.0


def merge_contents(oldest_first: Iterable[Content]) -> Content:
    """Keep the newest row of each key."""
    size_bytes, kept = 0.0, 1.0
    for content in oldest_first:
        size_bytes = content.size_bytes + size_bytes * content.kept
        kept *= content.kept
    return Content(size_bytes=size_bytes, kept=kept)


def load_content(size_bytes: int, *, live_bytes: float, update_pct: float) -> Content:
    """What a load brings into a table with so many live bytes; an empty table has nothing to overwrite."""
    hit = min(1.0, update_pct / 100 * size_bytes / live_bytes) if live_bytes else 0.0
    return Content(size_bytes=size_bytes, kept=1.0 - hit)
