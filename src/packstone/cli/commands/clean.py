"""``packstone clean TARGET`` and ``packstone clean --all``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.draw_outcome import draw_lines
from packstone.cli.family import FamilyCommand
from packstone.cli.output import show
from packstone.cli.targets import open_target, read_options
from packstone.model.maintenance import CleanRequest
from packstone.model.sizes import format_bytes, parse_duration, plural

if TYPE_CHECKING:
    from packstone.pipeline.maintain import CleanAllReport


@click.command("clean", cls=FamilyCommand, short_help="Remove expired backups, leftover files, snapshots, segments.")
@click.argument("target", required=False)
@click.option("--all", "all_tables", is_flag=True, help="Clean every table in the history.")
@click.option("--history", "history_url", default=None, metavar="URL", help="Use this history database for --all.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@click.option(
    "--expire-snapshots", is_flag=True, help="Expire snapshots of a Paimon table too, by the table's own options."
)
@click.option("--retain-min", type=int, default=None, metavar="N", help="Keep at least N snapshots (Paimon).")
@click.option(
    "--retain-max", type=int, default=None, metavar="N", help="Keep at most N snapshots, whatever their age (Paimon)."
)
@click.option(
    "--older-than", default=None, metavar="AGE", help="Expire snapshots replaced longer ago, e.g. 2d (Paimon)."
)
@click.option("--max-expired", type=int, default=None, metavar="N", help="Expire at most N snapshots at once (Paimon).")
@options.home_options
@options.set_option
@options.yes_option
@options.output_options
def command(target: str | None, **typed: Any) -> int:
    """Free space in TARGET: remove files that are no longer needed. Only files with recorded names are removed.

    Hive directories: the originals of runs whose --keep-days have expired. Paimon tables: files that killed runs left,
    and with --expire-snapshots the snapshots whose retention has expired, with the files that only they use. Segment
    tables: what killed loads and compactions left, and segments and versions whose retention has expired.

    Give --all instead of TARGET to clean every table that has a run in the history.
    """
    from packstone.errors import InvalidInputError

    if typed["all_tables"] == (target is not None):
        raise InvalidInputError("Give either a TARGET or --all; see `packstone clean --help`.")
    if typed["history_url"] and target is not None:
        raise InvalidInputError("--history is for --all; for TARGET the records beside the table are used.")
    return clean_all_tables(typed) if target is None else clean_target(target, typed)


def clean_target(target: str, typed: dict[str, Any]) -> int:
    """Clean one table after asking; return 1 if a record cannot be used, 3 if a requested removal is refused."""
    request = _request(typed)
    with open_target(target, typed, to_merge=False) as table:
        settings = read_options(table, typed, verb="clean")
        report = table.clean(request, settings, dry_run=True)
        if not typed["dry_run"]:
            if not report.is_empty and not options.confirm(f"Remove {report.describe()}?", yes=typed["yes"]):
                return 0
            report = table.clean(request, settings)
    verb = "would remove" if typed["dry_run"] else "removed"
    lines = ["Nothing to clean."] if report.is_empty else [f"{verb} {report.describe()}"]
    _show(report.to_json(dry_run=typed["dry_run"]), [*lines, *report.notes()], typed)
    return 3 if report.refused else 1 if report.problems else 0


def clean_all_tables(typed: dict[str, Any]) -> int:
    """Clean every table in the history after asking; return 1 if a table could not be cleaned."""
    from packstone.errors import InvalidInputError
    from packstone.pipeline.maintain import clean_recorded_tables
    from packstone.pipeline.record import history_address

    if typed["settings"]:
        raise InvalidInputError("--set needs a TARGET.")
    given = _request(typed).given
    if given:
        raise InvalidInputError(f"--{given[0].removesuffix('_seconds').replace('_', '-')} needs a TARGET.")
    url, metastore = history_address(typed["history_url"]), typed.get("metastore_url")
    report = clean_recorded_tables(url, dry_run=True, metastore=metastore)
    if not typed["dry_run"]:
        if report.with_files and not options.confirm(f"Remove {_what(report)}?", yes=typed["yes"]):
            return 0
        report = clean_recorded_tables(url, dry_run=False, metastore=metastore)
    _show(report.to_json(), _lines(report), typed)
    return 1 if report.failed else 0


def _what(report: CleanAllReport) -> str:
    of = f"of {plural(len(report.with_files), 'table')}"
    return f"{plural(report.files, 'file')} {of}, {format_bytes(report.bytes)}"


def _lines(report: CleanAllReport) -> list[str]:
    verb = "would remove" if report.dry_run else "removed"
    lines = [f"{verb} {_what(report)}"] if report.with_files else ["Nothing to clean."]
    lines += [f"  {table}: {plan.describe()}" for table, plan in report.with_files]
    lines += [f"{table}: {note.strip()}" for table, plan in report.tables for note in plan.notes()]
    lines += [f"gone: {table}" for table in report.gone]
    return [*lines, *(f"not cleaned: {one.table}: {one.why}" for one in report.failed)]


def _request(typed: dict[str, Any]) -> CleanRequest:
    older = typed["older_than"]
    return CleanRequest(
        expire_snapshots=typed["expire_snapshots"],
        retain_min=typed["retain_min"],
        retain_max=typed["retain_max"],
        older_than_seconds=parse_duration(older).total_seconds() if older else None,
        max_expired=typed["max_expired"],
    )


def _show(plain: dict[str, Any], lines: list[str], typed: dict[str, Any]) -> None:
    show(plain, output_format=typed["output_format"], draw=lambda console: draw_lines(console, lines))
