"""Read and write S3 objects as file objects, and translate the client's errors to OSErrors.

An upload is visible only when it is complete, and not at all if it is aborted. Data that fits into one part is put when
the file is closed. Bigger data is uploaded part by part while it is written: a thread feeds obstore's multipart upload
from a short queue; an abort makes the feed fail, and obstore then tells the store to discard the parts. A killed
process leaves parts that no listing shows; a lifecycle rule of the bucket should remove them.

Reads are ranges, few and not too small: a request takes as long as reading half a megabyte. Parquet readers read the
tail, then the footer in it, then one column chunk after another. So a small read fetches more than was requested, and
more each time reads follow one another; the last few fetched pieces are kept. A big read fetches just what was
requested, and is not kept.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from packstone.storage.fileio import WriteOnly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import S3Store

_PART_BYTES: Final = 8 << 20  # 10,000 parts, the limit, are 80 GB
_PARTS_IN_FLIGHT: Final = 3
_END: Final = b""


class _AbortedError(Exception):
    """Raised inside an upload, so that it ends."""


class ObjectWriter(WriteOnly):
    """A file object for writing; ``close`` publishes; ``abort`` discards, and so does a ``with`` block that fails."""

    def __init__(self, store: S3Store, key: str, *, path: str) -> None:
        self._store, self._key, self._path = store, key, path
        self._part = bytearray()
        self._written = 0
        self._upload: _Upload | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes; after an abort they are discarded (a format's writer may still send its footer)."""
        view = memoryview(data).cast("B")
        if self.closed:
            return len(view)
        self._part += view
        self._written += len(view)
        while len(self._part) > _PART_BYTES:
            if self._upload is None:
                self._upload = _Upload(self._store, self._key, path=self._path)
            self._upload.send(bytes(self._part[:_PART_BYTES]))
            del self._part[:_PART_BYTES]
        return len(view)

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Do nothing: nothing is visible before the end."""

    def close(self) -> None:
        """Complete the upload and publish the object."""
        if self.closed:
            return
        self.closed = True
        if self._upload is not None:
            self._upload.send(bytes(self._part))
            self._upload.finish()
            return
        import obstore  # an extra

        with as_os_errors(self._path):
            obstore.put(self._store, self._key, bytes(self._part), use_multipart=False)

    def abort(self) -> None:
        """Abort the upload: no object appears."""
        if not self.closed:
            self.closed = True
            if self._upload is not None:
                self._upload.abort()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()


class _Upload:
    """A multipart upload in a thread of its own, fed through a queue."""

    def __init__(self, store: S3Store, key: str, *, path: str) -> None:
        self._path = path
        self._parts: queue.Queue[bytes | None] = queue.Queue(maxsize=1)
        self._failure: list[BaseException] = []
        # The thread refers to the queue, not to the writer: an unused writer must be collected, and then abort.
        shared = {"parts": self._parts, "failure": self._failure}
        self._thread = threading.Thread(target=_run_upload, args=(store, key), kwargs=shared, daemon=True)
        self._thread.start()

    def send(self, part: bytes) -> None:
        """Queue a part; waits while the queue is full."""
        if part:
            self._enqueue(part)

    def finish(self) -> None:
        """Complete the upload; raises if any part of it failed."""
        self._enqueue(_END)
        self._thread.join()
        self._check()

    def abort(self) -> None:
        """Abort the upload."""
        while self._thread.is_alive():
            try:
                self._parts.put(None, timeout=0.1)
                break
            except queue.Full:
                continue
        self._thread.join()

    def _enqueue(self, part: bytes) -> None:
        while self._thread.is_alive():
            try:
                self._parts.put(part, timeout=0.1)
            except queue.Full:
                continue
            return
        self._check()
        raise OSError(5, "The upload ended before all data was sent", self._path)

    def _check(self) -> None:
        if self._failure:
            with as_os_errors(self._path):
                raise self._failure[0]


def _run_upload(store: S3Store, key: str, *, parts: queue.Queue[bytes | None], failure: list[BaseException]) -> None:
    import obstore  # an extra

    try:
        obstore.put(store, key, _feed(parts), chunk_size=_PART_BYTES, max_concurrency=_PARTS_IN_FLIGHT)
    except BaseException as error:  # noqa: BLE001 - handed to the thread that writes
        failure.append(error)


def _feed(parts: queue.Queue[bytes | None]) -> Iterator[bytes]:
    while (part := parts.get()) != _END:
        if part is None:
            raise _AbortedError
        yield part


# ---- reader ----


_FIRST_AHEAD_BYTES: Final = 1 << 16  # PyArrow first reads this much of the tail
_MOST_AHEAD_BYTES: Final = 1 << 20
_REQUEST_BYTES: Final = 16 << 20  # bigger reads are several requests, each with its own timeout and retries
_KEPT_PIECES: Final = 4


class ObjectReader:
    """A file object for ``pyarrow.PythonFile``."""

    def __init__(self, fetch: Callable[[int, int], Any], size_bytes: int) -> None:
        self._fetch, self._size = fetch, size_bytes
        self._at = 0
        self._ahead = _FIRST_AHEAD_BYTES
        self._pieces: list[tuple[int, memoryview]] = []  # oldest first
        self.closed = False

    def read(self, size: int | None = None) -> bytes | memoryview:
        """Read up to ``size`` bytes from the current position."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        start = min(self._at, self._size)
        stop = self._size if size is None or size < 0 else min(self._size, start + size)
        self._at = stop
        return b"" if start == stop else self._kept(start, stop) or self._fetched(start, stop)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def size(self) -> int:
        """The size of the object."""
        return self._size

    def close(self) -> None:
        """Drop the fetched pieces."""
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
        """Do nothing: the file is read-only."""

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


# ---- errors ----


_REFUSED: Final = "The store denied access; check the AWS_ settings and the permissions of the key"
_NO_BUCKET: Final = "The bucket does not exist; create it first"
_UNREACHABLE: Final = re.compile(r"Error performing \w+ (https?://[^/\s]+).* error sending request")


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise errors of obstore as OSErrors with a number, one line of text and the path; details are in the cause."""
    from obstore import exceptions as failed  # an extra

    try:
        yield
    except FileNotFoundError as error:
        what = _NO_BUCKET if "NoSuchBucket" in str(error) else "No such object"
        raise FileNotFoundError(errno.ENOENT, what, path) from error
    except failed.AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "Object exists", path) from error
    except (failed.PermissionDeniedError, failed.UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _REFUSED, path) from error
    except failed.PreconditionError as error:
        raise OSError(errno.ESTALE, "The object changed while it was read", path) from error
    except failed.NotSupportedError as error:
        raise OSError(errno.ENOTSUP, "The store does not support this operation", path) from error
    except ValueError as error:  # empty parts, dots and control characters in a key
        raise OSError(errno.EINVAL, "The S3 client does not accept this name", path) from error
    except failed.BaseError as error:
        raise _other(str(error).partition("\n")[0], path) from error


def _other(line: str, path: str) -> OSError:
    """The error of a failed listing, for which obstore has only a text."""
    if "status code: 404" in line:
        return FileNotFoundError(errno.ENOENT, _NO_BUCKET, path)
    if "status code: 403" in line or "status code: 401" in line:
        return PermissionError(errno.EACCES, _REFUSED, path)
    found = _UNREACHABLE.search(line)
    if found:
        what = f"No S3 server answers at {found.group(1)}; check AWS_ENDPOINT_URL, AWS_REGION and the network"
        return OSError(errno.EIO, what, path)
    return OSError(errno.EIO, line, path)
