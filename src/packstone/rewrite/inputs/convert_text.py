r"""Text to values, as strict as Spark in ANSI mode, and stricter where digits would be lost.

===============  =======================================================================================
boolean          true t yes y 1, false f no n 0, in any case
whole numbers    a sign and digits; ``12abc``, ``12.0`` and what is out of range is bad
float, double    a number, ``NaN``, ``Inf``, ``Infinity`` in any case; a number too big for the type is bad
decimal(p,s)     a number that fits without losing a digit
binary           ``\xDEADBEEF``; text that does not begin so is taken as its bytes in UTF-8
date             ``2024-02-29``, ``2024-2-9``; a time behind it is left out, as Spark does
timestamp        a date, or a date, ``T`` or a blank, and ``10:11[:12[.123456]]``, with ``Z``, ``+02:00``, a region
                 such as ``Europe/Berlin``, or without a zone: then the session's zone counts
timestamp_ntz    the same; a zone is left out, as Spark does
===============  =======================================================================================

Blanks around a value do not count. Each column is cast as a whole by PyArrow first, which knows the plain forms; only
if that fails are its rows looked at one by one, still as vectors.
"""

from __future__ import annotations

import binascii
import decimal
import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.inputs.converted import Converted, NoConversionError, cast_each, keep_good, not_null, to_mask
from packstone.rewrite.inputs.parse_moments import parse_dates, parse_moments
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from packstone.rewrite.inputs.converted import Mask

_WHOLE: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WORD: Final = r"(?i)^[+-]?(nan|inf|infinity)$"
_DIGITS: Final = 38  # of the widest decimal; more digits are out of every range
_TRUE: Final = pa.array(["true", "t", "yes", "y", "1"])
_FALSE: Final = pa.array(["false", "f", "no", "n", "0"])
_HEX_MARK: Final = re.compile(rb"\\x")
_HEX: Final = re.compile(rb"[xX]")
# PyArrow divides by powers of ten that it looks up without a look at the end of their table: beyond 38 digits behind
# the point it reads what stands there, takes 1e-41 for 0.00, and for 1e-2000000000 ends the process.
_TINY: Final = r"[eE]-0*[1-9][0-9]|\.[0-9]{29}"
_TINY_BYTES: Final = re.compile(_TINY.encode())
_EXACT: Final = decimal.Context(prec=2 * _DIGITS, traps=[decimal.InvalidOperation, decimal.Inexact])


def convert_text(text: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    """Convert a string array."""
    if pt.is_string(target):
        return Converted(values=text)
    if pt.is_binary(target):
        return _to_bytes(text)
    if pt.is_boolean(target):
        return _to_booleans(text)
    if pt.is_integer(target):
        return _to_whole(text, target)
    if pt.is_floating(target):
        return _to_floats(text, target)
    if pt.is_decimal(target):
        return _to_decimals(text, target)
    if pt.is_date32(target):
        return _to_dates(text)
    if pt.is_timestamp(target):
        return _to_moments(text, target, zone=zone)
    raise NoConversionError


def _to_bytes(text: pa.Array) -> Converted:
    r"""``\x`` and hexadecimal digits are bytes, as `query` and PostgreSQL write them; other text is its UTF-8."""
    plain = text.cast(pa.binary())
    if not _may_hold(text, _HEX_MARK):
        return Converted(values=plain)
    values = plain.to_pylist()
    bad = np.zeros(len(values), dtype=bool)
    for at, value in enumerate(values):
        if value is not None and value.startswith(b"\\x"):
            try:
                values[at] = binascii.unhexlify(value[2:])
            except binascii.Error:
                values[at], bad[at] = None, True
    return Converted.of(pa.array(values, pa.binary()), bad)


def _to_booleans(text: pa.Array) -> Converted:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    is_true, is_false = pc.is_in(words, _TRUE), pc.is_in(words, _FALSE)
    known = to_mask(pc.or_(is_true, is_false))
    return Converted.of(keep_good(is_true, known), not_null(text) & ~known)


def _to_whole(text: pa.Array, target: pa.DataType) -> Converted:
    if not _may_hold(text, _HEX):  # PyArrow reads 0x1F as 31
        try:
            return Converted(values=text.cast(target))
        except pa.ArrowInvalid:
            pass
    digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(text), r"^\+?(-?)0*([0-9])", r"\1\2")
    shaped = to_mask(pc.match_substring_regex(pc.utf8_trim_whitespace(text), _WHOLE))
    shaped &= to_mask(pc.less_equal(pc.binary_length(digits), _DIGITS))
    numbers = keep_good(digits, shaped).cast(pa.decimal128(_DIGITS, 0))
    lowest, highest = whole_range(target)
    in_range = to_mask(
        pc.and_(
            pc.greater_equal(numbers, pa.scalar(lowest).cast(pa.decimal128(_DIGITS, 0))),
            pc.less_equal(numbers, pa.scalar(highest).cast(pa.decimal128(_DIGITS, 0))),
        )
    )
    return Converted.of(keep_good(numbers, in_range).cast(target), not_null(text) & ~in_range)


def whole_range(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and largest value of a signed integer type."""
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1


def _may_hold(text: pa.Array, pattern: re.Pattern[bytes]) -> bool:
    data = text.buffers()[2]
    return data is not None and pattern.search(memoryview(data)) is not None


def _to_floats(text: pa.Array, target: pa.DataType) -> Converted:
    try:
        values = text.cast(target)
        good = not_null(text)
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(text)
        shaped = pc.or_(pc.match_substring_regex(trimmed, _NUMBER), pc.match_substring_regex(trimmed, _WORD))
        good = to_mask(shaped)
        values = keep_good(trimmed, good).cast(target)
    endless = to_mask(pc.is_inf(values))
    if endless.any():
        good &= ~endless | to_mask(pc.match_substring_regex(pc.utf8_trim_whitespace(text), _WORD))
    bad = not_null(text) & ~good
    return Converted.of(keep_good(values, ~bad) if bad.any() else values, bad)


def _to_decimals(text: pa.Array, target: pa.DataType) -> Converted:
    if not _may_hold(text, _TINY_BYTES):
        return _cast_decimals(text, target)
    tiny = to_mask(pc.match_substring_regex(text, _TINY))
    plain = [_write_out(text[row].as_py(), target.scale) for row in np.flatnonzero(tiny).tolist()]
    cast = _cast_decimals(pc.replace_with_mask(text, to_column(tiny), pa.array(plain, pa.string())), target)
    return Converted.of(cast.values, not_null(text) & ~not_null(cast.values))


def _write_out(number: str, scale: int) -> str | None:
    """A number with exactly so many digits behind the point; None if it is none, or has more."""
    if not re.fullmatch(_NUMBER, number.strip()):
        return None
    try:
        return format(decimal.Decimal(number).quantize(decimal.Decimal((0, (1,), -scale)), context=_EXACT), "f")
    except decimal.DecimalException:
        return None


def _cast_decimals(text: pa.Array, target: pa.DataType) -> Converted:
    try:
        return Converted(values=text.cast(target))
    except pa.ArrowInvalid:
        pass
    trimmed = pc.utf8_trim_whitespace(text)
    shaped = to_mask(pc.match_substring_regex(trimmed, _NUMBER))
    cast = cast_each(keep_good(trimmed, shaped), lambda part: part.cast(target))
    return Converted.of(cast.values, _joined(cast.bad, not_null(text) & ~shaped))


def _joined(first: Mask | None, second: Mask) -> Mask:
    return second if first is None else first | second


def _to_dates(text: pa.Array) -> Converted:
    try:
        return Converted(values=text.cast(pa.date32()))
    except pa.ArrowInvalid:
        days, good = parse_dates(text)
        values = to_column(days.astype(np.int32), missing=~good).view(pa.date32())
        return Converted.of(values, not_null(text) & ~good)


def _to_moments(text: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    plain = pa.timestamp("us")
    try:
        return Converted(values=text.cast(target))  # all have a zone, or none has and none is wanted
    except pa.ArrowInvalid:
        pass
    if target.tz is not None and zone == "UTC":
        try:
            return Converted(values=text.cast(plain).view(target))
        except pa.ArrowInvalid:
            pass
    micros, good = parse_moments(text, zone=None if target.tz is None else zone)
    return Converted.of(to_column(micros, missing=~good).view(target), not_null(text) & ~good)
