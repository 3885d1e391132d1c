"""Load a segment table: announce → write → verify → segment file → commit → merge if the table asks for it.

====================  ===================================================================================
`NO_SORT`             rows as they came: task by task, files in the order of writing, one run
`LOCAL_SORT`          every task sorts its rows: as many runs as tasks
`GLOBAL_SORT`         every task sorts its rows into runs beside the table; they are merged, cut by ranges of
                      the first sort column, into files that do not overlap: one run
====================  ===================================================================================

Loads never wait for each other, and nothing is visible before the last commit. A load without a row changes nothing,
also with overwrite: an input that is empty by mistake must not empty the table.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from packstone.errors import InvalidInputError, PackstoneError, RefusedError, UnavailableError, storage_sentence
from packstone.model.segment_options import SegmentOptions
from packstone.model.sizes import format_bytes
from packstone.rewrite.inputs.bad_rows import BadRecords
from packstone.rewrite.inputs.convert_rows import match_columns
from packstone.rewrite.inputs.input_files import expand_globs, find_files, split_files
from packstone.rewrite.inputs.read_inputs import cut_batch
from packstone.rewrite.merge.merge_spec import pack_schema
from packstone.rewrite.ordered.ordered_spec import BlockOutput
from packstone.rewrite.read_ahead import read_ahead
from packstone.runs.engine import InlineEngine
from packstone.runs.tasks import NoProgress, Task, check_done
from packstone.service.global_sort import merge_sorted_runs
from packstone.service.load_options import LoadOptions, LoadReport
from packstone.service.segment_compact import compact_segments
from packstone.service.segment_session import SegmentSession
from packstone.spark.engine import SparkEngine
from packstone.spark.load_frame import write_frame
from packstone.spark.session import SparkHandle, is_connect
from packstone.storage.fileio import Kind
from packstone.storage.location import split_store
from packstone.storage.stores import store_beside
from packstone.tables.probe import find_log, why_not_below
from packstone.tables.segments.column_types import to_arrow, to_ddl
from packstone.tables.segments.commit import check_can_commit
from packstone.tables.segments.edits import SegmentFacts
from packstone.tables.segments.index_file import join_parts, write_index
from packstone.tables.segments.layout import (
    bad_records_folder,
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_name,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.load_tasks import LOAD_JOB, LoadContext, LoadTarget, LoadUnit, raise_failure, write_load
from packstone.tables.segments.properties import Compression, SortScope
from packstone.tables.segments.segment_file import DataFile, SegmentFile, write_segment_file
from packstone.tables.segments.status_files import read_latest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.outcome import Outcome
    from packstone.model.segment import SegmentId
    from packstone.rewrite.inputs.convert_rows import InputBatch
    from packstone.rewrite.inputs.input_files import LoadFile
    from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.load_tasks import LoadResult
    from packstone.tables.segments.properties import Properties
    from packstone.tables.segments.status import TableStatus

_MB: Final = 1 << 20
_LEAST_FREE_BYTES: Final = 64 * _MB  # of a load whose size nobody knows
_ZSTD_LEVEL: Final = 1
_EXAMPLES: Final = 3


MergeAfter: TypeAlias = "Callable[[Engine], Outcome]"


def load_files(
    io: FileIO,
    table: str,
    paths: Iterable[str],
    *,
    options: LoadOptions | None = None,
    engine: Engine,
    progress: Progress | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Load files and folders as one segment, by tasks of an engine, which stays open."""
    options, paths = options or LoadOptions(), tuple(paths)
    load = Load.plan(io, table, options, engine=engine, progress=progress, merge=merge)
    source = _input_store(io, table, paths)
    files = _find_inputs(source, paths, options)
    total_bytes = sum(file.size_bytes for file in files)
    groups = tuple(split_files(source, files, task_bytes=options.share_bytes(total_bytes), options=options.inputs))
    load.input_bytes = total_bytes

    def write(session: SegmentSession, target: LoadTarget) -> Sequence[LoadResult]:
        units = [LoadUnit(number=number, pieces=pieces) for number, pieces in enumerate(groups)]
        return load.run_units(session, LoadContext(target=target, inputs=options.inputs), units)

    return load.run(write, one_run=len(groups) == 1)


def _input_store(io: FileIO, table: str, paths: tuple[str, ...]) -> FileIO:
    """The one store that all inputs are in, which need not be the table's."""
    if len({split_store(path)[0] for path in paths}) > 1:
        raise InvalidInputError("The inputs of one load are in one store; load those of each store for themselves.")
    return store_beside(io, table, paths[0]) if paths else io


def _find_inputs(io: FileIO, paths: Iterable[str], options: LoadOptions) -> tuple[LoadFile, ...]:
    """Find the files, and refuse folders of tables that name theirs: they also hold rows that are deleted or merged.

    At the inputs, around them and on the way down. A file that is named by itself is taken: somebody chose it.
    """

    def check_folder(folder: str, entries: list[Entry]) -> None:
        what = why_not_below(io, folder, entries)
        if what is not None:
            raise _not_plain(folder, folder, what)

    found: list[str] = []
    for path in paths:
        expanded = expand_globs(io, path)
        found += expanded
        for one in expanded:
            entry = io.stat(one)
            is_folder = entry is not None and entry.kind is Kind.DIRECTORY
            if is_folder or expanded != (path,):
                log = find_log(io, one if is_folder else posixpath.dirname(one))
                if log is not None:
                    raise _not_plain(path, *log)
    return find_files(io, found, options=options.inputs, check_folder=check_folder)


def _not_plain(path: str, at: str, what: str) -> RefusedError:
    return RefusedError(
        f"{path} is no plain folder: {at} is {what.partition(';')[0].partition(',')[0]}, and not every file in it "
        "counts; load it as a DataFrame, or name its live files.",
        path=path,
    )


def load_batches(
    io: FileIO,
    table: str,
    data: Any,  # noqa: ANN401 - whatever has an Arrow stream
    *,
    options: LoadOptions | None = None,
    engine: Engine | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Load what has an Arrow stream (PyArrow, pandas, Polars, DuckDB) as one segment, in this process, streaming.

    The engine is for the merge that may follow the load.
    """
    load = Load.plan(io, table, options or LoadOptions(), engine=engine or InlineEngine(io), merge=merge)
    reader = _open_stream(data)
    match_columns(reader.schema, load.schema, source=_SOURCE, zone=load.options.zone)

    def write(session: SegmentSession, target: LoadTarget) -> Sequence[LoadResult]:
        return (write_load(io, target, read_ahead(_cut(reader)), task=0, name=f"a0_{session.attempt}"),)

    return load.run(write, one_run=True)


def load_frame(
    io: FileIO,
    table: str,
    frame: Any,  # noqa: ANN401 - a DataFrame of either kind of Spark
    *,
    options: LoadOptions | None = None,
    engine: Engine | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Load a Spark DataFrame as one segment, a task for each of its partitions.

    The engine is for the merge of a global sort, and for the one that may follow the load.
    """
    spark = frame.sparkSession
    own = engine or SparkEngine(SparkHandle(spark, is_ours=False, is_connect=is_connect(spark)), io)
    load = Load.plan(io, table, options or LoadOptions(), engine=own, merge=merge)
    match_columns(pa.schema([(name, pa.null()) for name in frame.columns]), load.schema, source=_FRAME, zone="UTC")

    def write(session: SegmentSession, target: LoadTarget) -> Sequence[LoadResult]:
        session.has_stragglers = True
        return write_frame(io, frame, target, what=f"load {table}")

    return load.run(write, one_run=False)


_SOURCE: Final = "the stream"
_FRAME: Final = "the DataFrame"


def _open_stream(data: Any) -> pa.RecordBatchReader:  # noqa: ANN401 - whatever has an Arrow stream
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInputError(
            f"{type(data).__name__} gives no Arrow stream; load a PyArrow table or reader, or a DataFrame of pandas, "
            "Polars, DuckDB or Spark."
        )
    return pa.RecordBatchReader.from_stream(data)


def _cut(reader: pa.RecordBatchReader) -> Iterator[InputBatch]:
    row = 1
    for batch in reader:
        yield from cut_batch(batch, source=_SOURCE, first_row=row)
        row += batch.num_rows


@dataclass(slots=True)
class Load:
    """One load from its plan to its report."""

    io: FileIO
    table: str
    options: LoadOptions
    engine: Engine
    progress: Progress
    status: TableStatus
    properties: Properties
    schema: pa.Schema
    merge: MergeAfter  # how segments are merged after the load, if the table wants that
    input_bytes: int | None = None  # None: nobody knows

    @classmethod
    def plan(
        cls,
        io: FileIO,
        table: str,
        options: LoadOptions,
        *,
        engine: Engine,
        progress: Progress | None = None,
        merge: MergeAfter | None = None,
    ) -> Load:
        """Look at the table; nothing is written yet."""
        check_can_commit(io, table)
        status = read_latest(io, table)
        return cls(
            io=io,
            table=table,
            options=options,
            engine=engine,
            progress=progress or NoProgress(),
            status=status,
            properties=options.properties_of(status),
            schema=to_arrow(status.columns),
            merge=merge or (lambda engine: compact_segments(io, table, SegmentOptions(), engine=engine)),
        )

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """What this load sorts by."""
        return () if self.properties.sort_scope is SortScope.NO_SORT else self.properties.sort_columns

    def run(self, write: Callable[[SegmentSession, LoadTarget], Sequence[LoadResult]], *, one_run: bool) -> LoadReport:
        """Do all of it; ``one_run``: there is one task only, so its order is that of the whole load."""
        began = time.perf_counter()
        self._check_room()
        try:
            with SegmentSession(self.io, self.table) as session:
                report = self._run(session, write, one_run=one_run)
        except OSError as error:
            raise UnavailableError(f"{storage_sentence(error)} Nothing was loaded.") from error
        finally:
            self.progress.close()
        report = replace(report, seconds=time.perf_counter() - began)
        if report.segment is None:
            return replace(report, version=read_latest(self.io, self.table).version)
        return self._merge_after(report)

    def run_units(
        self, session: SegmentSession, context: LoadContext, units: Sequence[LoadUnit]
    ) -> Sequence[LoadResult]:
        """Load pieces of files by the engine; each unit is a task, and its number is its place in the load."""
        session.has_stragglers = not isinstance(self.engine, InlineEngine)
        staging = f"{session.folder}/load"
        self.io.make_dirs(staging)
        tasks = [Task(number=at, context=context, units=(unit,)) for at, unit in enumerate(units)]
        what, report = f"load {len(tasks)} parts into {self.table}", self._report(len(tasks))
        loaded: list[LoadResult] = []
        for result in self.engine.run(LOAD_JOB, tasks, staging=staging, what=what, on_progress=report):
            check_done(result)
            loaded += result.outputs
        return tuple(loaded)

    def _report(self, tasks: int) -> Callable[[int, int], None]:
        def report(units: int, size_bytes: int) -> None:
            total_bytes = self.input_bytes or 0
            self.progress.update(done_units=units, units=tasks, done_bytes=size_bytes, total_bytes=total_bytes)

        return report

    def _run(
        self,
        session: SegmentSession,
        write: Callable[[SegmentSession, LoadTarget], Sequence[LoadResult]],
        *,
        one_run: bool,
    ) -> LoadReport:
        segment = session.begin(overwrite=self.options.overwrite)
        folder = f"{self.table}/{segment_folder(segment)}"
        self.io.make_dirs(folder)
        merges = self.properties.sort_scope is SortScope.GLOBAL_SORT and not one_run
        target = self._target(session, segment, folder=f"{session.folder}/runs" if merges else folder, is_staged=merges)
        if merges:
            self.io.make_dirs(target.output.directory)
        results = write(session, target)
        for result in results:
            raise_failure(result)
        rows, bad_rows = sum(result.rows for result in results), sum(result.bad_rows for result in results)
        if not rows:
            self._check_not_all_bad(results, bad_rows)
            return self._empty()
        runs = [result.files for result in results if result.files]
        if merges:
            output = self._output(folder)
            runs = [merge_sorted_runs(session, runs, schema=self.schema, output=output, load=self)]
        return self._commit(session, segment, runs, results=results)

    def _target(self, session: SegmentSession, segment: SegmentId, *, folder: str, is_staged: bool) -> LoadTarget:
        bad_folder = bad_records_folder(self.table, segment, session.attempt)
        return LoadTarget(
            table=self.table,
            attempt=session.attempt,
            arrow_schema=pack_schema(self.schema),
            output=self._output(folder, is_staged=is_staged),
            bad_records=BadRecords(self.properties.bad_records_action.value),
            bad_folder=bad_folder.removeprefix(f"{self.table}/"),
            zone=self.options.zone,
            verify=self.options.verify,
            memory_bytes=self.options.memory_bytes,
        )

    def _output(self, folder: str, *, is_staged: bool = False) -> BlockOutput:
        compression = Compression.LZ4 if is_staged else self.properties.compression
        return BlockOutput(
            directory=folder,
            compression=compression.value,
            compression_level=_ZSTD_LEVEL if compression is Compression.ZSTD else None,
            target_bytes=self.properties.table_blocksize * _MB,
            block_rows=self.properties.table_blocklet_rows,
            sort_columns=self.sort_columns,
            bloom_columns=() if is_staged else self.properties.bloom_columns,
            bloom_fpp=self.properties.bloom_fpp,
        )

    def _commit(
        self,
        session: SegmentSession,
        segment: SegmentId,
        runs: Sequence[Sequence[WrittenBlockFile]],
        *,
        results: Sequence[LoadResult],
    ) -> LoadReport:
        bad_rows = sum(result.bad_rows for result in results)
        index_path = index_file_path(self.table, index_file_name(segment, session.attempt))
        own_path = segment_file_path(self.table, segment_file_name(segment, session.attempt))
        own = [path.removeprefix(f"{self.table}/") for path in (index_path, own_path)]
        session.record(own, label="segment")
        self.io.make_dirs(index_folder(self.table))
        parts = [file.part for run in runs for file in run]
        index = join_parts(parts, schema=self.schema, sort_columns=self.sort_columns)
        written_index = write_index(self.io, index_path, index)
        content = self._segment_file(segment, session.attempt, runs, index_digest=written_index.digest)
        facts = SegmentFacts(
            index_bytes=written_index.size_bytes,
            segment_file=write_segment_file(self.io, self.table, content),
            rows=content.rows,
            files=len(content.files),
            data_bytes=content.data_bytes,
            bad_rows=bad_rows,
        )
        bad_files = [result.bad_file for result in results if result.bad_file]
        keep = {*own, *(file.path for file in content.files), *bad_files}
        operation = "overwrite" if self.options.overwrite else "load"
        status = session.finish(facts, keep=keep, operation=operation)
        return LoadReport(
            table=self.table,
            segment=segment,
            status="partial-success" if bad_rows else "success",
            version=status.version,
            rows=content.rows,
            bad_rows=bad_rows,
            bad_records=bad_files[0].rpartition("/")[0] if bad_files else None,
            files=len(content.files),
            runs=len({file.run for file in content.files}) if self.sort_columns else 0,
            data_bytes=content.data_bytes,
            index_bytes=facts.index_bytes,
            verified=self.options.verify,
            overwrite=self.options.overwrite,
            message=_message(content.rows, bad_rows, self.properties),
        )

    def _segment_file(
        self, segment: SegmentId, attempt: str, runs: Sequence[Sequence[WrittenBlockFile]], *, index_digest: str
    ) -> SegmentFile:
        files = tuple(
            DataFile(
                path=file.path.removeprefix(f"{self.table}/"),
                run=number if self.sort_columns else 0,
                rows=file.rows,
                size_bytes=file.size_bytes,
            )
            for number, run in enumerate(runs)
            for file in run
        )
        return SegmentFile(
            id=segment,
            attempt=attempt,
            files=files,
            sort_columns=self.sort_columns,
            sort_scope=self.properties.sort_scope,
            schema=to_ddl(self.status.columns),
            index_file=index_file_name(segment, attempt),
            index_digest=index_digest,
            rows=sum(file.rows for file in files),
            data_bytes=sum(file.size_bytes for file in files),
        )

    def _check_room(self) -> None:
        copies = 2 if self.properties.sort_scope is SortScope.GLOBAL_SORT else 1
        need = _LEAST_FREE_BYTES if self.input_bytes is None else self.input_bytes * copies
        free = self.io.free_bytes(self.table)
        if need > free:
            raise UnavailableError(
                f"The load needs about {format_bytes(need)} and {format_bytes(free)} are free at {self.table}; make "
                "room, or load less at once."
            )

    def _check_not_all_bad(self, results: Sequence[LoadResult], bad_rows: int) -> None:
        if bad_rows:
            examples = [str(field) for result in results for field in result.examples][:_EXAMPLES]
            raise InvalidInputError(
                f"All {bad_rows:,} rows are bad, so nothing was loaded: {'; '.join(examples)}.", bad_rows=bad_rows
            )

    def _empty(self) -> LoadReport:
        return LoadReport(
            table=self.table,
            segment=None,
            status="empty",
            version=self.status.version,
            overwrite=self.options.overwrite,
            verified=self.options.verify,
            message="There was no row to load, so nothing changed.",
        )

    def _merge_after(self, report: LoadReport) -> LoadReport:
        """Merge as the table asks for; the load stands whatever becomes of it."""
        if not self.properties.auto_load_merge:
            return report
        merged: Outcome | None = None
        try:
            merged = self.merge(self.engine)
        except PackstoneError as error:
            warning = f"The load is done, but the merge after it failed: {error.message}"
        except OSError as error:
            warning = f"The load is done, but the merge after it failed: {storage_sentence(error)}"
        else:
            return replace(report, merged=merged)
        return replace(report, warnings=(*report.warnings, warning))


def _message(rows: int, bad_rows: int, properties: Properties) -> str:
    if not bad_rows:
        return f"{rows:,} rows were loaded."
    action = properties.bad_records_action.value
    return f"{rows:,} rows were loaded; {bad_rows:,} were bad ({action})."
