"""SIGTERM and Ctrl-C: before a commit they roll back, during one they wait until it is finished.

Python runs signal handlers in the main thread only, so only blocks of that thread need protection, and only they are
counted: a run in another thread is not interrupted, and must not make the main thread look protected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import PackstoneError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AGAIN_SECONDS = 0.05


class Interrupted(BaseException):
    """The process received a signal to stop; every frame on the way out cleans up. The text, if any, is the result."""


@dataclass(slots=True)
class Received:
    """The first signal that interrupted a command, if one did."""

    number: int | None = None
    count: int = 0  # of all signals that interrupted it


class _State:
    deferring = 0  # nested `finish_first` blocks of the main thread
    held_back: int | None = None
    held_count = 0
    received: Received | None = None  # of the running command


@contextlib.contextmanager
def interruptible() -> Iterator[Received]:
    """Turn SIGTERM and SIGINT into ``Interrupted`` while a command runs."""
    received = Received()
    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may set handlers; a library caller keeps its own
        return
    _State.received = received
    before = [signal.signal(number, _interrupt) for number in _SIGNALS]
    hook, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        yield received
    finally:
        _State.received = None
        sys.unraisablehook = hook
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def finish_first() -> Iterator[None]:
    """Defer signals until the block has ended, even by an error: a commit that began is finished.

    Our own handlers are installed until then, and a deferred signal goes to the previous ones. So a commit is not left
    half-done in a notebook or a driver that never called ``interruptible`` either.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_outermost = _State.deferring == 0
    before = {number: signal.getsignal(number) for number in _SIGNALS} if is_outermost else {}
    for number, handler in before.items():
        if handler is not None:  # a handler that was not set from Python cannot be restored
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
            if _State.received is not None:
                _State.received.count += _State.held_count - 1
            _State.held_back, _State.held_count = None, 0
            signal.raise_signal(held_back)


def interrupting_signal() -> int | None:
    """The number of the first signal that interrupted the running command; None if none did."""
    return _State.received.number if _State.received is not None else None


def is_urgent() -> bool:
    """Whether a second signal came: what has not begun to be published must not be published any more."""
    return _State.held_count + (_State.received.count if _State.received is not None else 0) > 1


def is_interruption(error: BaseException, received: Received | None = None) -> bool:
    """Whether an error is an interruption, or an error that a library or a dying JVM raised because of one.

    Packstone's other errors, such as a refusal or a commit of unknown outcome, say more than an interruption, so they
    do not count.
    """
    if isinstance(error, PackstoneError) and not isinstance(error, UnavailableError):
        return False
    number = received.number if received is not None else interrupting_signal()
    return isinstance(error, (Interrupted, KeyboardInterrupt)) or (isinstance(error, Exception) and number is not None)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _State.received is not None and _State.received.number is None:
        _State.received.number = number
    if _is_importing(frame):
        _send_again(number)
        return
    if _State.received is not None:
        _State.received.count += 1
    raise Interrupted


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: an interrupt would leave it half-imported, and the next import would fail."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Send the signal again if Python dropped the interruption because it was raised in a destructor."""
    if unraisable.exc_type is not Interrupted:
        sys.__unraisablehook__(unraisable)
        return
    if _State.received is not None:
        _State.received.count -= 1
    _send_again(interrupting_signal() or signal.SIGTERM)


def _hold_back(number: int, _frame: FrameType | None) -> None:
    _State.held_back = number
    _State.held_count += 1
