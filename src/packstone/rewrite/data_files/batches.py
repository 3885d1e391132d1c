"""Pass batches from readers to writers: read ahead, write all or nothing, wrap NumPy arrays as columns.

Reading ahead decodes the next batches while the current one is encoded or hashed. PyArrow decodes without the
interpreter's lock, so one more thread hides the latency of storage, and it nearly halves the time of the last units of
a job, when cores are idle. The total work stays the same.
"""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

T = TypeVar("T")

_DEPTH = 3  # batches in the queue; they cost 24 MiB of memory at 8 MiB each
_POLL_SECONDS = 0.5


class _End:
    """The end of the queue, with the error that stopped the reader, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(source: Iterator[T]) -> Generator[T, None, None]:
    """Yield what the source yields, read in a separate thread; errors are raised as if the source were read here."""
    waiting: queue.Queue[T | _End] = queue.Queue(maxsize=_DEPTH)
    stopped = threading.Event()
    thread = threading.Thread(
        target=_read_source, args=(source, waiting, stopped), daemon=True, name="packstone-read-ahead"
    )
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        thread.join()


def _read_source(source: Iterator[T], waiting: queue.Queue[T | _End], stopped: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in source:
            if not _put(waiting, item, stopped):
                break
    except BaseException as caught:  # noqa: BLE001 - read_ahead raises it again
        error = caught
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    _put(waiting, _End(error), stopped)


def read_one_ahead(source: Iterator[T], pool: ThreadPoolExecutor) -> Generator[T, None, None]:
    """Yield what the source yields, the next item read by the pool meanwhile.

    Several sources that share a pool of one thread are never read at the same time, so that they can share state.
    """
    end = _End(None)
    following = pool.submit(next, source, end)
    try:
        while not isinstance(item := following.result(), _End):
            following = pool.submit(next, source, end)
            yield item
    finally:
        # A generator cannot be closed while it runs.
        if not following.cancel():
            wait((following,))
        close = getattr(source, "close", None)
        if close is not None:
            close()


def _put(waiting: queue.Queue[T | _End], item: T | _End, stopped: threading.Event) -> bool:
    """Add an item when the queue has room; return False if the consumer has stopped."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False


_RELEASE_EVERY_BYTES = 32 << 20

Files = TypeVar("Files", covariant=True)  # noqa: PLC0105 - what close returns


class FileSeriesWriter(Protocol[Files]):
    """Writes one file after another."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        ...

    def close(self) -> Files:
        """Finish the last file, and return what was written."""
        ...

    def abandon(self) -> None:
        """Remove every file that was started."""
        ...


def write_all(writer: FileSeriesWriter[Files], batches: Iterable[pa.RecordBatch]) -> tuple[Files, float]:
    """Write the batches, and return the files and the seconds that writing took; on any error, abandon the files.

    Freed memory is released periodically and at the end, so that verification, which runs partly in another thread,
    starts without it.
    """
    seconds, since_release = 0.0, 0
    try:
        for batch in batches:
            since_release += batch.nbytes
            started = time.perf_counter()
            writer.write(batch)
            if since_release >= _RELEASE_EVERY_BYTES:
                release_memory()
                since_release = 0
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        files = writer.close()
        seconds += time.perf_counter() - started
    except BaseException:
        writer.abandon()
        raise
    finally:
        release_memory()
    return files, seconds


def release_memory() -> None:
    """Release the freed memory that PyArrow's pool keeps, in about a millisecond.

    The pool releases it by itself, but late, and keeps for each thread what only that thread can use again: sorting
    and merging values of a megabyte held more than twice the memory that they used.
    """
    pa.default_memory_pool().release_unused()


_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def to_column(values: np.ndarray[Any, Any], *, missing: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Array:
    """Wrap a NumPy array as a column, without a copy where Arrow has the same layout; missing values become null.

    `pa.array` would import pandas, 60 MB, only to test whether it got a series.
    """
    valid = None if missing is None else _bits(~missing)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, _bits(values)])
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(_TYPES[str(values.dtype)], len(values), [valid, data])


def _bits(flags: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").tobytes())
