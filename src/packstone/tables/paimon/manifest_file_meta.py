"""One manifest as a manifest list describes it."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.tables.paimon.data_file_meta import SimpleStats
from packstone.tables.paimon.unknown_fields import UnknownField


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """Name, size and what its entries span; None where an older writer did not say."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    total_buckets: int | None = None
    extra_files: tuple[str, ...] | None = None
    unknown: tuple[UnknownField, ...] = ()

    def __str__(self) -> str:
        return f"{self.file_name} +{self.num_added_files} -{self.num_deleted_files} {self.file_size}B"
