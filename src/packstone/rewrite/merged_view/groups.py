"""Rows grouped by the 128-bit hash of their key, and the newest or oldest record of each group.

Grouping sorts one word a row: the top bits of the first lane, and the row's number in the bits below. Sorting plain
words takes a third of the time of sorting numbers by them, and leaves each group in the order in which its rows came.
Two keys that share those top bits may stand mixed up; that is seen, since whole keys are compared afterwards, and the
rare part where it happens is sorted again by all 128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packstone.rewrite.merged_view.order_codes import Codes, Mask
from packstone.rewrite.proof.value_hash import I64, U64

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Numbers of rows, group after group; ``starts`` says where in ``rows`` each group begins. None is empty."""

    rows: I64
    starts: I64

    @property
    def counts(self) -> I64:
        """The number of rows of each group."""
        return np.diff(self.starts, append=len(self.rows))

    @property
    def lasts(self) -> I64:
        """The place of the last row of each group."""
        return np.append(self.starts, len(self.rows))[1:] - 1

    def spread(self, per_group: Codes) -> Codes:
        """Repeat a value of each group for all its rows."""
        return np.repeat(per_group, self.counts)

    def only_rows(self, keep: Mask) -> Groups:
        """Leave out rows, by place; groups that lose all of them vanish."""
        group = np.repeat(np.arange(len(self.starts)), self.counts)[keep]
        begins = np.ones(len(group), dtype=np.bool_)
        begins[1:] = group[1:] != group[:-1]
        return Groups(rows=self.rows[keep], starts=np.flatnonzero(begins))

    def only_groups(self, keep: Mask) -> Groups:
        """Leave out whole groups."""
        counts = self.counts
        ends = np.cumsum(counts[keep])
        return Groups(rows=self.rows[np.repeat(keep, counts)], starts=ends - counts[keep])


def group_by_key(lo: U64, hi: U64) -> Groups:
    """Bring rows of one key together, in the order in which they came."""
    rows = len(lo)
    if not rows:
        return Groups(rows=np.empty(0, dtype=np.int64), starts=np.empty(0, dtype=np.int64))
    number_bits = np.uint64(rows.bit_length())
    numbers = np.arange(rows, dtype=np.uint64)
    packed = (lo >> number_bits << number_bits) | numbers
    packed.sort()
    order = (packed & ((np.uint64(1) << number_bits) - np.uint64(1))).view(np.int64)
    begins = _find_begins(lo, hi, order)
    packed >>= number_bits
    if (begins[1:] & (packed[1:] == packed[:-1])).any():
        order = np.lexsort((hi, lo))
        begins = _find_begins(lo, hi, order)
    return Groups(rows=order, starts=np.flatnonzero(begins))


def _find_begins(lo: U64, hi: U64, order: I64) -> Mask:
    sorted_lo, sorted_hi = lo.take(order), hi.take(order)
    begins = np.ones(len(order), dtype=np.bool_)
    np.not_equal(sorted_lo[1:], sorted_lo[:-1], out=begins[1:])
    begins[1:] |= sorted_hi[1:] != sorted_hi[:-1]
    return begins


def pick_rows(groups: Groups, versions: Sequence[Codes], *, newest: bool) -> I64:
    """Return the number of one row of each group: greatest (or smallest) by the versions, the first deciding most.

    Of records equal in all versions the one that came last is the newest, the one that came first the oldest.
    """
    best = np.maximum if newest else np.minimum
    for version in versions:
        if len(groups.starts) == len(groups.rows):
            break
        values = version.take(groups.rows)
        keep = values == groups.spread(best.reduceat(values, groups.starts))
        kept = np.cumsum(keep)
        ends = kept[groups.lasts]
        groups = Groups(rows=groups.rows[keep], starts=np.concatenate(([0], ends[:-1])))
    return groups.rows[groups.lasts if newest else groups.starts]


def sort_versions(groups: Groups, versions: Sequence[Codes]) -> Groups:
    """Sort the rows of each group from the oldest to the newest."""
    group = np.repeat(np.arange(len(groups.starts)), groups.counts)
    keys = [group, *(version.take(groups.rows) for version in versions)]
    if _is_sorted(keys):
        return groups
    return Groups(rows=groups.rows[np.lexsort(keys[::-1])], starts=groups.starts)


def _is_sorted(keys: list[Codes]) -> bool:
    """Say whether neighbours are in order, which is common: runs tend to come from the oldest to the newest."""
    undecided = np.ones(max(0, len(keys[0]) - 1), dtype=np.bool_)
    for key in keys:
        if (undecided & (key[:-1] > key[1:])).any():
            return False
        undecided &= key[:-1] == key[1:]
    return True
