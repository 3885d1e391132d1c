"""Merge sorted files into sorted files, all rows kept: section by section, window by window, in bounded memory.

Files that are not sorted are sorted first, spilling to local disk what does not fit in memory, and then merged with the
others. For that the runs of all sections are concatenated, because sections are in the order of keys. Without sort
columns the rows of all files are concatenated.

``share_runs`` decides which runs are open at the same time. An open Parquet file holds pages and dictionaries; a cursor
holds up to three batches of at least one row each. Runs that do not fit in memory are sorted again together with the
unsorted rows: that has its own memory bound, costs little more than a copy to local disk, and leaves few runs.

The sorter takes any number of rows in bounded memory: chunks sorted in memory, spilled to local disk, merged window by
window. A chunk is held twice while it is sorted, plus a few numbers per row. A spilled run is read again in small
batches, of which a cursor holds up to three; if there are so many runs, or rows so wide, that these would not fit, the
smaller half of the runs is merged into one first.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.rewrite.data_files.batches import release_memory, to_column, write_all
from packstone.rewrite.formats.parquet_footer import held_bytes, open_parquet
from packstone.rewrite.merge_tree.cursor import FileRows, RunCursor
from packstone.rewrite.merge_tree.merge import SpilledRun
from packstone.rewrite.merge_tree.spec import unpack_schema
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.rows import (
    OrderedRange,
    OrderedReader,
    check_order,
    conform_parts,
    make_words,
    merge_cursors,
    order_rows,
)
from packstone.rewrite.sorted_merge.spec import (
    BlockOutput,
    OrderedFile,
    OrderedMergeSpec,
    OrderedResult,
    OrderedRun,
    OrderedSection,
)

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_BATCH_BYTES = 4 << 20  # of files that are read one at a time
_BLOCK_SHARE = 0.2  # rows of a row group that are being collected / memory
_ENCODING_RATIO = 0.5  # pages and dictionaries / those rows; they are held until the row group is written
_DECODED_RATIO = 1.5  # decoded bytes of a row / bytes of its pages, an estimate


def merge_ordered(io: FileIO, spec: OrderedMergeSpec, *, name_file: Callable[[int], str]) -> OrderedResult:
    """Write the rows of all inputs in order; after an error, the files written so far are removed.

    ``name_file`` returns the name of the n-th file before it is created, so that the caller can record it.
    """
    began = time.perf_counter()
    merge = _Merge.of(io, spec)
    writer = BlockWriter(io, merge.output(), schema=merge.schema, name_file=name_file, row_bytes=_row_bytes(spec.files))
    with closing(merge.batches()) as batches:
        files, write_seconds = write_all(writer, batches)
    seconds = time.perf_counter() - began
    return OrderedResult(
        files=files,
        rows_in=merge.reading.rows,
        rows_out=writer.rows,
        read_seconds=merge.reading.seconds,
        merge_seconds=max(0.0, seconds - merge.reading.seconds - write_seconds),
        write_seconds=write_seconds,
    )


class _Reading:
    """The number of rows read, and the seconds that reading took."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0

    def timed(self, pieces: Iterator[FileRows]) -> Iterator[FileRows]:
        while True:
            began = time.perf_counter()
            piece = next(pieces, None)
            self.seconds += time.perf_counter() - began
            if piece is None:
                return
            self.rows += piece.batch.num_rows
            yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    io: FileIO
    spec: OrderedMergeSpec
    schema: pa.Schema
    reader: OrderedReader
    reading: _Reading

    @classmethod
    def of(cls, io: FileIO, spec: OrderedMergeSpec) -> _Merge:
        schema = unpack_schema(spec.arrow_schema)
        bounds = OrderedRange.of(schema.field(spec.sort_columns[0]), spec.key_range) if spec.sort_columns else None
        reader = OrderedReader(io, schema, key_range=bounds)
        return cls(io=io, spec=spec, schema=schema, reader=reader, reading=_Reading())

    def output(self) -> BlockOutput:
        """The output of the spec, with row groups limited to their share of the memory."""
        output = dataclasses.replace(self.spec.output, sort_columns=self.spec.sort_columns)
        limit = max(1, int(self.spec.memory_bytes * _BLOCK_SHARE))
        return dataclasses.replace(output, block_bytes=min(output.block_bytes, limit))

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of all inputs in order."""
        if not self.spec.sort_columns:
            for file in self.spec.files:
                for piece in self._read((file,), _BATCH_BYTES):
                    yield piece.batch
        elif self.spec.unsorted:
            yield from self._merge_all()
        else:
            for section in self.spec.sections:
                with ExitStack() as stack:
                    yield from self._merge_runs(section, None, stack=stack)

    def _merge_all(self) -> Iterator[pa.RecordBatch]:
        """Sort the unsorted files, and merge them with the runs of all sections."""
        runs = tuple(
            tuple(file for run in end_to_end for file in run)
            for end_to_end in zip_longest(*self.spec.sections, fillvalue=())
        )
        unsorted = (piece.batch for piece in self._read(self.spec.unsorted, _BATCH_BYTES, is_sorted=False))
        with ExitStack() as stack:
            yield from self._merge_runs(runs, unsorted, stack=stack)

    def _merge_runs(
        self, section: OrderedSection, unsorted: Iterator[pa.RecordBatch] | None, *, stack: ExitStack
    ) -> Iterator[pa.RecordBatch]:
        section = tuple(run for run in section if run)
        if len(section) <= 1 and unsorted is None:
            for run in section:
                yield from check_order(self._read(run, _BATCH_BYTES), self.spec.sort_columns)
            return
        memory_bytes = self.spec.memory_bytes - self._block_bytes()
        shares = share_runs(self.io, section, memory_bytes, with_sorter=unsorted is not None)
        sorter = RowSorter(self.schema, self.spec.sort_columns, memory_bytes=memory_bytes)
        stack.callback(sorter.close)
        for batch in unsorted or ():
            sorter.add(batch)
        for run in shares.sorted_again:
            for batch in check_order(self._read(run, _BATCH_BYTES), self.spec.sort_columns):
                sorter.add(batch)
        if not shares.kept:
            yield from sorter.sorted_batches()
            return
        runs = [*(self._read(run, shares.batch_bytes) for run in shares.kept), *sorter.open_runs(stack)]
        yield from merge_cursors([RunCursor(run, self.spec.sort_columns) for run in runs], self.spec.sort_columns)

    def _read(self, files: Sequence[OrderedFile], batch_bytes: int, *, is_sorted: bool = True) -> Iterator[FileRows]:
        for file in files:
            yield from self.reading.timed(self.reader.read(file, batch_bytes=batch_bytes, is_sorted=is_sorted))

    def _block_bytes(self) -> int:
        """Estimate the memory of a row group until it is written; the first input stands for all."""
        output = self.output()
        with open_parquet(self.io, self.spec.files[0].path) as parquet:
            metadata = parquet.metadata
            groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
            row_bytes = sum(group.total_byte_size for group in groups) / max(1, metadata.num_rows)
        rows_bytes = min(output.block_bytes, int(row_bytes * _DECODED_RATIO * output.block_rows))
        return int(rows_bytes * (1 + _ENCODING_RATIO))


def _row_bytes(files: Sequence[OrderedFile]) -> float:
    return sum(file.size_bytes for file in files) / max(1, sum(file.rows for file in files))


_MAX_BATCH_BYTES = 8 << 20
_MIN_BATCH_BYTES = 64 << 10
_BATCHES_PER_CURSOR = 3
# A process takes about 1.5 times the memory that is counted here: see merge_tree/merge.py.
_COUNTED_SHARE = 0.64
_OPEN_SHARE = 0.6
_OPEN_SHARE_WITH_SORTER = 0.2
_BATCH_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShares:
    """Runs that are read at the same time, in batches of ``batch_bytes``, and runs that are sorted again."""

    kept: tuple[OrderedRun, ...]
    sorted_again: tuple[OrderedRun, ...]
    batch_bytes: int


def share_runs(io: FileIO, runs: Sequence[OrderedRun], memory_bytes: int, *, with_sorter: bool) -> RunShares:
    """Keep open as many bytes of runs as fit; ``with_sorter``: other rows are sorted in any case."""
    counted = memory_bytes * _COUNTED_SHARE
    costs = [_cost(io, run) for run in runs]
    room = counted * (_OPEN_SHARE_WITH_SORTER if with_sorter else _OPEN_SHARE)
    if sum(costs) > room:
        room = counted * _OPEN_SHARE_WITH_SORTER
    kept, used = set(), 0
    # Start with the runs that have the most bytes per memory, because the remaining ones have to be sorted.
    for at in sorted(range(len(runs)), key=lambda at: costs[at] / max(1, sum(file.size_bytes for file in runs[at]))):
        if used + costs[at] <= room:
            kept.add(at)
            used += costs[at]
    batch = int(counted * _BATCH_SHARE) // (_BATCHES_PER_CURSOR * max(1, len(kept)))
    return RunShares(
        kept=tuple(run for at, run in enumerate(runs) if at in kept),
        sorted_again=tuple(run for at, run in enumerate(runs) if at not in kept),
        batch_bytes=min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, batch)),
    )


def _cost(io: FileIO, run: OrderedRun) -> int:
    """Estimate the least memory of an open run; its first file stands for it."""
    with open_parquet(io, run[0].path) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return 0
        group = metadata.row_group(0)
        width = group.total_byte_size // max(1, group.num_rows)
        return held_bytes(group) + _BATCHES_PER_CURSOR * max(_MIN_BATCH_BYTES, width)


# ---- the sorter ----

_CHUNK_SHARE = 0.32  # a chunk and its sort / memory; a busy machine returns freed pages late
_COPIES = 2
_SORT_BYTES = 48  # per row: words, row numbers and temporary arrays of their comparison
_WINDOW_BYTES = 24  # the same in a window, which sorts only a part of the waiting rows
_MAX_CHUNK_BYTES = 1 << 30  # a column of strings is limited to 2 GB
_PIECE_SHARE = 16  # chunk / piece that is added at once
_BATCHES_SHARE = 256  # memory / batch of a spilled run
_MIN_SPILLED_BATCH_BYTES, _MAX_SPILLED_BATCH_BYTES = 64 << 10, 2 << 20
_CURSOR_SHARE = 0.3
_SORTED = "rows sorted by this process"


class RowSorter:
    """Takes rows in any order and returns them sorted; its files are removed on close, or after the last row."""

    def __init__(
        self,
        schema: pa.Schema,
        sort_columns: Sequence[str],
        *,
        memory_bytes: int = 256 << 20,
    ) -> None:
        if not sort_columns:
            raise InvalidInputError("There is no column to sort by; name at least one sort column.")
        self._schema, self._sort_columns = schema, tuple(sort_columns)
        self._memory_bytes = memory_bytes
        self._chunk_bytes = int(min(_MAX_CHUNK_BYTES * _COPIES, memory_bytes * _CHUNK_SHARE))
        self._batch_bytes = min(_MAX_SPILLED_BATCH_BYTES, max(_MIN_SPILLED_BATCH_BYTES, memory_bytes // _BATCHES_SHARE))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._runs: list[_Run] = []
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.rows += batch.num_rows
        for part in conform_parts(batch, self._schema, max_bytes=self._chunk_bytes // _PIECE_SHARE):
            if not part.num_rows:
                continue
            kept = _own(part)
            self._waiting.append(kept)
            # Words are computed from copies of strings and their offsets.
            keys = sum(kept.column(name).nbytes for name in self._sort_columns)
            self._waiting_bytes += kept.nbytes * _COPIES + keys * _COPIES + kept.num_rows * _SORT_BYTES
            if self._waiting_bytes >= self._chunk_bytes:
                self._spill()

    def sorted_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order; the sorter is empty afterwards."""
        try:
            if not self._runs:
                yield from self._sort_waiting()
                return
            with ExitStack() as stack:
                cursors = [RunCursor(pieces, self._sort_columns) for pieces in self.open_runs(stack)]
                yield from merge_cursors(cursors, self._sort_columns)
        finally:
            self.close()

    def open_runs(self, stack: ExitStack) -> list[Iterator[FileRows]]:
        """The rows as sorted runs on local disk, few enough for their share of the memory; the stack removes them."""
        if self._waiting:
            self._spill()
        runs, self._runs = self._runs, []
        for run in runs:
            stack.callback(run.close)
        return [run.read() for run in runs]

    def close(self) -> None:
        """Drop all rows and remove all files."""
        self._waiting, self._waiting_bytes = [], 0
        runs, self._runs = self._runs, []
        for run in runs:
            run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spill(self) -> None:
        self._runs.append(self._make_run(self._sort_waiting()))
        while len(self._runs) > 2 and self._cursor_bytes() > self._memory_bytes * _CURSOR_SHARE:
            self._merge_smaller_half()
        release_memory()

    def _cursor_bytes(self) -> int:
        return sum(run.widest_bytes for run in self._runs) * _BATCHES_PER_CURSOR

    def _merge_smaller_half(self) -> None:
        self._runs.sort(key=lambda run: run.size_bytes)
        half = max(2, len(self._runs) // 2)
        merged, self._runs = self._runs[:half], self._runs[half:]
        with ExitStack() as stack:
            for run in merged:
                stack.callback(run.close)
            cursors = [RunCursor(run.read(), self._sort_columns) for run in merged]
            self._runs.append(self._make_run(merge_cursors(cursors, self._sort_columns)))

    def _make_run(self, batches: Iterator[pa.RecordBatch]) -> _Run:
        return _Run(batches, self._schema, batch_bytes=self._batch_bytes)

    def _sort_waiting(self) -> Iterator[pa.RecordBatch]:
        columns = _join_columns(self._waiting, self._schema)
        self._waiting, self._waiting_bytes = [], 0
        if not columns or not len(columns[0]):
            return
        rows = len(columns[0])
        words = make_words([columns[self._schema.get_field_index(name)] for name in self._sort_columns])
        order = order_rows(words, rows)
        del words
        step = _rows_of(sum(column.nbytes for column in columns), rows, self._batch_bytes)
        for start in range(0, rows, step):
            at = to_column(order[start : start + step])
            yield pa.RecordBatch.from_arrays([column.take(at) for column in columns], schema=self._schema)


class _Run:
    """Sorted rows on local disk."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, batch_bytes: int) -> None:
        self.size_bytes = self.widest_bytes = 0
        self._spilled = SpilledRun(self._note(batches, batch_bytes), schema)
        self.read, self.close = self._spilled.read, self._spilled.close

    def _note(self, batches: Iterator[pa.RecordBatch], batch_bytes: int) -> Iterator[FileRows]:
        for whole in batches:
            step = _rows_of(whole.nbytes, whole.num_rows, batch_bytes)
            for start in range(0, whole.num_rows, step):
                batch = whole.slice(start, step)
                size_bytes = batch.nbytes
                self.size_bytes += size_bytes
                self.widest_bytes = max(self.widest_bytes, size_bytes + batch.num_rows * _WINDOW_BYTES)
                yield FileRows(batch=batch, path=_SORTED)


def _join_columns(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[pa.Array]:
    """Each column as one array; its parts are released before the next column, so that little is held twice."""
    parts = [[batch.column(at) for batch in batches] for at in range(len(schema))]
    batches.clear()
    joined = []
    for at in range(len(schema)):
        if parts[at]:
            joined.append(pa.concat_arrays(parts[at]))
        parts[at] = []
    return joined


def _own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that holds little more memory than its rows need: a slice keeps the whole batch it was cut from."""
    if batch.get_total_buffer_size() <= _COPIES * batch.nbytes + _MIN_SPILLED_BATCH_BYTES:
        return batch
    return pa.concat_batches([batch, batch.slice(0, 0)])


def _rows_of(size_bytes: int, rows: int, batch_bytes: int) -> int:
    """The number of rows of a batch, including the memory that merging them takes."""
    return max(1, int(batch_bytes / (size_bytes / max(1, rows) + _WINDOW_BYTES)))
