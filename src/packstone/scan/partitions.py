"""Row groups to splits of about the same size.

The rule of CarbonData's merge_small_files (research notes 5.2), which is Spark's own: every file costs a fixed number
of bytes more than it has, for opening it; a split is full at ``min(128 MB, max(open cost, all / parallelism))``; the
largest pieces go first, and a split is closed when the next piece would not fit. A file that is larger than a split is
cut between row groups.
"""

from __future__ import annotations

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
    total = sum(file.read_bytes + open_cost_bytes for file in files)
    target = min(max_split_bytes, max(open_cost_bytes, total // (parallelism or os.cpu_count() or 1)))
    pieces = [piece for file, sizes in zip(files, group_bytes, strict=True) for piece in _cut(file, sizes, target)]
    return pack_pieces(
        sorted(pieces, key=lambda piece: -piece.read_bytes), target_bytes=target, open_cost_bytes=open_cost_bytes
    )


def pack_pieces(
    pieces: Sequence[ScanFile], *, target_bytes: int, open_cost_bytes: int
) -> tuple[tuple[ScanFile, ...], ...]:
    """Fill splits one after the other."""
    splits: list[tuple[ScanFile, ...]] = []
    current: list[ScanFile] = []
    filled = 0
    for piece in pieces:
        if current and filled + piece.read_bytes > target_bytes:
            splits.append(tuple(current))
            current, filled = [], 0
        current.append(piece)
        filled += piece.read_bytes + open_cost_bytes
    if current:
        splits.append(tuple(current))
    return tuple(splits)


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
