"""``packstone verify``, ``check``, ``restore``, ``recover`` and ``clean``: what comes after a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand

if TYPE_CHECKING:
    from packstone.model.maintenance import CleanRequest
    from packstone.pipeline.maintain import CleanAllReport

_SHOWN_DAMAGE: Final = 50
_HISTORY_OF_RUN = click.option(
    "--history", "history_url", default=None, metavar="URL", help="Look up the table of RUN in this history database."
)


@click.command("verify", cls=FamilyCommand, short_help="Verify a run again from the files that still exist.")
@click.argument("run")
@click.argument("target", required=False)
@_HISTORY_OF_RUN
@click.option(
    "--measure-read",
    is_flag=True,
    help="Measure how long originals and merged files take to read, cold and warm, in turns (Hive directories).",
)
@options.metastore_option
@options.engine_options
@options.output_options
def verify(run: str, target: str | None, history_url: str | None, measure_read: bool, **typed: Any) -> int:
    """Read RUN's merged files again, and its originals if they still exist, and compare them with the record."""
    from packstone.cli.targets import find_target, open_target
    from packstone.model.sizes import plural

    with open_target(find_target(run, target, history_url), typed, to_merge=False) as table:
        report = table.verify(run, measure_read=measure_read)
    against = "the record"
    if report.with_inputs == report.proved > 0:
        against += " and its originals" if report.proved == 1 else " and their originals"
    elif report.with_inputs:
        against += f", {report.with_inputs:,} of them also against their originals"
    proved = f"verified {plural(report.rows, 'row')} in {plural(report.proved, 'merged file')} against {against}"
    lines = [f"MISMATCH  {problem}" for problem in report.problems] or [proved]
    lines += [
        f"read {one['cache']}: {one['seconds_before']:.3f} s before, {one['seconds_after']:.3f} s after "
        f"({one['runs']} interleaved runs, {one['engine']})"
        for one in report.read_times
    ]
    lines += [f"engine {report.engine}"] if report.engine is not None else []
    _print(report.to_json(), lines, typed["output_format"])
    return 1 if report.problems else 0


@click.command("check", cls=FamilyCommand, short_help="Check that all files exist and are what was written.")
@click.argument("target")
@click.option(
    "--version",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Check version N (segment and Paimon tables).",
)
@click.option("--deep", is_flag=True, help="Also read all rows, and compare them with what is recorded.")
@options.metastore_option
@options.engine_options
@options.output_options
def check(target: str, *, version: int | None, deep: bool, **typed: Any) -> int:
    """Check the files of TARGET; change nothing. The exit code is 1 if a file is damaged.

    Every file that the newest version names must exist, and have its size and checksum; what is recorded about data
    files must agree with their footers, and with --deep with their rows: numbers of rows, smallest and largest values,
    nulls, sort order.

    Hive directories record nothing about their files: files that cannot be read and swaps that stopped half-way are
    reported.
    """
    from packstone.cli.targets import open_target
    from packstone.model.sizes import format_bytes, plural

    with open_target(target, typed, to_merge=False) as table:
        report = table.check(version=version, deep=deep)
    of = "" if report.version is None else f"version {report.version:,}: "
    read = "all data" if deep else "metadata, sizes and footers"
    checked = f"{of}{plural(report.files, 'file')}, {format_bytes(report.bytes)}; checked {read}"
    lines = [f"DAMAGED  {one}" for one in report.damage[:_SHOWN_DAMAGE]]
    if report.damaged > _SHOWN_DAMAGE:
        lines.append(f"… and {report.damaged - _SHOWN_DAMAGE:,} more; --format json lists them")
    found = f"{report.damaged:,} damaged" if report.damaged else "no damage found"
    _print(report.to_json(), [*lines, f"{checked}: {found}"], typed["output_format"])
    return 1 if report.damaged else 0


@click.command("restore", cls=FamilyCommand, short_help="Undo exactly one run.")
@click.argument("run")
@click.argument("target", required=False)
@_HISTORY_OF_RUN
@options.set_option
@options.take_over_option
@options.home_options
@options.yes_option
@options.output_options
def restore(
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
    from packstone.cli.targets import find_target, open_target, read_options
    from packstone.model.sizes import format_bytes, plural
    from packstone.pipeline.record import history_address

    target = find_target(run, target, history_url)
    with open_target(target, typed, history=history_address(history_url), to_merge=False) as table:
        chosen = read_options(table, typed, verb="restore")
        if not table.was_undone(run) and not options.confirm(f"Undo run {run} of {table.path}?", yes=yes):
            return 0
        plan = table.restore(run, chosen, take_over=take_over)
        noun = table.family_row.part
    removed = f"{plural(plan.files_removed, 'merged file')} removed" if plan.files_removed else plan.note
    restored = f"restored {plural(plan.files_restored, 'file')} ({format_bytes(plan.bytes_restored)}) of "
    lines = [
        f"{restored}{plural(len(plan.parts), noun)}; {removed}".removesuffix("; ")
        if plan.parts
        else f"Run {run} was already undone; nothing to do."
    ]
    _print(plan.to_json(), lines, output_format)
    return 0


@click.command("recover", short_help="Finish or undo the half-done work of a killed run.")
@click.argument("target")
@click.option(
    "--take-over", is_flag=True, help="Recover the work of a run on another host too, if you know that it has stopped."
)
@options.home_options
@options.output_options
def recover(target: str, take_over: bool, output_format: str, **typed: Any) -> int:
    """Finish or undo what stopped half-way in TARGET's table, end dead runs, and remove their staging files.

    In a Hive directory a swap can stop half-way; in a segment table the registration of a compaction can remain. A
    snapshot of a Paimon table and a version of a segment table are published completely or not at all. Other files
    that a killed run left are removed by `clean`.
    """
    from packstone.cli.targets import open_target

    with open_target(target, typed, to_merge=False) as table:
        report = table.recover(take_over=take_over)
    lines = [*report.actions, *report.left] or [f"{report.table}: nothing to recover."]
    _print(report.to_json(), lines, output_format)
    return 3 if report.left else 0


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
    "--older-than", default=None, metavar="AGE", help="Expire snapshots replaced more than AGE ago, e.g. 2d (Paimon)."
)
@click.option("--max-expired", type=int, default=None, metavar="N", help="Expire at most N snapshots at once (Paimon).")
@options.home_options
@options.set_option
@options.yes_option
@options.output_options
def clean(target: str | None, **typed: Any) -> int:
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
    return _clean_all(typed) if target is None else _clean_one(target, typed)


def _clean_one(target: str, typed: dict[str, Any]) -> int:
    """Clean one table after asking; return 1 if a record cannot be used, 3 if a requested removal is refused."""
    from packstone.cli.targets import open_target, read_options

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
    _print(report.to_json(dry_run=typed["dry_run"]), [*lines, *report.notes()], typed["output_format"])
    return 3 if report.refused else 1 if report.problems else 0


def _clean_all(typed: dict[str, Any]) -> int:
    """Clean every table in the history after asking; return 1 if a table could not be cleaned."""
    from packstone.cli.targets import read_spark_settings
    from packstone.errors import InvalidInputError
    from packstone.pipeline.maintain import clean_recorded_tables
    from packstone.pipeline.record import history_address

    if typed["settings"]:
        raise InvalidInputError("--set needs a TARGET.")
    given = _request(typed).given
    if given:
        raise InvalidInputError(f"--{given[0].removesuffix('_seconds').replace('_', '-')} needs a TARGET.")
    url = history_address(typed["history_url"])
    home = {"metastore": typed["metastore_url"], "settings": read_spark_settings(typed)}
    report = clean_recorded_tables(url, dry_run=True, **home)
    if not typed["dry_run"]:
        if report.with_files and not options.confirm(f"Remove {_what(report)}?", yes=typed["yes"]):
            return 0
        report = clean_recorded_tables(url, dry_run=False, **home)
    _print(report.to_json(), _lines(report), typed["output_format"])
    return 1 if report.failed else 0


def _what(report: CleanAllReport) -> str:
    from packstone.model.sizes import format_bytes, plural

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
    from packstone.model.maintenance import CleanRequest
    from packstone.model.sizes import parse_duration

    older = typed["older_than"]
    return CleanRequest(
        expire_snapshots=typed["expire_snapshots"],
        retain_min=typed["retain_min"],
        retain_max=typed["retain_max"],
        older_than_seconds=parse_duration(older).total_seconds() if older else None,
        max_expired=typed["max_expired"],
    )


def _print(plain: dict[str, Any], lines: list[str], output_format: str) -> None:
    from packstone.cli.draw import draw_lines
    from packstone.cli.output import show

    show(plain, output_format=output_format, draw=lambda console: draw_lines(console, lines))
