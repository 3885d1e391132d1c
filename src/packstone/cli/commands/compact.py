"""``packstone compact TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.run_merge import run_merge


@click.command("compact", short_help="Merge small files, verify every row, swap them in.")
@click.argument("target")
@options.strategy_option
@options.size_options
@options.merge_options
@options.run_options
@options.filter_options
@options.paimon_options
@options.commit_options
@options.budget_options
@options.engine_options
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Merge the small files of TARGET, a partition or a table with all its partitions.

    Every row is verified before anything is published; the originals are kept for --keep-days.
    """
    from packstone.storage.location import parse_location

    return run_merge("compact", parse_location(target), typed)
