"""What a command hands its result to: a console with tables, or JSON. Commands never print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click


def show(plain: dict[str, Any], *, output_format: str, draw: Any) -> None:  # noqa: ANN401 - a function of a console
    """Print a result: as JSON, or drawn on a console by the given function."""
    if output_format == "json":
        # ASCII only: names may hold bytes that are no text, and escapes survive every pipe.
        click.echo(json.dumps(plain, indent=2, ensure_ascii=True))
        return
    draw(make_console())


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
