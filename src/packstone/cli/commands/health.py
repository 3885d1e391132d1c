"""``packstone health TARGET...``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.family_command import FamilyCommand


@click.command("health", cls=FamilyCommand, short_help="Files, sizes, sorted runs or segments, score, hazards found.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.metastore_option
@options.size_options
@options.output_options
def command(targets: tuple[str, ...], **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Show how each TARGET is: its files, their sizes, its sorted runs, and what stands in the way of merging them."""
    from packstone.cli.output import show
    from packstone.cli.run_health import draw_any_health, observe_any

    found = [observe_any(target, typed) for target in targets]
    plain = found[0].to_json() if len(found) == 1 else {"format_version": 1, "tables": [one.to_json() for one in found]}

    def draw(console: Any) -> None:  # noqa: ANN401 - a rich console
        for one in found:
            draw_any_health(console, one)

    show(plain, output_format=typed["output_format"], draw=draw)
    return 0
