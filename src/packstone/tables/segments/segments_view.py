"""A table's status and properties in the strategies' own terms.

What somebody else is merging is left out, as if it were not there: it will be gone, or it will be there again for the
next command. What is being loaded stays in, in progress; the strategies leave it alone themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from packstone.model.segment import Segment
from packstone.model.segment_options import SegmentStrategy
from packstone.strategy.custom import CustomOptions
from packstone.strategy.days import SelectionOptions
from packstone.strategy.major import MajorOptions
from packstone.strategy.minor import MinorOptions
from packstone.strategy.segment_view import SegmentView
from packstone.tables.segments.properties import Properties, SortScope, alter, parse_properties
from packstone.tables.segments.status import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from packstone.model.segment import SegmentId
    from packstone.model.segment_options import SegmentOptions
    from packstone.tables.segments.segment_file import SegmentFile
    from packstone.tables.segments.status import StatusEntry, TableStatus

MergeOptions: TypeAlias = MinorOptions | MajorOptions | CustomOptions


def view_status(status: TableStatus, *, left_out: AbstractSet[SegmentId], now_ms: int) -> SegmentView:
    """The segments to choose from; ``left_out`` are those that somebody else is merging."""
    entries = status.entries if not left_out else [entry for entry in status.entries if entry.id not in left_out]
    return SegmentView(segments=tuple(map(view_entry, entries)), today=now_ms // DAY_MS)


def view_entry(entry: StatusEntry) -> Segment:
    """One segment as far as decisions need it."""
    return Segment(
        id=entry.id,
        size_bytes=entry.data_bytes,
        load_day=entry.load_day,
        status=entry.status,
        is_major=entry.is_major,
    )


def run_properties(status: TableStatus, options: SegmentOptions) -> Properties:
    """The table's properties with those of this run over them."""
    raw = alter(status.properties, dict(options.overrides), status.columns) if options.overrides else status.properties
    return parse_properties(raw, status.columns)


def merge_options(properties: Properties, options: SegmentOptions, *, resort: bool = False) -> MergeOptions:
    """How segments are chosen; ``resort``: the one segment that is named is not sorted as the table is."""
    selection = SelectionOptions(
        preserve=properties.compaction_preserve_segments,
        days=properties.allowed_compaction_days,
        days_rule=properties.compaction_days_rule,
    )
    match options.strategy:
        case SegmentStrategy.MINOR:
            return MinorOptions(
                level_threshold=properties.compaction_level_threshold,
                minor_size_mb=properties.minor_compaction_size,
                selection=selection,
            )
        case SegmentStrategy.MAJOR:
            return MajorOptions(major_size_mb=properties.major_compaction_size, selection=selection)
        case SegmentStrategy.CUSTOM:
            return CustomOptions(ids=options.ids, resort=resort)


def is_sorted_as(segment: SegmentFile, properties: Properties) -> bool:
    """Whether each run of a segment is in the table's order; sorted by more columns is sorted by fewer."""
    columns = properties.sort_columns
    return segment.sort_scope is not SortScope.NO_SORT and segment.sort_columns[: len(columns)] == columns


def may_resort(segment: SegmentFile, properties: Properties) -> bool:
    """Whether writing one segment anew would put its rows in a better order than they are in."""
    if not properties.sort_columns:
        return False
    if not is_sorted_as(segment, properties):
        return True
    return properties.sort_scope is SortScope.GLOBAL_SORT and len({file.run for file in segment.files}) > 1
