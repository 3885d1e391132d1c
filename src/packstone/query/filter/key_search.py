"""Which blocklets of a segment a scan must read: by search in the sort keys, and by the vector test of their bounds.

A search costs the same however many blocklets there are, the vector test grows with them. Both are sound, and the
search only narrows the input of the test, so the result is the same either way. The rule: search if the filter bounds
the first sort column, and all searches (ranges of keys x runs of the segment) together cost less than half of the
vector test. A search is estimated to cost as much as testing 4,096 blocklets, so small indexes are only tested. If the
searches leave more than half of the index, in several spans, the whole index is tested.

A search uses a static B+ tree over the sort keys. The blocklets of a run are in the order of their keys: each begins
at or after the end of the previous one. The first keys of all blocklets are the lowest level; each level above has
every 32nd key of the one below, all of them plain arrays. A search compares 32 keys on each level; a million blocklets
have four.

    lowest    0 . . . 31  32 . . . 63  64 . .     first keys of blocklets
    above     0           32           64         first keys of nodes

A locally sorted segment has one run for each task that loaded it, and keys of different runs overlap, so there is a
tree for each run. Runs are detected from the keys, not trusted: an index that is not in order gets more and shorter
runs, and one with a blocklet that begins after its own end gets no tree.

A filter becomes ranges of sort keys. They may hold too much, never too little: both ends are included even if the
filter excludes one, because the vector test that follows is exact.

    sorted by (a, b)      a = 1 AND b < 5       keys from (1, not null) to (1, 5)
                          a IN (1, 7)           keys that begin with 1, keys that begin with 7
                          a IS NULL AND b = 2   the key (null, 2)
                          b < 5, a <> 1         no range: every key may match
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packstone.query.filter.expression import And, Compare, Expression, IsNull, OneOf, Op, Or, StartsWith, ValueSet
from packstone.query.filter.key_bytes import HIGHEST, LOWEST, KeyLayout, Keys, find_layout, is_bytes, next_prefix
from packstone.query.filter.may_match import Index, Positions, may_match

if TYPE_CHECKING:
    from packstone.query.filter.expression import Literal

SEARCH_COST_BLOCKLETS = 4096
_WORTH = 2


class PrunedBy(StrEnum):
    """The method that found the blocklets."""

    TREE = "tree"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruned:
    """The remaining positions in the index, ascending, and how they were found."""

    kept: Positions
    by: PrunedBy
    why: str
    blocklets: int
    searches: int = 0
    tested: int

    def __str__(self) -> str:
        return (
            f"{len(self.kept)} of {self.blocklets} blocklets by {self.by} ({self.why}; "
            f"{self.searches} searches, {self.tested} tested)"
        )


def prune(expression: Expression, index: Index, *, keys: SortedKeys | None = None) -> Pruned:
    """Find the blocklets in which a row may be TRUE; ``build_sorted_keys`` makes the ``keys`` of a sorted segment."""
    if keys is None:
        return _prune_by_test(expression, index, why="not sorted")
    max_ranges = index.num_rows // (_WORTH * SEARCH_COST_BLOCKLETS * keys.run_count)
    if not max_ranges:
        return _prune_by_test(expression, index, why="too small to search" if keys.run_count == 1 else "too many runs")
    ranges = find_key_ranges(expression, keys.columns, max_ranges=max_ranges)
    if ranges is None:
        return _prune_by_test(expression, index, why="no range of sort keys")
    return _prune_by_search(expression, index, keys=keys, ranges=ranges)


def _prune_by_test(expression: Expression, index: Index, *, why: str) -> Pruned:
    kept = np.flatnonzero(may_match(expression, index))
    return Pruned(kept=kept, by=PrunedBy.VECTOR, why=why, blocklets=index.num_rows, tested=index.num_rows)


def _prune_by_search(expression: Expression, index: Index, *, keys: SortedKeys, ranges: Ranges) -> Pruned:
    spans = _union([span for wanted in ranges for span in keys.find(wanted)])
    found, searches = sum(end - begin for begin, end in spans), len(ranges) * keys.run_count
    if len(spans) == 1:
        # Most searches find one span, and a slice is free.
        begin, end = spans[0]
        kept = np.flatnonzero(may_match(expression, index.slice(begin, end - begin))) + begin
    elif found * _WORTH > index.num_rows:
        kept, found = np.flatnonzero(may_match(expression, index)), index.num_rows
    else:
        at = np.concatenate([np.arange(0), *(np.arange(begin, end) for begin, end in spans)])
        kept = at[may_match(expression, index, at=at)]
    why = f"{len(ranges)} range{'s'[: len(ranges) != 1]} of sort keys"
    return Pruned(kept=kept, by=PrunedBy.TREE, why=why, blocklets=index.num_rows, searches=searches, tested=found)


def _union(spans: Sequence[tuple[int, int]]) -> Spans:
    """The union of spans, ascending and without overlaps."""
    joined: Spans = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


FAN_OUT = 32
Spans = list[tuple[int, int]]  # positions from the first (included) to the second (excluded)


class KeyTree:
    """The B+ tree of one run of blocklets, from the keys of their first and last rows, in order."""

    def __init__(self, starts: Keys, ends: Keys) -> None:
        self._ends = ends
        self._levels = [starts]
        while len(self._levels[-1]) > FAN_OUT:
            self._levels.append(np.ascontiguousarray(self._levels[-1][::FAN_OUT]))

    def find(self, lower: Keys, upper: Keys) -> tuple[int, int]:
        """The span of the blocklets that can hold a key from lower to upper, both included.

        Of the blocklets that begin below ``lower`` only the last one can reach it: the others end at or before its
        beginning.
        """
        first = self._count(lower, "left")
        if first and self._ends[first - 1] >= lower[0]:
            first -= 1
        return first, max(first, self._count(upper, "right"))

    @property
    def nbytes(self) -> int:
        """Memory of all levels and of the last keys."""
        return self._ends.nbytes + sum(level.nbytes for level in self._levels)

    def _count(self, key: Keys, side: typing.Literal["left", "right"]) -> int:
        """The number of blocklets that begin below the key (left), or at or below it (right)."""
        found, begin, end = 0, 0, len(self._levels[-1])
        for level in reversed(self._levels):
            found = begin + int(level[begin:end].searchsorted(key, side)[0])
            if not found:
                return 0
            # The last node that begins below the key; all nodes before it are entirely below.
            begin, end = (found - 1) * FAN_OUT, found * FAN_OUT
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKeyRange:
    """Keys whose first columns are ``equal`` and whose next column is from ``low`` to ``high``, both included.

    ``None`` in ``equal`` is a null; ``None`` as a bound means unbounded. Nulls come first, so without ``low`` the next
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
        """The number of runs; a search descends one tree for each."""
        return len(self._trees)

    @property
    def nbytes(self) -> int:
        """Memory, for the cache that keeps this with the index."""
        return sum(tree.nbytes for _, tree in self._trees)

    def find(self, wanted: SortKeyRange) -> Spans:
        """The spans of positions in the index that can hold such keys, ascending, none empty."""
        lower, upper = self._bounds(wanted)
        spans = []
        for begin, tree in self._trees:
            first, last = tree.find(lower, upper)
            if first < last:
                spans.append((begin + first, begin + last))
        return spans

    def _bounds(self, wanted: SortKeyRange) -> tuple[Keys, Keys]:
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
    """Build the trees of an index whose segment is sorted by these columns; None if its keys cannot be searched."""
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


Ranges = tuple[SortKeyRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restriction:
    """The restriction of one column by a filter: these values (None is a null), or a range from low to high."""

    values: tuple[pa.Scalar | None, ...] = ()
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None


def find_key_ranges(
    expression: Expression, columns: Sequence[tuple[str, pa.DataType]], *, max_ranges: int
) -> Ranges | None:
    """At most ``max_ranges`` ranges of sort keys outside of which no row is TRUE; None if the filter has no bounds."""
    if isinstance(expression, Or):
        found: list[SortKeyRange] = []
        for part in expression.parts:
            ranges = find_key_ranges(part, columns, max_ranges=max_ranges - len(found))
            if ranges is None:
                return None
            found += ranges
        return tuple(found)
    if not isinstance(expression, And):
        return _ranges_of_all((expression,), columns, max_ranges)
    choices = (part for part in expression.parts if isinstance(part, Or))
    found_by = (find_key_ranges(part, columns, max_ranges=max_ranges) for part in choices)
    return _ranges_of_all(expression.parts, columns, max_ranges) or next(filter(None, found_by), None)


def _ranges_of_all(
    parts: Sequence[Expression], columns: Sequence[tuple[str, pa.DataType]], max_ranges: int
) -> Ranges | None:
    """Extend the keys column by column while the filter lists values; a range on a column ends them."""
    if max_ranges < 1:
        return None
    prefixes: list[tuple[pa.Scalar | None, ...]] = [()]
    for name, kind in columns:
        restriction = _restrict(parts, name, kind)
        if restriction is None:
            break
        if not restriction.values or len(prefixes) * len(restriction.values) > max_ranges:
            low, high = _hull(restriction)
            return tuple(SortKeyRange(equal=equal, low=low, high=high, skip_nulls=True) for equal in prefixes)
        prefixes = [(*equal, value) for equal in prefixes for value in restriction.values]
    return tuple(SortKeyRange(equal=equal) for equal in prefixes) if prefixes != [()] else None


def _hull(restriction: _Restriction) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """The range of a restriction, or the one around its values, which ascend, if they are too many."""
    if restriction.values:
        return restriction.values[0], restriction.values[-1]
    return restriction.low, restriction.high


def _restrict(parts: Sequence[Expression], name: str, kind: pa.DataType) -> _Restriction | None:
    """Take the shortest list of values that a part gives, else the first bound on each side."""
    known = [found for part in parts for found in _restrictions_of(part, name, kind)]
    if not known:
        return None
    listed = [one for one in known if one.values]
    if listed:
        return min(listed, key=lambda one: len(one.values))
    return _Restriction(
        low=next((one.low for one in known if one.low is not None), None),
        high=next((one.high for one in known if one.high is not None), None),
    )


def _restrictions_of(part: Expression, name: str, kind: pa.DataType) -> Iterator[_Restriction]:
    """Yield the restriction of this column by one part; nothing if it cannot be searched for."""
    match part:
        case Compare(column=column, op=op, literal=value) if column == name and _fits(value, kind) and op is not Op.NE:
            if op is Op.EQ:
                yield _Restriction(values=(value,))
            else:
                yield _Restriction(low=value) if op in {Op.GT, Op.GE} else _Restriction(high=value)
        case OneOf(column=column, literals=ValueSet(array=values), negated=False) if column == name and len(values):
            if _fits(values[0], kind):
                yield _Restriction(values=tuple(values))
        case IsNull(column=column, negated=negated) if column == name:
            yield _Restriction() if negated else _Restriction(values=(None,))
        case StartsWith(column=column, prefix=prefix, negated=False) if column == name and _fits(prefix, kind):
            after = next_prefix(_to_bytes(prefix))
            yield _Restriction(low=prefix, high=None if after is None else pa.scalar(after, pa.binary()))
        case _:
            return


def _to_bytes(prefix: Any) -> bytes:
    return prefix.cast(pa.binary()).as_py()


def _fits(value: Literal | pa.Scalar, kind: pa.DataType) -> bool:
    return isinstance(value, pa.Scalar) and (value.type == kind or (is_bytes(value.type) and is_bytes(kind)))
