"""Random reads of an object by ranges, few and not too small: a request costs as much as half a megabyte.

Readers of Parquet ask for the tail, then for the footer in it, then for one column chunk after the other. So a small
read fetches more than it was asked for, the more the longer reads follow one another, and the last few fetched
pieces are kept. A big read fetches just what it was asked for, and nothing of it is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

_FIRST_AHEAD_BYTES: Final = 1 << 16  # PyArrow reads so much of the tail at first
_MOST_AHEAD_BYTES: Final = 1 << 20
_REQUEST_BYTES: Final = 16 << 20  # bigger reads are several requests, each with its own time limit and repeats
_KEPT_PIECES: Final = 4


class ObjectReader:
    """A file object, as ``pyarrow.PythonFile`` wants one."""

    def __init__(self, fetch: Callable[[int, int], Any], size_bytes: int) -> None:
        self._fetch, self._size = fetch, size_bytes
        self._at = 0
        self._ahead = _FIRST_AHEAD_BYTES
        self._pieces: list[tuple[int, memoryview]] = []  # oldest first
        self.closed = False

    def read(self, size: int | None = None) -> bytes | memoryview:
        """Read up to so many bytes from where we are."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        start = min(self._at, self._size)
        stop = self._size if size is None or size < 0 else min(self._size, start + size)
        self._at = stop
        return b"" if start == stop else self._kept(start, stop) or self._fetched(start, stop)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go elsewhere."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Where we are."""
        return self._at

    def size(self) -> int:
        """How big the object is."""
        return self._size

    def close(self) -> None:
        """Forget what was fetched."""
        self._pieces.clear()
        self.closed = True

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def flush(self) -> None:
        """Nothing is written."""

    def _kept(self, start: int, stop: int) -> memoryview | None:
        for first, piece in reversed(self._pieces):
            if first <= start and stop <= first + len(piece):
                return piece[start - first : stop - first]
        return None

    def _fetched(self, start: int, stop: int) -> memoryview:
        if stop - start >= _MOST_AHEAD_BYTES:
            return self._fetch_big(start, stop)
        follows = any(first <= start <= first + len(piece) for first, piece in self._pieces)
        self._ahead = min(_MOST_AHEAD_BYTES, self._ahead * 2) if follows else _FIRST_AHEAD_BYTES
        end = min(self._size, max(stop, start + self._ahead))
        piece = memoryview(self._fetch(start, end))
        self._pieces = [*self._pieces[1 - _KEPT_PIECES :], (start, piece)]
        return piece[: stop - start]

    def _fetch_big(self, start: int, stop: int) -> memoryview:
        if stop - start <= _REQUEST_BYTES:
            return memoryview(self._fetch(start, stop))
        whole = bytearray(stop - start)
        for at in range(start, stop, _REQUEST_BYTES):
            end = min(stop, at + _REQUEST_BYTES)
            whole[at - start : end - start] = memoryview(self._fetch(at, end))
        return memoryview(whole)
