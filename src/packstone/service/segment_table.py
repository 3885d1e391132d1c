"""A segment table as users see it: create, load, show, read, scan, plan, compact, delete, alter, clean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError, PackstoneError
from packstone.model.filters import Budget, Filters
from packstone.model.outcome import Cost, Outcome, Status
from packstone.model.segment import SegmentId
from packstone.model.segment_options import SegmentOptions, parse_segment_strategy
from packstone.runs.engine import Engine, InlineEngine, LazyEngine
from packstone.runs.tasks import NoProgress, Progress
from packstone.service.load_options import LoadOptions, LoadReport
from packstone.service.record import Recorder
from packstone.service.segment_clean import clean_segments
from packstone.service.segment_compact import compact_segments, plan_segments
from packstone.service.segment_health import observe_segments
from packstone.service.segment_load import load_batches, load_files, load_frame
from packstone.service.segment_reports import FAMILY, Description, ExportedStatus, LiveFiles, ShownSegments
from packstone.service.segment_status import (
    Moment,
    alter_table,
    create_segments,
    delete_from,
    list_live_files,
    read_paths,
    read_status,
    summarise_versions,
)
from packstone.service.table_scan import Scan, cache_stats
from packstone.spark.segment_frames import is_read_by_spark, is_spark_frame, make_frame, read_files
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.probe import Family, find_table
from packstone.tables.scan_source import SegmentSource
from packstone.tables.segments.column_types import to_ddl
from packstone.tables.segments.properties import PROPERTY_NAMES, describe, parse_properties
from packstone.tables.segments.show import show_segments
from packstone.tables.segments.status_files import read_history, read_latest, read_retired
from packstone.tables.segments.tablestatus import export_tablestatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packstone.pruning.expression import Expression
    from packstone.service.segment_clean import SegmentCleanReport
    from packstone.service.segment_health import SegmentHealth
    from packstone.service.segment_reports import DeleteReport, PropertyChanges, VersionSummary
    from packstone.storage.fileio import FileIO
    from packstone.storage.lru_cache import CacheStats
    from packstone.tables.segments.status import TableStatus

_SHOW_DDL = (
    "id string, status string, loadStartTime string, timeTakenMs long, partitions string, dataSize long, "
    "indexSize long, mergedToId string, format string, path string, loadEndTime string, segmentFileName string, "
    "rows long, files long, badRows long, majorCompacted boolean, cleaned boolean"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """What ``compact`` would do now."""

    outcome: Outcome
    options: SegmentOptions
    filters: Filters


class SegmentTable:
    """One table; opened by ``packstone.open``, made by ``SegmentTable.create``."""

    def __init__(
        self,
        path: str,
        *,
        engine: Callable[[], Engine] | None = None,
        io: FileIO | None = None,
        progress: Progress | None = None,
        history: str | None = None,
    ) -> None:
        self._io: FileIO = io or open_store(path)
        self._engine = engine or (lambda: InlineEngine(self._io))
        self._progress: Progress = progress or NoProgress()
        self._recorder = Recorder(url=history)
        self.path = _find(self._io, path)

    @classmethod
    def create(
        cls,
        path: str,
        schema: Any,  # noqa: ANN401 - text, or a schema of Spark or Arrow
        *,
        sort_by: Iterable[str] = (),
        sort_scope: str | None = None,
        properties: Mapping[str, str] | None = None,
        spark: Any = None,  # noqa: ANN401 - a session of either kind
    ) -> SegmentTable:
        """Make an empty table in a new or empty folder, and open it as ``packstone.open`` does.

        ``schema`` is text (``"id long, ts timestamp"``), Spark's ``StructType`` or an Arrow schema. ``sort_scope`` is
        local (the default if there are columns to sort by), global or none.
        """
        from packstone.service.open_table import open_table  # noqa: PLC0415 - it opens all families, this one too

        where, given = parse_location(path).path, dict(properties or {})
        names = [sort_by] if isinstance(sort_by, str) else list(sort_by)
        for name, value in (("SORT_COLUMNS", ",".join(names)), ("SORT_SCOPE", sort_scope)):
            if value and any(key.strip().upper() == name for key in given):
                raise InvalidInputError(f"{name} is given twice; give it once.")
            if value:
                given[name] = value
        create_segments(open_store(where), where, schema, properties=given)
        made = open_table(where, spark=spark)
        assert isinstance(made, cls)  # noqa: S101 - it has just been made
        return made

    def describe(self) -> Description:
        """The table's columns, order and properties."""
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
        """List the segments, newest first; with the history also those that ``clean`` has removed."""
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
        spark: Any = None,  # noqa: ANN401 - a session of either kind
        *,
        history: bool = False,
        version: int | None = None,
        as_of: Moment | None = None,
    ) -> Any:  # noqa: ANN401 - a DataFrame
        """List the segments as a Spark DataFrame with CarbonData's column names."""
        shown = self.show(history=history, version=version, as_of=as_of)
        return make_frame(spark, [tuple(row.to_json().values()) for row in shown.rows], schema=_SHOW_DDL)

    def versions(self, *, limit: int = 1000) -> tuple[VersionSummary, ...]:
        """The versions that can still be read, newest first."""
        return summarise_versions(self._io, self.path, limit=limit)

    def files(self, *, version: int | None = None, as_of: Moment | None = None) -> LiveFiles:
        """The live data files: what any reader of Parquet should read; ``.paths`` are their names."""
        return list_live_files(self._io, self.path, self._status(version, as_of))

    def to_df(
        self,
        spark: Any = None,  # noqa: ANN401 - a session of either kind
        *,
        version: int | None = None,
        as_of: Moment | None = None,
    ) -> Any:  # noqa: ANN401 - a DataFrame
        """The rows as a Spark DataFrame, read by Spark's own Parquet reader from the live files; on S3 by our tasks."""
        if not is_read_by_spark(self.path):
            return self.scan(version=version, as_of=as_of).to_df(spark)
        status = self._status(version, as_of)
        paths = list_live_files(self._io, self.path, status).paths
        return read_files(spark, paths, schema=to_ddl(status.columns))

    def scan(
        self,
        columns: Iterable[str] | None = None,
        where: str | Expression | None = None,
        *,
        version: int | None = None,
        as_of: Moment | None = None,
        timezone: str | None = None,
    ) -> Scan:
        """Rows through a filter, as Arrow or as a DataFrame; only row groups that may hold matching rows are read.

        ``where`` is SQL text or made of ``packstone.col``; its wall times are of ``timezone`` (default: UTC; for a
        DataFrame the session's).
        """
        source = SegmentSource(io=self._io, path=self.path, status=self._status(version, as_of))
        return Scan(source, columns=columns, where=where, timezone=timezone)

    def cache_stats(self) -> dict[str, CacheStats]:
        """What the caches of this process hold, and how often they helped; tables share them."""
        return cache_stats()

    def export(self, *, version: int | None = None, as_of: Moment | None = None) -> ExportedStatus:
        """The status as CarbonData writes its `tablestatus`."""
        status = self._status(version, as_of)
        retired, history = read_retired(self._io, self.path, status), read_history(self._io, self.path, status)
        text = export_tablestatus(status, retired=retired, history=history)
        return ExportedStatus(table=self.path, version=status.version, text=text)

    def alter(self, properties: Mapping[str, str] | None = None, *, unset: Iterable[str] = ()) -> PropertyChanges:
        """Set properties; those to ``unset`` get their default back."""
        changes: dict[str, str | None] = {**(properties or {})}
        for name in unset:
            if name.upper() in {given.upper() for given in changes}:
                raise InvalidInputError(f"The property {name.upper()} is set and unset at once.")
            changes[name] = None
        return alter_table(self._io, self.path, changes)

    def delete(
        self, *, ids: Iterable[SegmentId | str | int] = (), before: Moment | None = None, dry_run: bool = False
    ) -> DeleteReport:
        """Take segments out, by id (all or none) or by the moment before which they were loaded."""
        wanted = [one if isinstance(one, SegmentId) else SegmentId.parse(str(one)) for one in ids]
        return delete_from(self._io, self.path, ids=wanted, before=before, dry_run=dry_run)

    def load(
        self,
        data: Any,  # noqa: ANN401 - a DataFrame of Spark, anything that speaks Arrow, a path or several
        *,
        overwrite: bool = False,
        sort_scope: str | None = None,
        bad_records: str | None = None,
        options: LoadOptions | None = None,
    ) -> LoadReport:
        """Load rows as one new segment, visible whole or not at all.

        ``data`` is a Spark DataFrame (its tasks write the files), anything with ``__arrow_c_stream__`` (PyArrow,
        Polars, DuckDB, pandas; this process writes), or paths of files and folders. What is given by name goes over
        ``options``.
        """
        given: dict[str, Any] = {"overwrite": overwrite or None, "sort_scope": sort_scope, "bad_records": bad_records}
        chosen = replace(
            options or LoadOptions(), **{name: value for name, value in given.items() if value is not None}
        )
        engine = LazyEngine(self._engine)
        try:
            if is_spark_frame(data):
                return load_frame(self._io, self.path, data, options=chosen, merge=self._merge_loaded)
            if hasattr(data, "__arrow_c_stream__"):
                return load_batches(self._io, self.path, data, options=chosen, engine=engine, merge=self._merge_loaded)
            paths = read_paths(data)
            return load_files(
                self._io,
                self.path,
                paths,
                options=chosen,
                engine=engine,
                progress=self._progress,
                merge=self._merge_loaded,
            )
        finally:
            engine.close()
            self._progress.close()

    def health(self) -> SegmentHealth:
        """Describe the table: segments, files, rows, what compaction would gain, what stands in its way."""
        return observe_segments(self._io, self.path)

    def plan(
        self,
        options: SegmentOptions | None = None,
        *,
        filters: Filters | None = None,
        strategy: str | None = None,
    ) -> SegmentPlan:
        """Say what ``compact`` would do and why; writes nothing. ``strategy`` goes over that of the options."""
        options, filters = options or SegmentOptions(), filters or Filters()
        filters.check_honoured(frozenset(), family="Segment tables")
        if strategy is not None:
            options = replace(options, strategy=parse_segment_strategy(strategy))
        outcome = plan_segments(self._io, self.path, options, filters=filters)
        return SegmentPlan(outcome=outcome, options=options, filters=filters)

    def compact(
        self,
        plan: SegmentPlan | SegmentOptions | None = None,
        *,
        filters: Filters | None = None,
        budget: Budget | None = None,
        command: str = "compact",
    ) -> Outcome:
        """Merge segments, verify, publish, record; a plan is made anew from its options."""
        options = plan.options if isinstance(plan, SegmentPlan) else plan or SegmentOptions()
        filters = filters or (plan.filters if isinstance(plan, SegmentPlan) else Filters())
        filters.check_honoured(frozenset(), family="Segment tables")
        begun = self._recorder.begin(command=command, family=FAMILY, table=self.path, strategy=options.strategy)
        engine = LazyEngine(self._engine)
        with begun:
            try:
                outcome = compact_segments(
                    self._io,
                    self.path,
                    options,
                    engine=engine,
                    filters=filters,
                    budget=budget or Budget(),
                    progress=self._progress,
                    run_id=begun.run,
                )
            except InvalidInputError:
                raise  # a wrong call is no run
            except PackstoneError as error:
                begun.record_error(_failed(self.path, options), error)
                raise
            finally:
                engine.close()
                self._progress.close()
            return begun.record(outcome)

    def _merge_loaded(self, engine: Engine) -> Outcome:
        """Merge after a load, and record it as any other run."""
        options = SegmentOptions()
        begun = self._recorder.begin(command="load", family=FAMILY, table=self.path, strategy=options.strategy)
        with begun:
            try:
                outcome = compact_segments(self._io, self.path, options, engine=engine, run_id=begun.run)
            except PackstoneError as error:
                begun.record_error(_failed(self.path, options), error)
                raise
            return begun.record(outcome)

    def clean(self, *, dry_run: bool = False) -> SegmentCleanReport:
        """Remove what dead loads and compactions left, and segments and versions whose retention is over."""
        return clean_segments(self._io, self.path, dry_run=dry_run)

    def _status(self, version: int | None, as_of: Moment | None) -> TableStatus:
        return read_status(self._io, self.path, version=version, as_of=as_of)

    def __repr__(self) -> str:
        return f"SegmentTable({self.path!r})"


def _find(io: FileIO, path: str) -> str:
    """Check that a path is a segment table itself."""
    given = path.rstrip("/") or "/"
    if io.stat(given) is None:
        raise InvalidInputError(f"{path} does not exist; make it with `packstone segments create`.", path=path)
    family, root = find_table(io, given)
    if family is not Family.SEGMENTS:
        raise InvalidInputError(f"{path} is no segment table; make one with `packstone segments create`.", path=path)
    if root != given:
        raise InvalidInputError(f"{path} lies inside the segment table {root}; give the table.", path=path)
    return root


def _failed(path: str, options: SegmentOptions) -> Outcome:
    return Outcome(
        run=None,
        table=path,
        family=FAMILY,
        strategy=options.strategy,
        status=Status.FAILED,
        files_before=0,
        files_after=0,
        bytes_before=0,
        bytes_after=0,
        verified="none",
        cost=Cost.of(0, 0, files_in=0, files_out=0),
    )
