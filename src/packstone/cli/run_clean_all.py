"""``clean --all``: say what would go from all recorded tables, ask, remove it, say what went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli import options
from packstone.cli.draw import draw_lines
from packstone.cli.named_target import catalog_if_told
from packstone.cli.output import many, show
from packstone.cli.run_clean import check_no_expiry
from packstone.model.sizes import format_bytes
from packstone.service.clean_all import clean_all, list_recorded_tables
from packstone.service.record import history_address

if TYPE_CHECKING:
    from packstone.service.clean_all import CleanAllReport


def clean_all_tables(typed: dict[str, Any]) -> int:
    """Remove originals whose time is over, table by table; 1 if a table could not be reached."""
    check_no_expiry(typed, "--all", "for Hive directories")
    tables = list_recorded_tables(history_address(typed["history_url"]))
    with catalog_if_told(typed) as catalog:
        report = clean_all(tables, dry_run=True, catalog=catalog)
        if not typed["dry_run"]:
            if report.with_runs and not options.confirm(f"Remove {_originals(report)}?", yes=typed["yes"]):
                return 0
            report = clean_all(tables, dry_run=False, catalog=catalog)
    show(
        report.to_json(), output_format=typed["output_format"], draw=lambda console: draw_lines(console, _lines(report))
    )
    return 1 if report.failed else 0


def _originals(report: CleanAllReport) -> str:
    of = f"of {many(len(report.with_runs), 'table')}"
    return f"{many(report.files, 'original')} {of}, {format_bytes(report.bytes)}"


def _lines(report: CleanAllReport) -> list[str]:
    verb = "would remove" if report.dry_run else "removed"
    lines = [f"{verb} {_originals(report)}"] if report.with_runs else ["Nothing to clean."]
    lines += [
        f"  {one.table}: {many(one.files, 'original')} of {many(len(one.runs), 'run')}, {format_bytes(one.bytes)}"
        for one in report.with_runs
    ]
    for one in report.tables:
        lines += [f"left alone, it is not the file that was recorded: {path}" for path in one.changed]
        lines += [f"left for the next time: {why}" for why in one.busy]
    lines += [f"gone: {table}" for table in report.gone]
    lines += [f"not cleaned: {one.table}: {one.why}" for one in report.failed]
    kept = sum(one.kept_runs for one in report.tables)
    return [*lines, f"{many(kept, 'run')} still within the time to keep."] if kept else lines
