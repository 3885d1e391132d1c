"""Segments as the strategies see them: which may be merged, how the result is named, and the table after a merge.

Before minor and major count segments or add up sizes, they drop, in this order:

1. segments of another format, segments without finished rows, and those loaded after the command began;
2. the newest ``preserve`` of the rest, merged ones included;
3. what the days rule keeps apart.

A merged segment is named after its first member, with one merge more: ``4`` -> ``4.1``, ``0.1`` -> ``0.2``. Ids are
never used twice: if that id is taken, the next free one is used. The result keeps the *latest load day* of its members,
so that the days rule still protects them. CarbonData (``as_coded``) gives it the day of the compaction, sorts ids as
decimal fractions, and also merges what was loaded after the command began.

The days rule merges only segments loaded at about the same time, or only recent ones:

``window`` (as CarbonData codes it, with its fault fixed): walk the segments in id order. The first one is the anchor; a
later one joins while its load day is less than ``days`` after the anchor's. The next one that does not is the next
anchor. Windows of one segment are dropped. The windows are tried in order until one gives a pick. CarbonData stops at
the first window of two: if that one never reaches a threshold, no later day is ever merged (starvation).

``recent`` (as CarbonData's documentation says): only segments loaded in the past ``days`` days count, today included.

    days 1, loads on day 0 0 1 1 1 1      window: {0 1} {2 3 4 5}     as coded: {0 1}     recent, today 1: {2 3 4 5}

Source: Apache CarbonData `CarbonDataMergerUtil`, `allowed.compaction.days` (research notes 1.3, 1.4, 2.1-2.5, 3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.strategy.pick import Decision, OptionsT, Pick, Reason, Skip

VALID: Final = frozenset({SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS, SegmentStatus.MARKED_FOR_UPDATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """A segment table at one moment; ``inputs`` of a pick are positions in ``segments``."""

    segments: tuple[Segment, ...]  # in id order
    today: int = 0
    last_load: int | None = None  # the newest load when the command began; None: now

    def __post_init__(self) -> None:
        """Refuse an id that occurs twice."""
        seen: set[SegmentId] = set()
        for segment in self.segments:
            if segment.id in seen:
                raise InvalidInputError(f"Segment {segment.id} occurs twice; an id belongs to one segment.")
            seen.add(segment.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The positions of the segments to choose from, and the steps that led to them."""

    positions: tuple[int, ...]
    steps: tuple[str, ...]


def begin_command(view: SegmentView) -> SegmentView:
    """Fix the set of segments: the command ignores loads that arrive later."""
    return replace(view, last_load=max((segment.id.load for segment in view.segments), default=-1))


def order_segments(segments: Sequence[Segment], *, as_coded: bool) -> tuple[int, ...]:
    """Return the positions in id order; as coded, ids are decimal fractions: 0.10 is 0.1 and precedes 0.2."""
    if as_coded:
        return tuple(sorted(range(len(segments)), key=lambda at: float(str(segments[at].id))))
    return tuple(sorted(range(len(segments)), key=lambda at: segments[at].id))


def choose_candidates(view: SegmentView, *, preserve: int, as_coded: bool) -> Candidates:
    """Drop the segments that must not be merged, and the newest ones to preserve."""
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
    """Return the id of a merge: its first member's id with one merge more, and never an id that is taken."""
    first = view.segments[inputs[0]].id
    merges = first.merges
    if not as_coded:
        merges = max(segment.id.merges for segment in view.segments if segment.id.load == first.load)
    return SegmentId(first.load, merges + 1)


def apply_segment_decision(view: SegmentView, decision: Decision[SegmentId], *, as_coded: bool = False) -> SegmentView:
    """Replace the members of each pick by the merged segment."""
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


# ---- the days rule ----

WindowRule: TypeAlias = Callable[[SegmentView, Sequence[int], OptionsT], Pick[SegmentId] | Skip]

MAX_PRESERVE = 100
MAX_DAYS = 100
_ALONE = 1


class DaysRule(StrEnum):
    """The interpretation of `allowed.compaction.days`."""

    WINDOW = "window"
    RECENT = "recent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """The segments that minor and major exclude before they choose."""

    preserve: int = 0
    days: int = 0  # 0: off
    days_rule: DaysRule = DaysRule.WINDOW
    as_coded: bool = False  # behave as CarbonData does, faults included
    deleted_pct: int = 0  # a segment with at least this share of deleted rows is rewritten if no merge takes it; 0: off

    def __post_init__(self) -> None:
        """Refuse a value out of range; CarbonData uses 0 instead, see `as_coded_selection`."""
        if not 0 <= self.preserve <= MAX_PRESERVE:
            raise InvalidInputError(f"preserve is {self.preserve}; it must be 0 to {MAX_PRESERVE}.", option="preserve")
        if not 0 <= self.days <= MAX_DAYS:
            raise InvalidInputError(f"days is {self.days}; it must be 0 to {MAX_DAYS}.", option="days")


def as_coded_selection(*, preserve: int = 0, days: int = 0, days_rule: DaysRule = DaysRule.WINDOW) -> SelectionOptions:
    """Return the options as CarbonData reads them: a value out of range means off."""
    return SelectionOptions(
        preserve=preserve if 0 <= preserve <= MAX_PRESERVE else 0,
        days=days if 0 <= days <= MAX_DAYS else 0,
        days_rule=days_rule,
        as_coded=True,
    )


def split_by_days(
    view: SegmentView, positions: Sequence[int], options: SelectionOptions
) -> tuple[tuple[int, ...], ...]:
    """Return the groups of segments that may be merged with each other, in the order in which they are tried."""
    if options.days == 0:
        return (tuple(positions),)
    if options.days_rule is DaysRule.RECENT:
        return (tuple(at for at in positions if view.today - view.segments[at].load_day < options.days),)
    windows = _windows(view.segments, positions, days=options.days)
    if not options.as_coded:
        return tuple(window for window in windows if len(window) > _ALONE)
    first = next((window for window in windows if len(window) > _ALONE), windows[-1] if windows else ())
    return (first,)


def try_windows(
    rules: Sequence[WindowRule[OptionsT]],
    view: SegmentView,
    options: OptionsT,
    *,
    selection: SelectionOptions,
) -> Decision[SegmentId]:
    """Try the rules on each window of the candidates in turn; the first pick decides."""
    chosen = choose_candidates(view, preserve=selection.preserve, as_coded=selection.as_coded)
    windows = split_by_days(view, chosen.positions, selection)
    steps, skips = list(chosen.steps), []
    for window in windows:
        if selection.days:
            steps.append(f"days: {selection.days_rule} {_ids(view, window)}")
        for rule in rules:
            answer = rule(view, window, options)
            steps.append(answer.why)
            if isinstance(answer, Pick):
                return Decision(answers=(answer,), steps=tuple(steps))
            skips.append(Skip(why=f"{_ids(view, window)}: {answer.why}") if len(windows) > 1 else answer)
    if not windows:
        skips.append(Skip(why=f"days: no two segments lie within {selection.days} days"))
        steps.append(skips[-1].why)
    return Decision(answers=tuple(skips), steps=tuple(steps))


def _ids(view: SegmentView, positions: Sequence[int]) -> str:
    return " ".join(str(view.segments[at].id) for at in positions) or "none"


def _windows(segments: Sequence[Segment], positions: Sequence[int], *, days: int) -> list[tuple[int, ...]]:
    windows: list[list[int]] = []
    for at in positions:
        # A segment of an earlier day than the anchor's joins too: ids, not days, set the order.
        if windows and segments[at].load_day - segments[windows[-1][0]].load_day < days:
            windows[-1].append(at)
        else:
            windows.append([at])
    return [tuple(window) for window in windows]
