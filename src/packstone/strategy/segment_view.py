"""Segments as the strategies see them: which may be merged at all, how the result is called, what is left after.

Before minor and major count or weigh anything, they drop, in this order:

1. segments of another format, statuses that hold no finished rows, and what was loaded after the command began;
2. the newest ``preserve`` of those left, merged ones included;
3. what the days rule does not let come together (days.py).

A merged segment is named after its first member, with one merge more: ``4`` -> ``4.1``, ``0.1`` -> ``0.2``. Ids are
never used twice: if that id is taken, the next free one is. The result keeps the *latest load day* of its members, so
the days rule goes on protecting them. CarbonData (``as_coded``) gives it the day of the compaction, sorts ids as
decimal fractions, and does not keep to what existed at the start.

Source: Apache CarbonData `CarbonDataMergerUtil` (research notes 1.3, 1.4, 2.1-2.5, 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.strategy.pick import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.strategy.pick import Decision

VALID: Final = frozenset({SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS, SegmentStatus.MARKED_FOR_UPDATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """A segment table at one moment; ``inputs`` of a pick are positions in ``segments``."""

    segments: tuple[Segment, ...]  # in id order
    today: int = 0
    last_load: int | None = None  # the newest load when the command began; None: now

    def __post_init__(self) -> None:
        """Refuse an id that stands twice."""
        seen: set[SegmentId] = set()
        for segment in self.segments:
            if segment.id in seen:
                raise InvalidInputError(f"Segment {segment.id} stands twice; an id belongs to one segment.")
            seen.add(segment.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The segments that are left to choose from, by position, and the steps that left them."""

    positions: tuple[int, ...]
    steps: tuple[str, ...]


def begin_command(view: SegmentView) -> SegmentView:
    """Fix the start set: loads that come in later are none of this command's business."""
    return replace(view, last_load=max((segment.id.load for segment in view.segments), default=-1))


def order_segments(segments: Sequence[Segment], *, as_coded: bool) -> tuple[int, ...]:
    """Positions in id order; as coded, ids are decimal fractions: 0.10 is 0.1 and stands before 0.2."""
    if as_coded:
        return tuple(sorted(range(len(segments)), key=lambda at: float(str(segments[at].id))))
    return tuple(sorted(range(len(segments)), key=lambda at: segments[at].id))


def choose_candidates(view: SegmentView, *, preserve: int, as_coded: bool) -> Candidates:
    """Drop what must not be merged, and the newest ones that are to be preserved."""
    bound = None if as_coded else view.last_load
    native = [
        at
        for at in order_segments(view.segments, as_coded=as_coded)
        if not view.segments[at].is_external and (bound is None or view.segments[at].id.load <= bound)
    ]
    valid = [at for at in native if view.segments[at].status in VALID]
    steps = [f"valid: {len(valid)} of {len(view.segments)} segments"]
    kept = valid[: max(0, len(valid) - preserve)]
    if preserve:
        spared = " ".join(str(view.segments[at].id) for at in valid[len(kept) :])
        steps.append(f"preserve: the newest {preserve} stay: {spared or 'none'}")
    return Candidates(positions=tuple(kept), steps=tuple(steps))


def name_merged(view: SegmentView, inputs: Sequence[int], *, as_coded: bool) -> SegmentId:
    """Name the merge of these segments: their first member's id with one merge more, and never a taken one."""
    first = view.segments[inputs[0]].id
    merges = first.merges
    if not as_coded:
        merges = max(segment.id.merges for segment in view.segments if segment.id.load == first.load)
    return SegmentId(first.load, merges + 1)


def apply_segment_decision(view: SegmentView, decision: Decision[SegmentId], *, as_coded: bool = False) -> SegmentView:
    """Put the merged segment in the place of its members."""
    segments = list(view.segments)
    for pick in decision.picks:
        members = [view.segments[at] for at in pick.inputs]
        merged = Segment(
            id=pick.output,
            size_bytes=sum(member.size_bytes for member in members),
            load_day=view.today if as_coded else max(member.load_day for member in members),
            is_major=pick.reason is Reason.MAJOR_SIZE,
        )
        gone = {member.id for member in members}
        segments = [*(segment for segment in segments if segment.id not in gone), merged]
    return replace(view, segments=tuple(sorted(segments, key=lambda segment: segment.id)))
