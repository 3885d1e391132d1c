"""``packstone history``, ``history show RUN`` and ``history prune``."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.family import check_family
from packstone.cli.output import short_path, show
from packstone.errors import InvalidInputError
from packstone.model.run_record import RunRecord
from packstone.model.sizes import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.history.store import HistoryPruneReport, RunFilters
    from packstone.model.run_record import RunFacts

_PATH_CELLS = 10  # at least, for a path in a list; with less room, every column is wrapped
# The statuses that are recorded, from model/outcome.py and pipeline/record.py.
_STATUSES = ("committed", "partial", "restored", "failed", "conflict", "refused")


@click.group("history", invoke_without_command=True, short_help="List recorded runs; show one, or delete old records.")
@options.history_option
@click.option("--table", "table_path", default=None, metavar="PATH", help="List only runs of this table.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help="List only runs with this status, e.g. failed; may be repeated.",
)
@click.option(
    "--family", callback=check_family, default=None, metavar="NAME", help="List only runs on tables of this family."
)
@click.option("--since", default=None, metavar="WHEN", help="List only runs since a time (2026-01-31) or an age (7d).")
@click.option("--until", default=None, metavar="WHEN", help="List only runs before a time or an age.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most N runs.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Print the result as a table, JSON or CSV.",
)
@options.debug_option
@click.pass_context
def command(
    ctx: click.Context,
    history_url: str | None,
    table_path: str | None,
    status: tuple[str, ...],
    family: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    output_format: str,
) -> int:
    """List the recorded runs, newest first, with their files, bytes and read times before and after."""
    if ctx.invoked_subcommand is not None:
        return 0
    from packstone.history.store import RunFilters, parse_when
    from packstone.storage.location import parse_location

    filters = RunFilters(
        table=parse_location(table_path).path if table_path else None,
        status=status,
        family=family,
        since=parse_when(since) if since else None,
        until=parse_when(until) if until else None,
    )
    return _list(history_url, filters, limit=limit, output_format=output_format)


@command.command("show", short_help="Show one run with its merges, files and skipped parts.")
@click.argument("run")
@options.history_option
@options.output_options
@click.pass_context
def show_run(ctx: click.Context, run: str, history_url: str | None, output_format: str) -> int:
    """Show everything that is recorded of RUN."""
    return _show_one(history_url or _of_parent(ctx), run, output_format=output_format)


@command.command("prune", short_help="Delete the records of old runs.")
@click.option("--older-than", required=True, metavar="AGE", help="Delete runs begun more than AGE ago, e.g. 90d.")
@click.option("--dry-run", is_flag=True, help="Print how many runs would be deleted; delete nothing.")
@options.history_option
@options.yes_option
@options.output_options
@click.pass_context
def prune(
    ctx: click.Context,
    older_than: str,
    dry_run: bool,
    history_url: str | None,
    yes: bool,
    output_format: str,
) -> int:
    """Delete the records of runs that started more than AGE ago. Tables are not touched."""
    url = history_url or _of_parent(ctx)
    return _prune(url, older_than=older_than, dry_run=dry_run, yes=yes, output_format=output_format)


def _of_parent(ctx: click.Context) -> str | None:
    """Return the value of ``--history`` given before the name of the subcommand."""
    given: str | None = ctx.parent.params.get("history_url") if ctx.parent is not None else None
    return given


def _list(history_url: str | None, filters: RunFilters, *, limit: int, output_format: str) -> int:
    """Print the runs that pass the filters."""
    from packstone.model.codec import to_plain
    from packstone.pipeline.record import history_address, open_current_history

    with open_current_history(history_address(history_url)) as history:
        runs = history.list_runs(filters, limit=limit)
    rows = [to_plain(run) for run in runs]
    if output_format == "csv":
        click.echo(_csv(rows), nl=False)
        return 0
    plain = {"format_version": 1, "runs": rows}
    show(plain, output_format=output_format, draw=lambda console: _draw_list(console, runs, filters))
    return 0


def _show_one(history_url: str | None, run: str, *, output_format: str) -> int:
    """Print one run."""
    from packstone.model.codec import to_plain
    from packstone.pipeline.record import history_address, open_current_history

    with open_current_history(history_address(history_url)) as history:
        facts = history.read_facts(run)
    if facts is None:
        raise InvalidInputError(f"The history has no run {run}; `packstone history` lists the runs.")
    plain = {
        "format_version": 1,
        **to_plain(facts.run),
        "units": [_without_run(unit) for unit in facts.units],
        "skipped": [_without_run(skip) for skip in facts.skips],
    }
    show(plain, output_format=output_format, draw=lambda console: _draw_facts(console, facts))
    return 0


def _prune(history_url: str | None, *, older_than: str, dry_run: bool, yes: bool, output_format: str) -> int:
    """Delete the records of old runs after asking."""
    from packstone.cli.draw import draw_lines
    from packstone.history.store import parse_when, prune_history
    from packstone.pipeline.record import history_address

    url, before = history_address(history_url), parse_when(older_than)
    report = prune_history(url, before=before, dry_run=True)
    if report.runs and not dry_run:
        if not options.confirm(f"Delete {_old_runs(report)}?", yes=yes):
            return 0
        report = prune_history(url, before=before, dry_run=False)
    verb = "would delete" if dry_run else "deleted"
    lines = [f"{verb} {_old_runs(report)}"] if report.runs else ["Nothing to delete."]
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 0


def _old_runs(report: HistoryPruneReport) -> str:
    return f"{plural(report.runs, 'run')} from before {report.before:%Y-%m-%d %H:%M} UTC"


def _without_run(record: object) -> dict[str, Any]:
    from packstone.model.codec import to_plain

    return {name: value for name, value in to_plain(record).items() if name != "run"}


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(RunRecord)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _draw_list(console: Any, runs: tuple[RunRecord, ...], filters: RunFilters) -> None:
    if runs:
        _draw_runs(console, runs)
    else:
        is_filtered = any(getattr(filters, field.name) for field in fields(filters))
        console.print("No recorded run matches these options." if is_filtered else "No runs are recorded.")


def _draw_runs(console: Any, runs: tuple[RunRecord, ...]) -> None:
    """Draw a line for each run; on a narrow terminal with the end of a long path, and without the times."""
    from rich.table import Table
    from rich.text import Text

    numbers = {
        "files": [f"{run.files_before} → {run.files_after}" for run in runs],
        "bytes": [f"{format_bytes(run.bytes_before)} → {format_bytes(run.bytes_after)}" for run in runs],
        "read s": [_reads(run.read_seconds_before, run.read_seconds_after) for run in runs],
        "seconds": [f"{run.seconds:.1f}" for run in runs],
    }
    fixed = {"run": [run.run for run in runs], "status": [run.status for run in runs], **numbers}
    widths = {name: max(map(len, (name, *cells))) for name, cells in fixed.items()}
    gap, left_out, room = _fit(widths, console.width)
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    table.add_column("status", no_wrap=bool(room))
    table.add_column("table", no_wrap=bool(room), overflow="fold")
    numbers = {name: cells for name, cells in numbers.items() if name not in left_out}
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=bool(room))
    for run, *cells in zip(runs, *numbers.values(), strict=True):
        path = short_path(run.table)
        table.add_row(run.run, run.status, Text(_end_of(path, room) if room else path), *cells)
    console.print(table)


def _fit(widths: Mapping[str, int], width: int) -> tuple[int, tuple[str, ...], int]:
    """Return the gap between columns, which columns to leave out, and the room for a path; 0 if lines must wrap."""
    left_out: tuple[str, ...]
    for gap, left_out in ((2, ()), (1, ()), (1, ("read s",)), (1, ("read s", "seconds"))):
        shown = [cells for name, cells in widths.items() if name not in left_out]
        room = width - sum(shown) - gap * len(shown)
        if room >= _PATH_CELLS:
            return gap, left_out, room
    return 2, (), 0


def _end_of(path: str, cells: int) -> str:
    """Return the end of a path that is too long for a column: tables of one lake differ there."""
    from rich.cells import cell_len

    if cell_len(path) <= cells:
        return path
    while cell_len(path) >= cells:
        path = path[1:]
    return f"…{path}"


def _draw_facts(console: Any, facts: RunFacts) -> None:
    from packstone.cli.draw import draw_lines, part_name

    _draw_runs(console, (facts.run,))
    lines = [f"{part_name(unit.partition)}: {unit.inputs} → {unit.outputs} files by {unit.how}" for unit in facts.units]
    lines += [f"left alone ({skip.kind}): {skip.what}: {skip.why}" for skip in facts.skips]
    lines += [facts.run.message] if facts.run.message and not facts.skips else []
    draw_lines(console, lines)


def _reads(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{before:.2f} → {after:.2f}"
