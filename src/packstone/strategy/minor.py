"""Minor compaction: merge segments when there are enough of one level.

Scan the candidates (segment_view.py) in id order and keep one list for each level: segments never merged,
merged once, and, if the third level is on, merged twice. The first list that reaches its threshold is merged.
Skipped on the way, without resetting a list: segments at or above the size cap, results of a major compaction,
segments marked for update, and those merged more often than there are levels. Members need not be adjacent.

A threshold of 0 switches its level off, and so does 1: a single segment is never merged. (As coded, a 1 on the first
level ends every scan with nothing.)
With the default ``4,3`` one segment is left for every 12 loads, and those are never merged again: their number grows
without bound. A third number (``4,3,3``) merges them too; it is off by default, because CarbonData has two levels.

Cost: a row is written once per level, 3 times with the third one; the number of segments is about
``loads / (L1 × L2)``; the inputs stay until they are cleaned.

    before   0  1  2  3  4  5      level_threshold 4,3
    after    0.1  4  5             level-1: 4 of 4

Source: Apache CarbonData `identifySegmentsToBeMergedBasedOnSegCount` (research notes 2.2, 2.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentStatus
from packstone.model.sizes import MB
from packstone.strategy.pick import Pick, Reason, Skip, Strategy
from packstone.strategy.segment_view import (
    SegmentView,
    SelectionOptions,
    WindowRule,
    apply_segment_decision,
    name_merged,
    try_windows,
)

if TYPE_CHECKING:
    from packstone.model.segment import Segment, SegmentId
    from packstone.strategy.pick import Decision

DEFAULT_THRESHOLD: Final = (4, 3)
MAX_THRESHOLD: Final = 10_000
REASONS: Final = (Reason.LEVEL_1, Reason.LEVEL_2, Reason.LEVEL_3)
AS_CODED_LEVELS: Final = 2
FINISHED: Final = frozenset({SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorOptions:
    """The number of segments that make a merge, for each level."""

    level_threshold: tuple[int, ...] = DEFAULT_THRESHOLD
    minor_size_mb: int | None = None  # segments of this size and more are left alone; None: no cap
    selection: SelectionOptions = field(default_factory=SelectionOptions)

    def __post_init__(self) -> None:
        """Refuse values that CarbonData would silently replace."""
        shown = ",".join(map(str, self.level_threshold))
        if not 1 <= len(self.level_threshold) <= len(REASONS):
            raise InvalidInputError(f"level_threshold {shown!r} must have one to three numbers, for example 4,3.")
        if not all(0 <= number <= MAX_THRESHOLD for number in self.level_threshold):
            raise InvalidInputError(f"level_threshold {shown} must lie between 0 and {MAX_THRESHOLD}.")
        if self.minor_size_mb is not None and self.minor_size_mb <= 0:
            raise InvalidInputError(f"minor_size_mb is {self.minor_size_mb}; it must be above 0.")

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The effective numbers, at least two: 1 means 0, except, as coded, on the first level."""
        numbers = [0 if number == 1 else number for number in self.level_threshold]
        if self.selection.as_coded:
            numbers = [self.level_threshold[0], *numbers[1:AS_CODED_LEVELS]]
        return (*numbers, 0) if len(numbers) == 1 else tuple(numbers)


def parse_level_threshold(text: str) -> tuple[int, ...]:
    """Parse a text such as ``4,3``."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a level threshold; write for example 4,3.", value=text) from None


def as_coded_minor(text: str, *, minor_size_mb: int | None, selection: SelectionOptions) -> MinorOptions:
    """Return the options as CarbonData reads them: one bad number selects the default, a cap of 0 or less is no cap."""
    try:
        numbers = parse_level_threshold(text)
    except InvalidInputError:
        numbers = DEFAULT_THRESHOLD
    if not all(0 <= number <= MAX_THRESHOLD for number in numbers):
        numbers = DEFAULT_THRESHOLD
    cap = minor_size_mb if minor_size_mb is not None and minor_size_mb > 0 else None
    return MinorOptions(level_threshold=numbers[:AS_CODED_LEVELS], minor_size_mb=cap, selection=selection)


def pick_minor(view: SegmentView, options: MinorOptions) -> Decision[SegmentId]:
    """Choose the first level that is full; the days' windows are tried in order."""
    return try_windows(RULES, view, options, selection=options.selection)


def minor_strategy(options: MinorOptions) -> Strategy[SegmentView, SegmentId]:
    """Bind the options; the first view of a command goes through `begin_command`."""
    return Strategy(
        name="minor",
        pick=partial(pick_minor, options=options),
        apply=partial(apply_segment_decision, as_coded=options.selection.as_coded),
    )


def pick_by_count(view: SegmentView, window: Sequence[int], options: MinorOptions) -> Pick[SegmentId] | Skip:
    """Fill a list for each level in id order, and pick the first list that is full."""
    thresholds = options.thresholds
    lists: list[list[int]] = [[] for _ in thresholds]
    for at in window:
        segment = view.segments[at]
        if segment.id.merges >= len(thresholds) or not may_join(segment, options):
            continue
        members = lists[segment.id.merges]
        members.append(at)
        if len(members) == thresholds[segment.id.merges]:
            return _merge(view, tuple(members), options)
    return Skip(
        why="; ".join(_describe_level(level, len(members), thresholds[level]) for level, members in enumerate(lists))
    )


RULES: Final[tuple[WindowRule[MinorOptions], ...]] = (pick_by_count,)


def _merge(view: SegmentView, members: tuple[int, ...], options: MinorOptions) -> Pick[SegmentId] | Skip:
    level = view.segments[members[0]].id.merges
    reason = REASONS[level]
    if len(members) == 1:
        return Skip(why=f"{reason}: a threshold of 1 would merge {view.segments[members[0]].id} with itself")
    return Pick(
        inputs=members,
        output=name_merged(view, members, as_coded=options.selection.as_coded),
        reason=reason,
        why=f"{reason}: {len(members)} of {options.thresholds[level]}",
    )


def may_join(segment: Segment, options: MinorOptions) -> bool:
    """Whether a segment takes part in minor compaction at all, whatever its level."""
    is_capped = options.minor_size_mb is not None and segment.size_bytes // MB >= options.minor_size_mb
    return not is_capped and not segment.is_major and segment.status in FINISHED


def _describe_level(level: int, have: int, threshold: int) -> str:
    return f"{REASONS[level]}: {f'{have} of {threshold}' if threshold else 'off'}"
