"""``packstone plan TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand


@click.command("plan", cls=FamilyCommand, short_help="Show what would be merged and why; write nothing.")
@click.argument("target")
@options.filter_options
@options.ids_option
@options.between_option
@options.target_size_option
@options.output_file_options
@options.safety_options
@options.engine_options
@options.metastore_option
@click.option(
    "--out",
    "plan_out",
    default=None,
    metavar="FILE",
    help="Save the plan, to review it and to run exactly this plan with `packstone compact TARGET --plan FILE`.",
)
@options.each_option
@options.output_options
def command(target: str, **typed: Any) -> int:
    """Show what `compact` would do to TARGET, why, and what it would cost. Nothing is written."""
    from packstone.cli.run_merge import run_plan

    return run_plan(target, typed)
