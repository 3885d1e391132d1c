"""The options of `simulate`: those of `explain` that make a setting, when compaction runs, and what arrives."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import click

from packstone.cli.explain_options import GROUPS as EXPLAINED
from packstone.cli.explain_options import TREE, Megabytes
from packstone.errors import InvalidInputError
from packstone.model.megabytes import parse_mb
from packstone.model.sizes import parse_duration
from packstone.strategy.simulate import MAX_ARRIVALS

STRATEGIES = ("universal", "force-up-level0", "full", "minor", "major", "small-files", "append")
KEYLESS = frozenset({"small-files", "append"})  # their rows have no keys: merging removes nothing
_LEFT_OUT = {"ids", "today"}  # loads come in anew all the time, and days go by
_IN_MB = {
    "early_total": click.Option(
        ["--early-total"], type=click.IntRange(min=0), metavar="MB", help="Merge all below this total size."
    ),
    "early_incremental": click.Option(
        ["--early-incremental"],
        type=click.IntRange(min=0),
        metavar="MB",
        help="Merge all if more is below the top level.",
    ),
}


class Sizes(click.ParamType[tuple[int, ...]]):
    """One size in megabytes, or several that are taken in turn; in bytes."""

    name = "MB[,MB...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401 - click's
        """Read the numbers."""
        one = Megabytes(least="0.000001")
        return tuple(parse_mb(one.convert(text.strip(), param, ctx)) for text in str(value).split(","))


class Seconds(click.ParamType[int]):
    """A number of seconds, or a duration such as 15m."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - click's
        """Read the number."""
        text = str(value)
        try:
            return int(text) if text.isdecimal() else round(parse_duration(text).total_seconds())
        except InvalidInputError as error:
            self.fail(error.message, param, ctx)


def _explained_groups() -> tuple[tuple[str, tuple[click.Option, ...]], ...]:
    """Explain's groups of options without those that make no sense over time."""
    found = []
    for heading, _, group in EXPLAINED:
        options = tuple(_IN_MB.get(option.name or "", option) for option in group if option.name not in _LEFT_OUT)
        if options:
            found.append((heading.replace(", custom", ""), options))
    return tuple(found)


WHEN: tuple[click.Option, ...] = (
    click.Option(
        ["--compact-every"],
        type=click.IntRange(min=0),
        metavar="N",
        default=1,
        show_default=True,
        help="Compact after every N-th load; 0 is never.",
    ),
    click.Option(["--one-round"], is_flag=True, help="One pick each time, not until nothing is picked."),
)
ARRIVING: tuple[click.Option, ...] = (
    click.Option(
        ["--arrivals"],
        type=click.IntRange(1, MAX_ARRIVALS),
        metavar="N",
        default=500,
        show_default=True,
        help="How many loads come in.",
    ),
    click.Option(
        ["--size"], type=Sizes(), default="10", show_default=True, help="How big they are; several are taken in turn."
    ),
    click.Option(
        ["--update-pct"],
        type=click.FloatRange(0, 100),
        metavar="P",
        default=0.0,
        show_default=True,
        help="The share of a load that overwrites older rows.",
    ),
    click.Option(
        ["--every"],
        type=Seconds(),
        default="3600",
        show_default=True,
        help="Time between two loads, also as 15m or 1h.",
    ),
)
# Heading and options; the first ones make a setting and may stand in --compare.
SETTING_GROUPS = (("When", WHEN), *_explained_groups())
_SETTING = tuple(option for _, group in SETTING_GROUPS for option in group)
_FAMILIES = (TREE, ("minor", "major"), ("small-files", "append"))


class SimulateCommand(click.Command):
    """A command whose help shows the options by what they are about."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print a section for each group, and one for the rest."""
        groups = (("What arrives", ARRIVING), *SETTING_GROUPS)
        grouped = {option.name for _, group in groups for option in group}
        rest = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.name not in grouped]
        for heading, group in (*groups, ("Always", rest)):
            with formatter.section(heading):
                formatter.write_dl([record for option in group if (record := option.get_help_record(ctx))])


def simulate_options(function: Any) -> Any:  # noqa: ANN401 - a click callback
    """Hang all of them on the command."""
    pending = [*ARRIVING, *_SETTING]
    function.__click_params__ = [*pending[::-1], *getattr(function, "__click_params__", [])]
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """One setting as it was typed: the strategy, all values, and the names of those that were given."""

    label: str
    strategy: str
    values: dict[str, Any]
    given: frozenset[str]


def read_settings(ctx: click.Context, strategy: str, typed: dict[str, Any]) -> tuple[Typed, ...]:
    """The setting that the command line itself describes, and those it is compared with.

    Without a label the first one is called by its strategy and by those of its options in which the others differ.
    """
    given = _given(ctx)
    main = Typed(label=strategy, strategy=strategy, values={**typed, "ids": None, "today": 0}, given=given)
    others = tuple(_read_compared(ctx, text, main) for text in typed["compare"])
    alike = [other for other in others if other.strategy == strategy]
    words = [
        word
        for option in _SETTING
        if any(other.values[option.name or ""] != typed[option.name or ""] for other in alike)
        for word in _say(option, typed[option.name or ""])
    ]
    return (replace(main, label=typed["label"] or " ".join([strategy, *words])), *others)


def _read_compared(ctx: click.Context, text: str, main: Typed) -> Typed:
    """Another setting: ``LABEL: [STRATEGY] OPTIONS``, on top of the first one's options if the strategy is the same."""
    label, colon, options = text.partition(":")
    if not colon:
        label, options = text, text
    if not label.strip():
        raise click.UsageError(f"--compare {text!r} has no label; write for example 'wide: --size-ratio-pct 20'.", ctx)
    argument = click.Argument(["strategy"], required=False, type=click.Choice(STRATEGIES))
    parser = click.Command("compare", params=[argument, *_SETTING], add_help_option=False)
    try:
        inner = parser.make_context("compare", shlex.split(options))
    except (click.UsageError, ValueError) as error:
        said = error.format_message() if isinstance(error, click.UsageError) else f"{error}"
        raise click.UsageError(f"--compare {text!r}: {said.rstrip('.')}", ctx) from None
    strategy = inner.params.pop("strategy") or main.strategy
    mine = _given(inner)
    values = {**main.values, **{name: inner.params[name] for name in mine}}
    return Typed(label=label.strip(), strategy=strategy, values=values, given=_fitting(main, strategy) | mine)


def _fitting(main: Typed, strategy: str) -> frozenset[str]:
    """The options given for the first setting that mean something to this strategy too."""
    foreign = {option.name for _, strategies, group in EXPLAINED for option in group if strategy not in strategies}
    return frozenset(name for name in main.given if name not in foreign)


def _given(ctx: click.Context) -> frozenset[str]:
    source = click.core.ParameterSource.COMMANDLINE
    names = {option.name or "" for option in _SETTING}
    return frozenset(name for name in ctx.params if name in names and ctx.get_parameter_source(name) is source)


def _say(option: click.Option, value: object) -> list[str]:
    """An option as one would type it; one that is off is not typed."""
    if value is None or value is False:
        return []
    return [option.opts[0]] if option.is_flag else [option.opts[0], str(value)]


def is_one_family(strategies: set[str]) -> bool:
    """Whether these strategies work on tables of the same kind."""
    return any(strategies <= set(family) for family in _FAMILIES)


def as_plain(value: object) -> object:
    """A typed value as JSON takes it."""
    return float(value) if isinstance(value, Decimal) else value
