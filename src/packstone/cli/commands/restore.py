"""``packstone restore RUN [TARGET]``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand


@click.command("restore", cls=FamilyCommand, short_help="Undo exactly one run.")
@click.argument("run")
@click.argument("target", required=False)
@click.option(
    "--history", "history_url", default=None, metavar="URL", help="Look up the table of RUN in this history database."
)
@options.set_option
@options.take_over_option
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
    **typed: Any,
) -> int:
    """Undo RUN: remove its merged files and put the originals back. Data that arrived since then stays.

    TARGET is the table or partition; without it, the history says which table RUN belongs to. A Hive directory gets its
    originals back from the backup, a Paimon table by an inverse COMPACT snapshot, and in a segment table the segments
    that RUN merged are live again. This works as long as the originals are kept and nothing newer is based on the
    merged files.
    """
    from packstone.cli.draw_outcome import draw_lines
    from packstone.cli.output import show
    from packstone.cli.targets import find_target, open_target, read_options
    from packstone.model.sizes import format_bytes, plural
    from packstone.pipeline.record import history_address

    target = find_target(run, target, history_url)
    with open_target(target, typed, history=history_address(history_url), to_merge=False) as table:
        if not options.confirm(f"Undo run {run} of {table.path}?", yes=yes):
            return 0
        plan = table.restore(run, read_options(table, typed, verb="restore"), take_over=take_over)
        noun = table.family_row.part
    removed = f"{plural(plan.files_removed, 'merged file')} removed" if plan.files_removed else plan.note
    restored = f"restored {plural(plan.files_restored, 'file')} ({format_bytes(plan.bytes_restored)}) of "
    lines = [
        f"{restored}{plural(len(plan.parts), noun)}; {removed}".removesuffix("; ")
        if plan.parts
        else f"Run {run} was already undone; nothing to do."
    ]
    show(plan.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 0
