"""Paimon's syntax of option values: ``128 mb``, ``1 h``, ``true``, ``0:zstd,5:lz4``."""

from __future__ import annotations

import re
from typing import Final

from packstone.errors import InvalidInputError

_NUMBER_UNIT: Final = re.compile(r"(?P<number>[0-9]+)\s*(?P<unit>\D*)")
_MEMORY: Final = {
    "": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kibibytes": 2**10, "m": 2**20, "mb": 2**20,
    "mebibytes": 2**20, "g": 2**30, "gb": 2**30, "gibibytes": 2**30, "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip
_NANOS: Final = {
    "ns": 1, "nano": 1, "nanosecond": 1, "µs": 1000, "micro": 1000, "microsecond": 1000, "": 10**6, "ms": 10**6,
    "milli": 10**6, "millisecond": 10**6, "s": 10**9, "sec": 10**9, "second": 10**9, "m": 60 * 10**9,
    "min": 60 * 10**9, "minute": 60 * 10**9, "h": 3600 * 10**9, "hour": 3600 * 10**9, "d": 86400 * 10**9,
    "day": 86400 * 10**9,
}  # fmt: skip
_PLURALS: Final = {f"{unit}s": nanos for unit, nanos in _NANOS.items() if len(unit) > 2}  # noqa: PLR2004 - words


def parse_memory(text: str) -> int:
    """Bytes: ``128 mb`` is 128 times 1024 times 1024."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    unit = match["unit"].strip().lower() if match else ""
    if match is None or unit not in _MEMORY:
        raise InvalidInputError(f"{text!r} is no size; write for example 128 mb.", value=text)
    return int(match["number"]) * _MEMORY[unit]


def parse_duration_ms(text: str) -> int:
    """Milliseconds: ``1 h``, ``10 min``, ``30 s``; a number alone is milliseconds."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    nanos = (_NANOS | _PLURALS).get(match["unit"].strip().lower()) if match else None
    if match is None or nanos is None:
        raise InvalidInputError(f"{text!r} is no duration; write for example 1 h.", value=text)
    return int(match["number"]) * nanos // 10**6


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false``."""
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise InvalidInputError(f"{text!r} is neither true nor false.", value=text)
    return word == "true"


def parse_int(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise InvalidInputError(f"{text!r} is no whole number.", value=text) from None


def parse_float(text: str) -> float:
    """Read a number."""
    try:
        return float(text.strip())
    except ValueError:
        raise InvalidInputError(f"{text!r} is no number.", value=text) from None


def parse_levels(text: str) -> tuple[tuple[int, str], ...]:
    """Read a map from level to word: ``0:avro,3:parquet``."""
    pairs = [pair.partition(":") for pair in text.split(",") if pair.strip()]
    if not all(separator and level.strip().isdecimal() and word.strip() for level, separator, word in pairs):
        raise InvalidInputError(f"{text!r} is no map of levels; write for example 0:avro,3:parquet.", value=text)
    return tuple((int(level), word.strip()) for level, _, word in pairs)


def parse_names(text: str) -> tuple[str, ...]:
    """Read a list of columns: ``a, b``."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
