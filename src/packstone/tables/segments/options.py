"""The options of a segment table's compaction, and the table's status and properties as the strategies take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId
from packstone.model.sizes import parse_bytes
from packstone.model.unit import Verify
from packstone.strategy.custom import CustomOptions
from packstone.strategy.major import MajorOptions
from packstone.strategy.minor import MinorOptions
from packstone.strategy.segment_view import SegmentView, SelectionOptions
from packstone.tables.family import Option, Options, find_strategy, option, verify_option
from packstone.tables.segments.format.properties import (
    PROPERTY_NAMES,
    Properties,
    SortScope,
    alter,
    free_properties,
    parse_properties,
)
from packstone.tables.segments.format.status import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from packstone.tables.segments.format.segment_file import SegmentFile
    from packstone.tables.segments.format.status import StatusEntry, TableStatus

_GB = 1 << 30
_MB = 1 << 20


class SegmentStrategy(StrEnum):
    """How a compaction selects segments."""

    MINOR = "minor"  # by their number, in levels
    MAJOR = "major"  # by their size
    CUSTOM = "custom"  # by their ids


def parse_segment_ids(text: str) -> tuple[SegmentId, ...]:
    """Read ``1,2`` or ``0.2,4.1``."""
    return tuple(SegmentId.parse(part.strip()) for part in text.split(","))


def check_segment_ids(ids: object) -> tuple[SegmentId, ...]:
    """The segments of an argument, each given by its id, as text or as a number.

    A text alone is refused: of "10", a list of its characters, the segments 1 and 0 would be taken.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidInputError(f"ids must be a list of segments, such as ['0.1', 4], not {ids!r}.", option="ids")
    return tuple(one if isinstance(one, SegmentId) else SegmentId.parse(str(one)) for one in ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions(Options):
    """Which segments to merge, and how the work is cut."""

    strategy: SegmentStrategy = SegmentStrategy.MINOR  # a member or its name
    ids: tuple[SegmentId, ...] = option(
        "ids", parse_segment_ids, default=(), text="Segments that --strategy custom merges, for example 1,2,0.1."
    )
    overrides: tuple[tuple[str, str], ...] = ()  # properties for this run only
    verify: Verify = verify_option(
        "Compare every row of the inputs and of the merged segment (content), or only their number (count)."
    )
    task_bytes: int = 256 * _MB  # a bigger merge is split by key over tasks
    memory_bytes: int = 256 * _MB
    # Merges that share no segments run in parallel up to this size.
    commit_every_bytes: int = option(
        "commit-every",
        parse_bytes,
        default=16 * _GB,
        shown="16G",
        text="Publish a version whenever this many bytes were rewritten.",
    )

    @classmethod
    def table_options(cls) -> tuple[Option, ...]:
        """The properties, under CarbonData's names, that one run may override."""
        return free_properties()

    @classmethod
    def why_refused(cls, key: str) -> str | None:
        """Say why a property that has no effect on a compaction is refused; None for other keys."""
        if key.upper() in PROPERTY_NAMES:
            return f"{key.upper()} has no effect on a compaction; `packstone segments alter` changes it for the table."
        return None

    def __post_init__(self) -> None:
        """Refuse ids where they have no effect, a custom compaction without ids, and other invalid values."""
        object.__setattr__(self, "strategy", find_strategy(SegmentStrategy, self.strategy, title="segment tables"))
        object.__setattr__(self, "ids", check_segment_ids(self.ids))
        if self.strategy is SegmentStrategy.CUSTOM and not self.ids:
            raise InvalidInputError("A custom compaction needs the ids of its segments, for example --ids 1,2.")
        if self.strategy is not SegmentStrategy.CUSTOM and self.ids:
            raise InvalidInputError(f"--ids goes with --strategy custom; {self.strategy} chooses its segments itself.")
        if len(set(self.ids)) != len(self.ids):
            raise InvalidInputError(f"--ids {','.join(map(str, self.ids))} names a segment twice.")
        if "MAJOR_COMPACTION_SIZE" in dict(self.overrides) and self.strategy is not SegmentStrategy.MAJOR:
            what = f"MAJOR_COMPACTION_SIZE goes with --strategy major; {self.strategy} has no such limit."
            raise InvalidInputError(what, option="MAJOR_COMPACTION_SIZE")
        for name in ("task_bytes", "memory_bytes", "commit_every_bytes"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(f"{name} must be larger than zero.", option=name)


def parse_properties_given(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read ``NAME=VALUE`` pairs; refuse a name that is given twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidInputError(f"--property {pair} is not NAME=VALUE.")
        if name.upper() in found:
            raise InvalidInputError(f"--property {name} is given twice.")
        found[name.upper()] = value
    return tuple(found.items())


MergeOptions: TypeAlias = MinorOptions | MajorOptions | CustomOptions


def view_status(status: TableStatus, *, left_out: AbstractSet[SegmentId], now_ms: int) -> SegmentView:
    """The segments that a strategy may select from, without those in ``left_out``.

    A segment that another run is merging is left out: it will disappear, or be available to the next command. Loads in
    progress are included; the strategies skip them.
    """
    entries = status.entries if not left_out else [entry for entry in status.entries if entry.id not in left_out]
    return SegmentView(segments=tuple(map(view_entry, entries)), today=now_ms // DAY_MS)


def view_entry(entry: StatusEntry) -> Segment:
    """One segment with the facts that a strategy needs."""
    return Segment(
        id=entry.id,
        size_bytes=entry.data_bytes,
        load_day=entry.load_day,
        status=entry.status,
        is_major=entry.is_major,
        deleted_pct=100 * entry.deleted_rows // max(1, entry.rows),
    )


def run_properties(status: TableStatus, options: SegmentOptions) -> Properties:
    """The table's properties with the overrides of this run."""
    raw = alter(status.properties, dict(options.overrides), status.columns) if options.overrides else status.properties
    return parse_properties(raw, status.columns)


def merge_options(properties: Properties, options: SegmentOptions, *, resort: bool = False) -> MergeOptions:
    """The options of the strategy; ``resort``: the single requested segment is unsorted, or has deleted rows."""
    selection = SelectionOptions(
        preserve=properties.compaction_preserve_segments,
        days=properties.allowed_compaction_days,
        days_rule=properties.compaction_days_rule,
        deleted_pct=properties.compaction_deleted_pct,
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
    """Whether each run of a segment is in the table's sort order; sorting by additional columns is fine."""
    columns = properties.sort_columns
    return segment.sort_scope is not SortScope.NO_SORT and segment.sort_columns[: len(columns)] == columns


def may_resort(segment: SegmentFile, properties: Properties) -> bool:
    """Whether rewriting one segment would improve the order of its rows."""
    if not properties.sort_columns:
        return False
    if not is_sorted_as(segment, properties):
        return True
    return properties.sort_scope is SortScope.GLOBAL_SORT and len({file.run for file in segment.files}) > 1
