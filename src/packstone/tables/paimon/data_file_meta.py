"""One data file as a manifest describes it, with the statistics of its columns.

Keys and statistics stay in Paimon's own bytes (see binary_row.py): most are only carried from one manifest to the
next, and what is not decoded cannot be changed by accident.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from packstone.tables.paimon.unknown_fields import UnknownField

EMPTY_ROW: Final = bytes(12)  # a row without fields: arity 0, then the header


class FileSource(IntEnum):
    """Who wrote a data file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Smallest and largest value, as serialised rows, and number of nulls of some columns."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """All that a manifest says of a data file; None where the writer did not say (or did not know the field yet)."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None  # the writer's local wall clock, without a zone
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None  # None: every value column has statistics
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None
    unknown: tuple[UnknownField, ...] = ()

    def __str__(self) -> str:
        return f"L{self.level} {self.file_name} {self.row_count} rows {self.file_size}B"
