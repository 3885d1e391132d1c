"""Aggregate functions whose result is one of the values: numbers of rows are folded, and the value is fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge.key_order import Bools
from packstone.rewrite.merge.key_words import I64, to_integers
from packstone.rewrite.merge.merge_spec import ColumnAggregate
from packstone.rewrite.merge.merge_versions import Step, Versions


def _any_type(_kind: pa.DataType) -> bool:
    return True


def _comparable(kind: pa.DataType) -> bool:
    return not pt.is_nested(kind)


# Each with a test of the types it takes.
ROW_FUNCTIONS: dict[str, Callable[[pa.DataType], bool]] = {
    "primary-key": _any_type,
    "last_value": _any_type,
    "last_non_null_value": _any_type,
    "first_value": _any_type,
    "first_non_null_value": _any_type,
    "max": _comparable,
    "min": _comparable,
}


def fold_rows(versions: Versions, column: pa.Array, function: ColumnAggregate, *, removes: bool) -> I64:
    """Tell from which row the value of each merged key comes; -1 for null."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    fold = _Fold(versions.count, valid, ignore_retract=function.ignore_retract)
    if function.function in {"max", "min"}:
        fold.ranks = _ranks(column)
    steps = getattr(fold, f"step_{function.function.replace('-', '_')}")
    for step in versions.steps:
        deleted = step.delete if removes else np.zeros(len(step.rows), dtype=bool)
        fold.source[step.keys[deleted]] = step.rows[deleted]
        steps(step, ~deleted)
    return np.where((fold.source >= 0) & valid[fold.source], fold.source, -1)


class _Fold:
    """Where each key's value comes from, so far."""

    def __init__(self, keys: int, valid: Bools, *, ignore_retract: bool) -> None:
        self.source = np.full(keys, -1, dtype=np.int64)
        self.ranks: np.ndarray[Any, Any] = np.empty(0)
        self._valid = valid
        self._started = np.zeros(keys, dtype=bool)
        self._ignore_retract = ignore_retract

    def step_primary_key(self, step: Step, active: Bools) -> None:
        if self._ignore_retract:
            active = active & ~step.retract
        self._set(step, active)

    def step_last_value(self, step: Step, active: Bools) -> None:
        self._set(step, active & ~step.retract)
        self._clear(step, active & step.retract)

    def step_last_non_null_value(self, step: Step, active: Bools) -> None:
        known = active & self._valid[step.rows]
        self._set(step, known & ~step.retract)
        self._clear(step, known & step.retract)

    def step_first_value(self, step: Step, active: Bools) -> None:
        adds = active & ~step.retract
        self._set(step, adds & ~self._started[step.keys])
        self._started[step.keys[adds]] = True

    def step_first_non_null_value(self, step: Step, active: Bools) -> None:
        adds = active & ~step.retract & self._valid[step.rows]
        self._set(step, adds & ~self._started[step.keys])
        self._started[step.keys[adds]] = True

    def step_max(self, step: Step, active: Bools) -> None:
        adds, held = self._compared(step, active)
        self._set(step, adds & (~self._has(held) | (self.ranks[held] < self.ranks[step.rows])))

    def step_min(self, step: Step, active: Bools) -> None:
        adds, held = self._compared(step, active)
        self._set(step, adds & (~self._has(held) | (self.ranks[held] >= self.ranks[step.rows])))

    def _compared(self, step: Step, active: Bools) -> tuple[Bools, I64]:
        return active & ~step.retract & self._valid[step.rows], self.source[step.keys]

    def _has(self, held: I64) -> Bools:
        return (held >= 0) & self._valid[held]

    def _set(self, step: Step, which: Bools) -> None:
        self.source[step.keys[which]] = step.rows[which]

    def _clear(self, step: Step, which: Bools) -> None:
        if not self._ignore_retract:
            self.source[step.keys[which]] = -1


def _ranks(column: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers that compare as the values do; those of nulls mean nothing."""
    kind = column.type
    if pt.is_integer(kind) or pt.is_temporal(kind) or pt.is_floating(kind):
        return to_integers(column)
    if pt.is_boolean(kind):
        return to_integers(column.fill_null(fill_value=False))
    if pt.is_string(kind):
        column = column.cast(pa.binary())
    return pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False)
