"""Values of one Arrow type as values of another, and which of them do not fit.

A value converts if nothing of it is lost: a long that fits an int, a double that is a whole number, a timestamp in
nanoseconds without any below the microsecond. Only doubles to floats are rounded, as every decimal fraction is that is
read as a double. A type whose values are never those of the other (a list and a number) is NoConversionError.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.inputs.convert_nested import convert_list, convert_map, convert_struct
from packstone.rewrite.inputs.convert_text import convert_text, whole_range
from packstone.rewrite.inputs.converted import Converted, NoConversionError, cast_each, keep_good, not_null, to_mask
from packstone.rewrite.inputs.parse_moments import to_utc, to_wall_clock
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from packstone.rewrite.inputs.converted import Mask

_LONG_DIGITS: Final = 20  # of the biggest unsigned long
_DAY_MICROS: Final = 86_400_000_000
_MICROS: Final = pa.timestamp("us")


def convert_values(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    """Convert an array of any type; the target is one of a table's types."""
    kind = array.type
    if kind == target:
        return _check_same(array)
    if pt.is_null(kind):
        return Converted(values=pa.nulls(len(array), target))
    if pt.is_dictionary(kind):
        return convert_values(_decode(array), target, zone=zone)
    if pt.is_run_end_encoded(kind):
        return convert_values(pc.run_end_decode(array), target, zone=zone)
    if pt.is_nested(kind) or pt.is_nested(target):
        return _convert_nested(array, target, zone=zone)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        text = array.cast(pa.string())
        return _check_same(text) if pt.is_string(target) else convert_text(text, target, zone=zone)
    return _convert_plain(array, target, zone=zone)


def _check_same(array: pa.Array) -> Converted:
    """Values of the right type may be wrong all the same, and Arrow does not look."""
    if pt.is_decimal(array.type):
        return _check_digits(array)
    if not pt.is_string(array.type):
        return Converted(values=array)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return cast_each(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
    return Converted(values=array)


def _check_digits(array: pa.Array) -> Converted:
    """Find numbers with more digits than their type has: DuckDB gives a hugeint of 39 as a decimal of 38."""
    kind = array.type
    most = decimal.Decimal((0, (9,) * kind.precision, -kind.scale))
    bounds = pc.min_max(array).as_py()
    least = most.copy_negate()  # a plain minus would round it to the 28 digits of Python's context
    if bounds["min"] is None or (least <= bounds["min"] and bounds["max"] <= most):
        return Converted(values=array)
    lowest, highest = pa.scalar(least, kind), pa.scalar(most, kind)
    good = to_mask(pc.and_(pc.greater_equal(array, lowest), pc.less_equal(array, highest)))
    return Converted.of(keep_good(array, good), not_null(array) & ~good)


def _decode(array: pa.DictionaryArray) -> pa.Array:
    """Codes as values; PyArrow cannot take from string views, which Polars has in its categories."""
    values = array.dictionary
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.string() if pt.is_string_view(values.type) else pa.binary())
    return values.take(array.indices)


def _convert_nested(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    def child(values: pa.Array, wanted: pa.DataType) -> Converted:
        return convert_values(values, wanted, zone=zone)

    if pt.is_map(target):
        return convert_map(array, target, child)
    if pt.is_list(target):
        return convert_list(array, target, child)
    if pt.is_struct(target):
        return convert_struct(array, target, child)
    raise NoConversionError


def _convert_plain(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    kind = array.type
    if pt.is_string(target):
        return _to_text(array)
    if pt.is_binary(target) and _is_bytes(kind):
        return Converted(values=array.cast(target))
    if pt.is_integer(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_whole(array, target)
    if pt.is_floating(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_floats(array, target)
    if pt.is_decimal(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_decimals(array, target)
    if pt.is_date32(target) and (pt.is_timestamp(kind) or pt.is_date(kind)):
        return _to_dates(array, zone=zone)
    if pt.is_timestamp(target) and (pt.is_timestamp(kind) or pt.is_date(kind)):
        return _to_moments(array, target, zone=zone)
    raise NoConversionError


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
    )


def _to_text(array: pa.Array) -> Converted:
    kind = array.type
    if _is_bytes(kind):
        return cast_each(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
    if pt.is_boolean(kind) or _is_number(kind) or pt.is_decimal(kind) or pt.is_date32(kind):
        return Converted(values=array.cast(pa.string()))
    raise NoConversionError


def _to_whole(array: pa.Array, target: pa.DataType) -> Converted:
    try:
        return Converted(values=array.cast(target))
    except pa.ArrowInvalid:
        pass
    if pt.is_decimal(array.type):
        return cast_each(array, lambda part: part.cast(target))
    lowest, highest = whole_range(target)
    values = array.cast(pa.float64()) if pt.is_float16(array.type) else array
    if pt.is_floating(values.type):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        # As doubles: the highest long is not one, but the number after it is.
        good = (numbers >= float(lowest)) & (numbers < float(highest + 1)) & (numbers == np.floor(numbers))
    else:
        good = _within(values, lowest, highest)
    good &= not_null(array)
    return Converted.of(keep_good(values, good).cast(target), not_null(array) & ~good)


def _within(values: pa.Array, lowest: int, highest: int) -> Mask:
    """Compare in the type of the values, which may not know the bounds."""
    kind = values.type
    least = 0 if pt.is_unsigned_integer(kind) else max(lowest, whole_range(kind)[0])
    most = min(highest, (1 << kind.bit_width) - 1 if pt.is_unsigned_integer(kind) else whole_range(kind)[1])
    bounds = pa.array([least, most], kind)
    return to_mask(pc.and_(pc.greater_equal(values, bounds[0]), pc.less_equal(values, bounds[1])))


def _to_floats(array: pa.Array, target: pa.DataType) -> Converted:
    kind = array.type
    if pt.is_decimal(kind):
        return Converted(values=array.cast(target))
    values = array.cast(target, safe=False)
    if pt.is_floating(kind):
        bad = to_mask(pc.is_inf(values)) & ~to_mask(pc.is_inf(array))
    else:
        exact = array.cast(pa.decimal128(_LONG_DIGITS, 0))
        bad = to_mask(pc.not_equal(values.cast(pa.decimal128(_LONG_DIGITS, 0)), exact))
    return Converted.of(keep_good(values, ~bad) if bad.any() else values, bad)


def _to_decimals(array: pa.Array, target: pa.DataType) -> Converted:
    kind = array.type
    if pt.is_integer(kind):
        array = array.cast(pa.decimal128(_LONG_DIGITS, 0))
    cast = cast_each(array, lambda part: part.cast(target))
    if not pt.is_floating(kind):
        return cast
    # PyArrow rounds: a double is kept if it is the one that is nearest to its decimal.
    bad = to_mask(pc.not_equal(cast.values.cast(kind), array))
    bad |= cast.bad if cast.bad is not None else False
    return Converted.of(keep_good(cast.values, ~bad) if bad.any() else cast.values, bad)


def _to_micros(array: pa.Array) -> Converted:
    """A timestamp of any unit, or a date, in microseconds; what is finer or beyond the range is bad."""
    if pt.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.timestamp("s"))
    return cast_each(array, lambda part: part.cast(pa.timestamp("us", part.type.tz)))


def _to_moments(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    micros = _to_micros(array)
    values = micros.values
    if (values.type.tz is None) == (target.tz is None):
        return Converted(values=values.view(target), bad=micros.bad)
    if target.tz is None:
        return Converted(values=to_wall_clock(values, zone), bad=micros.bad)
    missing = ~not_null(values)
    local = values.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return Converted(values=to_column(to_utc(local, zone), missing=missing).view(target), bad=micros.bad)


def _to_dates(array: pa.Array, *, zone: str) -> Converted:
    """A moment is a date if it is midnight in the session's zone."""
    if pt.is_date(array.type):
        return Converted(values=array.cast(pa.date32()))
    micros = _to_micros(array)
    local = micros.values if array.type.tz is None else to_wall_clock(micros.values, zone)
    numbers = local.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    good = (numbers % _DAY_MICROS == 0) & not_null(local)
    days = to_column((numbers // _DAY_MICROS).astype(np.int32), missing=~good).view(pa.date32())
    return Converted.of(days, not_null(array) & ~good)
