"""``packstone health TARGET...``: score, facts, histogram, worst parts and hazards, drawn alike for every family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand
from packstone.cli.output import plain_text

if TYPE_CHECKING:
    from packstone.model.health import Health


@click.command(
    "health", cls=FamilyCommand, short_help="Show files, sizes, sorted runs or segments, a score, and hazards."
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.health_size_option
@options.set_option
@options.metastore_option
@options.output_options
def command(targets: tuple[str, ...], **typed: Any) -> int:
    """Show the state of each TARGET: files, sizes, sorted runs or segments, a score, and what prevents merging.

    If TARGET is a folder of tables, every table in it is shown.
    """
    from packstone.cli.draw import draw_health
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
