"""Sort any number of rows in bounded memory: chunks sorted in memory, spilled to local disk, merged window by window.

Memory: a chunk is held twice while it is sorted, plus a few numbers per row. A spilled run is read again in small
batches, of which a cursor holds up to three; if there are so many runs, or rows so wide, that these would not fit, the
smaller half of the runs is merged into one first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.rewrite.data_files.batches import release_memory, to_column
from packstone.rewrite.merge_tree.cursor import FileRows, RunCursor
from packstone.rewrite.merge_tree.merge import SpilledRun
from packstone.rewrite.sorted_merge.rows import conform_parts, make_words, merge_cursors, order_rows

_CHUNK_SHARE = 0.32  # a chunk and its sort / memory; a busy machine returns freed pages late
_COPIES = 2
_SORT_BYTES = 48  # per row: words, row numbers and temporary arrays of their comparison
_WINDOW_BYTES = 24  # the same in a window, which sorts only a part of the waiting rows
_MAX_CHUNK_BYTES = 1 << 30  # a column of strings is limited to 2 GB
_PIECE_SHARE = 16  # chunk / piece that is added at once
_BATCHES_SHARE = 256  # memory / batch of a spilled run
_MIN_BATCH_BYTES, _MAX_BATCH_BYTES = 64 << 10, 2 << 20
_CURSOR_SHARE = 0.3
_BATCHES_PER_CURSOR = 3
_SORTED = "rows sorted by this process"


class RowSorter:
    """Takes rows in any order and returns them sorted; its files are removed on close, or after the last row."""

    def __init__(
        self,
        schema: pa.Schema,
        sort_columns: Sequence[str],
        *,
        memory_bytes: int = 256 << 20,
        temp_folder: str | None = None,
    ) -> None:
        if not sort_columns:
            raise InvalidInputError("There is no column to sort by; name at least one sort column.")
        self._schema, self._sort_columns = schema, tuple(sort_columns)
        self._memory_bytes, self._temp_folder = memory_bytes, temp_folder
        self._chunk_bytes = int(min(_MAX_CHUNK_BYTES * _COPIES, memory_bytes * _CHUNK_SHARE))
        self._batch_bytes = min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, memory_bytes // _BATCHES_SHARE))
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
        return _Run(batches, self._schema, batch_bytes=self._batch_bytes, temp_folder=self._temp_folder)

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

    def __init__(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, batch_bytes: int, temp_folder: str | None
    ) -> None:
        self.size_bytes = self.widest_bytes = 0
        self._spilled = SpilledRun(self._note(batches, batch_bytes), schema, temp_folder=temp_folder)
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
    if batch.get_total_buffer_size() <= _COPIES * batch.nbytes + _MIN_BATCH_BYTES:
        return batch
    return pa.concat_batches([batch, batch.slice(0, 0)])


def _rows_of(size_bytes: int, rows: int, batch_bytes: int) -> int:
    """The number of rows of a batch, including the memory that merging them takes."""
    return max(1, int(batch_bytes / (size_bytes / max(1, rows) + _WINDOW_BYTES)))
