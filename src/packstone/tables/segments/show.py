"""Show a segment table: segments in CarbonData's eight columns and its JSON, and the reports of `packstone segments`.

Retired segments are shown until clean removes them; those that clean has removed are shown only with the history. Ids
are in descending order, as pairs of numbers. Times are in UTC: people in many time zones share a table.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.segment import SegmentStatus
from packstone.model.sizes import format_bytes, plural
from packstone.model.times import iso_moment
from packstone.tables.segments.format.status import StatusEntry, TableStatus

if TYPE_CHECKING:
    from packstone.model.segment import SegmentId
    from packstone.tables.segments.format.columns import TableColumn

FILE_FORMAT: Final = "parquet"
NOTHING: Final = "NA"
COLUMNS: Final = (
    "ID", "Status", "Load Start Time", "Load Time Taken", "Partition", "Data Size", "Index Size", "File Format",
)  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNFINISHED_MS: Final = -1  # CarbonData's
_WORDS: Final = {
    SegmentStatus.IN_PROGRESS: "Insert In Progress",
    SegmentStatus.OVERWRITE_IN_PROGRESS: "Insert Overwrite In Progress",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """The shown values of one segment; None is shown as CarbonData's NA."""

    id: str
    status: str
    load_start_ms: int
    load_end_ms: int | None
    data_bytes: int
    index_bytes: int
    merged_to_id: str | None
    segment_file: str | None
    rows: int
    files: int
    bad_rows: int
    is_major: bool
    is_cleaned: bool  # it is only in the history
    deleted_rows: int  # no longer in `rows`, but still in the files

    @property
    def time_taken_ms(self) -> int:
        """The duration of the load; -1 if it has not ended."""
        return _UNFINISHED_MS if self.load_end_ms is None else self.load_end_ms - self.load_start_ms

    def to_texts(self) -> tuple[str, ...]:
        """The values of `COLUMNS`."""
        taken = NOTHING if self.load_end_ms is None else iso_duration(self.time_taken_ms)
        sizes = format_bytes(self.data_bytes), format_bytes(self.index_bytes)
        return (self.id, self.status, format_ms(self.load_start_ms), taken, NOTHING, *sizes, FILE_FORMAT)

    def to_json(self) -> dict[str, object]:
        """The long form under CarbonData's names, with rows, files, bad rows and whether it is major or cleaned."""
        return {
            "id": self.id,
            "status": self.status,
            "loadStartTime": format_ms(self.load_start_ms),
            "timeTakenMs": self.time_taken_ms,
            "partitions": NOTHING,
            "dataSize": self.data_bytes,
            "indexSize": self.index_bytes,
            "mergedToId": self.merged_to_id or NOTHING,
            "format": FILE_FORMAT,
            "path": NOTHING,
            "loadEndTime": NOTHING if self.load_end_ms is None else format_ms(self.load_end_ms),
            "segmentFileName": self.segment_file or NOTHING,
            "rows": self.rows,
            "files": self.files,
            "badRows": self.bad_rows,
            "majorCompacted": self.is_major,
            "cleaned": self.is_cleaned,
            "deletedRows": self.deleted_rows,
        }


def show_segments(
    status: TableStatus,
    *,
    retired: Iterable[StatusEntry] = (),
    history: Iterable[StatusEntry] = (),
    limit: int | None = None,
) -> tuple[SegmentRow, ...]:
    """Return the segments to show, newest first; ``retired`` and ``history`` as `status_files` reads them."""
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit is {limit}; it must be at least 1.", option="limit")
    kept = [(entry, False) for entry in (*status.entries, *retired)]
    marked = [*kept, *((entry, True) for entry in history)]
    if limit is None:
        ordered: Sequence[tuple[StatusEntry, bool]] = sorted(marked, key=lambda one: one[0].id, reverse=True)
    else:
        ordered = heapq.nlargest(limit, marked, key=lambda one: one[0].id)
    return tuple(_row(entry, is_cleaned=is_cleaned) for entry, is_cleaned in ordered)


def status_words(status: SegmentStatus, *, shown: bool = True) -> str:
    """A status in CarbonData's words, as shown to people or as stored: ``Marked for Delete``."""
    if shown and status in _WORDS:
        return _WORDS[status]
    return status.value.replace("-", " ").title().replace(" For ", " for ")


def format_ms(moment_ms: int) -> str:
    """A moment in UTC: ``2026-01-31 23:59:59.123``."""
    try:
        seconds = _EPOCH + timedelta(seconds=moment_ms // 1000)
    except OverflowError:
        return f"{moment_ms} ms"  # outside the range of datetime; a wrong clock or value
    return f"{seconds:%Y-%m-%d %H:%M:%S}.{moment_ms % 1000:03d}"


def iso_duration(milliseconds: int) -> str:
    """An ISO duration without its PT: ``1H2M3.5S``; seconds are left out only for whole minutes."""
    total_seconds, rest = divmod(max(0, milliseconds), 1000)
    minutes, seconds = divmod(total_seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:03d}".rstrip("0").rstrip(".")
    text = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    return f"{text}{seconds}{fraction}S" if seconds or fraction or not text else text


def _row(entry: StatusEntry, *, is_cleaned: bool) -> SegmentRow:
    return SegmentRow(
        id=str(entry.id),
        status=status_words(entry.status),
        load_start_ms=entry.load_start_ms,
        load_end_ms=entry.load_end_ms,
        data_bytes=entry.data_bytes,
        index_bytes=entry.index_bytes,
        merged_to_id=None if entry.merged_into is None else str(entry.merged_into),
        segment_file=entry.segment_file,
        rows=entry.live_rows,
        files=entry.files,
        bad_rows=entry.bad_rows,
        is_major=entry.is_major,
        is_cleaned=is_cleaned,
        deleted_rows=entry.deleted_rows,
    )


def export_tablestatus(
    status: TableStatus, *, retired: Iterable[StatusEntry] = (), history: Iterable[StatusEntry] = ()
) -> str:
    """Write the status in the JSON of CarbonData's ``tablestatus``; `status_files` reads ``retired`` and ``history``.

    One line, an array of objects in id order; every value is text, also numbers; a field with its default is left out
    (research notes 1.2). Segments that clean has removed have ``visibility`` false, as in CarbonData's history file.
    """
    gone = [(entry, False) for entry in history] + [(entry, True) for entry in retired]
    # CarbonData knows a segment by its id alone: if a merge was undone and made again, the newest segment is written.
    gone.sort(key=lambda one: one[0].modified_ms or 0)
    newest = {entry.id: (entry, visible) for entry, visible in [*gone, *((entry, True) for entry in status.entries)]}
    ordered = [newest[segment] for segment in sorted(newest)]
    return json.dumps([_details(entry, visible=visible) for entry, visible in ordered], separators=(",", ":"))


def _details(entry: StatusEntry, *, visible: bool) -> dict[str, str]:
    finished = entry.segment_file is not None
    values = {
        "timestamp": None if entry.load_end_ms is None else str(entry.load_end_ms),
        "loadStatus": status_words(entry.status, shown=False),
        "loadName": str(entry.id),
        "dataSize": str(entry.data_bytes) if finished else None,
        "indexSize": str(entry.index_bytes) if finished else None,
        "modificationOrDeletionTimestamp": None if entry.modified_ms is None else str(entry.modified_ms),
        "loadStartTime": str(entry.load_start_ms),
        "mergedLoadName": None if entry.merged_into is None else str(entry.merged_into),
        "majorCompacted": "true" if entry.is_major else None,
        "visibility": None if visible else "false",
        "segmentFile": entry.segment_file,
        "fileFormat": FILE_FORMAT,
    }
    return {name: value for name, value in values.items() if value is not None}


# ---- reports of `packstone segments ...` ----


FAMILY = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsReport:
    """What a command reports about one version of a table."""

    table: str
    version: int

    def _head(self, status: str | None = None) -> dict[str, Any]:
        """The first keys of its JSON."""
        head: dict[str, Any] = {"format_version": 1, "table": self.table, "family": FAMILY}
        return head | ({} if status is None else {"status": status}) | {"version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(SegmentsReport):
    """A table's columns, sort order, the properties that were set, and all properties in effect."""

    columns: tuple[TableColumn, ...]
    sort_columns: tuple[str, ...]
    sort_scope: str
    properties: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]

    def to_json(self, *, status: str | None = None) -> dict[str, Any]:
        """The documented keys."""
        return {
            **self._head(status),
            "columns": [{"name": c.name, "type": c.type_text, "nullable": c.nullable} for c in self.columns],
            "sort_columns": list(self.sort_columns),
            "sort_scope": self.sort_scope,
            "properties": dict(self.properties),
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """One property before and after, as text; a default is shown as its value."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChanges(SegmentsReport):
    """What altering a table changed."""

    changes: tuple[PropertyChange, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            **self._head("committed" if self.changes else "nothing-to-do"),
            "changed": [{"property": c.name, "before": c.before, "after": c.after} for c in self.changes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """One live data file of a version."""

    path: str
    segment: SegmentId
    rows: int  # deleted ones included
    size_bytes: int
    deleted_rows: int = 0

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles(SegmentsReport):
    """All live data files of a version: exactly what any Parquet reader should read, if no row of them is deleted."""

    files: tuple[LiveFile, ...]

    @property
    def paths(self) -> list[str]:
        """Their paths, in the form that DuckDB and Polars accept; RefusedError if these would read deleted rows."""
        self.check_no_deletes()
        return [file.path for file in self.files]

    def check_no_deletes(self) -> None:
        """Raise RefusedError if a file has deleted rows, which other readers would return."""
        rows = sum(file.deleted_rows for file in self.files)
        if rows:
            ids = ",".join(map(str, dict.fromkeys(file.segment for file in self.files if file.deleted_rows)))
            raise RefusedError(
                f"{plural(rows, 'deleted row')} are still in the files, and other readers would return them; remove "
                f"them with `packstone compact {self.table} --strategy custom --ids {ids}`, or read the table with "
                "`packstone query`, `table.scan` or Spark's format `packstone`.",
                table=self.table,
                deleted_rows=rows,
            )

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            **self._head(),
            "rows": sum(file.rows - file.deleted_rows for file in self.files),
            "bytes": sum(file.size_bytes for file in self.files),
            "files": [
                {
                    "path": file.path,
                    "segment": str(file.segment),
                    "rows": file.rows,
                    "bytes": file.size_bytes,
                    "deleted_rows": file.deleted_rows,
                }
                for file in self.files
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport(SegmentsReport):
    """Which segments were deleted, or would be."""

    dry_run: bool
    segments: tuple[SegmentId, ...]
    rows: int
    size_bytes: int

    @property
    def what(self) -> str:
        """The segments as text, shortened if there are more than ten."""
        named = ", ".join(map(str, self.segments[:10]))
        more = f" and {len(self.segments) - 10:,} more" if len(self.segments) > 10 else ""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"segment{'s' if len(self.segments) > 1 else ''} {named}{more} ({rows})"

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        done = "planned" if self.dry_run else "committed"
        return {
            **self._head(done if self.segments else "nothing-to-do"),
            "segments": [str(one) for one in self.segments],
            "rows": self.rows,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFromSegment:
    """The rows that a delete took, or would take, from one segment."""

    id: SegmentId
    rows: int
    deleted_rows: int  # all deleted rows in the files of the segment
    rows_before: int

    @property
    def is_retired(self) -> bool:
        """Whether the segment has no row left."""
        return self.rows == self.rows_before

    def __str__(self) -> str:
        return f"{self.id} {self.rows} of {self.rows_before} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRowsReport(SegmentsReport):
    """Which rows were deleted, or would be; the segments without such rows are left out."""

    dry_run: bool
    filter: str  # as it was understood
    segments: tuple[DeletedFromSegment, ...]
    live_rows: int  # of the table before the delete

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(one.rows for one in self.segments)

    @property
    def what(self) -> str:
        """The rows and segments as text."""
        return f"{self.rows:,} of {plural(self.live_rows, 'row')} in {plural(len(self.segments), 'segment')}"

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        done = "planned" if self.dry_run else "committed"
        return {
            **self._head(done if self.segments else "nothing-to-do"),
            "filter": self.filter,
            "rows": self.rows,
            "rows_left": self.live_rows - self.rows,
            "segments": [
                {
                    "id": str(one.id),
                    "rows": one.rows,
                    "deleted_rows": one.deleted_rows,
                    "rows_left": one.rows_before - one.rows,
                    "retired": one.is_retired,
                }
                for one in self.segments
            ],
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
class ShownSegments(SegmentsReport):
    """The segments of a version, newest first."""

    written_ms: int
    rows: tuple[SegmentRow, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented keys; a segment has CarbonData's names."""
        return {
            **self._head(),
            "written_at": iso_moment(self.written_ms),
            "segments": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStatus(SegmentsReport):
    """A version in the format of CarbonData's `tablestatus`: one line of JSON."""

    text: str

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            **self._head(),
            "tablestatus": json.loads(self.text),
        }
