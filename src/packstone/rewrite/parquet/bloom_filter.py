"""Bloom filters in Parquet files: which values a column chunk surely does not hold.

PyArrow writes them and cannot ask them. A filter is a row of blocks of 32 bytes, eight words of 32 bits each. The upper
half of a value's hash chooses the block, the lower half one bit in each word; a value may be there only if all eight
are set. The hash is XXH64 with seed 0 of the value as Parquet stores it plainly.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from packstone.rewrite.parquet.thrift_compact import Struct, read_struct

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

_BLOCK_BYTES: Final = 32
_HEADER_BYTES: Final = 64  # more than any header takes
_MOST_BYTES: Final = 16 << 20  # the filter of ten million values
_SALTS: Final = np.array(
    (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31), dtype=np.uint32
)
_BIT_SHIFT: Final = np.uint32(27)  # leaves the five bits that number a bit of a word
_LONG: Final = 0xFFFF_FFFF_FFFF_FFFF
# Fields of BloomFilterHeader in parquet.thrift; of each choice the first is the only one there is so far.
_SIZE, _CHOICES, _FIRST = 1, (2, 3, 4), 1
# The constants of XXH64.
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomFilter:
    """The filter of one column chunk."""

    words: Words

    def may_hold_any(self, hashes: Hashes) -> bool:
        """Whether any value with one of these hashes may be in the column chunk."""
        block = ((hashes >> np.uint64(32)) * np.uint64(len(self.words))) >> np.uint64(32)
        bit = (hashes.astype(np.uint32)[:, np.newaxis] * _SALTS) >> _BIT_SHIFT
        is_set = (self.words[block.astype(np.int64)] >> bit) & np.uint32(1)
        return bool(is_set.all(axis=1).any())


def read_bloom_filter(source: Any, offset: int, length_bytes: int | None) -> BloomFilter | None:  # noqa: ANN401 - a pyarrow file
    """Read the filter at an offset; None if it is too big, or of a kind that we do not know."""
    data = source.read_at(min(length_bytes or _HEADER_BYTES, _MOST_BYTES), offset)
    try:
        header, begin = read_struct(data)
    except (ValueError, IndexError):
        return None
    size_bytes = header.get(_SIZE, (0, 0))[1]
    if not all(_is_first(header, choice) for choice in _CHOICES):
        return None
    if not 0 < size_bytes <= _MOST_BYTES or size_bytes % _BLOCK_BYTES:
        return None
    if len(data) < begin + size_bytes:
        data, begin = source.read_at(size_bytes, offset + begin), 0
    if len(data) < begin + size_bytes:
        return None  # a file that ends too early fails where its rows are read
    words = np.frombuffer(data, dtype="<u4", count=size_bytes // 4, offset=begin)
    return BloomFilter(words=words.reshape(-1, len(_SALTS)))


def hash_value(data: bytes) -> int:
    """XXH64 of bytes with seed 0."""
    at, size = 0, len(data)
    if size >= _STRIPE_BYTES:
        result, at = _hash_stripes(data)
    else:
        result = _P5
    result = (result + size) & _LONG
    for (lane,) in struct.iter_unpack("<Q", data[at : size - (size - at) % 8]):
        result = (_rotate(result ^ _round(0, lane), 27) * _P1 + _P4) & _LONG
    at = size - (size - at) % 8
    if size - at >= 4:  # noqa: PLR2004 - half a lane
        (half,) = struct.unpack_from("<I", data, at)
        result = (_rotate(result ^ (half * _P1) & _LONG, 23) * _P2 + _P3) & _LONG
        at += 4
    for byte in data[at:]:
        result = (_rotate(result ^ (byte * _P5) & _LONG, 11) * _P1) & _LONG
    result = ((result ^ result >> 33) * _P2) & _LONG
    result = ((result ^ result >> 29) * _P3) & _LONG
    return result ^ result >> 32


def _hash_stripes(data: bytes) -> tuple[int, int]:
    """The whole stripes of long data, and where they end."""
    lanes = [(_P1 + _P2) & _LONG, _P2, 0, -_P1 & _LONG]
    end = len(data) // _STRIPE_BYTES * _STRIPE_BYTES
    for stripe in struct.iter_unpack("<4Q", data[:end]):
        lanes = [_round(lane, part) for lane, part in zip(lanes, stripe, strict=True)]
    result = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _LONG
    for lane in lanes:
        result = ((result ^ _round(0, lane)) * _P1 + _P4) & _LONG
    return result, end


def _round(lane: int, part: int) -> int:
    return (_rotate((lane + part * _P2) & _LONG, 31) * _P1) & _LONG


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _LONG


def _is_first(header: Struct, choice: int) -> bool:
    return set(header.get(choice, (0, {}))[1]) == {_FIRST}
