"""What is asked of, and done to, the status of a segment table: read a version, list files, delete, alter."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.moment import format_moment, moment_ms, parse_moment
from packstone.runs.clock import now_ms, system_clock
from packstone.service.segment_reports import (
    DeleteReport,
    LiveFile,
    LiveFiles,
    PropertyChange,
    PropertyChanges,
    VersionSummary,
)
from packstone.spark.segment_frames import is_spark_schema, schema_ddl
from packstone.storage.location import parse_location
from packstone.tables.probe import check_mergeable
from packstone.tables.segments.column_types import Column, columns_from_arrow, parse_columns
from packstone.tables.segments.commit import commit_edit, create_table
from packstone.tables.segments.edits import Change, alter_properties, delete_before, delete_segments
from packstone.tables.segments.layout import data_file_path, segment_file_path
from packstone.tables.segments.missing_files import check_no_lost_load
from packstone.tables.segments.properties import PROPERTY_NAMES, describe, parse_properties
from packstone.tables.segments.segment_file import read_segment
from packstone.tables.segments.status_files import (
    find_as_of,
    list_versions,
    read_kept_version,
    read_latest,
    read_retired,
    read_version,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packstone.model.segment import SegmentId
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry, TableStatus

Moment: TypeAlias = str | datetime | int  # text, a datetime, or milliseconds since 1970


def create_segments(
    io: FileIO,
    table: str,
    schema: Any,  # noqa: ANN401 - see read_schema
    *,
    properties: Mapping[str, str],
) -> TableStatus:
    """Make a table in a new or empty folder that lies in no other table."""
    columns = read_schema(schema)
    parse_properties(properties, columns)
    _check_free(io, table)
    return create_table(io, table, columns, properties=properties, clock=system_clock())


def read_schema(schema: Any) -> tuple[Column, ...]:  # noqa: ANN401 - text, or a schema of Spark or Arrow
    """Understand a schema as text, as Spark's ``StructType`` or as an Arrow schema."""
    if isinstance(schema, str):
        return parse_columns(schema)
    if is_spark_schema(schema):
        return parse_columns(schema_ddl(schema))
    if hasattr(schema, "__arrow_c_schema__"):
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return columns_from_arrow(pa.schema(schema))
    raise InvalidInputError(f"A {type(schema).__name__} is no schema; give text such as 'id long, name string'.")


def read_status(io: FileIO, table: str, *, version: int | None = None, as_of: Moment | None = None) -> TableStatus:
    """The newest version, the one of a number, or the newest one of a moment."""
    if version is not None and as_of is not None:
        raise InvalidInputError("Give either a version or a moment, not both.")
    if version is not None:
        return read_kept_version(io, table, version)
    if as_of is None:
        return read_latest(io, table)
    moment = read_moment(as_of)
    try:
        return find_as_of(io, table, moment)
    except InvalidInputError as error:
        oldest = error.facts.get("oldest_ms")
        if oldest is None:
            raise
        raise InvalidInputError(
            f"{table} has no version of {format_moment(moment)}; the oldest that is kept was written at "
            f"{format_moment(oldest)} (UTC).",
            **error.facts,
        ) from None


def read_moment(moment: Moment) -> int:
    """Milliseconds of a moment given in any of its forms."""
    if isinstance(moment, datetime):
        return moment_ms(moment)
    return parse_moment(moment) if isinstance(moment, str) else moment


def read_paths(data: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever a caller gives
    """Understand one path or several."""
    given = [data] if isinstance(data, str | os.PathLike) else list(data) if isinstance(data, Iterable) else []
    if not given or not all(isinstance(one, str | os.PathLike) for one in given):
        raise InvalidInputError(
            f"A {type(data).__name__} cannot be loaded; give a Spark DataFrame, an Arrow table or stream, or paths."
        )
    return tuple(_input_path(os.fspath(one)) for one in given)


def _input_path(text: str) -> str:
    """An input is a path or a URI: ``day.csv`` that is not there is a missing file, not a table of a catalog."""
    return parse_location(text if ":" in text or not text.strip() else os.path.abspath(text)).path  # noqa: PTH100 - pathlib would tidy it


def list_live_files(io: FileIO, table: str, status: TableStatus) -> LiveFiles:
    """Read the segment files of a version."""
    found: list[LiveFile] = []
    for entry in status.live:
        try:
            segment = read_segment(io, table, entry)
        except FileNotFoundError as error:
            raise _missing(io, table, status=status, entry=entry) from error
        found += [
            LiveFile(
                path=data_file_path(table, file.path), segment=entry.id, rows=file.rows, size_bytes=file.size_bytes
            )
            for file in segment.files
        ]
    return LiveFiles(table=table, version=status.version, files=tuple(found))


def alter_table(io: FileIO, table: str, changes: Mapping[str, str | None]) -> PropertyChanges:
    """Set properties, or with None take them back to their default."""
    before: dict[str, str] = {}

    def edit(status: TableStatus) -> Change:
        before.clear()
        before.update(describe(parse_properties(status.properties, status.columns)))
        return alter_properties(status, changes)

    check_no_lost_load(io, table)
    status = commit_edit(io, table, edit, clock=system_clock(), operation="alter")
    after = dict(describe(parse_properties(status.properties, status.columns)))
    changed = [  # one without a value has none in its description
        PropertyChange(name=name, before=before.get(name, ""), after=after.get(name, ""))
        for name in PROPERTY_NAMES
        if before.get(name) != after.get(name)
    ]
    return PropertyChanges(table=table, version=status.version, changes=tuple(changed))


def delete_from(
    io: FileIO, table: str, *, ids: Collection[SegmentId], before: Moment | None, dry_run: bool
) -> DeleteReport:
    """Delete by id or by date; a dry run asks the same edit and commits nothing."""
    if bool(ids) == (before is not None):
        raise InvalidInputError("Give either the ids of segments or a moment.")
    moment = None if before is None else read_moment(before)
    changes: list[Change] = []

    def edit(status: TableStatus) -> Change:
        if moment is not None:
            change = delete_before(status, moment, now_ms=now_ms())
        else:
            change = delete_segments(status, ids, now_ms=now_ms(), retired=read_retired(io, table, status))
        changes[:] = [change]  # of a commit that is tried again, the last one counts
        return change

    status = read_latest(io, table)
    if dry_run:
        edit(status)
    else:
        check_no_lost_load(io, table)
        status = commit_edit(io, table, edit, clock=system_clock(), operation="delete")
    gone = changes[0].retired
    return DeleteReport(
        table=table,
        version=status.version,
        dry_run=dry_run,
        segments=tuple(entry.id for entry in gone),
        rows=sum(entry.rows for entry in gone),
        size_bytes=sum(entry.data_bytes for entry in gone),
    )


def summarise_versions(io: FileIO, table: str, *, limit: int) -> tuple[VersionSummary, ...]:
    """The newest versions, newest first; one that is cleaned meanwhile is left out."""
    found: list[VersionSummary] = []
    for version in list_versions(io, table)[::-1][:limit]:
        try:
            status = read_version(io, table, version)
        except FileNotFoundError:
            break
        live = status.live
        found.append(
            VersionSummary(
                version=version,
                written_ms=status.written_ms,
                operation=status.operation,
                segments=len(live),
                rows=sum(entry.rows for entry in live),
                size_bytes=sum(entry.data_bytes for entry in live),
            )
        )
    return tuple(found)


def _check_free(io: FileIO, table: str) -> None:
    try:
        check_mergeable(io, table)
    except RefusedError as error:
        where = error.facts.get("path", table)
        what = "is a table already" if where == table else f"lies inside the table {where}"
        raise InvalidInputError(f"{table} {what}; choose another path for the new one.", path=table) from None
    try:
        is_free = io.stat(table) is None or next(iter(io.list_dir(table)), None) is None
    except NotADirectoryError:
        is_free = False
    if not is_free:
        raise InvalidInputError(f"{table} is not empty; choose a new folder for the table.", path=table)


def _missing(io: FileIO, table: str, *, status: TableStatus, entry: StatusEntry) -> Exception:
    """Tell a version that was cleaned while it was read from one that is damaged."""
    if status.version not in list_versions(io, table):
        return InvalidInputError(
            f"Version {status.version} of {table} was cleaned while it was read; take a newer one."
        )
    path = segment_file_path(table, entry.segment_file or "")
    return CorruptionError(
        f"The segment file {path} of segment {entry.id} is gone; restore it from a backup, or delete the segment.",
        file=path,
        segment=str(entry.id),
    )
