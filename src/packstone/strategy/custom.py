"""Custom compaction: merge exactly the segments that the user names.

Every id must exist and hold finished rows in our own format; otherwise nothing is merged. Preserve, days, levels and
sizes have no effect. The result is named after the smallest id, whatever the order of the ids; there is one round only.
A single segment is rewritten by itself only if that changes it: if it must be sorted again, which the caller knows
(``resort``), or has deleted rows.

Cost: reads and writes the named segments once.

    before   0  1  2  3  4      ids 3,1
    after    0  1.1  2  4

Source: Apache CarbonData, `COMPACT 'CUSTOM'` (research notes 2.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.strategy.pick import Pick, Reason, Skip, Strategy, try_rules
from packstone.strategy.segment_view import VALID, SegmentView, apply_segment_decision, name_merged, order_segments

if TYPE_CHECKING:
    from packstone.model.segment import SegmentId
    from packstone.strategy.pick import Decision, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOptions:
    """The ids, in any order."""

    ids: tuple[SegmentId, ...]
    resort: bool = False  # a single segment is to be rewritten
    as_coded: bool = False


def pick_custom(view: SegmentView, options: CustomOptions) -> Decision[SegmentId]:
    """Pick the named segments, if all of them can be merged."""
    return try_rules(RULES, view, options)


def custom_strategy(options: CustomOptions) -> Strategy[SegmentView, SegmentId]:
    """Bind the options."""
    return Strategy(
        name="custom",
        pick=partial(pick_custom, options=options),
        apply=partial(apply_segment_decision, as_coded=options.as_coded),
    )


def check_ids(view: SegmentView, options: CustomOptions) -> None:
    """Raise InvalidInputError if an id cannot be merged: a user who names segments expects an error, not a skip.

    A table without segments has none to name, so nothing is refused there.
    """
    if not view.segments:
        return
    if not options.ids:
        raise InvalidInputError("A custom compaction needs the ids of its segments, for example 1,2.")
    refusal = refuse_id(view, options)
    if refusal is not None:
        raise InvalidInputError(f"{refusal}; name only segments that can be merged.")


def refuse_id(view: SegmentView, options: CustomOptions) -> str | None:
    """Say which id cannot be merged; None if all can be."""
    segments = {segment.id: segment for segment in view.segments}
    for wanted in options.ids:
        segment = segments.get(wanted)
        if segment is None:
            return f"Segment {wanted} does not exist"
        if segment.is_external:
            return f"Segment {wanted} is in another format"
        if segment.status not in VALID:
            return f"Segment {wanted} is not valid: its status is {segment.status}"
    return None


def pick_by_ids(view: SegmentView, options: CustomOptions) -> Pick[SegmentId] | Skip:
    """Merge the named segments in id order."""
    if not view.segments:
        return Skip(why="custom: there are no segments")
    if not options.ids:
        return Skip(why="custom: no segment is named")
    refusal = refuse_id(view, options)
    if refusal is not None:
        return Skip(why=f"custom: {refusal}")
    wanted = set(options.ids)
    inputs = tuple(
        at for at in order_segments(view.segments, as_coded=options.as_coded) if view.segments[at].id in wanted
    )
    if len(inputs) == 1 and not options.resort:
        return Skip(why=f"custom: {options.ids[0]} alone is merged already")
    return Pick(
        inputs=inputs,
        output=name_merged(view, inputs, as_coded=options.as_coded),
        reason=Reason.CUSTOM,
        why=f"custom: {' '.join(str(view.segments[at].id) for at in inputs)} as named",
    )


RULES: Final[tuple[Rule[SegmentView, CustomOptions, SegmentId], ...]] = (pick_by_ids,)
