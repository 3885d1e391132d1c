"""``packstone simulate STRATEGY``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.simulate_options import (
    KEYLESS,
    STRATEGIES,
    SimulateCommand,
    Typed,
    is_one_family,
    read_settings,
    simulate_options,
)
from packstone.errors import InvalidInputError


@click.command(
    "simulate", cls=SimulateCommand, short_help="Loads through a strategy: what it writes, reads and stores."
)
@click.argument("strategy", type=click.Choice(STRATEGIES), metavar="STRATEGY")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@simulate_options
@click.option(
    "--compare",
    multiple=True,
    metavar="'LABEL: [STRATEGY] OPTIONS'",
    help="Another setting, on top of the options given; may be repeated.",
)
@click.option("--label", metavar="TEXT", help="What to call the first setting.")
@click.option(
    "--show", metavar="NAME,...", help="What to draw: read, write, space, files, stored, or a group such as L1 or .2."
)
@click.option("--chart", metavar="FILE", help="Also draw a chart into FILE.svg or FILE.png.")
@options.output_options
@click.pass_context
def command(ctx: click.Context, /, strategy: str, items: tuple[str, ...], **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Send a pattern of loads through STRATEGY and show what it costs, load by load.

    \b
    write amplification   bytes written by compaction for each byte that arrived
    read amplification    runs, segments or files that a reader has to look into
    space amplification   bytes stored for each byte that is live

    ITEMs are the table at the start, as in `packstone explain`, in MB: 5:10000 is a run of 10,000 MB on level 5.
    """  # noqa: D301 - click wants the bare \b
    from packstone.cli.chart_file import check_chart, write_chart
    from packstone.cli.draw_simulate import draw_simulated
    from packstone.cli.output import show
    from packstone.cli.simulated import Simulated, choose_metrics, run_settings
    from packstone.strategy.simulate import Pattern

    settings = read_settings(ctx, strategy, typed)
    _check_settings(settings, has_items=bool(items), has_updates=typed["update_pct"] > 0)
    if typed["chart"]:
        check_chart(typed["chart"])
    pattern = Pattern(
        arrivals=typed["arrivals"],
        sizes_bytes=typed["size"],
        update_pct=typed["update_pct"],
        every_seconds=typed["every"],
    )
    done = run_settings(settings, items, pattern)
    simulated = Simulated(pattern=pattern, settings=done, metrics=choose_metrics(typed["show"], done, pattern))
    if typed["chart"]:
        write_chart(simulated, typed["chart"])
    show(
        simulated.to_json() | ({"chart": typed["chart"]} if typed["chart"] else {}),
        output_format=typed["output_format"],
        draw=lambda console: draw_simulated(console, simulated, chart=typed["chart"]),
    )
    return 0


def _check_settings(settings: tuple[Typed, ...], *, has_items: bool, has_updates: bool) -> None:
    """Refuse settings that cannot stand side by side."""
    labels = [one.label for one in settings]
    strategies = {one.strategy for one in settings}
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"Two settings are called {twice!r}; give them different labels.")
    if has_items and not is_one_family(strategies):
        raise InvalidInputError("Items describe one kind of table; leave them out to compare strategies of several.")
    keyless = sorted(strategies & KEYLESS)
    if has_updates and keyless:
        raise InvalidInputError(f"Rows under {keyless[0]} have no keys, so nothing is overwritten; drop --update-pct.")
