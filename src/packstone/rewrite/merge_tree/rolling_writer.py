"""Write rows to files that roll at a target size, and collect the facts that metadata records of each file.

Rows are collected into blocks (row groups) first. A block is cut where the file reaches its target, so the size of a
file is within a few percent of it, and consecutive files do not overlap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, UnfaithfulError
from packstone.rewrite.data_files.avro_rows import AvroOutput
from packstone.rewrite.data_files.orc_rows import OrcOutput
from packstone.rewrite.data_files.parquet_output import ParquetOutput, to_plain_value
from packstone.rewrite.merge_tree.cursor import BatchKeys, RowKey
from packstone.rewrite.merge_tree.keys import column_values
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnFacts,
    DataFormat,
    OutputSpec,
    PlainValue,
    WrittenFile,
)

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MAX_BLOCK_ROWS = 1 << 20
_HEADER_BYTES = 64  # fewer bytes contain no rows: ORC writes its magic bytes at once and stripes when they are full
_SLIVER = 20  # less than a twentieth of a block is not worth its own row group at the end of a file


class _Output(Protocol):
    @property
    def written_bytes(self) -> int: ...

    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> tuple[ColumnFacts, ...]: ...

    def abandon(self) -> None: ...


class RollingWriter:
    """Write batches in the order of keys; an append table has no key columns."""

    def __init__(
        self,
        io: FileIO,
        output: OutputSpec,
        *,
        schema: pa.Schema,
        key_columns: Sequence[str],
        name_file: Callable[[int], str],
        row_bytes: float,
    ) -> None:
        self._io, self._output, self._name_file = io, output, name_file
        self._schema, self._key_columns = schema, key_columns
        hidden = frozenset(key_columns) if output.thin else frozenset()
        self._stored = pa.schema([field for field in schema if field.name not in hidden])
        self._row_bytes = max(row_bytes, 0.001)  # of an encoded row: that of the inputs until it is measured
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._open: _OpenFile | None = None
        self._last_key: RowKey | None = None
        self._created: list[str] = []
        self.files: list[WrittenFile] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; a block is written when there are enough."""
        if not batch.num_rows:
            return
        self._check_order(batch)
        self._check_nulls(batch)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_bytes >= self._output.block_bytes or self._waiting_rows >= _MAX_BLOCK_ROWS:
            self._write_block(is_last=False)

    def close(self) -> tuple[WrittenFile, ...]:
        """Write the waiting rows, and close the last file."""
        while self._waiting_rows:
            self._write_block(is_last=True)
        self._end_file()
        return tuple(self.files)

    def abandon(self) -> None:
        """Remove every file that was created: nothing refers to them yet."""
        if self._open is not None:
            self._open.output.abandon()
        for path in self._created:
            self._io.remove(path)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        if not self._key_columns:
            return
        keys = BatchKeys(batch, self._key_columns)
        if self._last_key is not None and not keys.get(0) > self._last_key:
            raise CorruptionError("Sections overlap: a key comes after a larger one; plan again.")
        self._last_key = keys.get(batch.num_rows - 1)

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        """Refuse nulls that an older schema allowed; no format can store them in a NOT NULL column."""
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if not field.nullable and column.null_count:
                raise UnfaithfulError(f"column {field.name} is NOT NULL and holds nulls")

    def _write_block(self, *, is_last: bool) -> None:
        rows = pa.Table.from_batches(self._waiting)
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
        while rows.num_rows:
            room = self._room(rows.num_rows)
            if not room:
                self._end_file()
                continue
            self._write_rows(rows.slice(0, room))
            rows = rows.slice(room)
            if rows.num_rows and not is_last:
                self._waiting = rows.to_batches()
                self._waiting_bytes, self._waiting_rows = rows.nbytes, rows.num_rows
                return

    def _room(self, rows: int) -> int:
        """The number of rows that still fit in the current file; 0 if it is full enough."""
        is_new = self._open is None
        written = 0 if self._open is None else self._open.size_bytes(self._row_bytes)
        fit = int((self._output.target_bytes - written) / self._row_bytes)
        if not is_new and fit * _SLIVER < rows:
            return 0
        return rows if fit >= rows - rows // _SLIVER else max(1, fit)

    def _write_rows(self, rows: pa.Table) -> None:
        if self._open is None:
            name = self._name_file(len(self._created))
            path = f"{self._output.directory}/{name}"
            self._created.append(path)
            self._open = _OpenFile(path, self._open_output(path, rows))
        self._open.write(rows, rows.select(self._stored.names), self._key_columns)
        self._row_bytes = self._open.measured_row_bytes or self._row_bytes

    def _open_output(self, path: str, sample: pa.Table) -> _Output:
        kinds: dict[DataFormat, type[ParquetOutput | OrcOutput | AvroOutput]] = {
            DataFormat.PARQUET: ParquetOutput,
            DataFormat.ORC: OrcOutput,
            DataFormat.AVRO: AvroOutput,
        }
        return kinds[self._output.file_format](self._io, path, schema=self._stored, output=self._output, sample=sample)

    def _end_file(self) -> None:
        if self._open is None:
            return
        written = self._open.close()
        self._io.sync_file(written.path)
        found = self._io.stat(written.path)
        if found is None:
            raise CorruptionError(f"{written.path} does not exist after it was written.", file=written.path)
        self.files.append(dataclasses.replace(written, size_bytes=found.size_bytes))
        self._row_bytes = found.size_bytes / max(1, written.rows)
        self._open = None


class _OpenFile:
    """The file being written, with the facts collected so far."""

    def __init__(self, path: str, output: _Output) -> None:
        self.path, self.output = path, output
        self._rows = self._rows_on_disk = self._delete_rows = 0
        self._bytes_on_disk = 0
        self._first_key: tuple[PlainValue, ...] = ()
        self._last_key: tuple[PlainValue, ...] = ()
        self._min_sequence, self._max_sequence = 2**63 - 1, -(2**63)

    def write(self, rows: pa.Table, stored: pa.Table, key_columns: Sequence[str]) -> None:
        self.output.write(stored)
        if key_columns:
            if not self._rows:
                self._first_key = tuple(to_plain_value(rows.column(name)[0]) for name in key_columns)
            self._last_key = tuple(to_plain_value(rows.column(name)[-1]) for name in key_columns)
            self._note_system_columns(rows)
        self._rows += rows.num_rows
        if (size := self.output.written_bytes) > self._bytes_on_disk + _HEADER_BYTES:
            self._bytes_on_disk, self._rows_on_disk = size, self._rows

    @property
    def measured_row_bytes(self) -> float:
        """Bytes of a row on disk; 0 while no row is on disk."""
        return self._bytes_on_disk / self._rows_on_disk if self._rows_on_disk else 0.0

    def size_bytes(self, row_bytes: float) -> int:
        """The current size; rows that the writer still buffers are estimated."""
        return self._bytes_on_disk + int((self._rows - self._rows_on_disk) * row_bytes)

    def close(self) -> WrittenFile:
        columns = self.output.close()
        has_keys = bool(self._first_key)
        return WrittenFile(
            path=self.path,
            size_bytes=0,
            rows=self._rows,
            first_key=self._first_key,
            last_key=self._last_key,
            min_sequence=self._min_sequence if has_keys else 0,
            max_sequence=self._max_sequence if has_keys else 0,
            delete_rows=self._delete_rows,
            columns=columns,
        )

    def _note_system_columns(self, rows: pa.Table) -> None:
        for chunk in rows.column(SEQUENCE_COLUMN).chunks:
            values = column_values(chunk, np.dtype(np.int64))
            if len(values):
                self._min_sequence = min(self._min_sequence, int(values.min()))
                self._max_sequence = max(self._max_sequence, int(values.max()))
        for chunk in rows.column(KIND_COLUMN).chunks:
            self._delete_rows += int(np.count_nonzero(column_values(chunk, np.dtype(np.int8)) & 1))
