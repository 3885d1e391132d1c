"""Batches into a writer of data files: all of them, or nothing stays behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from packstone.rewrite.release_memory import release_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_RELEASE_EVERY_BYTES = 32 << 20

Files = TypeVar("Files", covariant=True)  # noqa: PLC0105 - what close gives


class RollingWriter(Protocol[Files]):
    """Writes one file after the other."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        ...

    def close(self) -> Files:
        """End the last file, and tell what was written."""
        ...

    def abandon(self) -> None:
        """Remove every file that was begun."""
        ...


def write_all(writer: RollingWriter[Files], batches: Iterable[pa.RecordBatch]) -> tuple[Files, float]:
    """Write the batches, and return the files and the seconds that writing took; on any error, abandon them.

    Freed memory goes back now and then, and at the end, so that verifying, partly in another thread, begins with none.
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
