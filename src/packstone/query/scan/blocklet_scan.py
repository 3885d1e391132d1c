"""Rows of chosen row groups (blocklets) of Parquet files that pass a filter.

The columns of the filter are decoded first; dictionary-encoded text stays encoded, and its codes are compared. The
other requested columns are decoded only where a row passes:

================  ====================================================================================================
small row groups  as many as make a batch are tested together, then the other columns of those with a match are read
a big row group   is tested batch by batch; the other columns are read from the first match to the last, or only the
                  pages with matching rows if these are few
a row group that  (its index shows that every row matches) is not tested at all
must match
================  ====================================================================================================

Memory: one batch of the filter's columns, one of the others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.query.filter.evaluate import select
from packstone.query.filter.expression import FALSE
from packstone.query.scan.scanned_file import Numbers, ScannedFile, rows_without_columns
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.merge_tree.spec import unpack_positions

if TYPE_CHECKING:
    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanFile
    from packstone.storage.fileio import FileIO

Flags = np.ndarray[Any, np.dtype[np.bool_]]

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 32 << 20
_FEW_ROWS = 1024


def scan_blocklets(
    io: FileIO,
    files: Sequence[ScanFile],
    *,
    schema: pa.Schema,
    filter_schema: pa.Schema,
    expression: Expression | None,
    caches: ScanCaches,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that pass, as ``schema``; ``filter_schema`` has the filter's columns in the table's types."""
    if expression == FALSE:
        return
    wanted = _Wanted(schema=schema, filter_schema=filter_schema, expression=expression, batch_rows=batch_rows)
    for file in files:
        with _opened(io, file, wanted, caches=caches) as scan:
            yield from scan.rows()


@contextmanager
def _opened(io: FileIO, file: ScanFile, wanted: _Wanted, *, caches: ScanCaches) -> Iterator[_FileScan]:
    """The scan of a file, which is closed afterwards; an error names the file."""
    opened = ScannedFile(io, file, [*wanted.schema.names, *wanted.filter_schema.names], caches=caches)
    try:
        yield _FileScan(opened, wanted)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.path) from error
    except pa.ArrowNotImplementedError as error:
        raise UnfaithfulError(f"PyArrow cannot read {file.path}: {one_line(error)}") from error
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFileError(f"{file.path} has a broken data page: {one_line(error)}.", file=file.path) from error
    finally:
        opened.close()


def count_blocklets(
    io: FileIO,
    files: Sequence[ScanFile],
    *,
    filter_schema: pa.Schema,
    expression: Expression | None,
    caches: ScanCaches,
) -> int:
    """Count the rows that pass; a file whose row groups must all match is not opened."""
    if expression == FALSE:
        return 0
    rows, opened = 0, []
    for file in files:
        must_match = bool(file.row_groups) and len(file.must_match) == len(file.row_groups)
        if file.row_counts and not file.deleted and (expression is None or must_match):
            rows += file.rows
        else:
            opened.append(file)
    found = scan_blocklets(
        io, opened, schema=pa.schema([]), filter_schema=filter_schema, expression=expression, caches=caches
    )
    return rows + sum(batch.num_rows for batch in found)


def find_positions(
    io: FileIO, file: ScanFile, *, filter_schema: pa.Schema, expression: Expression | None, caches: ScanCaches
) -> Numbers:
    """The positions in the file of the rows that pass, ascending, deleted rows left out; None passes every row."""
    if expression == FALSE:
        return np.empty(0, dtype=np.int64)
    wanted = _Wanted(schema=pa.schema([]), filter_schema=filter_schema, expression=expression, batch_rows=BATCH_ROWS)
    with _opened(io, file, wanted, caches=caches) as scan:
        return scan.positions()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    schema: pa.Schema
    filter_schema: pa.Schema
    expression: Expression | None
    batch_rows: int


class _FileScan:
    """The scan of one file."""

    def __init__(self, opened: ScannedFile, wanted: _Wanted) -> None:
        self._opened, self._wanted = opened, wanted
        self._groups, self._must = self._choose_groups()
        names = opened.stored(pa.schema([*wanted.schema, *wanted.filter_schema]))
        self._batch_rows = max(1, min(wanted.batch_rows, _BATCH_BYTES // opened.footer.row_bytes(names)))
        self._starts = np.cumsum([0, *opened.footer.group_rows])
        self._live = self._find_live()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file that pass."""
        if not self._prepare():
            return
        for groups in self._bunches():
            if self._is_sure(groups[0]):
                yield from self._all_rows(groups)
            elif len(groups) > 1:
                yield from self._passing_of_several(groups)
            else:
                yield from self._passing_of_one(groups[0])

    def positions(self) -> Numbers:
        """The positions of the rows that pass."""
        found = [np.empty(0, dtype=np.int64)]
        for group in self._groups if self._prepare() else ():
            first, kept, at = int(self._starts[group]), self._not_deleted([group]), 0
            if self._is_sure(group):
                rows = self._opened.footer.group_rows[group]
                found.append(np.arange(rows) + first if kept is None else np.flatnonzero(kept) + first)
                continue
            tested, _ = self._schemas()
            for batch in self._opened.read([group], tested, batch_rows=self._batch_rows):
                found.append(np.flatnonzero(self._test(batch, kept, at)) + first + at)
                at += batch.num_rows
        return np.concatenate(found)

    def _prepare(self) -> bool:
        """Open the file, unless its filters and dictionaries exclude every row group; then there is nothing to read."""
        expression, filter_schema = self._wanted.expression, self._wanted.filter_schema
        for prune in (self._opened.prune_by_bloom_filters, self._opened.prune_by_dictionaries):
            if self._groups and expression is not None:
                self._groups = prune(expression, filter_schema, groups=self._groups, sure=self._must)
        if self._groups:
            self._opened.open(codes=any(not self._is_sure(group) for group in self._groups))
        return bool(self._groups)

    def _choose_groups(self) -> tuple[Sequence[int], frozenset[int]]:
        file, footer = self._opened.file, self._opened.footer
        if file.row_groups:
            known = len(footer.group_rows)
            if max(file.row_groups) >= known:
                raise UnreadableFileError(
                    f"{file.path} has {known} row groups, fewer than its segment records; it is another file.",
                    file=file.path,
                )
            return file.row_groups, frozenset(file.must_match)
        if self._wanted.expression is None:
            return range(len(footer.group_rows)), frozenset()
        return self._opened.prune_by_bounds(self._wanted.expression)

    def _is_sure(self, group: int) -> bool:
        return self._wanted.expression is None or group in self._must

    def _bunches(self) -> Iterator[list[int]]:
        """Row groups that are read together: consecutive ones that must match, or a batch of those to test."""
        bunch: list[int] = []
        rows = 0
        for group in self._groups:
            count = self._opened.footer.group_rows[group]
            is_full = not self._is_sure(group) and rows + count > self._batch_rows
            if bunch and (is_full or self._is_sure(bunch[0]) != self._is_sure(group)):
                yield bunch
                bunch, rows = [], 0
            bunch.append(group)
            rows += count
        if bunch:
            yield bunch

    def _all_rows(self, groups: list[int]) -> Iterator[pa.RecordBatch]:
        schema, kept, at = self._wanted.schema, self._not_deleted(groups), 0
        if not len(schema):
            rows = sum(self._opened.footer.group_rows[group] for group in groups)
            left = rows if kept is None else int(np.count_nonzero(kept))
            if left:
                yield rows_without_columns(left)
            return
        for batch in self._opened.read(groups, schema, batch_rows=self._batch_rows):
            part = None if kept is None else kept[at : at + batch.num_rows]
            at += batch.num_rows
            found = batch if part is None or part.all() else batch.filter(to_column(part))
            if found.num_rows:
                yield found

    def _passing_of_several(self, groups: list[int]) -> Iterator[pa.RecordBatch]:
        """Small row groups: test all, then read the other columns of those in which a row passes."""
        tested, rest = self._schemas()
        kept, at = self._not_deleted(groups), 0
        pieces, masks = [], []
        for batch in self._opened.read(groups, tested, batch_rows=self._batch_rows):
            mask = self._test(batch, kept, at)
            at += batch.num_rows
            masks.append(mask)
            if mask.any():
                pieces.append(_filtered(batch, mask))
        if not pieces:
            return
        found = _joined(pieces)
        if len(rest):
            found = _beside(found, self._rest_of(groups, np.concatenate(masks), rest))
        yield from self._out(found)

    def _rest_of(self, groups: list[int], mask: Flags, rest: pa.Schema) -> pa.RecordBatch:
        rows = self._opened.footer.group_rows
        parts = np.split(mask, np.cumsum([rows[group] for group in groups])[:-1])
        left = [(group, part) for group, part in zip(groups, parts, strict=True) if part.any()]
        mask, at, pieces = np.concatenate([part for _, part in left]), 0, []
        for batch in self._opened.read([group for group, _ in left], rest, batch_rows=self._batch_rows):
            part = mask[at : at + batch.num_rows]
            at += batch.num_rows
            if part.any():
                pieces.append(_filtered(batch, part))
        return _joined(pieces)

    def _passing_of_one(self, group: int) -> Iterator[pa.RecordBatch]:
        """A big row group: read the other columns after each tested batch, or of few rows at the end, by page."""
        tested, rest = self._schemas()
        kept, at, rows = self._not_deleted([group]), 0, 0
        others = _Following(self._opened.read([group], rest, batch_rows=self._batch_rows))
        waiting: list[_Tested] = []
        for batch in self._opened.read([group], tested, batch_rows=self._batch_rows):
            mask = self._test(batch, kept, at)
            if mask.any():
                waiting.append(_Tested(at=at, mask=mask, found=_filtered(batch, mask)))
                rows += waiting[-1].found.num_rows
            at += batch.num_rows
            if rows > _FEW_ROWS or not len(rest):
                for one in waiting:
                    yield from self._out(one.with_rest(others, rest))
                waiting.clear()
        if not waiting:
            return
        rows_left = np.concatenate([one.rows for one in waiting])
        few = self._opened.read_by_page(group, rest, rows_left, batch_rows=self._batch_rows)
        if few is None:
            for one in waiting:
                yield from self._out(one.with_rest(others, rest))
        else:
            yield from self._out(_beside(_joined([one.found for one in waiting]), few))

    def _schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """The filter's columns, and the other requested ones; text has a dictionary type where it is read encoded."""
        filter_schema = self._wanted.filter_schema
        rest = pa.schema([one for one in self._wanted.schema if one.name not in filter_schema.names])
        return self._opened.coded_schema(filter_schema), self._opened.coded_schema(rest)

    def _test(self, batch: pa.RecordBatch, kept: Flags | None, at: int) -> Flags:
        expression = self._wanted.expression
        assert expression is not None  # checked by the caller
        mask: Flags = select(expression, batch).to_numpy(zero_copy_only=False)
        return mask if kept is None else mask & kept[at : at + batch.num_rows]

    def _out(self, found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The requested columns in plain types: only the rows that pass are decoded from dictionaries."""
        schema = self._wanted.schema
        if not len(schema):
            yield rows_without_columns(found.num_rows)
            return
        for part in _cut(found):
            columns = [part.column(part.schema.get_field_index(one.name)) for one in schema]
            plain = [
                column if column.type == one.type else column.cast(one.type)
                for column, one in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(plain, schema=schema)

    def _not_deleted(self, groups: Sequence[int]) -> Flags | None:
        """Which rows of these row groups are not deleted; None if no row of the file is deleted."""
        if self._live is None:
            return None
        parts = [self._live[self._starts[group] : self._starts[group + 1]] for group in groups]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _find_live(self) -> Flags | None:
        deleted = unpack_positions(self._opened.file.deleted)
        if not deleted.size:
            return None
        live = np.ones(int(self._starts[-1]), dtype=bool)
        live[deleted] = False
        return live


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tested:
    """A batch in which a row passes: its position, the mask of passing rows, and their columns read so far."""

    at: int
    mask: Flags
    found: pa.RecordBatch

    @property
    def rows(self) -> Numbers:
        """The positions of the rows in the row group."""
        return np.flatnonzero(self.mask) + self.at

    def with_rest(self, others: _Following, rest: pa.Schema) -> pa.RecordBatch:
        """The passing rows with the other columns, which are read up to this batch."""
        return _beside(self.found, others.read(self.at, self.mask)) if len(rest) else self.found


class _Following:
    """Columns that are read after the filter's: nothing before the first passing row, skipping rows in between."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._batch: pa.RecordBatch | None = None
        self._begin = 0  # position of the batch

    def read(self, at: int, mask: Flags) -> pa.RecordBatch:
        """The rows of a mask that starts at position ``at``; positions never decrease from call to call."""
        pieces, end, first = [], at + len(mask), at
        while at < end:
            while self._batch is None or self._begin + self._batch.num_rows <= at:
                self._begin += 0 if self._batch is None else self._batch.num_rows
                self._batch = next(self._batches)
            offset = at - self._begin
            piece = self._batch.slice(offset, min(self._batch.num_rows - offset, end - at))
            part = mask[at - first : at - first + piece.num_rows]
            at += piece.num_rows
            if part.any():
                pieces.append(_filtered(piece, part))
        return _joined(pieces)


def _filtered(batch: pa.RecordBatch, mask: Flags) -> pa.RecordBatch:
    """The rows of the mask, taken by position, which does not touch the other rows."""
    left = int(np.count_nonzero(mask))
    if left == batch.num_rows:
        return batch
    return batch.take(to_column(np.flatnonzero(mask)))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts that stay small when decoded: a dictionary code may refer to a text of any length."""
    coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    longest = sum(int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0) for column in coded)
    rows = max(1, _BATCH_BYTES // max(1, longest))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def _beside(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=pa.schema([*left.schema, *right.schema]))


def _joined(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several pieces (nearly always there is one); their dictionaries are unified."""
    if len(pieces) == 1:
        return pieces[0]
    names = pieces[0].schema.names
    columns = [pa.concat_arrays([_with_wide_codes(piece.column(at)) for piece in pieces]) for at in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names)


def _with_wide_codes(column: pa.Array) -> pa.Array:
    """A column with 32-bit codes: a file may declare 8-bit codes, too narrow for several unified dictionaries."""
    kind = column.type
    return column.cast(pa.dictionary(pa.int32(), kind.value_type)) if pa.types.is_dictionary(kind) else column
