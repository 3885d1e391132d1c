"""What the commands of segment tables do: open the table, call the façade, print the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.arguments import read_engine, read_properties
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
from packstone.cli.output import short_path, show
from packstone.cli.progress_bar import BarProgress
from packstone.errors import InvalidInputError
from packstone.model.segment_options import parse_segment_ids
from packstone.rewrite.inputs.input_files import InputFormat, InputOptions
from packstone.service.load_options import LoadOptions
from packstone.service.segment_reports import FAMILY
from packstone.service.segment_table import SegmentTable
from packstone.storage.location import parse_location
from packstone.tables.segments.load_tasks import LoadVerify

if TYPE_CHECKING:
    from collections.abc import Callable


def run_create(path: str, typed: dict[str, Any]) -> int:
    """Make a table; say what it is."""
    sort_by = tuple(name.strip() for name in typed["sort_by"].split(",")) if typed["sort_by"] else ()
    table = SegmentTable.create(
        parse_location(path).path,
        typed["schema"],
        sort_by=sort_by,
        sort_scope=typed["sort_scope"],
        properties=dict(read_properties(typed["properties"])),
    )
    created = table.describe()
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
    changes = _open(path).alter(dict(read_properties(typed["properties"])), unset=typed["unset"])
    _show(changes.to_json(), typed, lambda console: draw_changes(console, changes))
    return 0


def run_load(path: str, inputs: tuple[str, ...], typed: dict[str, Any]) -> int:
    """Load files as one segment."""
    table = _open(path, engine=read_engine(typed), progress=BarProgress("loading", "tasks"))
    load_options = LoadOptions(
        overwrite=typed["overwrite"],
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
    report = table.load(inputs, options=load_options)
    for warning in report.warnings:
        click.echo(f"packstone: {warning}", err=True)
    _show(report.to_json(), typed, lambda console: draw_load(console, report))
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
    """Name the live data files."""
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
    """Let a tab be written as it is in most languages."""
    return "\t" if text in ("\\t", "tab") else text


def _open(path: str, **how: Any) -> SegmentTable:  # noqa: ANN401 - passed on
    return SegmentTable(parse_location(path).path, **how)


def _when(typed: dict[str, Any]) -> dict[str, Any]:
    if typed["version"] is not None and typed["as_of"] is not None:
        raise InvalidInputError("Give either --version or --as-of.")
    return {"version": typed["version"], "as_of": typed["as_of"]}


def _show(plain: dict[str, Any], typed: dict[str, Any], draw: Callable[[Any], None]) -> None:
    show(plain, output_format=typed["output_format"], draw=draw)
