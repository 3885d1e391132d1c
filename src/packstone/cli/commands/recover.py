"""``packstone recover TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("recover", short_help="Finish or undo what a killed run left behind.")
@click.argument("target")
@click.option("--take-over", is_flag=True, help="Also what an owner on another host left that you know is dead.")
@options.home_options
@options.output_options
def command(target: str, take_over: bool, output_format: str, **typed: Any) -> int:  # noqa: ANN401 - click's by name
    """Finish or undo every swap in TARGET's table that stopped half-way, and remove dead runs' staging.

    Paimon and segment tables need none: a snapshot or a status is published whole or not at all. `clean` removes what
    a killed run left.
    """
    from packstone.cli.draw import draw_lines
    from packstone.cli.named_target import hive_table, is_named
    from packstone.cli.output import show
    from packstone.storage.location import parse_location
    from packstone.storage.stores import open_store
    from packstone.tables.probe import Family, find_table

    if not is_named(target, typed):
        path = parse_location(target).path
        family, root = find_table(open_store(path), path)
        if family is not Family.HIVE:
            published = "snapshots" if family is Family.PAIMON else "statuses"
            return _nothing_to_recover(root, published, output_format)
    with hive_table(target, typed) as table:
        report = table.recover(take_over=take_over)
    lines = [*report.actions, *report.left] or [f"{report.table}: nothing to recover."]
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 3 if report.left else 0


def _nothing_to_recover(table: str, published: str, output_format: str) -> int:
    from packstone.cli.draw import draw_lines
    from packstone.cli.output import show

    plain = {"format_version": 1, "table": table, "status": "nothing-to-do", "actions": [], "left_alone": []}
    lines = [
        f"{table}: nothing to recover: {published} are published whole or not at all.",
        "`packstone clean` removes what a killed run left.",
    ]
    show(plain, output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 0
