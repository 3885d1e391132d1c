"""One row of ``hive_format_type``: what the files of a table or a partition are, as its metastore said at a refresh."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRecord:
    """A table (``partition`` is empty) or one of its partitions."""

    metastore: str
    database: str
    table: str
    partition: str
    table_type: str
    file_format: str
    input_format: str
    serde: str
    location: str
    field_delimiter: str
    header_lines: int
    bucket_count: int

    @property
    def key(self) -> str:
        """Which row it is, short enough for an index of any database: a partition's name need not be."""
        return digest(self.metastore, self.database, self.table, self.partition)

    @property
    def full_name(self) -> str:
        """``db.table`` or ``db.table/dt=1``."""
        return f"{self.database}.{self.table}" + (f"/{self.partition}" if self.partition else "")

    def __str__(self) -> str:
        return f"{self.full_name} {self.file_format} {self.location}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCounts:
    """What a refresh did."""

    added: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0

    def plus(self, other: RefreshCounts) -> RefreshCounts:
        """Both together."""
        return RefreshCounts(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            same=self.same + other.same,
            removed=self.removed + other.removed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFormat:
    """A row, and when it was last seen in its metastore and last changed."""

    record: FormatRecord
    seen_at: datetime
    changed_at: datetime


def digest(*parts: str) -> str:
    """A key of some texts; a NUL stands between them, which none of them holds."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
