"""Smallest, largest and number of nulls of columns, as metadata will state them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge.merge_spec import ColumnFacts, PlainValue

_FIRST_NEGATIVE = 0x80


def has_order(kind: pa.DataType) -> bool:
    """Whether a column of this type has a smallest and a largest value."""
    return not (pt.is_nested(kind) or pt.is_null(kind))


def to_plain_value(value: pa.Scalar) -> PlainValue:
    """One value as plain Python; dates and times as integers of their unit."""
    if not value.is_valid:
        return None
    if pt.is_temporal(value.type):
        return int(value.value)
    return value.as_py()


def to_decimal(number: int, scale: int) -> Decimal:
    """Place the point, without the 28 digits to which Python's decimal arithmetic rounds."""
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -scale))


class FactsSoFar:
    """The facts of one column, batch after batch."""

    def __init__(self, field: pa.Field) -> None:
        self._field = field
        self._nulls = 0
        self._is_disputed = False
        self._low: Any = None
        self._high: Any = None

    def add(self, column: pa.Array) -> None:
        """Look at more values."""
        self._nulls += column.null_count
        if is_disputed(column):
            self.drop_bounds()
        elif has_order(self._field.type):
            low, high = find_extremes(column)
            self.add_extremes(low, high, 0)

    def drop_bounds(self) -> None:
        """State no smallest and largest value, whatever comes: readers disagree about the order of these."""
        self._is_disputed = True

    def add_extremes(self, low: Any, high: Any, nulls: int) -> None:  # noqa: ANN401 - values of one column
        """Take over what somebody else found; None for no value."""
        self._nulls += nulls
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
        if high is not None:
            self._high = high if self._high is None else max(self._high, high)

    def facts(self) -> ColumnFacts:
        """What was found; no bounds if readers disagree about the order of some value."""
        low, high = (None, None) if self._is_disputed else (self._low, self._high)
        return ColumnFacts(
            name=self._field.name,
            minimum=_to_text(low, self._field.type),
            maximum=_to_text(high, self._field.type),
            null_count=self._nulls,
        )


def is_disputed(column: pa.Array) -> bool:
    """Whether readers order some of the values differently, so that bounds would make one of them skip a match.

    NaN is the largest value for Java, Spark and Flink, and greater than nothing for Python. Bytes from 0x80 are
    negative for Java Paimon up to 1.4 and positive for everybody else.
    """
    if pt.is_floating(column.type):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if not pt.is_binary(column.type):
        return False
    held = column.drop_null()
    if not len(held):
        return False
    ends = np.frombuffer(held.buffers()[1], np.int32)[held.offset : held.offset + len(held) + 1]
    data = np.frombuffer(held.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    return bool((data >= _FIRST_NEGATIVE).any())


def find_extremes(column: pa.Array) -> tuple[Any, Any]:
    """Smallest and largest value, strings as bytes; NaN is no value, zeros have the sign that makes them extreme."""
    kind = column.type
    if pt.is_floating(kind):
        column = column.filter(pc.invert(pc.is_nan(column)))
    elif pt.is_string(kind):
        column = column.cast(pa.binary())
    found = pc.min_max(column)
    low, high = to_plain_value(found["min"]), to_plain_value(found["max"])
    if pt.is_floating(kind) and low is not None:
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    return low, high


def _to_text(value: Any, kind: pa.DataType) -> PlainValue:  # noqa: ANN401 - a value of the column
    if isinstance(value, bytes) and pt.is_string(kind):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Decimal | int | float | str | bytes) or value is None:
        return value
    raise TypeError(type(value))
