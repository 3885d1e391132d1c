"""``packstone clean TARGET``."""

from __future__ import annotations

import click

from packstone.cli import options


@click.command("clean", short_help="Remove backups whose time is over.")
@click.argument("target")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.yes_option
@options.output_options
def command(target: str, dry_run: bool, yes: bool, output_format: str, debug: bool) -> int:  # noqa: ARG001 - main's
    """Remove the originals of TARGET's runs whose --keep-days are over: by recorded names only."""
    from packstone.cli.draw import draw_lines
    from packstone.cli.output import many, show
    from packstone.model.sizes import format_bytes
    from packstone.service.hive_table import HiveTable
    from packstone.storage.location import parse_location

    table = HiveTable(parse_location(target).path)
    report = table.clean(dry_run=True)
    what = f"{many(report.files, 'original')} of {many(len(report.runs), 'run')}, {format_bytes(report.bytes)}"
    lines = [f"would remove {what}"] if report.runs else ["Nothing to clean."]
    if report.runs and not dry_run:
        if not options.confirm(f"Remove {what}?", yes=yes):
            return 0
        report = table.clean()
        what = f"{many(report.files, 'original')} of {many(len(report.runs), 'run')}, {format_bytes(report.bytes)}"
        lines = [f"removed {what}"]
    elif not dry_run:
        report = table.clean()
    lines += [f"left alone, it is not the file that was recorded: {path}" for path in report.changed]
    lines += [f"left for the next time: {why}" for why in report.busy]
    lines += [f"{many(report.kept_runs, 'run')} still within the time to keep."] if report.kept_runs else []
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_lines(console, lines))
    return 0
