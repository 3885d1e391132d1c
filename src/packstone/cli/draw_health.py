"""How health is drawn, for every family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from packstone.cli.draw_outcome import BAR_CELLS, bar, draw_reasons, name_text, plain_table, score_colour
from packstone.cli.output import plain_text, short_path

if TYPE_CHECKING:
    from rich.console import Console

    from packstone.model.health import Fact, Hazard, Health, Histogram, Report, WorstParts


_SHOWN_HAZARDS = 15
_SHOWN_PARTS = 6
_HISTOGRAM_CELLS = 20
_GUTTER = 4


def draw_health(console: Console, health: Health) -> None:
    """Draw the state of a table."""
    report = health.report()
    _draw_score(console, report)
    for fact in report.facts:
        console.print(_fact_text(fact))
    _draw_figures(console, report)
    _draw_hazards(console, report.hazards)
    for note in report.notes:
        console.print(plain_text(note), style="dim", markup=False)


def _draw_score(console: Console, report: Report) -> None:
    colour = score_colour(report.score)
    filled = round(BAR_CELLS * report.score / 100)
    console.print(
        Text.assemble(
            ("health ", "bold"),
            ("█" * filled, colour),
            ("─" * (BAR_CELLS - filled), "dim"),
            (f" {report.score}", f"bold {colour}"),
            " of 100  ",
            short_path(report.table),
        )
    )


def _fact_text(fact: Fact) -> Text:
    before, strong, after = fact.text.partition(fact.strong) if fact.strong else (fact.text, "", "")
    return Text.assemble(plain_text(before), (plain_text(strong), "bold"), plain_text(after))


def _draw_figures(console: Console, report: Report) -> None:
    """Draw the histogram on the left and the worst parts on the right, or below on a narrow terminal."""
    tables = []
    if report.histogram is not None:
        tables.append(_histogram_table(report.histogram))
    if report.worst is not None:
        tables.append(_worst_table(report.worst))
    tables = [table for table in tables if table.row_count]
    width = sum(Measurement.get(console, console.options, table).maximum + _GUTTER for table in tables) - _GUTTER
    if width > console.width:
        for table in tables:
            console.print(table)
    elif tables:
        side_by_side = Table.grid(padding=(0, _GUTTER))
        side_by_side.add_row(*tables)
        console.print(side_by_side)


def _histogram_table(histogram: Histogram) -> Table:
    """Return a table with a bar for each class, from the first to the last class that is not empty."""
    table: Table = plain_table(histogram.title, "", right=(histogram.unit,))
    filled = [at for at, (_, count) in enumerate(histogram.counts) if count]
    most = max((count for _, count in histogram.counts), default=0)
    for name, count in histogram.counts[filled[0] : filled[-1] + 1] if filled else ():
        drawn = Text(bar(count, most, cells=_HISTOGRAM_CELLS), style="cyan")
        table.add_row(name_text(name), drawn, f"{count:,}")
    return table


def _worst_table(worst: WorstParts) -> Table:
    has_scores = any(part.score is not None for part in worst.parts)
    table: Table = plain_table(worst.title, right=(*worst.columns, "score") if has_scores else worst.columns)
    for part in worst.parts[:_SHOWN_PARTS]:
        score = () if part.score is None else (Text(f"{part.score}", style=score_colour(part.score)),)
        table.add_row(name_text(part.name), *map(Text, part.cells), *score)
    if len(worst.parts) > _SHOWN_PARTS:
        table.add_row("[dim]…[/]")
    return table


def _draw_hazards(console: Console, hazards: tuple[Hazard, ...]) -> None:
    draw_reasons(console, ((one.name, "yellow", one.where, one.evidence) for one in hazards[:_SHOWN_HAZARDS]))
    if len(hazards) > _SHOWN_HAZARDS:
        console.print(f"… and {len(hazards) - _SHOWN_HAZARDS:,} more hazards, see --format json", style="dim")
