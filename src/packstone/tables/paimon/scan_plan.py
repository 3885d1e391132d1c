"""Which files of a snapshot a filter needs, and which of them have to be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.scan.scan_request import DEFAULT_OPTIONS, ScanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanPlan
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.store import PaimonStore


def plan_paimon_scan(
    io: FileIO,
    store: PaimonStore,
    snapshot: Snapshot | None,
    *,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    caches: ScanCaches | None = None,
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ScanPlan:
    """Plan a scan of one snapshot (None: the table has none yet)."""
    raise NotImplementedError
