"""SIGTERM and Ctrl-C: before a swap they roll back, during one they wait until it is finished."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """The process was asked to stop; everything on the way out cleans up."""


class _State:
    deferring = 0
    pending = False


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into ``Interrupted`` while a command runs."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; a library caller keeps its own
        return
    before = [signal.signal(number, _on_signal) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def finish_first() -> Iterator[None]:
    """Hold a signal back until the block is done: a swap that began is finished."""
    _State.deferring += 1
    try:
        yield
    finally:
        _State.deferring -= 1
        # Also when the block failed: otherwise a swap that ends in a conflict would swallow the signal.
        if _State.pending and _State.deferring == 0:
            _State.pending = False
            raise Interrupted


def _on_signal(_number: int, _frame: FrameType | None) -> None:
    if _State.deferring:
        _State.pending = True
        return
    raise Interrupted
