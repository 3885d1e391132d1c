"""Few rows, read at once by this process; many are left to tasks.

A Spark job of Python tasks takes a tenth of a second before it reads anything. So a scan that is likely to find little
is tried here, within bounds that keep a driver a driver: the rows may have so many bytes, and finding them may take as
long as such a job. If they are more, or are not found by then, nothing is kept, and tasks read all of it anew.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.scan.caches import process_caches
from packstone.scan.read_split import read_split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.scan.scan_plan import ScanPlan
    from packstone.storage.fileio import FileIO

FEW_ROWS_BYTES: Final = 1 << 20
_MAX_SECONDS = 0.3
_FILES_BETWEEN_LOOKS = 4  # at the clock


def read_few(io: FileIO, plan: ScanPlan, *, max_bytes: int = FEW_ROWS_BYTES) -> pa.Table | None:
    """Read the matching rows of plain Parquet files; None if they are more, or would take longer."""
    ends = time.monotonic() + _MAX_SECONDS
    found: list[pa.RecordBatch] = []
    room = max_bytes
    for batch in _read(io, plan):
        if batch is not None:
            room -= batch.nbytes
            found.append(batch)
        if room < 0 or time.monotonic() > ends:
            return None
    return pa.Table.from_batches(found, schema=plan.schema)


def _read(io: FileIO, plan: ScanPlan) -> Iterator[pa.RecordBatch | None]:
    """Yield the rows, and a None after some files, found or not."""
    for split in plan.splits:
        for first in range(0, len(split.files), _FILES_BETWEEN_LOOKS):
            some = replace(split, files=split.files[first : first + _FILES_BETWEEN_LOOKS])
            yield from read_split(io, some, caches=process_caches())
            yield None
