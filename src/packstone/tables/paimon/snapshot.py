"""A snapshot: the published state of a table, one small JSON file with a number of its own.

Fields that this version does not know are kept as they were read, so that a snapshot built on a newer writer's loses
nothing that a reader may want.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CommitKind(StrEnum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Paimon's snapshot, field by field; optional ones are left out of the file when None."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str  # a CommitKind, or a word of a newer writer
    time_millis: int
    version: int | None = 3
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: tuple[tuple[str, str], ...] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    unknown: str = "{}"  # JSON of the fields that we do not know

    def __str__(self) -> str:
        return f"snapshot {self.id} {self.commit_kind} schema {self.schema_id}"
