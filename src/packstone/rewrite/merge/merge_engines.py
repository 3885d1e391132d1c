"""Merge engines: how the records of a key become one, as operations on whole columns of a window.

A key with exactly one record passes through unchanged, its kind included; so do the rows of a section with one run,
which never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from packstone.errors import RefusedError
from packstone.rewrite.merge.aggregate import Aggregation
from packstone.rewrite.merge.key_words import I64
from packstone.rewrite.merge.merge_spec import MergeEngine, MergeSpec
from packstone.rewrite.merge.merge_window import Window
from packstone.rewrite.merge.partial_update import PartialUpdate

Engine: TypeAlias = Callable[[Window], pa.RecordBatch]


def make_engine(spec: MergeSpec, schema: pa.Schema) -> Engine:
    """Choose the engine; what is not supported is refused by its name."""
    options = spec.engine
    match options.name:
        case MergeEngine.DEDUPLICATE.value:
            return lambda window: _gather(window, _newest(window, ignore_delete=options.ignore_delete), spec)
        case MergeEngine.FIRST_ROW.value:
            if spec.sequence_columns:
                raise RefusedError("first-row knows no sequence.field.")
            return lambda window: _gather(window, _oldest(window, ignore_delete=options.ignore_delete), spec)
        case MergeEngine.PARTIAL_UPDATE.value:
            return PartialUpdate(spec, schema).merge
        case MergeEngine.AGGREGATION.value:
            return Aggregation(spec, schema).merge
        case _:
            raise RefusedError(f"The merge engine {options.name} is not supported.")


def _gather(window: Window, rows: I64, spec: MergeSpec) -> pa.RecordBatch:
    """Fetch the rows; those that will be dropped are not even fetched."""
    if spec.drop_deletes:
        rows = rows[(window.kinds[rows] & 1) == 0]
    return window.gather(rows)


def _newest(window: Window, *, ignore_delete: bool) -> I64:
    """The last record of each key; with ignore_delete the last that adds, and no row where none does."""
    if not ignore_delete:
        return window.newest()
    eligible = _adds_or_single(window)
    at = np.where(eligible, np.arange(window.rows), -1)
    last = np.maximum.reduceat(at, window.starts)
    return window.order[last[last >= window.starts]]


def _oldest(window: Window, *, ignore_delete: bool) -> I64:
    """The first record of each key; a retract among several is an error unless deletes are ignored."""
    eligible = _adds_or_single(window)
    if eligible.all():
        return window.order[window.starts]
    if not ignore_delete:
        raise RefusedError("first-row cannot merge delete or update-before records; set ignore-delete on the table.")
    at = np.where(eligible, np.arange(window.rows), window.rows)
    first = np.minimum.reduceat(at, window.starts)
    return window.order[first[first <= window.ends]]


def _adds_or_single(window: Window) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    adds = (window.kinds[window.order] & 1) == 0
    adds[window.starts[window.counts == 1]] = True
    return adds
