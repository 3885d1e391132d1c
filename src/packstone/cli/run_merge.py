"""What ``compact`` and ``merge`` share: run, measure, record, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli.arguments import read_budget, read_engine, read_filters, read_merge_options
from packstone.cli.output import show
from packstone.cli.progress_bar import BarProgress
from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from packstone.model.outcome import Outcome
    from packstone.storage.location import Location


def run_merge(command: str, location: Location, typed: dict[str, Any]) -> int:
    """Merge, record the run, print the outcome; return the exit code."""
    strategy = typed.get("strategy", "small-files")
    if strategy != "small-files":
        raise InvalidInputError(f"{strategy} is no strategy for Hive directories; use small-files.")
    options, filters, budget = read_merge_options(typed), read_filters(typed), read_budget(typed)
    engine = read_engine(typed)

    from packstone.history.connect import check_url
    from packstone.service.hive_table import HiveTable
    from packstone.service.record import history_address

    history_url = history_address(typed["history_url"])
    check_url(history_url)
    table = HiveTable(location.path, engine=engine, progress=BarProgress(), history=history_url)
    outcome = table.compact(
        options,
        filters=filters,
        budget=budget,
        take_over=typed["take_over"],
        measure_read=typed["measure_read"],
        command=command,
    )
    return show_outcome(outcome, output_format=typed["output_format"])


def show_outcome(outcome: Outcome, *, output_format: str) -> int:
    """Print an outcome, its warnings on stderr; return the exit code."""
    from packstone.cli.draw import draw_outcome

    for warning in outcome.warnings:
        click.echo(f"packstone: {warning}", err=True)
    show(outcome.to_json(), output_format=output_format, draw=lambda console: draw_outcome(console, outcome))
    return outcome.status.exit_code
