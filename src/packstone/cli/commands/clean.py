"""``packstone clean TARGET`` and ``packstone clean --all``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options


@click.command("clean", short_help="Remove backups, leftovers, snapshots, segments that are over.")
@click.argument("target", required=False)
@click.option("--all", "all_tables", is_flag=True, help="All Hive directories that the history knows.")
@click.option("--history", "history_url", default=None, metavar="URL", help="Which history, for --all.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--expire-snapshots", is_flag=True, help="Paimon: also expire snapshots, by the table's own options.")
@click.option("--retain-min", type=int, default=None, help="Paimon: keep at least so many snapshots.")
@click.option("--retain-max", type=int, default=None, help="Paimon: beyond the newest so many, age does not matter.")
@click.option(
    "--older-than", default=None, metavar="AGE", help="Paimon: expire what was replaced longer ago than this, e.g. 2d."
)
@click.option("--max-expired", type=int, default=None, help="Paimon: expire at most so many at once.")
@options.home_options
@options.single_writer_option
@options.yes_option
@options.output_options
def command(target: str | None, **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Give space back, by recorded names only.

    Hive directories: the originals of runs whose --keep-days are over. Paimon tables: files that killed runs left, and
    with --expire-snapshots the snapshots that are over, with the files that only they need. Segment tables: what killed
    loads and compactions left, and segments and versions whose retention is over.

    With --all, in place of TARGET, every Hive directory that runs were recorded of.
    """
    from packstone.errors import InvalidInputError

    if typed["all_tables"] == (target is not None):
        raise InvalidInputError("Give either a TARGET or --all; see `packstone clean --help`.")
    if typed["history_url"] and target is not None:
        raise InvalidInputError("--history is for --all; the journal beside TARGET knows what may go.")
    if target is None:
        from packstone.cli.run_clean_all import clean_all_tables

        return clean_all_tables(typed)
    from packstone.cli.named_target import is_named
    from packstone.cli.run_clean import clean_hive, clean_paimon, clean_segments
    from packstone.storage.location import parse_location
    from packstone.storage.stores import open_store
    from packstone.tables.probe import Family, find_family

    if is_named(target, typed):
        return clean_hive(target, typed)
    path = parse_location(target).path
    family = find_family(open_store(path), path)
    if family is Family.SEGMENTS:
        return clean_segments(path, typed)
    return clean_paimon(path, typed) if family is Family.PAIMON else clean_hive(path, typed)
