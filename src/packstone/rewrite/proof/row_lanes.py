"""A fast 128-bit hash of rows, as two lanes, for grouping by key and for comparing two views of one merge.

``row_hash`` is frozen, because its sums are stored, and it has the cost of giving equal hashes at every width and
encoding. Here both sides of a comparison are computed in one process from columns of the same types, so less is
needed: a value is its raw 64-bit word, and each lane combines it by ``(lane ^ word) * k1``, byte swap, ``* k2`` (the
other lane adds instead, with other factors). The first product carries each bit upwards, the swap moves the top down,
the second product carries it up again: every step is a bijection of the lane, and a change of any one bit of the word
changes the whole lane, so that a later word cancels it only with a probability of 2^-64, in each lane.

Strings are ``sum_k swap(word_k * a_k) * b_k + length * c``, with other constants in each lane: words past the end are
zero and add nothing, so that a block is processed column by column of words whatever the lengths in it. Strings longer
than ``_LONG_BYTES``, and nested values, are replaced by their 64-bit ``value_hash``.
Rejected: one factor ``b`` for all words. It would factor out of the sum, and two words that exchange their last
characters would cancel out once in 256 times.

Nulls of all columns are bits of words that are added last, so that no value equals a null. All NaN are equal, -0.0 and
0.0 differ, bytes in the slots of nulls never count, and the hash does not depend on how rows are split into batches.

Measured on a busy core: 4 ns per row for a fixed-width column, 10 ns per word for strings (``row_hash``: 13 and 17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.model.unit import Fingerprint
from packstone.rewrite.proof.value_hash import BLOCK_ROWS, I64, U64, find_nulls, hash_values, mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WordPair: TypeAlias = tuple[U64, U64]  # the words of one value for the two lanes; the same array for fixed widths

_WORD: Final = 8


_LONG_BYTES: Final = 64
_NULLS_PER_WORD: Final = 64
_SPARSE_PCT: Final = 50  # if fewer of a block's strings have words left, only these are processed
_SINGLE_BITS: Final = 32
_SCRATCH_ARRAYS: Final = 12
_SCRATCH_LANES: Final = 4
_STAGGER: Final = 72  # words between two work arrays: at a distance of whole pages they would slow each other down

_SEEDS: Final = tuple(map(np.uint64, (0x2D35_8DCC_AA6C_78A5, 0x8BB8_4B93_962E_ACC9)))
_FIRST: Final = tuple(map(np.uint64, (0x9FB2_1C65_1E98_DF25, 0xC2B2_AE3D_27D4_EB4F)))
_SECOND: Final = tuple(map(np.uint64, (0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F)))
_LENGTH: Final = tuple(map(np.uint64, (0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3)))
_NO_ROWS: Final = np.empty(0, dtype=np.int64)
_NAN_BITS: Final = np.uint64(0x7FF8_0000_0000_0000)
# _TAIL_MASKS[n] keeps the first n bytes of a word; taken with clipping, so that any length fits.
_TAIL_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def _odd_numbers(seed: int) -> tuple[np.uint64, ...]:
    """Return an odd factor for each word of a string that is not long, from the splitmix64 sequence of a seed."""
    steps = np.arange(1, _LONG_BYTES // _WORD + 1, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return tuple(np.uint64(int(number) | 1) for number in mix(steps + np.uint64(seed)))


_WORD_FACTORS: Final = tuple(map(_odd_numbers, (0x5899_65CC, 0x7537_4CC3, 0x1D8E_4E27, 0xC47D_124F)))


class Scratch:
    """Reusable work arrays: allocating new memory costs as much as the hashing itself."""

    __slots__ = ("_bytes", "_lanes", "_words")

    def __init__(self) -> None:
        self._words = np.zeros((_SCRATCH_ARRAYS, BLOCK_ROWS + _STAGGER), dtype=np.uint64)
        self._bytes = np.zeros(0, dtype=np.uint64)
        self._lanes = np.zeros((_SCRATCH_LANES, _STAGGER), dtype=np.uint64)

    def words(self, number: int, rows: int) -> U64:
        """Return one of the arrays for a block of rows, with undefined content."""
        return self._words[number, :rows]

    def places(self, number: int, rows: int) -> I64:
        """Return one of the arrays as signed numbers."""
        return self._words[number, :rows].view(np.int64)

    def lane(self, number: int, rows: int) -> U64:
        """Return one of the arrays for a batch of rows, with undefined content."""
        if rows + _STAGGER > self._lanes.shape[1]:
            self._lanes = np.zeros((_SCRATCH_LANES, rows + _STAGGER), dtype=np.uint64)
        return self._lanes[number, :rows]

    def word_bytes(self, size_bytes: int) -> U64:
        """Return an array of at least ``size_bytes`` bytes followed by one zero word."""
        count = size_bytes // _WORD + 2
        if count > len(self._bytes):
            self._bytes = np.zeros(count + count // 4, dtype=np.uint64)
        self._bytes[max(0, count - 3) : count] = 0
        return self._bytes[:count]


class QuickLanes:
    """The two lanes of a batch of rows, while columns are added first to last."""

    __slots__ = ("_scratch", "hi", "lo")

    def __init__(self, lo: U64, hi: U64, *, scratch: Scratch) -> None:
        self.lo, self.hi, self._scratch = lo, hi, scratch

    @classmethod
    def start(cls, rows: int, *, scratch: Scratch) -> QuickLanes:
        """Begin without columns, in memory that the next batch reuses."""
        lo, hi = scratch.lane(0, rows), scratch.lane(1, rows)
        lo.fill(_SEEDS[0])
        hi.fill(_SEEDS[1])
        return cls(lo, hi, scratch=scratch)

    def fork(self) -> QuickLanes:
        """Return a copy to continue separately, in memory that the next batch reuses."""
        lo, hi = self._scratch.lane(2, len(self.lo)), self._scratch.lane(3, len(self.hi))
        np.copyto(lo, self.lo)
        np.copyto(hi, self.hi)
        return QuickLanes(lo, hi, scratch=self._scratch)

    def take(self, rows: I64) -> QuickLanes:
        """Return the lanes of some of the rows."""
        return QuickLanes(self.lo.take(rows), self.hi.take(rows), scratch=self._scratch)

    def copy(self) -> QuickLanes:
        """Return a copy to continue separately, in memory of its own."""
        return QuickLanes(self.lo.copy(), self.hi.copy(), scratch=self._scratch)

    def add_columns(self, columns: Sequence[pa.Array]) -> None:
        """Add columns and then their nulls, block by block so that everything stays in the cache."""
        prepared = [_prepare(column, self._scratch) for column in columns]
        for start in range(0, len(self.lo), BLOCK_ROWS):
            lo, hi = self.lo[start : start + BLOCK_ROWS], self.hi[start : start + BLOCK_ROWS]
            null_words: list[U64 | np.uint64] = [np.uint64(0)] * -(-len(columns) // _NULLS_PER_WORD)
            for number, column in enumerate(prepared):
                pairs, nulls = column.words(start, len(lo))
                for pair in pairs:
                    _step(lo, hi, pair)
                if len(nulls):
                    _mark(null_words, number, nulls, rows=len(lo))
            for word in null_words:
                _step(lo, hi, (word, word))

    def add_words(self, words: U64) -> None:
        """Add one word per row that is never null."""
        for start in range(0, len(self.lo), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            _step(self.lo[block], self.hi[block], (words[block], words[block]))

    def finish(self) -> Fingerprint:
        """Scramble the lanes and return their sums; scrambled, sums hide no structure of the steps. Ends the lanes."""
        lo, hi = mix(self.lo), mix(self.hi)
        return Fingerprint(rows=len(lo), lo=int(lo.sum()), hi=int(hi.sum()))


def _step(lo: U64, hi: U64, pair: tuple[U64 | np.uint64, U64 | np.uint64]) -> None:
    np.bitwise_xor(lo, pair[0], out=lo)
    np.add(hi, pair[1], out=hi)
    for lane, first, second in ((lo, _FIRST[0], _SECOND[0]), (hi, _FIRST[1], _SECOND[1])):
        np.multiply(lane, first, out=lane)
        lane.byteswap(inplace=True)
        np.multiply(lane, second, out=lane)


def _mark(null_words: list[U64 | np.uint64], number: int, nulls: I64, *, rows: int) -> None:
    place, bit = divmod(number, _NULLS_PER_WORD)
    words = null_words[place]
    if not isinstance(words, np.ndarray):
        words = null_words[place] = np.zeros(rows, dtype=np.uint64)
    words[nulls] |= np.uint64(1) << np.uint64(bit)


def _prepare(column: pa.Array, scratch: Scratch) -> _PlainColumn | _CodedColumn:
    if not types.is_dictionary(column.type):
        return _PlainColumn(column, scratch)
    if column.dictionary.null_count:
        return _PlainColumn(column.dictionary_decode(), scratch)
    return _CodedColumn(column, scratch)


class _PlainColumn:
    """A column without a dictionary."""

    __slots__ = ("_array", "_scratch")

    def __init__(self, array: pa.Array, scratch: Scratch) -> None:
        self._array, self._scratch = array, scratch

    def words(self, start: int, rows: int) -> tuple[Iterable[WordPair], I64]:
        """Return the words to add for a block of rows, and the positions of its nulls."""
        part = self._array.slice(start, rows)
        nulls = find_nulls(part)
        pairs = _words_of(part, self._scratch)
        if len(nulls):
            # Lazily, one after another: each may use the same work array.
            return (_blank(pair, nulls, self._scratch) for pair in pairs), nulls
        return pairs, nulls


class _CodedColumn:
    """A dictionary-encoded column without nulls in its dictionary: entries are hashed once, and taken by code."""

    __slots__ = ("_codes", "_pairs", "_scratch")

    def __init__(self, array: pa.DictionaryArray, scratch: Scratch) -> None:
        values = array.dictionary
        entries = _PlainColumn(values, scratch)
        # One more entry, for the codes of nulls, which are undefined.
        self._pairs = [
            (np.zeros(len(values) + 1, dtype=np.uint64), np.zeros(len(values) + 1, dtype=np.uint64))
            for _ in range(_words_per_value(values.type))
        ]
        for start in range(0, len(values), BLOCK_ROWS):
            for kept, pair in zip(self._pairs, entries.words(start, BLOCK_ROWS)[0], strict=True):
                kept[0][start : start + BLOCK_ROWS][: len(pair[0])] = pair[0]
                kept[1][start : start + BLOCK_ROWS][: len(pair[1])] = pair[1]
        self._codes, self._scratch = array.indices, scratch

    def words(self, start: int, rows: int) -> tuple[Iterable[WordPair], I64]:
        """Return the words to add for a block of rows, and the positions of its nulls."""
        part = self._codes.slice(start, rows)
        nulls = find_nulls(part)
        codes = self._scratch.places(2, rows)
        np.copyto(codes, read_fixed(part))
        codes[nulls] = -1
        return [(a.take(codes), b.take(codes)) for a, b in self._pairs], nulls


def _blank(pair: WordPair, rows: I64, scratch: Scratch) -> WordPair:
    """Replace the words of nulls by zero."""
    words = pair[0]
    if not words.flags.writeable:
        words = scratch.words(0, len(words))
        np.copyto(words, pair[0])
        pair = (words, words)
    pair[0][rows] = pair[1][rows] = 0
    return pair


def read_fixed(array: pa.Array, dtype: str = "", *, per_value: int = 1) -> np.ndarray[Any, np.dtype[Any]]:
    """View the values of an array of fixed width in its data buffer; those of nulls are undefined."""
    kind = array.type
    if not dtype:
        sign = "f" if types.is_floating(kind) else "u" if types.is_unsigned_integer(kind) else "i"
        dtype = f"<{sign}{kind.bit_width // 8}"
    count = len(array) * per_value
    skipped_bytes = array.offset * per_value * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=count, offset=skipped_bytes)


def _words_of(array: pa.Array, scratch: Scratch) -> list[WordPair]:
    """Convert each value of a block to one or more words; those of nulls are undefined."""
    kind = array.type
    if types.is_floating(kind) and kind.bit_width >= _SINGLE_BITS:
        return _twice(_float_words(array, scratch))
    if types.is_integer(kind) or (types.is_temporal(kind) and not types.is_interval(kind)):
        return _twice(_widen(read_fixed(array, f"<i{kind.bit_width // 8}"), scratch))
    if _is_bytes(kind) or types.is_fixed_size_binary(kind):
        return [_bytes_words(array, scratch)]
    if types.is_decimal(kind):
        return _decimal_words(array, scratch)
    return _twice(hash_values(array))


def _words_per_value(kind: pa.DataType) -> int:
    return max(1, kind.bit_width // 64) if types.is_decimal(kind) else 1


def _twice(words: U64) -> list[WordPair]:
    return [(words, words)]


def _widen(values: np.ndarray[Any, np.dtype[Any]], scratch: Scratch) -> U64:
    """Read integers of any width as 64-bit words."""
    if values.dtype.itemsize == _WORD:
        return values.view(np.uint64)
    words = scratch.words(0, len(values))
    np.copyto(words.view(np.int64), values)
    return words


def _float_words(array: pa.Array, scratch: Scratch) -> U64:
    values = read_fixed(array)
    words = _widen(read_fixed(array, f"<i{array.type.bit_width // 8}"), scratch)
    if np.isnan(np.min(values, initial=np.inf)):
        words = np.where(np.isnan(values), _NAN_BITS, words)
    return words


def _decimal_words(array: pa.Array, scratch: Scratch) -> list[WordPair]:
    count = array.type.bit_width // 64
    if count <= 1:
        return _twice(_widen(read_fixed(array, f"<i{array.type.bit_width // 8}"), scratch))
    table = read_fixed(array, "<u8", per_value=count).reshape(-1, count)
    return [pair for place in range(count) for pair in _twice(table[:, place])]


def _is_bytes(kind: pa.DataType) -> bool:
    return types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)


def _bytes_words(array: pa.Array, scratch: Scratch) -> WordPair:
    rows = len(array)
    offsets, data = _locate(array, scratch)
    begin, end = int(offsets[0]), int(offsets[-1])
    lengths = scratch.places(9, rows)
    np.subtract(offsets[1:], offsets[:-1], out=lengths)
    offsets -= begin
    long_rows = np.flatnonzero(lengths > _LONG_BYTES) if int(lengths.max()) > _LONG_BYTES else _NO_ROWS
    lo, hi = scratch.words(0, rows), scratch.words(1, rows)
    if len(long_rows) < rows:
        lengths[long_rows] = 0
        # A copy aligned to words: whole words are read, even past the last byte.
        padded = scratch.word_bytes(end - begin)
        padded.view(np.uint8)[: end - begin] = data[begin:end]
        np.multiply(lengths.view(np.uint64), _LENGTH[0], out=lo)
        np.multiply(lengths.view(np.uint64), _LENGTH[1], out=hi)
        _add_words(padded, (lo, hi), starts=offsets[:-1], lengths=lengths, scratch=scratch)
    if len(long_rows):
        lo[long_rows] = hi[long_rows] = hash_values(array.take(pa.array(long_rows)))
    return lo, hi


def _locate(array: pa.Array, scratch: Scratch) -> tuple[I64, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return the offsets of the values, and the bytes."""
    kind = array.type
    offsets = scratch.places(8, len(array) + 1)
    if types.is_fixed_size_binary(kind):
        np.multiply(np.arange(array.offset, array.offset + len(array) + 1), kind.byte_width, out=offsets)
        return offsets, np.frombuffer(array.buffers()[1], dtype=np.uint8)
    width_bytes = 8 if types.is_large_string(kind) or types.is_large_binary(kind) else 4
    _, places, data = array.buffers()
    stored = np.frombuffer(places, f"<i{width_bytes}", count=len(array) + 1, offset=array.offset * width_bytes)
    np.copyto(offsets, stored)
    # In Arrow, a column without any bytes may have no data buffer.
    return offsets, np.frombuffer(b"" if data is None else data, dtype=np.uint8)


def _add_words(padded: U64, sums: WordPair, *, starts: I64, lengths: I64, scratch: Scratch, first: int = 0) -> None:
    """Add to both sums the words of each string, from word number ``first`` on."""
    rows = len(starts)
    shift, unshift, current, following, words, term = (scratch.words(2 + number, rows) for number in range(6))
    places, left = scratch.places(10, rows), scratch.places(11, rows)
    np.bitwise_and(starts, 7, out=places)
    np.left_shift(places.view(np.uint64), np.uint64(3), out=shift)
    np.subtract(np.uint64(64), shift, out=unshift)
    np.right_shift(starts, 3, out=places)
    places += first
    longest, shortest = int(lengths.max(initial=0)), int(lengths.min(initial=_LONG_BYTES))
    padded.take(places, mode="clip", out=current)
    for number in range(first, -(-longest // _WORD)):
        if shortest <= number * _WORD:
            live = np.flatnonzero(lengths > number * _WORD)
            if len(live) * 100 < rows * _SPARSE_PCT:
                parts = (sums[0][live], sums[1][live])
                _add_words(padded, parts, starts=starts[live], lengths=lengths[live], scratch=scratch, first=number)
                sums[0][live], sums[1][live] = parts
                return
        places += 1
        padded.take(places, mode="clip", out=following)
        np.right_shift(current, shift, out=words)
        np.bitwise_or(words, np.left_shift(following, unshift, out=term), out=words)
        if shortest < (number + 1) * _WORD:
            np.subtract(lengths, number * _WORD, out=left)
            np.bitwise_and(words, _TAIL_MASKS.take(left, mode="clip", out=term), out=words)
        for lane, place in ((sums[0], 0), (sums[1], 2)):
            np.multiply(words, _WORD_FACTORS[place][number], out=term)
            term.byteswap(inplace=True)
            np.multiply(term, _WORD_FACTORS[place + 1][number], out=term)
            np.add(lane, term, out=lane)
        current, following = following, current
