"""`explain` on a terminal: the table before and after side by side, and the numbers that decided.

Sizes are bars on one scale for both tables. What is picked and what is written is marked by signs, not by colour
alone, so that a copy in a mail still tells it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from packstone.cli.output import many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.cli.explained import Explained, ExplainedPick, Row

PICKED, WRITTEN = "●", "★"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_WIDTH = 110
_FRAME = 4  # borders and padding of a panel
_BETWEEN = 16  # arrow and reason, with the room around them
_SHOWN_ROWS = 24
_SHOWN_INPUTS = 12
_SHOWN_ROUNDS = 20
_MIN_BAR, _MAX_BAR = 4, 28
_SIZE_COLUMN = 3


def draw_explained(console: Any, explained: Explained, *, with_steps: bool) -> None:  # noqa: ANN401 - a rich console
    """Draw the answer: headline, tables, why."""
    console.print(_headline(explained), highlight=False)
    if explained.rounds > 1:
        _draw_rounds(console, explained.picks)
    _draw_tables(console, explained)
    if with_steps:
        _draw_steps(console, explained.steps)
    else:
        _draw_why(console, explained)
    for note in explained.notes:
        _draw_line(console, "note", note, style="yellow")


def _headline(explained: Explained) -> Any:  # noqa: ANN401 - a rich text
    from rich.text import Text

    before, after = len(explained.before), len(explained.after)
    if not explained.picks:
        return Text.assemble(
            (explained.strategy, "bold"), " picks ", ("nothing", "bold"), f" of {_some(before, explained)}"
        )
    if explained.rounds == 1 and len(explained.picks) == 1:
        (pick,) = explained.picks
        goal = f"{pick.output} MB" if explained.noun == "file" else pick.output
        said = (f" picks {len(pick.inputs)} of {_some(before, explained)} for ", (f"{goal}", "bold green"))
    else:
        times = many(explained.rounds, "round") if explained.rounds > 1 else many(len(explained.picks), "bin")
        said = (f" in {times}: {_some(before, explained)} become ", (f"{after:,}", "bold green"))
    reasons = ", ".join(dict.fromkeys(pick.reason for pick in explained.picks))
    return Text.assemble((explained.strategy, "bold"), *said, "  ", (reasons, "cyan"))


def _some(count: int, explained: Explained) -> str:
    return many(count, explained.noun)


def _draw_rounds(console: Any, picks: Sequence[ExplainedPick]) -> None:  # noqa: ANN401 - a rich console
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="cyan", no_wrap=True)
    for pick in picks[:_SHOWN_ROUNDS]:
        shown = " ".join(map(str, pick.inputs[:_SHOWN_INPUTS]))
        more = f" … ({len(pick.inputs)})" if len(pick.inputs) > _SHOWN_INPUTS else ""
        grid.add_row(str(pick.round), f"{shown}{more} → {pick.output}", pick.reason)
    console.print(grid)
    if len(picks) > _SHOWN_ROUNDS:
        console.print(f"… and {len(picks) - _SHOWN_ROUNDS:,} more picks, see --format json", style="dim")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How wide the columns of both tables are, so that bars mean the same in both."""

    bar: int
    biggest: int
    has_facts: bool
    is_stacked: bool


def _plan_layout(rows: Sequence[Row], *, width: int) -> _Layout:
    """Side by side if both tables fit with a bar that tells something, else one below the other."""
    texts = [max((len(text) + 1 for text in column if text), default=0) for column in _columns(rows)]
    biggest = max((row.size for row in rows), default=0)
    room = [each - _FRAME - len(PICKED) - 1 - sum(texts) for each in ((width - _BETWEEN) // 2, width)]
    is_stacked = room[0] < (_MIN_BAR if biggest else 0)
    bar = min(_MAX_BAR, max(_MIN_BAR, room[is_stacked])) if biggest else 0
    return _Layout(bar=bar, biggest=biggest, has_facts=texts[-1] > 0, is_stacked=is_stacked)


def _columns(rows: Sequence[Row]) -> tuple[list[str], ...]:
    return [row.label for row in rows], [row.size_text for row in rows], [row.facts for row in rows]


def _draw_tables(console: Any, explained: Explained) -> None:  # noqa: ANN401 - a rich console
    from rich.table import Table
    from rich.text import Text

    before, after = _shown(explained.before, explained), _shown(explained.after, explained)
    layout = _plan_layout((*before, *after), width=min(console.width, _MAX_WIDTH))
    left = _panel("before", before, layout, count=len(explained.before), noun=explained.noun)
    if not explained.picks:
        console.print(left)
        return
    right = _panel("after", after, layout, count=len(explained.after), noun=explained.noun)
    reasons = list(dict.fromkeys(pick.reason for pick in explained.picks))
    reason = reasons[0] if len(reasons) == 1 else ""
    if layout.is_stacked:
        for part in (left, Text(f"  ▼ {reason}", style="cyan"), right):
            console.print(part)
    else:
        arrow = Text(f"\n{reason}\n" + "─" * (_BETWEEN - 5) + "▶", justify="center", style="cyan")
        both = Table.grid(padding=(0, 1))
        both.add_row(left, arrow, right)
        console.print(both)
    console.print(f"{PICKED} picked   {WRITTEN} written", style="dim")


def _shown(rows: Sequence[Row], explained: Explained) -> list[Row]:
    return _fold(rows) if explained.noun == "file" else list(rows)


def _panel(title: str, rows: Sequence[Row], layout: _Layout, *, count: int, noun: str) -> Any:  # noqa: ANN401 - a rich panel
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for at in range(5 if layout.has_facts else 4):
        grid.add_column(justify="right" if at == _SIZE_COLUMN else "left", no_wrap=True)
    for row in rows[:_SHOWN_ROWS]:
        colour = "yellow" if row.is_picked else "green" if row.is_new else "dim"
        mark = PICKED if row.is_picked else WRITTEN if row.is_new else " "
        bar = _bar(row.size, layout.biggest, cells=layout.bar)
        about = [Text(row.facts, "dim")] if layout.has_facts else []
        grid.add_row(Text(mark, colour), row.label, Text(bar, colour), row.size_text, *about)
    if len(rows) > _SHOWN_ROWS:
        grid.add_row("", "…", Text(f"{len(rows) - _SHOWN_ROWS:,} more", "dim"))
    if not rows:
        grid.add_row(Text("empty", "dim"))
    head = f"[not dim bold]{title}[/]  [not dim]{many(count, noun)}[/]"
    return Panel(grid, title=head, title_align="left", border_style="dim", expand=False)


def _fold(rows: Sequence[Row]) -> list[Row]:
    """Show like files that stand side by side as one line: ``0-19  20 × 10 MB``."""
    folded = []
    for _, same in groupby(rows, key=lambda row: (row.item, row.is_picked, row.is_new)):
        members = list(same)
        first = members[0]
        if len(members) > 1:
            text = f"{len(members):,} × {first.size_text}"
            first = replace(first, label=f"{first.label}-{members[-1].label}", size_text=text)
        folded.append(first)
    return folded


def _draw_why(console: Any, explained: Explained) -> None:  # noqa: ANN401 - a rich console
    if explained.picks and explained.rounds == 1:
        label = "why"
        for why in dict.fromkeys(pick.why for pick in explained.picks[:_SHOWN_ROUNDS]):
            _draw_line(console, label, why, style="cyan")
            label = ""
    if explained.picks:
        read = sum(pick.read for pick in explained.picks)
        total = sum(row.size for row in explained.before)
        share = f"reads and writes at most {100 * read / total:.0f} % of the table, " if total else ""
        noun = explained.noun
        counts = f"{many(len(explained.before), noun)} → {len(explained.after):,}"
        _draw_line(console, "cost", f"{share}{counts}", style="dim")
    if explained.why_not:
        label = "rest" if explained.picks else "why"
        for why in explained.why_not.split("; "):
            _draw_line(console, label, why, style="dim" if explained.picks else "cyan")
            label = ""


def _draw_steps(console: Any, steps: Sequence[str]) -> None:  # noqa: ANN401 - a rich console
    label = "steps"
    for step in steps:
        _draw_line(console, label, step, style="cyan")
        label = ""


def _draw_line(console: Any, label: str, text: str, *, style: str) -> None:  # noqa: ANN401 - a rich console
    """A label and a sentence that, if long, goes on below its own beginning."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=5)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style=style), Text(text))
    console.print(grid)


def _bar(size: int, biggest: int, *, cells: int) -> str:
    """A bar to the eighth of a cell; whatever is there at all can be seen."""
    eighths = max(1, round(8 * cells * size / biggest)) if size else 0
    return f"{'█' * (eighths // 8)}{_EIGHTHS[eighths % 8].strip()}".ljust(cells)
