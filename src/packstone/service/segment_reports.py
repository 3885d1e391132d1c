"""What a segment table answers: values behind the JSON of `packstone segments …`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packstone.model.moment import iso_moment

if TYPE_CHECKING:
    from packstone.model.segment import SegmentId
    from packstone.tables.segments.column_types import Column
    from packstone.tables.segments.show import SegmentRow

FAMILY = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a table is: its columns, its order, the properties that were set, and all of them as they count."""

    table: str
    version: int
    columns: tuple[Column, ...]
    sort_columns: tuple[str, ...]
    sort_scope: str
    properties: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]

    def to_json(self, *, status: str | None = None) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            **({} if status is None else {"status": status}),
            "version": self.version,
            "columns": [{"name": c.name, "type": c.type_text, "nullable": c.nullable} for c in self.columns],
            "sort_columns": list(self.sort_columns),
            "sort_scope": self.sort_scope,
            "properties": dict(self.properties),
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """One property before and after, as text; a default is shown as the value it stands for."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChanges:
    """What altering a table changed."""

    table: str
    version: int
    changes: tuple[PropertyChange, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "status": "committed" if self.changes else "nothing-to-do",
            "version": self.version,
            "changed": [{"property": c.name, "before": c.before, "after": c.after} for c in self.changes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """One data file that readers of a version see."""

    path: str
    segment: SegmentId
    rows: int
    size_bytes: int

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """All data files of a version: what any reader of Parquet should read, and nothing else."""

    table: str
    version: int
    files: tuple[LiveFile, ...]

    @property
    def paths(self) -> list[str]:
        """Their paths, as DuckDB and Polars take them."""
        return [file.path for file in self.files]

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "version": self.version,
            "rows": sum(file.rows for file in self.files),
            "bytes": sum(file.size_bytes for file in self.files),
            "files": [
                {"path": file.path, "segment": str(file.segment), "rows": file.rows, "bytes": file.size_bytes}
                for file in self.files
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    """Which segments were deleted, or would be."""

    table: str
    version: int
    dry_run: bool
    segments: tuple[SegmentId, ...]
    rows: int
    size_bytes: int

    @property
    def what(self) -> str:
        """The segments in words, cut off where they are too many to read."""
        named = ", ".join(map(str, self.segments[:10]))
        more = f" and {len(self.segments) - 10:,} more" if len(self.segments) > 10 else ""  # noqa: PLR2004 - as above
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"segment{'s' if len(self.segments) > 1 else ''} {named}{more} ({rows})"

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        done = "planned" if self.dry_run else "committed"
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "status": done if self.segments else "nothing-to-do",
            "version": self.version,
            "segments": [str(one) for one in self.segments],
            "rows": self.rows,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSummary:
    """One version that can still be read."""

    version: int
    written_ms: int
    operation: str
    segments: int
    rows: int
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "version": self.version,
            "written_at": iso_moment(self.written_ms),
            "operation": self.operation,
            "segments": self.segments,
            "rows": self.rows,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSegments:
    """The segments of a version, newest first."""

    table: str
    version: int
    written_ms: int
    rows: tuple[SegmentRow, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented keys; a segment has CarbonData's names."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "version": self.version,
            "written_at": iso_moment(self.written_ms),
            "segments": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStatus:
    """A version in the words of CarbonData's `tablestatus`: one line of JSON."""

    table: str
    version: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "version": self.version,
            "tablestatus": json.loads(self.text),
        }
