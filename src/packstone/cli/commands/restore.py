"""``packstone restore RUN [TARGET]``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options

_LEFT = "the folders that were published stay until `packstone clean`"


@click.command("restore", short_help="Undo exactly one run.")
@click.argument("run")
@click.argument("target", required=False)
@click.option("--history", "history_url", default=None, metavar="URL", help="Where to look up the table of RUN.")
@click.option("--take-over", is_flag=True, help="Take partitions from an owner on another host that you know is dead.")
@options.home_options
@options.yes_option
@options.output_options
def command(
    run: str,
    target: str | None,
    history_url: str | None,
    take_over: bool,
    yes: bool,
    output_format: str,
    **typed: Any,  # noqa: ANN401 - click's parameters by name
) -> int:
    """Undo RUN: take its merged files out and put the originals back. What arrived since stays.

    TARGET is the table or partition; without it the history tells. For Hive directories: a compaction of a Paimon or a
    segment table changes none of its rows, and earlier snapshots or versions stay readable until they expire.
    """
    from packstone.cli.draw import draw_lines
    from packstone.cli.family import check_has_backups
    from packstone.cli.find_run import find_target
    from packstone.cli.named_target import hive_table, is_named
    from packstone.cli.output import many, show
    from packstone.model.sizes import format_bytes
    from packstone.service.record import history_address

    if target is None or not is_named(target, typed):
        target = find_target(run, target, history_url)
        check_has_backups("restore", target)
    with hive_table(target, typed, history=history_address(history_url)) as table:
        if not options.confirm(f"Undo run {run} of {table.layout.root}?", yes=yes):
            return 0
        report = table.restore(run, take_over=take_over)
    removed = f"{many(report.files_removed, 'merged file')} removed" if report.files_removed else _LEFT
    lines = [
        f"restored {many(report.files_restored, 'file')} ({format_bytes(report.bytes_restored)}) of "
        f"{many(len(report.partitions), 'partition')}; {removed}"
        if report.partitions
        else f"Run {run} was undone already; nothing to do."
    ]
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 0
