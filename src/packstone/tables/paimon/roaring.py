"""Roaring bitmaps, read only: sorted sets of row positions, as deletion vectors store them.

The format is the public one (RoaringFormatSpec): containers of 65,536 positions, each an array, a bit set or runs.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from packstone.errors import CorruptionError

Positions: TypeAlias = npt.NDArray[np.int64]

_COOKIE: Final = 12347  # with runs; the number of containers stands in the upper half
_COOKIE_NO_RUNS: Final = 12346
_NO_OFFSETS_BELOW: Final = 4  # with runs and fewer containers there is no table of offsets
_BITSET_BYTES: Final = 8192
_ARRAY_MAX: Final = 4096  # more values than this are a bit set


def decode_roaring(data: bytes) -> tuple[Positions, int]:
    """Positions of a 32-bit bitmap, ascending, and how many bytes it took."""
    try:
        return _decode(data)
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptionError(f"A Roaring bitmap cannot be read: {error}.") from error


def decode_roaring64(data: bytes) -> Positions:
    """Positions of a 64-bit bitmap: a count, then one 32-bit bitmap for each upper half."""
    try:
        (count,) = struct.unpack_from("<q", data)
        at, parts = 8, [np.empty(0, dtype=np.int64)]
        for _ in range(count):
            (high,) = struct.unpack_from("<I", data, at)
            low, used = _decode(data[at + 4 :])
            parts.append(low + (high << 32))
            at += 4 + used
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptionError(f"A 64-bit Roaring bitmap cannot be read: {error}.") from error
    return np.concatenate(parts)


def _decode(data: bytes) -> tuple[Positions, int]:
    (cookie,) = struct.unpack_from("<I", data)
    at = 4
    has_runs = cookie & 0xFFFF == _COOKIE
    if has_runs:
        containers = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (containers + 7) // 8, at), bitorder="little")
        at += (containers + 7) // 8
    elif cookie == _COOKIE_NO_RUNS:
        (containers,) = struct.unpack_from("<I", data, at)
        flags = np.zeros(containers, dtype=np.uint8)
        at += 4
    else:
        raise ValueError(f"its first bytes are {cookie:#x}")
    heads = np.frombuffer(data, "<u2", 2 * containers, at).astype(np.int64)
    at += 4 * containers
    if not has_runs or containers >= _NO_OFFSETS_BELOW:
        at += 4 * containers  # containers stand one after the other, so the table of offsets is not needed
    parts = [np.empty(0, dtype=np.int64)]
    for number in range(containers):
        low, used = _container(data, at, cardinality=int(heads[2 * number + 1]) + 1, is_run=bool(flags[number]))
        parts.append(low + (int(heads[2 * number]) << 16))
        at += used
    return np.concatenate(parts), at


def _container(data: bytes, at: int, *, cardinality: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64).reshape(runs, 2)
        spans = [np.arange(start, start + more + 1, dtype=np.int64) for start, more in pairs]
        return np.concatenate([np.empty(0, dtype=np.int64), *spans]), 2 + 4 * runs
    if cardinality > _ARRAY_MAX:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITSET_BYTES, at), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64), _BITSET_BYTES
    return np.frombuffer(data, "<u2", cardinality, at).astype(np.int64), 2 * cardinality
