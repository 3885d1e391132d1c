"""What an executor does with a split: read it, test its rows, hand on Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanPlan, Split
    from packstone.storage.fileio import FileIO


def read_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows in the plan's schema; never an empty batch. Without columns, batches still have rows."""
    raise NotImplementedError


def count_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> int:
    """How many rows match; what must match is not read."""
    raise NotImplementedError


def check_pushed(plan: ScanPlan) -> None:
    """Refuse, by name, a filter of which a part needs Spark."""
    raise NotImplementedError
