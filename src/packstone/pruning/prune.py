"""Which blocklets of a segment a scan must read: by search in the sort keys, and by the vector test of their bounds.

A search costs the same however many blocklets there are, the vector test grows with them; both are sound, and the
search only narrows what the test looks at, so the answer is the same either way. The rule: search if the filter
confines the first sort column, and all searches (ranges of keys x runs of the segment) together cost less than half
of the vector test. A search is reckoned as much as the test of 4,096 blocklets, so small indexes are just tested.
What the searches left is tested as a whole, if it is more than half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from packstone.pruning.blocklet_facts import Index, Positions
from packstone.pruning.expression import Expression
from packstone.pruning.key_ranges import Ranges, find_key_ranges
from packstone.pruning.key_tree import SortedKeys, Spans
from packstone.pruning.may_match import may_match

SEARCH_COST_BLOCKLETS = 4096
_WORTH = 2


class PrunedBy(StrEnum):
    """What found the blocklets."""

    TREE = "tree"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruned:
    """The positions in the index that are left, ascending, and how they were found."""

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
    """Find the blocklets in which a row may be TRUE; ``keys`` of a sorted segment are made by ``build_sorted_keys``."""
    if keys is None:
        return _prune_by_test(expression, index, why="not sorted")
    most = index.num_rows // (_WORTH * SEARCH_COST_BLOCKLETS * keys.run_count)
    if not most:
        return _prune_by_test(expression, index, why="too small to search" if keys.run_count == 1 else "too many runs")
    ranges = find_key_ranges(expression, keys.columns, most=most)
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
        # Most searches find one span, and a slice costs nothing.
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
    """Spans without overlaps, ascending."""
    joined: Spans = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
