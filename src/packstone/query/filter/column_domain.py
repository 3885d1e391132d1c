"""The position of a literal among all values that a column can have: a ``Cut``.

The values of an ordered type are numbered, ascending and without gaps: a long by itself, a decimal by its digits, a
date by its day, a timestamp by its ticks, a double by its position among all doubles (-0.0 and 0.0 share one, NaN is
the last). A literal then divides these numbers into those below it, equal to it and above it, whether or not it is one
of them, and a comparison needs no more:

=========================  =====  =====  =================================
column and literal         first  after  meaning
=========================  =====  =====  =================================
long, 5                    5      6      ``< 5``, ``= 5``, ``> 5``
long, 3.5                  4      4      ``< 3.5`` is ``<= 3``, ``=`` never
byte, 300                  128    128    ``< 300`` always, ``=`` never
long, 9007199254740992D    2^53   2^53+2  Spark converts two longs to that double
=========================  =====  =====  =================================

Values are compared in the type that Spark's ANSI mode uses: integers and decimals exactly, with a double or a float
on either side as doubles, text as the type of the column (with decimals: as doubles). The ``text_to_…`` functions read
text as Spark's ANSI cast does, and return None if it is not a value of the type. They reject on purpose, so that the
user gets an error and not a surprise: times without a day (Spark adds today's), years of more than four digits, and
the suffixes of Java's numbers (``1.5f``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.query.filter.expression import Kind, Literal

_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone
_EPOCH_DAY: Final = _EPOCH.date().toordinal()
_EXACT_DOUBLES: Final = 1 << 53
_MICROS: Final = timedelta(microseconds=1)


class MisfitError(Exception):
    """SQL does not compare this column with this literal; the text says what it can be compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Numbers below ``first`` are less than the literal; from ``first`` to before ``after`` they equal it."""

    first: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """All values of a type by number: ``low`` to ``high``, both included."""

    low: int
    high: int
    scalar: Callable[[int], pa.Scalar]
    cut: Callable[[Literal], Cut]


def find_domain(kind: pa.DataType, zone: tzinfo) -> Domain | None:
    """The domain of a type; None if it has none (text, binary, nested). A cut raises MisfitError."""
    if pt.is_boolean(kind):
        return Domain(low=0, high=1, scalar=lambda at: pa.scalar(bool(at)), cut=_cut_boolean)
    if pt.is_integer(kind):
        bits = np.iinfo(kind.to_pandas_dtype())
        low, high = int(bits.min), int(bits.max)
        return Domain(low=low, high=high, scalar=lambda at: pa.scalar(at, kind), cut=_integer_cutter(low, high))
    if pt.is_decimal(kind):
        return _decimal_domain(kind)
    if pt.is_floating(kind):
        return _float_domain(kind)
    if pt.is_date32(kind):
        low, high = -(1 << 31), (1 << 31) - 1
        make = lambda at: pa.scalar(at, pa.int32()).cast(kind)  # noqa: E731 - like the other domains
        return Domain(low=low, high=high, scalar=make, cut=lambda value: _cut_days(value, zone))
    if pt.is_timestamp(kind):
        # PyArrow casts integers to timestamps as ticks, with or without a zone, so neither needs a conversion.
        make = lambda at: pa.scalar(at, pa.int64()).cast(kind)  # noqa: E731
        low, high = -(1 << 63), (1 << 63) - 1
        return Domain(low=low, high=high, scalar=make, cut=lambda value: _cut_moments(value, kind, zone))
    return None


def reads_as_double(kind: pa.DataType, value: Literal) -> bool:
    """Whether a value of this kind makes Spark compare a whole IN list as doubles."""
    if value.kind is Kind.DOUBLE:
        return True
    return value.kind is Kind.STRING and not pt.is_integer(kind)


def as_double(value: Literal) -> Literal:
    """The same number as a double."""
    return Literal(value=_double_of(value), kind=Kind.DOUBLE)


def _cut_boolean(value: Literal) -> Cut:
    truth = text_to_boolean(value.value) if isinstance(value.value, str) else value.value
    if not isinstance(truth, bool):
        raise MisfitError("TRUE and FALSE")
    return Cut(first=int(truth), after=int(truth) + 1)


def _cut_at(position: int | Fraction) -> Cut:
    first = math.ceil(position)
    return Cut(first=first, after=first + (first == position))


def _integer_cutter(low: int, high: int) -> Callable[[Literal], Cut]:
    def cut(value: Literal) -> Cut:
        match value.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return _cut_at(Fraction(value.value))  # type: ignore[arg-type]
            case Kind.DOUBLE:
                return _cut_by_double(_double_of(value), low, high, scale=1)
            case Kind.STRING:
                number = text_to_integer(str(value.value))
                if number is not None:
                    return _cut_at(number)
        raise MisfitError("whole numbers" if value.kind is Kind.STRING else "numbers")

    return cut


def _decimal_domain(kind: pa.DataType) -> Domain:
    bound = 10**kind.precision - 1
    scale = 10**kind.scale if kind.scale >= 0 else Fraction(1, 10**-kind.scale)

    def cut(value: Literal) -> Cut:
        if value.kind in {Kind.INTEGER, Kind.DECIMAL}:
            return _cut_at(Fraction(value.value) * scale)  # type: ignore[arg-type]
        return _cut_by_double(_double_of(value), -bound, bound, scale=scale)

    def scalar(at: int) -> pa.Scalar:
        digits = tuple(int(digit) for digit in str(abs(at)))
        return pa.scalar(Decimal((int(at < 0), digits, -kind.scale)), kind)

    return Domain(low=-bound, high=bound, scalar=scalar, cut=cut)


def _cut_by_double(wanted: float, low: int, high: int, *, scale: int | Fraction) -> Cut:
    """Find the numbers that convert to this double, by binary search: rounding is monotonic, but not injective."""
    if math.isnan(wanted):
        return Cut(first=high + 1, after=high + 1)  # greater than every number
    if scale == 1 and abs(wanted) < _EXACT_DOUBLES:
        return _cut_at(Fraction(wanted))
    first = _first(lambda at: float(at / scale) >= wanted, low, high)
    return Cut(first=first, after=_first(lambda at: float(at / scale) > wanted, first, high))


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from which on the (monotonic) condition holds; ``high + 1`` if there is none."""
    after = high + 1
    while low < after:
        middle = (low + after) // 2
        low, after = (low, middle) if holds(middle) else (middle + 1, after)
    return low


def _double_of(value: Literal) -> float:
    if isinstance(value.value, str):
        number = text_to_double(value.value)
        if number is None:
            raise MisfitError("numbers")
        return number
    if isinstance(value.value, bool) or not isinstance(value.value, int | float | Decimal):
        raise MisfitError("numbers")
    try:
        return float(value.value)
    except OverflowError:
        return math.inf if value.value > 0 else -math.inf


def _float_domain(kind: pa.DataType) -> Domain:
    narrow = np.dtype(kind.to_pandas_dtype())
    whole = np.dtype(f"i{narrow.itemsize}")
    sign = 1 << (narrow.itemsize * 8 - 1)
    infinite = int(np.array(np.inf, narrow).view(whole))

    def number_of(value: np.ndarray) -> int:
        bits = int(value.view(whole))
        return bits if bits >= 0 else -(bits + sign)

    def scalar(at: int) -> pa.Scalar:
        if at > infinite:
            return pa.array(np.array([np.nan], narrow))[0]
        magnitude = np.array([abs(at)], whole).view(narrow)
        return pa.array(magnitude if at >= 0 else -magnitude)[0]

    def cut(value: Literal) -> Cut:
        wanted = _double_of(value)
        if math.isnan(wanted):
            return Cut(first=infinite + 1, after=infinite + 2)
        with np.errstate(over="ignore"):
            near = np.array(wanted, np.float64).astype(narrow)
        at, found = number_of(near), float(near)
        return Cut(first=at + (found < wanted), after=at + (found <= wanted))

    return Domain(low=-infinite, high=infinite + 1, scalar=scalar, cut=cut)


def _cut_days(value: Literal, zone: tzinfo) -> Cut:
    if isinstance(value.value, str):
        day = text_to_date(value.value)
        if day is None:
            raise MisfitError("days, such as DATE '2024-07-01'")
        return _cut_at(day.toordinal() - _EPOCH_DAY)
    if isinstance(value.value, datetime):
        return _cut_days_at(value.value, zone)
    if isinstance(value.value, date):
        return _cut_at(value.value.toordinal() - _EPOCH_DAY)
    raise MisfitError("days, such as DATE '2024-07-01'")


def _cut_days_at(timestamp: datetime, zone: tzinfo) -> Cut:
    """Compare a day with a timestamp as the day's midnight, in the session's zone if the timestamp has a zone."""
    if timestamp.tzinfo is None:
        return _cut_at(Fraction((timestamp - _EPOCH) // _MICROS, 86_400_000_000))
    local = timestamp.astimezone(zone)
    number = local.toordinal() - _EPOCH_DAY
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone).astimezone(UTC)
    is_after = midnight < timestamp.astimezone(UTC)
    return Cut(first=number + is_after, after=number + (midnight <= timestamp.astimezone(UTC)))


def _cut_moments(value: Literal, kind: pa.DataType, zone: tzinfo) -> Cut:
    timestamp = text_to_timestamp(value.value) if isinstance(value.value, str) else value.value
    if isinstance(timestamp, date) and not isinstance(timestamp, datetime):
        timestamp = datetime(timestamp.year, timestamp.month, timestamp.day)  # noqa: DTZ001 - local midnight
    if not isinstance(timestamp, datetime):
        raise MisfitError("times, such as TIMESTAMP '2024-07-01 12:00:00'")
    ticks = _TICKS[kind.unit]
    if kind.tz is not None:
        zoned = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=zone)
        return _cut_at(Fraction(_micros(zoned.astimezone(UTC)) * ticks, 10**6))
    if timestamp.tzinfo is None:
        return _cut_at(Fraction(_micros(timestamp) * ticks, 10**6))
    local = timestamp.astimezone(zone)
    if not local.fold:
        return _cut_at(Fraction(_micros(local) * ticks, 10**6))
    # The clocks were put back, so this local time occurs twice, and a stored local time means its first occurrence. So
    # nothing equals the second occurrence, and everything up to the end of the repeated hour is below it.
    end = _end_of_fold(local, zone)
    position = math.ceil(Fraction(_micros(end) * ticks, 10**6))
    return Cut(first=position, after=position)


def _end_of_fold(local: datetime, zone: tzinfo) -> datetime:
    wall = local.replace(tzinfo=None)
    length = local.replace(fold=0).utcoffset() - local.utcoffset()  # type: ignore[operator]
    micros = _first(
        lambda at: (
            (wall + at * _MICROS).replace(tzinfo=zone, fold=1).utcoffset()
            == (wall + at * _MICROS).replace(tzinfo=zone).utcoffset()
        ),
        0,
        length // _MICROS,
    )
    return wall + micros * _MICROS


def _micros(timestamp: datetime) -> int:
    return (timestamp.replace(tzinfo=None) - _EPOCH) // _MICROS


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL_DOUBLE = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_DAY = r"(?P<year>[0-9]{4})(-(?P<month>[0-9]{1,2})(-(?P<day>[0-9]{1,2})"
_DATE = re.compile(_DAY + r"([ T].*)?)?)?", re.DOTALL)
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(:(?P<second>[0-9]{1,2})(\.(?P<fraction>[0-9]{0,9}))?)?"
_TIMESTAMP = re.compile(_DAY + r"([ T]" + _TIME + r" ?(?P<zone>[A-Za-z+-].*)?)?)?)?")
_OFFSET = re.compile(r"(UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(:?(?P<minutes>[0-9]{2}))?")
_MICRO_DIGITS = 6
_MAX_DIGITS = 1_000  # Python converts at most 4,300
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})


def text_to_boolean(text: str) -> bool | None:
    """Read ``yes``, ``f``, ``1`` and the like."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def text_to_integer(text: str) -> int | None:
    """Read digits with an optional sign; 3.5, 3.0 and numbers that are too long are not integers."""
    trimmed = text.strip()
    return int(trimmed) if len(trimmed) <= _MAX_DIGITS and _INTEGER.fullmatch(trimmed) else None


def text_to_double(text: str) -> float | None:
    """Read a number with or without exponent, NaN or infinity."""
    trimmed = text.strip()
    return float(trimmed) if _DOUBLE.fullmatch(trimmed) or _SPECIAL_DOUBLE.fullmatch(trimmed) else None


def text_to_date(text: str) -> date | None:
    """Read ``2024-07-01``, ``2024-7-1``, ``2024-07``, ``2024``; text after the day and a blank or T is ignored."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    except ValueError:
        return None


def text_to_timestamp(text: str) -> datetime | None:
    """Read a day, optionally with a time and a zone, which the result keeps; digits after microseconds are dropped."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        return None
    part = {name: int(found[name] or 0) for name in ("hour", "minute", "second")}
    micros = int((found["fraction"] or "")[:_MICRO_DIGITS].ljust(_MICRO_DIGITS, "0"))
    zone = None if found["zone"] is None else text_to_zone(found["zone"])
    if found["zone"] is not None and zone is None:
        return None
    try:
        day = date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
        return datetime(day.year, day.month, day.day, **part, microsecond=micros, tzinfo=zone)
    except ValueError:
        return None


def text_to_zone(text: str) -> tzinfo | None:
    """Read ``Z``, ``UTC``, ``+02:00``, ``UTC+2`` or a region such as ``Europe/Berlin``."""
    name = text.strip()
    if name in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
        # Java's limit; Python would allow almost a day.
        return timezone(offset if found["sign"] == "+" else -offset) if offset <= timedelta(hours=18) else None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; the name of a folder raises OSError
        return None
