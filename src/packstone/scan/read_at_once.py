"""Several streams drawn at once, each by a thread of its own, given out one after the other.

PyArrow decodes without the interpreter's lock, so threads share the cores. Every stream may be a few batches ahead and
no more, so memory stays bounded however many streams there are.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

T = TypeVar("T")

_DEPTH = 4  # batches in waiting for each stream
_POLL_SECONDS = 0.2


def read_at_once(streams: Iterable[Iterator[T]], threads: int) -> Generator[T, None, None]:
    """Yield all of the first stream, then all of the second, and so on; ``threads`` of them are drawn at a time."""
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
    """One stream and the thread that draws it."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._waiting: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(maxsize=_DEPTH)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True, name="packstone-scan")
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
        """Stop drawing and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def _draw(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                if not self._put(item, None):
                    break
        except BaseException as caught:  # noqa: BLE001 - it is raised again by the one who waits
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
