"""``packstone demo``: a tour of the commands that a newcomer needs, on a generated lake.

Each step prints a command and passes the same words to the command line, so what is shown is what runs. The tour adds
only the sentences between the commands, and a picture of the table before and after.

The lake has one table, ``orders``, with the usual problems of a table that a streaming job writes. The tests and the
documentation use it too, so the rows are the same every time::

    orders/dt=2024-05-01   40 CSV files, each with a header line
    orders/dt=2024-05-02   64 Parquet files     (and so on, five days in all)
    orders/dt=2024-05-07   24 Parquet files, one of them truncated
    orders/dt=2024-05-08    3 Parquet files: too few to merge
    orders/dt=2024-05-09   30 Parquet files and a `_temporary`: a job is writing
"""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.errors import InvalidInputError


@click.command("demo", short_help="Take a tour on a generated lake: inspect, plan, merge, verify, restore.")
@click.option(
    "--folder",
    default=None,
    metavar="PATH",
    help="Create the lake in this folder and keep it (default: a temporary folder, removed at the end).",
)
@click.option("--lake-only", is_flag=True, help="Create only the lake in --folder, to try the commands yourself.")
@options.engine_options
@options.debug_option
def command(folder: str | None, lake_only: bool, **typed: Any) -> int:
    """Create a small lake, show its problems, merge its files, verify the result, and undo one run."""
    from packstone.cli.targets import read_engine
    from packstone.cli.tour import run_tour
    from packstone.pipeline.open import check_engine

    if lake_only and folder is None:
        raise InvalidInputError("--lake-only needs --folder, the folder to create the lake in.")
    if not lake_only:
        check_engine(typed.get("engine"))
    return run_tour(folder, read_engine(typed), engine_words=_engine_words(typed), lake_only=lake_only)


def _engine_words(typed: dict[str, Any]) -> tuple[str, ...]:
    """Return the engine's options as they were typed, to pass them on to the commands of the tour."""
    words: list[str] = []
    if typed.get("engine"):
        words += ["--engine", typed["engine"]]
    for pair in typed.get("spark_conf") or ():
        words += ["--conf", pair]
    return tuple(words)
