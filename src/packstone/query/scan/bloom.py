"""Row groups that the bloom filters in a Parquet file exclude, because no row of them can equal a requested value.

Bounds do not help where many row groups span a value and few hold it, as in overlapping segments; a bloom filter does,
for ``=`` and ``IN`` and their combinations with AND and OR. Checking one takes two small reads, so filters are checked
only for lists of at most 256 values, and only for columns that have the same type in the file and in the table.

PyArrow writes bloom filters but cannot check them. A filter is an array of blocks of 32 bytes, eight words of 32 bits
each. The upper half of a value's hash selects the block, the lower half one bit in each word; the value may be in the
column chunk only if all eight bits are set. The hash is XXH64 with seed 0 of the value in Parquet's plain encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow.types as pt

from packstone.query.filter.expression import And, Compare, Expression, OneOf, Op, Or, ValueSet
from packstone.rewrite.formats.parquet_thrift import Struct, read_struct

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.query.scan.scanned_file import Footer

_MAX_VALUES: Final = 256
_INTEGERS: Final[Mapping[str, str]] = {"INT32": "<i", "INT64": "<q"}


def requested_columns(expression: Expression, known: Collection[str]) -> frozenset[str]:
    """The columns whose bloom filters could exclude something, if the columns ``known`` have bloom filters."""
    match expression:
        case Compare(op=Op.EQ, column=name) | OneOf(negated=False, column=name):
            is_checked = name in known and len(_values(expression)) <= _MAX_VALUES
            return frozenset({name}) if is_checked else frozenset()
        case And(parts=parts):
            return frozenset().union(*(requested_columns(part, known) for part in parts))
        case Or(parts=parts):
            found = [requested_columns(part, known) for part in parts]
            return frozenset().union(*found) if all(found) else frozenset()
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomTest:
    """A filter, and the file whose bloom filters it checks; ``sources`` are the file's names of the columns."""

    expression: Expression
    filter_schema: pa.Schema
    footer: Footer
    sources: Mapping[str, str | None]
    _hashes: dict[int, Hashes] = field(default_factory=dict)  # by the identity of a part of the expression

    def is_worth_running(self) -> bool:
        """Whether the file has a bloom filter that could exclude something, according to its footer."""
        if not self.footer.group_rows:
            return False
        leaves = self._leaves()
        known = [name for name, leaf in leaves.items() if _filter_offset(self._chunk(0, leaf)) is not None]
        return bool(requested_columns(self.expression, known))

    def choose(self, source: Any, groups: Sequence[int]) -> list[int]:
        """The row groups that may still hold a match."""
        leaves = self._leaves()
        return [group for group in groups if self._may_match(self.expression, _OpenGroup(source, group, leaves))]

    def _leaves(self) -> dict[str, int]:
        """The number of the column chunk of each column whose bloom filter can be checked."""
        numbers, schema, found = self.footer.leaves, self.footer.schema, {}
        for column in self.filter_schema:
            name = self.sources.get(column.name)
            if (
                name is not None
                and name in numbers
                and schema.field(name).type == column.type
                and _is_exact(column.type)
            ):
                found[column.name] = numbers[name]
        return found

    def _may_match(self, expression: Expression, opened: _OpenGroup) -> bool:
        match expression:
            case And(parts=parts):
                return all(self._may_match(part, opened) for part in parts)
            case Or(parts=parts):
                return any(self._may_match(part, opened) for part in parts)
            case Compare(op=Op.EQ, column=name) | OneOf(negated=False, column=name) if name in opened.leaves:
                return self._may_hold(expression, opened, leaf=opened.leaves[name])
        return True

    def _may_hold(self, expression: Compare | OneOf, opened: _OpenGroup, *, leaf: int) -> bool:
        chunk = self._chunk(opened.group, leaf)
        offset = _filter_offset(chunk)
        if offset is None or len(_values(expression)) > _MAX_VALUES:
            return True
        if id(expression) not in self._hashes:
            stored = self.footer.metadata.schema.column(leaf)
            hashes = [hash_value(_plain(value, stored)) for value in _values(expression)]
            self._hashes[id(expression)] = np.array(hashes, dtype=np.uint64)
        bloom = read_bloom_filter(opened.source, offset, chunk.bloom_filter_length)
        return bloom is None or bloom.may_hold_any(self._hashes[id(expression)])

    def _chunk(self, group: int, leaf: int) -> Any:
        return self.footer.metadata.row_group(group).column(leaf)


@dataclass(frozen=True, slots=True)
class _OpenGroup:
    """A row group of the open file, and the column chunks in it."""

    source: Any
    group: int
    leaves: Mapping[str, int]


def _filter_offset(chunk: Any) -> int | None:
    """The offset of the bloom filter, if any; None also for INT96 times, and with a PyArrow that does not report it."""
    return None if chunk.physical_type == "INT96" else getattr(chunk, "bloom_filter_offset", None)


def _values(expression: Compare | OneOf) -> Sequence[Any]:
    if isinstance(expression, Compare):
        return (expression.literal,)
    assert isinstance(expression.literals, ValueSet)  # it is resolved
    return expression.literals.array


def _is_exact(kind: pa.DataType) -> bool:
    """Whether equal values have equal, known bytes; false for floats and for times in other units."""
    is_time = pt.is_timestamp(kind) and kind.unit == "us"
    is_number = (pt.is_signed_integer(kind) or pt.is_decimal128(kind)) and not pt.is_duration(kind)
    return bool(is_number or is_time or pt.is_date32(kind) or pt.is_string(kind) or pt.is_binary(kind))


def _plain(value: pa.Scalar, stored: Any) -> bytes:
    """A value in Parquet's plain encoding, without the length of a string."""
    if pt.is_string(value.type) or pt.is_binary(value.type):
        return bytes(value.as_buffer())
    if pt.is_decimal(value.type):
        sign, digits, _ = value.as_py().as_tuple()  # Arrow returns all digits of the scale
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
    else:
        number = value.as_py() if pt.is_integer(value.type) else value.value
    if stored.physical_type in _INTEGERS:
        return struct.pack(_INTEGERS[stored.physical_type], number)
    return number.to_bytes(stored.length, "big", signed=True)


Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

_BLOCK_BYTES: Final = 32
_HEADER_BYTES: Final = 64  # larger than any header
_MAX_BYTES: Final = 16 << 20  # enough for ten million values
_SALTS: Final = np.array(
    (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31), dtype=np.uint32
)
_BIT_SHIFT: Final = np.uint32(27)  # leaves five bits: the number of a bit in a word
_LONG: Final = 0xFFFF_FFFF_FFFF_FFFF
# Fields of BloomFilterHeader in parquet.thrift; each union has only its first member so far.
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


def read_bloom_filter(source: Any, offset: int, length_bytes: int | None) -> BloomFilter | None:
    """Read the filter at an offset; None if it is too big or of an unknown kind."""
    data = source.read_at(min(length_bytes or _HEADER_BYTES, _MAX_BYTES), offset)
    try:
        header, begin = read_struct(data)
    except (ValueError, IndexError):
        return None
    size_bytes = header.get(_SIZE, (0, 0))[1]
    if not all(_is_first(header, choice) for choice in _CHOICES):
        return None
    if not 0 < size_bytes <= _MAX_BYTES or size_bytes % _BLOCK_BYTES:
        return None
    if len(data) < begin + size_bytes:
        data, begin = source.read_at(size_bytes, offset + begin), 0
    if len(data) < begin + size_bytes:
        return None  # reading the rows of a truncated file fails with a clear error
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
    if size - at >= 4:  # half a lane
        (half,) = struct.unpack_from("<I", data, at)
        result = (_rotate(result ^ (half * _P1) & _LONG, 23) * _P2 + _P3) & _LONG
        at += 4
    for byte in data[at:]:
        result = (_rotate(result ^ (byte * _P5) & _LONG, 11) * _P1) & _LONG
    result = ((result ^ result >> 33) * _P2) & _LONG
    result = ((result ^ result >> 29) * _P3) & _LONG
    return result ^ result >> 32


def _hash_stripes(data: bytes) -> tuple[int, int]:
    """The hash of the whole stripes of long data, and the position where they end."""
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
