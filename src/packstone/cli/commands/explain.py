"""``packstone explain STRATEGY ITEM...``: a table before and after a pick, and the numbers that decided.

Both tables use one scale for their bars. Symbols mark what is picked and what is written, not colour alone, so that a
copy in a mail still shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.explain_questions import GroupedCommand
from packstone.model.sizes import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.cli.explain_answers import Explained, ExplainedPick, Row

STRATEGIES = ("universal", "force-up-level0", "full", "minor", "major", "custom", "small-files", "append")


@click.command("explain", cls=GroupedCommand, short_help="Show what a strategy picks on an imagined table, and why.")
@click.argument("strategy", type=click.Choice(STRATEGIES), metavar="STRATEGY")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@GroupedCommand.all_options
@click.option("--to-fixpoint", is_flag=True, help="Repeat until the strategy picks nothing.")
@click.option("--steps", is_flag=True, help="Show each rule with its numbers.")
@options.output_options
@click.pass_context
def command(ctx: click.Context, /, strategy: str, items: tuple[str, ...], **typed: Any) -> int:
    """Show an imagined table before and after one pick of STRATEGY, and the reason.

    Each ITEM is a sorted run, a segment or a file of the table:

    \b
    universal, force-up-level0, full   LEVEL:SIZE, newest first   0:1 0:1 5:10
    minor, major, custom               ID[:MB][@DAY][=STATUS][+major][+external][-DELETED%]
                                                                  0 1:200 0.1:300@5
    small-files, append                MB[xCOUNT]                 10x20 300
    """  # noqa: D301 - click needs the bare \b
    from packstone.cli.explain_answers import answer_question
    from packstone.cli.explain_questions import build_question
    from packstone.cli.output import show

    given = {name for name in typed if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    explained = answer_question(build_question(strategy, items, typed, given=given), repeat=typed["to_fixpoint"])
    show(
        explained.to_json(with_steps=typed["steps"]),
        output_format=typed["output_format"],
        draw=lambda console: draw_explained(console, explained, with_steps=typed["steps"]),
    )
    return 0


PICKED, WRITTEN = "●", "★"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_WIDTH = 110
_FRAME = 4  # borders and padding of a panel
_BETWEEN = 16  # arrow and reason, with padding
_SHOWN_ROWS = 24
_SHOWN_INPUTS = 12
_SHOWN_ROUNDS = 20
_MIN_BAR, _MAX_BAR = 4, 28
_SIZE_COLUMN = 3


def draw_explained(console: Any, explained: Explained, *, with_steps: bool) -> None:
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


def _headline(explained: Explained) -> Any:
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
        times = plural(explained.rounds, "round") if explained.rounds > 1 else plural(len(explained.picks), "bin")
        said = (f" in {times}: {_some(before, explained)} become ", (f"{after:,}", "bold green"))
    reasons = ", ".join(dict.fromkeys(pick.reason for pick in explained.picks))
    return Text.assemble((explained.strategy, "bold"), *said, "  ", (reasons, "cyan"))


def _some(count: int, explained: Explained) -> str:
    return plural(count, explained.noun)


def _draw_rounds(console: Any, picks: Sequence[ExplainedPick]) -> None:
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
    """The column widths of both tables, so that their bars have the same scale."""

    bar: int
    biggest: int
    has_facts: bool
    is_stacked: bool


def _plan_layout(rows: Sequence[Row], *, width: int) -> _Layout:
    """Place the tables side by side if both fit with a bar of useful width, else one below the other."""
    texts = [max((len(text) + 1 for text in column if text), default=0) for column in _columns(rows)]
    biggest = max((row.size for row in rows), default=0)
    room = [each - _FRAME - len(PICKED) - 1 - sum(texts) for each in ((width - _BETWEEN) // 2, width)]
    is_stacked = room[0] < (_MIN_BAR if biggest else 0)
    bar = min(_MAX_BAR, max(_MIN_BAR, room[is_stacked])) if biggest else 0
    return _Layout(bar=bar, biggest=biggest, has_facts=texts[-1] > 0, is_stacked=is_stacked)


def _columns(rows: Sequence[Row]) -> tuple[list[str], ...]:
    return [row.label for row in rows], [row.size_text for row in rows], [row.facts for row in rows]


def _draw_tables(console: Any, explained: Explained) -> None:
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


def _panel(title: str, rows: Sequence[Row], layout: _Layout, *, count: int, noun: str) -> Any:
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
    head = f"[not dim bold]{title}[/]  [not dim]{plural(count, noun)}[/]"
    return Panel(grid, title=head, title_align="left", border_style="dim", expand=False)


def _fold(rows: Sequence[Row]) -> list[Row]:
    """Join adjacent files of equal size into one line: ``0-19  20 × 10 MB``."""
    folded = []
    for _, same in groupby(rows, key=lambda row: (row.item, row.is_picked, row.is_new)):
        members = list(same)
        first = members[0]
        if len(members) > 1:
            text = f"{len(members):,} × {first.size_text}"
            first = replace(first, label=f"{first.label}-{members[-1].label}", size_text=text)
        folded.append(first)
    return folded


def _draw_why(console: Any, explained: Explained) -> None:
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
        counts = f"{plural(len(explained.before), noun)} → {len(explained.after):,}"
        _draw_line(console, "cost", f"{share}{counts}", style="dim")
    if explained.why_not:
        label = "rest" if explained.picks else "why"
        for why in explained.why_not.split("; "):
            _draw_line(console, label, why, style="dim" if explained.picks else "cyan")
            label = ""


def _draw_steps(console: Any, steps: Sequence[str]) -> None:
    label = "steps"
    for step in steps:
        _draw_line(console, label, step, style="cyan")
        label = ""


def _draw_line(console: Any, label: str, text: str, *, style: str) -> None:
    """Draw a label and a sentence; a long sentence wraps below its own start."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=5)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style=style), Text(text))
    console.print(grid)


def _bar(size: int, biggest: int, *, cells: int) -> str:
    """Return a bar with a resolution of an eighth of a cell; any size above 0 gets at least an eighth."""
    eighths = max(1, round(8 * cells * size / biggest)) if size else 0
    return f"{'█' * (eighths // 8)}{_EIGHTHS[eighths % 8].strip()}".ljust(cells)
