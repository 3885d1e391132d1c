"""Read ahead: the next batches are decoded while the present one is encoded or hashed.

PyArrow decodes without the interpreter's lock, so one thread more hides the waiting for storage, and on the last
units of a job, when cores stand idle, it nearly halves their time. The total work stays the same.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

T = TypeVar("T")

_DEPTH = 3  # batches in waiting; with 8 MiB a batch that is the memory it costs
_POLL_SECONDS = 0.5


class _End:
    """What the reader leaves behind: nothing, or the error that ended it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(source: Iterator[T]) -> Generator[T, None, None]:
    """Yield what the source yields, drawn by a thread of its own; errors arrive where they would have."""
    waiting: queue.Queue[T | _End] = queue.Queue(maxsize=_DEPTH)
    stopped = threading.Event()
    thread = threading.Thread(target=_draw, args=(source, waiting, stopped), daemon=True, name="packstone-read-ahead")
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


def _draw(source: Iterator[T], waiting: queue.Queue[T | _End], stopped: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in source:
            if not _put(waiting, item, stopped):
                break
    except BaseException as caught:  # noqa: BLE001 - it is raised again by the one who waits
        error = caught
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    _put(waiting, _End(error), stopped)


def _put(waiting: queue.Queue[T | _End], item: T | _End, stopped: threading.Event) -> bool:
    """Wait for room, unless the consumer has gone."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
