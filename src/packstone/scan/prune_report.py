"""What a scan leaves out and why: level by level, and which part of the filter did it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from packstone.model.codec import to_plain
from packstone.model.sizes import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLevel:
    """One level of the table, such as segments, files, row groups; ``how`` says what decided it."""

    name: str
    total: int
    kept: int
    how: str = ""

    def __str__(self) -> str:
        how = f" ({self.how})" if self.how else ""
        return f"{self.name}: {self.kept} of {self.total}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateEffect:
    """One part of the filter (parts are joined by AND): of how many pieces it alone proves that no row matches."""

    predicate: str
    level: str  # of what: row groups, files
    excluded: int

    def __str__(self) -> str:
        return f"{self.predicate}: excludes {self.excluded} {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """All of it. Bytes are those of whole row groups; a scan of few columns reads fewer."""

    filter: str = ""  # as it is tested: resolved and normalised SQL; empty: none
    columns: tuple[str, ...] = ()
    levels: tuple[PruneLevel, ...] = ()
    predicates: tuple[PredicateEffect, ...] = ()
    total_rows: int = 0
    kept_rows: int = 0  # in what is read; not all of them match
    total_bytes: int = 0
    read_bytes: int = 0
    splits: int = 0
    merged_splits: int = 0  # of them, those in which versions of rows are merged

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``json``."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def __str__(self) -> str:
        merged = f", {self.merged_splits} of them merged" if self.merged_splits else ""
        lines = [
            f"filter: {self.filter or 'none'}",
            f"columns: {', '.join(self.columns) or 'none'}",
            *map(str, self.levels),
            *(f"  {effect}" for effect in self.predicates),
            f"rows: {self.kept_rows} of {self.total_rows}",
            f"bytes: {format_bytes(self.read_bytes)} of {format_bytes(self.total_bytes)}",
            f"splits: {self.splits}{merged}",
        ]
        return "\n".join(lines)
