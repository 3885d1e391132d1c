"""The table options that a compaction uses, typed, with Paimon's own defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final

from packstone.errors import InvalidInputError
from packstone.tables.family import Option

# ---- Paimon's syntax of option values: ``128 mb``, ``1 h``, ``true``, ``0:zstd,5:lz4`` ----


_NUMBER_UNIT: Final = re.compile(r"(?P<number>[0-9]+)\s*(?P<unit>\D*)")
_MEMORY: Final = {
    "": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kibibytes": 2**10, "m": 2**20, "mb": 2**20,
    "mebibytes": 2**20, "g": 2**30, "gb": 2**30, "gibibytes": 2**30, "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip
_NANOS: Final = {
    "ns": 1, "nano": 1, "nanosecond": 1, "µs": 1000, "micro": 1000, "microsecond": 1000, "": 10**6, "ms": 10**6,
    "milli": 10**6, "millisecond": 10**6, "s": 10**9, "sec": 10**9, "second": 10**9, "m": 60 * 10**9,
    "min": 60 * 10**9, "minute": 60 * 10**9, "h": 3600 * 10**9, "hour": 3600 * 10**9, "d": 86400 * 10**9,
    "day": 86400 * 10**9,
}  # fmt: skip
_PLURALS: Final = {f"{unit}s": nanos for unit, nanos in _NANOS.items() if len(unit) > 2}  # words


def parse_memory(text: str) -> int:
    """Bytes: ``128 mb`` is 128 times 1024 times 1024."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    unit = match["unit"].strip().lower() if match else ""
    if match is None or unit not in _MEMORY:
        raise InvalidInputError(f"{text!r} is not a size; write for example 128 mb.", value=text)
    return int(match["number"]) * _MEMORY[unit]


def parse_duration_ms(text: str) -> int:
    """Milliseconds: ``1 h``, ``10 min``, ``30 s``; a number alone is milliseconds."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    nanos = (_NANOS | _PLURALS).get(match["unit"].strip().lower()) if match else None
    if match is None or nanos is None:
        raise InvalidInputError(f"{text!r} is not a duration; write for example 1 h.", value=text)
    return int(match["number"]) * nanos // 10**6


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false``."""
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise InvalidInputError(f"{text!r} is neither true nor false.", value=text)
    return word == "true"


def parse_int(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a whole number.", value=text) from None


def parse_float(text: str) -> float:
    """Read a number."""
    try:
        return float(text.strip())
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a number.", value=text) from None


def parse_levels(text: str) -> tuple[tuple[int, str], ...]:
    """Read a map from level to word: ``0:avro,3:parquet``."""
    pairs = [pair.partition(":") for pair in text.split(",") if pair.strip()]
    if not all(separator and level.strip().isdecimal() and word.strip() for level, separator, word in pairs):
        raise InvalidInputError(f"{text!r} is not a map of levels; write for example 0:avro,3:parquet.", value=text)
    return tuple((int(level), word.strip()) for level, _, word in pairs)


def parse_names(text: str) -> tuple[str, ...]:
    """Read a list of columns: ``a, b``."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


# ---- table options ----

_MB: Final = 2**20


def _lower(text: str) -> str:
    return text.strip().lower()


def _option(key: str | tuple[str, ...], parse: Callable[[str], Any], default: Any, *, text: str = "") -> Any:
    """A field whose value is that of the first key that is set; one with a help text may be set for one run."""
    keys = (key,) if isinstance(key, str) else key
    return field(default=default, metadata={"keys": keys, "parse": parse, "text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options, each with its names in Paimon. None: not set; where there is a default, a property computes it."""

    is_primary_key: bool = True
    bucket: int = _option("bucket", parse_int, -1)
    bucket_keys: tuple[str, ...] = _option("bucket-key", parse_names, ())

    # The merge tree.
    compaction_trigger: int = _option(
        "num-sorted-run.compaction-trigger", parse_int, 5, text="Merge when a bucket has this many sorted runs."
    )
    stop_trigger_or_none: int | None = _option(
        "num-sorted-run.stop-trigger",
        parse_int,
        None,
        text="Number of sorted runs at which writers stop; default: the trigger + 3.",
    )
    num_levels_or_none: int | None = _option(
        "num-levels", parse_int, None, text="Number of levels of the merge tree; default: the trigger + 1."
    )
    max_size_amplification_pct: int = _option(
        "compaction.max-size-amplification-percent",
        parse_int,
        200,
        text="Merge everything when newer runs exceed this share of the oldest run.",
    )
    size_ratio_pct: int = _option(
        "compaction.size-ratio", parse_int, 1, text="Merge runs whose sizes differ by at most this percentage."
    )
    offpeak_start_hour: int = _option(
        "compaction.offpeak.start.hour",
        parse_int,
        -1,
        text="First hour of the day in which offpeak-ratio counts; -1: none.",
    )
    offpeak_end_hour: int = _option(
        "compaction.offpeak.end.hour",
        parse_int,
        -1,
        text="Hour of the day at which offpeak-ratio stops counting; -1: none.",
    )
    offpeak_ratio_pct: int = _option(
        "compaction.offpeak-ratio", parse_int, 0, text="Percentage added to compaction.size-ratio in off-peak hours."
    )
    optimization_interval_ms: int | None = _option(
        "compaction.optimization-interval",
        parse_duration_ms,
        None,
        text="Merge everything if the last full compaction is longer ago than this.",
    )
    total_size_threshold_bytes: int | None = _option(
        "compaction.total-size-threshold",
        parse_memory,
        None,
        text="Merge everything while a bucket is smaller than this.",
    )
    incremental_size_threshold_bytes: int | None = _option(
        "compaction.incremental-size-threshold",
        parse_memory,
        None,
        text="Merge everything when the newer runs exceed this size.",
    )
    force_up_level0: bool = _option(
        "compaction.force-up-level-0", parse_bool, default=False, text="Always take level 0 into a merge."
    )
    force_rewrite_all_files: bool = _option(
        "compaction.force-rewrite-all-files",
        parse_bool,
        default=False,
        text="Rewrite files that could stay as they are.",
    )
    force_lookup: bool = _option("force-lookup", parse_bool, default=False)
    lookup_compact: str = _option("lookup-compact", _lower, "radical")
    changelog_producer: str = _option("changelog-producer", _lower, "none")
    write_only: bool = _option(
        ("write-only", "write.compaction-skip"), parse_bool, default=False, text="Writers of this table do not compact."
    )

    # Append tables.
    min_file_num: int = _option(
        "compaction.min.file-num", parse_int, 5, text="Append tables: merge at least this many small files."
    )
    file_num_limit: int = _option(
        "compaction.file-num-limit",
        parse_int,
        100_000,
        text="Append tables: consider at most this many files per round.",
    )
    delete_ratio_threshold: float = _option(
        "compaction.delete-ratio-threshold",
        parse_float,
        0.2,
        text="Append tables: rewrite a file with at least this share of deleted rows.",
    )
    open_file_cost_bytes: int = _option(
        "source.split.open-file-cost",
        parse_memory,
        4 * _MB,
        text="Append tables: add this to the size of each file when files are packed.",
    )

    # Which row of a key wins.
    merge_engine: str = _option("merge-engine", _lower, "deduplicate")
    ignore_delete: bool = _option(
        ("ignore-delete", "first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
        parse_bool,
        default=False,
    )
    sequence_fields: tuple[str, ...] = _option("sequence.field", parse_names, ())
    sequence_order: str = _option("sequence.field.sort-order", _lower, "ascending")
    sequence_snapshot_ordering: bool = _option("sequence.snapshot-ordering", parse_bool, default=False)
    record_expire_ms: int | None = _option("record-level.expire-time", parse_duration_ms, None)
    record_time_field: str | None = _option("record-level.time-field", str, None)

    # Files.
    file_format: str = _option("file.format", _lower, "parquet", text="Format of new files: parquet, orc or avro.")
    file_format_per_level: tuple[tuple[int, str], ...] = _option(
        "file.format.per.level", parse_levels, (), text="Formats of single levels, for example 0:avro,5:parquet."
    )
    file_compression: str = _option("file.compression", _lower, "zstd", text="Codec of new files.")
    file_compression_per_level: tuple[tuple[int, str], ...] = _option(
        "file.compression.per.level", parse_levels, (), text="Codecs of single levels, for example 0:lz4,5:zstd."
    )
    zstd_level: int = _option("file.compression.zstd-level", parse_int, 1, text="Level of zstd.")
    file_block_bytes: int | None = _option("file.block-size", parse_memory, None, text="Size of a row group or stripe.")
    target_file_bytes_or_none: int | None = _option(
        "target-file-size",
        parse_memory,
        None,
        text="Begin a new file at this size; default: 128 MB with a primary key, else 256 MB.",
    )
    small_file_ratio: float = _option(
        "compaction.small-file-ratio",
        parse_float,
        0.7,
        text="Treat files below this share of target-file-size as small.",
    )
    data_file_prefix: str = _option("data-file.prefix", str, "data-")
    suffix_includes_compression: bool = _option("file.suffix.include.compression", parse_bool, default=False)
    thin_mode: bool = _option("data-file.thin-mode", parse_bool, default=False)
    deletion_vectors: bool = _option("deletion-vectors.enabled", parse_bool, default=False)

    # Statistics.
    stats_mode: str = _option(
        "metadata.stats-mode",
        _lower,
        "truncate(16)",
        text="Column statistics of new files: none, counts, truncate(N) or full.",
    )
    stats_mode_per_level: tuple[tuple[int, str], ...] = _option(
        "metadata.stats-mode.per.level", parse_levels, (), text="Statistics of single levels, for example 0:none."
    )
    stats_dense_store: bool = _option(
        "metadata.stats-dense-store", parse_bool, default=True, text="Store statistics only of columns that have some."
    )
    stats_keep_first_columns: int = _option(
        "metadata.stats-keep-first-n-columns",
        parse_int,
        -1,
        text="Collect statistics of the first N columns only; -1: of all.",
    )

    # Manifests, commits, expiry.
    manifest_compression: str = _option("manifest.compression", _lower, "zstd", text="Codec of manifests.")
    manifest_target_bytes: int = _option(
        "manifest.target-file-size", parse_memory, 8 * _MB, text="Size of a merged manifest."
    )
    manifest_full_threshold_bytes: int = _option(
        "manifest.full-compaction-threshold-size",
        parse_memory,
        16 * _MB,
        text="Rewrite all manifests when changed ones exceed this size.",
    )
    manifest_merge_min_count: int = _option(
        "manifest.merge-min-count", parse_int, 30, text="Merge manifests from this number on."
    )
    commit_max_retries: int = _option(
        "commit.max-retries", parse_int, 10, text="Give a commit up after this many conflicts."
    )
    commit_min_retry_wait_ms: int = _option(
        "commit.min-retry-wait", parse_duration_ms, 10, text="Wait at least this long before the next try of a commit."
    )
    commit_max_retry_wait_ms: int = _option(
        "commit.max-retry-wait",
        parse_duration_ms,
        10_000,
        text="Wait at most this long before the next try of a commit.",
    )
    snapshot_retained_min: int = _option("snapshot.num-retained.min", parse_int, 10)
    snapshot_retained_max: int = _option("snapshot.num-retained.max", parse_int, 2**31 - 1)
    snapshot_time_retained_ms: int = _option("snapshot.time-retained", parse_duration_ms, 3_600_000)
    snapshot_expire_limit: int = _option("snapshot.expire.limit", parse_int, 50)
    partition_default_name: str = _option("partition.default-name", str, "__DEFAULT_PARTITION__")

    @classmethod
    def why_not_free(cls, key: str) -> str | None:
        """Say why an option may not be set for one run; None if it may, or if the option is unknown."""
        known = {name: one.metadata["text"] for one in fields(cls) for name in one.metadata.get("keys", ())}
        if key not in known or known[key]:
            return None
        if key.startswith("snapshot."):
            return f"{key} has no effect on a compaction; `packstone clean --expire-snapshots` has options of its own."
        return f"{key} cannot be set for one run; it defines what the table is."

    @classmethod
    def free_options(cls) -> Iterator[Option]:
        """The options that may be set for one run: when and how files are written.

        Any other option defines what the table is, or which rows it has; changing it for one run would write files
        that the table's readers interpret differently.
        """
        for one in fields(cls):
            if one.metadata.get("text"):
                default = _as_text(one.default, one.metadata["parse"])
                yield Option(key=one.metadata["keys"][0], text=one.metadata["text"], default=default)

    def in_force(self) -> dict[str, str]:
        """The value of each option that may be set for one run: the table's, else the default."""
        values = {
            one.metadata["keys"][0]: _as_text(getattr(self, one.name), one.metadata["parse"])
            for one in fields(self)
            if one.metadata.get("text")
        }
        values["num-sorted-run.stop-trigger"] = str(self.stop_trigger)
        values["num-levels"] = str(self.num_levels)
        values["target-file-size"] = _as_text(self.target_file_bytes, parse_memory)
        return values

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
        """Number of sorted runs at which writers stop."""
        default = self.compaction_trigger + 3
        return max(self.compaction_trigger, default if self.stop_trigger_or_none is None else self.stop_trigger_or_none)

    @property
    def num_levels(self) -> int:
        """Number of levels of the tree, including level 0."""
        return self.compaction_trigger + 1 if self.num_levels_or_none is None else self.num_levels_or_none

    @property
    def needs_lookup(self) -> bool:
        """Whether Java merges level 0 by looking keys up in the levels above."""
        by_changelog = self.changelog_producer == "lookup"
        return self.merge_engine == "first-row" or by_changelog or self.deletion_vectors or self.force_lookup

    @property
    def target_file_bytes(self) -> int:
        """The size at which a new file begins."""
        default = (128 if self.is_primary_key else 256) * _MB
        return default if self.target_file_bytes_or_none is None else self.target_file_bytes_or_none

    @property
    def small_file_bytes(self) -> int:
        """The size below which a file is worth merging with its neighbours."""
        return int(self.target_file_bytes * self.small_file_ratio)

    def format_of(self, level: int) -> str:
        """The format of new files of a level."""
        return dict(self.file_format_per_level).get(level, self.file_format).lower()

    def compression_of(self, level: int) -> str:
        """The compression of new files of a level."""
        return dict(self.file_compression_per_level).get(level, self.file_compression).lower()

    def stats_mode_of(self, level: int) -> str:
        """The statistics mode of new files of a level."""
        return dict(self.stats_mode_per_level).get(level, self.stats_mode).lower()


def _as_text(value: Any, parse: Callable[[str], Any]) -> str:
    """Format a value so that its parser reads it back; empty for None and for an empty map."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(f"{level}:{word}" for level, word in value)
    if parse is parse_memory:
        return f"{value // _MB} mb" if value % _MB == 0 else f"{value} b"
    if parse is parse_duration_ms:
        return f"{value} ms"
    return str(value)


def _parse(key: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"Option {key}: {error.message}", option=key, value=text) from error
