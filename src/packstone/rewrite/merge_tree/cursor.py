"""A cursor over one sorted run: it reads batches, returns the rows up to a key, and keeps the rest for later."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge_tree.keys import to_integers, to_java_order
from packstone.rewrite.merge_tree.spec import InputFile, KeyRange, unpack_value

RowKey: TypeAlias = tuple[tuple[Any, ...], ...]  # per column (0,) for null or (1, value): nulls first


class BatchKeys:
    """The key columns of a batch, row by row, for the few rows whose keys are compared one by one."""

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        self._rows = batch.num_rows
        self._columns = [_Sortable(batch.column(name)) for name in key_columns]

    def get(self, row: int) -> RowKey:
        """The key of one row, in a form with the order of keys."""
        return tuple(column.get(row) for column in self._columns)

    def count_until(self, bound: RowKey) -> int:
        """The number of rows of a sorted batch that are not above the bound."""
        first = self._columns[0]
        if not isinstance(first.values, np.ndarray) or first.valid is not None:
            return bisect_right(range(self._rows), bound, key=self.get)
        if len(bound[0]) == 1:
            return 0
        end = int(np.searchsorted(first.values, bound[0][1], side="right"))
        if len(self._columns) == 1:
            return end
        # Only rows that are equal in the first column are compared one by one.
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
class FileRows:
    """Rows of one file, and its path."""

    batch: pa.RecordBatch
    path: str


class RunCursor:
    """A run that is read only as far as the windows need."""

    def __init__(self, pieces: Iterator[FileRows], key_columns: Sequence[str]) -> None:
        self._source = pieces
        self._key_columns = key_columns
        self._waiting: deque[tuple[FileRows, BatchKeys]] = deque()
        self._waiting_rows = self._batch_rows = 0
        self._is_exhausted = False

    def fill(self) -> None:
        """Read until more than half a batch is waiting: small windows have too much overhead."""
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
        """The key up to which all rows of the run have been read; None if the whole run has."""
        if self._is_exhausted or not self._waiting:
            return None
        piece, keys = self._waiting[-1]
        return keys.get(piece.batch.num_rows - 1)

    @property
    def waiting_path(self) -> str | None:
        """The file that the first waiting row came from; None if no row waits."""
        return self._waiting[0][0].path if self._waiting else None

    def take_until(self, bound: RowKey | None) -> list[FileRows]:
        """Take the waiting rows that are not above the bound; all of them if the bound is None."""
        taken: list[FileRows] = []
        while self._waiting:
            piece, keys = self._waiting.popleft()
            rows = piece.batch.num_rows
            count = rows if bound is None else keys.count_until(bound)
            self._waiting_rows -= count
            if count:
                taken.append(FileRows(batch=piece.batch.slice(0, count), path=piece.path))
            if count < rows:
                rest = FileRows(batch=piece.batch.slice(count), path=piece.path)
                self._waiting.appendleft((rest, BatchKeys(rest.batch, self._key_columns)))
                break
        return taken


def cut_runs(
    cursors: Sequence[RunCursor],
    key_columns: Sequence[str],
    *,
    may_repeat: bool,
    make_error: Callable[[str], Exception],
) -> Iterator[list[list[FileRows]]]:
    """Yield the rows of the runs between one bound and the next, in the order of keys; runs without rows are omitted.

    A run must continue above the last bound (or at it, if keys may repeat) and not exceed this one; otherwise it is not
    sorted, and ``make_error`` makes the error from the file's path.
    """
    before: RowKey | None = None
    while True:
        for cursor in cursors:
            cursor.fill()
        limits = [cursor.limit for cursor in cursors]
        bound = min((limit for limit in limits if limit is not None), default=None)
        taken = [cursor.take_until(bound) for cursor in cursors]
        for cursor, limit in zip(cursors, limits, strict=True):
            # The run that sets the bound ends at it: a row that remains is above the last row of its own batch.
            if limit is not None and limit == bound and cursor.waiting_path is not None:
                raise make_error(cursor.waiting_path)
        parts = [part for part in taken if part]
        if not parts:
            return
        for first, last in ((part[0], part[-1]) for part in parts):
            begins, ends = _key_at(first.batch, 0, key_columns), _key_at(last.batch, -1, key_columns)
            if before is not None and (begins < before or not (may_repeat or begins > before)):
                raise make_error(first.path)
            if bound is not None and ends > bound:
                raise make_error(last.path)
        yield parts
        before = bound


def _key_at(batch: pa.RecordBatch, row: int, key_columns: Sequence[str]) -> RowKey:
    at = row % batch.num_rows
    return BatchKeys(batch.slice(at, 1), key_columns).get(0)


# ---- key ranges: the rows of a file that belong to a task, by their first key column ----


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Keep rows whose column is in [lower, upper); nulls come before every value."""

    column: str
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, column: str, key_range: KeyRange | None) -> KeyBounds | None:
        """Read the bounds of a spec; None if there are none."""
        if key_range is None or (key_range.lower is None and key_range.upper is None):
            return None
        bounds = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        lower, upper = bounds
        return cls(column=column, lower=lower, upper=upper)

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows within the bounds, as a slice: rows are in the order of keys, so those below a bound come first."""
        first, last = self.find(batch.column(self.column))
        return batch.slice(first, max(0, last - first))

    def find(self, column: pa.Array) -> tuple[int, int]:
        """The first position (included) and the last (excluded) of the values within the bounds of a sorted column."""
        first = 0 if self.lower is None else count_below(column, self.lower)
        return first, len(column) if self.upper is None else count_below(column, self.upper)


def count_below(column: pa.Array, bound: pa.Scalar) -> int:
    """Count the values below the bound, nulls included."""
    nulls = column.null_count
    values = column.drop_null() if nulls else column
    if pt.is_floating(column.type):
        limit = to_java_order(np.array([bound.as_py()], values.to_numpy().dtype))[0]
        return nulls + int(np.count_nonzero(to_java_order(values.to_numpy()) < limit))
    return nulls + int(pc.sum(pc.less(values, bound)).as_py() or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShare:
    """The bounds of a key range, and the column of one file whose statistics are compared with them."""

    column: str
    bounds: KeyBounds

    def is_outside(self, low: Any, high: Any) -> bool:
        """Whether no value from ``low`` to ``high`` is within the bounds."""
        lower, upper = _plain(self.bounds.lower), _plain(self.bounds.upper)
        return bool((lower is not None and high < lower) or (upper is not None and low >= upper))

    def is_inside(self, low: Any, high: Any) -> bool:
        """Whether all values from ``low`` to ``high`` are within the bounds."""
        lower, upper = _plain(self.bounds.lower), _plain(self.bounds.upper)
        return bool((lower is None or low >= lower) and (upper is None or high < upper))


def share_of(file: InputFile, found: pa.Schema, bounds: KeyBounds | None) -> FileShare | None:
    """The bounds for a file's own column; None if its statistics cannot be compared with them directly."""
    source = None if bounds is None else next((c.source for c in file.columns if c.target == bounds.column), None)
    if bounds is None or source is None:
        return None
    kind = found.field(source).type
    wanted = next(bound.type for bound in (bounds.lower, bounds.upper) if bound is not None)
    is_plain = pt.is_integer(kind) or pt.is_string(kind) or pt.is_decimal(kind) or pt.is_date(kind)
    return FileShare(column=source, bounds=bounds) if kind == wanted and is_plain else None


def _plain(bound: pa.Scalar | None) -> Any:
    return None if bound is None else bound.as_py()
