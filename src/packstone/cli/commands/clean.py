"""``packstone clean TARGET``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("clean", short_help="Remove backups, leftovers, snapshots, segments that are over.")
@click.argument("target")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--expire-snapshots", is_flag=True, help="Paimon: also expire snapshots, by the table's own options.")
@click.option("--retain-min", type=int, default=None, help="Paimon: keep at least so many snapshots.")
@click.option("--retain-max", type=int, default=None, help="Paimon: beyond the newest so many, age does not matter.")
@click.option(
    "--older-than", default=None, metavar="AGE", help="Paimon: expire what was replaced longer ago than this, e.g. 2d."
)
@click.option("--max-expired", type=int, default=None, help="Paimon: expire at most so many at once.")
@options.single_writer_option
@options.yes_option
@options.output_options
def command(target: str, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Give space back, by recorded names only.

    Hive directories: the originals of runs whose --keep-days are over. Paimon tables: files that killed runs left, and
    with --expire-snapshots the snapshots that are over, with the files that only they need. Segment tables: what killed
    loads and compactions left, and segments and versions whose retention is over.
    """
    from packstone.cli.run_clean import clean_hive, clean_paimon, clean_segments
    from packstone.storage.location import parse_location
    from packstone.storage.stores import open_store
    from packstone.tables.probe import Family, find_family

    path = parse_location(target).path
    family = find_family(open_store(path), path)
    if family is Family.SEGMENTS:
        return clean_segments(path, typed)
    return clean_paimon(path, typed) if family is Family.PAIMON else clean_hive(path, typed)
