"""What a commit is told, and what it is lent: the clock, ids and chance belong to whoever runs it."""

from __future__ import annotations

from dataclasses import dataclass, field

from packstone.tables.paimon.manifest_merge import MergeLimits
from packstone.tables.paimon.publish import BATCH_IDENTIFIER
from packstone.tables.paimon.retry_wait import RetryWait


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """Who commits, and how."""

    user: str
    writer_version: str  # "packstone-0.1.0"
    identifier: int = BATCH_IDENTIFIER
    retry: RetryWait = field(default_factory=RetryWait)
    merge: MergeLimits = field(default_factory=MergeLimits)
    manifest_codec: str = "zstd"
    single_writer: bool = False  # nobody else writes to the table meanwhile; on object stores that must be so
    settle_seconds: float = 0.05  # how long after publishing we look again; other writers' window is milliseconds
