"""How a segment table looks on a terminal: its segments as rows, its properties before and after, its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli.draw_parts import name_text, plain_table
from packstone.cli.output import many, plain_text, short_path
from packstone.model.moment import format_moment
from packstone.model.sizes import format_bytes
from packstone.tables.segments.show import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.service.segment_reports import (
        DeleteReport,
        Description,
        PropertyChanges,
        ShownSegments,
        VersionSummary,
    )

_RIGHT = ("Load Time Taken", "Data Size", "Index Size")
_STATUS_STYLE = {"Success": "green", "Partial Success": "yellow", "Compacted": "dim", "Marked for Delete": "dim"}


def draw_created(console: Any, table: Description) -> None:  # noqa: ANN401 - a rich console
    """Draw what a new table is."""
    _head(console, "created", "bold green", table.table)
    width = max(len(column.name) for column in table.columns)
    for column in table.columns:
        null = "" if column.nullable else " not null"
        console.print(f"  {plain_text(column.name):<{width}}  {column.type_text}{null}", markup=False)
    if table.sort_columns:
        console.print(
            f"  sorted by {plain_text(', '.join(table.sort_columns))} ({table.sort_scope})", style="dim", markup=False
        )
    _pairs(console, [(name, value) for name, value in table.properties if not name.startswith("SORT_")])


def draw_changes(console: Any, changes: PropertyChanges) -> None:  # noqa: ANN401 - a rich console
    """Draw properties before and after."""
    if not changes.changes:
        console.print("Nothing to change: the properties have these values already.")
        return
    _head(console, "committed", "bold green", changes.table, f"version {changes.version}")
    table = plain_table("property", "before", "after", right=())
    for one in changes.changes:
        table.add_row(one.name, name_text(one.before or "—"), name_text(one.after or "—"))
    console.print(table)


def draw_segments(console: Any, shown: ShownSegments) -> None:  # noqa: ANN401 - a rich console
    """Draw CarbonData's columns, ids descending."""
    if not shown.rows:
        console.print(f"{short_path(shown.table)} has no segments at version {shown.version}.", markup=False)
        return
    table = plain_table(right=())
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True)
    for row in shown.rows:
        cells = [*row.to_texts()]
        style = _STATUS_STYLE.get(cells[1], "cyan")
        cells[1] = f"[{style}]{cells[1]}[/]"
        table.add_row(*cells)
    console.print(table)


def draw_versions(console: Any, versions: Sequence[VersionSummary]) -> None:  # noqa: ANN401 - a rich console
    """Draw versions, newest first."""
    table = plain_table("version", "written (UTC)", "by", right=("segments", "rows", "bytes"))
    for one in versions:
        table.add_row(
            f"{one.version}",
            format_moment(one.written_ms),
            one.operation,
            f"{one.segments:,}",
            f"{one.rows:,}",
            format_bytes(one.size_bytes),
        )
    console.print(table)


def draw_delete(console: Any, report: DeleteReport) -> None:  # noqa: ANN401 - a rich console
    """Say what was deleted, or would be."""
    verb = "would delete" if report.dry_run else "deleted"
    console.print(f"{verb} {report.what}, {format_bytes(report.size_bytes)}", markup=False, soft_wrap=True)
    if not report.dry_run:
        console.print(
            f"version {report.version}; the files stay for readers of earlier versions until `packstone clean`",
            style="dim",
            markup=False,
            soft_wrap=True,
        )


def draw_load(console: Any, report: Any) -> None:  # noqa: ANN401 - a rich console
    """Draw what a load did."""
    console.print(many(report.rows, "row"))


def _head(console: Any, word: str, style: str, table: str, more: str = "") -> None:  # noqa: ANN401 - a rich console
    from rich.text import Text

    console.print(Text.assemble((word, style), "  ", short_path(table), f"  {more}" if more else ""))


def _pairs(console: Any, pairs: Sequence[tuple[str, str]]) -> None:  # noqa: ANN401 - a rich console
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        console.print(f"  {name:<{width}}  {plain_text(value)}", style="dim", markup=False)
