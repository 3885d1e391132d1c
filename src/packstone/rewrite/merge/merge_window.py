"""A window: the rows of all runs between two keys, in the order of keys and, inside a key, oldest first.

Windows bound the memory whatever the size of a bucket: each run is a cursor of batches, and a window takes from every
cursor the rows up to the smallest last key of the open batches. So all records of a key are in one window, and no
later window has a smaller key.

Inside a key the order is: the user's sequence columns (nulls first), the sequence number, retract before add. Runs
whose sequence numbers do not overlap are laid one behind the other, oldest first; the stable sort by key then keeps
that order and no second sort is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError
from packstone.rewrite.merge.key_order import Order, find_unsorted, sort_rows
from packstone.rewrite.merge.key_words import I64, Component, Words, column_values, find_components, number_components
from packstone.rewrite.merge.merge_spec import KIND_COLUMN, SEQUENCE_COLUMN
from packstone.rewrite.merge.run_cursor import BatchKeys, Piece, RowKey, RunCursor, cut_runs
from packstone.rewrite.numpy_columns import to_column

Kinds = np.ndarray[Any, np.dtype[np.int8]]

_MAX_PLACES_PER_ROW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """By which columns rows are ordered."""

    key_columns: tuple[str, ...]
    sequence_columns: tuple[str, ...] = ()
    sequence_descending: bool = False


class Window:
    """Rows of all runs; ``order`` lists them by key and age, ``starts`` where in it a key begins."""

    def __init__(
        self, batches: Sequence[pa.RecordBatch], run_rows: I64, *, ordering: Ordering, is_by_age: bool
    ) -> None:
        self.schema = batches[0].schema
        self.rows = int(run_rows[-1])
        self._batches, self._run_rows = batches, run_rows  # where each run begins, and the end
        self._ordering, self._is_by_age = ordering, is_by_age  # whether each run is newer than those before it
        self._joined = {name: join_column(batches, name) for name in ordering.key_columns}
        self._words = _key_words(list(self._joined.values()), run_rows)

    def find_unsorted(self) -> int | None:
        """Find a row of a run that is not above the one before it."""
        return find_unsorted(self._words, self.rows, self._run_rows[:-1])

    @cached_property
    def order(self) -> I64:
        """Rows by key and age."""
        found = self._sorted
        if self._is_by_age or len(self.starts) == self.rows:
            return found.rows
        return _sort_versions(self._batches, found, self._ordering)

    @cached_property
    def starts(self) -> I64:
        """Where in the order a key begins."""
        return np.flatnonzero(np.concatenate(([True], ~self._sorted.same)))

    @cached_property
    def _sorted(self) -> Order:
        return sort_rows(self._words, self.rows)

    def newest(self) -> I64:
        """The last record of each key, in the order of keys."""
        places = self._words.get(0)
        if not self._is_by_age or places is None or self._words.get(1) is not None:
            return self.order[self.ends]
        span = int(places.max()) + 1
        if span > self.rows * _MAX_PLACES_PER_ROW:
            return self.order[self.ends]
        # Dense keys need no sort: each row is put down at the place of its key, newer ones over older ones.
        rows = np.full(span, -1, dtype=np.int64)
        for start, end in pairwise(self._run_rows):
            rows[places[start:end].view(np.int64)] = np.arange(start, end)
        return rows[rows >= 0]

    @property
    def counts(self) -> I64:
        """How many records each key has."""
        return np.diff(self.starts, append=self.rows)

    @property
    def ends(self) -> I64:
        """Where in the order the last record of each key is."""
        return np.append(self.starts[1:], self.rows) - 1

    @property
    def kinds(self) -> Kinds:
        """Row kinds, in the order in which the rows came."""
        return column_values(self.column(KIND_COLUMN), np.dtype(np.int8))

    def column(self, name: str) -> pa.Array:
        """One column of all rows, in the order in which they came."""
        joined = self._joined.get(name)
        return join_column(self._batches, name) if joined is None else joined

    def gather(self, rows: I64) -> pa.RecordBatch:
        """Take rows, column by column: only one column of losers is copied at a time."""
        at = to_column(rows)
        taken: dict[tuple[object, ...], pa.Array] = {}
        columns = []
        for number, name in enumerate(self.schema.names):
            # Twin columns, as the key and its mirror among the values, are fetched once.
            place = tuple(_address(batch.column(number)) for batch in self._batches)
            if place not in taken:
                taken[place] = self.column(name).take(at)
            columns.append(taken[place])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def cut_windows(cursors: Sequence[RunCursor], ordering: Ordering) -> Iterator[Window | pa.RecordBatch]:
    """Yield windows in the order of keys; rows that only one run has there come as they are, as batches."""
    for parts in cut_runs(cursors, ordering.key_columns, may_repeat=False, complain=_unsorted):
        if len(parts) == 1:
            yield from check_run(parts[0], ordering.key_columns)
        else:
            yield make_window(parts, ordering)


def check_run(pieces: Iterable[Piece], key_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Hand out the rows of one run, each piece proved to be sorted and above the one before."""
    last: RowKey | None = None
    for piece in pieces:
        keys = BatchKeys(piece.batch, key_columns)
        if last is not None and not keys.get(0) > last:
            raise _unsorted(piece.path)
        last = keys.get(piece.batch.num_rows - 1)
        words = Words(c for name in key_columns for c in find_components(piece.batch.column(name)))
        if find_unsorted(words, piece.batch.num_rows, np.zeros(1, dtype=np.int64)) is not None:
            raise _unsorted(piece.path)
        yield piece.batch


def make_window(parts: Sequence[Sequence[Piece]], ordering: Ordering) -> Window:
    """Put the rows of several runs in order."""
    is_by_age = False
    if not ordering.sequence_columns:
        parts, is_by_age = _by_age(parts)
    pieces = [piece for part in parts for piece in part]
    run_rows = np.cumsum([0, *(sum(piece.batch.num_rows for piece in part) for part in parts)])
    window = Window([piece.batch for piece in pieces], run_rows, ordering=ordering, is_by_age=is_by_age)
    wrong = window.find_unsorted()
    if wrong is not None:
        ends = np.cumsum([piece.batch.num_rows for piece in pieces])
        raise _unsorted(pieces[int(np.searchsorted(ends, wrong, side="right"))].path)
    return window


def join_column(batches: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    """One column of several batches in one piece."""
    at = batches[0].schema.get_field_index(name)
    return pa.concat_arrays([batch.column(at) for batch in batches])


def _address(column: pa.Array) -> tuple[object, ...]:
    """Where in memory a column is: columns at one place are one."""
    if column.type.num_fields:
        return (id(column),)
    return (
        column.type,
        column.offset,
        len(column),
        *(None if buffer is None else buffer.address for buffer in column.buffers()),
    )


def _key_words(columns: Sequence[pa.Array], run_rows: I64) -> Words:
    extremes = [int(row) for start, end in pairwise(run_rows) for row in (start, end - 1)]
    return Words(
        component
        for at, column in enumerate(columns)
        for component in find_components(column, extremes=None if at else extremes)
    )


def _by_age(parts: Sequence[Sequence[Piece]]) -> tuple[Sequence[Sequence[Piece]], bool]:
    """Lay runs with separate ranges of sequence numbers oldest first; say whether they have such.

    Runs that overlap stay where they are: of records that tie in everything the one of the later run is the newer.
    """
    ranges = []
    for part in parts:
        sequences = [column_values(p.batch.column(SEQUENCE_COLUMN), np.dtype(np.int64)) for p in part]
        ranges.append((min(int(s.min()) for s in sequences), max(int(s.max()) for s in sequences)))
    by_age = sorted(range(len(parts)), key=ranges.__getitem__)
    overlap = any(ranges[a][1] >= ranges[b][0] for a, b in pairwise(by_age))
    return (parts, False) if overlap else ([parts[at] for at in by_age], True)


def _sort_versions(batches: Sequence[pa.RecordBatch], found: Order, ordering: Ordering) -> I64:
    """Sort the records of each key by age; keys stay where they are."""
    key_number = np.zeros(len(found.rows), dtype=np.int64)
    np.cumsum(~found.same, out=key_number[1:])

    def components() -> Iterator[Component]:
        yield from number_components(key_number)
        for component in _age_components(batches, ordering):
            yield Component(values=component.values[found.rows], bits=component.bits)

    return found.rows[sort_rows(Words(components()), len(found.rows)).rows]


def _age_components(batches: Sequence[pa.RecordBatch], ordering: Ordering) -> Iterator[Component]:
    for name in ordering.sequence_columns:
        column = join_column(batches, name)
        has_flag = bool(column.null_count)
        for at, component in enumerate(find_components(column)):
            is_flag = has_flag and at == 0  # nulls stay first whatever the direction
            yield component.inverted() if ordering.sequence_descending and not is_flag else component
    yield from number_components(column_values(join_column(batches, SEQUENCE_COLUMN), np.dtype(np.int64)))
    kinds = column_values(join_column(batches, KIND_COLUMN), np.dtype(np.int8))
    yield from number_components((kinds & 1) ^ 1)


def _unsorted(path: str) -> CorruptionError:
    return CorruptionError(f"{path} is not sorted by its key, or holds a key twice; nothing was written.", file=path)
