"""``packstone plan TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family_command import FamilyCommand


@click.command("plan", cls=FamilyCommand, short_help="What would be merged and why; writes nothing.")
@click.argument("target")
@options.strategy_option
@options.size_options
@options.merge_options
@options.filter_options
@options.paimon_options
@options.engine_options
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Say what `compact` would do to TARGET, why, and what it would cost."""
    from packstone.cli.family import family_of
    from packstone.cli.run_merge import plan_hive, plan_paimon, show_outcome
    from packstone.storage.location import parse_location
    from packstone.tables.probe import Family

    path = parse_location(target).path
    outcome = plan_paimon(path, typed) if family_of(path) is Family.PAIMON else plan_hive(path, typed)
    return show_outcome(outcome, output_format=typed["output_format"])
