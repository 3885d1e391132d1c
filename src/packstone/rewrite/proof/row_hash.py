"""A 128-bit hash of every row of a record batch, as two lanes of 64 bits.

Both lanes are chains over the columns: what came before, joined with the column's value hash, times
an odd constant, folded. A chain knows the order of its columns, so swapping two values inside a row
changes it. Each step is a bijection of the lane, and so is the last scramble: if one cell of a row
changes its value hash, both lanes of that row change for certain, not just probably. A null enters the lanes
with two different numbers, so that no value can pass for null in both.

The lanes differ in everything (xor against addition, factors, folds, finalizer of splitmix64 against
that of murmur3), so an accident in one says nothing of the other.

Rejected: the sum over columns of ``key[column] * hash``. It is cheaper by half, but swapping the
values of two columns changes it by ``(key1 - key2) * (hash1 - hash2)``, and both lanes vanish
together whenever the difference of the hashes ends in enough zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyarrow import types

from packstone.rewrite.proof.value_hash import BLOCK_ROWS, I64, U64, find_nulls, hash_values, mix

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_LO_SEED: Final = np.uint64(0x2D35_8DCC_AA6C_78A5)
_HI_SEED: Final = np.uint64(0x8BB8_4B93_962E_ACC9)
_HI_NULL: Final = np.uint64(0x4B33_A62E_D433_D4A3)  # anything but NULL_HASH
_LO_FACTOR: Final = np.uint64(0x9FB2_1C65_1E98_DF25)
_HI_FACTOR: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)
_LO_FOLD: Final = np.uint64(32)
_HI_FOLD: Final = np.uint64(29)
_MURMUR_FACTORS: Final = tuple(map(np.uint64, (0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53)))
_MURMUR_SHIFT: Final = np.uint64(33)
_NO_ROWS: Final = np.empty(0, dtype=np.int64)


def hash_rows(batch: pa.RecordBatch) -> Iterator[tuple[U64, U64]]:
    """Yield the lanes (lo, hi) of the rows, in order, block by block.

    All columns of a block are done before the next block begins, so that the lanes never leave the cache.
    Dictionary columns are done before the first block, because each block would hash the dictionary anew.
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
        """Chain the value hashes of one more column; overwrites those of its nulls."""
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
        """Return (lo, hi), scrambled; no column may follow."""
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
