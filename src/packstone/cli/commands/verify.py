"""``packstone verify RUN [TARGET]``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand


@click.command("verify", cls=FamilyCommand, short_help="Verify a run again from the files that still exist.")
@click.argument("run")
@click.argument("target", required=False)
@click.option(
    "--history", "history_url", default=None, metavar="URL", help="Look up the table of RUN in this history database."
)
@click.option(
    "--measure-read",
    is_flag=True,
    help="Measure how long originals and merged files take to read, cold and warm, in turns (Hive directories).",
)
@options.metastore_option
@options.engine_options
@options.output_options
def command(run: str, target: str | None, history_url: str | None, measure_read: bool, **typed: Any) -> int:
    """Read RUN's merged files again, and its originals if they still exist, and compare them with the record."""
    from packstone.cli.draw_outcome import draw_lines
    from packstone.cli.output import show
    from packstone.cli.targets import find_target, open_target
    from packstone.model.sizes import plural

    with open_target(find_target(run, target, history_url), typed, to_merge=False) as table:
        report = table.verify(run, measure_read=measure_read)
    proved = (
        f"verified {plural(report.rows, 'row')} in {plural(report.proved, 'merged file')} against the record, "
        f"{report.with_inputs:,} of them against their originals too"
    )
    lines = [f"MISMATCH  {problem}" for problem in report.problems] or [proved]
    lines += [
        f"read {one['cache']}: {one['seconds_before']:.3f} s before, {one['seconds_after']:.3f} s after "
        f"({one['runs']} interleaved runs, {one['engine']})"
        for one in report.read_times
    ]
    lines += [f"engine {report.engine}"] if report.engine is not None else []
    show(
        report.to_json(),
        output_format=typed["output_format"],
        draw=lambda console: draw_lines(console, lines),
    )
    return 1 if report.problems else 0
