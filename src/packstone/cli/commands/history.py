"""``packstone history``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options

if TYPE_CHECKING:
    from packstone.model.run_record import RunRecord


@click.command("history", short_help="List the runs.")
@click.option("--history", "history_url", default=None, metavar="URL", help="History database.")
@click.option("--table", "table_path", default=None, help="Only runs of this table.")
@click.option("--status", default=None, help="Only runs that ended so.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@options.output_options
def command(
    history_url: str | None,
    table_path: str | None,
    status: str | None,
    limit: int,
    output_format: str,
    debug: bool,  # noqa: ARG001 - read by main
) -> int:
    """List the runs, newest first, with their files, bytes and read times before and after."""
    from packstone.cli.output import show
    from packstone.model.codec import to_plain
    from packstone.service.record import history_address
    from packstone.service.replay import open_current_history
    from packstone.storage.location import parse_location

    path = parse_location(table_path).path if table_path else None
    with open_current_history(history_address(history_url)) as history:
        runs = history.list_runs(table=path, status=status, limit=limit)
    rows = [{k: (v.isoformat() if hasattr(v, "isoformat") else v) for k, v in to_plain(run).items()} for run in runs]
    show(
        {"format_version": 1, "runs": rows},
        output_format=output_format,
        draw=lambda console: _draw(console, runs),
    )
    return 0


def _draw(console: Any, runs: tuple[RunRecord, ...]) -> None:  # noqa: ANN401 - a rich console
    from rich.table import Table
    from rich.text import Text

    from packstone.cli.output import short_path
    from packstone.model.sizes import format_bytes

    if not runs:
        console.print("No runs are recorded.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    table.add_column("status")
    table.add_column("table", overflow="fold")
    for name in ("files", "bytes", "read s", "seconds"):
        table.add_column(name, justify="right")
    for run in runs:
        reads = (
            ""
            if run.read_seconds_before is None or run.read_seconds_after is None
            else f"{run.read_seconds_before:.2f} → {run.read_seconds_after:.2f}"
        )
        table.add_row(
            run.run,
            run.status,
            Text(short_path(run.table)),
            f"{run.files_before} → {run.files_after}",
            f"{format_bytes(run.bytes_before)} → {format_bytes(run.bytes_after)}",
            reads,
            f"{run.seconds:.1f}",
        )
    console.print(table)
