"""Records of keys that have several, by age: the oldest of all keys at once, then the second oldest, and so on.

Folding oldest to newest this way gives the very bits that a reader gets who merges record by record; a key occurs at
most once in a run, so there are no more steps than runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from packstone.rewrite.merge.key_order import Bools
from packstone.rewrite.merge.key_words import I64
from packstone.rewrite.merge.merge_spec import RowKind
from packstone.rewrite.merge.merge_window import Window
from packstone.rewrite.numpy_columns import to_column


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The k-th records of all keys that have so many."""

    keys: I64  # which of the keys with several records
    rows: I64  # where the record is, in the order in which the rows came
    retract: Bools
    delete: Bools


class Versions:
    """The keys of a window that have several records, step by step."""

    def __init__(self, window: Window) -> None:
        counts = window.counts
        self.window = window
        self.merged = np.flatnonzero(counts > 1)  # numbers of the keys in the window
        self.count = len(self.merged)
        self._starts, self._counts = window.starts[self.merged], counts[self.merged]
        kinds = window.kinds
        self.steps = [self._step(at, kinds) for at in range(int(self._counts.max(initial=0)))]
        self.has_retracts = any(step.retract.any() for step in self.steps)

    def _step(self, at: int, kinds: np.ndarray[Any, np.dtype[np.int8]]) -> Step:
        keys = np.flatnonzero(self._counts > at)
        rows = self.window.order[self._starts[keys] + at]
        return Step(keys=keys, rows=rows, retract=(kinds[rows] & 1) == 1, delete=kinds[rows] == RowKind.DELETE)

    @property
    def newest(self) -> I64:
        """The last record of every key of the window, also of those with one only."""
        return self.window.order[self.window.ends]

    def place(self, column: pa.Array, merged: I64 | pa.Array) -> pa.Array:
        """Put merged values among the keys with one record: rows of the column (-1 for null), or new values."""
        rows = self.newest
        if isinstance(merged, np.ndarray):
            rows[self.merged] = merged
            missing = rows < 0
            return column.take(to_column(rows, missing=missing if missing.any() else None))
        rows[self.merged] = np.arange(len(column), len(column) + self.count)
        return pa.concat_arrays([column, merged.cast(column.type)]).take(to_column(rows))
