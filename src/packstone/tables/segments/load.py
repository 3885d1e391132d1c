"""Load rows into a segment table: register → write → verify → segment file → commit → merge if so configured.

====================  ===================================================================================
`NO_SORT`             rows in input order: task by task, files in the order of writing, one run
`LOCAL_SORT`          every task sorts its rows: as many runs as tasks
`GLOBAL_SORT`         every task sorts its rows into runs in the run's staging; they are merged, cut by ranges
                      of the first sort column, into files that do not overlap: one run
====================  ===================================================================================

Loads never wait for each other, and nothing is visible before the last commit. A load without rows changes nothing,
even with overwrite: an input that is empty by mistake must not empty the table.

A load is a run. Its folder exists before the status names the load, and is removed after the status has dropped it. A
load that fails is abandoned at once: its entry is removed from the status, and the files that it recorded are removed.
A load that is killed is abandoned by `recover`, by the next compaction, or by `clean`, from the same records.

One process need not do it all: where Spark itself runs the tasks, one process begins the load, and another one, with
the results of the tasks, resumes and commits it (`OpenLoad`).

Spark tasks may outlive the action that started them (a speculative copy, a failed job): then a name may be recorded
whose file appears only later. As long as there is such a name, its record is kept for `clean`.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

import pyarrow as pa

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.sizes import format_bytes
from packstone.model.unit import Verify
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.load.convert_rows import match_columns
from packstone.rewrite.load.input_files import expand_globs, find_files, split_files
from packstone.rewrite.load.read_inputs import cut_batch
from packstone.rewrite.merge_tree.spec import pack_schema
from packstone.rewrite.sorted_merge.spec import BlockOutput, OrderedFile, OrderedMergeSpec
from packstone.runs.clock import system_clock
from packstone.runs.engine import InlineEngine
from packstone.runs.folder import Run
from packstone.runs.interrupts import finish_first
from packstone.runs.state_folder import find_state_folder
from packstone.runs.tasks import NoProgress, Task, check_done, pack_units
from packstone.storage.fileio import EntryKind
from packstone.storage.location import split_store
from packstone.storage.stores import store_beside
from packstone.tables.foreign import find_log, why_not_below
from packstone.tables.segments.damage import check_no_lost_load
from packstone.tables.segments.format.columns import to_arrow, to_ddl
from packstone.tables.segments.format.commit import check_can_commit, commit_edit
from packstone.tables.segments.format.edits import (
    LabelTakenError,
    SegmentFacts,
    abandon_attempt,
    begin_load,
    finish_load,
)
from packstone.tables.segments.format.layout import (
    LinkGuard,
    bad_records_folder,
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_name,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.format.properties import Compression, SortScope
from packstone.tables.segments.format.segment_file import (
    DataFile,
    SegmentFile,
    join_parts,
    write_index,
    write_segment_file,
)
from packstone.tables.segments.format.status_files import read_latest, read_retired
from packstone.tables.segments.leftovers import files_of, is_bad_rows, is_registered, read_attempt, read_created
from packstone.tables.segments.load_options import LoadOptions, LoadReport
from packstone.tables.segments.plan import keyed_files, plan_pieces
from packstone.tables.segments.tasks import (
    LOAD_JOB,
    SEGMENTS_MERGE_JOB,
    LoadContext,
    LoadTarget,
    LoadUnit,
    LoadVerify,
    MergeContext,
    MergeUnit,
    raise_failure,
    write_load,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packstone.model.outcome import Outcome
    from packstone.model.segment import SegmentId
    from packstone.model.unit import UnitResult
    from packstone.rewrite.load.convert_rows import InputBatch
    from packstone.rewrite.load.input_files import LoadFile
    from packstone.rewrite.sorted_merge.spec import WrittenBlockFile
    from packstone.runs.engine import Engine
    from packstone.runs.liveness import ProcessIdentity
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.format.properties import Properties
    from packstone.tables.segments.format.status import LoadLabel, TableStatus
    from packstone.tables.segments.tasks import LoadResult
    from packstone.tables.segments.user_verbs import Frames

_MB: Final = 1 << 20
_LEAST_FREE_BYTES: Final = 64 * _MB  # for a load of unknown size
_ZSTD_LEVEL: Final = 1
_EXAMPLES: Final = 3


MergeAfter: TypeAlias = "Callable[[Engine], Outcome | None]"


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
    """Load files and folders as one segment, by tasks of an engine; the engine is not closed."""
    options, paths = options or LoadOptions(), tuple(paths)
    load = Load.plan(io, table, options, engine=engine, progress=progress, merge=merge)
    source = _input_store(io, table, paths)
    files = _find_inputs(source, paths, options)
    total_bytes = sum(file.size_bytes for file in files)
    groups = tuple(split_files(source, files, task_bytes=options.share_bytes(total_bytes), options=options.inputs))
    load.input_bytes = total_bytes

    def write(session: LoadSession, target: LoadTarget) -> Sequence[LoadResult]:
        engine.expect(LOAD_JOB, files=len(files), size_bytes=total_bytes)
        units = [LoadUnit(number=number, pieces=pieces) for number, pieces in enumerate(groups)]
        return load.run_units(session, LoadContext(target=target, inputs=options.inputs), units)

    return load.run(write, one_run=len(groups) == 1)


def _input_store(io: FileIO, table: str, paths: tuple[str, ...]) -> FileIO:
    """The store of all inputs, which may differ from the table's store."""
    if len({split_store(path)[0] for path in paths}) > 1:
        raise InvalidInputError("The inputs of one load must be in one store; run one load for each store.")
    return store_beside(io, table, paths[0]) if paths else io


def _find_inputs(io: FileIO, paths: Iterable[str], options: LoadOptions) -> tuple[LoadFile, ...]:
    """Find the input files; refuse folders of table formats, whose files include deleted and already merged rows.

    Checks the inputs, the folders above and those below them. A single file given by its path is accepted: the user
    chose it.
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
            is_folder = entry is not None and entry.kind is EntryKind.DIRECTORY
            if is_folder or expanded != (path,):
                log = find_log(io, one if is_folder else posixpath.dirname(one))
                if log is not None:
                    raise _not_plain(path, *log)
    return find_files(io, found, options=options.inputs, check_folder=check_folder)


def _not_plain(path: str, at: str, what: str) -> RefusedError:
    return RefusedError(
        f"{path} is not a plain folder: {at} is {what.partition(';')[0].partition(',')[0]}, and not every file in it "
        "is live; load it as a DataFrame, or name its live files.",
        path=path,
    )


def load_batches(
    io: FileIO,
    table: str,
    data: Any,
    *,
    options: LoadOptions | None = None,
    engine: Engine | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Load an Arrow stream (of PyArrow, pandas, Polars, DuckDB) as one segment, in this process, batch by batch.

    The engine runs the merge that may follow the load.
    """
    load = Load.plan(io, table, options or LoadOptions(), engine=engine or InlineEngine(io), merge=merge)
    reader = _open_stream(data)
    match_columns(reader.schema, load.schema, source=_SOURCE, zone=load.options.zone)

    def write(session: LoadSession, target: LoadTarget) -> Sequence[LoadResult]:
        return (write_load(io, target, read_ahead(_cut(reader)), task=0, name=f"a0_{session.attempt}"),)

    return load.run(write, one_run=True)


def load_frame(
    io: FileIO,
    table: str,
    frame: Any,
    *,
    frames: Frames,
    options: LoadOptions | None = None,
    engine: Engine | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Load a Spark DataFrame as one segment, with one task for each partition.

    The engine runs the merge of a global sort, and the merge that may follow the load.
    """
    own = engine or frames.engine(frame, io)
    load = Load.plan(io, table, options or LoadOptions(), engine=own, merge=merge)
    _match_frame(frame.columns, load.schema)

    def write(session: LoadSession, target: LoadTarget) -> Sequence[LoadResult]:
        session.run.tasks_may_outlive = True
        return frames.write(io, frame, target, what=f"load {table}")

    return load.run(write, one_run=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoad:
    """A load that one process has begun and another one finishes; it pickles."""

    table: str
    options: LoadOptions
    properties: Properties  # those at its begin: its files are written by them, even if the table's are altered
    run: str = ""
    target: LoadTarget | None = None  # where tasks write; None: the label is loaded already, so nothing is written


def check_frame(io: FileIO, table: str, columns: Sequence[str]) -> None:
    """Raise InvalidInputError unless a DataFrame with these columns can be loaded."""
    _match_frame(columns, to_arrow(read_latest(io, table).columns))


def _match_frame(columns: Sequence[str], schema: pa.Schema) -> None:
    match_columns(pa.schema([(name, pa.null()) for name in columns]), schema, source=_FRAME, zone="UTC")


def begin_open(io: FileIO, table: str, *, options: LoadOptions, process: ProcessIdentity, stream: str = "") -> OpenLoad:
    """Begin a load whose tasks another program runs.

    A stream loads one batch at a time: what an earlier batch of the same process left open is abandoned.
    """
    load = Load.plan(io, table, options, engine=InlineEngine(io))
    if stream:
        abandon_stream(io, table, stream=stream, process=process)
    return load.begin(process=process, stream=stream)


def finish_open(
    io: FileIO,
    opened: OpenLoad,
    results: Sequence[LoadResult],
    *,
    engine: Engine,
    label: str | None = None,
    merge: MergeAfter | None = None,
) -> LoadReport:
    """Commit an open load with the results of the tasks that succeeded; without rows, or on an error, abandon it."""
    options = replace(opened.options, label=label) if label is not None else opened.options
    load = Load.plan(io, opened.table, options, engine=engine, merge=merge)
    load.properties = opened.properties

    def write(session: LoadSession, _: LoadTarget) -> Sequence[LoadResult]:
        session.run.tasks_may_outlive = True
        return sorted(results, key=lambda result: result.task)

    return load.run_in(LoadSession(io, opened.table, resumes=opened.run), write, one_run=False)


def abandon_open(io: FileIO, table: str, run: str) -> None:
    """Abandon an open load and remove its files; does nothing if it has ended or wrote nothing."""
    if not run:
        return
    with contextlib.suppress(ConflictError), LoadSession(io, table, resumes=run) as session:
        session.run.tasks_may_outlive = True
        session.begin(overwrite=False)


def abandon_stream(io: FileIO, table: str, *, stream: str, process: ProcessIdentity) -> None:
    """Abandon what batches of a streaming query of this process left open."""
    for entry in read_latest(io, table).loading:
        info = read_attempt(io, table, entry.attempt)
        if info is not None and (info.stream, info.process) == (stream, process):
            abandon_open(io, table, entry.attempt)


_SOURCE: Final = "the stream"
_FRAME: Final = "the DataFrame"


def _open_stream(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInputError(
            f"{type(data).__name__} has no Arrow stream; load a PyArrow table or reader, or a DataFrame of pandas, "
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
    merge: MergeAfter | None  # merges segments after the load, if the table is so configured
    input_bytes: int | None = None  # None: unknown

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
        """Read the table's status and prepare a load; writes nothing."""
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
            merge=merge,
        )

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """The columns that this load sorts by."""
        return () if self.properties.sort_scope is SortScope.NO_SORT else self.properties.sort_columns

    def run(self, write: Callable[[LoadSession, LoadTarget], Sequence[LoadResult]], *, one_run: bool) -> LoadReport:
        """Run the load; ``one_run``: there is only one task, so its order is the order of the whole load."""
        known = self._find_label()
        if known is not None:
            return self._already_loaded(known.segment)
        self._check_room()
        return self.run_in(LoadSession(self.io, self.table), write, one_run=one_run)

    def run_in(
        self,
        opened: LoadSession,
        write: Callable[[LoadSession, LoadTarget], Sequence[LoadResult]],
        *,
        one_run: bool,
    ) -> LoadReport:
        """Run the load in a new session, or in one that another process has begun."""
        began = time.perf_counter()
        try:
            with opened as session:
                report = self._run(session, write, one_run=one_run)
        except LabelTakenError as error:  # another load with this label committed first
            return self._already_loaded(error.facts["segment"])
        except OSError as error:
            raise UnavailableError(f"{storage_sentence(error)} Nothing was loaded.") from error
        finally:
            self.progress.close()
        report = replace(report, seconds=time.perf_counter() - began, engine=self.engine.used)
        if report.segment is None:
            return replace(report, version=read_latest(self.io, self.table).version)
        return self._merge_after(report)

    def begin(self, *, process: ProcessIdentity, stream: str = "") -> OpenLoad:
        """Register the load and leave it open: other processes write its files, and one of them finishes it.

        ``process`` is the one whose death ends the load.
        """
        if self._find_label() is not None:
            return OpenLoad(table=self.table, options=self.options, properties=self.properties)
        self._check_room()
        with LoadSession(self.io, self.table, process=process, stream=stream) as session:
            _, target = self._register(session, one_run=False)
            session.leave_open()
        run = session.attempt
        return OpenLoad(table=self.table, options=self.options, properties=self.properties, run=run, target=target)

    def run_units(self, session: LoadSession, context: LoadContext, units: Sequence[LoadUnit]) -> Sequence[LoadResult]:
        """Load pieces of files with the engine; each unit is a task, and its number is its position in the load."""
        staging = session.run.staging(1, 1)
        tasks = [Task(number=at, context=context, units=(unit,)) for at, unit in enumerate(units)]
        what, report = f"load {len(tasks)} parts into {self.table}", self._report(len(tasks))
        loaded: list[LoadResult] = []
        results = self.engine.run(LOAD_JOB, tasks, staging=staging, what=what, on_progress=report)
        session.run.tasks_may_outlive = self.engine.tasks_may_outlive_job
        for result in results:
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
        session: LoadSession,
        write: Callable[[LoadSession, LoadTarget], Sequence[LoadResult]],
        *,
        one_run: bool,
    ) -> LoadReport:
        segment, target = self._register(session, one_run=one_run)
        results = write(session, target)
        for result in results:
            raise_failure(result)
        rows, bad_rows = sum(result.rows for result in results), sum(result.bad_rows for result in results)
        if not rows:
            self._check_not_all_bad(results, bad_rows)
            return self._empty()
        runs = [result.files for result in results if result.files]
        if target.is_staged:
            output = self._output(f"{self.table}/{segment_folder(segment)}")
            runs = [merge_sorted_runs(session, runs, schema=self.schema, output=output, load=self)]
        return self._commit(session, segment, runs, results=results)

    def _register(self, session: LoadSession, *, one_run: bool) -> tuple[SegmentId, LoadTarget]:
        """Register the load, and return where its tasks write."""
        segment = session.begin(overwrite=self.options.overwrite)
        folder = f"{self.table}/{segment_folder(segment)}"
        self.io.make_dirs(folder)
        merges = self.properties.sort_scope is SortScope.GLOBAL_SORT and not one_run
        if merges:
            folder = session.run.staging(1, 2)
        return segment, self._target(session, segment, folder=folder, is_staged=merges)

    def _target(self, session: LoadSession, segment: SegmentId, *, folder: str, is_staged: bool) -> LoadTarget:
        bad_folder = bad_records_folder(self.table, segment, session.attempt)
        return LoadTarget(
            table=self.table,
            attempt=session.attempt,
            run_folder=session.run.folder,
            arrow_schema=pack_schema(self.schema),
            output=self._output(folder, is_staged=is_staged),
            is_staged=is_staged,
            bad_records=self.properties.bad_records_action,
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
        session: LoadSession,
        segment: SegmentId,
        runs: Sequence[Sequence[WrittenBlockFile]],
        *,
        results: Sequence[LoadResult],
    ) -> LoadReport:
        bad_rows = sum(result.bad_rows for result in results)
        index_path = index_file_path(self.table, index_file_name(segment, session.attempt))
        own_path = segment_file_path(self.table, segment_file_name(segment, session.attempt))
        own = [path.removeprefix(f"{self.table}/") for path in (index_path, own_path)]
        session.record(own)
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
        status = session.finish(facts, keep=keep, operation=operation, label=self.options.label)
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
            label=self.options.label,
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
                bloom_crc=file.bloom_crc,
                page_index_crc=file.page_index_crc,
                footer_digest=file.footer_digest,
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

    def _find_label(self) -> LoadLabel | None:
        return None if self.options.label is None else self.status.find_label(self.options.label)

    def _check_room(self) -> None:
        copies = 2 if self.properties.sort_scope is SortScope.GLOBAL_SORT else 1
        need = _LEAST_FREE_BYTES if self.input_bytes is None else self.input_bytes * copies
        free = self.io.free_bytes(self.table)
        if need > free:
            raise UnavailableError(
                f"The load needs about {format_bytes(need)}, but only {format_bytes(free)} are free at {self.table}; "
                "free some space, or load less at once."
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
            message="There were no rows to load, so nothing changed.",
        )

    def _already_loaded(self, segment: SegmentId) -> LoadReport:
        return LoadReport(
            table=self.table,
            segment=segment,
            status="already-loaded",
            version=read_latest(self.io, self.table).version,
            overwrite=self.options.overwrite,
            label=self.options.label,
            verified=self.options.verify,
            message=f"The label {self.options.label} is already loaded, in segment {segment}; nothing changed.",
        )

    def _merge_after(self, report: LoadReport) -> LoadReport:
        """Merge if the table is so configured; the load is committed even if the merge fails."""
        if self.merge is None or not self.properties.auto_load_merge:
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


class _Load(Protocol):
    options: LoadOptions
    engine: Engine


def merge_sorted_runs(
    session: LoadSession,
    runs: Sequence[Sequence[WrittenBlockFile]],
    *,
    schema: pa.Schema,
    output: BlockOutput,
    load: _Load,
) -> tuple[WrittenBlockFile, ...]:
    """Merge the sorted runs of a global sort into one run of files that do not overlap, in key order.

    The work is cut by ranges of the first sort column, at keys from the runs' indexes, into parts that tasks merge in
    parallel; the files of all parts, in order, are one run.
    """
    written = [file for run in runs for file in run]
    files = [OrderedFile(path=file.path, size_bytes=file.size_bytes, rows=file.rows) for file in written]
    index = join_parts([file.part for file in written], schema=schema, sort_columns=output.sort_columns)
    share_bytes = load.options.share_bytes(sum(file.size_bytes for file in files))
    pieces = plan_pieces(keyed_files(files, index, output.sort_columns), task_bytes=share_bytes)
    units = [
        MergeUnit(
            number=number,
            attempt=session.attempt,
            spec=OrderedMergeSpec(
                sections=piece.sections,
                unsorted=piece.unsorted,
                arrow_schema=pack_schema(schema),
                sort_columns=output.sort_columns,
                key_range=piece.key_range,
                output=output,
                memory_bytes=load.options.memory_bytes,
                verify=Verify.CONTENT if load.options.verify is LoadVerify.CONTENT else Verify.COUNT,
            ),
            input_bytes=piece.size_bytes,
        )
        for number, piece in enumerate(pieces)
    ]
    results = {result.number: result for result in _run(session, units, load)}
    merged = tuple(file for unit in units for file in results[unit.number].outputs)
    expected, found = sum(file.rows for file in written), sum(file.rows for file in merged)
    if expected != found:
        raise VerificationError(f"{expected} rows were expected after the merge, but the files hold {found}.")
    return merged


def _run(session: LoadSession, units: Sequence[MergeUnit], load: _Load) -> Iterator[UnitResult[WrittenBlockFile]]:
    staging = session.run.staging(1, 3)
    context = MergeContext(table=session.table, run_folder=session.run.folder)
    what = f"sort {len(units)} parts of {session.table}"
    files, size_bytes = {path for unit in units for path, _ in unit.input_files}, sum(u.input_bytes for u in units)
    load.engine.expect(SEGMENTS_MERGE_JOB, files=len(files), size_bytes=size_bytes)
    tasks = pack_units(units, context=context, parallelism=load.engine.parallelism, parallel=load.options.parallel)
    for result in load.engine.run(
        SEGMENTS_MERGE_JOB, tasks, staging=staging, what=what, on_progress=lambda _units, _bytes: None
    ):
        check_done(result)
        yield result


class LoadSession:
    """A running load, from its first record to its last; use it as a context manager."""

    def __init__(
        self,
        io: FileIO,
        table: str,
        *,
        process: ProcessIdentity | None = None,
        stream: str = "",
        resumes: str | None = None,
    ) -> None:
        self.io, self.table = io, table
        self._clock = system_clock()
        self._is_resumed, self._is_left_open = resumes is not None, False
        self.run = Run(
            io,
            table,
            state=find_state_folder(io, table),
            family="segments",
            command="load",
            id=resumes,
            process=process,
            stream=stream,
            is_half_done=lambda run: is_registered(io, table, run),
        )
        self._segment: SegmentId | None = None
        self._is_committed = False

    @property
    def attempt(self) -> str:
        """The id of the run, which names the load in the status."""
        return self.run.id

    def __enter__(self) -> Self:
        if self._is_resumed:
            self.run.resume()
        else:
            self.run.__enter__()
        return self

    def leave_open(self) -> None:
        """Leave the load open at the end of the block, for another process that resumes it."""
        self._is_left_open = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if self._is_left_open and error is None:
            self.run.leave_open()
            return
        try:
            with finish_first():
                self._end(error)
        finally:
            self.run.__exit__(kind, error)

    def _end(self, error: BaseException | None) -> None:
        if self._is_committed:
            self._remove_unpublished()
        elif isinstance(error, CommitUnknownError):
            self.run.keep_staging = True  # keep its files and the record of their names
        else:
            # Written rows differ from the input: keep the files for inspection.
            self.run.keep_evidence = isinstance(error, VerificationError)
            self._abandon()

    def begin(self, *, overwrite: bool) -> SegmentId:
        """Register the load in the status and return its id, which no other segment ever gets."""
        if self._is_resumed:
            return self._find_registration()
        check_no_lost_load(self.io, self.table)
        status = commit_edit(
            self.io,
            self.table,
            lambda status: begin_load(status, attempt=self.attempt, overwrite=overwrite, now_ms=self._clock.now_ms()),
            clock=self._clock,
            operation="begin-load",
        )
        entry = status.find_load(self.attempt)
        assert entry is not None  # the commit has just added it
        self._segment = entry.id
        return entry.id

    def _find_registration(self) -> SegmentId:
        entry = read_latest(self.io, self.table).find_load(self.attempt)
        if entry is None:
            raise ConflictError(
                f"The load {self.attempt} was abandoned: another command took its process for dead. Load again.",
                attempt=self.attempt,
            )
        self._segment = entry.id
        return entry.id

    def record(self, paths: Collection[str]) -> None:
        """Record paths (relative to the table) before the files are created."""
        self.run.record_created(tuple(f"{self.table}/{path}" for path in paths))

    def finish(
        self, facts: SegmentFacts, *, keep: Collection[str], operation: str, label: str | None = None
    ) -> TableStatus:
        """Commit the load; ``keep`` are the paths (relative to the table) of its files."""
        with finish_first():
            status = commit_edit(
                self.io,
                self.table,
                lambda status: finish_load(
                    status, facts, attempt=self.attempt, now_ms=self._clock.now_ms(), label=label
                ),
                clock=self._clock,
                operation=operation,
            )
            self._is_committed = True
            self.run.note_published(f"{self.table}/{path}" for path in keep)
        return status

    def _abandon(self) -> None:
        """Remove the load from the status, and the files it created; if that fails, `clean` does it later."""
        with contextlib.suppress(OSError, PackstoneError):
            status = commit_edit(
                self.io,
                self.table,
                lambda status: abandon_attempt(status, attempt=self.attempt, now_ms=self._clock.now_ms()),
                clock=self._clock,
                operation="abandon-load",
            )
            if self._is_resumed:
                self._keep_published(status)
            if not self.run.keep_evidence:
                self._remove_unpublished()
            if self._segment is not None:
                self.io.remove_empty_dir(f"{self.table}/{segment_folder(self._segment)}")

    def _keep_published(self, status: TableStatus) -> None:
        """Keep the files of a load that is visible: the process that committed it was killed before it could end it."""
        for entry in (*status.live, *read_retired(self.io, self.table, status)):
            if entry.attempt == self.attempt and entry.segment_file is not None:
                bad_rows = (path for path in read_created(self.io, self.table, self.attempt) if is_bad_rows(path))
                kept = (*files_of(self.io, self.table, entry), *bad_rows)
                self.run.note_published(f"{self.table}/{path}" for path in kept)

    def _remove_unpublished(self) -> None:
        with contextlib.suppress(OSError, PackstoneError):
            guard = LinkGuard(self.io, self.table)
            for path in read_created(self.io, self.table, self.attempt):
                whole = f"{self.table}/{path}"
                if whole not in self.run.published and guard.may_remove(path):
                    self.io.remove(whole)
