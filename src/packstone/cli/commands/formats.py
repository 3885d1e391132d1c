"""``packstone formats …``: the file formats that a metastore records, kept in the history database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options

if TYPE_CHECKING:
    from packstone.model.metastore import SeenFormat


@click.group("formats", short_help="Record and list the file formats of a metastore's tables.")
def command() -> None:
    """Copy file formats from a Hive metastore to the table `hive_format_type` of the history database; list them."""


@command.command("refresh", short_help="Read the metastore and bring the formats up to date.")
@options.metastore_option
@options.history_option
@options.output_options
def refresh(metastore_url: str | None, history_url: str | None, output_format: str) -> int:
    """Read the metastore and update the recorded formats: add new entries, change others, remove what was dropped."""
    from packstone.catalog.metastore_database import refresh_formats
    from packstone.cli.draw import draw_lines
    from packstone.cli.output import show
    from packstone.cli.targets import metastore_address
    from packstone.pipeline.record import history_address

    counts = refresh_formats(metastore_address(metastore_url), history=history_address(history_url))
    parts = {"added": counts.added, "changed": counts.changed, "same": counts.same, "removed": counts.removed}
    line = ", ".join(f"{count:,} {name}" for name, count in parts.items())
    show({"format_version": 1, **parts}, output_format=output_format, draw=lambda c: draw_lines(c, [line]))
    return 0


@command.command("list", short_help="List the recorded formats.")
@click.argument("table", required=False, metavar="[DB[.TABLE]]")
@options.history_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="Print at most N rows."
)
@options.output_options
def list_them(table: str | None, history_url: str | None, limit: int, output_format: str) -> int:
    """List tables and partitions with formats and locations: of all databases, of one database, or of one table."""
    from packstone.history.formats import FormatTable
    from packstone.pipeline.record import history_address

    database, _, name = (table or "").lower().partition(".")
    with FormatTable(history_address(history_url)) as formats:
        found = formats.list_formats(database=database, table=name, limit=limit)
    return _show(found, output_format)


@command.command("show", short_help="Show the format of one table, partition or location.")
@click.argument("target", metavar="TARGET")
@options.history_option
@options.output_options
def show_one(target: str, history_url: str | None, output_format: str) -> int:
    """Show the format of TARGET: a location, db.table, or db.table/dt=1."""
    from packstone.catalog.metastore_database import find_formats
    from packstone.pipeline.record import history_address

    return _show(find_formats(target, history=history_address(history_url)), output_format)


def _show(found: tuple[SeenFormat, ...], output_format: str) -> int:
    from packstone.cli.output import show

    plain = {"format_version": 1, "formats": [_plain(one) for one in found]}
    show(plain, output_format=output_format, draw=lambda console: _draw(console, found))
    return 0


def _plain(one: SeenFormat) -> dict[str, Any]:
    from packstone.model.codec import to_plain

    return {**to_plain(one.record), "seen_at": one.seen_at.isoformat(), "changed_at": one.changed_at.isoformat()}


def _draw(console: Any, found: tuple[SeenFormat, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    from packstone.cli.output import plain_text

    if not found:
        console.print("No formats are recorded; `packstone formats refresh` reads the metastore.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("table", overflow="fold")
    table.add_column("format")
    table.add_column("location", overflow="fold")
    for one in found:
        record = one.record
        table.add_row(Text(plain_text(record.full_name)), record.file_format, Text(plain_text(record.location)))
    console.print(table)
