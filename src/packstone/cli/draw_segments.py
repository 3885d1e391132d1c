"""Draw a segment table on a terminal: its segments, its properties before and after a change, its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from packstone.cli.draw import draw_engine, name_text, plain_table, short_fingerprint
from packstone.cli.output import plain_text, short_path
from packstone.model.outcome import Outcome, Status
from packstone.model.sizes import format_bytes, format_duration, plural
from packstone.model.times import format_moment
from packstone.tables.segments.show import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.tables.segments.load_options import LoadReport
    from packstone.tables.segments.show import (
        DeleteReport,
        DeleteRowsReport,
        Description,
        PropertyChanges,
        ShownSegments,
        VersionSummary,
    )

_WIDE = 96  # a narrower terminal does not show the columns that are the same for every segment
_ALWAYS_SAME = ("Partition", "File Format")
_HEADS = {
    "Load Time Taken": "Load Time\nTaken",
    "Data Size": "Data\nSize",
    "Index Size": "Index\nSize",
    "File Format": "File\nFormat",
}
_NAMED_IDS = 6
_MOST_SEGMENTS = 20
_RIGHT = ("Load Time Taken", "Data Size", "Index Size")
_STATUS_STYLE = {"Success": "green", "Partial Success": "yellow", "Compacted": "dim", "Marked for Delete": "dim"}


def draw_created(console: Any, table: Description) -> None:
    """Draw a new table: its columns and the given properties."""
    _head(console, "created", "bold green", table.table)
    _draw_columns(console, table)
    given = [(name, value) for name, value in table.properties if not name.startswith("SORT_")]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        console.print(f"  {name:<{width}}  {plain_text(value)}", style="dim", markup=False)


def draw_description(console: Any, table: Description) -> None:
    """Draw a table's columns and the value in effect of every property."""
    _head(console, "segment table", "bold", table.table, f"version {table.version}")
    _draw_columns(console, table)
    given = dict(table.properties)
    shown = plain_table("property", "value", "", right=())
    for name, value in table.settings:
        shown.add_row(name, name_text(value or "—"), "" if name in given else "[dim]default[/]")
    console.print(shown)


def _draw_columns(console: Any, table: Description) -> None:
    width = max(len(column.name) for column in table.columns)
    for column in table.columns:
        null = "" if column.nullable else " not null"
        console.print(f"  {plain_text(column.name):<{width}}  {column.type_text}{null}", markup=False)
    if table.sort_columns:
        console.print(
            f"  sorted by {plain_text(', '.join(table.sort_columns))} ({table.sort_scope})", style="dim", markup=False
        )


def draw_changes(console: Any, changes: PropertyChanges) -> None:
    """Draw properties before and after."""
    if not changes.changes:
        console.print("Nothing to change: the properties have these values already.")
        return
    _head(console, "committed", "bold green", changes.table, f"version {changes.version}")
    table = plain_table("property", "before", "after", right=())
    for one in changes.changes:
        table.add_row(one.name, name_text(one.before or "—"), name_text(one.after or "—"))
    console.print(table)


def draw_segments(console: Any, shown: ShownSegments) -> None:
    """Draw the segments in CarbonData's columns, ids descending."""
    if not shown.rows:
        console.print(f"{short_path(shown.table)} has no segments at version {shown.version}.", markup=False)
        return
    shown_columns = [at for at, name in enumerate(COLUMNS) if name not in _ALWAYS_SAME or console.width >= _WIDE]
    table = plain_table(right=())
    for at in shown_columns:
        is_number = COLUMNS[at] in _RIGHT
        table.add_column(
            _HEADS.get(COLUMNS[at], COLUMNS[at]), justify="right" if is_number else "left", overflow="fold"
        )
    for row in shown.rows:
        cells = [*row.to_texts()]
        into = f" → {row.merged_to_id}" if row.merged_to_id else ""
        # Of a segment that lost its last row, the number is that of the last delete file: others were lost with it.
        has_deletes = row.deleted_rows and row.status != "Marked for Delete"
        deleted = f"\n[dim]{plural(row.deleted_rows, 'row')} deleted[/]" if has_deletes else ""
        cells[1] = f"[{_STATUS_STYLE.get(cells[1], 'cyan')}]{cells[1]}{into}[/]{deleted}"
        table.add_row(*(cells[at] for at in shown_columns))
    console.print(table)


def draw_merges(console: Any, outcome: Outcome, *, most: int) -> None:
    """Draw the merges of a plan or a run: the segments before and after, and the reason or the fingerprint."""
    planned = outcome.status is Status.PLANNED
    table = plain_table("segment", "merged from", right=("bytes",) if planned else ("bytes", "rows", "files"))
    table.add_column("why" if planned else "fingerprint", no_wrap=not planned)
    for unit in outcome.units[:most]:
        size = format_bytes(unit.bytes_before)
        cells = [unit.partition, _few(unit.inputs)]
        if planned:
            cells += [size, plain_text(unit.why)]
        else:
            cells += [f"{size} → {format_bytes(unit.bytes_after)}", f"{unit.rows:,}", f"{len(unit.outputs):,}"]
            cells.append(short_fingerprint(unit, outcome.verified))
        table.add_row(*cells)
    console.print(table)
    if len(outcome.units) > most:
        console.print(f"… and {len(outcome.units) - most:,} more merges, see --format json", style="dim")


def _few(ids: Sequence[str]) -> str:
    """Name a few segments, or the first and the last of many."""
    return ", ".join(ids) if len(ids) <= _NAMED_IDS else f"{len(ids):,} segments, {ids[0]} to {ids[-1]}"


def draw_versions(console: Any, versions: Sequence[VersionSummary]) -> None:
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


def draw_delete(console: Any, report: DeleteReport) -> None:
    """Draw what was deleted, or would be."""
    verb = "would delete" if report.dry_run else "deleted"
    console.print(f"{verb} {report.what}, {format_bytes(report.size_bytes)}", markup=False, soft_wrap=True)
    if not report.dry_run:
        console.print(
            f"version {report.version}; the files stay for readers of earlier versions until `packstone clean`",
            style="dim",
            markup=False,
            soft_wrap=True,
        )


def draw_delete_rows(console: Any, report: DeleteRowsReport) -> None:
    """Draw how many rows of each segment were deleted, or would be."""
    if not report.segments:
        console.print(f"Nothing to delete: no row matches {report.filter}.", markup=False, soft_wrap=True)
        return
    verb = "would delete" if report.dry_run else "deleted"
    console.print(f"{verb} {report.what}: {report.filter}", markup=False, soft_wrap=True)
    table = plain_table("segment", right=("rows", "left", "deleted in all"))
    for one in report.segments[:_MOST_SEGMENTS]:
        left = "none: retired" if one.is_retired else f"{one.rows_before - one.rows:,}"
        table.add_row(str(one.id), f"{one.rows:,}", left, f"{one.deleted_rows:,}")
    console.print(table)
    if len(report.segments) > _MOST_SEGMENTS:
        console.print(f"… and {len(report.segments) - _MOST_SEGMENTS:,} more, see --format json", style="dim")
    if not report.dry_run:
        console.print(
            f"version {report.version}; the rows stay in the files until these are compacted, and for readers of "
            "earlier versions until `packstone clean`",
            style="dim",
            markup=False,
            soft_wrap=True,
        )


def draw_load(console: Any, report: LoadReport) -> None:
    """Draw what a load did."""
    if report.segment is None or report.status == "already-loaded":
        _head(console, report.status.replace("-", " "), "bold yellow", report.table)
        console.print(plain_text(report.message), markup=False)
        return
    replaced = ", replacing all previous rows" if report.overwrite else ""
    where = f"segment {report.segment}, version {report.version}{replaced}"
    _head(console, "loaded", "bold green", report.table, where)
    runs = f", {plural(report.runs, 'sorted run')}" if report.runs else ""
    size = f"{format_bytes(report.data_bytes)}, index {format_bytes(report.index_bytes)}"
    console.print(f"rows   {report.rows:,} in {plural(report.files, 'file')}{runs}; {size}")
    if report.bad_rows:
        where = f"; see {short_path(f'{report.table}/{report.bad_records}')}" if report.bad_records else ""
        console.print(f"bad    {plural(report.bad_rows, 'row')}{where}", style="yellow", markup=False, soft_wrap=True)
    console.print(f"time   {format_duration(report.seconds)}")
    draw_engine(console, report.engine)
    for unit in report.merged.units if report.merged is not None else ():
        console.print(f"merged {_few(unit.inputs)} → {unit.partition}")


def _head(console: Any, word: str, style: str, table: str, more: str = "") -> None:
    console.print(Text.assemble((word, style), "  ", short_path(table), f"  {more}" if more else ""))
