"""Where a literal lies among all the values that a column can have: a ``Cut``.

The values of an ordered type are numbered, ascending and without gaps: a long by itself, a decimal by its digits, a
date by its day, a moment by its ticks, a double by its place among all doubles (-0.0 and 0.0 share one, NaN is the
last). A literal then cuts these numbers into those below it, equal to it and above it, whether or not it is one of
them, and that is all a comparison asks:

=========================  =====  =====  =================================
column and literal         first  after  so that
=========================  =====  =====  =================================
long, 5                    5      6      ``< 5``, ``= 5``, ``> 5``
long, 3.5                  4      4      ``< 3.5`` is ``<= 3``, ``=`` never
byte, 300                  128    128    ``< 300`` always, ``=`` never
long, 9007199254740992D    2^53   2^53+2  two longs are that double to Spark
=========================  =====  =====  =================================

The type in which a comparison is made is that of Spark's ANSI mode: integers and decimals exactly, with a double or a
float on either side as doubles, text as the type of the column (with decimals: as doubles).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.pruning.expression import Kind, Literal
from packstone.pruning.text_values import (
    text_to_boolean,
    text_to_date,
    text_to_double,
    text_to_integer,
    text_to_timestamp,
)

_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have none
_EPOCH_DAY: Final = _EPOCH.date().toordinal()
_EXACT_DOUBLES: Final = 1 << 53
_MICROS: Final = timedelta(microseconds=1)


class MisfitError(Exception):
    """SQL would not compare this column with this literal; the text says what it could be compared with."""


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
        make = lambda at: pa.scalar(at, pa.int32()).cast(kind)  # noqa: E731 - as the others
        return Domain(low=low, high=high, scalar=make, cut=lambda value: _cut_days(value, zone))
    if pt.is_timestamp(kind):
        # pyarrow reads a wall time's scalar from an integer as it is, so zoned ones need no conversion either.
        make = lambda at: pa.scalar(at, pa.int64()).cast(kind)  # noqa: E731
        low, high = -(1 << 63), (1 << 63) - 1
        return Domain(low=low, high=high, scalar=make, cut=lambda value: _cut_moments(value, kind, zone))
    return None


def reads_as_double(kind: pa.DataType, value: Literal) -> bool:
    """Whether one such value makes Spark compare a whole IN list as doubles."""
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


def _cut_at(place: int | Fraction) -> Cut:
    first = math.ceil(place)
    return Cut(first=first, after=first + (first == place))


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
    """Find the numbers that become this double, by search: rounding keeps the order, but not all differences."""
    if math.isnan(wanted):
        return Cut(first=high + 1, after=high + 1)  # greater than every number
    if scale == 1 and abs(wanted) < _EXACT_DOUBLES:
        return _cut_at(Fraction(wanted))
    first = _first(lambda at: float(at / scale) >= wanted, low, high)
    return Cut(first=first, after=_first(lambda at: float(at / scale) > wanted, first, high))


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number for which it holds, and for all after it; ``high + 1`` if there is none."""
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


def _cut_days_at(moment: datetime, zone: tzinfo) -> Cut:
    """A day is compared with a moment as its own midnight, in the session's zone if the moment has one."""
    if moment.tzinfo is None:
        return _cut_at(Fraction((moment - _EPOCH) // _MICROS, 86_400_000_000))
    local = moment.astimezone(zone)
    number = local.toordinal() - _EPOCH_DAY
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone).astimezone(UTC)
    is_after = midnight < moment.astimezone(UTC)
    return Cut(first=number + is_after, after=number + (midnight <= moment.astimezone(UTC)))


def _cut_moments(value: Literal, kind: pa.DataType, zone: tzinfo) -> Cut:
    moment = text_to_timestamp(value.value) if isinstance(value.value, str) else value.value
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - midnight by the wall
    if not isinstance(moment, datetime):
        raise MisfitError("times, such as TIMESTAMP '2024-07-01 12:00:00'")
    ticks = _TICKS[kind.unit]
    if kind.tz is not None:
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        return _cut_at(Fraction(_micros(zoned.astimezone(UTC)) * ticks, 10**6))
    if moment.tzinfo is None:
        return _cut_at(Fraction(_micros(moment) * ticks, 10**6))
    local = moment.astimezone(zone)
    if not local.fold:
        return _cut_at(Fraction(_micros(local) * ticks, 10**6))
    # The clocks were put back, and a wall time that came twice means the first time: of the second nothing is equal,
    # and what is below it reaches to the end of the hour that came twice.
    end = _end_of_fold(local, zone)
    place = math.ceil(Fraction(_micros(end) * ticks, 10**6))
    return Cut(first=place, after=place)


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


def _micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - _EPOCH) // _MICROS
