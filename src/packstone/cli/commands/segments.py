"""``packstone segments …``: the commands that only segment tables have."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options

_PATH = click.argument("path", metavar="PATH")
_SORT_SCOPE = click.Choice(["local", "global", "none"])


class _InOrder(click.Group):
    """Lists its commands in the order in which a user needs them, not alphabetically."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their definition."""
        return list(self.commands)


@click.group("segments", cls=_InOrder, short_help="Create, load, show and maintain segment tables.")
def command() -> None:
    """Create and load segment tables: each load adds one segment, and compaction keeps the number of segments small.

    `health`, `plan`, `compact` and `clean` work on them as on other tables.
    """


@command.command("create", short_help="Create an empty table.")
@_PATH
@click.option(
    "--schema", required=True, metavar="COLUMNS", help='Define the columns with Spark types: "id long, ts timestamp".'
)
@click.option(
    "--sort-by", default=None, metavar="COLUMNS", help="Sort rows by these columns, most selective first, e.g. id,ts."
)
@click.option(
    "--sort-scope", type=_SORT_SCOPE, default=None, help="Sort within each file, across the whole load, or not at all."
)
@options.property_option
@options.output_options
def create(path: str, **typed: Any) -> int:
    """Create an empty segment table at PATH, which must be a new or an empty folder."""
    from packstone.cli.run_segments import run_create

    return run_create(path, typed)


@command.command("describe", short_help="Show the columns and all properties.")
@_PATH
@options.output_options
def describe(path: str, **typed: Any) -> int:
    """Show the columns of a table, its sort order, and the value in effect of every property."""
    from packstone.cli.run_segments import run_describe

    return run_describe(path, typed)


@command.command("alter", short_help="Change properties; show them before and after.")
@_PATH
@options.property_option
@click.option("--unset", multiple=True, metavar="NAME", help="Reset a property to its default; may be repeated.")
@options.output_options
def alter(path: str, **typed: Any) -> int:
    """Change properties of a table; existing rows stay unchanged until their segments are merged."""
    from packstone.cli.run_segments import run_alter

    return run_alter(path, typed)


@command.command("load", short_help="Load files as one new segment.")
@_PATH
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--overwrite", is_flag=True, help="Replace all rows of the table.")
@click.option(
    "--label",
    default=None,
    metavar="TEXT",
    help="Name this load, for example by its day; change nothing if the name is already loaded.",
)
@click.option(
    "--input-format",
    type=click.Choice(["parquet", "orc", "csv", "json"]),
    default=None,
    help="Read the inputs in this format; default: detected from the file names.",
)
@click.option("--sort-scope", type=_SORT_SCOPE, default=None, help="Override the table's sort scope for this load.")
@click.option(
    "--bad-records",
    type=click.Choice(["fail", "force", "redirect", "ignore"]),
    default=None,
    help="Handle rows that do not fit the schema: stop the load, set the field to null, write them to a separate "
    "file, or drop them.",
)
@click.option("--no-header", is_flag=True, help="Read the first line of CSV as data; columns are in the table's order.")
@click.option(
    "--delimiter", default=",", show_default=True, help="Split CSV fields at this character; `tab` for a tab."
)
@click.option(
    "--quote",
    default='"',
    show_default=True,
    help="Read this character as the quote around CSV fields; empty for none.",
)
@click.option(
    "--null", "null_text", default="", metavar="TEXT", help="Read this text in CSV as null; default: an empty field."
)
@click.option("--multiline", is_flag=True, help="Allow line breaks in quoted CSV fields; each file is then one task.")
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Use this time zone for times in text without one.",
)
@click.option(
    "--verify",
    "verify_mode",
    type=click.Choice(["content", "count", "none"]),
    default="count",
    show_default=True,
    help="Verify every row of the new files, only the number of rows, or nothing.",
)
@options.engine_options
@options.output_options
def load(path: str, inputs: tuple[str, ...], **typed: Any) -> int:
    """Load files, folders or patterns ('in/*.csv') into PATH as one new segment. Loads never wait for each other."""
    from packstone.cli.run_segments import run_load

    return run_load(path, inputs, typed)


@command.command("show", short_help="List the segments, in CarbonData's columns.")
@_PATH
@click.option("--history", "with_history", is_flag=True, help="Include segments whose files `clean` has removed.")
@options.time_travel_options
@click.option("--limit", type=click.IntRange(min=1), default=None, help="List at most this many, newest first.")
@options.output_options
def show_segments(path: str, **typed: Any) -> int:
    """List the segments of a table, in CarbonData's columns."""
    from packstone.cli.run_segments import run_show

    return run_show(path, typed)


@command.command("versions", short_help="List the versions that can still be read.")
@_PATH
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="List at most this many, newest first."
)
@options.output_options
def versions(path: str, **typed: Any) -> int:
    """List the versions that can still be read, with the operation that created each of them."""
    from packstone.cli.run_segments import run_versions

    return run_versions(path, typed)


@command.command("files", short_help="List the live data files, for DuckDB, Polars and others.")
@_PATH
@options.time_travel_options
@options.output_options
def files(path: str, **typed: Any) -> int:
    """List the live data files, one per line: the files that DuckDB, Polars and others should read."""
    from packstone.cli.run_segments import run_files

    return run_files(path, typed)


@command.command("delete", short_help="Delete segments by id or by date.")
@_PATH
@click.option("--ids", default=None, metavar="IDS", help="Delete these segments, e.g. 1,2,0.1; all of them or none.")
@click.option("--before", default=None, metavar="TIME", help="Delete segments whose load began before this time (UTC).")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted; delete nothing.")
@options.yes_option
@options.output_options
def delete(path: str, **typed: Any) -> int:
    """Delete segments from the table; `clean` removes their files when their retention has expired."""
    from packstone.cli.run_segments import run_delete

    return run_delete(path, typed)


@command.command("export", short_help="Print the status as CarbonData's tablestatus.")
@_PATH
@click.option("--to", "to_file", default=None, metavar="FILE", help="Write to this new file instead of stdout.")
@options.time_travel_options
@options.output_options
def export(path: str, **typed: Any) -> int:
    """Print the table status in the format of CarbonData's `tablestatus`: one line of JSON."""
    from packstone.cli.run_segments import run_export

    return run_export(path, typed)
