"""The options of a table that a compaction obeys, typed, with Paimon's own defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from packstone.errors import InvalidInputError
from packstone.tables.paimon.option_values import (
    parse_bool,
    parse_duration_ms,
    parse_float,
    parse_int,
    parse_levels,
    parse_memory,
    parse_names,
)

_MB: Final = 2**20


def _lower(text: str) -> str:
    return text.strip().lower()


def _option(parse: Callable[[str], Any], *keys: str, default: Any) -> Any:  # noqa: ANN401 - as dataclasses.field
    """A field that is read from the first of the keys that is set."""
    return field(default=default, metadata={"keys": keys, "parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What an option is called in Paimon stands beside it; None: not set, and no default but what a property tells."""

    is_primary_key: bool = True
    bucket: int = _option(parse_int, "bucket", default=-1)
    bucket_keys: tuple[str, ...] = _option(parse_names, "bucket-key", default=())

    # The merge tree.
    compaction_trigger: int = _option(parse_int, "num-sorted-run.compaction-trigger", default=5)
    stop_trigger_or_none: int | None = _option(parse_int, "num-sorted-run.stop-trigger", default=None)
    num_levels_or_none: int | None = _option(parse_int, "num-levels", default=None)
    max_size_amplification_pct: int = _option(parse_int, "compaction.max-size-amplification-percent", default=200)
    size_ratio_pct: int = _option(parse_int, "compaction.size-ratio", default=1)
    offpeak_start_hour: int = _option(parse_int, "compaction.offpeak.start.hour", default=-1)
    offpeak_end_hour: int = _option(parse_int, "compaction.offpeak.end.hour", default=-1)
    offpeak_ratio_pct: int = _option(parse_int, "compaction.offpeak-ratio", default=0)
    optimization_interval_ms: int | None = _option(parse_duration_ms, "compaction.optimization-interval", default=None)
    total_size_threshold_bytes: int | None = _option(parse_memory, "compaction.total-size-threshold", default=None)
    incremental_size_threshold_bytes: int | None = _option(
        parse_memory, "compaction.incremental-size-threshold", default=None
    )
    force_up_level0: bool = _option(parse_bool, "compaction.force-up-level-0", default=False)
    force_rewrite_all_files: bool = _option(parse_bool, "compaction.force-rewrite-all-files", default=False)
    force_lookup: bool = _option(parse_bool, "force-lookup", default=False)
    lookup_compact: str = _option(_lower, "lookup-compact", default="radical")
    lookup_max_interval_or_none: int | None = _option(parse_int, "lookup-compact.max-interval", default=None)
    changelog_producer: str = _option(_lower, "changelog-producer", default="none")
    write_only: bool = _option(parse_bool, "write-only", "write.compaction-skip", default=False)

    # Append tables.
    min_file_num: int = _option(parse_int, "compaction.min.file-num", default=5)
    file_num_limit: int = _option(parse_int, "compaction.file-num-limit", default=100_000)
    delete_ratio_threshold: float = _option(parse_float, "compaction.delete-ratio-threshold", default=0.2)
    open_file_cost_bytes: int = _option(parse_memory, "source.split.open-file-cost", default=4 * _MB)

    # Which row of a key wins.
    merge_engine: str = _option(_lower, "merge-engine", default="deduplicate")
    ignore_delete: bool = _option(
        parse_bool,
        "ignore-delete",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
        default=False,
    )
    sequence_fields: tuple[str, ...] = _option(parse_names, "sequence.field", default=())
    sequence_order: str = _option(_lower, "sequence.field.sort-order", default="ascending")
    sequence_snapshot_ordering: bool = _option(parse_bool, "sequence.snapshot-ordering", default=False)
    record_expire_ms: int | None = _option(parse_duration_ms, "record-level.expire-time", default=None)
    record_time_field: str | None = _option(str, "record-level.time-field", default=None)

    # Files.
    file_format: str = _option(_lower, "file.format", default="parquet")
    file_format_per_level: tuple[tuple[int, str], ...] = _option(parse_levels, "file.format.per.level", default=())
    file_compression: str = _option(_lower, "file.compression", default="zstd")
    file_compression_per_level: tuple[tuple[int, str], ...] = _option(
        parse_levels, "file.compression.per.level", default=()
    )
    zstd_level: int = _option(parse_int, "file.compression.zstd-level", default=1)
    file_block_bytes: int | None = _option(parse_memory, "file.block-size", default=None)
    target_file_bytes_or_none: int | None = _option(parse_memory, "target-file-size", default=None)
    small_file_ratio: float = _option(parse_float, "compaction.small-file-ratio", default=0.7)
    data_file_prefix: str = _option(str, "data-file.prefix", default="data-")
    suffix_includes_compression: bool = _option(parse_bool, "file.suffix.include.compression", default=False)
    thin_mode: bool = _option(parse_bool, "data-file.thin-mode", default=False)
    deletion_vectors: bool = _option(parse_bool, "deletion-vectors.enabled", default=False)

    # Statistics.
    stats_mode: str = _option(_lower, "metadata.stats-mode", default="truncate(16)")
    stats_mode_per_level: tuple[tuple[int, str], ...] = _option(
        parse_levels, "metadata.stats-mode.per.level", default=()
    )
    stats_dense_store: bool = _option(parse_bool, "metadata.stats-dense-store", default=True)
    stats_keep_first_columns: int = _option(parse_int, "metadata.stats-keep-first-n-columns", default=-1)

    # Manifests, commits, expiry.
    manifest_compression: str = _option(_lower, "manifest.compression", default="zstd")
    manifest_target_bytes: int = _option(parse_memory, "manifest.target-file-size", default=8 * _MB)
    manifest_full_threshold_bytes: int = _option(
        parse_memory, "manifest.full-compaction-threshold-size", default=16 * _MB
    )
    manifest_merge_min_count: int = _option(parse_int, "manifest.merge-min-count", default=30)
    manifest_delete_drops_stats: bool = _option(parse_bool, "manifest.delete-file-drop-stats", default=False)
    commit_max_retries: int = _option(parse_int, "commit.max-retries", default=10)
    commit_timeout_ms: int | None = _option(parse_duration_ms, "commit.timeout", default=None)
    commit_min_retry_wait_ms: int = _option(parse_duration_ms, "commit.min-retry-wait", default=10)
    commit_max_retry_wait_ms: int = _option(parse_duration_ms, "commit.max-retry-wait", default=10_000)
    snapshot_retained_min: int = _option(parse_int, "snapshot.num-retained.min", default=10)
    snapshot_retained_max: int = _option(parse_int, "snapshot.num-retained.max", default=2**31 - 1)
    snapshot_time_retained_ms: int = _option(parse_duration_ms, "snapshot.time-retained", default=3_600_000)
    snapshot_expire_limit: int = _option(parse_int, "snapshot.expire.limit", default=50)
    partition_default_name: str = _option(str, "partition.default-name", default="__DEFAULT_PARTITION__")

    @classmethod
    def parse(cls, options: Iterable[tuple[str, str]], *, is_primary_key: bool) -> TableOptions:
        """Read the options of a schema; InvalidInputError names the option whose value is wrong."""
        given = dict(options)
        values: dict[str, Any] = {}
        for option in fields(cls):
            key = next((key for key in option.metadata.get("keys", ()) if key in given), None)
            if key is not None:
                values[option.name] = _parse(key, given[key], option.metadata["parse"])
        return cls(is_primary_key=is_primary_key, **values)

    @property
    def stop_trigger(self) -> int:
        """How many runs stop a writer."""
        default = self.compaction_trigger + 3
        return max(self.compaction_trigger, default if self.stop_trigger_or_none is None else self.stop_trigger_or_none)

    @property
    def num_levels(self) -> int:
        """How many levels the tree has, level 0 among them."""
        return self.compaction_trigger + 1 if self.num_levels_or_none is None else self.num_levels_or_none

    @property
    def lookup_max_interval(self) -> int:
        """Every how many-th pick forces level 0 up in the gentle mode."""
        default = 2 * self.compaction_trigger
        given = default if self.lookup_max_interval_or_none is None else self.lookup_max_interval_or_none
        return max(self.compaction_trigger, given)

    @property
    def needs_lookup(self) -> bool:
        """Whether Java merges level 0 by looking keys up in the levels above."""
        by_changelog = self.changelog_producer == "lookup"
        return self.merge_engine == "first-row" or by_changelog or self.deletion_vectors or self.force_lookup

    @property
    def target_file_bytes(self) -> int:
        """At what size a new file begins."""
        default = (128 if self.is_primary_key else 256) * _MB
        return default if self.target_file_bytes_or_none is None else self.target_file_bytes_or_none

    @property
    def small_file_bytes(self) -> int:
        """Below what size a file is worth merging with its neighbours."""
        return int(self.target_file_bytes * self.small_file_ratio)

    def format_of(self, level: int) -> str:
        """In which format files of a level are written."""
        return dict(self.file_format_per_level).get(level, self.file_format).lower()

    def compression_of(self, level: int) -> str:
        """With which compression files of a level are written."""
        return dict(self.file_compression_per_level).get(level, self.file_compression).lower()

    def stats_mode_of(self, level: int) -> str:
        """Which statistics files of a level get."""
        return dict(self.stats_mode_per_level).get(level, self.stats_mode).lower()


def _parse(key: str, text: str, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - the type of the option
    try:
        return parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"Option {key}: {error.message}", option=key, value=text) from error
