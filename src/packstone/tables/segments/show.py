"""Segments as people see them: CarbonData's eight columns, and its long form with rows and files added.

What is retired is shown until clean removes it; what clean has removed is shown with the history only. Ids stand in
descending order, as pairs of numbers. Times are written in UTC: a table is shared by people of many zones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentStatus
from packstone.model.sizes import format_bytes
from packstone.tables.segments.status import StatusEntry, TableStatus

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
    """One segment, value by value; None is what CarbonData calls NA."""

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
    is_cleaned: bool  # only the history knows it

    @property
    def time_taken_ms(self) -> int:
        """How long the load took; -1 if it is not over."""
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
        }


def show_segments(
    status: TableStatus,
    *,
    retired: Iterable[StatusEntry] = (),
    history: Iterable[StatusEntry] = (),
    limit: int | None = None,
) -> tuple[SegmentRow, ...]:
    """The newest segments first; ``retired`` and ``history`` as `status_files` reads them."""
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
        return f"{moment_ms} ms"  # beyond any calendar; a slip of somebody's
    return f"{seconds:%Y-%m-%d %H:%M:%S}.{moment_ms % 1000:03d}"


def iso_duration(milliseconds: int) -> str:
    """An ISO duration without its PT: ``1H2M3.5S``; seconds always stand, unless it is whole minutes."""
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
        rows=entry.rows,
        files=entry.files,
        bad_rows=entry.bad_rows,
        is_major=entry.is_major,
        is_cleaned=is_cleaned,
    )
