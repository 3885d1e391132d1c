"""An upload that shows nothing before it is complete, and nothing at all if it is given up.

What fits into one part is put at the end. What is bigger goes up part by part while it is written: a thread feeds
obstore's multipart upload from a short queue, and giving up makes the feed fail, at which obstore tells the store to
forget the parts. A process that is killed leaves parts that no listing shows; a rule of the bucket removes such.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from packstone.storage.s3_errors import as_os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import S3Store

_PART_BYTES: Final = 8 << 20  # 10,000 parts, the most that there may be, are 80 GB
_PARTS_IN_FLIGHT: Final = 3
_END: Final = b""


class _GivenUpError(Exception):
    """Raised inside an upload, so that it ends."""


class ObjectWriter:
    """A file object for writing; ``close`` publishes, ``abort`` forgets, and so does a ``with`` block that fails."""

    def __init__(self, store: S3Store, key: str, *, path: str) -> None:
        self._store, self._key, self._path = store, key, path
        self._part = bytearray()
        self._written = 0
        self._upload: _Upload | None = None
        self.closed = False

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Take bytes; after an abort nobody wants them any more (a format's writer may still send its footer)."""
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
        """How many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Nothing is to be seen before the end anyway."""

    def close(self) -> None:
        """Complete the upload; the object is there now, whole."""
        if self.closed:
            return
        self.closed = True
        if self._upload is not None:
            self._upload.send(bytes(self._part))
            self._upload.finish()
            return
        import obstore  # noqa: PLC0415 - an extra

        with as_os_errors(self._path):
            obstore.put(self._store, self._key, bytes(self._part), use_multipart=False)

    def abort(self) -> None:
        """Give up: nothing was there, and nothing will be."""
        if not self.closed:
            self.closed = True
            if self._upload is not None:
                self._upload.give_up()

    def writable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False

    def __enter__(self) -> Self:
        return self

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
        # The thread knows the queue, not the writer: a writer that is forgotten must be collected, and give up.
        shared = {"parts": self._parts, "failure": self._failure}
        self._thread = threading.Thread(target=_run_upload, args=(store, key), kwargs=shared, daemon=True)
        self._thread.start()

    def send(self, part: bytes) -> None:
        """Hand a part over; wait while enough are on their way."""
        if part:
            self._hand_over(part)

    def finish(self) -> None:
        """Complete it; raises what went wrong on the way."""
        self._hand_over(_END)
        self._thread.join()
        self._check()

    def give_up(self) -> None:
        """Abort it."""
        while self._thread.is_alive():
            try:
                self._parts.put(None, timeout=0.1)
                break
            except queue.Full:
                continue
        self._thread.join()

    def _hand_over(self, part: bytes) -> None:
        while self._thread.is_alive():
            try:
                self._parts.put(part, timeout=0.1)
            except queue.Full:
                continue
            return
        self._check()
        raise OSError(5, "The upload ended before its data", self._path)

    def _check(self) -> None:
        if self._failure:
            with as_os_errors(self._path):
                raise self._failure[0]


def _run_upload(store: S3Store, key: str, *, parts: queue.Queue[bytes | None], failure: list[BaseException]) -> None:
    import obstore  # noqa: PLC0415 - an extra

    try:
        obstore.put(store, key, _feed(parts), chunk_size=_PART_BYTES, max_concurrency=_PARTS_IN_FLIGHT)
    except BaseException as error:  # noqa: BLE001 - handed to the thread that writes
        failure.append(error)


def _feed(parts: queue.Queue[bytes | None]) -> Iterator[bytes]:
    while (part := parts.get()) != _END:
        if part is None:
            raise _GivenUpError
        yield part
