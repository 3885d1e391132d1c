r"""Convert text to values, as strictly as Spark in ANSI mode, and more strictly where digits would be lost.

===============  =======================================================================================
boolean          true t yes y 1, false f no n 0, in any case
whole numbers    a sign and digits; ``12abc``, ``12.0`` and numbers out of range are bad
float, double    a number, ``NaN``, ``Inf``, ``Infinity`` in any case; a number too big for the type is bad
decimal(p,s)     a number that fits without losing a digit
binary           ``\xdeADBEEF``; text without the prefix ``\x`` becomes its UTF-8 bytes
date             ``2024-02-29``, ``2024-2-9``; a time after it is ignored, as in Spark
timestamp        a date, or a date, ``T`` or a blank, and ``10:11[:12[.123456]]``, with ``Z``, ``+02:00``, a region
                 such as ``Europe/Berlin``, or without a zone: then the session's zone applies
timestamp_ntz    the same; a zone is ignored, as in Spark
===============  =======================================================================================

Blanks around a value are ignored. PyArrow casts each column as a whole first, which covers the plain forms; only if
that fails are the rows tested one by one, still as vectors. For dates and times the second step is one regular
expression; it accepts what PyArrow's cast refuses: one-digit months, blanks, zones in some rows only, named regions.
"""

from __future__ import annotations

import binascii
import decimal
import re
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.data_files.batches import to_column

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WORD: Final = r"(?i)^[+-]?(nan|inf|infinity)$"
_DIGITS: Final = 38  # digits of the widest decimal; more are out of every range
_TRUE: Final = pa.array(["true", "t", "yes", "y", "1"])
_FALSE: Final = pa.array(["false", "f", "no", "n", "0"])
_HEX_MARK: Final = re.compile(rb"\\x")
_HEX: Final = re.compile(rb"[xX]")
# PyArrow divides by powers of ten from a table and does not check the table's bounds: for more than 38 fractional
# digits it reads beyond the table, converts 1e-41 to 0.00, and crashes the process for 1e-2000000000.
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
    r"""Decode ``\x`` and hexadecimal digits, as `query` and PostgreSQL write bytes; other text becomes its UTF-8."""
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
    infinite = to_mask(pc.is_inf(values))
    if infinite.any():
        good &= ~infinite | to_mask(pc.match_substring_regex(pc.utf8_trim_whitespace(text), _WORD))
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
    """A number with exactly ``scale`` fractional digits; None if the text is not a number or has more digits."""
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
        return Converted(values=text.cast(target))  # all rows have a zone, or none has one and the type has none
    except pa.ArrowInvalid:
        pass
    if target.tz is not None and zone == "UTC":
        try:
            return Converted(values=text.cast(plain).view(target))
        except pa.ArrowInvalid:
            pass
    micros, good = parse_moments(text, zone=None if target.tz is None else zone)
    return Converted.of(to_column(micros, missing=~good).view(target), not_null(text) & ~good)


Longs: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_DATE: Final = r"^\s*(?P<y>[0-9]{4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})"
_DAY: Final = _DATE + r"(?:[T ].*)?\s*$"
_TIME: Final = r"(?P<h>[0-9]{1,2}):(?P<n>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,9}))?)?"
_ZONE: Final = r"(?P<z>Z|z|[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z][A-Za-z0-9_+/-]*)?"
_MOMENT: Final = _DATE + r"(?:[T ]" + _TIME + r"\s*" + _ZONE + r")?\s*$"
_MICRO_DIGITS: Final = 6
_DAY_MICROS: Final = 86_400_000_000
_MOST_OFFSET: Final = 24 * 3600 - 1  # the limit of PyArrow's cast


def parse_dates(text: pa.Array) -> tuple[Longs, Mask]:
    """Days since 1970, and a mask of the rows that are dates."""
    parts = pc.extract_regex(text, pattern=_DAY)
    return _days(parts, to_mask(parts.is_valid()))


def parse_moments(text: pa.Array, *, zone: str | None) -> tuple[Longs, Mask]:
    """Microseconds since 1970, and a mask of the rows that are timestamps.

    In UTC, with ``zone`` for rows that name none; if ``zone`` is None, in wall-clock time, whatever zone a row names.
    """
    parts = pc.extract_regex(text, pattern=_MOMENT)
    days, good = _days(parts, to_mask(parts.is_valid()))
    hours, minutes, seconds = (_whole(parts, name) for name in "hns")
    good &= (hours <= 23) & (minutes <= 59) & (seconds <= 59)
    fraction = pc.struct_field(parts, "f").fill_null("")
    micros = _to_longs(pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, _MICRO_DIGITS, "0"), 0, _MICRO_DIGITS))
    good &= ~to_mask(pc.match_substring_regex(fraction, r"^[0-9]{6}[0-9]*[1-9]"))  # digits that would be lost
    local = days * _DAY_MICROS + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    return (local, good) if zone is None else _to_utc(local, good, pc.struct_field(parts, "z"), zone=zone)


def to_utc(local: Longs, zone: str) -> Longs:
    """Wall-clock time to UTC; a repeated hour is its first occurrence, a skipped hour becomes the time after it."""
    if zone == "UTC":
        return local
    moments = to_column(local).view(pa.timestamp("us"))
    known = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    return known.view(pa.int64()).to_numpy(zero_copy_only=False)


def to_wall_clock(moments: pa.Array, zone: str) -> pa.Array:
    """UTC to wall-clock time in a zone."""
    if zone == "UTC":
        return moments.view(pa.timestamp("us"))
    return pc.local_timestamp(moments.view(pa.timestamp("us", zone)))


def is_zone(name: str) -> bool:
    """Whether the system's zone database has this name; PyArrow reads the same database."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _to_utc(local: Longs, good: Mask, zones: pa.Array, *, zone: str) -> tuple[Longs, Mask]:
    coded = zones.fill_null("").dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    moments = local.copy()
    for code, name in enumerate(coded.dictionary.to_pylist()):
        chosen = good & (codes == code)
        offset = _offset_seconds(name)
        if offset is not None:
            moments[chosen] -= offset * 1_000_000
        elif name == "" or is_zone(name):
            moments[chosen] = to_utc(local[chosen], name or zone)
        else:
            good &= ~chosen
    return moments, good


def _offset_seconds(name: str) -> int | None:
    """The seconds of ``Z`` or ``+02:00``; None if the name is not an offset, or is out of range."""
    if name in ("Z", "z", "UTC", "GMT"):
        return 0
    if not name.startswith(("+", "-")):
        return None
    digits = name[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])  # hours alone
    seconds = int(hours) * 3600 + int(minutes) * 60
    if int(minutes) > 59 or seconds > _MOST_OFFSET:
        return None
    return -seconds if name[0] == "-" else seconds


def _days(parts: pa.Array, good: Mask) -> tuple[Longs, Mask]:
    year, month, day = (_whole(parts, name) for name in "ymd")
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = (year - 1970) * 12 + month - 1
    first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    following = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    good &= day <= following - first
    return first + day - 1, good


def _whole(parts: pa.Array, name: str) -> Longs:
    return _to_longs(pc.struct_field(parts, name))


def _to_longs(digits: pa.Array) -> Longs:
    """Parse digits; empty or null is 0."""
    plain = pc.if_else(pc.equal(digits, ""), "0", digits).fill_null("0")
    return plain.cast(pa.int64()).to_numpy(zero_copy_only=False)


Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class NoConversionError(Exception):
    """No value of one type can become the other type: the whole column is wrong, not single rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A converted column: values of the target type, null where ``bad``; a null input stays null and is not bad."""

    values: pa.Array
    bad: Mask | None = None

    @classmethod
    def of(cls, values: pa.Array, bad: Mask) -> Converted:
        """Make a column; the mask is dropped if no row is bad."""
        return cls(values=values, bad=bad if bad.any() else None)


def to_mask(flags: pa.Array) -> Mask:
    """Booleans as a numpy mask; null is False."""
    return flags.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - has no other name


def keep_good(array: pa.Array, good: Mask) -> pa.Array:
    """The array with null where ``good`` is False."""
    return pc.if_else(to_column(good), array, pa.scalar(None, array.type))


def not_null(array: pa.Array) -> Mask:
    """The mask of rows that are not null."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def cast_each(array: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> Converted:
    """Cast the whole array, and if that fails its halves, down to the single values that cannot be cast.

    A few bad values among many cost a few casts; this serves rare pairs of types whose range has no simple test.
    """
    try:
        return Converted(values=cast(array))
    except pa.ArrowInvalid:
        if len(array) == 1:
            return Converted(values=pa.nulls(1, cast(array.slice(0, 0)).type), bad=np.ones(1, dtype=bool))
    half = len(array) // 2
    parts = [cast_each(array.slice(0, half), cast), cast_each(array.slice(half), cast)]
    bad = [np.zeros(len(part.values), dtype=bool) if part.bad is None else part.bad for part in parts]
    return Converted.of(pa.concat_arrays([part.values for part in parts]), np.concatenate(bad))
