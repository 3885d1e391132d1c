"""``packstone merge FS PARTITION BLOCKSIZE``: the same three arguments as the original Spark job."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand


@click.command("merge", cls=FamilyCommand, short_help="Merge one partition, given as FS PARTITION BLOCKSIZE.")
@click.argument("filesystem", metavar="FS")
@click.argument("partition")
@click.argument("target_size", metavar="BLOCKSIZE")
@options.filter_options
@options.budget_options
@options.between_option
@options.output_file_options
@options.safety_options
@options.take_over_option
@options.engine_options
@options.history_option
@options.output_options
def command(filesystem: str, partition: str, **typed: Any) -> int:
    """Merge the files of PARTITION on FS that are smaller than BLOCKSIZE into files of about BLOCKSIZE.

    Example: packstone merge file:/// /data/t/dt=20190101 120M
    """
    from packstone.cli.run_merge import run_merge
    from packstone.storage.location import join_location

    return run_merge("merge", join_location(filesystem, partition).path, typed)
