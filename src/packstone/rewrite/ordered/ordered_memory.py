"""Which runs of a merge may be open side by side, and how much of each is held, within the memory of a task.

An open Parquet file holds pages and dictionaries; a cursor holds up to three batches, each at least a row. Runs for
which there is no room are sorted anew with the rest of the unsorted rows: that is bounded by itself, costs little more
than a copy to local disk, and leaves few runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.rewrite.ordered.ordered_spec import OrderedRun
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.held_bytes import held_bytes

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MAX_BATCH_BYTES = 8 << 20
_MIN_BATCH_BYTES = 64 << 10
_BATCHES_PER_CURSOR = 3
# Of the memory that is counted here a process takes about half as much again: see merge_memory.
_COUNTED_SHARE = 0.64
_OPEN_SHARE = 0.6
_OPEN_SHARE_BESIDE_SORTER = 0.2
_BATCH_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShares:
    """Runs that are read side by side, in batches of so many bytes, and runs that are sorted anew."""

    kept: tuple[OrderedRun, ...]
    sorted_anew: tuple[OrderedRun, ...]
    batch_bytes: int


def share_runs(io: FileIO, runs: Sequence[OrderedRun], memory_bytes: int, *, beside_sorter: bool) -> RunShares:
    """Keep as many bytes of runs open as fit; ``beside_sorter``: other rows will be sorted in any case."""
    counted = memory_bytes * _COUNTED_SHARE
    costs = [_cost(io, run) for run in runs]
    room = counted * (_OPEN_SHARE_BESIDE_SORTER if beside_sorter else _OPEN_SHARE)
    if sum(costs) > room:
        room = counted * _OPEN_SHARE_BESIDE_SORTER
    kept, used = set(), 0
    # The most bytes for their room first: what is left over has to be sorted.
    for at in sorted(range(len(runs)), key=lambda at: costs[at] / max(1, sum(file.size_bytes for file in runs[at]))):
        if used + costs[at] <= room:
            kept.add(at)
            used += costs[at]
    batch = int(counted * _BATCH_SHARE) // (_BATCHES_PER_CURSOR * max(1, len(kept)))
    return RunShares(
        kept=tuple(run for at, run in enumerate(runs) if at in kept),
        sorted_anew=tuple(run for at, run in enumerate(runs) if at not in kept),
        batch_bytes=min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, batch)),
    )


def _cost(io: FileIO, run: OrderedRun) -> int:
    """Estimate what an open run holds at least; its first file speaks for it."""
    with open_parquet(io, run[0].path) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return 0
        group = metadata.row_group(0)
        width = group.total_byte_size // max(1, group.num_rows)
        return held_bytes(group) + _BATCHES_PER_CURSOR * max(_MIN_BATCH_BYTES, width)
