"""Run a strategy on an imagined table, for `explain`: parse the items, return plain values to print or to draw.

Items describe the table, and the answer describes the table after the pick in the same grammar::

    merge trees   LEVEL:SIZE                                              0:1  L5:10
    segments      ID[:MB][@DAY][=STATUS][+major][+external][-DELETED%]   0  0.1:300@5  3=streaming
    files         MB[xCOUNT]                                              10x20  0.5
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment
from packstone.model.sizes import MAX_BYTES, format_mb, parse_mb
from packstone.model.sorted_run import SortedRun
from packstone.strategy.append_bins import AppendView
from packstone.strategy.pick import OutputT, ViewT, run_round, to_fixpoint
from packstone.strategy.segment_view import SegmentView, begin_command
from packstone.strategy.tree_view import TreeView, check_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.strategy.pick import Pick, Round, Strategy
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
    """One pick, with its inputs and output as `explain` prints them."""

    round: int
    inputs: tuple[int | str, ...]
    output: str | int | float
    reason: str
    why: str
    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A strategy's answer for an imagined table."""

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
        """Return the documented keys."""
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
    """A table, a strategy, and notes about what a reader may not expect."""

    view: ViewT
    strategy: Strategy[ViewT, OutputT]
    noun: str
    notes: tuple[str, ...] = ()


def answer_question(question: Question[Any, Any], *, repeat: bool) -> Explained:
    """Run one round, or rounds until nothing is picked."""
    one, view = question.strategy, question.view
    rounds = to_fixpoint(one, view) if repeat else (run_round(one, view),)
    after = rounds[-1].after
    picked = {at for pick in rounds[0].decision.picks for at in pick.inputs} if not repeat else _merged(view, after)
    return Explained(
        strategy=one.name,
        noun=question.noun,
        before=tuple(replace(row, is_picked=at in picked) for at, row in enumerate(_rows(view))),
        after=tuple(replace(row, is_new=new) for row, new in zip(_rows(after), _new(view, after), strict=True)),
        rounds=sum(1 for done in rounds if done.decision.picks),
        picks=tuple(_explain_pick(done, pick, at) for at, done in enumerate(rounds, 1) for pick in done.decision.picks),
        why_not=rounds[-1].decision.why_not,
        notes=question.notes,
        steps=tuple(
            f"round {at}: {step}" if repeat else step
            for at, done in enumerate(rounds, 1)
            for step in done.decision.steps
        ),
    )


def _explain_pick(done: Round[Any, Any], pick: Pick[Any], number: int) -> ExplainedPick:
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
    """Return megabytes as a JSON number: 50, 12.5."""
    text = Decimal(format_mb(size_bytes))
    return int(text) if text == int(text) else float(text)


def _rows(view: View) -> tuple[Row, ...]:
    """Return a row for each run, segment or file of a table."""
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
    """Return which things of the table after were written; an output never equals anything of the table before."""
    old = set(_things(before))
    return [thing not in old for thing in _things(after)]


def _merged(before: View, after: View) -> set[int]:
    """Return the positions of the table before that were merged; of equal files, the number that is left is counted."""
    left = Counter(_things(after))
    merged = set()
    for at, thing in enumerate(_things(before)):
        if left[thing]:
            left[thing] -= 1
        else:
            merged.add(at)
    return merged


# ---- items ----

MAX_FILES = 1_000_000  # more cannot be drawn, and a typing error such as 10x1000000000 would fill the memory
MAX_LEVEL = 1_000_000
_RUN = re.compile(r"L?([0-9]+):([0-9]+)")
_FILES = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:x([0-9]+))?")


def read_tree(items: Sequence[str]) -> TreeView:
    """Parse runs, newest first; each is named by its position."""
    runs = []
    for at, item in enumerate(items):
        match = _RUN.fullmatch(item)
        if match is None:
            raise _bad_item(item, "LEVEL:SIZE in whole numbers, for example 0:1 or L5:10")
        level, size = int(match[1]), int(match[2])
        if level > MAX_LEVEL or size > MAX_BYTES:
            raise _bad_item(item, "a level and a size that a table can have")
        runs.append(SortedRun(level=level, size_bytes=size, name=str(at)))
    check_runs(runs)
    return TreeView(runs=tuple(runs))


def show_run(run: SortedRun) -> str:
    """Return a run as an item."""
    return f"L{run.level}:{run.size_bytes}"


def read_segments(items: Sequence[str], *, today: int | None) -> SegmentView:
    """Parse segments in any order; by default, today is the latest load day."""
    segments = sorted((Segment.parse(item) for item in items), key=lambda segment: segment.id)
    latest = max((segment.load_day for segment in segments), default=0)
    view = begin_command(SegmentView(segments=tuple(segments)))
    return replace(view, today=latest if today is None else today)


def read_sizes(items: Sequence[str]) -> tuple[int, ...]:
    """Parse files in name order and return their sizes in bytes; ``10x3`` are three files."""
    sizes: list[int] = []
    for item in items:
        match = _FILES.fullmatch(item)
        if match is None or match[2] == "0":
            raise _bad_item(item, "MB or MBxCOUNT, for example 12.5 or 10x20")
        count = int(match[2] or 1)
        if len(sizes) + count > MAX_FILES:
            raise InvalidInputError(f"{item!r} makes more than {MAX_FILES:,} files; give fewer.", item=item)
        sizes.extend([parse_mb(Decimal(match[1]))] * count)
    return tuple(sizes)


def _bad_item(item: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(f"{item!r} is not an item; write {wanted}.", item=item)
