"""The result of every strategy: picks and skips with their reasons, and the steps that led to them.

A strategy is a tuple of rules tried in order. A rule is a function of a view and options that returns a `Pick` or a
`Skip`; both say in `why` what was compared with what, so the trace of a decision comes from the rules themselves and
not from a second copy of their logic.

A strategy bound to its options is two functions of a view, so that `explain`, `simulate` and the tests can drive all
strategies alike: `pick` decides, `apply` returns the table after the decision. The bound strategy has no state; what
changes from call to call (a counter, the time since the last full compaction) is part of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

ViewT = TypeVar("ViewT")
OptionsT = TypeVar("OptionsT")
OutputT = TypeVar("OutputT")


class Reason(StrEnum):
    """The rule that fired; other programs read these words."""

    EARLY_FULL = "early-full"
    SIZE_AMP = "size-amp"
    SIZE_RATIO = "size-ratio"
    RUN_COUNT = "run-count"
    FORCE_LEVEL0 = "force-level0"
    FULL = "full"
    FILE_REWRITE = "file-rewrite"
    LEVEL_1 = "level-1"
    LEVEL_2 = "level-2"
    LEVEL_3 = "level-3"
    MAJOR_SIZE = "major-size"
    CUSTOM = "custom"
    DELETED_ROWS = "deleted-rows"
    SMALL_FILES = "small-files"
    APPEND_BIN = "append-bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick(Generic[OutputT]):
    """Merge these inputs (positions in the view) into this output: a level, a segment id or a size."""

    inputs: tuple[int, ...]
    output: OutputT
    reason: Reason
    why: str

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.inputs))} -> {self.output}  reason={self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Merge nothing, for this reason; a rule that is switched off appears in the steps only."""

    why: str
    is_off: bool = False
    candidate: int | None = None  # the position of the candidate, if the skip is about a single one

    def __str__(self) -> str:
        return f"skip: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[OutputT]):
    """One round of a strategy: its answers, and each comparison it made."""

    answers: tuple[Pick[OutputT] | Skip, ...]
    steps: tuple[str, ...]

    def __iter__(self) -> Iterator[Pick[OutputT] | Skip]:
        return iter(self.answers)

    @property
    def picks(self) -> tuple[Pick[OutputT], ...]:
        """The merges; several picks of one round never share an input."""
        return tuple(answer for answer in self.answers if isinstance(answer, Pick))

    @property
    def why_not(self) -> str:
        """The reasons why nothing, or nothing more, is picked."""
        return "; ".join(answer.why for answer in self.answers if isinstance(answer, Skip) and not answer.is_off)


Rule: TypeAlias = Callable[[ViewT, OptionsT], Pick[OutputT] | Skip]


def try_rules(rules: Sequence[Rule[ViewT, OptionsT, OutputT]], view: ViewT, options: OptionsT) -> Decision[OutputT]:
    """Try the rules in order; return the first pick, or the skips of all rules."""
    skips: list[Skip] = []
    for rule in rules:
        answer = rule(view, options)
        if isinstance(answer, Pick):
            return Decision(answers=(answer,), steps=(*(skip.why for skip in skips), answer.why))
        skips.append(answer)
    return Decision(answers=tuple(skips), steps=tuple(skip.why for skip in skips))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(Generic[ViewT, OutputT]):
    """A strategy bound to its options."""

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
    """Decide once and apply the decision."""
    decision = strategy.pick(view)
    return Round(before=view, decision=decision, after=strategy.apply(view, decision))


def to_fixpoint(strategy: Strategy[ViewT, OutputT], view: ViewT) -> tuple[Round[ViewT, OutputT], ...]:
    """Run rounds until one picks nothing; that round is the last and says why.

    A round that picks but leaves the table unchanged ends the loop too: `full` with ``force_rewrite`` would otherwise
    rewrite all files forever.
    """
    rounds = [run_round(strategy, view)]
    while rounds[-1].decision.picks and rounds[-1].after != rounds[-1].before:
        rounds.append(run_round(strategy, rounds[-1].after))
    return tuple(rounds)
