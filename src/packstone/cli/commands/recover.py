"""``packstone recover TARGET``."""

from __future__ import annotations

import click

from packstone.cli import options


@click.command("recover", short_help="Finish or undo what a killed run left behind.")
@click.argument("target")
@click.option("--take-over", is_flag=True, help="Also what an owner on another host left that you know is dead.")
@options.output_options
def command(target: str, take_over: bool, output_format: str, debug: bool) -> int:  # noqa: ARG001 - read by main
    """Finish or undo every swap in TARGET's table that stopped half-way, and remove dead runs' staging."""
    from packstone.cli.draw import draw_lines
    from packstone.cli.output import show
    from packstone.service.hive_table import HiveTable
    from packstone.storage.location import parse_location

    report = HiveTable(parse_location(target).path).recover(take_over=take_over)
    lines = [*report.actions, *report.left] or [f"{report.table}: nothing to recover."]
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 3 if report.left else 0
