"""Turn the arguments of `explain` into a table and a strategy, and define the options of each strategy."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from packstone.cli.explain_answers import Question, read_segments, read_sizes, read_tree
from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId
from packstone.model.sizes import MB, parse_mb
from packstone.strategy.append_bins import (
    DEFAULT_TARGET_BYTES,
    AppendFile,
    AppendOptions,
    AppendView,
    append_strategy,
)
from packstone.strategy.custom import CustomOptions, check_ids, custom_strategy
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, full_strategy
from packstone.strategy.major import DEFAULT_MAJOR_SIZE_MB, MajorOptions, major_strategy
from packstone.strategy.minor import (
    AS_CODED_LEVELS,
    MinorOptions,
    as_coded_minor,
    minor_strategy,
    parse_level_threshold,
)
from packstone.strategy.segment_view import DaysRule, SelectionOptions, as_coded_selection
from packstone.strategy.small_files import Candidate, SmallFilesOptions, small_files_strategy
from packstone.strategy.tree_view import note_odd_runs
from packstone.strategy.universal import Generation, UniversalOptions, universal_strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALL_FILES_TARGET_MB = Decimal(120)


def build_question(
    strategy: str, items: Sequence[str], typed: dict[str, Any], *, given: set[str]
) -> Question[Any, Any]:
    """Build the table and the strategy; raise InvalidInputError if the arguments do not fit."""
    refusal = foreign_option(strategy, given)
    if refusal is not None:
        raise InvalidInputError(refusal)
    if strategy in TREE:
        return _build_tree(strategy, items, typed)
    if strategy in SEGMENTS:
        return _build_segments(strategy, items, typed)
    return _build_files(strategy, items, typed)


def _build_tree(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
    universal = UniversalOptions(
        max_size_amp_pct=typed["max_size_amp_pct"],
        size_ratio_pct=typed["size_ratio_pct"],
        trigger=typed["trigger"],
        levels=typed["levels"],
        rules=Generation(typed["rules"]),
        early_total_bytes=typed["early_total"],
        early_incremental_bytes=typed["early_incremental"],
        early_interval_ms=typed["early_interval_ms"],
    )
    view = replace(read_tree(items), ms_since_full=typed["ms_since_full"], offpeak_ratio_pct=typed["offpeak_ratio"])
    bound = {
        "universal": lambda: universal_strategy(universal),
        "force-up-level0": lambda: force_up_level0_strategy(ForceUpLevel0Options(universal=universal)),
        "full": lambda: full_strategy(FullOptions(universal=universal)),
    }[strategy]()
    notes = note_odd_runs(view.runs, level_count=universal.level_count)
    return Question(view=view, strategy=bound, noun="run", notes=notes)


def _build_segments(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
    view = read_segments(items, today=typed["today"])
    build = as_coded_selection if typed["as_coded"] else SelectionOptions
    selection = build(preserve=typed["preserve"], days=typed["days"], days_rule=DaysRule(typed["days_rule"]))
    notes = tuple(_note_segments(strategy, typed, today=view.today))
    if strategy == "custom":
        ids = tuple(SegmentId.parse(text.strip()) for text in (typed["ids"] or "").split(",") if text.strip())
        custom = CustomOptions(ids=ids, as_coded=typed["as_coded"])
        check_ids(view, custom)
        return Question(view=view, strategy=custom_strategy(custom), noun="segment", notes=notes)
    if strategy == "major":
        major = MajorOptions(major_size_mb=typed["major_size_mb"], selection=selection)
        return Question(view=view, strategy=major_strategy(major), noun="segment", notes=notes)
    if typed["as_coded"]:
        minor = as_coded_minor(typed["level_threshold"], minor_size_mb=typed["minor_size_mb"], selection=selection)
    else:
        threshold = parse_level_threshold(typed["level_threshold"])
        minor = MinorOptions(level_threshold=threshold, minor_size_mb=typed["minor_size_mb"], selection=selection)
    return Question(view=view, strategy=minor_strategy(minor), noun="segment", notes=notes)


def _note_segments(strategy: str, typed: dict[str, Any], *, today: int) -> Iterator[str]:
    """Yield notes about defaults and options that a reader may misunderstand."""
    if typed["today"] is None and typed["days"] and (typed["days_rule"] == DaysRule.RECENT or typed["as_coded"]):
        yield f"today is day {today}, the latest load day; set --today to change it"
    if strategy == "custom" and (typed["preserve"] or typed["days"]):
        yield "custom merges the given segments and ignores --preserve and --days"
    if strategy == "minor":
        numbers = typed["level_threshold"].split(",")
        if "1" in [number.strip() for number in numbers]:
            yield "a threshold of 1 has the same effect as 0: a single segment is never merged"
        if typed["as_coded"] and len(numbers) > AS_CODED_LEVELS:
            yield "CarbonData has two levels; the third number is ignored"


def _build_files(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
    sizes = read_sizes(items)
    if strategy == "small-files":
        small = SmallFilesOptions(
            threshold_bytes=parse_mb(typed["threshold_mb"]),
            target_bytes=parse_mb(typed["target_mb"] or SMALL_FILES_TARGET_MB),
            min_files=typed["min_files"],
        )
        files = tuple(Candidate(size_bytes=size) for size in sizes)
        return Question(view=files, strategy=small_files_strategy(small), noun="file")
    append = AppendOptions(
        target_bytes=parse_mb(typed["target_mb"] or Decimal(DEFAULT_TARGET_BYTES) / MB),
        min_files=typed["min_files"],
        open_cost_bytes=parse_mb(typed["open_cost_mb"]),
        small_ratio=typed["small_ratio"],
        leftovers=typed["leftovers"],
    )
    view = AppendView(files=tuple(AppendFile(size_bytes=size) for size in sizes))
    return Question(view=view, strategy=append_strategy(append), noun="file")


# ---- options ----

TREE = ("universal", "force-up-level0", "full")
SEGMENTS = ("minor", "major", "custom")


class Megabytes(click.ParamType[Decimal]):
    """A number of megabytes; decimals are allowed."""

    name = "MB"

    def __init__(self, *, least: str) -> None:
        self.least = Decimal(least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Parse the number."""
        try:
            number = Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is not a number of megabytes.", param, ctx)
        if not number.is_finite() or number < self.least:
            self.fail(f"{value} MB is less than {self.least} MB or not a finite number.", param, ctx)
        return number


def option(name: str, text: str, kind: Any = None, **more: Any) -> click.Option:
    """Return an option of a strategy; its help shows a default that is not 0."""
    return click.Option([name], type=kind, help=text, **{"show_default": bool(more.get("default")), **more})


def count_option(name: str, text: str, *, least: int | None = 0, **more: Any) -> click.Option:
    """Return an option whose value is a whole number, at least ``least``."""
    return option(name, text, int if least is None else click.IntRange(min=least), metavar="N", **more)


_SOME_MB = Megabytes(least="0.000001")
_append = AppendOptions()

# Heading, the strategies that take these options, the options.
GROUPS: tuple[tuple[str, tuple[str, ...], tuple[click.Option, ...]], ...] = (
    (
        "Merge trees (universal, force-up-level0, full)",
        TREE,
        (
            count_option("--levels", "Set the number of levels.  [default: trigger + 1]", least=2),
            count_option("--max-size-amp-pct", "Allow at most this space amplification, in percent.", default=200),
            count_option(
                "--size-ratio-pct", "Allow this difference in size between neighbouring runs, in percent.", default=1
            ),
            count_option("--trigger", "Start to merge at this number of runs.", least=1, default=5),
            option(
                "--rules",
                "Use the ratio rule of this Paimon version.",
                click.Choice([generation.value for generation in Generation]),
                default=Generation.V2_1.value,
            ),
            count_option("--offpeak-ratio", "Add this to --size-ratio-pct.", default=0),
            count_option("--early-total", "Merge all runs if their total size is below this."),
            count_option("--early-incremental", "Merge all runs if more than this size is outside the top level."),
            count_option("--early-interval-ms", "Merge all runs if the last full compaction is older than this."),
            count_option("--ms-since-full", "Assume that the last full compaction was this many milliseconds ago."),
        ),
    ),
    (
        "Segments (minor, major, custom)",
        SEGMENTS,
        (
            count_option("--preserve", "Skip the newest N segments.", least=None, default=0),
            count_option("--days", "Merge only segments loaded within N days; 0 is off.", least=None, default=0),
            option(
                "--days-rule",
                "Count the N days of --days between the segments (window) or back from today (recent).",
                click.Choice([rule.value for rule in DaysRule]),
                default=DaysRule.WINDOW.value,
            ),
            option("--today", "Set today.  [default: the latest load day]", int, metavar="DAY"),
            option("--as-coded", "Answer as CarbonData does where Packstone differs.", is_flag=True),
        ),
    ),
    (
        "minor",
        ("minor",),
        (
            option(
                "--level-threshold",
                "Merge at this number of segments, level by level.",
                metavar="N,N[,N]",
                default="4,3",
            ),
            count_option("--minor-size-mb", "Skip segments of this size or more.", least=None),
        ),
    ),
    (
        "major",
        ("major",),
        (
            count_option(
                "--major-size-mb", "Keep merged segments below this size.", least=None, default=DEFAULT_MAJOR_SIZE_MB
            ),
        ),
    ),
    ("custom", ("custom",), (option("--ids", "Merge these segments.", metavar="ID,ID..."),)),
    (
        "Files (small-files, append)",
        ("small-files", "append"),
        (
            option("--target-mb", "Write files of about this size.  [default: small-files 120, append 256]", _SOME_MB),
            count_option("--min-files", "Merge only if there are at least N files.", least=1, default=5),
        ),
    ),
    (
        "small-files",
        ("small-files",),
        (option("--threshold-mb", "Merge files below this size.", _SOME_MB, default="120"),),
    ),
    (
        "append",
        ("append",),
        (
            option(
                "--open-cost-mb",
                "Add this to the size of each file, as the cost of opening it.",
                Megabytes(least="0"),
                default="4",
            ),
            option(
                "--small-ratio",
                "Merge files below this fraction of the target size.",
                click.FloatRange(0, 1),
                metavar="RATIO",
                default=_append.small_ratio,
            ),
            option("--leftovers", "Pack the remaining small files too.", is_flag=True),
        ),
    ),
)


class GroupedCommand(click.Command):
    """A command whose help groups the options, here by strategy."""

    groups: tuple[tuple[str, tuple[click.Option, ...]], ...] = tuple((heading, group) for heading, _, group in GROUPS)

    @classmethod
    def all_options(cls, function: Any) -> Any:
        """Add the options of all groups to the function of a command."""
        pending = [option for _, group in cls.groups for option in group]
        function.__click_params__ = [*pending[::-1], *getattr(function, "__click_params__", [])]
        return function

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print a section for each group, and one for the rest."""
        grouped = {option.name for _, group in self.groups for option in group}
        rest = tuple(one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.name not in grouped)
        for heading, options in (*self.groups, ("Always", rest)):
            with formatter.section(heading):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])


def foreign_option(strategy: str, given: set[str]) -> str | None:
    """Return an error message for the first given option that belongs to other strategies, or None."""
    for _, strategies, group in GROUPS:
        for option in group:
            if option.name in given and strategy not in strategies:
                return f"{option.opts[0]} belongs to {', '.join(strategies)}, not to {strategy}; leave it out."
    return None
