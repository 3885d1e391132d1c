"""Major compaction: merge neighbouring segments as long as their total size stays below a limit.

Walk the candidates (segment_view.py) in id order with a running sum:

1. A segment above the limit is a barrier: two or more taken so far are the answer; fewer are dropped, and the scan
   begins again after it.
2. If the sum with this segment stays *below* the limit, take it.
3. Else two or more taken so far are the answer; fewer are dropped, and the scan begins again with this segment.

So the limit bounds the result: 500 + 524 MB are not merged at 1024 MB, 500 + 523 MB are. Results of earlier major
compactions are merged again. A command repeats this until nothing is picked, over what existed when it began.

Cost: a row may be rewritten by every major compaction until its segment reaches the limit, and not after that.
Readers meet the fewest segments, and the inputs stay until they are cleaned.

    before   0:100  1:200  2:900  3:50  4:60      major_size_mb 1024
    after    0.1:300+major  2:900  3:50  4:60     and in the next round 2, 3 and 4 become 2.1:1010+major

Source: Apache CarbonData `identifySegmentsToBeMergedBasedOnSize` (research notes 2.7, 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.sizes import MB, format_mb
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
    from packstone.model.segment import SegmentId
    from packstone.strategy.pick import Decision

DEFAULT_MAJOR_SIZE_MB: Final = 1024
_ENOUGH: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MajorOptions:
    """The maximum size of a merged segment."""

    major_size_mb: int = DEFAULT_MAJOR_SIZE_MB
    selection: SelectionOptions = field(default_factory=SelectionOptions)

    def __post_init__(self) -> None:
        """Refuse a size below zero; CarbonData accepts it and never merges anything."""
        if self.major_size_mb < 0 and not self.selection.as_coded:
            raise InvalidInputError(f"major_size_mb is {self.major_size_mb}; it must be at least 0.")


def pick_major(view: SegmentView, options: MajorOptions) -> Decision[SegmentId]:
    """Choose the first neighbours whose sum stays below the limit; the days' windows are tried in order."""
    return try_windows(RULES, view, options, selection=options.selection)


def major_strategy(options: MajorOptions) -> Strategy[SegmentView, SegmentId]:
    """Bind the options; the first view of a command goes through `begin_command`."""
    return Strategy(
        name="major",
        pick=partial(pick_major, options=options),
        apply=partial(apply_segment_decision, as_coded=options.selection.as_coded),
    )


def pick_by_size(view: SegmentView, window: Sequence[int], options: MajorOptions) -> Pick[SegmentId] | Skip:
    """Take neighbours while their sum stays below the limit."""
    limit = options.major_size_mb * MB
    taken: list[int] = []
    total = 0
    trace: list[str] = []
    for at in window:
        segment = view.segments[at]
        if segment.size_bytes > limit:
            trace.append(f"{segment.id} has {format_mb(segment.size_bytes)} > {options.major_size_mb} MB")
            if len(taken) >= _ENOUGH:
                break
            taken, total = [], 0
            continue
        total += segment.size_bytes
        trace.append(f"{segment.id} makes {format_mb(total)} < {options.major_size_mb} MB? {_yes_no(total < limit)}")
        if total < limit:
            taken.append(at)
        elif len(taken) >= _ENOUGH:
            break
        else:
            taken, total = [at], segment.size_bytes
    why = f"major-size: {', '.join(trace) or 'no segments'}"
    if len(taken) < _ENOUGH:
        return Skip(why=why)
    output = name_merged(view, taken, as_coded=options.selection.as_coded)
    return Pick(inputs=tuple(taken), output=output, reason=Reason.MAJOR_SIZE, why=why)


RULES: Final[tuple[WindowRule[MajorOptions], ...]] = (pick_by_size,)


def _yes_no(is_true: bool) -> str:  # noqa: FBT001 - a truth value is the subject
    return "yes" if is_true else "no"
