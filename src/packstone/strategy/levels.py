"""From the files of a bucket to its sorted runs, newest first.

Every file of level 0 is a run; all files of a higher level are one run. On level 0 the newest comes first: the larger
highest sequence number; among equals the smaller lowest one, then the earlier creation, then the name (two jobs may
write equal sequence numbers, apache/paimon#5872).

    L0 a [1-9] 1B seq=98-100   L0 b [1-9] 1B seq=99-100   L1 c [1-4] 2B   L1 d [5-9] 3B
    runs: L0 a 1B   L0 b 1B   L1 c+d 5B

Source: Apache Paimon `Levels`, `SortedRun` (research notes 1.1).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError
from packstone.model.sorted_run import SortedRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packstone.model.sorted_run import TreeFile


def sort_runs(files: Iterable[TreeFile]) -> tuple[SortedRun, ...]:
    """Order the files of a bucket as a strategy wants them; overlapping keys within a level are corruption."""
    by_level: dict[int, list[TreeFile]] = {}
    for file in files:
        by_level.setdefault(file.level, []).append(file)
    fresh = sorted(
        by_level.pop(0, ()), key=lambda file: (-file.max_sequence, file.min_sequence, file.created_ms, file.name)
    )
    runs = [_run((file,)) for file in fresh]
    for level in sorted(by_level):
        members = tuple(sorted(by_level[level], key=lambda file: file.min_key))
        check_no_overlap(members)
        runs.append(_run(members))
    return tuple(runs)


def check_no_overlap(files: Sequence[TreeFile]) -> None:
    """Raise if two files of one sorted run share a key; readers would return both versions."""
    for file, following in pairwise(files):
        if not file.max_key < following.min_key:
            raise CorruptionError(
                f"Files {file.name} and {following.name} overlap on level {file.level}; do not compact this bucket.",
                files=(file.name, following.name),
            )


def highest_level(files: Iterable[TreeFile]) -> int:
    """The highest level that holds a file; -1 if there is none."""
    return max((file.level for file in files), default=-1)


def _run(files: tuple[TreeFile, ...]) -> SortedRun:
    if len(files) == 1:  # nearly all of level 0
        return SortedRun(level=files[0].level, size_bytes=files[0].size_bytes, name=files[0].name, files=files)
    return SortedRun(
        level=files[0].level,
        size_bytes=sum(file.size_bytes for file in files),
        name="+".join(file.name for file in files),
        files=files,
    )
