"""``packstone segments …``: the commands that only segment tables have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.output import BarProgress, short_path, show, warn
from packstone.cli.targets import read_engine
from packstone.errors import InvalidInputError
from packstone.storage.location import parse_location
from packstone.tables.families import find_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.tables.segments.user_verbs import SegmentVerbs

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
    from packstone.cli.draw_segments import draw_created
    from packstone.pipeline.open import create_table
    from packstone.tables.segments.options import parse_properties_given

    sort_by = tuple(name.strip() for name in typed["sort_by"].split(",")) if typed["sort_by"] else ()
    table = create_table(
        parse_location(path).path,
        typed["schema"],
        sort_by=sort_by,
        sort_scope=typed["sort_scope"],
        properties=dict(parse_properties_given(typed["properties"])),
    )
    created = table.segments.describe()
    _show(created.to_json(status="created"), typed, lambda console: draw_created(console, created))
    return 0


@command.command("describe", short_help="Show the columns and all properties.")
@_PATH
@options.output_options
def describe(path: str, **typed: Any) -> int:
    """Show the columns of a table, its sort order, and the value in effect of every property."""
    from packstone.cli.draw_segments import draw_description

    found = _open(path).describe()
    _show(found.to_json(), typed, lambda console: draw_description(console, found))
    return 0


@command.command("alter", short_help="Change properties; show them before and after.")
@_PATH
@options.property_option
@click.option("--unset", multiple=True, metavar="NAME", help="Reset a property to its default; may be repeated.")
@options.output_options
def alter(path: str, **typed: Any) -> int:
    """Change properties of a table; existing rows stay unchanged until their segments are merged."""
    from packstone.cli.draw_segments import draw_changes
    from packstone.tables.segments.options import parse_properties_given

    if not typed["properties"] and not typed["unset"]:
        raise InvalidInputError("Nothing to change; give --property NAME=VALUE or --unset NAME.")
    changes = _open(path).alter(dict(parse_properties_given(typed["properties"])), unset=typed["unset"])
    _show(changes.to_json(), typed, lambda console: draw_changes(console, changes))
    return 0


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
    from packstone.cli.draw_segments import draw_load
    from packstone.rewrite.load.input_files import InputFormat, InputOptions
    from packstone.tables.segments.load_options import LoadOptions
    from packstone.tables.segments.tasks import LoadVerify

    progress = BarProgress("loading", "tasks")
    table = _open(path, engine=read_engine(typed), progress=progress)
    load_options = LoadOptions(
        overwrite=typed["overwrite"],
        label=typed["label"],
        sort_scope=typed["sort_scope"],
        bad_records=typed["bad_records"],
        zone=typed["timezone"],
        verify=LoadVerify(typed["verify_mode"]),
        inputs=InputOptions(
            file_format=InputFormat(typed["input_format"]) if typed["input_format"] else None,
            delimiter=_character(typed["delimiter"]),
            quote=typed["quote"],
            header=not typed["no_header"],
            multiline=typed["multiline"],
            null_text=typed["null_text"],
        ),
    )
    try:
        report = table.load(inputs, options=load_options)
    finally:
        progress.close()
    for warning in report.warnings:
        warn(warning)
    _show(report.to_json(), typed, lambda console: draw_load(console, report))
    if report.merged is not None and report.merged.interrupted:
        what = "Interrupted: the load is done, the merge after it stopped early; continue with `packstone compact`."
        click.echo(f"packstone: {what}", err=True)
        return report.merged.exit_code
    return 0


@command.command("show", short_help="List the segments, in CarbonData's columns.")
@_PATH
@click.option("--history", "with_history", is_flag=True, help="Include segments whose files `clean` has removed.")
@options.time_travel_options
@click.option("--limit", type=click.IntRange(min=1), default=None, metavar="N", help="List at most N, newest first.")
@options.output_options
def show_segments(path: str, **typed: Any) -> int:
    """List the segments of a table, in CarbonData's columns."""
    from packstone.cli.draw_segments import draw_segments

    shown = _open(path).show(history=typed["with_history"], limit=typed["limit"], **_when(typed))
    _show(shown.to_json(), typed, lambda console: draw_segments(console, shown))
    return 0


@command.command("versions", short_help="List the versions that can still be read.")
@_PATH
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most N, newest first.",
)
@options.output_options
def versions(path: str, **typed: Any) -> int:
    """List the versions that can still be read, with the operation that created each of them."""
    from packstone.cli.draw_segments import draw_versions
    from packstone.tables.segments.show import FAMILY

    table = _open(path)
    found = table.versions(limit=typed["limit"])
    plain = {
        "format_version": 1,
        "table": table.path,
        "family": FAMILY,
        "versions": [one.to_json() for one in found],
    }
    _show(plain, typed, lambda console: draw_versions(console, found))
    return 0


@command.command("files", short_help="List the live data files, for DuckDB, Polars and others.")
@_PATH
@options.time_travel_options
@options.output_options
def files(path: str, **typed: Any) -> int:
    """List the live data files, one per line: the files that DuckDB, Polars and others should read."""
    from packstone.cli.draw import draw_lines

    found = _open(path).files(**_when(typed))
    found.check_no_deletes()
    _show(found.to_json(), typed, lambda console: draw_lines(console, [one.path for one in found.files]))
    return 0


@command.command("delete", short_help="Delete segments by id or by date.")
@_PATH
@click.option("--ids", default=None, metavar="IDS", help="Delete these segments, e.g. 1,2,0.1; all of them or none.")
@click.option("--before", default=None, metavar="TIME", help="Delete segments whose load began before this time (UTC).")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted; delete nothing.")
@options.yes_option
@options.output_options
def delete(path: str, **typed: Any) -> int:
    """Delete segments from the table; `clean` removes their files when their retention has expired."""
    from packstone.cli.draw_segments import draw_delete
    from packstone.tables.segments.options import parse_segment_ids

    if (typed["ids"] is None) == (typed["before"] is None):
        raise InvalidInputError("Give either --ids or --before.")
    which: dict[str, Any] = {"ids": parse_segment_ids(typed["ids"])} if typed["ids"] else {"before": typed["before"]}
    table = _open(path)
    report = table.delete(**which, dry_run=True)
    if report.segments and not typed["dry_run"]:
        if not options.confirm(f"Delete {report.what} of {short_path(table.path)}?", yes=typed["yes"]):
            return 0
        report = table.delete(**which)
    _show(report.to_json(), typed, lambda console: draw_delete(console, report))
    return 0


@command.command("delete-rows", short_help="Delete the rows that a filter selects.")
@_PATH
@click.option(
    "--where",
    required=True,
    metavar="FILTER",
    help='Delete the rows for which this SQL filter is true, e.g. "user_id = 7"; rows for which it is null stay.',
)
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Use this time zone for times in the filter without one.",
)
@click.option("--dry-run", is_flag=True, help="Print how many rows of which segments would be deleted; delete nothing.")
@options.yes_option
@options.output_options
def delete_rows(path: str, **typed: Any) -> int:
    """Delete rows from the table; compaction removes them from the files, and `clean` removes the old files."""
    from packstone.cli.draw_segments import draw_delete_rows

    table = _open(path)
    report = table.delete_rows(typed["where"], timezone=typed["timezone"], dry_run=True)
    if report.segments and not typed["dry_run"]:
        if not options.confirm(f"Delete {report.what} of {short_path(table.path)}?", yes=typed["yes"]):
            return 0
        report = table.delete_rows(typed["where"], timezone=typed["timezone"])
    _show(report.to_json(), typed, lambda console: draw_delete_rows(console, report))
    return 0


@command.command("export", short_help="Print the status as CarbonData's tablestatus.")
@_PATH
@click.option("--to", "to_file", default=None, metavar="FILE", help="Write to this new file instead of stdout.")
@options.time_travel_options
@options.output_options
def export(path: str, **typed: Any) -> int:
    """Print the table status in the format of CarbonData's `tablestatus`: one line of JSON."""
    import json
    from pathlib import Path

    from packstone.cli.draw import draw_lines

    exported = _open(path).export(**_when(typed))
    plain = exported.to_json()
    if typed["to_file"] is None:
        _show(plain, typed, lambda console: console.out(exported.text, highlight=False))
        return 0
    target = Path(typed["to_file"])
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(exported.text)
    except FileExistsError:
        raise InvalidInputError(f"{target} exists already; give a new file.") from None
    entries = len(json.loads(exported.text))
    lines = [f"wrote {entries:,} entries of version {exported.version} to {short_path(str(target.absolute()))}"]
    _show({**plain, "file": str(target.absolute())}, typed, lambda console: draw_lines(console, lines))
    return 0


def _character(text: str) -> str:
    r"""Accept ``\t`` and ``tab`` for a tab."""
    return "\t" if text in ("\\t", "tab") else text


def _open(path: str, **how: Any) -> SegmentVerbs:
    from packstone.pipeline.table import Table
    from packstone.storage.stores import open_store
    from packstone.tables.lake import check_listable
    from packstone.tables.segments.show import FAMILY

    location = parse_location(path).path
    io = open_store(location)
    create = "with `packstone segments create`"
    if io.stat(location) is None:
        raise InvalidInputError(f"{location} does not exist; create it {create}.", path=location)
    if find_table(io, location)[0].name != FAMILY:
        check_listable(io, location)
        raise InvalidInputError(f"{location} is not a segment table; create one {create}.", path=location)
    return Table(location, io=io, **how).segments


def _when(typed: dict[str, Any]) -> dict[str, Any]:
    if typed["version"] is not None and typed["as_of"] is not None:
        raise InvalidInputError("Give either --version or --as-of.")
    return {"version": typed["version"], "as_of": typed["as_of"]}


def _show(plain: dict[str, Any], typed: dict[str, Any], draw: Callable[[Any], None]) -> None:
    show(plain, output_format=typed["output_format"], draw=draw)
