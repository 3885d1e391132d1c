"""What a merge of small files is told, with the defaults beside the fields."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.errors import InvalidInputError
from packstone.model.unit import Verify

DEFAULT_BLOCK_BYTES = 120 << 20
_MAX_KEEP_DAYS = 36_500
CODECS = ("keep", "zstd", "snappy", "gzip")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How to merge; which partitions is told by filters."""

    threshold_bytes: int = DEFAULT_BLOCK_BYTES
    target_bytes: int = DEFAULT_BLOCK_BYTES
    min_files: int = 5
    codec: str = "keep"
    header_lines: int | None = None  # None: not said, so files that may have a header are left alone
    verify: Verify = Verify.CONTENT
    accept_invalid_text: bool = False  # merge files whose strings are not UTF-8, such as Latin-1, too
    min_age_seconds: float = 0.0
    keep_days: float = 7.0
    backup_root: str | None = None
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.threshold_bytes <= 0 or self.target_bytes <= 0:
            raise InvalidInputError("The block size must be larger than zero, for example 120M.")
        if self.min_files < 2:  # noqa: PLR2004 - one file cannot be merged
            raise InvalidInputError(f"--min-files is {self.min_files}; it must be at least 2.")
        if self.codec not in CODECS:
            raise InvalidInputError(f"--codec {self.codec} is unknown; use one of {', '.join(CODECS)}.")
        if self.header_lines is not None and self.header_lines < 0:
            raise InvalidInputError(f"--header is {self.header_lines}; it must not be negative.")
        if not 0 <= self.keep_days <= _MAX_KEEP_DAYS:  # so written, NaN is refused too
            raise InvalidInputError(f"--keep-days is {self.keep_days:g}; it must be from 0 to {_MAX_KEEP_DAYS}.")
