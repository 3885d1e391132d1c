"""The days rule: only segments loaded at about the same time, or only recent ones, are merged.

``window`` (as CarbonData codes it, mended): walk the segments in id order. The first one is the anchor; a later one
joins while its load day is less than ``days`` after the anchor's. The next one that does not is the next anchor.
Windows of one are dropped. The windows are tried in order until one gives a pick. CarbonData stops at the first
window of two: if that one never reaches a threshold, no later day is ever merged (starvation).

``recent`` (as CarbonData's documentation says): only segments loaded in the past ``days`` days count, today included.

    days 1, loads on day 0 0 1 1 1 1      window: {0 1} {2 3 4 5}     as coded: {0 1}     recent, today 1: {2 3 4 5}

Source: Apache CarbonData, `allowed.compaction.days` (research notes 2.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId
from packstone.strategy.pick import Decision, OptionsT, Pick, Skip
from packstone.strategy.segment_view import SegmentView

if TYPE_CHECKING:
    from packstone.model.segment import Segment
    from packstone.strategy.segment_view import Candidates

WindowRule: TypeAlias = Callable[[SegmentView, Sequence[int], OptionsT], Pick[SegmentId] | Skip]

MAX_PRESERVE = 100
MAX_DAYS = 100
_ALONE = 1


class DaysRule(StrEnum):
    """Which reading of `allowed.compaction.days`."""

    WINDOW = "window"
    RECENT = "recent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """What minor and major leave out before they choose."""

    preserve: int = 0
    days: int = 0  # 0: off
    days_rule: DaysRule = DaysRule.WINDOW
    as_coded: bool = False  # answer as CarbonData does, faults included

    def __post_init__(self) -> None:
        """Refuse a value out of its range; CarbonData takes 0 instead, see `as_coded_selection`."""
        if not 0 <= self.preserve <= MAX_PRESERVE:
            raise InvalidInputError(f"preserve is {self.preserve}; it must be 0 to {MAX_PRESERVE}.", option="preserve")
        if not 0 <= self.days <= MAX_DAYS:
            raise InvalidInputError(f"days is {self.days}; it must be 0 to {MAX_DAYS}.", option="days")


def as_coded_selection(*, preserve: int = 0, days: int = 0, days_rule: DaysRule = DaysRule.WINDOW) -> SelectionOptions:
    """CarbonData's reading of the settings: what is out of range is off."""
    return SelectionOptions(
        preserve=preserve if 0 <= preserve <= MAX_PRESERVE else 0,
        days=days if 0 <= days <= MAX_DAYS else 0,
        days_rule=days_rule,
        as_coded=True,
    )


def split_by_days(
    view: SegmentView, positions: Sequence[int], options: SelectionOptions
) -> tuple[tuple[int, ...], ...]:
    """The groups of segments that may be merged with each other, in the order in which they are tried."""
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
    chosen: Candidates,
    selection: SelectionOptions,
) -> Decision[SegmentId]:
    """Ask the rules for each window in turn; the first pick decides."""
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
        # A day before the anchor's joins too: ids, not days, set the order.
        if windows and segments[at].load_day - segments[windows[-1][0]].load_day < days:
            windows[-1].append(at)
        else:
            windows.append([at])
    return [tuple(window) for window in windows]
