"""What `explain` answers: a strategy run on an imagined table, as plain values to print or to draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from packstone.cli.explain_items import show_run
from packstone.model.megabytes import format_mb
from packstone.strategy.append_view import AppendView
from packstone.strategy.fixpoint import run_round, to_fixpoint
from packstone.strategy.pick import OutputT, ViewT
from packstone.strategy.segment_view import SegmentView
from packstone.strategy.tree_view import TreeView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.segment import Segment
    from packstone.strategy.fixpoint import Round, Strategy
    from packstone.strategy.pick import Pick
    from packstone.strategy.small_files import Candidate

    View: TypeAlias = TreeView | SegmentView | AppendView | tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a drawn table."""

    label: str
    item: str  # in the item grammar
    size: int
    size_text: str
    facts: str = ""
    is_picked: bool = False
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPick:
    """One pick in the words of `explain`."""

    round: int
    inputs: tuple[int | str, ...]
    output: str | int | float
    reason: str
    why: str
    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A strategy's answer on an imagined table."""

    strategy: str
    noun: str  # what the table is made of: run, segment, file
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    rounds: int
    picks: tuple[ExplainedPick, ...]
    why_not: str
    notes: tuple[str, ...]
    steps: tuple[str, ...]

    def to_json(self, *, with_steps: bool) -> dict[str, Any]:
        """The documented keys."""
        plain: dict[str, Any] = {
            "format_version": 1,
            "strategy": self.strategy,
            "picks": [
                {"inputs": list(pick.inputs), "output": pick.output, "reason": pick.reason} for pick in self.picks
            ],
            "after": [row.item for row in self.after],
            "why_not": self.why_not,
            "notes": list(self.notes),
        }
        return {**plain, "steps": list(self.steps)} if with_steps else plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[ViewT, OutputT]):
    """A table, a strategy, and what is odd about them."""

    view: ViewT
    strategy: Strategy[ViewT, OutputT]
    noun: str
    notes: tuple[str, ...] = ()


def answer_question(question: Question[Any, Any], *, repeat: bool) -> Explained:
    """Run one round, or rounds until nothing is picked."""
    one, view = question.strategy, question.view
    rounds = to_fixpoint(one, view) if repeat else (run_round(one, view),)
    after = rounds[-1].after
    picked = {at for pick in rounds[0].decision.picks for at in pick.inputs} if not repeat else _gone(view, after)
    return Explained(
        strategy=one.name,
        noun=question.noun,
        before=tuple(replace(row, is_picked=at in picked) for at, row in enumerate(_rows(view))),
        after=tuple(replace(row, is_new=new) for row, new in zip(_rows(after), _new(view, after), strict=True)),
        rounds=sum(1 for done in rounds if done.decision.picks),
        picks=tuple(_tell(done, pick, at) for at, done in enumerate(rounds, 1) for pick in done.decision.picks),
        why_not=rounds[-1].decision.why_not,
        notes=question.notes,
        steps=tuple(
            f"round {at}: {step}" if repeat else step
            for at, done in enumerate(rounds, 1)
            for step in done.decision.steps
        ),
    )


def _tell(done: Round[Any, Any], pick: Pick[Any], number: int) -> ExplainedPick:
    things = _things(done.before)
    inputs: tuple[int | str, ...] = pick.inputs
    output: str | float = str(pick.output)
    if isinstance(done.before, SegmentView):
        inputs = tuple(str(done.before.segments[at].id) for at in pick.inputs)
    elif not isinstance(done.before, TreeView):
        output = mb_number(pick.output)
    return ExplainedPick(
        round=number,
        inputs=inputs,
        output=output,
        reason=pick.reason.value,
        why=pick.why,
        read=sum(things[at].size_bytes for at in pick.inputs),
    )


def mb_number(size_bytes: int) -> int | float:
    """Megabytes as a JSON number: 50, 12.5."""
    text = Decimal(format_mb(size_bytes))
    return int(text) if text == int(text) else float(text)


def _rows(view: View) -> tuple[Row, ...]:
    """Describe what a table is made of, line by line."""
    if isinstance(view, TreeView):
        return tuple(
            Row(label=f"L{run.level}", item=show_run(run), size=run.size_bytes, size_text=f"{run.size_bytes:,}")
            for run in view.runs
        )
    if isinstance(view, SegmentView):
        return tuple(_segment_row(segment) for segment in view.segments)
    files: Sequence[Any] = view.files if isinstance(view, AppendView) else view
    return tuple(
        Row(label=str(at), item=text, size=file.size_bytes, size_text=f"{text} MB")
        for at, file in enumerate(files)
        for text in (format_mb(file.size_bytes),)
    )


def _segment_row(segment: Segment) -> Row:
    facts = [
        f"day {segment.load_day}" if segment.load_day else "",
        "" if segment.status == "success" else segment.status.value,
        "major" if segment.is_major else "",
        "external" if segment.is_external else "",
    ]
    return Row(
        label=str(segment.id),
        item=str(segment),
        size=segment.size_bytes,
        size_text=f"{format_mb(segment.size_bytes)} MB" if segment.size_bytes else "",
        facts=" ".join(filter(None, facts)),
    )


def _things(view: View) -> tuple[Any, ...]:
    if isinstance(view, TreeView):
        return view.runs
    return view.segments if isinstance(view, SegmentView) else view.files if isinstance(view, AppendView) else view


def _new(before: View, after: View) -> list[bool]:
    """Which things of the table after were written: an output is never equal to anything that stood before."""
    old = set(_things(before))
    return [thing not in old for thing in _things(after)]


def _gone(before: View, after: View) -> set[int]:
    """Which positions of the table before went into outputs; equal files are told apart by their number."""
    left = Counter(_things(after))
    gone = set()
    for at, thing in enumerate(_things(before)):
        if left[thing]:
            left[thing] -= 1
        else:
            gone.add(at)
    return gone
