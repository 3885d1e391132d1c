"""Reading splits: read the files of a split, test the rows, return Arrow batches.

``read_split`` and ``count_split`` run on executors; ``read_few`` tries a small scan in the driver; ``read_at_once``
reads several splits in threads of one process.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import pyarrow as pa

from packstone.errors import RefusedError
from packstone.query.filter.evaluate import select
from packstone.query.filter.expression import FALSE, Expression
from packstone.query.scan.blocklet_scan import count_blocklets, scan_blocklets
from packstone.query.scan.caches import process_caches
from packstone.query.scan.request import unpack_filter
from packstone.query.scan.scanned_file import rows_without_columns
from packstone.rewrite.data_files.rows import read_rows, with_real_keys
from packstone.rewrite.merge_tree.merge import read_merged
from packstone.rewrite.merge_tree.spec import unpack_positions, unpack_schema

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanPlan, Split
    from packstone.storage.fileio import FileIO

# Smaller batches are joined: to Spark and Arrow, a batch of three rows costs as much as one of a thousand.
_SMALL_ROWS = 1024
_SMALL_BYTES = 1 << 20


def read_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows in the plan's schema; never an empty batch. Without columns, batches still have rows."""
    schema, expression = unpack_schema(split.schema), _filter_of(split)
    if expression == FALSE:
        return
    found = _read(io, split, schema=schema, expression=expression, caches=caches or process_caches())
    yield from _with_small_joined(found, schema)


def count_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> int:
    """Count the matching rows; row groups that must match are not read."""
    expression, caches = _filter_of(split), caches or process_caches()
    if expression == FALSE:
        return 0
    rows = count_blocklets(io, split.files, filter_schema=_filter_schema(split), expression=expression, caches=caches)
    return rows + sum(batch.num_rows for batch in _read_rows(io, split, schema=pa.schema([]), expression=expression))


def check_pushed(plan: ScanPlan) -> None:
    """Raise RefusedError for a filter of which a part needs Spark; the message names that part."""
    if plan.unpushed:
        construct = str(plan.unpushed[0])
        raise RefusedError(f"The test {construct} needs Spark; without it compare a column with literals of its type.")


def _read(
    io: FileIO, split: Split, *, schema: pa.Schema, expression: Expression | None, caches: ScanCaches
) -> Iterator[pa.RecordBatch]:
    yield from scan_blocklets(
        io, split.files, schema=schema, filter_schema=_filter_schema(split), expression=expression, caches=caches
    )
    yield from _read_rows(io, split, schema=schema, expression=expression)


def _read_rows(
    io: FileIO, split: Split, *, schema: pa.Schema, expression: Expression | None
) -> Iterator[pa.RecordBatch]:
    """Rows of whole files of any format, and of merges: decode all needed columns, then test the rows."""
    tested = _filter_schema(split)
    needed = pa.schema([*tested, *(one for one in schema if one.name not in tested.names)])
    for file in split.inputs:
        if len(needed):
            for batch in read_rows(io, file, needed):
                yield from _matching(batch, schema, expression)
        elif left := file.rows - len(unpack_positions(file.deleted)):
            yield rows_without_columns(left)
    if split.merge is not None:
        for batch in read_merged(io, with_real_keys(io, split.merge)):
            yield from _matching(batch, schema, expression)


def _matching(batch: pa.RecordBatch, schema: pa.Schema, expression: Expression | None) -> Iterator[pa.RecordBatch]:
    if expression is not None:
        mask = select(expression, batch)
        if mask.true_count < batch.num_rows:
            batch = batch.filter(mask)
    if not batch.num_rows:
        return
    if not len(schema):
        yield rows_without_columns(batch.num_rows)
        return
    columns = [batch.column(batch.schema.get_field_index(one.name)) for one in schema]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_small_joined(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not len(schema):
        yield from batches
        return
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= _SMALL_ROWS or size_bytes >= _SMALL_BYTES:
            yield from _join(waiting)
            waiting.clear()
            rows = size_bytes = 0
    if waiting:
        yield from _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _filter_of(split: Split) -> Expression | None:
    return unpack_filter(split.filter) if split.filter else None


def _filter_schema(split: Split) -> pa.Schema:
    return unpack_schema(split.filter_schema) if split.filter_schema else pa.schema([])


FEW_ROWS_BYTES: Final = 1 << 20
_MAX_SECONDS = 0.3


def read_few(io: FileIO, plan: ScanPlan, *, max_bytes: int = FEW_ROWS_BYTES) -> pa.Table | None:
    """Read the matching rows of plain Parquet files in this process; None if they are too many or take too long.

    A Spark job of Python tasks takes a tenth of a second before it reads anything, and half a second for many files.
    So a scan that is likely to find little is tried here first, within bounds that keep the driver light: the rows
    have at most ``max_bytes``, and no file is started after a third of a second. Otherwise the rows found so far are
    dropped, and tasks read everything. Memory: the rows, and what a task needs to read one file.
    """
    ends = time.monotonic() + _MAX_SECONDS
    found: list[pa.RecordBatch] = []
    room = max_bytes
    for file in (replace(split, files=(file,)) for split in plan.splits for file in split.files):
        if time.monotonic() > ends:
            return None
        for batch in read_split(io, file, caches=process_caches()):
            room -= batch.nbytes
            if room < 0:
                return None
            found.append(batch)
    return pa.Table.from_batches(found, schema=plan.schema)


T = TypeVar("T")

_DEPTH = 4  # batches that wait in the queue of each stream
_POLL_SECONDS = 0.2


def read_at_once(streams: Iterable[Iterator[T]], threads: int) -> Generator[T, None, None]:
    """Yield all of the first stream, then all of the second, and so on; ``threads`` streams are read at a time.

    Each stream has a thread of its own. PyArrow decodes without the interpreter's lock, so the threads share the
    cores. A stream reads at most ``_DEPTH`` batches ahead, so memory is bounded however many streams there are.
    """
    waiting = iter(streams)
    running: deque[_Stream[T]] = deque()
    try:
        running.extend(_Stream(one) for one in itertools.islice(waiting, threads))
        while running:
            yield from running[0]
            running.popleft().close()
            running.extend(_Stream(one) for one in itertools.islice(waiting, 1))
    finally:
        for one in running:
            one.close()


class _Stream(Generic[T]):
    """One stream and the thread that reads it."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._waiting: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(maxsize=_DEPTH)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read_source, daemon=True, name="packstone-scan")
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            item, error = self._waiting.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item

    def close(self) -> None:
        """Stop reading and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def _read_source(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                if not self._put(item, None):
                    break
        except BaseException as caught:  # noqa: BLE001 - __iter__ raises it in the consuming thread
            error = caught
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()
        self._put(None, error)

    def _put(self, item: T | None, error: BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._waiting.put((item, error), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
