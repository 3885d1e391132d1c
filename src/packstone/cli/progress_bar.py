"""A progress bar on stderr: units, bytes, time left. Off where nobody watches."""

from __future__ import annotations

import sys
import threading
from typing import Any

from packstone.model.sizes import format_bytes


class BarProgress:
    """Draws the bar when the first numbers arrive; on a pipe it stays silent."""

    def __init__(self, doing: str = "merging", noun: str = "merges") -> None:
        self._doing, self._noun = doing, noun
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Move the bar."""
        if not sys.stderr.isatty():
            return
        with self._lock:
            if self._bar is None:
                self._open(total_bytes)
            done = f"{done_units}/{units} {self._noun}, {format_bytes(done_bytes)} of {format_bytes(total_bytes)}"
            self._bar.update(self._task, completed=done_bytes, total=max(1, total_bytes), done=done)

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _open(self, total_bytes: int) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        from packstone.cli.output import make_console

        columns = (
            SpinnerColumn(),
            TextColumn(self._doing),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=make_console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._doing, total=total_bytes, done="")
        self._bar.start()
