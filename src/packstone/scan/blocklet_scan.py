"""Rows of chosen row groups (blocklets) of Parquet files that pass a filter.

In each row group the columns of the filter are decoded first, batch by batch; text that is stored as codes of a
dictionary stays so, and the codes are compared. The other columns are opened at the first batch in which a row is
left, and decoded as far as the last one: a row group without a match never costs more than its filter columns. A row
group in which every row must match is not tested at all.

Memory: one batch of the filter columns, one of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.pruning.evaluate import select
from packstone.pruning.expression import FALSE
from packstone.rewrite.data_files.evolve import Evolution
from packstone.rewrite.deleted_positions import Positions, unpack_positions
from packstone.rewrite.merge_spec import ColumnSource, FileFormat, InputFile
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.parquet_footer import one_line
from packstone.scan.footer import Footer, prune_groups, read_footer

if TYPE_CHECKING:
    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanFile
    from packstone.storage.fileio import FileIO

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 32 << 20


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
    """Yield the rows that pass, in these columns and types; ``filter_schema`` has the table's types of the filter's."""
    if expression == FALSE:
        return
    for file in files:
        opened = _OpenFile(io, file, _Wanted(schema, filter_schema, expression, batch_rows), caches=caches)
        try:
            yield from opened.rows()
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
    """How many rows pass; a file whose row groups must all match is not opened."""
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


def rows_without_columns(rows: int) -> pa.RecordBatch:
    """A batch that has rows but no columns: for those who only count."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


@dataclass(frozen=True, slots=True)
class _Wanted:
    schema: pa.Schema
    filter_schema: pa.Schema
    expression: Expression | None
    batch_rows: int


class _OpenFile:
    """One file of the scan."""

    def __init__(self, io: FileIO, file: ScanFile, wanted: _Wanted, *, caches: ScanCaches) -> None:
        self._file, self._wanted = file, wanted
        self._footer: Footer = read_footer(io, file, caches)
        named = {column.target: column.source for column in file.columns}
        present = set(self._footer.schema.names)
        needed = {*wanted.schema.names, *wanted.filter_schema.names}
        self._sources = {name: named.get(name, name if name in present else None) for name in needed}
        self._groups, self._must = self._choose_groups()
        self._deleted: Positions = unpack_positions(file.deleted)
        self._starts = self._footer.group_starts() if self._deleted.size else []
        self._parquet: pq.ParquetFile | None = None
        if self._groups:
            self._parquet = self._open(io)

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            for group in self._groups:
                if self._wanted.expression is None or group in self._must:
                    yield from self._all_rows(group)
                else:
                    yield from self._passing_rows(group)
        except pa.ArrowNotImplementedError as error:
            raise UnfaithfulError(f"PyArrow cannot read {self._file.path}: {one_line(error)}") from error
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFileError(
                f"{self._file.path} has a broken data page: {one_line(error)}.", file=self._file.path
            ) from error

    def close(self) -> None:
        if self._parquet is not None:
            self._parquet.close(force=True)

    def _choose_groups(self) -> tuple[Sequence[int], frozenset[int]]:
        if self._file.row_groups:
            return self._file.row_groups, frozenset(self._file.must_match)
        every = range(self._footer.metadata.num_row_groups)
        if self._wanted.expression is None:
            return every, frozenset()
        kept, must = prune_groups(self._footer, self._wanted.expression, self._sources)
        return kept, frozenset(must)

    def _open(self, io: FileIO) -> pq.ParquetFile:
        stored = [source for source in self._sources.values() if source is not None]
        is_tested = any(group not in self._must for group in self._groups) and self._wanted.expression is not None
        coded = self._footer.coded_columns(stored, self._groups[0]) if is_tested else []
        return pq.ParquetFile(
            io.open_input(self._file.path),
            metadata=self._footer.metadata,
            pre_buffer=False,
            read_dictionary=coded or None,
            page_checksum_verification=True,
        )

    def _all_rows(self, group: int) -> Iterator[pa.RecordBatch]:
        if not len(self._wanted.schema):
            yield from self._counted(group)
            return
        turn, at = self._evolution(self._wanted.schema), 0
        for batch in self._read(group, self._wanted.schema, self._batch_rows(group, self._wanted.schema)):
            kept = self._left(group, at, batch.num_rows)
            at += batch.num_rows
            turned = turn.apply(batch)
            if kept is not None:
                turned = turned.filter(to_column(kept))
            if turned.num_rows:
                yield turned

    def _counted(self, group: int) -> Iterator[pa.RecordBatch]:
        rows = self._footer.metadata.row_group(group).num_rows
        kept = self._left(group, 0, rows)
        left = rows if kept is None else int(np.count_nonzero(kept))
        if left:
            yield rows_without_columns(left)

    def _passing_rows(self, group: int) -> Iterator[pa.RecordBatch]:
        tested = self._tested_schema()
        rest = pa.schema([one for one in self._wanted.schema if one.name not in tested.names])
        rows = self._batch_rows(group, pa.schema([*tested, *rest]))
        turn = self._evolution(tested)
        others = _Following(batches=self._read(group, rest, rows)) if self._stored(rest) else None
        at = 0
        for batch in self._read(group, tested, rows):
            found = turn.apply(batch)
            mask = self._mask(found, group, at)
            left = mask.true_count
            if left:
                if left < batch.num_rows:
                    found = found.filter(mask)
                pieces = self._follow(others, rest, at=at, mask=mask, left=left)
                yield self._join(found, pieces)
            at += batch.num_rows

    def _mask(self, found: pa.RecordBatch, group: int, at: int) -> pa.BooleanArray:
        expression = self._wanted.expression
        assert expression is not None  # noqa: S101 - asked by the caller
        mask = select(expression, found)
        kept = self._left(group, at, found.num_rows)
        return mask if kept is None else to_column(mask.to_numpy(zero_copy_only=False) & kept)

    def _follow(
        self, others: _Following | None, rest: pa.Schema, *, at: int, mask: pa.BooleanArray, left: int
    ) -> pa.RecordBatch | None:
        """The other columns of the rows that are left."""
        if not len(rest):
            return None
        turn = self._evolution(rest)
        if others is None:  # this file has none of them
            return pa.RecordBatch.from_arrays([pa.nulls(left, one.type) for one in rest], schema=rest)
        pieces, first = [], 0
        for batch in others.read(at, len(mask)):
            part = mask.slice(first, batch.num_rows)
            first += batch.num_rows
            if part.true_count:
                pieces.append(turn.apply(batch.filter(part) if part.true_count < batch.num_rows else batch))
        return _joined(pieces, rest)

    def _join(self, found: pa.RecordBatch, others: pa.RecordBatch | None) -> pa.RecordBatch:
        if not len(self._wanted.schema):
            return rows_without_columns(found.num_rows)
        columns = []
        for one in self._wanted.schema:
            at = found.schema.get_field_index(one.name)
            if at >= 0:
                column = found.column(at)
                columns.append(column if column.type == one.type else column.cast(one.type))
            elif others is not None:
                columns.append(others.column(others.schema.get_field_index(one.name)))
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted.schema)

    def _tested_schema(self) -> pa.Schema:
        """The filter's columns as the table has them, but in a dictionary where they are decoded as one."""
        assert self._parquet is not None  # noqa: S101 - there is a row group
        read, fields = self._parquet.schema_arrow, []
        for one in self._wanted.filter_schema:
            source = self._sources[one.name]
            kind = None if source is None else read.field(source).type
            is_coded = kind is not None and pa.types.is_dictionary(kind) and kind.value_type == one.type
            fields.append(pa.field(one.name, kind) if is_coded else one)
        return pa.schema(fields)

    def _stored(self, schema: pa.Schema) -> list[str]:
        return list(dict.fromkeys(source for one in schema if (source := self._sources[one.name]) is not None))

    def _read(self, group: int, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        assert self._parquet is not None  # noqa: S101 - there is a row group
        names = self._stored(schema)
        if names:
            yield from self._parquet.iter_batches(batch_size=rows, row_groups=[group], columns=names, use_threads=False)
            return
        left = self._footer.metadata.row_group(group).num_rows
        while left > 0:
            yield rows_without_columns(min(rows, left))
            left -= rows

    def _batch_rows(self, group: int, schema: pa.Schema) -> int:
        row_bytes = self._footer.row_bytes(self._stored(schema), group)
        return max(1, min(self._wanted.batch_rows, _BATCH_BYTES // row_bytes))

    def _evolution(self, schema: pa.Schema) -> _Turn:
        columns = tuple(ColumnSource(target=one.name, source=self._sources[one.name]) for one in schema)
        return _Turn(self._file, schema, columns)

    def _left(self, group: int, at: int, rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Which of these rows are not deleted; None if all are left."""
        if not self._deleted.size:
            return None
        begin = self._starts[group] + at
        first, last = np.searchsorted(self._deleted, [begin, begin + rows])
        if first == last:
            return None
        kept = np.ones(rows, dtype=bool)
        kept[self._deleted[first:last] - begin] = False
        return kept


@dataclass(slots=True)
class _Following:
    """Columns that are read behind others: begun at the first rows that somebody wants, skipped up to the next."""

    batches: Iterator[pa.RecordBatch]
    _batch: pa.RecordBatch | None = None
    _begin: int = 0  # where the batch begins

    def read(self, at: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Rows from a position on, which is never before the last one asked for."""
        end = at + rows
        while at < end:
            while self._batch is None or self._begin + self._batch.num_rows <= at:
                self._begin += 0 if self._batch is None else self._batch.num_rows
                self._batch = next(self.batches)
            offset = at - self._begin
            piece = self._batch.slice(offset, min(self._batch.num_rows - offset, end - at))
            at += piece.num_rows
            yield piece


class _Turn:
    """Batches of the file to batches of the table's columns: renamed, cast, null where the file has none."""

    def __init__(self, file: ScanFile, wanted: pa.Schema, columns: tuple[ColumnSource, ...]) -> None:
        self._wanted = wanted
        self._file = InputFile(
            path=file.path, file_format=FileFormat.PARQUET, size_bytes=file.size_bytes, rows=0, columns=columns
        )
        self._evolution: Evolution | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._evolution is None:
            self._evolution = Evolution(self._file, batch.schema, self._wanted)
        return self._evolution.apply(batch)


def _joined(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch; nearly always there is one piece."""
    if len(pieces) == 1:
        return pieces[0]
    columns = [pa.concat_arrays([piece.column(at) for piece in pieces]) for at in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
