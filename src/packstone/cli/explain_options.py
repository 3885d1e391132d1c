"""The options of `explain`, by the strategies they belong to."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import click

from packstone.strategy.append_bins import AppendOptions
from packstone.strategy.days import DaysRule
from packstone.strategy.major import DEFAULT_MAJOR_SIZE_MB
from packstone.strategy.universal import Generation

TREE = ("universal", "force-up-level0", "full")
SEGMENTS = ("minor", "major", "custom")


class Megabytes(click.ParamType[Decimal]):
    """A number of megabytes, decimals allowed."""

    name = "MB"

    def __init__(self, *, least: str) -> None:
        self.least = Decimal(least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:  # noqa: ANN401 - click's
        """Read the number."""
        try:
            number = Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is not a number of megabytes.", param, ctx)
        if not number.is_finite() or number < self.least:
            self.fail(f"{value} MB is less than {self.least} MB or no size at all.", param, ctx)
        return number


_AT_LEAST_0 = click.IntRange(min=0)
_SOME_MB = Megabytes(least="0.000001")
_append = AppendOptions()

# Heading, the strategies that take these options, the options.
GROUPS: tuple[tuple[str, tuple[str, ...], tuple[click.Option, ...]], ...] = (
    (
        "Merge trees (universal, force-up-level0, full)",
        TREE,
        (
            click.Option(
                ["--levels"], type=click.IntRange(min=2), metavar="N", help="Number of levels.  [default: trigger + 1]"
            ),
            click.Option(
                ["--max-size-amp-pct"],
                type=_AT_LEAST_0,
                metavar="N",
                default=200,
                show_default=True,
                help="Space wasted at most.",
            ),
            click.Option(
                ["--size-ratio-pct"],
                type=_AT_LEAST_0,
                metavar="N",
                default=1,
                show_default=True,
                help="How alike sizes must be.",
            ),
            click.Option(
                ["--trigger"],
                type=click.IntRange(min=1),
                metavar="N",
                default=5,
                show_default=True,
                help="Runs that start it.",
            ),
            click.Option(
                ["--rules"],
                type=click.Choice([generation.value for generation in Generation]),
                default=Generation.V2_1.value,
                show_default=True,
                help="Paimon's generation of the ratio rule.",
            ),
            click.Option(
                ["--offpeak-ratio"], type=_AT_LEAST_0, metavar="N", default=0, help="Add this to --size-ratio-pct."
            ),
            click.Option(["--early-total"], type=_AT_LEAST_0, metavar="N", help="Merge all below this total size."),
            click.Option(
                ["--early-incremental"], type=_AT_LEAST_0, metavar="N", help="Merge all if more is below the top level."
            ),
            click.Option(["--early-interval-ms"], type=_AT_LEAST_0, metavar="N", help="Merge all after so long."),
            click.Option(
                ["--ms-since-full"], type=_AT_LEAST_0, metavar="N", help="The last full compaction was so long ago."
            ),
        ),
    ),
    (
        "Segments (minor, major, custom)",
        SEGMENTS,
        (
            click.Option(["--preserve"], type=int, metavar="N", default=0, help="Leave the newest N alone."),
            click.Option(
                ["--days"], type=int, metavar="N", default=0, help="Only segments of so many days together; 0 is off."
            ),
            click.Option(
                ["--days-rule"],
                type=click.Choice([rule.value for rule in DaysRule]),
                default=DaysRule.WINDOW.value,
                show_default=True,
                help="Loaded within N days of each other, or within the past N days.",
            ),
            click.Option(["--today"], type=int, metavar="DAY", help="Today.  [default: the latest load day]"),
            click.Option(["--as-coded"], is_flag=True, help="CarbonData's own answer where ours differs."),
        ),
    ),
    (
        "minor",
        ("minor",),
        (
            click.Option(
                ["--level-threshold"],
                default="4,3",
                show_default=True,
                metavar="N,N[,N]",
                help="Segments that make a merge, level by level.",
            ),
            click.Option(
                ["--minor-size-mb"], type=int, metavar="N", help="Leave segments of this size and more alone."
            ),
        ),
    ),
    (
        "major",
        ("major",),
        (
            click.Option(
                ["--major-size-mb"],
                type=int,
                metavar="N",
                default=DEFAULT_MAJOR_SIZE_MB,
                show_default=True,
                help="A merged segment stays below this.",
            ),
        ),
    ),
    ("custom", ("custom",), (click.Option(["--ids"], metavar="ID,ID...", help="The segments to merge."),)),
    (
        "Files (small-files, append)",
        ("small-files", "append"),
        (
            click.Option(["--target-mb"], type=_SOME_MB, help="Size wanted.  [default: small-files 120, append 256]"),
            click.Option(
                ["--min-files"],
                type=click.IntRange(min=1),
                metavar="N",
                default=5,
                show_default=True,
                help="Fewer are left alone.",
            ),
        ),
    ),
    (
        "small-files",
        ("small-files",),
        (
            click.Option(
                ["--threshold-mb"], type=_SOME_MB, default="120", show_default=True, help="Files below this are small."
            ),
        ),
    ),
    (
        "append",
        ("append",),
        (
            click.Option(
                ["--open-cost-mb"],
                type=Megabytes(least="0"),
                default="4",
                show_default=True,
                help="What opening a file weighs.",
            ),
            click.Option(
                ["--small-ratio"],
                type=click.FloatRange(0, 1),
                default=_append.small_ratio,
                show_default=True,
                help="Files below this share of the target are small.",
            ),
            click.Option(["--leftovers"], is_flag=True, help="Take the last few small files too."),
        ),
    ),
)


def explain_options(function: Any) -> Any:  # noqa: ANN401 - a click callback
    """Hang all of them on the command."""
    pending = [option for _, _, group in GROUPS for option in group]
    function.__click_params__ = [*pending[::-1], *getattr(function, "__click_params__", [])]
    return function


class GroupedCommand(click.Command):
    """A command whose help shows the options by strategy."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print a section for each group, and one for the rest."""
        grouped: set[str | None] = set()
        for heading, _, group in GROUPS:
            grouped.update(option.name for option in group)
            with formatter.section(heading):
                formatter.write_dl([record for option in group if (record := option.get_help_record(ctx))])
        rest = [
            record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and param.name not in grouped and (record := param.get_help_record(ctx))
        ]
        with formatter.section("Always"):
            formatter.write_dl(rest)


def foreign_option(strategy: str, given: set[str]) -> str | None:
    """Find an option that was given and belongs to other strategies; say so in one sentence."""
    for _, strategies, group in GROUPS:
        for option in group:
            if option.name in given and strategy not in strategies:
                return f"{option.opts[0]} belongs to {', '.join(strategies)}, not to {strategy}; leave it out."
    return None
