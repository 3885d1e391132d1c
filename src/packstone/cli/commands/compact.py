"""``packstone compact TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family_command import FamilyCommand


@click.command(
    "compact", cls=FamilyCommand, short_help="Merge files, sorted runs or segments, verify every row, publish."
)
@click.argument("target")
@options.strategy_option
@options.metastore_option
@options.publish_options
@options.size_options
@options.merge_options
@options.run_options
@options.filter_options
@options.paimon_options
@options.commit_options
@options.segment_options
@options.budget_options
@options.engine_options
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Merge what makes TARGET slow to read, verify every row, and only then publish.

    A Hive directory (a table or one partition): small files become big ones, swapped in partition by partition; the
    originals are kept for --keep-days. A Paimon table: sorted runs or small files are merged bucket by bucket and
    published as COMPACT snapshots. A segment table: segments are merged by number, by size, or as named.
    """
    from packstone.cli.named_target import check_in_place, is_named
    from packstone.cli.run_merge import run_merge, run_named_merge
    from packstone.storage.location import parse_location

    if is_named(target, typed):
        return run_named_merge(target, typed)
    check_in_place(target, typed)
    return run_merge("compact", parse_location(target), typed)
