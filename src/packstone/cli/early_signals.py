"""Handle SIGINT and SIGTERM before a command starts and after it ends: one sentence instead of a traceback.

The command line imports this module first, because the other imports take most of the time until a command starts.
While a command runs, ``runs/interrupts.py`` handles the signals.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = "Interrupted; nothing is half done."


def exit_code_of(number: int) -> int:
    """Return the exit code of a command that a signal ended, as a shell does: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


def _end_at_once(number: int, _frame: object) -> None:
    os.write(2, f"packstone: {INTERRUPTED}\n".encode())
    os._exit(exit_code_of(number))


def ignore_signals() -> None:
    """Ignore both signals from now on: the result is printed, and a signal at exit would change the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


if sys.argv[0].endswith("/packstone"):  # not if another program imports the command line
    for _number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(_number) is not signal.SIG_IGN:  # a shell makes background processes ignore SIGINT
            signal.signal(_number, _end_at_once)
