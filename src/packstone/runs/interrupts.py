"""SIGTERM and Ctrl-C: before a commit they roll back, during one they wait until it is finished.

Python runs signal handlers in the main thread only, so only its blocks need protection, and only they are counted: a
run in another thread is not interrupted, and must not make ours look protected while it is not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AGAIN_SECONDS = 0.05


class Interrupted(BaseException):
    """The process was asked to stop; everything on the way out cleans up."""


class _State:
    deferring = 0  # blocks of the main thread
    held_back: int | None = None
    is_interrupted = False


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into ``Interrupted`` while a command runs."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; a library caller keeps its own
        return
    _State.is_interrupted = False
    before = [signal.signal(number, _interrupt) for number in _SIGNALS]
    hook, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def finish_first() -> Iterator[None]:
    """Hold a signal back until the block is done, also if it fails: a commit that began is finished.

    The handlers are our own until then, and what was held back goes to the previous ones: also in a notebook or a
    driver that never called ``interruptible`` a commit is not left half-way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_outermost = _State.deferring == 0
    before = {number: signal.getsignal(number) for number in _SIGNALS} if is_outermost else {}
    for number, handler in before.items():
        if handler is not None:  # one that Python did not set cannot be put back
            signal.signal(number, _hold_back)
    _State.deferring += 1
    try:
        yield
    finally:
        _State.deferring -= 1
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        held_back = _State.held_back
        if is_outermost and held_back is not None:
            _State.held_back = None
            signal.raise_signal(held_back)


def was_interrupted() -> bool:
    """Whether a signal came while the command ran: it may have ended the JVM too, whose calls then fail first."""
    return _State.is_interrupted


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _State.is_interrupted = True
    raise Interrupted


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised while an object is removed; if that was our interruption, it comes again."""
    if unraisable.exc_type is not Interrupted:
        sys.__unraisablehook__(unraisable)
        return
    threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGTERM)).start()


def _hold_back(number: int, _frame: FrameType | None) -> None:
    _State.held_back = number
