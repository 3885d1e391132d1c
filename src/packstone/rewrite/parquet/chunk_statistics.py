"""The statistics of column chunks put behind each other: the least minimum, the greatest maximum, the nulls added up.

Readers skip row groups by these numbers, so a wrong one loses rows in queries: a bound is written only where the order
of the column's type is beyond doubt and every chunk tells its own. PyArrow has then already dropped what old writers
got wrong (it knows them by ``created_by``). A bound may be a shortened one, so nothing is said about exactness.

===================================  =====================================================
type                                 order
===================================  =====================================================
integers, dates, times, booleans     as signed numbers; unsigned where the type says so
float, double                        as numbers; none at all if a bound, or a value, is NaN,
                                     nor a range made of single values (see ``float_statistics``)
strings and bytes, UUID              byte by byte, unsigned
decimals as bytes                    as signed big-endian numbers
INT96, half floats, intervals, ...   no bounds
===================================  =====================================================
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

from packstone.rewrite.parquet.thrift_compact import BINARY, I64, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.parquet as pq

_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_WIDTHS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_BYTEWISE = frozenset({"NONE", "STRING", "ENUM", "JSON", "BSON", "UUID"})
_NUMERIC = frozenset({"NONE", "DATE", "TIME", "TIMESTAMP", "INT", "DECIMAL"})


class MergedStatistics:
    """What is known of the chunks added so far."""

    __slots__ = ("_key", "_max", "_min", "_null_count", "_of_single", "_physical")

    def __init__(self, column: pq.ColumnSchema) -> None:
        self._physical = column.physical_type
        self._key = _order_of(column)
        self._null_count: int | None = 0
        self._min: Any = None
        self._max: Any = None
        self._of_single = False  # whether some chunk states the same value as both bounds

    def add(self, chunk: pq.ColumnChunkMetaData, *, holds_nan: bool = False) -> None:
        """Take in one chunk's statistics; bounds leave a NaN out, see ``float_statistics``."""
        found = chunk.statistics if chunk.is_stats_set else None
        nulls = found.null_count if found is not None and found.has_null_count else None
        self._null_count = None if self._null_count is None or nulls is None else self._null_count + nulls
        if self._key is None or nulls == chunk.num_values:
            return  # nothing but nulls: no bounds, and none needed
        if found is None or not found.has_min_max or holds_nan:
            self._key = None
            return
        low, high = found.min_raw, found.max_raw
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            self._key = None
            return
        self._of_single |= low == high
        self._min = low if self._min is None else min(self._min, low, key=self._key)
        self._max = high if self._max is None else max(self._max, high, key=self._key)

    def to_struct(self) -> Struct:
        """Return the Statistics struct; empty if nothing is known."""
        told: Struct = {}
        if self._null_count is not None:
            told[_NULL_COUNT] = I64, self._null_count
        if self._key is not None and self._min is not None and not self._is_introduced_range():
            low, high = self._min, self._max
            if isinstance(low, float):  # zeros have two signs, and a bound must be below or above both
                low, high = low or -0.0, high or 0.0
            told[_MAX_VALUE] = BINARY, self._encode(high)
            told[_MIN_VALUE] = BINARY, self._encode(low)
        return told

    def _is_introduced_range(self) -> bool:
        is_range = self._min != self._max and not self._null_count
        return self._physical in _FLOATS and self._of_single and is_range

    def _encode(self, value: Any) -> bytes:  # noqa: ANN401 - of the column's type
        return value if isinstance(value, bytes) else struct.pack(_WIDTHS[self._physical], value)


def _order_of(column: pq.ColumnSchema) -> Callable[[Any], Any] | None:
    """The key by which values of a column's type are compared; none where the order is unknown."""
    physical, logical = column.physical_type, column.logical_type.type
    if physical in ("INT32", "INT64") and logical in _NUMERIC:
        is_signed = logical != "INT" or json.loads(column.logical_type.to_json())["isSigned"]
        bits = 32 if physical == "INT32" else 64
        return _same if is_signed else lambda value: value % (1 << bits)
    if physical in ("FLOAT", "DOUBLE", "BOOLEAN") and logical == "NONE":
        return _same
    if physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        if logical == "DECIMAL":
            return lambda value: int.from_bytes(value, "big", signed=True)
        return _same if logical in _BYTEWISE else None
    return None


def _same(value: Any) -> Any:  # noqa: ANN401 - of the column's type
    return value
