"""The options of a merge of small files, with the defaults beside the fields."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_bytes, parse_count, parse_flag, parse_number
from packstone.model.unit import Verify
from packstone.storage.location import parse_location
from packstone.tables.family import Options, invalid_text_option, one_of, option, verify_option

DEFAULT_BLOCK_BYTES = 120 << 20
_MAX_KEEP_DAYS = 36_500
CODECS = ("keep", "zstd", "snappy", "gzip")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveOptions(Options):
    """How to merge; filters choose the partitions and files."""

    strategy: str = "small-files"
    target_bytes: int = option(
        "target-size",
        parse_bytes,
        default=DEFAULT_BLOCK_BYTES,
        shown="120M",
        text="Merge files that are smaller than this into files of about this size.",
        also=("health",),
    )
    threshold_bytes: int = option(
        "threshold",
        parse_bytes,
        default=0,  # 0: as target_bytes
        text="Treat files below this size as small; default: target-size.",
        also=("health",),
    )
    min_files: int = option(
        "min-files",
        parse_count,
        default=5,
        shown="5",
        text="Leave a partition alone that has fewer small files than this.",
        also=("health",),
    )
    codec: str = option(
        "codec",
        one_of(*CODECS),
        default="keep",
        shown="keep",
        text=f"Codec of merged Parquet files: {', '.join(CODECS)}.",
    )
    # None: not stated, so files that may have a header are left alone.
    header_lines: int | None = option(
        "header",
        parse_count,
        default=None,
        text="Number of header lines of text files, of which one copy is kept; 0: none. Without it, files that seem to "
        "have a header are left alone.",
    )
    verify: Verify = verify_option(
        "Compare every row of originals and merged files (content), or only their number (count)."
    )
    accept_invalid_text: bool = invalid_text_option()
    keep_days: float = option(
        "keep-days", parse_number, default=7.0, shown="7", text="Keep the originals for this many days."
    )
    backup_root: str | None = option(
        "backup",
        lambda text: parse_location(text).path,
        default=None,
        text="Keep originals in this folder instead of beside the table; on the table's own file system.",
    )
    statistics: bool = option(
        "statistics",
        parse_flag,
        default=False,
        shown="false",
        text="With --metastore: set numFiles and totalSize of what was merged in place, by Hive's own client in Spark.",
    )

    def __post_init__(self) -> None:
        if self.threshold_bytes == 0:
            object.__setattr__(self, "threshold_bytes", self.target_bytes)
        if self.threshold_bytes <= 0 or self.target_bytes <= 0:
            raise InvalidInputError("target-size must be larger than zero, for example 120M.")
        if self.min_files < 2:  # one file cannot be merged
            raise InvalidInputError(f"min-files is {self.min_files}; it must be at least 2.")
        one_of(*CODECS)(self.codec)
        if self.header_lines is not None and self.header_lines < 0:
            raise InvalidInputError(f"header is {self.header_lines}; it must not be negative.")
        if not 0 <= self.keep_days <= _MAX_KEEP_DAYS:  # this form also refuses NaN
            raise InvalidInputError(f"keep-days is {self.keep_days:g}; it must be from 0 to {_MAX_KEEP_DAYS}.")
