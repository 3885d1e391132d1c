"""Which statistics a written file may carry for columns of floating-point numbers: the one rule of all Parquet writers.

Readers skip row groups, and take maxima, from a chunk's smallest and largest value. NaN is in neither, and readers do
not agree where it belongs: Spark, DuckDB, Polars and Java order it after every number, PyArrow nowhere. A reader that
trusts bounds of a chunk with a NaN loses rows of ``x = NaN`` and ``x > 5``, and finds too many of ``x < NaN``. Writers
differ too (PyArrow 26, DuckDB 2, Polars 2, parquet-mr from 1.10 on):

====================================  ===================  ==============
chunk                                 PyArrow, Polars      DuckDB, Spark
====================================  ===================  ==============
numbers                               bounds               bounds
numbers and NaN                       bounds without NaN   none
only NaN                              none                 none
====================================  ===================  ==============

So a chunk that holds a NaN gets no bounds, neither of the chunk nor of its pages. Bounds of other chunks are true in
every order, and every reader finds by them what a full scan finds, with one exception: PyArrow takes ``x < NaN`` for
true if a chunk has no null and states two different bounds. So a merge does not introduce such bounds
(``InputBounds``):

====================================================  =========================================================
an input chunk                                        the merged chunk states
====================================================  =========================================================
states no bounds, and holds more than nulls           none
states one value as both, or has a null               its own if they are one value again, or if it has a null
====================================================  =========================================================

Writers of new rows, which have no such inputs, state what is true.

Bounds that span those of the inputs would not do where these left a NaN out: DuckDB simplifies ``x <> NaN`` by the
bounds of a table that is a single file and not by those of many, so it would be wrong only after the merge.

Zeros have two signs, and -0.0 equals 0.0. Nothing says that a bound is *exact* if it is a zero: a lower bound of 0.0 is
written as -0.0, and DuckDB would show that as the minimum. And nothing says that all pages of a chunk are encoded by
its dictionary (``encoding_stats``) unless its bounds exclude zero: Spark then skips the chunk if the dictionary does
not hold the very zero that is asked for. DuckDB and Polars do not say it either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.parquet.thrift_compact import STRUCT, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

# ColumnChunk, ColumnMetaData
_META_DATA, _COLUMN_INDEX, _STATISTICS, _ENCODING_STATS = 3, (6, 7), 12, 13
# Statistics: the deprecated and the current bounds, and whether the current ones are exact
_NULL_COUNT, _MAX, _MIN = 3, 5, 6
_BOUNDS, _EXACT = (1, 2, _MAX, _MIN), (7, 8)
_SIGN_BYTE: Final = b"\x00\x80"


def float_leaves(schema: pa.Schema) -> tuple[int, ...]:
    """The floating-point columns among the leaves, numbered as in a footer."""
    kinds = (kind for field in schema for kind in _leaf_types(field.type))
    return tuple(at for at, kind in enumerate(kinds) if pt.is_floating(kind))


def nan_leaves(rows: pa.Table) -> frozenset[int]:
    """The leaves that hold a NaN, numbered as in a footer."""
    found, first = set(), 0
    for column in rows.columns:
        kinds = list(_leaf_types(column.type))
        if any(pt.is_floating(kind) for kind in kinds):
            for chunk in column.chunks:
                found |= {first + at for at, leaf in enumerate(_leaves(chunk)) if _holds_nan(leaf)}
        first += len(kinds)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class InputBounds:
    """Of which floating-point leaves, numbered from 0, an input chunk states no bounds, or bounds that PyArrow can use.

    These are ``sound``: they do not make it take ``x < NaN`` for true.
    """

    missing: frozenset[int] = frozenset()
    sound: frozenset[int] = frozenset()

    def __or__(self, other: InputBounds) -> InputBounds:
        """Return what is known of the chunks of both."""
        return InputBounds(self.missing | other.missing, self.sound | other.sound)


def read_input_bounds(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> InputBounds:
    """Look at the chunks of these floating-point leaves."""
    missing, sound = set(), set()
    for at, leaf in enumerate(leaves):
        chunk = group.column(leaf)
        found = chunk.statistics if chunk.is_stats_set else None
        if found is not None and found.has_min_max:
            if found.min_raw == found.max_raw or not found.has_null_count or found.null_count:
                sound.add(at)
        elif found is None or not found.has_null_count or found.null_count < chunk.num_values:
            missing.add(at)
    return InputBounds(frozenset(missing), frozenset(sound))


class BoundsOfRows:
    """The bounds that input chunks state, by the rows of the inputs in their order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._leaves = float_leaves(schema)
        self._spans: deque[tuple[int, InputBounds]] = deque()

    def add(self, group: pq.RowGroupMetaData) -> None:
        """Add the rows of the next row group of the inputs."""
        if self._leaves and group.num_rows:
            self._spans.append((group.num_rows, read_input_bounds(group, self._leaves)))

    def take(self, rows: int) -> InputBounds:
        """Remove this many rows from the front; return what is known of the chunks that they come from."""
        found = InputBounds()
        while rows and self._spans:
            length, bounds = self._spans.popleft()
            found |= bounds
            if length > rows:
                self._spans.appendleft((length - rows, bounds))
            rows -= min(rows, length)
        return found


def keep_true_statistics(chunk: Struct, *, has_bounds: bool, may_state_range: bool) -> None:
    """Apply the rule to a floating-point column's ColumnChunk as PyArrow wrote it."""
    metadata: Struct = chunk[_META_DATA][1]
    statistics: Struct = metadata.get(_STATISTICS, (STRUCT, {}))[1]
    if not has_bounds or (not may_state_range and _is_range_without_nulls(statistics)):
        for number in (*_BOUNDS, *_EXACT):
            statistics.pop(number, None)
        for number in _COLUMN_INDEX:
            chunk.pop(number, None)
    elif any(_is_zero(statistics[number][1]) for number in _BOUNDS if number in statistics):
        for number in _EXACT:
            statistics.pop(number, None)
    if not _excludes_zero(statistics):
        metadata.pop(_ENCODING_STATS, None)


def _is_range_without_nulls(statistics: Struct) -> bool:
    if statistics.get(_NULL_COUNT, (0, 0))[1] or _MAX not in statistics or _MIN not in statistics:
        return False
    low, high = statistics[_MIN][1], statistics[_MAX][1]
    return bool(low != high and not (_is_zero(low) and _is_zero(high)))


def _excludes_zero(statistics: Struct) -> bool:
    """Whether both bounds are above zero or both below; a lower bound of zero has the sign of those below."""
    if _MAX not in statistics or _MIN not in statistics:
        return False
    return bool(statistics[_MAX][1][-1] >> 7 == statistics[_MIN][1][-1] >> 7)


def _is_zero(bound: bytes) -> bool:
    return not bound[:-1].strip(b"\x00") and bound[-1:] in _SIGN_BYTE


def _leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaf_types(kind.storage_type)
    elif pt.is_dictionary(kind):
        yield from _leaf_types(kind.value_type)
    elif pt.is_map(kind):
        yield from _leaf_types(kind.key_type)
        yield from _leaf_types(kind.item_type)
    elif pt.is_nested(kind):
        for at in range(kind.num_fields):
            yield from _leaf_types(kind.field(at).type)
    else:
        yield kind


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The values of each leaf, in the order of ``_leaf_types``; of dictionaries, all that they offer."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(array.storage)
    elif pt.is_dictionary(kind):
        yield from _leaves(array.dictionary)
    elif pt.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pt.is_map(kind):  # keys and items of a slice are those of the whole array
        begin, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        for entries in (array.keys, array.items):
            yield from _leaves(entries.slice(begin, end - begin))
    elif pt.is_nested(kind):
        yield from _leaves(array.flatten())
    else:
        yield array


def _holds_nan(leaf: pa.Array) -> bool:
    if pt.is_float16(leaf.type):  # not every PyArrow computes with it
        return bool(np.isnan(leaf.drop_null().to_numpy(zero_copy_only=False)).any())
    return pt.is_floating(leaf.type) and bool(pc.any(pc.is_nan(leaf)).as_py())
