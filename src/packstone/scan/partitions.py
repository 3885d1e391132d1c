"""Row groups to splits of about the same size.

Every file costs a fixed number of bytes more than it has, for opening it. A split should have
``min(128 MB, max(open cost, all / parallelism))``, as in CarbonData's merge_small_files (research notes 5.2) and in
Spark; that says how many splits there are. They fill one after the other there, and the last is what is left over; here
the largest piece goes first, and each to the split that has least so far, so that none is waited for. A file that is
larger than a split is cut between row groups.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from packstone.scan.scan_plan import ScanFile

MAX_SPLIT_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 4 << 20


def split_files(
    files: Sequence[ScanFile],
    *,
    group_bytes: Sequence[Sequence[int]],
    parallelism: int | None = None,
    max_split_bytes: int = MAX_SPLIT_BYTES,
    open_cost_bytes: int = OPEN_COST_BYTES,
) -> tuple[tuple[ScanFile, ...], ...]:
    """Deal files to splits; ``group_bytes`` are the sizes of each file's row groups (none known: it stays whole)."""
    total, tasks = sum(file.read_bytes + open_cost_bytes for file in files), parallelism or os.cpu_count() or 1
    target = min(max_split_bytes, max(open_cost_bytes, -(-total // tasks)))
    pieces = [piece for file, sizes in zip(files, group_bytes, strict=True) for piece in _cut(file, sizes, target)]
    return _deal(pieces, -(-total // target), max_bytes=max_split_bytes, open_cost_bytes=open_cost_bytes)


def _deal(
    pieces: Sequence[ScanFile], count: int, *, max_bytes: int, open_cost_bytes: int
) -> tuple[tuple[ScanFile, ...], ...]:
    """Each piece, the largest first, to the split with the fewest bytes; to a new one if it does not fit there."""
    splits: list[list[ScanFile]] = [[] for _ in range(count)]
    filled = [(0, at) for at in range(count)]
    for piece in sorted(pieces, key=lambda piece: -piece.read_bytes):
        size_bytes, at = filled[0]
        if splits[at] and size_bytes + piece.read_bytes > max_bytes:
            at = len(splits)
            splits.append([])
            heapq.heappush(filled, (piece.read_bytes + open_cost_bytes, at))
        else:
            heapq.heapreplace(filled, (size_bytes + piece.read_bytes + open_cost_bytes, at))
        splits[at].append(piece)
    return tuple(tuple(split) for split in splits if split)


def _cut(file: ScanFile, sizes: Sequence[int], target_bytes: int) -> Iterator[ScanFile]:
    if file.read_bytes <= target_bytes or len(sizes) < 2:  # noqa: PLR2004 - one row group cannot be cut
        yield file
        return
    first, filled = 0, 0
    for at, size in enumerate(sizes):
        if at > first and filled + size > target_bytes:
            yield _part(file, first, at, read_bytes=filled)
            first, filled = at, 0
        filled += size
    yield _part(file, first, len(sizes), read_bytes=filled)


def _part(file: ScanFile, begin: int, end: int, *, read_bytes: int) -> ScanFile:
    groups = file.row_groups[begin:end]
    return replace(
        file,
        row_groups=groups,
        row_counts=file.row_counts[begin:end],
        must_match=tuple(group for group in file.must_match if group in groups),
        read_bytes=read_bytes,
    )
