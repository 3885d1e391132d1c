"""``packstone plan TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family_command import FamilyCommand


@click.command("plan", cls=FamilyCommand, short_help="What would be merged and why; writes nothing.")
@click.argument("target")
@options.strategy_option
@options.metastore_option
@options.size_options
@options.merge_options
@options.filter_options
@options.paimon_options
@options.segment_options
@options.engine_options
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Say what `compact` would do to TARGET, why, and what it would cost."""
    from packstone.cli.named_target import is_named
    from packstone.cli.run_merge import run_named_plan, run_plan
    from packstone.storage.location import parse_location

    if is_named(target, typed):
        return run_named_plan(target, typed)
    return run_plan(parse_location(target), typed)
