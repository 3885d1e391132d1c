"""Segment tables: the row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packstone.tables.family import Family
from packstone.tables.foreign import holds

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_STATUS: Final = re.compile(r"^\d{20}\.json$")


def is_segments(io: FileIO, directory: str) -> bool:
    """A status folder with a version in it."""
    return holds(io, f"{directory}/Metadata/status", _STATUS)


SEGMENTS: Final = Family(
    name="segments",
    title="segment tables",
    singular="a segment table",
    part="segment",
    options="packstone.tables.segments.options:SegmentOptions",
    strategies={"minor": "by number", "major": "by size", "custom": "as named by --ids"},
    table="packstone.tables.segments.table:SegmentsTable",
    source="packstone.tables.segments.scan:SegmentSource",
    find=is_segments,
    filters=frozenset({"min_age"}),
)
