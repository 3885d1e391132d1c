"""Plan all rounds of a minor or major compaction in one walk over the segments.

`to_fixpoint` (pick.py) runs the strategy again from the first segment after every merge: correct, but quadratic. A
table of 100,000 loads needs 33,000 merges, so here the walk continues where it is. Why the answers are the same:

*Minor*. A scan stops at the first list that is full and merges all of it. A second scan fills the same lists with the
same segments, except that this list is empty and the next level's has the result, at the place of its first member. No
other list grew, so only that one can be full now; otherwise the scan arrives where it stopped.

*Major*. The members ``a … b`` were taken because the segments before ``a`` did not fit with ``a``; so they do not fit
with the members' sum either. They ended before ``c`` because the sum with ``c`` is too large; so the result does not
take ``c``. A second scan arrives at ``c`` with nothing picked, as if the first had continued.

*Days*. Windows are tried in order, and a window without a pick never gets one. A result keeps the latest day of its
members; if that makes the window's first segment later, the window may extend further and is scanned again.

*Deleted rows*. A segment that no merge takes is rewritten by itself if at least ``deleted_pct`` of its rows are
deleted, also one that ``preserve`` and the days rule keep apart from others. This is CarbonData's horizontal
compaction, except that the delete files of a segment need no merging, because there is always one.

A *wave* is the set of merges that can run in parallel: all their members exist. Sizes of results are sums, which is
about their upper bound; a run plans again with the real sizes after each wave.

Source: our own; tests compare it with `to_fixpoint` on random tables.
"""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId
from packstone.model.sizes import MB, format_mb
from packstone.strategy.custom import CustomOptions, pick_custom
from packstone.strategy.major import MajorOptions, pick_major
from packstone.strategy.minor import REASONS, MinorOptions, may_join, pick_minor
from packstone.strategy.pick import Reason
from packstone.strategy.segment_view import DaysRule, SegmentView, choose_candidates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packstone.strategy.pick import Decision

    MergeOptions: TypeAlias = MinorOptions | MajorOptions | CustomOptions

_ENOUGH: Final = 2
_WHY_LENGTH: Final = (
    2_000  # the reason why nothing is left to do names every segment; of 100,000, the first ones are enough
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One merge of the plan; ``wave`` 0 means that all members exist now."""

    members: tuple[Segment, ...]
    result: Segment
    reason: Reason
    why: str
    wave: int

    def __str__(self) -> str:
        return f"{' '.join(str(one.id) for one in self.members)} -> {self.result.id}  reason={self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """All merges, in the order in which a repeated strategy picks them, and why there are no more."""

    merges: tuple[Merge, ...]
    why_not: str


def plan_rounds(view: SegmentView, options: MergeOptions) -> Rounds:
    """Plan to the fixpoint; the view comes from `begin_command`, and no two segments begin with the same load."""
    if isinstance(options, CustomOptions):
        return _plan_custom(view, options)
    if options.selection.as_coded:
        raise InvalidInputError("Only `explain` follows CarbonData's code; tables are compacted by our rules.")
    walk = _Walk(view, options)
    after = walk.run()
    rewrites = _plan_rewrites(view, options, merged={one.id for merge in walk.merges for one in merge.members})
    decision = pick_minor(after, options) if isinstance(options, MinorOptions) else pick_major(after, options)
    return Rounds(merges=(*walk.merges, *rewrites), why_not=_cut(decision.why_not))


def first_wave(rounds: Rounds) -> tuple[Merge, ...]:
    """Return the merges that can run now, in parallel."""
    return tuple(merge for merge in rounds.merges if merge.wave == 0)


def _plan_rewrites(
    view: SegmentView, options: MinorOptions | MajorOptions, *, merged: Collection[SegmentId]
) -> Iterator[Merge]:
    """Yield a merge of one segment for each that has many deleted rows and is in no other merge."""
    least = options.selection.deleted_pct
    for at in choose_candidates(view, preserve=0, as_coded=False).positions if least else ():
        one = view.segments[at]
        if one.deleted_pct >= least and one.id not in merged:
            yield Merge(
                members=(one,),
                result=join_segments((one,), SegmentId(one.id.load, one.id.merges + 1), is_major=one.is_major),
                reason=Reason.DELETED_ROWS,
                why=f"{Reason.DELETED_ROWS}: {one.deleted_pct}% of the rows of {one.id} are deleted >= {least}%",
                wave=0,
            )


def _plan_custom(view: SegmentView, options: CustomOptions) -> Rounds:
    decision: Decision[SegmentId] = pick_custom(view, options)
    merges = []
    for pick in decision.picks:
        members = tuple(view.segments[at] for at in pick.inputs)
        result = join_segments(members, pick.output, is_major=False)
        merges.append(Merge(members=members, result=result, reason=pick.reason, why=pick.why, wave=0))
    return Rounds(merges=tuple(merges), why_not=_cut(decision.why_not))


def join_segments(members: tuple[Segment, ...], output: SegmentId, *, is_major: bool) -> Segment:
    """Return the result of a merge; its size is the sum of its members' sizes, an estimate."""
    return Segment(
        id=output,
        size_bytes=sum(member.size_bytes for member in members),
        load_day=max(member.load_day for member in members),
        is_major=is_major,
    )


def _cut(why: str) -> str:
    return why if len(why) <= _WHY_LENGTH else f"{why[:_WHY_LENGTH]} …"


@dataclass(slots=True)
class _Walk:
    view: SegmentView
    options: MinorOptions | MajorOptions
    merges: list[Merge] = field(default_factory=list)
    _waves: dict[SegmentId, int] = field(default_factory=dict)  # result -> the first wave that can use it

    def run(self) -> SegmentView:
        """Plan all merges; return the table after them."""
        selection = self.options.selection
        chosen = choose_candidates(self.view, preserve=selection.preserve, as_coded=False)
        candidates = [self.view.segments[at] for at in chosen.positions]
        if selection.days and selection.days_rule is DaysRule.RECENT:
            candidates = [one for one in candidates if self.view.today - one.load_day < selection.days]
        gone = {one.id for one in candidates}
        left = [one for one in self.view.segments if one.id not in gone]
        waiting = deque(candidates)
        while waiting:
            window = _take_window(waiting, days=self._days)
            anchor = window[0]
            window = self._merge_window(window)
            if self._reaches_further(anchor, window[0]):
                waiting.extendleft(reversed(window))
            else:
                left += window
        return replace(self.view, segments=tuple(sorted(left, key=lambda one: one.id)))

    @property
    def _days(self) -> int:
        selection = self.options.selection
        return selection.days if selection.days_rule is DaysRule.WINDOW else 0

    def _reaches_further(self, anchor: Segment, first: Segment) -> bool:
        return self._days > 0 and first.load_day > anchor.load_day

    def _merge_window(self, window: list[Segment]) -> list[Segment]:
        """Merge until the window is done or its first segment changes; return the remaining segments in id order."""
        if isinstance(self.options, MinorOptions):
            return self._by_count(window, self.options)
        return self._by_size(window, self.options)

    def _by_count(self, window: list[Segment], options: MinorOptions) -> list[Segment]:
        thresholds = options.thresholds
        lists: list[list[Segment]] = [[] for _ in thresholds]
        left: list[Segment] = []
        for at, segment in enumerate(window):
            joining = segment
            while True:
                level = joining.id.merges
                if level >= len(thresholds) or not may_join(joining, options):
                    left.append(joining)
                    break
                bisect.insort(lists[level], joining, key=lambda one: one.id)
                if len(lists[level]) != thresholds[level]:
                    break
                members = tuple(lists[level])
                lists[level] = []
                why = f"{REASONS[level]}: {len(members)} of {thresholds[level]}"
                joining = self._merge(members, REASONS[level], why)
                if members[0] is window[0] and self._reaches_further(window[0], joining):
                    left += [joining, *window[at + 1 :]]
                    return _in_order(left, lists)
        return _in_order(left, lists)

    def _by_size(self, window: list[Segment], options: MajorOptions) -> list[Segment]:
        limit = options.major_size_mb * MB
        left: list[Segment] = []
        taken: list[Segment] = []
        total = 0
        for at, segment in enumerate(window):
            if segment.size_bytes <= limit and total + segment.size_bytes < limit:
                taken.append(segment)
                total += segment.size_bytes
                continue
            left += self._end_taking(taken, total, options)
            if left and self._reaches_further(window[0], left[0]):
                return left + window[at:]
            taken, total = [segment], segment.size_bytes
            if segment.size_bytes > limit:
                left.append(segment)
                taken, total = [], 0
        return left + self._end_taking(taken, total, options)

    def _end_taking(self, taken: list[Segment], total: int, options: MajorOptions) -> list[Segment]:
        if len(taken) < _ENOUGH:
            return taken
        named = " ".join(str(one.id) for one in taken)
        why = f"major-size: {named} make {format_mb(total)} < {options.major_size_mb} MB"
        return [self._merge(tuple(taken), Reason.MAJOR_SIZE, why)]

    def _merge(self, members: tuple[Segment, ...], reason: Reason, why: str) -> Segment:
        first = members[0].id
        result = join_segments(members, SegmentId(first.load, first.merges + 1), is_major=reason is Reason.MAJOR_SIZE)
        wave = max(self._waves.get(member.id, 0) for member in members)
        self._waves[result.id] = wave + 1
        self.merges.append(Merge(members=members, result=result, reason=reason, why=why, wave=wave))
        return result


def _take_window(waiting: deque[Segment], *, days: int) -> list[Segment]:
    """Remove and return the first segment and those after it that may be merged with it."""
    window = [waiting.popleft()]
    while waiting and (not days or waiting[0].load_day - window[0].load_day < days):
        window.append(waiting.popleft())
    return window


def _in_order(left: list[Segment], lists: list[list[Segment]]) -> list[Segment]:
    return sorted([*left, *(one for members in lists for one in members)], key=lambda one: one.id)
