"""What every strategy answers: picks with their reasons, or skips with theirs, and the steps that led there.

A strategy is a tuple of rules tried in order. A rule is a function of a view and options that returns a `Pick` or a
`Skip`; both say in `why` what was compared with what, so the trace of a decision is the rules' own words and no
second copy of their logic.
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
    """Which rule fired; other programs read these words."""

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
    """Leave it alone, and say why; a rule that is switched off says so in the steps only."""

    why: str
    is_off: bool = False
    candidate: int | None = None  # the number of the one candidate that it is about, if it is one

    def __str__(self) -> str:
        return f"skip: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[OutputT]):
    """One round of a strategy: its answers, and each comparison that was made on the way."""

    answers: tuple[Pick[OutputT] | Skip, ...]
    steps: tuple[str, ...]

    def __iter__(self) -> Iterator[Pick[OutputT] | Skip]:
        return iter(self.answers)

    @property
    def picks(self) -> tuple[Pick[OutputT], ...]:
        """What to merge; several picks of one round never share an input."""
        return tuple(answer for answer in self.answers if isinstance(answer, Pick))

    @property
    def why_not(self) -> str:
        """Why nothing, or nothing more, is picked."""
        return "; ".join(answer.why for answer in self.answers if isinstance(answer, Skip) and not answer.is_off)


Rule: TypeAlias = Callable[[ViewT, OptionsT], Pick[OutputT] | Skip]


def try_rules(rules: Sequence[Rule[ViewT, OptionsT, OutputT]], view: ViewT, options: OptionsT) -> Decision[OutputT]:
    """Ask the rules in order; the first pick decides, and without one all of them say why not."""
    skips: list[Skip] = []
    for rule in rules:
        answer = rule(view, options)
        if isinstance(answer, Pick):
            return Decision(answers=(answer,), steps=(*(skip.why for skip in skips), answer.why))
        skips.append(answer)
    return Decision(answers=tuple(skips), steps=tuple(skip.why for skip in skips))
