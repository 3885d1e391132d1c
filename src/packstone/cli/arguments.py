"""From what was typed to the values that the service takes."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError
from packstone.model.filters import Budget, Filters
from packstone.model.merge_options import MergeOptions
from packstone.model.paimon_options import PaimonOptions
from packstone.model.segment_options import SegmentOptions
from packstone.model.sizes import parse_bytes, parse_duration
from packstone.model.time_window import TimeWindow
from packstone.model.unit import Verify
from packstone.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.runs.engine import Engine
    from packstone.spark.session import SparkSettings


def read_merge_options(typed: dict[str, Any]) -> MergeOptions:
    """Build the merge options from a command's parameters."""
    block = parse_bytes(typed["block_size"])
    threshold = parse_bytes(typed["threshold"]) if typed.get("threshold") else block
    backup = typed.get("backup_dir")
    return MergeOptions(
        threshold_bytes=threshold,
        target_bytes=block,
        min_files=typed["min_files"],
        codec=typed["codec"],
        header_lines=typed["header"],
        verify=Verify(typed.get("verify_mode") or "content"),
        accept_invalid_text=typed.get("accept_invalid_text", False),
        min_age_seconds=parse_duration(typed.get("min_age") or "0s").total_seconds(),
        keep_days=typed.get("keep_days", 7.0),
        backup_root=parse_location(backup).path if backup else None,
        exclude=tuple(typed.get("exclude") or ()),
    )


def read_filters(typed: dict[str, Any]) -> Filters:
    """Build the filters from a command's parameters."""
    older = typed.get("older_than")
    between = typed.get("between")
    return Filters(
        where=typed.get("where"),
        older_than_seconds=parse_duration(older).total_seconds() if older else 0.0,
        exclude=tuple(typed.get("exclude") or ()),
        window=TimeWindow.parse(between, timezone=typed["timezone"]) if between else None,
    )


def read_paimon_options(typed: dict[str, Any]) -> PaimonOptions:
    """Build the options of a Paimon compaction from a command's parameters."""
    from packstone.model import paimon_options as paimon

    overrides = paimon.parse_overrides(tuple(typed["table_options"]))
    _check_known(overrides)
    idle = typed.get("partition_idle_time")
    return PaimonOptions(
        strategy=paimon.parse_strategy(typed["strategy"] or "minor"),
        rules=typed["rules"],
        partitions=paimon.parse_partitions(typed["partitions"]) if typed["partitions"] else (),
        buckets=paimon.parse_buckets(typed["buckets"]) if typed["buckets"] else (),
        partition_idle_seconds=parse_duration(idle).total_seconds() if idle else None,
        overrides=overrides,
        leftovers=typed["leftovers"],
        single_writer=typed.get("single_writer", False),
        verify=Verify(typed.get("verify_mode") or "content"),
        accept_invalid_text=typed.get("accept_invalid_text", False),
        commit_every_bytes=parse_bytes(typed.get("commit_every") or "16G"),
    )


def read_segment_options(typed: dict[str, Any]) -> SegmentOptions:
    """Build the options of a compaction of a segment table from a command's parameters."""
    from packstone.model.segment_options import SegmentStrategy, parse_segment_ids, parse_segment_strategy

    overrides = read_properties(typed["properties"])
    strategy = parse_segment_strategy(typed["strategy"] or "minor")
    if typed["major_size_mb"] is not None:
        if strategy is not SegmentStrategy.MAJOR:
            raise InvalidInputError(f"--major-size-mb goes with --strategy major; {strategy} does not ask for it.")
        overrides = (*overrides, ("MAJOR_COMPACTION_SIZE", str(typed["major_size_mb"])))
    return SegmentOptions(
        strategy=strategy,
        ids=parse_segment_ids(typed["ids"]) if typed["ids"] else (),
        overrides=overrides,
        verify=Verify(typed.get("verify_mode") or "content"),
    )


def read_properties(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read ``NAME=VALUE`` pairs; a name given twice is a slip."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidInputError(f"--property {pair} is no NAME=VALUE.")
        if name.upper() in found:
            raise InvalidInputError(f"--property {name} is given twice.")
        found[name.upper()] = value
    return tuple(found.items())


def _check_known(overrides: tuple[tuple[str, str], ...]) -> None:
    """Refuse an option that no compaction looks at: it would have no effect, and nobody would notice."""
    if not overrides:
        return
    from difflib import get_close_matches

    from packstone.tables.paimon.table_options import TableOptions

    known = {key for field in fields(TableOptions) for key in field.metadata.get("keys", ())}
    for name, _ in overrides:
        if name not in known:
            like = get_close_matches(name, known, n=1)
            hint = f"did you mean {like[0]}?" if like else "docs/paimon.md lists those it does."
            raise InvalidInputError(f"--option {name}: a compaction does not look at this option; {hint}", option=name)


def read_budget(typed: dict[str, Any]) -> Budget:
    """Build the budget from a command's parameters."""
    max_bytes = typed.get("max_bytes")
    return Budget(
        max_bytes=parse_bytes(max_bytes) if max_bytes else None,
        max_files=typed.get("max_files"),
        max_seconds=typed.get("max_seconds"),
        parallel=typed.get("parallel"),
    )


def read_engine(typed: dict[str, Any]) -> Callable[[], Engine]:
    """Choose where the work runs; Spark itself starts when the first task needs it."""
    from packstone.service.open_table import choose_engine

    return choose_engine(read_spark_settings(typed), name=typed.get("engine"))


def read_spark_settings(typed: dict[str, Any]) -> SparkSettings:
    """How to reach Spark."""
    from packstone.spark.session import SparkSettings

    conf = []
    for pair in typed.get("spark_conf") or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(f"--conf {pair} is no KEY=VALUE.")
        conf.append((key, value))
    return SparkSettings(
        master=typed.get("master"), remote=typed.get("remote"), conf=tuple(conf), log_path=spark_log_path()
    )


def spark_log_path() -> str:
    """Where Spark's own logs go."""
    import platformdirs

    folder = os.environ.get("PACKSTONE_LOGS") or platformdirs.user_log_dir("packstone", appauthor=False)
    return f"{folder}/spark.log"
