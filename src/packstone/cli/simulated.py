"""Run `simulate`: parse its settings, measure each in the same way, return plain values to print or to draw.

A setting is a strategy with options. Its options are those of `explain`, without those that make no sense over time;
further options say when compaction runs and what arrives.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import click

from packstone.cli.explain_answers import mb_number
from packstone.cli.explain_questions import GROUPS as EXPLAINED
from packstone.cli.explain_questions import (
    SEGMENTS,
    TREE,
    GroupedCommand,
    Megabytes,
    build_question,
    count_option,
    option,
)
from packstone.errors import InvalidInputError
from packstone.model.sizes import MB, format_bytes, parse_duration, parse_mb
from packstone.strategy.simulate import (
    MAX_ARRIVALS,
    AppendTable,
    DirectoryTable,
    Pattern,
    Point,
    Schedule,
    segment_table,
    simulate,
    thin,
    tree_table,
)

if TYPE_CHECKING:
    from packstone.strategy.simulate import SimulatedTable

MAX_POINTS: Final = 200
MOMENTS: Final = 4
_SMALL_NUMBER: Final = 10
_NOUNS: Final = {**dict.fromkeys(TREE, "run"), **dict.fromkeys(SEGMENTS, "segment")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A value that is measured after each load."""

    name: str
    title: str
    of: Callable[[Point], float]
    show: Callable[[float], str]
    floor: int = 0  # where the axis begins
    is_bytes: bool = False
    is_cumulative: bool = False  # each value sums up all loads so far, so a mean is meaningless


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting and its measurements."""

    typed: Typed
    notes: tuple[str, ...]
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        """The name of the setting."""
        return self.typed.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Settings that were simulated with the same loads."""

    pattern: Pattern
    settings: tuple[Setting, ...]
    metrics: tuple[Metric, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes about the settings, without repetitions."""
        return tuple(dict.fromkeys(note for setting in self.settings for note in setting.notes))

    def to_json(self) -> dict[str, Any]:
        """Return the documented keys."""
        pattern = self.pattern
        return {
            "format_version": 1,
            "pattern": {
                "arrivals": pattern.arrivals,
                "size_mb": [mb_number(size) for size in pattern.sizes_bytes],
                "update_pct": pattern.update_pct,
                "every_seconds": pattern.every_seconds,
            },
            "settings": [_setting_json(setting) for setting in self.settings],
            "notes": list(self.notes),
        }


def run_settings(settings: Sequence[Typed], items: Sequence[str], pattern: Pattern) -> tuple[Setting, ...]:
    """Simulate the pattern with each setting; every table is built before the first simulation starts."""
    built = [(typed, *build_table(typed, items)) for typed in settings]
    return tuple(
        Setting(typed=typed, notes=notes, points=simulate(table, pattern, _schedule(typed)))
        for typed, table, notes in built
    )


def build_table(typed: Typed, items: Sequence[str]) -> tuple[SimulatedTable, tuple[str, ...]]:
    """Return the table at the start with its strategy, and notes about them."""
    values = dict(typed.values)
    if typed.strategy in TREE:
        for name in ("early_total", "early_incremental"):
            values[name] = None if values[name] is None else values[name] * MB
    question = build_question(typed.strategy, items, values, given=set(typed.given))
    if typed.strategy in TREE:
        runs = tuple(replace(run, size_bytes=run.size_bytes * MB, name="") for run in question.view.runs)
        return tree_table(question.strategy, replace(question.view, runs=runs)), question.notes
    if typed.strategy in SEGMENTS:
        latest = max((segment.load_day for segment in question.view.segments), default=0)
        return segment_table(question.strategy, replace(question.view, today=latest)), question.notes
    kind = AppendTable if typed.strategy == "append" else DirectoryTable
    return kind(strategy=question.strategy, view=question.view), question.notes


def choose_metrics(names: str | None, settings: Sequence[Setting], pattern: Pattern) -> tuple[Metric, ...]:
    """Parse ``--show``: names of metrics, or a group of parts such as L1 or .2."""
    nouns = {_NOUNS.get(setting.typed.strategy, "file") for setting in settings}
    known = {metric.name: metric for metric in _known_metrics(nouns)}
    labels = sorted({group.label for setting in settings for point in setting.points for group in point.groups})
    known |= {label: _group_metric(label, nouns) for label in labels}
    if names is None:
        names = "read,write,space" if pattern.update_pct else "read,write"
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise InvalidInputError(f"--show {name!r} is not a metric; choose from {', '.join(known)}.")
    return tuple(known[name] for name in dict.fromkeys(wanted))


def at_moments(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return a few points, evenly spaced, including the last one."""
    return thin(points, at_most=MOMENTS)


def _known_metrics(nouns: set[str]) -> tuple[Metric, ...]:
    things = f"{next(iter(nouns))}s" if len(nouns) == 1 else "parts"
    return (
        Metric(name="read", title=f"{things} to read", of=lambda point: point.read_amp, show=_number),
        Metric(
            name="write",
            title="write amplification",
            of=lambda point: point.write_amp,
            show=lambda value: f"{value:.1f}",
            is_cumulative=True,
        ),
        Metric(
            name="space",
            title="space amplification",
            of=lambda point: point.space_amp,
            show=lambda value: f"{value:.2f}",
            floor=1,
        ),
        Metric(name="files", title="files", of=lambda point: point.file_count, show=_number),
        Metric(name="stored", title="bytes stored", of=lambda point: point.stored_bytes, show=_bytes, is_bytes=True),
    )


def _group_metric(label: str, nouns: set[str]) -> Metric:
    """Return the metric of a group: bytes for a level of a merge tree, a count for segments and files."""
    if nouns == {"run"}:
        return Metric(
            name=label,
            title=f"bytes on {label}",
            of=lambda point: _in_group(point, label)[1],
            show=_bytes,
            is_bytes=True,
        )
    title = {".": f"segments {label}", "l": "loads not merged"}.get(label[0], f"{label} parts")
    return Metric(name=label, title=title, of=lambda point: _in_group(point, label)[0], show=_number)


def _in_group(point: Point, label: str) -> tuple[int, int]:
    return next(((group.count, group.size_bytes) for group in point.groups if group.label == label), (0, 0))


def _number(value: float) -> str:
    """Format a number, with one decimal if it is small and not whole."""
    return f"{value:.1f}" if value < _SMALL_NUMBER and value != int(value) else f"{value:,.0f}"


def _bytes(value: float) -> str:
    return format_bytes(round(value)) if value else "0"


def _schedule(typed: Typed) -> Schedule:
    return Schedule(compact_every=typed.values["compact_every"], is_repeated=not typed.values["one_round"])


def _setting_json(setting: Setting) -> dict[str, Any]:
    points = setting.points
    read = [point.read_amp for point in points]
    space = [point.space_amp for point in points]
    return {
        "label": setting.label,
        "strategy": setting.typed.strategy,
        "options": {name: as_plain(setting.typed.values[name]) for name in sorted(setting.typed.given)},
        "final": _point_json(points[-1]),
        "mean": {"read_amp": round(fmean(read), 4), "space_amp": round(fmean(space), 4)},
        "peak": {"read_amp": max(read), "space_amp": round(max(space), 4)},
        "series": _series_json(thin(points, at_most=MAX_POINTS)),
    }


def _point_json(point: Point) -> dict[str, Any]:
    return {
        "arrivals": point.arrivals,
        "seconds": point.seconds,
        "write_amp": round(point.write_amp, 4),
        "read_amp": point.read_amp,
        "space_amp": round(point.space_amp, 4),
        "files": point.file_count,
        "arrived_bytes": point.arrived_bytes,
        "written_bytes": point.written_bytes,
        "stored_bytes": point.stored_bytes,
        "live_bytes": point.live_bytes,
        "groups": {group.label: {"count": group.count, "bytes": group.size_bytes} for group in point.groups},
    }


def _series_json(points: Sequence[Point]) -> dict[str, Any]:
    """Return one list for each metric; a group that is empty at a moment has a 0 there."""
    plain = [_point_json(point) for point in points]
    labels = sorted({group.label for point in points for group in point.groups})
    series: dict[str, Any] = {name: [one[name] for one in plain] for name in plain[0] if name != "groups"}
    found = {label: [_in_group(point, label) for point in points] for label in labels}
    series["groups"] = {
        label: {"count": [count for count, _ in pairs], "bytes": [size for _, size in pairs]}
        for label, pairs in found.items()
    }
    return series


# ---- options ----

STRATEGIES = ("universal", "force-up-level0", "full", "minor", "major", "small-files", "append")
KEYLESS = frozenset({"small-files", "append"})  # rows without keys: merging removes nothing
_LEFT_OUT = {"ids", "today"}  # options of `explain` that make no sense over time
_IN_MB = {
    "early_total": option(
        "--early-total", "Merge all runs if their total size is below this.", click.IntRange(min=0), metavar="MB"
    ),
    "early_incremental": option(
        "--early-incremental",
        "Merge all runs if more than this size is outside the top level.",
        click.IntRange(min=0),
        metavar="MB",
    ),
}


class Sizes(click.ParamType[tuple[int, ...]]):
    """One size in megabytes, or several that are used in turn; the value is in bytes."""

    name = "MB[,MB...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse the numbers."""
        one = Megabytes(least="0.000001")
        return tuple(parse_mb(one.convert(text.strip(), param, ctx)) for text in str(value).split(","))


class Seconds(click.ParamType[int]):
    """A number of seconds, or a duration such as 15m."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        text = str(value)
        try:
            return int(text) if text.isdecimal() else round(parse_duration(text).total_seconds())
        except InvalidInputError as error:
            self.fail(error.message, param, ctx)


def _explained_groups() -> tuple[tuple[str, tuple[click.Option, ...]], ...]:
    """Return the groups of options of `explain`, without those that make no sense over time."""
    found = []
    for heading, _, group in EXPLAINED:
        options = tuple(_IN_MB.get(option.name or "", option) for option in group if option.name not in _LEFT_OUT)
        if options:
            found.append((heading.replace(", custom", ""), options))
    return tuple(found)


WHEN: tuple[click.Option, ...] = (
    count_option("--compact-every", "Compact after every N-th load; 0 means never.", default=1),
    option("--one-round", "Pick once each time, instead of until nothing is picked.", is_flag=True),
)
ARRIVING: tuple[click.Option, ...] = (
    option("--arrivals", "Simulate N loads.", click.IntRange(1, MAX_ARRIVALS), metavar="N", default=500),
    option("--size", "Set the size of a load; several sizes are used in turn.", Sizes(), default="10"),
    option(
        "--update-pct",
        "Let P percent of each load overwrite older rows.",
        click.FloatRange(0, 100),
        metavar="P",
        default=0.0,
        show_default=True,
    ),
    option("--every", "Set the time between two loads, also as 15m or 1h.", Seconds(), default="3600"),
)
# Heading and options; these options define a setting and may be used in --compare.
SETTING_GROUPS = (("When", WHEN), *_explained_groups())
_SETTING = tuple(option for _, group in SETTING_GROUPS for option in group)
_FAMILIES = (TREE, ("minor", "major"), ("small-files", "append"))


class SimulateCommand(GroupedCommand):
    """A command whose help groups the options by topic."""

    groups = (("What arrives", ARRIVING), *SETTING_GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """One setting as it was typed: the strategy, all values, and the names of the given options."""

    label: str
    strategy: str
    values: dict[str, Any]
    given: frozenset[str]


def read_settings(ctx: click.Context, strategy: str, typed: dict[str, Any]) -> tuple[Typed, ...]:
    """Return the setting of the command line itself, and those of ``--compare``.

    The default label of the first setting is its strategy and those of its options in which the others differ.
    """
    given = _given(ctx)
    main = Typed(label=strategy, strategy=strategy, values={**typed, "ids": None, "today": 0}, given=given)
    others = tuple(_read_compared(ctx, text, main) for text in typed["compare"])
    alike = [other for other in others if other.strategy == strategy]
    words = [
        word
        for option in _SETTING
        if any(other.values[option.name or ""] != typed[option.name or ""] for other in alike)
        for word in _words(option, typed[option.name or ""])
    ]
    return (replace(main, label=typed["label"] or " ".join([strategy, *words])), *others)


def _read_compared(ctx: click.Context, text: str, main: Typed) -> Typed:
    """Parse another setting, ``LABEL: [STRATEGY] OPTIONS``, based on the options of the first one that apply to it."""
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
    """Return the options given for the first setting that this strategy has too."""
    foreign = {option.name for _, strategies, group in EXPLAINED for option in group if strategy not in strategies}
    return frozenset(name for name in main.given if name not in foreign)


def _given(ctx: click.Context) -> frozenset[str]:
    source = click.core.ParameterSource.COMMANDLINE
    names = {option.name or "" for option in _SETTING}
    return frozenset(name for name in ctx.params if name in names and ctx.get_parameter_source(name) is source)


def _words(option: click.Option, value: object) -> list[str]:
    """Return an option as a user would type it; nothing if it is off."""
    if value is None or value is False:
        return []
    return [option.opts[0]] if option.is_flag else [option.opts[0], str(value)]


def is_one_family(strategies: set[str]) -> bool:
    """Whether these strategies work on tables of the same kind."""
    return any(strategies <= set(family) for family in _FAMILIES)


def as_plain(value: object) -> object:
    """Return a typed value as JSON represents it."""
    return float(value) if isinstance(value, Decimal) else value
