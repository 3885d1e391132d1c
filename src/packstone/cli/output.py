"""What a command hands its result to: a console or JSON, and the file of ``--output``. Commands never print."""

from __future__ import annotations

import json
import os
import posixpath
import sys
from pathlib import Path
from typing import Any, Final

import click

from packstone.errors import InvalidInputError

_FILE: Final = "packstone.output"  # where click's context keeps the file of --output


def show(plain: dict[str, Any], *, output_format: str, draw: Any) -> None:  # noqa: ANN401 - a function of a console
    """Print a result: as JSON, or drawn on a console by the given function; ``--output`` writes it to a file too."""
    context = click.get_current_context(silent=True)
    path = context.meta.get(_FILE) if context is not None else None
    if path is not None:
        write_result(path, plain)
    if output_format == "json":
        # ASCII only: names may hold bytes that are no text, and escapes survive every pipe.
        click.echo(json.dumps(plain, indent=2, ensure_ascii=True))
        return
    draw(make_console())


def choose_file(context: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    """Remember the file of ``--output``; refuse one that cannot be written now, not after an hour of work."""
    if given is not None:
        context.meta[_FILE] = find_result_file(given)


def find_result_file(given: str) -> str:
    """Return the absolute path of a file that a result can be written to, in any store."""
    from packstone.storage.fileio import Kind
    from packstone.storage.location import parse_location
    from packstone.storage.stores import open_store

    if Path(given).absolute().is_relative_to("/dev"):  # /dev/stdout may lead to a regular file, which would be replaced
        raise InvalidInputError(f"--output {given} is a device; name a file, or use --format json for standard output.")
    path = parse_location(given).path if ":/" in given else os.path.realpath(given)
    io, folder = open_store(path), posixpath.dirname(path)
    above, found = io.stat(folder), io.stat(path)
    if above is None or above.kind is not Kind.DIRECTORY:
        raise InvalidInputError(f"--output {given}: there is no folder {folder}; make it, or name another file.")
    if found is not None and found.kind is not Kind.FILE:
        raise InvalidInputError(f"--output {given} is not a regular file; name a file.")
    return path


def write_result(path: str, plain: dict[str, Any]) -> None:
    """Write a result as JSON in place of the file: a reader sees the previous result or this one, never a part."""
    from packstone.storage.stores import open_store

    open_store(path).replace(path, json.dumps(plain, indent=2, ensure_ascii=True).encode() + b"\n")


def make_console(*, stderr: bool = False) -> Any:  # noqa: ANN401 - rich is imported when it is needed
    """Open a console that keeps to the terminal's width, and to 100 columns where there is none."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if "utf" not in (stream.encoding or "").lower() and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # a terminal that cannot draw a bar shows question marks, not a trace
    width = None if stream.isatty() else 100
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, emoji=False)


def plain_text(text: str) -> str:
    """Make any file name printable on one line: what is no text, and control characters, show as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def many(count: int, noun: str) -> str:
    """Count things: ``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short_path(path: str) -> str:
    """Show a path as one would type it here: relative if it lies below the working folder."""
    try:
        here = str(Path.cwd())
    except OSError:  # the working folder was removed
        return plain_text(path)
    is_below = here != "/" and path.startswith(f"{here}/")
    return plain_text(path[len(here) + 1 :] if is_below else path)
