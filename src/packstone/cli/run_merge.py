"""What ``plan``, ``compact`` and ``merge`` share: open the table's family, run, record, show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from packstone.cli.arguments import (
    read_budget,
    read_engine,
    read_filters,
    read_merge_options,
    read_paimon_options,
    read_segment_options,
)
from packstone.cli.family import family_of
from packstone.cli.named_target import named_table
from packstone.cli.output import plain_text, show
from packstone.cli.progress_bar import BarProgress
from packstone.cli.run_hook import run_hook
from packstone.errors import InvalidInputError
from packstone.model.skipped import SkipKind
from packstone.strategy.small_files import REASON as SMALL_FILES
from packstone.tables.probe import Family

if TYPE_CHECKING:
    from packstone.model.outcome import Outcome
    from packstone.service.named_table import NamedTable
    from packstone.storage.location import Location

_NAMED = 3  # unreadable files named on stderr; the outcome names all


def run_merge(command: str, location: Location, typed: dict[str, Any]) -> int:
    """Merge, record the run, print the outcome; return the exit code."""
    compact = {Family.PAIMON: _compact_paimon, Family.SEGMENTS: _compact_segments, Family.HIVE: _compact_hive}
    outcome = compact[family_of(location.path)](command, location.path, typed)
    return show_outcome(outcome, output_format=typed["output_format"])


def run_plan(location: Location, typed: dict[str, Any]) -> int:
    """Plan, print the outcome; return the exit code."""
    plan = {Family.PAIMON: _plan_paimon, Family.SEGMENTS: _plan_segments, Family.HIVE: _plan_hive}
    outcome = plan[family_of(location.path)](location.path, typed)
    return show_outcome(outcome, output_format=typed["output_format"])


def run_named_plan(target: str, typed: dict[str, Any]) -> int:
    """Plan a table by its name."""
    _check_hive_strategy(typed)
    with named_table(target, typed) as table:
        outcome = table.plan(read_merge_options(typed), filters=read_filters(typed))
    return show_outcome(outcome, output_format=typed["output_format"])


def run_named_merge(target: str, typed: dict[str, Any]) -> int:
    """Merge a table by its name."""
    _check_hive_strategy(typed)
    with named_table(target, typed, history=_history(typed)) as table:
        outcome = table.compact(
            read_merge_options(typed),
            filters=read_filters(typed),
            budget=read_budget(typed),
            take_over=typed["take_over"],
            measure_read=typed["measure_read"],
        )
        if typed["statistics"]:
            outcome = _with_statistics(table, outcome)
    if typed["after_publish"] and outcome.units:
        outcome = run_hook(typed["after_publish"], outcome)
    return show_outcome(outcome, output_format=typed["output_format"])


def _with_statistics(table: NamedTable, outcome: Outcome) -> Outcome:
    """The merge is done; statistics that cannot be set are a warning."""
    from packstone.errors import PackstoneError

    try:
        table.correct_statistics(outcome)
    except PackstoneError as error:
        warning = f"The run is done, but its statistics are not: {error.message}"
        return replace(outcome, warnings=(*outcome.warnings, warning))
    return outcome


def _plan_hive(path: str, typed: dict[str, Any]) -> Outcome:
    _check_hive_strategy(typed)
    merge_options, filters = read_merge_options(typed), read_filters(typed)
    from packstone.service.hive_table import HiveTable

    return HiveTable(path, engine=read_engine(typed)).plan(merge_options, filters=filters).outcome


def _plan_paimon(path: str, typed: dict[str, Any]) -> Outcome:
    options, filters = read_paimon_options(typed), read_filters(typed)
    from packstone.service.paimon_table import PaimonTable

    return PaimonTable(path).plan(options, filters=filters).outcome


def _plan_segments(path: str, typed: dict[str, Any]) -> Outcome:
    options, filters = read_segment_options(typed), read_filters(typed)
    from packstone.service.segment_table import SegmentTable

    return SegmentTable(path).plan(options, filters=filters).outcome


def _compact_hive(command: str, path: str, typed: dict[str, Any]) -> Outcome:
    _check_hive_strategy(typed)
    options, filters, budget = read_merge_options(typed), read_filters(typed), read_budget(typed)
    engine = read_engine(typed)
    from packstone.service.hive_table import HiveTable

    table = HiveTable(path, engine=engine, progress=BarProgress(), history=_history(typed))
    return table.compact(
        options,
        filters=filters,
        budget=budget,
        take_over=typed["take_over"],
        measure_read=typed["measure_read"],
        command=command,
    )


def _compact_paimon(command: str, path: str, typed: dict[str, Any]) -> Outcome:
    options, filters, budget = read_paimon_options(typed), read_filters(typed), read_budget(typed)
    engine = read_engine(typed)
    from packstone.service.paimon_table import PaimonTable

    table = PaimonTable(path, engine=engine, progress=BarProgress(), history=_history(typed))
    return table.compact(options, filters=filters, budget=budget, command=command)


def _compact_segments(command: str, path: str, typed: dict[str, Any]) -> Outcome:
    options, filters, budget = read_segment_options(typed), read_filters(typed), read_budget(typed)
    engine = read_engine(typed)
    from packstone.service.segment_table import SegmentTable

    table = SegmentTable(path, engine=engine, progress=BarProgress(), history=_history(typed))
    return table.compact(options, filters=filters, budget=budget, command=command)


def _history(typed: dict[str, Any]) -> str:
    from packstone.history.connect import check_url
    from packstone.service.record import history_address

    history_url = history_address(typed["history_url"])
    check_url(history_url)
    return history_url


def _check_hive_strategy(typed: dict[str, Any]) -> None:
    strategy = typed.get("strategy") or SMALL_FILES
    if strategy != SMALL_FILES:
        raise InvalidInputError(f"{strategy} is no strategy for Hive directories; use {SMALL_FILES}.")


def show_outcome(outcome: Outcome, *, output_format: str) -> int:
    """Print an outcome, its warnings on stderr; return the exit code."""
    from packstone.cli.draw import draw_outcome

    for warning in outcome.warnings:
        click.echo(f"packstone: {warning}", err=True)
    show(outcome.to_json(), output_format=output_format, draw=lambda console: draw_outcome(console, outcome))
    broken = [skip.what for skip in outcome.skipped if skip.kind is SkipKind.UNREADABLE]
    if broken and outcome.status.exit_code and output_format != "json":
        click.echo(f"packstone: {plain_text(_left_alone(broken))}", err=True)
    return outcome.status.exit_code


def _left_alone(broken: list[str]) -> str:
    """Name what explains the exit code, also for one who sees only stderr."""
    more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    count = "1 file cannot be read and was" if len(broken) == 1 else f"{len(broken)} files cannot be read and were"
    return f"{count} left alone: {', '.join(broken[:_NAMED])}{more}."
