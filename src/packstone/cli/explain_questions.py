"""From what was typed to a table and a strategy, one function for each family."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packstone.cli.explain_items import read_segments, read_sizes, read_tree
from packstone.cli.explain_options import SEGMENTS, TREE, foreign_option
from packstone.cli.explained import Question
from packstone.errors import InvalidInputError
from packstone.model.megabytes import MB, parse_mb
from packstone.model.segment import SegmentId
from packstone.strategy.append_bins import AppendOptions, append_strategy
from packstone.strategy.append_view import DEFAULT_TARGET_BYTES, AppendFile, AppendView
from packstone.strategy.custom import CustomOptions, check_ids, custom_strategy
from packstone.strategy.days import DaysRule, SelectionOptions, as_coded_selection
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, full_strategy
from packstone.strategy.major import MajorOptions, major_strategy
from packstone.strategy.minor import (
    AS_CODED_LEVELS,
    MinorOptions,
    as_coded_minor,
    minor_strategy,
    parse_level_threshold,
)
from packstone.strategy.small_files import Candidate, SmallFilesOptions, small_files_strategy
from packstone.strategy.tree_view import note_odd_runs
from packstone.strategy.universal import Generation, UniversalOptions, universal_strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALL_FILES_TARGET_MB = Decimal(120)


def ask(strategy: str, items: Sequence[str], typed: dict[str, Any], *, given: set[str]) -> Question[Any, Any]:
    """Build the table and the strategy; whatever is wrong is one sentence."""
    refusal = foreign_option(strategy, given)
    if refusal is not None:
        raise InvalidInputError(refusal)
    if strategy in TREE:
        return _ask_tree(strategy, items, typed)
    if strategy in SEGMENTS:
        return _ask_segments(strategy, items, typed)
    return _ask_files(strategy, items, typed)


def _ask_tree(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
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


def _ask_segments(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
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
    """Say what a reader could take for something else."""
    if typed["today"] is None and typed["days"] and (typed["days_rule"] == DaysRule.RECENT or typed["as_coded"]):
        yield f"today is taken to be day {today}, the latest load day; give --today for another"
    if strategy == "custom" and (typed["preserve"] or typed["days"]):
        yield "custom takes the named segments whatever --preserve and --days say"
    if strategy == "minor":
        numbers = typed["level_threshold"].split(",")
        if "1" in [number.strip() for number in numbers]:
            yield "a threshold of 1 is as good as 0: a single segment is never merged"
        if typed["as_coded"] and len(numbers) > AS_CODED_LEVELS:
            yield "CarbonData has two levels; the third number is ignored"


def _ask_files(strategy: str, items: Sequence[str], typed: dict[str, Any]) -> Question[Any, Any]:
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
