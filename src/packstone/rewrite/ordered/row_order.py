"""The order of rows by sort columns in which values may repeat.

The number of a row is put into the low bits of its first word, so that one sort of plain numbers, which processors do
several at a time, gives the order; equal rows stay as they came. Where the word is too long for that, its high bits
are sorted and the rest settles what is equal in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge.key_order import sort_inside
from packstone.rewrite.merge.key_words import I64, U64, Component, Words, find_components, number_components

_WORD_BITS = 64
_LONG_BYTES = 256  # strings with longer ones among them are ranked: they would make a word of every eight bytes


def make_words(columns: Sequence[pa.Array], *, extremes: Sequence[int] | None = None) -> Words:
    """The words of rows by these columns; ``extremes`` as in find_components."""
    return Words(
        component for at, column in enumerate(columns) for component in _components(column, None if at else extremes)
    )


def order_rows(words: Words, count: int) -> I64:
    """List the rows in their order; equal ones as they came."""
    first = words.get(0)
    if first is None or count <= 1:
        return np.arange(count)
    number_bits = (count - 1).bit_length()
    too_long = max(0, int(first.max()).bit_length() + number_bits - _WORD_BITS)
    packed = first >> np.uint64(too_long) if too_long else first.copy()
    packed <<= np.uint64(number_bits)
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    rows = (packed & np.uint64((1 << number_bits) - 1)).view(np.int64)
    packed >>= np.uint64(number_bits)
    same = packed[1:] == packed[:-1]
    for word in _later_words(words, first if too_long else None):
        if not same.any():
            break
        ordered = word[rows]
        falling = same & (ordered[1:] < ordered[:-1])
        if falling.any():
            rows, ordered = sort_inside(rows, ordered, same=same, falling=falling)
        same &= ordered[1:] == ordered[:-1]
    return rows


def find_falling(words: Words, count: int, breaks: I64) -> int | None:
    """Find a row that is below the one before it; ``breaks`` are the rows where a new run begins."""
    settled = np.zeros(max(0, count - 1), dtype=bool)
    settled[breaks[breaks > 0] - 1] = True
    at = 0
    while not settled.all() and (word := words.get(at)) is not None:
        falling = ~settled & (word[1:] < word[:-1])
        if falling.any():
            return int(np.argmax(falling)) + 1
        settled |= word[1:] > word[:-1]
        at += 1
    return None


def _later_words(words: Words, first: U64 | None) -> Iterator[U64]:
    """The words that settle what the sort left open, one after the other as they are needed."""
    if first is not None:
        yield first
    at = 1
    while (word := words.get(at)) is not None:
        yield word
        at += 1


def _components(column: pa.Array, extremes: Sequence[int] | None) -> Iterator[Component]:
    if not _has_long_strings(column):
        yield from find_components(column, extremes=extremes)
        return
    ranks = pc.rank(column.cast(pa.large_binary()), sort_keys="ascending", tiebreaker="dense").to_numpy()
    # Ranks begin at 1, so nulls come first with 0.
    known = column.is_valid().to_numpy(zero_copy_only=False)
    yield from number_components(np.where(known, ranks, 0).astype(np.int64))


def _has_long_strings(column: pa.Array) -> bool:
    kind = column.type
    if not (pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind)):
        return False
    return bool((pc.max(pc.binary_length(column)).as_py() or 0) > _LONG_BYTES)
