"""The records of keys that have several, as columns, and questions about all keys at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from packstone.rewrite.merged_view.groups import Groups
from packstone.rewrite.merged_view.order_codes import Codes, Mask
from packstone.rewrite.proof.value_hash import I64


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records, those that a merge takes or those that it leaves: values, sequence number and kind."""

    columns: list[pa.Array]
    sequence: I64
    kind: Codes


class Versions:
    """The records of keys that have several, key after key, each from the oldest to the newest."""

    def __init__(self, records: Records, groups: Groups) -> None:
        kind = records.kind
        self.columns, self.sequence, self.kind = records.columns, records.sequence, kind
        self.firsts, self.lasts = groups.starts, groups.lasts
        self.places = np.arange(len(kind))
        self.group = np.repeat(np.arange(len(groups.starts)), groups.counts)
        self.is_retract: Mask = kind & 1 == 1

    def last_where(self, mask: Mask) -> I64:
        """The last place of each group for which the mask holds, or -1."""
        return np.maximum.reduceat(np.where(mask, self.places, -1), self.firsts)

    def first_where(self, mask: Mask) -> I64:
        """The first place of each group for which the mask holds, or -1."""
        end = len(self.places)
        found = np.minimum.reduceat(np.where(mask, self.places, end), self.firsts)
        return np.where(found == end, -1, found)


def take_places(column: pa.Array, places: I64) -> pa.Array:
    """Gather values; a place below 0 gives a null."""
    return column.take(pa.array(places, mask=places < 0))
