"""Merge sorted runs into files: sections in the order of keys, window by window, in bounded memory.

``share_memory`` divides the memory of a task. An open Parquet file holds, per column, a decoded page and often a
dictionary, about a megabyte each: ten runs of nine columns take more than a hundred megabytes before the first row is
merged. If that exceeds the share of open files, the runs that need the most are first copied to local disk in a format
that is read batch by batch and holds nothing else.

A merge engine turns the records of a key into one, with operations on whole columns of a window. A key with exactly one
record passes through unchanged, its kind included; so do the rows of a section with one run, which skip the engine.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.rewrite.data_files.batches import to_column, write_all
from packstone.rewrite.data_files.parquet_rows import RowWidths
from packstone.rewrite.data_files.rows import RowFilter, not_expired, read_rows
from packstone.rewrite.formats.parquet_footer import held_bytes, open_parquet
from packstone.rewrite.merge_tree.aggregate import Aggregation
from packstone.rewrite.merge_tree.cursor import FileRows, KeyBounds, RunCursor
from packstone.rewrite.merge_tree.keys import I64, Bools, column_values
from packstone.rewrite.merge_tree.rolling_writer import RollingWriter
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    AppendSpec,
    DataFormat,
    Expiry,
    InputFile,
    MergeEngine,
    MergeResult,
    MergeSpec,
    RowKind,
    unpack_schema,
)
from packstone.rewrite.merge_tree.window import Ordering, Versions, Window, check_run, cut_windows

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class ReadFile(Protocol):
    """Decodes a file: yields its rows in the merge's range of keys, expired ones too."""

    def __call__(
        self, file: InputFile, schema: pa.Schema, *, batch_bytes: int, widths: RowWidths
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches that are not empty."""
        ...


class _Reading:
    """The number of rows read, and the seconds that reading took."""

    def __init__(self, read_file: ReadFile | None = None) -> None:
        self.rows = 0
        self.seconds = 0.0
        self.widths = RowWidths()
        self.read_file = read_file

    def timed(self, batches: Iterator[pa.RecordBatch], path: str) -> Iterator[FileRows]:
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            self.rows += batch.num_rows
            yield FileRows(batch=batch, path=path)


def run_merge(
    io: FileIO, spec: MergeSpec, *, name_file: Callable[[int], str], read_file: ReadFile | None = None
) -> MergeResult:
    """Write the merged rows of all sections; after an error, the files written so far are removed.

    ``name_file`` returns the name of the n-th file before it is created, so that the caller can record it.
    ``read_file`` decodes a file in place of ``read_rows``, for a caller that looks at the rows too.
    """
    began = time.perf_counter()
    schema = unpack_schema(spec.arrow_schema)
    engine = make_engine(spec, schema)
    writer = _writer(io, spec, schema, name_file=name_file)
    reading = _Reading(read_file)
    files, write_seconds = write_all(writer, _merge_sections(io, spec, schema, engine=engine, reading=reading))
    seconds = time.perf_counter() - began
    return MergeResult(
        files=files,
        rows_in=reading.rows,
        rows_out=writer.rows,
        read_seconds=reading.seconds,
        merge_seconds=max(0.0, seconds - reading.seconds - write_seconds),
        write_seconds=write_seconds,
    )


def read_merged(io: FileIO, spec: MergeSpec) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of all sections, for callers that only read; the spec's output is not used."""
    schema = unpack_schema(spec.arrow_schema)
    yield from _merge_sections(io, spec, schema, engine=make_engine(spec, schema), reading=_Reading())


def run_append(io: FileIO, spec: AppendSpec, *, name_file: Callable[[int], str]) -> MergeResult:
    """Write the rows of all files, in their order, to fewer files; after an error, these are removed."""
    began = time.perf_counter()
    schema = unpack_schema(spec.arrow_schema)
    writer = _writer(io, spec, schema, name_file=name_file)
    reading = _Reading()
    shares = share_memory(io, (spec.inputs,), spec.memory_bytes)
    files, _ = write_all(
        writer,
        (
            piece.batch
            for file in spec.inputs
            for piece in reading.timed(
                read_rows(io, file, schema, batch_bytes=shares.batch_bytes, widths=reading.widths), file.path
            )
        ),
    )
    return MergeResult(
        files=files,
        rows_in=reading.rows,
        rows_out=writer.rows,
        read_seconds=reading.seconds,
        merge_seconds=0.0,
        write_seconds=max(0.0, time.perf_counter() - began - reading.seconds),
    )


def _merge_sections(
    io: FileIO, spec: MergeSpec, schema: pa.Schema, *, engine: Engine, reading: _Reading
) -> Iterator[pa.RecordBatch]:
    for section in spec.sections:
        merged = _merge_section(io, spec, section, schema=schema, engine=engine, reading=reading)
        yield from _without_deletes(merged) if spec.drop_deletes else merged


def _merge_section(
    io: FileIO,
    spec: MergeSpec,
    section: Sequence[Sequence[InputFile]],
    *,
    schema: pa.Schema,
    engine: Engine,
    reading: _Reading,
) -> Iterator[pa.RecordBatch]:
    keep = RowFilter(bounds=KeyBounds.of(spec.key_columns[0], spec.key_range))
    shares = share_memory(io, section, spec.memory_bytes)
    read_file = reading.read_file or partial(read_rows, io, keep=keep)

    def read_run(run: Sequence[InputFile], batch_bytes: int = shares.batch_bytes) -> Iterator[FileRows]:
        for file in run:
            rows = read_file(file, schema, batch_bytes=batch_bytes, widths=reading.widths)
            yield from reading.timed(_without_expired(rows, spec.expiry), file.path)

    if len(section) == 1:
        yield from check_run(read_run(section[0]), spec.key_columns)
        return
    ordering = Ordering(
        key_columns=spec.key_columns,
        sequence_columns=spec.sequence_columns,
        sequence_descending=spec.sequence_descending,
    )
    with ExitStack() as stack:
        cursors = []
        for at, run in enumerate(section):
            if at in shares.spilled_runs:
                # One run at a time: its batches may be as big as those of all runs together will be.
                whole = read_run(run, min(_MAX_BATCH_BYTES, shares.batch_bytes * len(section)))
                spilled = SpilledRun(whole, schema, batch_bytes=shares.batch_bytes)
                stack.callback(spilled.close)
                pieces = spilled.read()
            else:
                pieces = read_run(run)
            cursors.append(RunCursor(pieces, spec.key_columns))
        for window in cut_windows(cursors, ordering):
            yield engine(window) if isinstance(window, Window) else window


def _without_expired(batches: Iterator[pa.RecordBatch], expiry: Expiry | None) -> Iterator[pa.RecordBatch]:
    if expiry is None:
        yield from batches
        return
    for batch in batches:
        kept = batch.filter(to_column(not_expired(batch.column(expiry.column), expiry)))
        if kept.num_rows:
            yield kept


def _without_deletes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        adds = (column_values(batch.column(KIND_COLUMN), np.dtype(np.int8)) & 1) == 0
        yield batch if adds.all() else batch.filter(to_column(adds))


def _writer(
    io: FileIO, spec: MergeSpec | AppendSpec, schema: pa.Schema, *, name_file: Callable[[int], str]
) -> RollingWriter:
    inputs = spec.files if isinstance(spec, MergeSpec) else spec.inputs
    rows = sum(file.rows for file in inputs)
    sections = spec.sections if isinstance(spec, MergeSpec) else ((spec.inputs,),)
    blocks = (share_memory(io, section, spec.memory_bytes).block_bytes for section in sections)
    block_bytes = min(spec.output.block_bytes, *blocks)
    return RollingWriter(
        io,
        dataclasses.replace(spec.output, block_bytes=block_bytes),
        schema=schema,
        key_columns=spec.key_columns if isinstance(spec, MergeSpec) else (),
        name_file=name_file,
        row_bytes=sum(file.size_bytes for file in inputs) / max(1, rows),
    )


# ---- memory ----

_MAX_BATCH_BYTES = 8 << 20
_MIN_BATCH_BYTES = 64 << 10
_OTHER_COLUMN_BYTES = 1 << 18  # a stream of ORC, a block of Avro
# Shares of the memory that the open files leave. A cursor holds up to three batches (two that wait, one in its reader),
# and the window that is being merged about as much again; the block is held once decoded and partly encoded.
_CURSOR_SHARE = 0.4
_BATCHES_PER_CURSOR = 3
_BLOCK_SHARE = 0.2
_OPEN_FILES_SHARE = 0.6
# A process takes about 1.5 times the memory that is counted here: pages that allocators keep, arrays of the sort,
# contexts of decompressors (measured on ten runs of nine columns).
_COUNTED_SHARE = 0.64


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShares:
    """Sizes that together stay within the memory of a task."""

    batch_bytes: int
    block_bytes: int
    spilled_runs: frozenset[int] = frozenset()


def share_memory(io: FileIO, section: Sequence[Sequence[InputFile]], memory_bytes: int) -> MemoryShares:
    """Decide the size of batches and blocks, and which runs are copied to local disk first."""
    memory_bytes = int(memory_bytes * _COUNTED_SHARE)
    costs = {at: _open_bytes(io, run[0]) for at, run in enumerate(section) if run}
    spilled: set[int] = set()
    if len(section) > 1:
        for at in sorted(costs, key=lambda run: -costs[run]):
            if sum(cost for run, cost in costs.items() if run not in spilled) <= memory_bytes * _OPEN_FILES_SHARE:
                break
            spilled.add(at)
    held = sum(cost for run, cost in costs.items() if run not in spilled)
    left = max(memory_bytes - held, memory_bytes // 4)
    batch = int(left * _CURSOR_SHARE) // (_BATCHES_PER_CURSOR * max(1, len(section)))
    return MemoryShares(
        batch_bytes=min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, batch)),
        block_bytes=int(left * _BLOCK_SHARE),
        spilled_runs=frozenset(spilled),
    )


def _open_bytes(io: FileIO, file: InputFile) -> int:
    """Estimate the memory of an open file without its batches; the first file stands for its run."""
    columns = sum(column.source is not None for column in file.columns)
    if file.file_format is not DataFormat.PARQUET:
        return columns * _OTHER_COLUMN_BYTES
    with open_parquet(io, file.path) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return 0
        return held_bytes(metadata.row_group(0))


class SpilledRun:
    """A copy of a run on local disk, removed when it is closed."""

    def __init__(
        self,
        pieces: Iterator[FileRows],
        schema: pa.Schema,
        *,
        batch_bytes: int | None = None,
    ) -> None:
        """Write the batches, cut into pieces of about ``batch_bytes``; None: as they are."""
        self._folder = tempfile.TemporaryDirectory(prefix="packstone-run-")
        self._file = str(Path(self._folder.name) / "run.arrow")
        self._paths: list[str] = []
        try:
            first = next(pieces, None)
            if first is None:
                return
            options = pa.ipc.IpcWriteOptions(compression="lz4" if _pays(first.batch) else None)
            with pa.OSFile(self._file, "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
                for piece in chain((first,), pieces):
                    for batch in _cut(piece.batch, batch_bytes):
                        writer.write_batch(batch)
                        self._paths.append(piece.path)
        except BaseException:
            self.close()
            raise

    def read(self) -> Iterator[FileRows]:
        """Yield the batches in the original order, each with the file that it came from."""
        if not self._paths:
            return
        with pa.OSFile(self._file, "rb") as source, pa.ipc.open_file(source) as reader:
            for at, path in enumerate(self._paths):
                yield FileRows(batch=reader.get_batch(at), path=path)

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()


def _cut(batch: pa.RecordBatch, batch_bytes: int | None) -> Iterator[pa.RecordBatch]:
    if batch_bytes is None:
        yield batch
        return
    rows = max(1, batch.num_rows * batch_bytes // max(1, batch.nbytes))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def _pays(batch: pa.RecordBatch) -> bool:
    """Whether LZ4 halves the rows: it takes three times the CPU of writing and reading them as they are."""
    packed = pa.MockOutputStream()
    with pa.ipc.new_stream(packed, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return packed.size() * 2 < batch.nbytes


# ---- merge engines ----

Engine: TypeAlias = Callable[[Window], pa.RecordBatch]


def make_engine(spec: MergeSpec, schema: pa.Schema) -> Engine:
    """The engine of a spec; RefusedError names one that is not supported."""
    options = spec.engine
    match options.name:
        case MergeEngine.DEDUPLICATE.value:
            return lambda window: _gather(window, _newest(window, ignore_delete=options.ignore_delete), spec)
        case MergeEngine.FIRST_ROW.value:
            if spec.sequence_columns:
                raise RefusedError("first-row does not support sequence.field.")
            return lambda window: _gather(window, _oldest(window, ignore_delete=options.ignore_delete), spec)
        case MergeEngine.PARTIAL_UPDATE.value:
            return PartialUpdate(spec, schema).merge
        case MergeEngine.AGGREGATION.value:
            return Aggregation(spec, schema).merge
        case _:
            raise RefusedError(f"The merge engine {options.name} is not supported.")


def _gather(window: Window, rows: I64, spec: MergeSpec) -> pa.RecordBatch:
    """Fetch the rows, except those that will be dropped."""
    if spec.drop_deletes:
        rows = rows[(window.kinds[rows] & 1) == 0]
    return window.gather(rows)


def _newest(window: Window, *, ignore_delete: bool) -> I64:
    """The last record of each key; with ignore_delete the last that adds, and none for a key without one."""
    if not ignore_delete:
        return window.newest()
    eligible = _adds_or_single(window)
    at = np.where(eligible, np.arange(window.rows), -1)
    last = np.maximum.reduceat(at, window.starts)
    return window.order[last[last >= window.starts]]


def _oldest(window: Window, *, ignore_delete: bool) -> I64:
    """The first record of each key; a retraction among several is an error unless deletes are ignored."""
    eligible = _adds_or_single(window)
    if eligible.all():
        return window.order[window.starts]
    if not ignore_delete:
        raise RefusedError("first-row cannot merge delete or update-before records; set ignore-delete on the table.")
    at = np.where(eligible, np.arange(window.rows), window.rows)
    first = np.minimum.reduceat(at, window.starts)
    return window.order[first[first <= window.ends]]


def _adds_or_single(window: Window) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    adds = (window.kinds[window.order] & 1) == 0
    adds[window.starts[window.counts == 1]] = True
    return adds


class PartialUpdate:
    """The engine partial-update without sequence groups: of each column the newest value that is not null.

    | record | ignore-delete | remove-record-on-delete | neither |
    |---|---|---|---|
    | adds | non-null values overwrite | the same | the same |
    | -D | skipped | its values replace the row, kind -D | refused |
    | -U | skipped | skipped, but counts as the last record | refused |

    The first record of a key, if it retracts, gives the row its initial values even if it is skipped. The kind is -D if
    the last record deleted the row or if no record added it, else +I; the sequence number is that of the last record
    that was not skipped, 0 if all were. (This is the behaviour of Java's PartialUpdateMergeFunction, whose rows the
    output must equal.)
    """

    def __init__(self, spec: MergeSpec, schema: pa.Schema) -> None:
        if spec.engine.aggregates:
            raise RefusedError("partial-update with aggregate functions (sequence groups) is not supported.")
        if spec.engine.ignore_delete and spec.engine.remove_record_on_delete:
            raise InvalidInputError("ignore-delete and partial-update.remove-record-on-delete cannot be set together.")
        self._ignore_delete = spec.engine.ignore_delete
        self._remove_on_delete = spec.engine.remove_record_on_delete
        self._keys = frozenset(spec.key_columns)
        self._schema = schema

    def merge(self, window: Window) -> pa.RecordBatch:
        """Merge all keys of a window."""
        versions = Versions(window)
        if versions.has_retracts and not (self._ignore_delete or self._remove_on_delete):
            raise RefusedError(
                "partial-update cannot merge delete or update-before records; set ignore-delete or "
                "partial-update.remove-record-on-delete on the table."
            )
        columns = [self._column(versions, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, versions: Versions, field: pa.Field) -> pa.Array:
        column = versions.window.column(field.name)
        if field.name in self._keys:
            return column.take(to_column(versions.newest))
        if field.name == SEQUENCE_COLUMN:
            return versions.place(column, to_column(self._sequences(versions, column)))
        if field.name == KIND_COLUMN:
            return versions.place(column, to_column(self._kinds(versions)))
        if not column.null_count and not versions.has_retracts:
            return column.take(to_column(versions.newest))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if not field.nullable:
            self._check_not_null(versions, valid, field.name)
        if not versions.has_retracts:
            return versions.place(column, _last_valid(versions, valid))
        return versions.place(column, self._fold(versions, valid))

    def _fold(self, versions: Versions, valid: Bools) -> I64:
        """The row that the value of each merged key comes from; -1 for none."""
        source = np.full(versions.count, -1, dtype=np.int64)
        filled = np.zeros(versions.count, dtype=bool)
        for step in versions.steps:
            replaces = step.retract & ~filled[step.keys]
            if self._remove_on_delete:
                replaces |= step.delete
            source[step.keys[replaces]] = step.rows[replaces]
            writes = ~step.retract & valid[step.rows]
            source[step.keys[writes]] = step.rows[writes]
            filled[step.keys] = True
        return np.where((source >= 0) & valid[source], source, -1)

    def _sequences(self, versions: Versions, column: pa.Array) -> I64:
        stored = column_values(column, np.dtype(np.int64))
        found = np.zeros(versions.count, dtype=np.int64)
        for step in versions.steps:
            counts = ~step.retract if self._ignore_delete else np.ones(len(step.rows), dtype=bool)
            found[step.keys[counts]] = stored[step.rows[counts]]
        return found

    def _kinds(self, versions: Versions) -> np.ndarray[Any, np.dtype[np.int8]]:
        added = np.zeros(versions.count, dtype=bool)
        deleted = np.zeros(versions.count, dtype=bool)
        for step in versions.steps:
            added[step.keys] |= ~step.retract
            deleted[step.keys] = step.delete if self._remove_on_delete else False
        return np.where(deleted | ~added, RowKind.DELETE, RowKind.INSERT).astype(np.int8)

    def _check_not_null(self, versions: Versions, valid: Bools, name: str) -> None:
        for at, step in enumerate(versions.steps):
            used = ~step.retract | (step.delete & self._remove_on_delete) | (at == 0)
            if not valid[step.rows[used]].all():
                raise CorruptionError(f"Column {name} is NOT NULL, but an input holds a null in it.")


def _last_valid(versions: Versions, valid: Bools) -> I64:
    """The newest row of each merged key with a value; -1 for none."""
    window = versions.window
    at = np.where(valid[window.order], np.arange(window.rows), -1)
    last = np.maximum.reduceat(at, window.starts)[versions.merged]
    return np.where(last >= window.starts[versions.merged], window.order[last], -1)
