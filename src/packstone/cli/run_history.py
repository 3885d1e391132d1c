"""What the commands of the history do."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.draw_outcome import draw_lines
from packstone.cli.output import short_path, show
from packstone.errors import InvalidInputError
from packstone.history.store import HistoryPruneReport, parse_when, prune_history
from packstone.model.codec import to_plain
from packstone.model.run_record import RunRecord
from packstone.model.sizes import format_bytes, plural
from packstone.pipeline.record import history_address, open_current_history

if TYPE_CHECKING:
    from packstone.history.store import RunFilters
    from packstone.model.run_record import RunFacts


def run_list(history_url: str | None, filters: RunFilters, *, limit: int, output_format: str) -> int:
    """Print the runs that pass the filters."""
    with open_current_history(history_address(history_url)) as history:
        runs = history.list_runs(filters, limit=limit)
    rows = [to_plain(run) for run in runs]
    if output_format == "csv":
        click.echo(_csv(rows), nl=False)
        return 0
    plain = {"format_version": 1, "runs": rows}
    show(plain, output_format=output_format, draw=lambda console: _draw_runs(console, runs))
    return 0


def run_show(history_url: str | None, run: str, *, output_format: str) -> int:
    """Print one run."""
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


def run_prune(history_url: str | None, *, older_than: str, dry_run: bool, yes: bool, output_format: str) -> int:
    """Delete the records of old runs after asking."""
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
    return {name: value for name, value in to_plain(record).items() if name != "run"}


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(RunRecord)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _draw_runs(console: Any, runs: tuple[RunRecord, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

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
        table.add_row(
            run.run,
            run.status,
            Text(short_path(run.table)),
            f"{run.files_before} → {run.files_after}",
            f"{format_bytes(run.bytes_before)} → {format_bytes(run.bytes_after)}",
            _reads(run.read_seconds_before, run.read_seconds_after),
            f"{run.seconds:.1f}",
        )
    console.print(table)


def _draw_facts(console: Any, facts: RunFacts) -> None:
    _draw_runs(console, (facts.run,))
    lines = [f"{unit.partition or '.'}: {unit.inputs} → {unit.outputs} files by {unit.how}" for unit in facts.units]
    lines += [f"left alone ({skip.kind}): {skip.what}: {skip.why}" for skip in facts.skips]
    lines += [facts.run.message] if facts.run.message and not facts.skips else []
    draw_lines(console, lines)


def _reads(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{before:.2f} → {after:.2f}"
