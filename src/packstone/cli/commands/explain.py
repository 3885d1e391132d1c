"""``packstone explain STRATEGY ITEM...``."""

from __future__ import annotations

from typing import Any

import click

from packstone.cli import options
from packstone.cli.explain_options import GroupedCommand, explain_options

STRATEGIES = ("universal", "force-up-level0", "full", "minor", "major", "custom", "small-files", "append")


@click.command("explain", cls=GroupedCommand, short_help="What a strategy would pick on an imagined table, and why.")
@click.argument("strategy", type=click.Choice(STRATEGIES), metavar="STRATEGY")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@explain_options
@click.option("--to-fixpoint", is_flag=True, help="Repeat until nothing is picked.")
@click.option("--steps", is_flag=True, help="Show each rule with its numbers.")
@options.output_options
@click.pass_context
def command(ctx: click.Context, /, strategy: str, items: tuple[str, ...], **typed: Any) -> int:  # noqa: ANN401 - click's parameters by name
    """Draw an imagined table before and after one pick of STRATEGY, with the reason.

    \b
    universal, force-up-level0, full   LEVEL:SIZE, newest first               0:1 0:1 5:10
    minor, major, custom               ID[:MB][@DAY][=STATUS][+major][+external]   0 1:200 0.1:300@5
    small-files, append                MB[xCOUNT]                             10x20 300
    """  # noqa: D301 - click wants the bare \b
    from packstone.cli.draw_explain import draw_explained
    from packstone.cli.explain_questions import ask
    from packstone.cli.explained import answer_question
    from packstone.cli.output import show

    given = {name for name in typed if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    explained = answer_question(ask(strategy, items, typed, given=given), repeat=typed["to_fixpoint"])
    show(
        explained.to_json(with_steps=typed["steps"]),
        output_format=typed["output_format"],
        draw=lambda console: draw_explained(console, explained, with_steps=typed["steps"]),
    )
    return 0
