"""Few rows, read at once by this process; many are left to tasks.

A Spark job of Python tasks takes a tenth of a second before it reads anything, and half a second for many files. So a
scan that is likely to find little is tried here, within bounds that keep a driver a driver: the rows may have so many
bytes, and no file is begun after a third of a second. If they are more, or are not all found by then, nothing is kept,
and tasks read all of it anew. Memory: the rows, and beside them what a task takes to read one file.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.scan.caches import process_caches
from packstone.scan.read_split import read_split

if TYPE_CHECKING:
    from packstone.scan.scan_plan import ScanPlan
    from packstone.storage.fileio import FileIO

FEW_ROWS_BYTES: Final = 1 << 20
_MAX_SECONDS = 0.3


def read_few(io: FileIO, plan: ScanPlan, *, max_bytes: int = FEW_ROWS_BYTES) -> pa.Table | None:
    """Read the matching rows of plain Parquet files; None if they are more, or would take longer."""
    ends = time.monotonic() + _MAX_SECONDS
    found: list[pa.RecordBatch] = []
    room = max_bytes
    for file in (replace(split, files=(file,)) for split in plan.splits for file in split.files):
        if time.monotonic() > ends:
            return None
        for batch in read_split(io, file, caches=process_caches()):
            room -= batch.nbytes
            if room < 0:
                return None
            found.append(batch)
    return pa.Table.from_batches(found, schema=plan.schema)
