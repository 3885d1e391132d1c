"""``packstone verify RUN [TARGET]``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("verify", short_help="Prove a run again from the files that still exist.")
@click.argument("run")
@click.argument("target", required=False)
@click.option("--history", "history_url", default=None, metavar="URL", help="Where to look up the table of RUN.")
@options.metastore_option
@options.engine_options
@options.output_options
def command(run: str, target: str | None, history_url: str | None, **typed: Any) -> int:  # noqa: ANN401 - click's
    """Read RUN's merged files again, and its originals while they are kept, and compare with the record.

    For Hive directories; a Paimon table keeps the files of before in its earlier snapshots, a segment table in its
    earlier versions, not in a backup.
    """
    from packstone.cli.arguments import read_engine
    from packstone.cli.draw import draw_lines
    from packstone.cli.family import check_has_backups
    from packstone.cli.find_run import find_target
    from packstone.cli.named_target import hive_table, is_named
    from packstone.cli.output import many, show

    if target is None or not is_named(target, typed):
        target = find_target(run, target, history_url)
        check_has_backups("verify", target)
    with hive_table(target, typed, engine=read_engine(typed)) as table:
        report = table.verify(run)
    proved = (
        f"verified {many(report.rows, 'row')} in {many(report.proved, 'merged file')} against the record, "
        f"{report.originals_read:,} of them against their originals too"
    )
    lines = [f"MISMATCH  {problem}" for problem in report.problems] or [proved]
    show(
        report.to_json(),
        output_format=typed["output_format"],
        draw=lambda console: draw_lines(console, lines),
    )
    return 1 if report.problems else 0
