"""``packstone demo``: a whole tour on a generated lake."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("demo", short_help="A whole tour on a generated lake: ill, planned, merged, proved, restored.")
@click.option("--folder", default=None, help="Where to make the lake (default: a folder that is removed at the end).")
@click.option("--lake-only", is_flag=True, help="Only make the lake in --folder, to try the commands on yourself.")
@options.engine_options
@click.option("--debug", is_flag=True, help="Show a stack trace if something goes wrong.")
def command(folder: str | None, lake_only: bool, debug: bool, **typed: Any) -> int:  # noqa: ANN401, ARG001 - click's
    """Make a small lake, show it ill, merge it, show it well, prove it, and undo one run."""
    from packstone.cli.arguments import read_engine
    from packstone.cli.tour import run_tour
    from packstone.errors import InvalidInputError

    if lake_only and folder is None:
        raise InvalidInputError("--lake-only needs --folder, the place where the lake shall stay.")
    return run_tour(folder, read_engine(typed), engine_words=_engine_words(typed), lake_only=lake_only)


def _engine_words(typed: dict[str, Any]) -> tuple[str, ...]:
    """Repeat the engine's options as they were typed: the tour's own commands get them too."""
    words: list[str] = []
    for name in ("engine", "master", "remote"):
        if typed.get(name):
            words += [f"--{name}", typed[name]]
    for pair in typed.get("spark_conf") or ():
        words += ["--conf", pair]
    return tuple(words)
