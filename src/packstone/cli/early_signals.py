"""SIGINT and SIGTERM before a command begins and after it has ended: one sentence, and no traceback.

The first import of the command line, because the others take most of the time until a command begins. While a command
runs, ``service/interrupts.py`` takes over.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = "Interrupted; nothing is half done."


def _end_at_once(_number: int, _frame: object) -> None:
    os.write(2, f"packstone: {INTERRUPTED}\n".encode())
    os._exit(1)


if sys.argv[0].endswith("/packstone"):  # and not where the command line is imported by another program
    for _number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(_number) is not signal.SIG_IGN:  # as a shell starts what runs in the background
            signal.signal(_number, _end_at_once)
