"""A static B+ tree over the sort keys of blocklets: which of them can hold keys from here to there.

The blocklets of a run follow each other in the order of their keys: each begins where the one before it ended, or
behind. The first keys of all blocklets are the lowest level; each level above has every 32nd key of the one below,
all of them plain arrays. A search looks at 32 keys on each of its levels, four of them for a million blocklets.

    lowest    0 . . . 31  32 . . . 63  64 . .     first keys of blocklets
    above     0           32           64         first keys of nodes

A locally sorted segment has one run for each task that loaded it, and keys of different runs overlap: then there is a
tree for each run. Runs are found in the keys, not believed: an index that is not in order gets more and shorter runs,
and one in which a blocklet begins behind its end gets no tree at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa

from packstone.pruning.key_bytes import HIGHEST, LOWEST, KeyLayout, Keys, find_layout

FAN_OUT = 32
Spans = list[tuple[int, int]]  # positions from here up to, not with, there


class KeyTree:
    """One run of blocklets by the keys of their first and last rows, in order."""

    def __init__(self, starts: Keys, ends: Keys) -> None:
        self._ends = ends
        self._levels = [starts]
        while len(self._levels[-1]) > FAN_OUT:
            self._levels.append(np.ascontiguousarray(self._levels[-1][::FAN_OUT]))

    def find(self, lower: Keys, upper: Keys) -> tuple[int, int]:
        """First and behind-the-last position of the blocklets that can hold a key from lower to upper, both included.

        Of the blocklets that begin below ``lower`` only the last one can reach it: the others end where that one
        begins, or before.
        """
        first = self._count(lower, "left")
        if first and self._ends[first - 1] >= lower[0]:
            first -= 1
        return first, max(first, self._count(upper, "right"))

    @property
    def nbytes(self) -> int:
        """Memory of all levels, and of the last keys."""
        return self._ends.nbytes + sum(level.nbytes for level in self._levels)

    def _count(self, key: Keys, side: Literal["left", "right"]) -> int:
        """How many blocklets begin below the key (left), or below or at it (right)."""
        found, begin, end = 0, 0, len(self._levels[-1])
        for level in reversed(self._levels):
            found = begin + int(level[begin:end].searchsorted(key, side)[0])
            if not found:
                return 0
            # The last node that begins below the key; all nodes before it are below as a whole.
            begin, end = (found - 1) * FAN_OUT, found * FAN_OUT
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Keys whose first columns are ``equal`` and whose next column is from ``low`` to ``high``, both included.

    ``None`` in ``equal`` is a null; ``None`` as a bound is no bound. Nulls come first, so without ``low`` the next
    column may be null, unless ``skip_nulls``.
    """

    equal: tuple[pa.Scalar | None, ...] = ()
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    skip_nulls: bool = False


class SortedKeys:
    """The keys of a segment's index: a tree for each of its runs."""

    def __init__(self, layout: KeyLayout, columns: Sequence[str], trees: Sequence[tuple[int, KeyTree]]) -> None:
        self.columns = tuple((name, how.kind) for name, how in zip(columns, layout.columns, strict=False))
        self._layout = layout
        self._trees = tuple(trees)

    @property
    def run_count(self) -> int:
        """How many runs there are; a search costs so many walks down a tree."""
        return len(self._trees)

    @property
    def nbytes(self) -> int:
        """Memory, for the cache that keeps this beside the index."""
        return sum(tree.nbytes for _, tree in self._trees)

    def find(self, wanted: KeyRange) -> Spans:
        """Spans of positions in the index that can hold such keys, ascending, none empty."""
        lower, upper = self._bounds(wanted)
        spans = []
        for begin, tree in self._trees:
            first, last = tree.find(lower, upper)
            if first < last:
                spans.append((begin + first, begin + last))
        return spans

    def _bounds(self, wanted: KeyRange) -> tuple[Keys, Keys]:
        lows, highs = [*wanted.equal], [*wanted.equal]
        if wanted.low is not None:
            lows.append(wanted.low)
        if wanted.high is not None:
            highs.append(wanted.high)
        skip_nulls = wanted.low is None and wanted.skip_nulls
        return (
            self._layout.encode_bound(lows, fill=LOWEST, skip_nulls=skip_nulls),
            self._layout.encode_bound(highs, fill=HIGHEST),
        )


def build_sorted_keys(index: pa.Table, sort_columns: Sequence[str]) -> SortedKeys | None:
    """Make the trees of an index whose segment was sorted by these columns; None if its keys cannot be searched."""
    names = list(_known_columns(index, sort_columns))
    edges = [[_whole(index.column(f"{end}.{name}")) for end in ("start", "end")] for name in names]
    layout = find_layout(edges)
    if layout is None or not index.num_rows:
        return None
    starts, ends = (layout.encode([pair[at] for pair in edges]) for at in (0, 1))
    if (starts > ends).any():
        return None
    cuts = [0, *(np.flatnonzero(ends[:-1] > starts[1:]) + 1).tolist(), index.num_rows]
    trees = [(begin, KeyTree(starts[begin:end], ends[begin:end])) for begin, end in pairwise(cuts)]
    return SortedKeys(layout, names, trees)


def _known_columns(index: pa.Table, sort_columns: Sequence[str]) -> Iterator[str]:
    """The sort columns up to the first whose keys the index does not have."""
    names = set(index.column_names)
    for name in sort_columns:
        if f"start.{name}" not in names or f"end.{name}" not in names:
            return
        yield name


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
