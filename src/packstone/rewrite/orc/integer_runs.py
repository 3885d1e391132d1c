"""ORC's integers, run by run: both versions decoded, the second one encoded. Whole runs at a time, by NumPy.

Version 2 has runs of up to 512 values in four forms: a repeated value, packed bits, packed bits with patches for the
outliers, and differences. This is a second implementation beside the one in PyArrow, so that what PyArrow wrote can be
read by something that does not share its faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from packstone.rewrite.orc.protobuf import read_varint, unzigzag, write_varint, zigzag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Unsigned: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

MAX_RUN: Final = 512
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MIN_REPEAT: Final = 3
_MAX_REPEAT: Final = 10
_BYTE_BITS: Final = 8
_LONG_BITS: Final = 64
_MASK: Final = (1 << _LONG_BITS) - 1
_LITERALS: Final = 0x80
_DIRECT: Final = 1
_DIFFERENCES: Final = 3
_SMALL_BITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRuns:
    """Decoded values, and where each run begins: in bytes, and as the number of its first value."""

    values: Integers
    size_bytes: int
    byte_starts: tuple[int, ...]
    value_starts: tuple[int, ...]


def decode_integers(data: bytes, *, is_signed: bool, version: int = 2, max_values: int) -> IntegerRuns:
    """Decode all runs; ValueError if the bytes are broken or hold more values than expected."""
    read = _read_run_v2 if version == 2 else _read_run_v1  # noqa: PLR2004 - the format's version
    at, count = 0, 0
    parts: list[Integers] = []
    byte_starts, value_starts = [], []
    while at < len(data):
        byte_starts.append(at)
        value_starts.append(count)
        values, at = read(data, at, is_signed)
        if at > len(data):
            raise ValueError("the bytes end within a run of integers")
        count += len(values)
        if count > max_values:
            raise ValueError(f"a stream holds more than the {max_values} integers of its stripe")
        parts.append(values)
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return IntegerRuns(
        values=joined, size_bytes=len(data), byte_starts=tuple(byte_starts), value_starts=tuple(value_starts)
    )


def bound_integers(data: bytes, *, version: int = 2) -> int:
    """A number that no value of a stream without signs exceeds; ValueError if the stream is broken.

    It is exact but for runs of packed bits up to 4095, which are most: their width is enough. Streams of lengths have
    a run for every few values, so this loop is written for speed.
    """
    at, most, end = 0, 0, len(data)
    try:
        while at < end:
            head = data[at]
            form = head >> 6 if version == 2 else _DIFFERENCES  # noqa: PLR2004 - the format's version
            if form == 0:
                width_bytes = (head >> 3 & 7) + 1
                at += 1 + width_bytes
                value = int.from_bytes(data[at - width_bytes : at], "big")
            elif form == _DIRECT and _WIDTHS[head >> 1 & 31] <= _SMALL_BITS:
                width = _WIDTHS[head >> 1 & 31]
                at += 2 + (width * (((head & 1) << 8 | data[at + 1]) + 1) + 7) // _BYTE_BITS
                value = (1 << width) - 1
            elif form == _DIFFERENCES and version == 2 and not head & 0x3E and data[at + 2] < _LITERALS:  # noqa: PLR2004
                value, at = _bound_steady(data, at)
            else:
                value, at = _bound_decoded(data, at, version)
            most = max(value, most)
    except IndexError:
        raise ValueError("the bytes end within a run of integers") from None
    if at > end or most >= 1 << 63:
        raise ValueError("the bytes end within a run of integers")
    return most


def _bound_steady(data: bytes, at: int) -> tuple[int, int]:
    """The largest value of a run of equal differences with a small begin, and where the run ends."""
    first, count = data[at + 2], _run_length(data, at)
    step, at = read_varint(data, at + 3)
    last = first + unzigzag(step) * (count - 1)
    if last < 0:
        raise ValueError("a length is negative")
    return max(first, last), at


def _bound_decoded(data: bytes, at: int, version: int) -> tuple[int, int]:
    read = _read_run_v2 if version == 2 else _read_run_v1  # noqa: PLR2004
    values, at = read(data, at, False)  # noqa: FBT003 - not signed
    if int(values.min()) < 0:
        raise ValueError("a length is negative")
    return int(values.max()), at


def encode_integers(values: Integers, *, is_signed: bool, breaks: Sequence[int] = ()) -> tuple[bytes, list[int]]:
    """Encode by version 2; a run begins at each break, and the answer says at which byte."""
    stored = _zigzag_all(values) if is_signed else values.view(np.uint64)
    out = bytearray()
    starts = []
    places = [*breaks, len(stored)]
    for begin in range(0, places[0], MAX_RUN):
        out += _write_run(stored[begin : min(begin + MAX_RUN, places[0])])
    for first, last in pairwise(places):
        starts.append(len(out))
        for begin in range(first, last, MAX_RUN):
            out += _write_run(stored[begin : min(begin + MAX_RUN, last)])
    return bytes(out), starts


def _read_run_v2(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001 - one of its readers
    forms: tuple[Callable[[bytes, int, bool], tuple[Integers, int]], ...] = (
        _read_repeated,
        _read_direct,
        _read_patched,
        _read_differences,
    )
    try:
        return forms[data[at] >> 6](data, at, is_signed)
    except (IndexError, OverflowError):
        raise ValueError("the bytes end within a run of integers") from None


def _read_repeated(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    width_bytes, count = (data[at] >> 3 & 7) + 1, (data[at] & 7) + _MIN_REPEAT
    value = int.from_bytes(data[at + 1 : at + 1 + width_bytes], "big")
    return np.full(count, _to_long(unzigzag(value) if is_signed else value), np.int64), at + 1 + width_bytes


def _read_direct(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    width, count = _WIDTHS[data[at] >> 1 & 31], _run_length(data, at)
    found, end = _unpack(data, at + 2, width=width, count=count)
    return _unzigzag_all(found) if is_signed else found.view(np.int64), end


def _read_patched(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: ARG001, FBT001 - always signed
    width, count = _WIDTHS[data[at] >> 1 & 31], _run_length(data, at)
    base_bytes, patch_width = (data[at + 2] >> 5) + 1, _WIDTHS[data[at + 2] & 31]
    gap_width, patch_count = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    at += 4
    base = int.from_bytes(data[at : at + base_bytes], "big")
    sign = 1 << (base_bytes * _BYTE_BITS - 1)
    base = -(base & ~sign) if base & sign else base
    found, at = _unpack(data, at + base_bytes, width=width, count=count)
    if patch_width + gap_width > _LONG_BITS:
        raise ValueError("a patch of a run of integers is too wide")
    patches, at = _unpack(data, at, width=_closest_width(patch_width + gap_width), count=patch_count)
    place = 0
    for patch in patches.tolist():
        place += patch >> patch_width
        high = (patch & ((1 << patch_width) - 1)) << width
        if high:
            found[place] |= np.uint64(high & _MASK)
    return found.view(np.int64) + np.int64(_to_long(base)), at


def _read_differences(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    code, count = data[at] >> 1 & 31, _run_length(data, at)
    base, at = read_varint(data, at + 2)
    step, at = read_varint(data, at)
    first, delta = _to_long(unzigzag(base) if is_signed else base), _to_long(unzigzag(step))
    found = np.full(count, delta, np.int64)
    found[0] = first
    if code and count > 2:  # noqa: PLR2004 - the first two are stated by the header
        packed, at = _unpack(data, at, width=_WIDTHS[code], count=count - 2)
        found[2:] = packed.view(np.int64) if delta >= 0 else -packed.view(np.int64)
    return np.cumsum(found, dtype=np.int64), at


def _read_run_v1(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    control = data[at]
    at += 1
    values = []
    if control < _LITERALS:
        if at >= len(data):
            raise ValueError("the bytes end within a run of integers")
        step = data[at] - 256 if data[at] >= _LITERALS else data[at]
        base, at = read_varint(data, at + 1)
        first = unzigzag(base) if is_signed else base
        values = [first + step * number for number in range(control + _MIN_REPEAT)]
    else:
        for _ in range(256 - control):
            value, at = read_varint(data, at)
            values.append(unzigzag(value) if is_signed else value)
    return np.array([_to_long(value) for value in values], np.int64), at


def _run_length(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _unpack(data: bytes, at: int, *, width: int, count: int) -> tuple[_Unsigned, int]:
    """Values of a fixed number of bits each, the highest bit first."""
    size_bytes = (width * count + 7) // _BYTE_BITS
    if at + size_bytes > len(data):
        raise ValueError("the bytes end within a run of integers")
    packed = np.frombuffer(data, np.uint8, size_bytes, at)
    wide = np.zeros((count, _LONG_BITS), np.uint8)
    wide[:, _LONG_BITS - width :] = np.unpackbits(packed, count=width * count).reshape(count, width)
    return np.packbits(wide, axis=1).view(">u8").reshape(count).astype(np.uint64), at + size_bytes


def _write_run(stored: _Unsigned) -> bytes:
    """One run of up to 512 values: a repeated value in a few bytes, else packed bits."""
    count, first = len(stored), int(stored[0])
    if count >= _MIN_REPEAT and bool(np.all(stored == stored[0])):
        if count <= _MAX_REPEAT:
            width_bytes = max(1, (first.bit_length() + 7) // _BYTE_BITS)
            return bytes(((width_bytes - 1) << 3 | (count - _MIN_REPEAT),)) + first.to_bytes(width_bytes, "big")
        out = bytearray((0xC0 | (count - 1) >> 8, (count - 1) & 0xFF))
        write_varint(out, first)
        write_varint(out, zigzag(0))
        return bytes(out)
    width = _closest_width(int(stored.max()).bit_length())
    wide = np.unpackbits(stored.astype(">u8").view(np.uint8).reshape(count, 8), axis=1)
    packed = np.packbits(wide[:, _LONG_BITS - width :].reshape(-1)).tobytes()
    return bytes((0x40 | _WIDTHS.index(width) << 1 | (count - 1) >> 8, (count - 1) & 0xFF)) + packed


def _closest_width(bits: int) -> int:
    return next(width for width in _WIDTHS if width >= bits)


def _zigzag_all(values: Integers) -> _Unsigned:
    return (values << 1 ^ values >> 63).view(np.uint64)


def _unzigzag_all(values: _Unsigned) -> Integers:
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def _to_long(value: int) -> int:
    """The 64 bits of a number, as Java's long has them."""
    value &= _MASK
    return value - (1 << _LONG_BITS) if value >> (_LONG_BITS - 1) else value
