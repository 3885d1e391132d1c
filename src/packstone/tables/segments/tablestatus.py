"""The status in the JSON of CarbonData's ``tablestatus``, for tools that read that.

One line, an array of objects in id order; every value is text, also numbers; a field with its default is left out
(research notes 1.2). Segments that clean has removed have ``visibility`` false, as in CarbonData's history file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from packstone.tables.segments.show import FILE_FORMAT, status_words
from packstone.tables.segments.status import StatusEntry, TableStatus


def export_tablestatus(
    status: TableStatus, *, retired: Iterable[StatusEntry] = (), history: Iterable[StatusEntry] = ()
) -> str:
    """Write the entries; ``retired`` and ``history`` as `status_files` reads them."""
    marked = [(entry, True) for entry in (*status.entries, *retired)] + [(entry, False) for entry in history]
    ordered = sorted(marked, key=lambda one: one[0].id)
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
