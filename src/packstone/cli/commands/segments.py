"""``packstone segments …``: the commands that only segment tables have."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options

_PATH = click.argument("path", metavar="PATH")
_SORT_SCOPE = click.Choice(["local", "global", "none"])


class _InOrder(click.Group):
    """Lists its commands in the order in which one needs them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name them as they stand below."""
        return list(self.commands)


@click.group("segments", cls=_InOrder, short_help="Segment tables: create, load, show, delete and more.")
def command() -> None:
    """Make and fill segment tables: every load is a segment of its own, and compaction keeps their number small.

    `health`, `plan`, `compact` and `clean` work on them as on other tables.
    """


@command.command("create", short_help="Make an empty table.")
@_PATH
@click.option(
    "--schema", required=True, metavar="COLUMNS", help='Columns as Spark writes them: "id long, ts timestamp".'
)
@click.option(
    "--sort-by", default=None, metavar="COLUMNS", help="Sort rows by these, most selective first, e.g. id,ts."
)
@click.option("--sort-scope", type=_SORT_SCOPE, default=None, help="Sort each file's rows, the whole load, or nothing.")
@options.property_option
@options.output_options
def create(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Make an empty segment table at PATH, which must be a new or an empty folder."""
    from packstone.cli.run_segments import run_create

    return run_create(path, typed)


@command.command("describe", short_help="Show the columns and all properties.")
@_PATH
@options.output_options
def describe(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Show what a table is: its columns, its order, and every property as it counts."""
    from packstone.cli.run_segments import run_describe

    return run_describe(path, typed)


@command.command("alter", short_help="Change properties; show them before and after.")
@_PATH
@options.property_option
@click.option("--unset", multiple=True, metavar="NAME", help="Take a property back to its default; may be repeated.")
@options.output_options
def alter(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Change properties of a table; rows stay as they are until segments are merged."""
    from packstone.cli.run_segments import run_alter

    return run_alter(path, typed)


@command.command("load", short_help="Load files as one new segment.")
@_PATH
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--overwrite", is_flag=True, help="Replace all rows of the table by these.")
@click.option(
    "--input-format",
    type=click.Choice(["parquet", "orc", "csv", "json"]),
    default=None,
    help="What the inputs are; default: told by their names.",
)
@click.option("--sort-scope", type=_SORT_SCOPE, default=None, help="For this load; default: the table's.")
@click.option(
    "--bad-records",
    type=click.Choice(["fail", "force", "redirect", "ignore"]),
    default=None,
    help="Rows that do not fit: stop, take the field as null, keep them apart, or leave them out.",
)
@click.option("--no-header", is_flag=True, help="CSV: the first line is data; columns come in the table's order.")
@click.option("--delimiter", default=",", show_default=True, help="CSV: what stands between the fields; tab for a tab.")
@click.option("--quote", default='"', show_default=True, help="CSV: what stands around a field; empty: nothing.")
@click.option("--null", "null_text", default="", metavar="TEXT", help="CSV: what stands for null; default: nothing.")
@click.option("--multiline", is_flag=True, help="CSV: quoted fields may hold line breaks; a file is then one task.")
@click.option("--timezone", default="UTC", show_default=True, help="The zone of times in text that name none.")
@click.option(
    "--verify",
    "verify_mode",
    type=click.Choice(["content", "count", "none"]),
    default="count",
    show_default=True,
    help="Read the new files again: every row, their number, or not.",
)
@options.engine_options
@options.output_options
def load(path: str, inputs: tuple[str, ...], **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Load files, folders or patterns ('in/*.csv') into PATH as one new segment. Loads never wait for each other."""
    from packstone.cli.run_segments import run_load

    return run_load(path, inputs, typed)


@command.command("show", short_help="List the segments, in CarbonData's columns.")
@_PATH
@click.option("--history", "with_history", is_flag=True, help="Also segments whose files `clean` has removed.")
@options.time_travel_options
@click.option("--limit", type=click.IntRange(min=1), default=None, help="At most so many, newest first.")
@options.output_options
def show(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """List the segments of a table, in CarbonData's columns."""
    from packstone.cli.run_segments import run_show

    return run_show(path, typed)


@command.command("versions", short_help="List the versions that can still be read.")
@_PATH
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many, newest first."
)
@options.output_options
def versions(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """List the versions that can still be read, with what made each of them."""
    from packstone.cli.run_segments import run_versions

    return run_versions(path, typed)


@command.command("files", short_help="Name the live data files, for DuckDB, Polars and others.")
@_PATH
@options.time_travel_options
@options.output_options
def files(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Name the live data files, one on a line: what DuckDB, Polars and others should read."""
    from packstone.cli.run_segments import run_files

    return run_files(path, typed)


@command.command("delete", short_help="Take segments out, by id or by date.")
@_PATH
@click.option("--ids", default=None, metavar="IDS", help="These segments, e.g. 1,2,0.1; all of them or none.")
@click.option("--before", default=None, metavar="TIME", help="Segments whose load began before this moment (UTC).")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@options.yes_option
@options.output_options
def delete(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Take segments out of the table; `clean` removes their files when the retention is over."""
    from packstone.cli.run_segments import run_delete

    return run_delete(path, typed)


@command.command("export", short_help="Print the status as CarbonData's tablestatus.")
@_PATH
@click.option("--to", "to_file", default=None, metavar="FILE", help="Write to this new file instead of stdout.")
@options.time_travel_options
@options.output_options
def export(path: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Print the status as CarbonData writes its `tablestatus`: one line of JSON."""
    from packstone.cli.run_segments import run_export

    return run_export(path, typed)
