"""The verbs that only segment tables have: load, show, files, versions, delete, alter, describe, export."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.segment import SegmentId
from packstone.model.times import Moment, format_moment, read_moment
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.engine import LazyEngine
from packstone.storage.location import parse_location
from packstone.tables.foreign import check_mergeable
from packstone.tables.segments.damage import check_no_lost_load
from packstone.tables.segments.delete_rows import delete_matching
from packstone.tables.segments.format.columns import TableColumn, columns_from_arrow, parse_columns, to_ddl
from packstone.tables.segments.format.commit import commit_edit, create_table
from packstone.tables.segments.format.delete_file import read_deletes
from packstone.tables.segments.format.edits import Change, alter_properties, delete_before, delete_segments
from packstone.tables.segments.format.layout import data_file_path, delete_file_path, segment_file_path
from packstone.tables.segments.format.properties import PROPERTY_NAMES, describe, parse_properties
from packstone.tables.segments.format.segment_file import read_segment
from packstone.tables.segments.format.status_files import (
    find_as_of,
    list_versions,
    read_history,
    read_kept_version,
    read_latest,
    read_retired,
    read_version,
)
from packstone.tables.segments.load import load_batches, load_files, load_frame
from packstone.tables.segments.load_options import LoadOptions, LoadReport
from packstone.tables.segments.options import check_segment_ids
from packstone.tables.segments.show import (
    DeleteReport,
    DeleteRowsReport,
    Description,
    ExportedStatus,
    LiveFile,
    LiveFiles,
    PropertyChange,
    PropertyChanges,
    ShownSegments,
    VersionSummary,
    export_tablestatus,
    show_segments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from packstone.query.filter.expression import Expression
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import StatusEntry, TableStatus
    from packstone.tables.segments.load import MergeAfter
    from packstone.tables.segments.tasks import LoadResult, LoadTarget

_SHOW_DDL = (
    "id string, status string, loadStartTime string, timeTakenMs long, partitions string, dataSize long, "
    "indexSize long, mergedToId string, format string, path string, loadEndTime string, segmentFileName string, "
    "rows long, files long, badRows long, majorCompacted boolean, cleaned boolean, deletedRows long"
)


class Frames(Protocol):
    """The Spark functions that a segment table needs; the layer above implements them, because it imports Spark."""

    def is_frame(self, data: object) -> bool:
        """Whether this is a Spark DataFrame."""
        ...

    def engine(self, frame: Any, io: FileIO) -> Engine:
        """Return an engine on the session of a DataFrame."""
        ...

    def write(self, io: FileIO, frame: Any, target: LoadTarget, *, what: str) -> Sequence[LoadResult]:
        """Write the partitions of a DataFrame as data files, with one task for each."""
        ...

    def is_read_by_spark(self, path: str) -> bool:
        """Whether Spark's own reader can open a file by this path."""
        ...

    def read(self, spark: Any, paths: Sequence[str], *, schema: str) -> Any:
        """Read Parquet files with Spark's own reader."""
        ...

    def make(self, spark: Any, rows: Sequence[tuple[Any, ...]], *, schema: str) -> Any:
        """Return a DataFrame of a few rows."""
        ...


class SegmentVerbs:
    """The operations that only segment tables have; ``Table.segments`` returns this."""

    def __init__(
        self,
        io: FileIO,
        path: str,
        *,
        engine: Callable[[], Engine],
        progress: Progress,
        frames: Frames,
        merge: MergeAfter,
        scan: Callable[..., Any],
    ) -> None:
        self._io, self.path, self._engine, self._progress = io, path, engine, progress
        self._frames = frames  # the functions that need Spark
        self._merge = merge  # the compaction that may follow a load
        self._scan = scan  # scans the table

    def describe(self) -> Description:
        """Return the table's columns, sort order and properties."""
        status = read_latest(self._io, self.path)
        properties = parse_properties(status.properties, status.columns)
        settings = dict(describe(properties))
        return Description(
            table=self.path,
            version=status.version,
            columns=status.columns,
            sort_columns=properties.sort_columns,
            sort_scope=properties.sort_scope,
            properties=status.properties,
            settings=tuple((name, settings.get(name, "")) for name in PROPERTY_NAMES),
        )

    def show(
        self,
        *,
        history: bool = False,
        version: int | None = None,
        as_of: Moment | None = None,
        limit: int | None = None,
    ) -> ShownSegments:
        """List the segments, newest first; with ``history`` also those that ``clean`` has removed."""
        status = self._status(version, as_of)
        rows = show_segments(
            status,
            retired=read_retired(self._io, self.path, status),
            history=read_history(self._io, self.path, status) if history else (),
            limit=limit,
        )
        return ShownSegments(table=self.path, version=status.version, written_ms=status.written_ms, rows=rows)

    def show_frame(
        self,
        spark: Any = None,
        *,
        history: bool = False,
        version: int | None = None,
        as_of: Moment | None = None,
    ) -> Any:
        """List the segments as a Spark DataFrame with CarbonData's column names."""
        shown = self.show(history=history, version=version, as_of=as_of)
        return self._frames.make(spark, [tuple(row.to_json().values()) for row in shown.rows], schema=_SHOW_DDL)

    def versions(self, *, limit: int = 1000) -> tuple[VersionSummary, ...]:
        """Return the versions that can still be read, newest first."""
        return summarise_versions(self._io, self.path, limit=limit)

    def files(self, *, version: int | None = None, as_of: Moment | None = None) -> LiveFiles:
        """Return the live data files; ``.paths`` are their paths for other readers, if no row of them is deleted."""
        return list_live_files(self._io, self.path, self._status(version, as_of))

    def to_df(
        self,
        spark: Any = None,
        *,
        version: int | None = None,
        as_of: Moment | None = None,
    ) -> Any:
        """Return the rows as a Spark DataFrame, read by Spark's reader; by our tasks on S3, or if rows are deleted."""
        status = self._status(version, as_of)
        if not self._frames.is_read_by_spark(self.path) or any(entry.delete_file for entry in status.live):
            return self._scan(version=status.version).to_df(spark)
        paths = list_live_files(self._io, self.path, status).paths
        return self._frames.read(spark, paths, schema=to_ddl(status.columns))

    def export(self, *, version: int | None = None, as_of: Moment | None = None) -> ExportedStatus:
        """Return the status in the format of CarbonData's `tablestatus`."""
        status = self._status(version, as_of)
        retired, history = read_retired(self._io, self.path, status), read_history(self._io, self.path, status)
        text = export_tablestatus(status, retired=retired, history=history)
        return ExportedStatus(table=self.path, version=status.version, text=text)

    def alter(self, properties: Mapping[str, str] | None = None, *, unset: Iterable[str] = ()) -> PropertyChanges:
        """Set properties; reset those in ``unset`` to their defaults."""
        changes: dict[str, str | None] = {**(properties or {})}
        for name in unset:
            if name.upper() in {given.upper() for given in changes}:
                raise InvalidInputError(f"The property {name.upper()} is both set and unset; do one of them.")
            changes[name] = None
        return alter_table(self._io, self.path, changes)

    def delete(
        self, *, ids: Iterable[SegmentId | str | int] = (), before: Moment | None = None, dry_run: bool = False
    ) -> DeleteReport:
        """Delete segments, by id (all or none) or all that were loaded before a moment."""
        return delete_from(self._io, self.path, ids=check_segment_ids(ids), before=before, dry_run=dry_run)

    def delete_rows(self, where: str | Expression, *, timezone: str = "UTC", dry_run: bool = False) -> DeleteRowsReport:
        """Delete the rows for which a filter is true, in one commit; those for which it is null stay.

        Their files stay as they are until a compaction, and every reader of the table leaves the rows out.
        """
        return delete_matching(self._io, self.path, where, zone=timezone, dry_run=dry_run)

    def load(
        self,
        data: Any,
        *,
        overwrite: bool = False,
        label: str | None = None,
        sort_scope: str | None = None,
        bad_records: str | None = None,
        options: LoadOptions | None = None,
    ) -> LoadReport:
        """Load rows as one new segment, which becomes visible completely or not at all.

        ``data`` is a Spark DataFrame (its tasks write the files), anything with ``__arrow_c_stream__`` (PyArrow,
        Polars, DuckDB, pandas; this process writes), or paths of files and folders. Keyword arguments override
        ``options``. A load whose ``label`` is already loaded changes nothing, so a job can be run again.
        """
        given: dict[str, Any] = {
            "overwrite": overwrite or None,
            "label": label,
            "sort_scope": sort_scope,
            "bad_records": bad_records,
        }
        chosen = replace(
            options or LoadOptions(), **{name: value for name, value in given.items() if value is not None}
        )
        engine = LazyEngine(self._engine, parallel=chosen.parallel)
        try:
            if self._frames.is_frame(data):
                return load_frame(self._io, self.path, data, frames=self._frames, options=chosen, merge=self._merge)
            if hasattr(data, "__arrow_c_stream__"):
                return load_batches(self._io, self.path, data, options=chosen, engine=engine, merge=self._merge)
            paths = read_paths(data)
            return load_files(
                self._io,
                self.path,
                paths,
                options=chosen,
                engine=engine,
                progress=self._progress,
                merge=self._merge,
            )
        finally:
            engine.close()
            self._progress.close()

    def _status(self, version: int | None, as_of: Moment | None) -> TableStatus:
        return read_status(self._io, self.path, version=version, as_of=as_of)

    def __repr__(self) -> str:
        return f"SegmentVerbs({self.path!r})"


# ---- functions on the status: read a version, list files, delete, alter ----


def create_segments(
    io: FileIO,
    table: str,
    schema: Any,
    *,
    properties: Mapping[str, str],
) -> TableStatus:
    """Create a table in a new or empty folder that is not inside another table."""
    columns = read_schema(schema)
    parse_properties(properties, columns)
    _check_free(io, table)
    return create_table(io, table, columns, properties=properties, clock=system_clock())


def read_schema(schema: Any) -> tuple[TableColumn, ...]:
    """Parse a schema given as text or as an Arrow schema."""
    if isinstance(schema, str):
        return parse_columns(schema)
    if hasattr(schema, "__arrow_c_schema__"):
        import pyarrow as pa

        return columns_from_arrow(pa.schema(schema))
    raise InvalidInputError(f"A {type(schema).__name__} is not a schema; give text such as 'id long, name string'.")


def read_status(io: FileIO, table: str, *, version: int | None = None, as_of: Moment | None = None) -> TableStatus:
    """Read the newest version, the version of a number, or the newest version at a moment."""
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


def read_paths(data: Any) -> tuple[str, ...]:
    """Parse one path or several."""
    given = [data] if isinstance(data, str | os.PathLike) else list(data) if isinstance(data, Iterable) else []
    if not given or not all(isinstance(one, str | os.PathLike) for one in given):
        raise InvalidInputError(
            f"A {type(data).__name__} cannot be loaded; give a Spark DataFrame, an Arrow table or stream, or paths."
        )
    return tuple(_input_path(os.fspath(one)) for one in given)


def _input_path(text: str) -> str:
    """Parse an input, always as a path or a URI: a missing ``day.csv`` is a missing file, not a table of a catalog."""
    return parse_location(text if ":" in text or not text.strip() else os.path.abspath(text)).path  # noqa: PTH100 - pathlib would tidy it


def list_live_files(io: FileIO, table: str, status: TableStatus) -> LiveFiles:
    """List the live files of a version from its segment files."""
    found: list[LiveFile] = []
    for entry in status.live:
        try:
            segment = read_segment(io, table, entry)
            deleted = read_deletes(io, table, entry, segment=segment)
        except FileNotFoundError as error:
            raise _missing(io, table, status=status, entry=entry) from error
        found += [
            LiveFile(
                path=data_file_path(table, file.path),
                segment=entry.id,
                rows=file.rows,
                size_bytes=file.size_bytes,
                deleted_rows=len(deleted.get(file.path, ())),
            )
            for file in segment.files
        ]
    return LiveFiles(table=table, version=status.version, files=tuple(found))


def alter_table(io: FileIO, table: str, changes: Mapping[str, str | None]) -> PropertyChanges:
    """Set properties; None resets one to its default."""
    before: dict[str, str] = {}

    def edit(status: TableStatus) -> Change:
        before.clear()
        before.update(describe(parse_properties(status.properties, status.columns)))
        return alter_properties(status, changes)

    check_no_lost_load(io, table)
    status = commit_edit(io, table, edit, clock=system_clock(), operation="alter")
    after = dict(describe(parse_properties(status.properties, status.columns)))
    changed = [  # the description leaves out a property without a value
        PropertyChange(name=name, before=before.get(name, ""), after=after.get(name, ""))
        for name in PROPERTY_NAMES
        if before.get(name) != after.get(name)
    ]
    return PropertyChanges(table=table, version=status.version, changes=tuple(changed))


def delete_from(
    io: FileIO, table: str, *, ids: Collection[SegmentId], before: Moment | None, dry_run: bool
) -> DeleteReport:
    """Delete segments by id or by date; a dry run applies the same edit and commits nothing."""
    if bool(ids) == (before is not None):
        raise InvalidInputError("Give either the ids of segments or a moment.")
    moment = None if before is None else read_moment(before)
    changes: list[Change] = []

    def edit(status: TableStatus) -> Change:
        if moment is not None:
            change = delete_before(status, moment, now_ms=now_ms())
        else:
            change = delete_segments(status, ids, now_ms=now_ms(), retired=read_retired(io, table, status))
        changes[:] = [change]  # if the commit is retried, the last try counts
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
        rows=sum(entry.live_rows for entry in gone),
        size_bytes=sum(entry.data_bytes for entry in gone),
    )


def summarise_versions(io: FileIO, table: str, *, limit: int) -> tuple[VersionSummary, ...]:
    """Return the newest versions, newest first, without those that are cleaned while they are read."""
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
                rows=sum(entry.live_rows for entry in live),
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
    """The error for a missing segment or delete file: the version was cleaned while it was read, or it is damaged."""
    if status.version not in list_versions(io, table):
        return InvalidInputError(
            f"Version {status.version} of {table} was cleaned while it was read; read a newer one."
        )
    path = segment_file_path(table, entry.segment_file or "")
    if io.stat(path) is not None:
        path = delete_file_path(table, entry.delete_file or "")
    return CorruptionError(
        f"{path}, a file of segment {entry.id}, is missing; restore it from a backup, or delete the segment.",
        file=path,
        segment=str(entry.id),
    )
