"""``packstone plan TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("plan", short_help="What would be merged and why; writes nothing.")
@click.argument("target")
@click.option("--strategy", default="small-files", show_default=True, help="How to choose what is merged.")
@options.size_options
@options.merge_options
@options.filter_options
@options.engine_options
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Say what `compact` would do to TARGET, why, and what it would cost."""
    from packstone.cli.arguments import read_engine, read_filters, read_merge_options
    from packstone.cli.run_merge import show_outcome
    from packstone.service.hive_table import HiveTable
    from packstone.storage.location import parse_location

    merge_options, filters = read_merge_options(typed), read_filters(typed)
    table = HiveTable(parse_location(target).path, engine=read_engine(typed))
    outcome = table.plan(merge_options, filters=filters, strategy=typed["strategy"]).outcome
    return show_outcome(outcome, output_format=typed["output_format"])
