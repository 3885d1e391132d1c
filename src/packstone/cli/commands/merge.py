"""``packstone merge FS PARTITION BLOCKSIZE``: the three arguments of the classic Spark job."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.run_merge import run_merge


@click.command("merge", short_help="The classic three arguments: FS PARTITION BLOCKSIZE.")
@click.argument("filesystem", metavar="FS")
@click.argument("partition")
@click.argument("block_size", metavar="BLOCKSIZE")
@options.merge_options
@options.run_options
@options.filter_options
@options.budget_options
@options.engine_options
@options.output_options
def command(filesystem: str, partition: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Merge the files of PARTITION on FS that are smaller than BLOCKSIZE into files of about BLOCKSIZE.

    Example: packstone merge file:/// /data/t/dt=20190101 120M
    """
    from packstone.storage.location import join_location

    return run_merge("merge", join_location(filesystem, partition), typed)
