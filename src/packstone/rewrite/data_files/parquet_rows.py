"""Rows of a Parquet data file, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError
from packstone.rewrite.int96 import int96_columns
from packstone.rewrite.parquet_batches import decoded_row_bytes, read_batches
from packstone.rewrite.parquet_footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Many files are open at once: a column chunk is read in such pieces instead of whole.
_BUFFER_BYTES = 128 << 10
_MAX_BATCH_ROWS = 1 << 16
_NS_LIMIT_US = (2**63 - 1) // 1000


class ParquetRows:
    """An open Parquet file; batches come with the position of their first row."""

    def __init__(self, io: FileIO, path: str, columns: list[str]) -> None:
        self._io, self._path = io, path
        self._file = open_parquet(io, path, buffer_size=_BUFFER_BYTES)
        names = self._file.schema_arrow.names
        self._columns = None if set(columns) >= set(names) else [name for name in names if name in set(columns)]
        self.schema = _picked(self._file.schema_arrow, self._columns)
        self._int96 = [name for name in int96_columns(self._file) if self.schema.get_field_index(name) >= 0]

    def batches(
        self, *, batch_bytes: int, skip: Callable[[Any, Any], bool] | None = None, skip_on: str = ""
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about so many bytes; row groups whose smallest and largest value are to be skipped are."""
        metadata = self._file.metadata
        row_bytes = self._row_bytes()
        at = 0
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            if skip is None or not _skips(metadata.row_group(group), skip, skip_on):
                rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // row_bytes))
                for start, batch in self._group_batches(group, rows):
                    row_bytes = max(row_bytes, batch.nbytes // max(1, batch.num_rows))
                    yield at + start, batch
            at += group_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)

    def _row_bytes(self) -> int:
        whole = decoded_row_bytes(self._file, self._path, known=0)
        if self._columns is None:
            return whole
        share = len(self._columns) / max(1, len(self._file.schema_arrow.names))
        return max(1, int(whole * share))

    def _group_batches(self, group: int, rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        start = 0
        checks = self._microseconds(group, rows) if self._int96 else None
        for batch in read_batches(self._file, self._path, batch_rows=rows, columns=self._columns, row_groups=(group,)):
            if checks is not None:
                _check_no_wrap(next(checks), self._path)
            yield start, batch
            start += batch.num_rows

    def _microseconds(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """INT96 columns once more, in a unit in which every date fits: nanoseconds wrap silently."""
        with open_parquet(self._io, self._path, coerce_int96_timestamp_unit="us") as file:
            yield from read_batches(file, self._path, batch_rows=rows, columns=self._int96, row_groups=(group,))


def _picked(schema: pa.Schema, columns: list[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _check_no_wrap(micros: pa.RecordBatch, path: str) -> None:
    for name in micros.schema.names:
        column = micros.column(name)
        if not pt.is_timestamp(column.type):
            continue
        values = column.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        if values.size and int(np.abs(values).max()) > _NS_LIMIT_US:
            raise UnfaithfulError(f"{path}: column {name} holds a time outside 1677-2262 with nanoseconds")


def _skips(group: pq.RowGroupMetaData, skip: Callable[[Any, Any], bool], name: str) -> bool:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == name:
            found = column.statistics
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                return False  # nulls come before every value and are in no statistics
            return skip(found.min, found.max)
    return False
