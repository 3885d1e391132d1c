"""Which row groups of a segment table a filter needs, from the indexes of its segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanPlan
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import TableStatus


def plan_segment_scan(
    io: FileIO,
    table: str,
    *,
    status: TableStatus,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    caches: ScanCaches | None = None,
    zone: str = "UTC",
) -> ScanPlan:
    """Plan a scan of one version; ``columns`` None is all of them, in the table's order."""
    raise NotImplementedError
