"""One sorted run as a cursor: batches come in, rows up to a key go out, the rest waits."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.rewrite.merge.key_words import to_integers

RowKey: TypeAlias = tuple[tuple[Any, ...], ...]  # per column (0,) for null or (1, value): nulls first


class BatchKeys:
    """The key columns of a batch, row by row, for the few rows that somebody has to look at."""

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        self._rows = batch.num_rows
        self._columns = [_Sortable(batch.column(name)) for name in key_columns]

    def get(self, row: int) -> RowKey:
        """The key of one row, in a form that compares as keys do."""
        return tuple(column.get(row) for column in self._columns)

    def count_until(self, bound: RowKey) -> int:
        """How many rows, of a sorted batch, are not above the bound."""
        first = self._columns[0]
        if not isinstance(first.values, np.ndarray) or first.valid is not None:
            return bisect_right(range(self._rows), bound, key=self.get)
        if len(bound[0]) == 1:
            return 0
        end = int(np.searchsorted(first.values, bound[0][1], side="right"))
        if len(self._columns) == 1:
            return end
        # Only rows that are equal in the first column have to be looked at one by one.
        start = int(np.searchsorted(first.values, bound[0][1], side="left"))
        return start + bisect_right(range(start, end), bound, key=self.get)


class _Sortable:
    def __init__(self, column: pa.Array) -> None:
        kind = column.type
        self.valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        if pt.is_string(kind):
            self.values: Any = column.cast(pa.binary())
        elif pt.is_large_string(kind):
            self.values = column.cast(pa.large_binary())
        elif pt.is_integer(kind) or pt.is_temporal(kind) or pt.is_floating(kind) or pt.is_boolean(kind):
            self.values = to_integers(column)
        else:
            self.values = column

    def get(self, row: int) -> tuple[Any, ...]:
        if self.valid is not None and not self.valid[row]:
            return (0,)
        value = self.values[row]
        return (1, value.as_py() if isinstance(value, pa.Scalar) else int(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows of one file, and which file that is."""

    batch: pa.RecordBatch
    path: str


class RunCursor:
    """A run that is read only as far as the windows need it."""

    def __init__(self, pieces: Iterator[Piece], key_columns: Sequence[str]) -> None:
        self._source = pieces
        self._key_columns = key_columns
        self._waiting: deque[tuple[Piece, BatchKeys]] = deque()
        self._waiting_rows = self._batch_rows = 0
        self._is_exhausted = False

    def fill(self) -> None:
        """Read until more than half a batch is waiting: thin windows would cost more than they merge."""
        while not self._is_exhausted and self._waiting_rows * 2 <= self._batch_rows:
            piece = next(self._source, None)
            if piece is None:
                self._is_exhausted = True
                return
            self._waiting.append((piece, BatchKeys(piece.batch, self._key_columns)))
            self._waiting_rows += piece.batch.num_rows
            self._batch_rows = max(1, piece.batch.num_rows)

    @property
    def limit(self) -> RowKey | None:
        """The key up to which all rows of the run are known; None: all of them are."""
        if self._is_exhausted or not self._waiting:
            return None
        piece, keys = self._waiting[-1]
        return keys.get(piece.batch.num_rows - 1)

    @property
    def waiting_path(self) -> str | None:
        """The file that the first waiting row came from; None if no row waits."""
        return self._waiting[0][0].path if self._waiting else None

    def take_until(self, bound: RowKey | None) -> list[Piece]:
        """Take the rows not above the bound; all that wait if there is none."""
        taken: list[Piece] = []
        while self._waiting:
            piece, keys = self._waiting.popleft()
            rows = piece.batch.num_rows
            count = rows if bound is None else keys.count_until(bound)
            self._waiting_rows -= count
            if count:
                taken.append(Piece(batch=piece.batch.slice(0, count), path=piece.path))
            if count < rows:
                rest = Piece(batch=piece.batch.slice(count), path=piece.path)
                self._waiting.appendleft((rest, BatchKeys(rest.batch, self._key_columns)))
                break
        return taken


def cut_runs(
    cursors: Sequence[RunCursor],
    key_columns: Sequence[str],
    *,
    may_repeat: bool,
    complain: Callable[[str], Exception],
) -> Iterator[list[list[Piece]]]:
    """Yield what the runs have between one bound and the next, in the order of keys; runs without rows are left out.

    A run must go on above the last bound (or at it, if keys may repeat) and end with this one; if it does not, it was
    not sorted, and ``complain`` makes the error of the file's path.
    """
    before: RowKey | None = None
    while True:
        for cursor in cursors:
            cursor.fill()
        limits = [cursor.limit for cursor in cursors]
        bound = min((limit for limit in limits if limit is not None), default=None)
        taken = [cursor.take_until(bound) for cursor in cursors]
        for cursor, limit in zip(cursors, limits, strict=True):
            # The run that sets the bound ends with it: rows that stay are above their own last one.
            if limit is not None and limit == bound and cursor.waiting_path is not None:
                raise complain(cursor.waiting_path)
        parts = [part for part in taken if part]
        if not parts:
            return
        for first, last in ((part[0], part[-1]) for part in parts):
            begins, ends = _key_at(first.batch, 0, key_columns), _key_at(last.batch, -1, key_columns)
            if before is not None and (begins < before or not (may_repeat or begins > before)):
                raise complain(first.path)
            if bound is not None and ends > bound:
                raise complain(last.path)
        yield parts
        before = bound


def _key_at(batch: pa.RecordBatch, row: int, key_columns: Sequence[str]) -> RowKey:
    at = row % batch.num_rows
    return BatchKeys(batch.slice(at, 1), key_columns).get(0)
