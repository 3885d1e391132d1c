"""Pick and apply, again and again, until a round picks nothing.

A strategy bound to its options is two functions of a view, so that `explain`, `simulate` and the tests drive all of
them alike: `pick` decides, `apply` gives the table as it will be. The same value can be used for ever; what changes
from call to call (a counter, the time since the last full compaction) is part of the view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from packstone.strategy.pick import Decision, OutputT, ViewT


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(Generic[ViewT, OutputT]):
    """A strategy with its options inside."""

    name: str
    pick: Callable[[ViewT], Decision[OutputT]]
    apply: Callable[[ViewT, Decision[OutputT]], ViewT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(Generic[ViewT, OutputT]):
    """One decision with the table before and after it."""

    before: ViewT
    decision: Decision[OutputT]
    after: ViewT


def run_round(strategy: Strategy[ViewT, OutputT], view: ViewT) -> Round[ViewT, OutputT]:
    """Decide once and apply it."""
    decision = strategy.pick(view)
    return Round(before=view, decision=decision, after=strategy.apply(view, decision))


def to_fixpoint(strategy: Strategy[ViewT, OutputT], view: ViewT) -> tuple[Round[ViewT, OutputT], ...]:
    """Run rounds until one picks nothing; that one is the last and says why.

    A round that picks and leaves the table as it was ends the loop too: `full` told to rewrite all files would
    otherwise rewrite them for ever.
    """
    rounds = [run_round(strategy, view)]
    while rounds[-1].decision.picks and rounds[-1].after != rounds[-1].before:
        rounds.append(run_round(strategy, rounds[-1].after))
    return tuple(rounds)
