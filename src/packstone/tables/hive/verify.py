"""Measure reading the same rows from the originals and from the merged files, in turns.

The two reads of a verification come one after the other, so the second finds a warmer cache. Here the sides
alternate, each several times, with the same columns, and cold and warm reads are separate: a cold read first asks the
kernel to drop the files' pages (``posix_fadvise``), a warm one does not. The best time of each side counts.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.rewrite.small_files.merge_unit import kernel_of
from packstone.storage.location import scheme_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.journal import Journal

RUNS = 3
MAX_BYTES = 1 << 30  # a sample is enough to compare, and the user waits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMeasurement:
    """The best time of each side, and what was read."""

    cache: str
    seconds_before: float
    seconds_after: float
    files_before: int
    files_after: int
    runs: int
    engine: str


def measure_reads(journal: Journal, run: str) -> tuple[dict[str, object], ...]:
    """Measure cold and warm reads of a run's originals (still kept) and of its outputs."""
    io = journal.io
    before: list[tuple[str, str]] = []
    after: list[tuple[str, str]] = []
    size_bytes = 0
    for intent in journal.read_intents(run):
        by_name = {file.name: file for file in intent.inputs}
        for output in intent.outputs:
            if size_bytes > MAX_BYTES or io.stat(intent.published(output)) is None:
                continue
            size_bytes += output.size_bytes
            after.append((output.merged_as, intent.published(output)))
            before.extend((output.merged_as, intent.kept(by_name[name])) for name in output.inputs)
    if not after:
        return ()
    readings = (_measure(io, before, after, cache=cache) for cache in ("cold", "warm"))
    return tuple({name: getattr(reading, name) for name in reading.__slots__} for reading in readings)


def _measure(
    io: FileIO, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]], *, cache: str
) -> ReadMeasurement:
    best = [float("inf"), float("inf")]
    for turn in range(RUNS):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            files = (before, after)[side]
            if cache == "cold":
                _drop_pages([path for _, path in files])
            began = time.perf_counter()
            _read_all(io, files)
            best[side] = min(best[side], time.perf_counter() - began)
    return ReadMeasurement(
        cache=cache,
        seconds_before=best[0],
        seconds_after=best[1],
        files_before=len(before),
        files_after=len(after),
        runs=RUNS,
        engine="pyarrow, all columns, one thread",
    )


def _read_all(io: FileIO, files: Sequence[tuple[str, str]]) -> None:
    for file_format, path in files:
        kernel_of(file_format).read_through(io, path)


def _drop_pages(paths: Sequence[str]) -> None:
    for path in paths:
        if scheme_of(path) != "file":
            continue  # another machine's cache is not ours to empty; its cold reads are warm ones
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # dirty pages cannot be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
