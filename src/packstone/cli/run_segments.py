"""What the commands of segment tables do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.draw import draw_lines
from packstone.cli.draw_segments import (
    draw_changes,
    draw_created,
    draw_delete,
    draw_description,
    draw_load,
    draw_segments,
    draw_versions,
)
from packstone.cli.output import BarProgress, short_path, show, warn
from packstone.cli.targets import read_engine
from packstone.errors import InvalidInputError
from packstone.pipeline.open import create_table
from packstone.pipeline.table import Table
from packstone.rewrite.load.input_files import InputFormat, InputOptions
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.families import find_table
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import parse_properties_given, parse_segment_ids
from packstone.tables.segments.show import FAMILY
from packstone.tables.segments.tasks import LoadVerify

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.tables.segments.user_verbs import SegmentVerbs


def run_create(path: str, typed: dict[str, Any]) -> int:
    """Create a table and print its description."""
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


def run_describe(path: str, typed: dict[str, Any]) -> int:
    """Show columns and properties."""
    found = _open(path).describe()
    _show(found.to_json(), typed, lambda console: draw_description(console, found))
    return 0


def run_alter(path: str, typed: dict[str, Any]) -> int:
    """Change properties; show them before and after."""
    if not typed["properties"] and not typed["unset"]:
        raise InvalidInputError("Nothing to change; give --property NAME=VALUE or --unset NAME.")
    changes = _open(path).alter(dict(parse_properties_given(typed["properties"])), unset=typed["unset"])
    _show(changes.to_json(), typed, lambda console: draw_changes(console, changes))
    return 0


def run_load(path: str, inputs: tuple[str, ...], typed: dict[str, Any]) -> int:
    """Load files as one segment."""
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


def run_show(path: str, typed: dict[str, Any]) -> int:
    """List segments."""
    shown = _open(path).show(history=typed["with_history"], limit=typed["limit"], **_when(typed))
    _show(shown.to_json(), typed, lambda console: draw_segments(console, shown))
    return 0


def run_versions(path: str, typed: dict[str, Any]) -> int:
    """List versions."""
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


def run_files(path: str, typed: dict[str, Any]) -> int:
    """List the live data files."""
    found = _open(path).files(**_when(typed))
    _show(found.to_json(), typed, lambda console: draw_lines(console, [one.path for one in found.files]))
    return 0


def run_delete(path: str, typed: dict[str, Any]) -> int:
    """Delete segments by id or by date, after asking."""
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


def run_export(path: str, typed: dict[str, Any]) -> int:
    """Print CarbonData's `tablestatus`, or write it to a new file."""
    import json
    from pathlib import Path

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
    location = parse_location(path).path
    io = open_store(location)
    create = "with `packstone segments create`"
    if io.stat(location) is None:
        raise InvalidInputError(f"{location} does not exist; create it {create}.", path=location)
    if find_table(io, location)[0].name != FAMILY:
        raise InvalidInputError(f"{location} is not a segment table; create one {create}.", path=location)
    return Table(location, io=io, **how).segments


def _when(typed: dict[str, Any]) -> dict[str, Any]:
    if typed["version"] is not None and typed["as_of"] is not None:
        raise InvalidInputError("Give either --version or --as-of.")
    return {"version": typed["version"], "as_of": typed["as_of"]}


def _show(plain: dict[str, Any], typed: dict[str, Any], draw: Callable[[Any], None]) -> None:
    show(plain, output_format=typed["output_format"], draw=draw)
