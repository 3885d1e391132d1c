"""A window: the rows of all runs between two keys, in the order of keys and, inside a key, oldest first.

Windows bound the memory whatever the size of a bucket: each run is a cursor of batches, and a window takes from every
cursor the rows up to the smallest last key of the open batches. So all records of a key are in one window, and no
later window has a smaller key.

Inside a key the order is: the user's sequence columns (nulls first), the sequence number, retract before add. Runs
whose sequence numbers do not overlap are concatenated, oldest first; the stable sort by key then keeps that order and
no second sort is needed.

``Versions`` has the records of keys with several records, by age: the oldest of all keys at once, then the second
oldest, and so on. Folding them from oldest to newest gives exactly the bits that merging record by record gives; a key
occurs at most once in a run, so there are no more steps than runs.
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
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.merge_tree.cursor import BatchKeys, FileRows, RowKey, RunCursor, cut_runs
from packstone.rewrite.merge_tree.keys import (
    I64,
    Bools,
    Component,
    Order,
    Words,
    column_values,
    find_components,
    find_unsorted,
    number_components,
    sort_rows,
)
from packstone.rewrite.merge_tree.spec import KIND_COLUMN, SEQUENCE_COLUMN, RowKind

Kinds = np.ndarray[Any, np.dtype[np.int8]]

_MAX_POSITIONS_PER_ROW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """The columns that rows are ordered by."""

    key_columns: tuple[str, ...]
    sequence_columns: tuple[str, ...] = ()
    sequence_descending: bool = False


class Window:
    """Rows of all runs; ``order`` lists them by key and age, ``starts`` has the positions in it where a key begins."""

    def __init__(
        self, batches: Sequence[pa.RecordBatch], run_rows: I64, *, ordering: Ordering, is_by_age: bool
    ) -> None:
        self.schema = batches[0].schema
        self.rows = int(run_rows[-1])
        self._batches, self._run_rows = batches, run_rows  # the first row of each run, and the end
        self._ordering, self._is_by_age = ordering, is_by_age  # whether each run is newer than those before it
        self._joined = {name: join_column(batches, name) for name in ordering.key_columns}
        self._words = _key_words(list(self._joined.values()), run_rows)

    def find_unsorted(self) -> int | None:
        """Find a row whose key is not above that of the previous row of its run."""
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
        """The positions in the order where a key begins."""
        return np.flatnonzero(np.concatenate(([True], ~self._sorted.same)))

    @cached_property
    def _sorted(self) -> Order:
        return sort_rows(self._words, self.rows)

    def newest(self) -> I64:
        """The last record of each key, in the order of keys."""
        positions = self._words.get(0)
        if not self._is_by_age or positions is None or self._words.get(1) is not None:
            return self.order[self.ends]
        span = int(positions.max()) + 1
        if span > self.rows * _MAX_POSITIONS_PER_ROW:
            return self.order[self.ends]
        # Dense keys need no sort: each row is stored at the position of its key, newer ones overwrite older ones.
        rows = np.full(span, -1, dtype=np.int64)
        for start, end in pairwise(self._run_rows):
            rows[positions[start:end].view(np.int64)] = np.arange(start, end)
        return rows[rows >= 0]

    @property
    def counts(self) -> I64:
        """The number of records of each key."""
        return np.diff(self.starts, append=self.rows)

    @property
    def ends(self) -> I64:
        """The position in the order of the last record of each key."""
        return np.append(self.starts[1:], self.rows) - 1

    @property
    def kinds(self) -> Kinds:
        """Row kinds, in the input order."""
        return column_values(self.column(KIND_COLUMN), np.dtype(np.int8))

    def column(self, name: str) -> pa.Array:
        """One column of all rows, in the input order."""
        joined = self._joined.get(name)
        return join_column(self._batches, name) if joined is None else joined

    def gather(self, rows: I64) -> pa.RecordBatch:
        """Take rows, column by column, so that only one column with superseded rows is copied at a time."""
        at = to_column(rows)
        columns: list[pa.Array] = []
        firsts: dict[tuple[object, ...], int] = {}
        for number, name in enumerate(self.schema.names):
            # Columns that share memory, such as a key and its mirror among the values, are fetched once.
            twin = firsts.setdefault(_address(self._batches[0].column(number)), number)
            is_same = twin < number and all(
                _address(batch.column(twin)) == _address(batch.column(number)) for batch in self._batches[1:]
            )
            columns.append(columns[twin] if is_same else self.column(name).take(at))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def cut_windows(cursors: Sequence[RunCursor], ordering: Ordering) -> Iterator[Window | pa.RecordBatch]:
    """Yield windows in the order of keys; a window with rows of only one run comes as unchanged batches."""
    for parts in cut_runs(cursors, ordering.key_columns, may_repeat=False, make_error=_unsorted):
        if len(parts) == 1:
            yield from check_run(parts[0], ordering.key_columns)
        else:
            yield make_window(parts, ordering)


def check_run(pieces: Iterable[FileRows], key_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one run, after checking that each piece is sorted and above the previous one."""
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


def make_window(parts: Sequence[Sequence[FileRows]], ordering: Ordering) -> Window:
    """Make the window of the rows of several runs, each checked to be sorted."""
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
    """One column of several batches as one array."""
    at = batches[0].schema.get_field_index(name)
    return pa.concat_arrays([batch.column(at) for batch in batches])


def _address(column: pa.Array) -> tuple[object, ...]:
    """The memory address of a column: columns with the same address are equal."""
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


def _by_age(parts: Sequence[Sequence[FileRows]]) -> tuple[Sequence[Sequence[FileRows]], bool]:
    """Order runs oldest first if their ranges of sequence numbers do not overlap; also return whether that is so.

    Runs that overlap keep their order: of records that are equal in everything, the one of the later run is newer.
    """
    ranges = []
    for part in parts:
        sequences = [column_values(p.batch.column(SEQUENCE_COLUMN), np.dtype(np.int64)) for p in part]
        ranges.append((min(int(s.min()) for s in sequences), max(int(s.max()) for s in sequences)))
    by_age = sorted(range(len(parts)), key=ranges.__getitem__)
    overlap = any(ranges[a][1] >= ranges[b][0] for a, b in pairwise(by_age))
    return (parts, False) if overlap else ([parts[at] for at in by_age], True)


def _sort_versions(batches: Sequence[pa.RecordBatch], found: Order, ordering: Ordering) -> I64:
    """Sort the records of each key by age; the order of keys stays."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The k-th records of all keys that have at least k."""

    keys: I64  # numbers among the keys with several records
    rows: I64  # positions of the records in the input order
    retract: Bools
    delete: Bools


class Versions:
    """The keys of a window that have several records, with their records step by step."""

    def __init__(self, window: Window) -> None:
        counts = window.counts
        self.window = window
        self.merged = np.flatnonzero(counts > 1)  # numbers of the keys in the window
        self.count = len(self.merged)
        self._starts, self._counts = window.starts[self.merged], counts[self.merged]
        kinds = window.kinds
        self.steps = [self._step(at, kinds) for at in range(int(self._counts.max(initial=0)))]
        self.has_retracts = any(step.retract.any() for step in self.steps)

    def _step(self, at: int, kinds: np.ndarray[Any, np.dtype[np.int8]]) -> Step:
        keys = np.flatnonzero(self._counts > at)
        rows = self.window.order[self._starts[keys] + at]
        return Step(keys=keys, rows=rows, retract=(kinds[rows] & 1) == 1, delete=kinds[rows] == RowKind.DELETE)

    @property
    def newest(self) -> I64:
        """The last record of every key of the window, including keys with one record."""
        return self.window.order[self.window.ends]

    def place(self, column: pa.Array, merged: I64 | pa.Array) -> pa.Array:
        """The column of all keys: merged values (rows of the column, -1 for null, or new values) and single records."""
        rows = self.newest
        if isinstance(merged, np.ndarray):
            rows[self.merged] = merged
            missing = rows < 0
            return column.take(to_column(rows, missing=missing if missing.any() else None))
        rows[self.merged] = np.arange(len(column), len(column) + self.count)
        return pa.concat_arrays([column, merged.cast(column.type)]).take(to_column(rows))
