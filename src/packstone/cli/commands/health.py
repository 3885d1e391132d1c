"""``packstone health TARGET...``: score, facts, histogram, worst parts and hazards, drawn alike for every family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from packstone.cli import options
from packstone.cli.draw_outcome import BAR_CELLS, bar, draw_reasons, name_text, plain_table, score_colour
from packstone.cli.family import FamilyCommand
from packstone.cli.output import plain_text, short_path

if TYPE_CHECKING:
    from rich.console import Console

    from packstone.model.health import Fact, Hazard, Health, Histogram, Report, WorstParts


@click.command(
    "health", cls=FamilyCommand, short_help="Show files, sizes, sorted runs or segments, a score, and hazards."
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.target_size_option
@options.set_option
@options.metastore_option
@options.output_options
def command(targets: tuple[str, ...], **typed: Any) -> int:
    """Show the state of each TARGET: files, sizes, sorted runs or segments, a score, and what prevents merging.

    If TARGET is a folder of tables, every table in it is shown.
    """
    from packstone.cli.output import show

    found = [health for target in targets for health in _observe(target, typed)]
    plain = found[0].to_json() if len(found) == 1 else {"format_version": 1, "tables": [one.to_json() for one in found]}

    def draw(console: Any) -> None:

        for one in found:
            draw_health(console, one)

    show(plain, output_format=typed["output_format"], draw=draw)
    return 0


def _observe(target: str, typed: dict[str, Any]) -> list[Health]:
    """Return the health of one target: a table, or all tables of a folder."""
    from packstone.cli.output import show_status
    from packstone.cli.targets import open_target, read_options
    from packstone.errors import SeveralTablesError

    try:
        with show_status("reading", target), open_target(target, typed) as table:
            return [table.health(read_options(table, typed, verb="health"))]
    except SeveralTablesError as several:
        if not several.facts["tables"]:
            raise
        for path, what in several.facts["left_alone"]:
            click.echo(f"packstone: {plain_text(path)} is {what}", err=True)
        every = {**typed, "each": True}
        return [health for path in several.facts["tables"] for health in _observe(path, every)]


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
