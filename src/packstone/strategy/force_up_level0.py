"""Force up level 0: like universal, but level 0 is emptied even if universal would wait.

Tables whose readers look keys up (first-row, deletion vectors, lookup changelog) do not see level 0, so waiting for
``trigger`` runs would hide new rows.

1. If universal picks, that pick is the answer.
2. *Radical*: take all level-0 runs and continue with the ratio scan. *Gentle* (``interval`` = k): do so on every k-th
   call only. The caller counts: `TreeView.calls_since_force` is the number of calls since the last forced pick that
   reached this rule.

Generation ``2.0`` includes a following level-1 run from the start; ``2.1`` includes it by its ratio rule; ``1.4`` does
neither and so writes to level 1 again and again.

Cost: more writes than universal (each small load is rewritten immediately), fewer runs to read, same space.

    before   L0 1   L0 2   L4 10   L5 100      trigger 5, 6 levels
    after    L3 3   L4 10  L5 100              force-level0: 2 runs on L0

Source: Apache Paimon `ForceUpLevel0Compaction` (research notes 1.7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.strategy import universal
from packstone.strategy.pick import Pick, Reason, Skip, Strategy, try_rules
from packstone.strategy.tree_view import TreeView, apply_tree_decision
from packstone.strategy.universal import Generation, UniversalOptions, merge_first, scan_by_ratio

if TYPE_CHECKING:
    from packstone.model.sorted_run import Level
    from packstone.strategy.pick import Decision, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceUpLevel0Options:
    """Universal's options, and how often to force: 1 is radical, k is gentle."""

    universal: UniversalOptions = field(default_factory=UniversalOptions)
    interval: int = 1

    def __post_init__(self) -> None:
        """Refuse an interval below 1."""
        if self.interval < 1:
            raise InvalidInputError(f"interval is {self.interval}; it must be at least 1.", option="interval")


def pick_force_up_level0(view: TreeView, options: ForceUpLevel0Options) -> Decision[Level]:
    """Choose as universal does, else empty level 0."""
    return try_rules(RULES, view, options)


def force_up_level0_strategy(options: ForceUpLevel0Options) -> Strategy[TreeView, Level]:
    """Bind the options."""
    return Strategy(
        name="force-up-level0",
        pick=partial(pick_force_up_level0, options=options),
        apply=partial(apply_force_up_level0, options=options),
    )


def apply_force_up_level0(view: TreeView, decision: Decision[Level], options: ForceUpLevel0Options) -> TreeView:
    """Apply the pick, and count the calls for which universal picked nothing: every k-th of them forces."""
    if decision.picks and decision.picks[0].reason is not Reason.FORCE_LEVEL0:
        return apply_tree_decision(view, decision)
    calls = (view.calls_since_force + 1) % options.interval
    return replace(apply_tree_decision(view, decision), calls_since_force=calls)


def pick_level0(view: TreeView, options: ForceUpLevel0Options) -> Pick[Level] | Skip:
    """Take all of level 0 and further runs of like size."""
    call = view.calls_since_force + 1
    if call < options.interval:
        return Skip(why=f"force-level0: call {call} of {options.interval}, forces on the last")
    level0 = sum(1 for _ in takewhile(lambda run: run.level == 0, view.runs))
    if level0 == 0:
        return Skip(why="force-level0: level 0 is empty")
    first = level0
    if options.universal.rules is Generation.V2_0 and [run.level for run in view.runs[level0 : level0 + 1]] == [1]:
        first += 1
    taken, trace = scan_by_ratio(view, options.universal, first=first, is_forced=True)
    why = f"{level0} on L0{' with L1' if first > level0 else ''}; {trace}"
    return merge_first(view, options.universal, taken, reason=Reason.FORCE_LEVEL0, why=why)


def _as_universal(
    rule: Rule[TreeView, UniversalOptions, Level],
) -> Rule[TreeView, ForceUpLevel0Options, Level]:
    return lambda view, options: rule(view, options.universal)


RULES: Final[tuple[Rule[TreeView, ForceUpLevel0Options, Level], ...]] = (
    *map(_as_universal, universal.RULES),
    pick_level0,
)
