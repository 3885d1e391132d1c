"""Columns as words of 64 bits whose order is the order of the rows: memory-comparable keys of any types.

A column becomes *components*, unsigned numbers with as many bits as its values in this window need: an integer its
distance from the smallest, a string the bytes behind what all of them begin with, a null flag where there are nulls
(nulls first). Components of all columns are laid side by side and cut into words. In a window of neighbouring keys
one word nearly always tells all keys apart, also of long strings and of several columns, so one sort of plain numbers
is enough. Later words are made only if somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.merge.java_order import to_java_order

U64 = np.ndarray[Any, np.dtype[np.uint64]]
I64 = np.ndarray[Any, np.dtype[np.int64]]

_WORD_BITS = 64
_WORD_BYTES = 8
_LONG_DIGITS = 18  # decimal digits that fit 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Unsigned numbers below 2**bits; the earlier component decides."""

    values: U64
    bits: int

    def inverted(self) -> Component:
        """The same the other way round, for a descending order."""
        return Component(values=self.values ^ np.uint64((1 << self.bits) - 1), bits=self.bits)


class Words:
    """The words of all rows, most significant first, made when asked for."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._source = _pack(components)
        self._made: list[U64] = []

    def get(self, at: int) -> U64 | None:
        """Make the word at this place; None behind the last one."""
        while len(self._made) <= at:
            word = next(self._source, None)
            if word is None:
                return None
            self._made.append(word)
        return self._made[at]


def find_components(column: pa.Array, *, extremes: Sequence[int] | None = None) -> Iterator[Component]:
    """Turn a column into components.

    ``extremes`` are rows among which the smallest and the largest value are, where somebody knows: the first key
    column of sorted runs. Then nobody has to look for what all strings begin with.
    """
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        yield Component(values=valid.astype(np.uint64), bits=1)
        column = _filled(column)
        extremes = None
    kind = column.type
    if _is_bytes(kind):
        yield from _byte_components(column, extremes)
    elif pt.is_decimal(kind):
        yield from _decimal_components(column)
    else:
        yield from number_components(to_integers(column))


def to_integers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers, booleans, dates and times as signed integers in their order; nulls hold anything."""
    kind = column.type
    if pt.is_boolean(kind):
        return column.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.int8)
    if pt.is_floating(kind):
        return to_java_order(column_values(column, np.dtype(f"f{kind.bit_width // 8}")))
    if pt.is_integer(kind) or pt.is_temporal(kind):
        return column_values(column, np.dtype(f"i{kind.bit_width // 8}"))
    raise InvalidInputError(f"A column of type {kind} has no order to merge by.")


def column_values(column: pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Look at the values of a fixed-width column in place."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(column), offset=column.offset * dtype.itemsize)


def number_components(values: np.ndarray[Any, Any]) -> Iterator[Component]:
    """Signed integers as distances from the smallest; none if all are equal."""
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    if low == high:
        return
    distance = values.astype(np.int64, copy=False).view(np.uint64) - np.uint64(low & (2**64 - 1))
    yield Component(values=distance, bits=(high - low).bit_length())


def _filled(column: pa.Array) -> pa.Array:
    """Give the nulls some value that is there: the bits behind the null flag must agree, not matter."""
    known = column.drop_null()
    if not len(known):
        return pa.repeat(pa.scalar(0, pa.int8()), len(column))
    return column.fill_null(known[0])


def _is_bytes(kind: pa.DataType) -> bool:
    return (
        pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_string(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
    )


def _decimal_components(column: pa.Array) -> Iterator[Component]:
    """Sixteen bytes, little end first; the low half says all if the digits fit it."""
    halves = (
        column_values(
            pa.Array.from_buffers(pa.binary(16), len(column), column.buffers(), offset=column.offset), np.dtype("V16")
        )
        .view(np.int64)
        .reshape(-1, 2)
    )
    if column.type.precision <= _LONG_DIGITS:
        yield from number_components(halves[:, 0])
        return
    yield from number_components(halves[:, 1])
    yield Component(values=np.ascontiguousarray(halves[:, 0]).view(np.uint64), bits=_WORD_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bytes:
    """Strings side by side, with room for a word behind the last one."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    starts: I64
    lengths: I64

    def load(self, at: int) -> U64:
        """Eight bytes of every string from this place on, big end first, zeros behind the string's end."""
        view = np.ndarray((len(self.data) - _WORD_BYTES + 1,), dtype=">u8", buffer=self.data, strides=(1,))
        words = view[np.minimum(self.starts + at, len(view) - 1)].astype(np.uint64)
        missing = np.clip(_WORD_BYTES + at - self.lengths, 0, _WORD_BYTES)
        if not missing.any():
            return words
        shift = (missing << 3).astype(np.uint64)
        words = (words >> shift) << shift
        words[missing == _WORD_BYTES] = 0
        return words

    def text(self, row: int) -> bytes:
        """One string."""
        return self.data[self.starts[row] : self.starts[row] + self.lengths[row]].tobytes()


def _byte_components(column: pa.Array, extremes: Sequence[int] | None) -> Iterator[Component]:
    strings = _to_bytes(column)
    shortest, longest = int(strings.lengths.min()), int(strings.lengths.max())
    at: int | None = None
    if extremes is not None:
        at = _known_prefix(column, [strings.text(row) for row in extremes])
    place = _common_prefix(strings, shortest) if at is None else at
    while place < longest:
        bits = min(_WORD_BYTES, longest - place) * 8
        yield Component(values=strings.load(place) >> np.uint64(_WORD_BITS - bits), bits=bits)
        place += _WORD_BYTES
    # Zeros stand for "ended"; only where strings hold zeros themselves must the length tell.
    if shortest != longest and np.count_nonzero(strings.data) != len(strings.data) - _WORD_BYTES:
        yield from number_components(strings.lengths)


def _to_bytes(column: pa.Array) -> _Bytes:
    rows = len(column)
    if pt.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        offsets = (np.arange(rows + 1, dtype=np.int64) + column.offset) * width
        buffer = column.buffers()[1]
    else:
        is_large = pt.is_large_string(column.type) or pt.is_large_binary(column.type)
        wide = np.dtype(np.int64 if is_large else np.int32)
        buffer = column.buffers()[1]
        offsets = np.frombuffer(buffer, wide, count=rows + 1, offset=column.offset * wide.itemsize).astype(np.int64)
        buffer = column.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _WORD_BYTES, dtype=np.uint8)
    if last > first:
        data[:-_WORD_BYTES] = np.frombuffer(buffer, np.uint8, count=last - first, offset=first)
    return _Bytes(data=data, starts=offsets[:-1] - first, lengths=np.diff(offsets))


def _common_prefix(strings: _Bytes, shortest: int) -> int:
    """How many bytes all strings begin with."""
    at = 0
    while at < shortest:
        words = strings.load(at)
        differing = int(np.bitwise_or.reduce(words ^ words[0]))
        if differing:
            return min(shortest, at + (_WORD_BITS - differing.bit_length()) // 8)
        at += _WORD_BYTES
    return shortest


def _known_prefix(column: pa.Array, extremes: Sequence[bytes]) -> int | None:
    """How many bytes the extremes begin with; None if others begin otherwise, so that the run is not sorted."""
    low, high = min(extremes), max(extremes)
    same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    if not same or pt.is_fixed_size_binary(column.type):
        return None
    binary = column.cast(pa.large_binary() if pt.is_large_string(column.type) else pa.binary(), safe=False)
    return same if pc.all(pc.starts_with(binary, pattern=low[:same])).as_py() else None


def _pack(components: Iterable[Component]) -> Iterator[U64]:
    """Lay components side by side, high bits first, and cut them into words."""
    word: U64 | None = None
    free = _WORD_BITS
    for component in components:
        values, bits = component.values, component.bits
        while bits:
            used = min(bits, free)
            part = values >> np.uint64(bits - used) if used < bits else values
            word = part if word is None else (word << np.uint64(used)) | part
            bits -= used
            free -= used
            if bits:
                values = values & np.uint64((1 << bits) - 1)
            if not free:
                yield word
                word, free = None, _WORD_BITS
    if word is not None:
        yield word
