"""Print results and progress: commands hand their values to this module and never print themselves.

A result goes to stdout, drawn on a console or as JSON, and to the file of ``--output``. Progress goes to stderr: on a
terminal a bar that is visible from the first moment, elsewhere (a log, the mail of a cron job) a line every 30 seconds
with what is done, the rate and the time that the rest may take. ``--quiet`` shows neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from packstone.model.sizes import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

# Keys in the metadata of click's context.
_FILE: Final = "packstone.output"  # the path given by --output
_QUIET: Final = "packstone.quiet"  # whether --quiet was given
_UNDER_SPARK_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"  # set by the JVM that runs a Python program
_INTERVAL: Final = "PACKSTONE_PROGRESS_SECONDS"  # seconds between two lines of progress; tests set it lower
_INTERVAL_SECONDS: Final = 30.0


def show(plain: dict[str, Any], *, output_format: str, draw: Any) -> None:
    """Print a result as JSON, or call ``draw`` with a console; with ``--output``, write it to that file too."""
    context = click.get_current_context(silent=True)
    path = context.meta.get(_FILE) if context is not None else None
    if path is not None:
        write_result(path, plain)
    if output_format == "json":
        # ASCII only: file names may contain bytes that are not UTF-8, and escapes survive every pipe.
        click.echo(json.dumps(plain, indent=2, ensure_ascii=True))
        return
    draw(make_console())


def choose_file(context: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    """Remember the file of ``--output``; fail now if it cannot be written, not after an hour of work."""
    if given is not None:
        context.meta[_FILE] = find_result_file(given)


def choose_quiet(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    """Remember ``--quiet``."""
    context.meta[_QUIET] = given


def is_quiet() -> bool:
    """Whether only the result and errors are printed."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def warn(sentence: str) -> None:
    """Print a warning on stderr, unless ``--quiet`` was given."""
    if not is_quiet():
        click.echo(f"packstone: {sentence}", err=True)


def find_result_file(given: str) -> str:
    """Return the absolute path of a result file, in any store; raise InvalidInputError if it cannot be written."""
    from packstone.storage.stores import find_file_to_write

    return find_file_to_write(given, option="--output")


def write_result(path: str, plain: dict[str, Any]) -> None:
    """Replace the file by a result as JSON; a reader sees the previous result or this one, never a part of it."""
    from packstone.storage.stores import open_store

    open_store(path).replace(path, json.dumps(plain, indent=2, ensure_ascii=True).encode() + b"\n")


def make_console(*, stderr: bool = False) -> Any:
    """Open a console as wide as the terminal, or 100 columns wide if there is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if "utf" not in (stream.encoding or "").lower() and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # a terminal that cannot show a bar gets question marks, not a traceback
    width = None if stream.isatty() else 100
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, emoji=False)


def plain_text(text: str) -> str:
    """Make any file name printable on one line: undecodable bytes and control characters become escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def short_path(path: str) -> str:
    """Return a path as a user would type it: relative if it is below the working folder."""
    try:
        here = str(Path.cwd())
    except OSError:  # the working folder was removed
        return plain_text(path)
    is_below = here != "/" and path.startswith(f"{here}/")
    return plain_text(path[len(here) + 1 :] if is_below else path)


@dataclass(frozen=True, slots=True)
class _Numbers:
    done_units: int
    units: int
    done_bytes: int
    total_bytes: int


def _is_in_result() -> bool:
    """Whether what we write to stderr would be part of a JSON result: spark-submit joins stderr with stdout."""
    context = click.get_current_context(silent=True)
    is_json = context is not None and context.params.get("output_format") == "json"
    return is_json and _UNDER_SPARK_SUBMIT in os.environ


class BarProgress:
    """Shows activity as soon as it is created, and how much is done once the first numbers arrive."""

    def __init__(self, doing: str = "merging", noun: str = "merges", *, what: str = "") -> None:
        self._doing, self._noun = doing, noun
        self._before = f"listing {plain_text(what.rstrip('/').rpartition('/')[2])}" if what else doing
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None
        self._lines: _Lines | None = None
        self._is_shown, self._is_terminal = not is_quiet() and not _is_in_result(), sys.stderr.isatty()
        self._open()

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Show the current numbers; a call after ``close`` opens the display again for the next part of the work."""
        with self._lock:
            self._open()
            if self._lines is not None:
                self._lines.numbers = _Numbers(done_units, units, done_bytes, total_bytes)
            if self._bar is not None:
                done = f"{done_units}/{units} {self._noun}, {format_bytes(done_bytes)} of {format_bytes(total_bytes)}"
                total = max(1, total_bytes)
                self._bar.update(self._task, completed=done_bytes, total=total, done=done, doing=self._doing)

    def close(self) -> None:
        """Remove the bar and stop writing lines."""
        with self._lock:
            if self._lines is not None:
                self._lines.close()
                self._lines = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _open(self) -> None:
        if not self._is_shown:
            return
        if self._is_terminal and self._bar is None:
            self._draw()
        elif not self._is_terminal and self._lines is None:
            self._lines = _Lines(self._before, self._noun)

    def _draw(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.fields[doing]}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=make_console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=None, done="", doing=f"{self._before} …")
        self._bar.start()


class _Lines:
    """Writes a line with the newest numbers at an interval, from a thread, so also while one merge takes an hour."""

    def __init__(self, before: str, noun: str) -> None:
        self._before, self._noun = before, noun
        self.numbers: _Numbers | None = None
        self._began = time.monotonic()
        self._stop = threading.Event()
        seconds = _read_interval()
        if seconds:
            threading.Thread(target=self._write, args=(seconds,), daemon=True, name="packstone-lines").start()

    def close(self) -> None:
        """Stop writing."""
        self._stop.set()

    def _write(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            with contextlib.suppress(OSError, ValueError):  # stderr was closed
                sys.stderr.write(f"packstone: {self._line()}\n")
                sys.stderr.flush()

    def _line(self) -> str:
        numbers, seconds = self.numbers, time.monotonic() - self._began
        if numbers is None:
            return f"{self._before}, {format_duration(seconds)} so far"
        done = f"{numbers.done_units:,}/{numbers.units:,} {self._noun}"
        sizes = f"{format_bytes(numbers.done_bytes)} of {format_bytes(numbers.total_bytes)}"
        rate = numbers.done_bytes / seconds if seconds else 0.0
        left_bytes = numbers.total_bytes - numbers.done_bytes
        if not rate or left_bytes <= 0:  # nothing to estimate from, or nothing left but to publish
            return f"{done}, {sizes}, {format_duration(seconds)} so far"
        return f"{done}, {sizes}, {format_bytes(int(rate))}/s, about {format_duration(left_bytes / rate)} left"


@contextlib.contextmanager
def show_status(doing: str, what: str) -> Iterator[None]:
    """Show on a terminal that a command is running, until it has something to print."""
    if is_quiet() or not sys.stderr.isatty():
        yield
        return
    progress = BarProgress(doing, what=what)
    try:
        yield
    finally:
        progress.close()


def _read_interval() -> float:
    try:
        return max(0.0, float(os.environ.get(_INTERVAL, _INTERVAL_SECONDS)))
    except ValueError:
        return _INTERVAL_SECONDS
