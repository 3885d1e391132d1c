"""What a command hands its result to: a console with tables, or JSON. Commands never print."""

from __future__ import annotations

import json
import sys
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
    width = None if stream.isatty() else 100
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, emoji=False)


def plain_text(text: str) -> str:
    """Make any file name printable: bytes that are no text show as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
