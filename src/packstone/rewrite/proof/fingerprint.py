"""An order-independent fingerprint of a multiset of rows: equal before and after, or rows changed.

A fingerprint is the row count and the sum, modulo 2^64 in each of two lanes, of a 128-bit hash of
every row. A sum does not see order or how the rows were cut into files and batches; it does see a
row lost, doubled, or altered. (Exclusive-or would not see a row doubled twice.) Fingerprints of
disjoint parts add up, so tasks compute them apart and the driver adds them.

======================  =============================================
rows ``a b b``          equals ``b a b``, and ``a b`` + ``b``
differs from            ``a b``, ``a a b``, ``a b b`` with a cell changed
======================  =============================================

Cost: one pass and a few hundred kilobytes of work memory; see ``value_hash`` for what counts
as equal and for the odds. Fingerprints are stored with journals and history: the hash never changes
without a new ``format_version`` of those files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from packstone.errors import InvalidInputError
from packstone.rewrite.proof.row_hash import Lanes, hash_rows
from packstone.rewrite.proof.value_hash import U64, Bytes, BytesHasher, hash_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_LANE: Final = (1 << 64) - 1
_TEXT: Final = re.compile(r"([0-9]+) rows ([0-9a-f]{16})([0-9a-f]{16})")
_NEWLINE: Final = 0x0A
# A piece with its newline positions and word arrays fits the L2 cache.
_PIECE_BYTES: Final = 1 << 18
_PADDING: Final = b"\0" * 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The count of rows and the two lanes of the sum of their hashes."""

    rows: int
    lo: int
    hi: int

    @classmethod
    def zero(cls) -> Fingerprint:
        """Return the fingerprint of no rows."""
        return cls(rows=0, lo=0, hi=0)

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Read back what ``str`` wrote."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a fingerprint: '5 rows ' and 32 hex digits")
        rows, hi, lo = match.groups()
        return cls(rows=int(rows), lo=int(lo, 16), hi=int(hi, 16))

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Return the fingerprint of the rows of both."""
        return Fingerprint(
            rows=self.rows + other.rows,
            lo=(self.lo + other.lo) & _LANE,
            hi=(self.hi + other.hi) & _LANE,
        )

    def __str__(self) -> str:
        """Show as ``12345 rows 0123456789abcdef0123456789abcdef``, the high lane first."""
        return f"{self.rows} rows {self.hi:016x}{self.lo:016x}"


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
