"""An order-independent fingerprint of a multiset of rows: if it differs before and after, rows changed.

A fingerprint is the row count and the sum, modulo 2^64 in each of two lanes, of a 128-bit hash of
every row. A sum does not depend on the order, or on how rows are split into files and batches; it does change if a
row is lost, doubled or altered. (Exclusive-or would not notice a row doubled twice.) Fingerprints of disjoint parts
add up, so tasks compute them separately and the driver adds them.

======================  =============================================
rows ``a b b``          equals ``b a b``, and ``a b`` + ``b``
differs from            ``a b``, ``a a b``, ``a b b`` with a cell changed
======================  =============================================

Cost: one pass and a few hundred kilobytes of work memory; see ``row_hash`` for the hash of a row, and ``value_hash``
for what counts as equal and for the odds of a collision. Where rows keep their order, ``ordered_digest`` fills the
lanes instead. Fingerprints are stored with journals and history: the hash never changes without a new
``format_version`` of those files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyarrow import types

from packstone.model.unit import Fingerprint
from packstone.rewrite.proof.value_hash import (
    BLOCK_ROWS,
    I64,
    U64,
    Bytes,
    BytesHasher,
    find_nulls,
    hash_slices,
    hash_values,
    mix,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

# ---- row hash ----
# A 128-bit hash of every row of a record batch, as two lanes of 64 bits, and the fingerprints made of them.
#
# Both lanes are chains over the columns: the previous state, combined with the column's value hash, times
# an odd constant, folded. A chain depends on the order of its columns, so swapping two values inside a row
# changes it. Each step is a bijection of the lane, and so is the last scramble: if one cell of a row
# changes its value hash, both lanes of that row change for certain, not just probably. A null enters the lanes
# as two different numbers, so that no value equals null in both.
#
# The lanes differ in everything (xor or addition, factors, folds, finalizer of splitmix64 or murmur3), so a collision
# in one is independent of the other.
#
# Rejected: the sum over columns of ``key[column] * hash``. It is cheaper by half, but swapping the
# values of two columns changes it by ``(key1 - key2) * (hash1 - hash2)``, which is zero in both lanes
# whenever the difference of the hashes ends in enough zero bits.


_LO_SEED: Final = np.uint64(0x2D35_8DCC_AA6C_78A5)
_HI_SEED: Final = np.uint64(0x8BB8_4B93_962E_ACC9)
_HI_NULL: Final = np.uint64(0x4B33_A62E_D433_D4A3)  # any number except NULL_HASH
_LO_FACTOR: Final = np.uint64(0x9FB2_1C65_1E98_DF25)
_HI_FACTOR: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)
_LO_FOLD: Final = np.uint64(32)
_HI_FOLD: Final = np.uint64(29)
_MURMUR_FACTORS: Final = tuple(map(np.uint64, (0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53)))
_MURMUR_SHIFT: Final = np.uint64(33)
_NO_ROWS: Final = np.empty(0, dtype=np.int64)
_NEWLINE: Final = 0x0A
# A piece with its newline positions and word arrays fits the L2 cache.
_PIECE_BYTES: Final = 1 << 18
_PADDING: Final = b"\0" * 8


def fingerprint_batch(batch: pa.RecordBatch) -> Fingerprint:
    """Fingerprint the rows of one record batch."""
    return sum((_sum_lanes(lo, hi) for lo, hi in hash_rows(batch)), start=Fingerprint.zero())


def fingerprint_batches(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Fingerprint the rows of all batches, one batch in memory at a time."""
    return sum(map(fingerprint_batch, batches), start=Fingerprint.zero())


def fingerprint_lines(chunks: Iterable[bytes]) -> Fingerprint:
    r"""Fingerprint the lines of a text that arrives in chunks, in bounded memory.

    A line ends at ``\n``, or at the end of the text if bytes remain; ``\r`` belongs to the line.
    The result equals that of a batch whose only column holds the lines as binary values.
    """
    total = Fingerprint.zero()
    open_line = BytesHasher()
    for piece in _cut_pieces(chunks):
        breaks = np.flatnonzero(piece == _NEWLINE)
        if not len(breaks):
            open_line.update(piece)
            continue
        first, last = int(breaks[0]), int(breaks[-1])
        open_line.update(piece[:first])
        total += _sum_column(open_line.finish()) + _sum_column(_hash_whole_lines(piece, breaks))
        open_line = BytesHasher()
        open_line.update(piece[last + 1 :])
    return total + _sum_column(open_line.finish()) if open_line else total


def _cut_pieces(chunks: Iterable[bytes]) -> Iterator[Bytes]:
    for chunk in chunks:
        data = np.frombuffer(chunk, dtype=np.uint8)
        for cut in range(0, len(data), _PIECE_BYTES):
            yield data[cut : cut + _PIECE_BYTES]


def _hash_whole_lines(piece: Bytes, breaks: np.ndarray) -> U64:
    """Hash the lines between the first and the last newline of a piece."""
    padded = np.concatenate((piece, np.frombuffer(_PADDING, dtype=np.uint8)))
    starts = breaks[:-1] + 1
    return hash_slices(padded, starts, breaks[1:] - starts)


def _sum_column(hashes: U64) -> Fingerprint:
    lanes = Lanes(rows=len(hashes))
    lanes.add_column(hashes)
    return _sum_lanes(*lanes.finish())


def _sum_lanes(lo: U64, hi: U64) -> Fingerprint:
    return Fingerprint(rows=len(lo), lo=int(lo.sum()), hi=int(hi.sum()))


def hash_rows(batch: pa.RecordBatch) -> Iterator[tuple[U64, U64]]:
    """Yield the lanes (lo, hi) of the rows, in order, block by block.

    All columns of a block are hashed before the next block begins, so that the lanes stay in the cache.
    Dictionary columns are hashed before the first block, because each block would hash the dictionary again.
    """
    coded = {
        number: hash_values(column) for number, column in enumerate(batch.columns) if types.is_dictionary(column.type)
    }
    for start in range(0, batch.num_rows, BLOCK_ROWS):
        block = batch.slice(start, BLOCK_ROWS)
        lanes = Lanes(rows=block.num_rows)
        for number, column in enumerate(block.columns):
            hashes = coded[number][start : start + BLOCK_ROWS] if number in coded else hash_values(column)
            lanes.add_column(hashes, null_rows=find_nulls(column))
        yield lanes.finish()


class Lanes:
    """The two lanes of a block of rows, while its columns are added first to last."""

    __slots__ = ("_hi", "_lo", "_spare")

    def __init__(self, *, rows: int) -> None:
        self._lo, self._hi = np.full(rows, _LO_SEED), np.full(rows, _HI_SEED)
        self._spare = np.empty(rows, dtype=np.uint64)

    def add_column(self, hashes: U64, *, null_rows: I64 = _NO_ROWS) -> None:
        """Chain the value hashes of one more column; overwrites the hashes of its nulls."""
        lo, hi, spare = self._lo, self._hi, self._spare
        np.bitwise_xor(lo, hashes, out=lo)
        np.multiply(lo, _LO_FACTOR, out=lo)
        np.right_shift(lo, _LO_FOLD, out=spare)
        np.bitwise_xor(lo, spare, out=lo)
        hashes[null_rows] = _HI_NULL
        np.add(hi, hashes, out=hi)
        np.multiply(hi, _HI_FACTOR, out=hi)
        np.right_shift(hi, _HI_FOLD, out=spare)
        np.bitwise_xor(hi, spare, out=hi)

    def finish(self) -> tuple[U64, U64]:
        """Return the final (lo, hi), scrambled; no column may be added afterwards."""
        return mix(self._lo), _mix_murmur(self._hi)


def _mix_murmur(x: U64) -> U64:
    """Scramble in place with the finalizer of murmur3."""
    spare = np.empty_like(x)
    for factor in _MURMUR_FACTORS:
        np.right_shift(x, _MURMUR_SHIFT, out=spare)
        np.bitwise_xor(x, spare, out=x)
        np.multiply(x, factor, out=x)
    np.right_shift(x, _MURMUR_SHIFT, out=spare)
    np.bitwise_xor(x, spare, out=x)
    return x
