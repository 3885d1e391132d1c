"""``packstone compact TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand


@click.command(
    "compact", cls=FamilyCommand, short_help="Merge files, sorted runs or segments, verify every row, publish."
)
@click.argument("target")
@options.filter_options
@options.ids_option
@options.budget_options
@options.between_option
@options.target_size_option
@options.output_file_options
@options.safety_options
@options.publish_options
@options.take_over_option
@options.engine_options
@options.metastore_option
@options.history_option
@click.option(
    "--plan",
    "plan_file",
    default=None,
    metavar="FILE",
    help="Run exactly this plan, saved by `packstone plan --out`; parts whose files have changed are skipped.",
)
@options.each_option
@options.output_options
def command(target: str, **typed: Any) -> int:
    """Merge what makes TARGET slow to read, verify every row, and only then publish.

    Hive directories (a table or one partition): small files are merged into larger ones, which replace them partition
    by partition; the originals are kept for --keep-days. Paimon tables: sorted runs or small files are merged bucket by
    bucket and published as COMPACT snapshots. Segment tables: segments are merged by number, by size, or by --ids.
    """
    from packstone.cli.run_merge import run_merge

    return run_merge("compact", target, typed)
