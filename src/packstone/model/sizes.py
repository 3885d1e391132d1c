"""Parse and format sizes, durations and counts: ``120M``, ``1h30m``; and back: ``118.2 MB``, ``3 min 4 s``.

A unit is always a power of 1024 (1 MB = 2^20 bytes), with or without the ``i``: the classic third
argument ``120M`` means HDFS block arithmetic, and two meanings of one letter would be a trap.

``format_bytes`` rounds for people; scenario files and decisions need the exact number, which ``ExactSize`` prints to
the byte and parses back: ``10MB``, ``1536KB``, ``7B``.

Decimal megabytes (``parse_mb``, ``format_mb``): ``0.1`` MB is 104,857.6 bytes, so five files of it are a few bytes off
half a megabyte. People typed 0.1 and expect 0.5: printing uses the fewest decimals whose difference rounding to whole
bytes can explain.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from packstone.errors import InvalidInputError

# What a database column of the history and a Parquet footer can hold.
MAX_BYTES = 2**63 - 1

_POWER = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTES = re.compile(r"([0-9]+)(\.[0-9]+)?\s*(?:([kmgt])i?b?|b)?", re.IGNORECASE)
_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB")

# Biggest unit first and each at most once, so that "30m1h" (more likely a typing error than intended) is refused.
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"\s*".join(rf"(?:([0-9]+(?:\.[0-9]+)?)\s*{unit})?" for unit in _SECONDS), re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Read a size such as ``120M``, ``1.5g``, ``512 KiB`` or ``4096``; a fraction of a byte is dropped."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise _bad_size(text, "is not a size")
    whole, fraction, letter = match.groups(default="")
    if fraction and not letter:
        raise _bad_size(text, "is not a whole number of bytes")
    size_bytes = int(Decimal(whole + fraction) * 1024 ** _POWER[letter.lower()])
    if size_bytes == 0:
        raise _bad_size(text, "is less than one byte")
    if size_bytes > MAX_BYTES:
        raise _bad_size(text, "is too big for any file")
    return size_bytes


def format_bytes(size_bytes: int) -> str:
    """Write a size with one decimal in the biggest unit that keeps it at least 1: ``118.2 MB``."""
    sign, rest = ("-", -size_bytes) if size_bytes < 0 else ("", size_bytes)
    if rest < 1024:  # the unit itself
        return f"{sign}{rest} B"
    power = min((rest.bit_length() - 1) // 10, len(_BYTE_UNITS) - 1)
    # 1,048,575 bytes would print as "1024.0 KB": what rounds up to a whole next unit is written in it.
    if round(rest / 1024**power, 1) >= 1024 and power + 1 < len(_BYTE_UNITS):
        power += 1
    return f"{sign}{rest / 1024**power:.1f} {_BYTE_UNITS[power]}"


def parse_duration(text: str) -> timedelta:
    """Read a duration such as ``180d``, ``1h30m`` or ``1.5h``; ``0`` alone needs no unit."""
    stripped = text.strip()
    if stripped == "0":
        return timedelta(0)
    match = _DURATION.fullmatch(stripped)
    if not stripped or match is None:
        raise _bad_duration(text, "is not a duration")
    counts = zip(match.groups(default="0"), _SECONDS.values(), strict=True)
    seconds = sum((Decimal(count) * unit_seconds for count, unit_seconds in counts), Decimal(0))
    try:
        return timedelta(microseconds=int(seconds * 1_000_000))
    except OverflowError:
        raise _bad_duration(text, "is longer than any calendar") from None


def parse_count(text: str) -> int:
    """Read a whole number such as ``5``."""
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a whole number; write for example 5.", value=text) from None


def parse_number(text: str) -> float:
    """Read a number such as ``7`` or ``0.5``."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a number; write for example 7 or 0.5.", value=text) from None


def parse_flag(text: str) -> bool:
    """Read ``true`` or ``false``."""
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise InvalidInputError(f"{text!r} is neither true nor false.", value=text)
    return lower == "true"


def format_duration(seconds: float) -> str:
    """Write a duration as ``12 ms``, ``1.2 s``, ``3 min 4 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 0.0995:  # below this, one decimal of a second would print 0.0 or 0.1
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:  # from here on "%.1f" would print 60.0 s
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    # Rounded to the smaller unit shown before it is split, else 3,599.6 s would be "59 min 60 s".
    if whole_seconds < _SECONDS["h"]:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    minutes = round(whole_seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(whole_seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def plural(count: int, noun: str) -> str:
    """Count things: ``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _bad_size(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{text!r} {why}; write for example 120M, 1.5g or 134217728.", value=text)


def _bad_duration(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{text!r} {why}; write for example 180d, 12h or 1h30m.", value=text)


MB = 2**20
_TYPED_DECIMALS = 5  # what people type; more decimals come from rounding to whole bytes
_SHOWN_DECIMALS = 3
_EXACT_DECIMALS = 7  # a byte is about 0.000001 MB
_TOLERANCE = Decimal("0.00002")  # half a byte in each of many files of 0.02 MB and more


def parse_mb(megabytes: Decimal) -> int:
    """The nearest whole number of bytes."""
    size_bytes = round(megabytes * MB)
    if size_bytes > MAX_BYTES:
        raise InvalidInputError(f"{megabytes} MB is too big for any file.", value=str(megabytes))
    return size_bytes


def format_mb(size_bytes: int) -> str:
    """Write megabytes with as few decimals as the bytes allow: ``300``, ``12.5``, ``0.1``."""
    megabytes = Decimal(size_bytes) / MB
    for decimals in range(_TYPED_DECIMALS + 1):
        text = f"{megabytes:.{decimals}f}"
        if round(Decimal(text) * MB) == size_bytes:
            return text
    shown = f"{megabytes:.{_SHOWN_DECIMALS}f}"
    is_close = abs(Decimal(shown) - megabytes) < megabytes * _TOLERANCE
    return (shown if is_close else f"{megabytes:.{_EXACT_DECIMALS}f}").rstrip("0").rstrip(".")


_UNITS = ("B", "KB", "MB", "GB", "TB")
_EXACT = re.compile(rf"([0-9]+)({'|'.join(_UNITS)})?")


class ExactSize(int):
    """A number of bytes, printed in the biggest unit that divides it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> ExactSize:
        """Read ``10MB`` or ``10``."""
        match = _EXACT.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a size; write for example 10MB, 512KB or 7B.", value=text)
        return cls(int(match[1]) << 10 * _UNITS.index(match[2] or "B"))

    def __str__(self) -> str:
        power, rest = 0, int(self)
        while rest and rest % 1024 == 0 and power + 1 < len(_UNITS):
            power, rest = power + 1, rest // 1024
        return f"{rest}{_UNITS[power]}"
