"""``packstone demo``: a whole tour on a generated lake."""

from __future__ import annotations

import click

from packstone.cli import options


@click.command("demo", short_help="A whole tour on a generated lake: ill, planned, merged, proved, restored.")
@click.option("--folder", default=None, help="Where to make the lake (default: a folder that is removed at the end).")
@options.engine_options
@click.option("--debug", is_flag=True, help="Show a stack trace if something goes wrong.")
def command(folder: str | None, debug: bool, **typed: object) -> int:  # noqa: ARG001 - read by main
    """Make a small lake, show it ill, merge it, show it well, prove it, and undo one run."""
    from packstone.cli.arguments import read_engine
    from packstone.cli.tour import run_tour

    return run_tour(folder, read_engine(dict(typed)))
