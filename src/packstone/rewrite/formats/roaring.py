"""Roaring bitmaps: sorted sets of row positions, in the public format (RoaringFormatSpec).

Positions are stored in containers of 65,536, each an array, a bit set or runs. The deletion vectors of Paimon are read
here, the delete files of segment tables are read and written.

This is an own codec, not `pyroaring`: executors decode positions too, and need no compiled package besides PyArrow and
NumPy there. Only reading and writing is needed, not the set operations; NumPy does those on the decoded positions.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from packstone.errors import CorruptionError

Positions: TypeAlias = npt.NDArray[np.int64]

_COOKIE: Final = 12347  # with runs; the number of containers is in the upper half
_COOKIE_NO_RUNS: Final = 12346
_NO_OFFSETS_BELOW: Final = 4  # with runs and fewer containers there is no table of offsets
_BITSET_BYTES: Final = 8192
_ARRAY_MAX: Final = 4096  # more values than this are stored as a bit set


def decode_roaring(data: bytes) -> tuple[Positions, int]:
    """Positions of a 32-bit bitmap, ascending, and the number of bytes read."""
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
        at += 4 * containers  # containers follow one another, so the table of offsets is not needed
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


# ---- write ----


_CONTAINER_BITS: Final = 16
_LOW: Final = (1 << _CONTAINER_BITS) - 1
_MOST_POSITIONS: Final = 1 << 32


def encode_roaring(positions: Positions) -> bytes:
    """Write ascending positions below 2^32 as a 32-bit bitmap, each container in its smallest form."""
    if len(positions) and not (
        positions[0] >= 0 and positions[-1] < _MOST_POSITIONS and (np.diff(positions) > 0).all()
    ):
        raise ValueError("positions must be ascending, and below 2^32")
    keys, firsts = np.unique(positions >> _CONTAINER_BITS, return_index=True)
    lows = [part & _LOW for part in np.split(positions, firsts[1:])] if len(keys) else []
    bodies, flags = zip(*map(_smallest, lows), strict=True) if lows else ((), ())
    heads = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in zip(keys.tolist(), lows, strict=True))
    has_offsets = not any(flags) or len(lows) >= _NO_OFFSETS_BELOW
    if any(flags):
        first = struct.pack("<I", _COOKIE | (len(lows) - 1) << _CONTAINER_BITS)
        first += np.packbits(np.array(flags, dtype=np.uint8), bitorder="little").tobytes()
    else:
        first = struct.pack("<II", _COOKIE_NO_RUNS, len(lows))
    begin = len(first) + len(heads) + (4 * len(lows) if has_offsets else 0)
    sizes = [len(body) for body in bodies]
    offsets = (np.cumsum([begin, *sizes])[:-1]).astype("<u4").tobytes() if has_offsets and lows else b""
    return b"".join((first, heads, offsets, *bodies))


def _smallest(low: Positions) -> tuple[bytes, bool]:
    """The bytes of one container, and whether they are runs."""
    breaks = np.flatnonzero(np.diff(low) > 1)
    if 2 + 4 * (len(breaks) + 1) < min(2 * len(low), _BITSET_BYTES):
        starts, ends = low[np.append(0, breaks + 1)], low[np.append(breaks, len(low) - 1)]
        pairs = np.stack([starts, ends - starts], axis=1).astype("<u2")
        return struct.pack("<H", len(pairs)) + pairs.tobytes(), True
    if len(low) > _ARRAY_MAX:
        bits = np.zeros(_BITSET_BYTES * 8, dtype=np.uint8)
        bits[low] = 1
        return np.packbits(bits, bitorder="little").tobytes(), False
    return low.astype("<u2").tobytes(), False
