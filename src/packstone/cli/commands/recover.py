"""``packstone recover TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("recover", short_help="Finish or undo the half-done work of a killed run.")
@click.argument("target")
@click.option(
    "--take-over", is_flag=True, help="Recover the work of a run on another host too, if you know that it has stopped."
)
@options.home_options
@options.output_options
def command(target: str, take_over: bool, output_format: str, **typed: Any) -> int:
    """Finish or undo what stopped half-way in TARGET's table, end dead runs, and remove their staging files.

    In a Hive directory a swap can stop half-way; in a segment table the registration of a compaction can remain. A
    snapshot of a Paimon table and a version of a segment table are published completely or not at all. Other files
    that a killed run left are removed by `clean`.
    """
    from packstone.cli.draw_outcome import draw_lines
    from packstone.cli.output import show
    from packstone.cli.targets import open_target

    with open_target(target, typed, to_merge=False) as table:
        report = table.recover(take_over=take_over)
    lines = [*report.actions, *report.left] or [f"{report.table}: nothing to recover."]
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 3 if report.left else 0
