"""Columns as words of 64 bits whose order is the order of the rows: memory-comparable keys of any types.

A column becomes *components*, unsigned numbers with as many bits as its values in this window need: an integer becomes
its distance from the smallest, a string its bytes after the common prefix, and a null flag is added if there are nulls
(nulls first). The components of all columns are concatenated and cut into words. In a window of neighbouring keys one
word nearly always distinguishes all keys, even of long strings and of several columns, so one stable sort of nearly
sorted numbers is enough. Later words are computed only on demand.
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

U64 = np.ndarray[Any, np.dtype[np.uint64]]
I64 = np.ndarray[Any, np.dtype[np.int64]]

_WORD_BITS = 64
_WORD_BYTES = 8
_LONG_DIGITS = 18  # decimal digits that fit 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Unsigned numbers below 2**bits; an earlier component takes precedence."""

    values: U64
    bits: int

    def inverted(self) -> Component:
        """The component in reverse order, for a descending sort."""
        return Component(values=self.values ^ np.uint64((1 << self.bits) - 1), bits=self.bits)


class Words:
    """The words of all rows, most significant first, computed on demand."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._source = _pack(components)
        self._made: list[U64] = []

    def get(self, at: int) -> U64 | None:
        """The word at this position; None after the last one."""
        while len(self._made) <= at:
            word = next(self._source, None)
            if word is None:
                return None
            self._made.append(word)
        return self._made[at]


def find_components(column: pa.Array, *, extremes: Sequence[int] | None = None) -> Iterator[Component]:
    """Turn a column into components.

    ``extremes`` are rows that include the smallest and the largest value, if the caller knows them (for the first key
    column of sorted runs). They give the common prefix of all strings without a search.
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
    """Numbers, booleans, dates and times as signed integers in the same order; nulls have arbitrary values."""
    kind = column.type
    if pt.is_boolean(kind):
        return column.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.int8)
    if pt.is_floating(kind):
        return to_java_order(column_values(column, np.dtype(f"f{kind.bit_width // 8}")))
    if pt.is_integer(kind) or pt.is_temporal(kind):
        return column_values(column, np.dtype(f"i{kind.bit_width // 8}"))
    raise InvalidInputError(f"A column of type {kind} has no order to merge by.")


def column_values(column: pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The values of a fixed-width column, without a copy."""
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
    """Replace nulls by one of the values: the bits after their null flag must be equal, whatever they are."""
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
    """The components of sixteen little-endian bytes; the low half is enough if the precision fits it."""
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
    """Concatenated strings, with space for a word after the last one."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    starts: I64
    lengths: I64

    def load(self, at: int) -> U64:
        """Eight bytes of every string from this position, big-endian, padded with zeros after the string's end."""
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
    position = _common_prefix(strings, shortest) if at is None else at
    while position < longest:
        bits = min(_WORD_BYTES, longest - position) * 8
        yield Component(values=strings.load(position) >> np.uint64(_WORD_BITS - bits), bits=bits)
        position += _WORD_BYTES
    # Zeros pad shorter strings; only if strings contain zero bytes themselves, the length has to decide.
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
    """The length of the common prefix of all strings."""
    at = 0
    while at < shortest:
        words = strings.load(at)
        differing = int(np.bitwise_or.reduce(words ^ words[0]))
        if differing:
            return min(shortest, at + (_WORD_BITS - differing.bit_length()) // 8)
        at += _WORD_BYTES
    return shortest


def _known_prefix(column: pa.Array, extremes: Sequence[bytes]) -> int | None:
    """The length of the common prefix of the extremes; None if others do not have it, as the run is not sorted then."""
    low, high = min(extremes), max(extremes)
    same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    if not same or pt.is_fixed_size_binary(column.type):
        return None
    binary = column.cast(pa.large_binary() if pt.is_large_string(column.type) else pa.binary(), safe=False)
    return same if pc.all(pc.starts_with(binary, pattern=low[:same])).as_py() else None


def _pack(components: Iterable[Component]) -> Iterator[U64]:
    """Concatenate components, high bits first, and cut them into words."""
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


Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Rows in sorted order, and which of them have the same words as the next one."""

    rows: I64
    same: Bools


def sort_rows(words: Words, count: int) -> Order:
    """Sort rows by all their words, stably: rows with equal words keep their order."""
    first = words.get(0)
    if first is None:
        return Order(rows=np.arange(count), same=np.ones(max(0, count - 1), dtype=bool))
    rows = np.argsort(first, kind="stable")
    ordered = first[rows]
    same = ordered[1:] == ordered[:-1]
    at = 1
    while (word := words.get(at)) is not None and same.any():
        ordered = word[rows]
        falling = same & (ordered[1:] < ordered[:-1])
        if falling.any():
            rows, ordered = sort_inside(rows, ordered, same=same, falling=falling)
        same &= ordered[1:] == ordered[:-1]
        at += 1
    return Order(rows=rows, same=same)


def find_unsorted(words: Words, count: int, breaks: I64) -> int | None:
    """Find a row whose words are not above those of the previous row; ``breaks`` are the first rows of runs."""
    rising = np.zeros(max(0, count - 1), dtype=bool)
    rising[breaks[breaks > 0] - 1] = True
    at = 0
    while not rising.all():
        word = words.get(at)
        if word is None:
            return int(np.argmin(rising)) + 1
        falling = ~rising & (word[1:] < word[:-1])
        if falling.any():
            return int(np.argmax(falling)) + 1
        rising |= word[1:] > word[:-1]
        at += 1
    return None


def sort_inside(rows: I64, ordered: Any, *, same: Bools, falling: Bools) -> tuple[I64, Any]:
    """Sort by the next word, within the groups that are equal so far and not in order."""
    group = np.zeros(len(rows), dtype=np.int64)
    np.cumsum(~same, out=group[1:])
    wrong = np.zeros(int(group[-1]) + 1, dtype=bool)
    wrong[group[1:][falling]] = True
    touched = np.flatnonzero(wrong[group])
    sorting = touched[np.lexsort((ordered[touched], group[touched]))]
    rows, ordered = rows.copy(), ordered.copy()
    rows[touched], ordered[touched] = rows[sorting], ordered[sorting]
    return rows, ordered


def to_java_order(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Map floats to signed integers with the order of Java's Double.compare: -0.0 < 0.0, all NaN equal and last."""
    width = values.dtype.itemsize
    one_nan = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    bits = one_nan.view(f"i{width}")
    # The low bits of a negative float are its magnitude: the larger they are, the smaller the number, so flip them.
    return bits ^ ((bits >> (width * 8 - 1)) & bits.dtype.type((1 << (width * 8 - 1)) - 1))
