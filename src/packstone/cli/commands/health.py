"""``packstone health TARGET...``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family_command import FamilyCommand


@click.command("health", cls=FamilyCommand, short_help="Files, sizes, sorted runs, score, hazards found.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.size_options
@options.output_options
def command(targets: tuple[str, ...], **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Show how each TARGET is: its files, their sizes, its sorted runs, and what stands in the way of merging them."""
    from packstone.cli.draw import draw_health
    from packstone.cli.draw_paimon import draw_paimon_health
    from packstone.cli.family import family_of
    from packstone.cli.output import show
    from packstone.model.merge_options import MergeOptions
    from packstone.model.sizes import parse_bytes
    from packstone.service.hive_table import HiveTable
    from packstone.service.paimon_health import PaimonHealth
    from packstone.service.paimon_table import PaimonTable
    from packstone.storage.location import parse_location
    from packstone.tables.probe import Family

    block = parse_bytes(typed["block_size"])
    threshold = parse_bytes(typed["threshold"]) if typed["threshold"] else block
    merge_options = MergeOptions(threshold_bytes=threshold, target_bytes=block)
    paths = [parse_location(target).path for target in targets]
    tables = [PaimonTable(path) if family_of(path) is Family.PAIMON else HiveTable(path) for path in paths]
    found = [table.health() if isinstance(table, PaimonTable) else table.health(merge_options) for table in tables]
    plain = found[0].to_json() if len(found) == 1 else {"format_version": 1, "tables": [one.to_json() for one in found]}

    def draw(console: Any) -> None:  # noqa: ANN401 - a rich console
        for one in found:
            if isinstance(one, PaimonHealth):
                draw_paimon_health(console, one)
            else:
                draw_health(console, one)

    show(plain, output_format=typed["output_format"], draw=draw)
    return 0
