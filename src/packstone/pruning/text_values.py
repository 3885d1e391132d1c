"""Text read as a value of another type, as Spark's ANSI cast reads it; None if it is no such value.

Left out on purpose, so that they are errors and not surprises: times without a day (Spark adds today's), years of more
than four digits, and the suffixes of Java's numbers (``1.5f``).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

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
    """``yes``, ``f``, ``1`` and their like."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def text_to_integer(text: str) -> int | None:
    """Digits with a sign; 3.5 and 3.0 are none, nor is what is longer than any integer."""
    trimmed = text.strip()
    return int(trimmed) if len(trimmed) <= _MAX_DIGITS and _INTEGER.fullmatch(trimmed) else None


def text_to_double(text: str) -> float | None:
    """A number with or without exponent, NaN or infinity."""
    trimmed = text.strip()
    return float(trimmed) if _DOUBLE.fullmatch(trimmed) or _SPECIAL_DOUBLE.fullmatch(trimmed) else None


def text_to_date(text: str) -> date | None:
    """``2024-07-01``, ``2024-7-1``, ``2024-07``, ``2024``; what follows the day after a blank or T is dropped."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    except ValueError:
        return None


def text_to_timestamp(text: str) -> datetime | None:
    """A day and perhaps a time and a zone; with a zone the answer has one. Digits beyond micros are dropped."""
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
    """``Z``, ``UTC``, ``+02:00``, ``UTC+2`` or a region such as ``Europe/Berlin``."""
    name = text.strip()
    if name in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
        # Java's limit; Python would allow almost a day.
        return timezone(offset if found["sign"] == "+" else -offset) if offset <= timedelta(hours=18) else None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; a folder's name an OSError
        return None
