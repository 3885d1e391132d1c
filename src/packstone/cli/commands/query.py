"""``packstone query PATH "SELECT …"``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("query", short_help="Rows of a segment or Paimon table through a filter; what it skips.")
@click.argument("path", metavar="PATH")
@click.argument("statement", metavar="STATEMENT")
@click.option("--explain", is_flag=True, help="Read no row; show what would be read, what is skipped, and why.")
@options.time_travel_options
@click.option("--timezone", default="UTC", show_default=True, help="The zone of times in the statement that name none.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print the rows; a table shows the first 100.",
)
@click.option("--debug", is_flag=True, help="Show a stack trace if something goes wrong.")
def command(path: str, statement: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Answer STATEMENT from the table at PATH, without Spark: "SELECT id, name FROM t WHERE id = 5".

    One table (FROM may call it anything), columns or count, min, max and sum, WHERE, ORDER BY with LIMIT. Only row
    groups that may hold matching rows are read.
    """
    from packstone.cli.run_query import run_query

    return run_query(path, statement, typed)
