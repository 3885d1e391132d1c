"""Merge the statistics of one ORC column over several files.

They must be correct, and as exact as before: readers skip stripes by them, and Spark may answer ``max(x)`` from them
without reading a row. Where a part states less than the others (no range, though it has values), the merged statistics
state only the count: absent statistics mislead no reader.

NaN has no order, so writers state a meaningless range and a sum that is NaN, by which readers recognise it; one part
with NaN makes the merged statistics NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Final, TypeAlias

from packstone.rewrite.formats.orc_protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    Field,
    Message,
    change_field,
    read_message,
    read_packed,
    unzigzag,
    write_message,
    write_packed,
    zigzag,
)

Fields: TypeAlias = dict[int, int | bytes]

_COUNT: Final = 1
_HAS_NULL: Final = 10
_DOUBLE: Final = 3
_LOW_ZERO: Final = struct.pack("<d", -0.0)
_HIGH_ZERO: Final = struct.pack("<d", 0.0)
_TIMESTAMP: Final = 9
_DISK_BYTES: Final = 11
_MAX_LONG: Final = (1 << 63) - 1
_MAX_DECIMAL_DIGITS: Final = 38
_EXACT: Final = Context(prec=100)
# Timestamps: the nanoseconds after a millisecond, plus one; the values that an absent field means.
_NO_MIN_NANOS: Final = 1
_NO_MAX_NANOS: Final = 1_000_000


def merge_statistics(parts: Sequence[bytes]) -> bytes:
    """Merge the statistics of the parts of a column; the order of the parts does not matter."""
    messages: list[Fields] = [{number: value for number, _, value in read_message(part)} for part in parts]
    found: Message = [(_COUNT, VARINT, sum(_int(one, _COUNT) for one in messages))]
    typed = _merge_typed(messages)
    if typed is not None:
        found.append(typed)
    # If absent, there may be nulls.
    found.append((_HAS_NULL, VARINT, int(any(_int(one, _HAS_NULL, 1) for one in messages))))
    if all(_DISK_BYTES in one for one in messages):
        found.append((_DISK_BYTES, VARINT, sum(_int(one, _DISK_BYTES) for one in messages)))
    return write_message(found)


def are_times_within(stated: bytes, first_ms: int, last_ms: int) -> bool:
    """Whether the statistics of a timestamp column state that all values are within these milliseconds of UTC."""
    column: Fields = {number: value for number, _, value in read_message(stated)}
    if not _int(column, _COUNT):
        return True
    typed = column.get(_TIMESTAMP)
    if not isinstance(typed, bytes):
        return False
    found: Fields = {number: value for number, _, value in read_message(typed)}
    if not _all_have([found], 3, 4):
        return False
    return first_ms <= unzigzag(_int(found, 3)) <= unzigzag(_int(found, 4)) <= last_ms


def state_zeros(stated: bytes) -> bytes:
    """The statistics of a float column with a smallest zero as -0.0 and a largest as 0.0, as readers order them."""

    def change(typed: bytes) -> bytes:
        lowest = change_field(typed, 1, lambda value: _LOW_ZERO if value == _HIGH_ZERO else value)
        return change_field(lowest, 2, lambda value: _HIGH_ZERO if value == _LOW_ZERO else value)

    return change_field(stated, _DOUBLE, change)


def _merge_typed(messages: Sequence[Fields]) -> Field | None:
    kinds = {number for one in messages for number in one if number in _MERGE}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    filled = [one for one in messages if _int(one, _COUNT)]
    if not filled:
        first = next(one[kind] for one in messages if kind in one)
        return kind, BYTES, first
    parts: list[Fields] = []
    for one in filled:
        value = one.get(kind)
        if not isinstance(value, bytes):
            return None
        parts.append({number: content for number, _, content in read_message(value)})
    merged = _MERGE[kind](parts)
    return None if merged is None else (kind, BYTES, write_message(merged))


def _merge_ints(parts: Sequence[Fields]) -> Message | None:
    found = _merge_dates(parts)
    if found is not None and _all_have(parts, 3):
        total = sum(unzigzag(_int(part, 3)) for part in parts)
        if -_MAX_LONG - 1 <= total <= _MAX_LONG:  # otherwise it overflowed; then writers omit it
            found.append((3, VARINT, zigzag(total)))
    return found


def _merge_dates(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1, 2):
        return None
    low = min(unzigzag(_int(part, 1)) for part in parts)
    high = max(unzigzag(_int(part, 2)) for part in parts)
    return [(1, VARINT, zigzag(low)), (2, VARINT, zigzag(high))]


def _merge_doubles(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1, 2):
        return None
    lows, highs = ([_double(part, number) for part in parts] for number in (1, 2))
    total = sum(_double(part, 3) for part in parts) if _all_have(parts, 3) else None
    if total is None or math.isnan(total) or any(map(math.isnan, (*lows, *highs))):
        return [(number, FIXED64, struct.pack("<d", math.nan)) for number in (1, 2, 3)]
    low, high = min(lows, key=_zero_signed), max(highs, key=_zero_signed)
    return [(at, FIXED64, struct.pack("<d", value)) for at, value in ((1, low), (2, high), (3, total))]


def _merge_strings(parts: Sequence[Fields]) -> Message | None:
    """Merge strings; long values are stated by a shorter bound (fields 4, 5). The result is exact if a part's is."""
    found: Message = []
    for exact, bound, choose in ((1, 4, min), (2, 5, max)):
        if not all(exact in part or bound in part for part in parts):
            return None
        best = choose(_bytes(part, exact) if exact in part else _bytes(part, bound) for part in parts)
        is_exact = any(part.get(exact) == best for part in parts)
        found.append((exact if is_exact else bound, BYTES, best))
    if _all_have(parts, 3):
        found.append((3, VARINT, zigzag(sum(unzigzag(_int(part, 3)) for part in parts))))
    return sorted(found, key=lambda field: field[0])


def _merge_buckets(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1) or any(not isinstance(part[1], bytes) for part in parts):
        return None
    counts = [read_packed(_bytes(part, 1)) for part in parts]
    if len({len(one) for one in counts}) != 1:
        return None
    return [(1, BYTES, write_packed(map(sum, zip(*counts, strict=True))))]


def _merge_decimals(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1, 2):
        return None
    try:
        low = min((_bytes(part, 1) for part in parts), key=_decimal)
        high = max((_bytes(part, 2) for part in parts), key=_decimal)
        found: Message = [(1, BYTES, low), (2, BYTES, high)]
        if _all_have(parts, 3):
            total = Decimal(0)
            for part in parts:
                total = _EXACT.add(total, _decimal(_bytes(part, 3)))
            if len(total.as_tuple().digits) <= _MAX_DECIMAL_DIGITS:
                found.append((3, BYTES, f"{total:f}".encode()))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return found


def _merge_binaries(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1):
        return None
    return [(1, VARINT, zigzag(sum(unzigzag(_int(part, 1)) for part in parts)))]


def _merge_timestamps(parts: Sequence[Fields]) -> Message | None:
    """Merge milliseconds in the writer's zone (1, 2) and in UTC (3, 4), with the nanoseconds after UTC (5, 6)."""
    found: Message = []
    for local, choose in ((1, min), (2, max)):
        if _all_have(parts, local):
            found.append((local, VARINT, zigzag(choose(unzigzag(_int(part, local)) for part in parts))))
    for utc, nanos, absent, choose in ((3, 5, _NO_MIN_NANOS, min), (4, 6, _NO_MAX_NANOS, max)):
        if not _all_have(parts, utc):
            return None
        millis, rest = choose((unzigzag(_int(part, utc)), _int(part, nanos, absent)) for part in parts)
        found.append((utc, VARINT, zigzag(millis)))
        if rest != absent:
            found.append((nanos, VARINT, rest))
    return sorted(found, key=lambda field: field[0])


def _merge_collections(parts: Sequence[Fields]) -> Message | None:
    if not _all_have(parts, 1, 2, 3):
        return None
    folds: tuple[tuple[int, Callable[[list[int]], int]], ...] = ((1, min), (2, max), (3, sum))
    return [(number, VARINT, fold([_int(part, number) for part in parts])) for number, fold in folds]


_MERGE: Final[dict[int, Callable[[Sequence[Fields]], Message | None]]] = {
    2: _merge_ints,
    _DOUBLE: _merge_doubles,
    4: _merge_strings,
    5: _merge_buckets,
    6: _merge_decimals,
    7: _merge_dates,
    8: _merge_binaries,
    _TIMESTAMP: _merge_timestamps,
    12: _merge_collections,
}


def _all_have(parts: Sequence[Fields], *numbers: int) -> bool:
    return all(number in part for part in parts for number in numbers)


def _int(fields: Fields, number: int, default: int = 0) -> int:
    value = fields.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"field {number} of a column's statistics is not a number")  # noqa: TRY004 - as for bad bytes
    return value


def _bytes(fields: Fields, number: int) -> bytes:
    value = fields[number]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} of a column's statistics is a number")  # noqa: TRY004 - as for bad bytes
    return value


def _double(fields: Fields, number: int) -> float:
    (value,) = struct.unpack("<d", _bytes(fields, number))
    return float(value)


def _zero_signed(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


def _decimal(text: bytes) -> Decimal:
    return Decimal(text.decode())
