"""Rows of a Parquet data file, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError
from packstone.rewrite.data_files.parquet_twins import add_twins, find_twins
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

    def __init__(self, io: FileIO, path: str, columns: list[str], *, widths: RowWidths) -> None:
        self._io, self._path, self._widths = io, path, widths
        self._source = io.open_input(path)
        self._file = open_parquet(io, path, buffer_size=_BUFFER_BYTES)
        wanted = set(columns)
        self.schema = pa.schema([field for field in self._file.schema_arrow if field.name in wanted])
        self._int96 = [name for name in int96_columns(self._file) if self.schema.get_field_index(name) >= 0]

    def batches(
        self, *, batch_bytes: int, skip: Callable[[Any, Any], bool] | None = None, skip_on: str = ""
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about so many bytes; row groups whose smallest and largest value are to be skipped are."""
        metadata = self._file.metadata
        row_bytes = self._widths.of(self._file, self._path, self.schema)
        at = 0
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            if skip is None or not _skips(metadata.row_group(group), skip, skip_on):
                rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // row_bytes))
                for start, batch in self._group_batches(group, rows):
                    row_bytes = self._widths.note(batch)
                    yield at + start, batch
            at += group_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self._source.close()

    def _group_batches(self, group: int, rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        start = 0
        checks = self._microseconds(group, rows) if self._int96 else None
        names = self.schema.names
        twins = find_twins(self._source, self._file, group, schema=self.schema)
        decoded = [name for name in names if name not in twins]
        for batch in read_batches(self._file, self._path, batch_rows=rows, columns=decoded, row_groups=(group,)):
            if checks is not None:
                _check_no_wrap(next(checks), self._path)
            yield start, add_twins(batch, twins, names)
            start += batch.num_rows

    def _microseconds(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """INT96 columns once more, in a unit in which every date fits: nanoseconds wrap silently."""
        with open_parquet(self._io, self._path, coerce_int96_timestamp_unit="us") as file:
            yield from read_batches(file, self._path, batch_rows=rows, columns=self._int96, row_groups=(group,))


class RowWidths:
    """How wide decoded rows are: the first file is asked, the others are like it until they show otherwise."""

    def __init__(self) -> None:
        self._row_bytes = 0

    def of(self, file: pq.ParquetFile, path: str, schema: pa.Schema) -> int:
        """Estimate the width of a row of these columns."""
        if not self._row_bytes:
            whole = decoded_row_bytes(file, path, known=0)
            self._row_bytes = max(1, whole * len(schema) // max(1, len(file.schema_arrow)))
        return self._row_bytes

    def note(self, batch: pa.RecordBatch) -> int:
        """Look at real rows; return what is known now."""
        self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
        return self._row_bytes


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
