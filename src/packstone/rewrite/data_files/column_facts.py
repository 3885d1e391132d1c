"""Smallest, largest and number of nulls of columns, as metadata will state them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge.merge_spec import ColumnFacts, PlainValue


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
        self._low: Any = None
        self._high: Any = None

    def add(self, column: pa.Array) -> None:
        """Look at more values."""
        self._nulls += column.null_count
        if has_order(self._field.type):
            low, high = find_extremes(column)
            self.add_extremes(low, high, 0)

    def add_extremes(self, low: Any, high: Any, nulls: int) -> None:  # noqa: ANN401 - values of one column
        """Take over what somebody else found; None for no value."""
        self._nulls += nulls
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
        if high is not None:
            self._high = high if self._high is None else max(self._high, high)

    def facts(self) -> ColumnFacts:
        """What was found."""
        return ColumnFacts(
            name=self._field.name,
            minimum=_to_text(self._low, self._field.type),
            maximum=_to_text(self._high, self._field.type),
            null_count=self._nulls,
        )


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
