"""Rows of a Parquet data file, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.data_files.key_share import FileShare, KeyBounds, count_below
from packstone.rewrite.data_files.parquet_page_rows import PagedGroup, open_paged
from packstone.rewrite.data_files.parquet_twins import add_twins, find_twins
from packstone.rewrite.parquet.batches import decoded_row_bytes, read_batches
from packstone.rewrite.parquet.expansion import check_expansion
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.int96 import fit_nanoseconds, int96_columns, open_raw_int96, raw_int96

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Many files are open at once: a column chunk is read in such pieces instead of whole.
_BUFFER_BYTES = 128 << 10
_MAX_BATCH_ROWS = 1 << 16


class ParquetRows:
    """An open Parquet file; batches come with the position of their first row."""

    def __init__(
        self, io: FileIO, path: str, columns: list[str], *, widths: RowWidths, coded: Sequence[str] = ()
    ) -> None:
        """Open a file; strings of the columns named as coded come as dictionary arrays."""
        self._io, self._path, self._widths = io, path, widths
        self._source = io.open_input(path)
        self._options = {"buffer_size": _BUFFER_BYTES, "read_dictionary": list(coded)}
        self._file = open_parquet(io, path, **self._options)
        wanted = set(columns)
        self.schema = pa.schema([field for field in self._file.schema_arrow if field.name in wanted])
        fields = set(self.schema.names)
        self._int96 = [path for path in int96_columns(self._file) if {path, path.split(".", 1)[0]} & fields]

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about so many bytes; what is outside the share of keys is left out where that is cheap."""
        metadata = self._file.metadata
        least_bytes = check_expansion(self._io, self._path, self._file)
        row_bytes = self._widths.of(self._io, self._file, self._path, schema=self.schema)
        at = 0
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            ends = None if share is None else _ends_of(metadata.row_group(group), share.column)
            if share is None or ends is None or not share.is_outside(*ends):
                rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // max(row_bytes, least_bytes)))
                cut_by = None if share is None or ends is None or share.is_inside(*ends) else share
                for start, batch in self._group_batches(group, rows, cut_by):
                    row_bytes = self._widths.note(batch)
                    yield at + start, batch
            at += group_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self._source.close()

    def _group_batches(
        self, group: int, batch_rows: int, share: FileShare | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        names = self.schema.names
        twins = find_twins(self._source, self._file, group, schema=self.schema)
        decoded = [name for name in names if name not in twins]
        start = 0
        paged = None if share is None or self._int96 else self._open_paged(group, decoded)
        if paged is not None and share is not None:
            column = twins.get(share.column, share.column)
            start, end = _find_rows(paged, column, share.bounds)
            inside = paged.batches(decoded, (start, end), batch_rows=batch_rows)
            batches = _check_inside(inside, column, share.bounds, path=self._path)
        else:
            batches = read_batches(self._file, self._path, batch_rows=batch_rows, columns=decoded, row_groups=(group,))
        checks = self._raw_int96(group, batch_rows) if self._int96 else None
        for batch in batches:
            if checks is not None:
                _check_no_wrap(next(checks), self._path)
            yield start, add_twins(batch, twins, names)
            start += batch.num_rows

    def _open_paged(self, group: int, columns: list[str]) -> PagedGroup | None:
        return open_paged(
            self._source, self._file, path=self._path, group=group, columns=columns, options=self._options
        )

    def _raw_int96(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """INT96 columns once more, as bytes: nanoseconds wrap silently."""
        with open_raw_int96(self._io, self._path) as file:
            yield from read_batches(file, self._path, batch_rows=rows, columns=self._int96, row_groups=(group,))


class RowWidths:
    """How wide decoded rows are: the first file is asked, the others are like it until they show otherwise."""

    def __init__(self) -> None:
        self._row_bytes = 0

    def of(self, io: FileIO, file: pq.ParquetFile, path: str, *, schema: pa.Schema) -> int:
        """Estimate the width of a row of these columns."""
        if not self._row_bytes:
            whole = decoded_row_bytes(io, file, path, known=0)
            self._row_bytes = max(1, whole * len(schema) // max(1, len(file.schema_arrow)))
        return self._row_bytes

    def note(self, batch: pa.RecordBatch) -> int:
        """Look at real rows; return what is known now."""
        self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
        return self._row_bytes


def _check_no_wrap(raw: pa.RecordBatch, path: str) -> None:
    for name in raw.schema.names:
        if not all(fit_nanoseconds(*both) for both in raw_int96(raw.select([name]))):
            raise UnfaithfulError(
                f"{path}: column {name} holds a time outside 1677-2262, which nanoseconds do not hold"
            )


def _ends_of(group: pq.RowGroupMetaData, name: str) -> tuple[Any, Any] | None:
    """Smallest and largest value of a column by its statistics; None if they do not tell of all values."""
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == name:
            found = column.statistics
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                return None  # nulls come before every value and are in no statistics
            return found.min, found.max
    return None


def _find_rows(paged: PagedGroup, column: str, bounds: KeyBounds) -> tuple[int, int]:
    """Tell which rows of a sorted row group are within the bounds; two tasks find the same row for one bound."""
    lower, upper = bounds.lower, bounds.upper
    start = 0 if lower is None else paged.count_below(column, lambda values: count_below(values, lower))
    end = paged.rows if upper is None else paged.count_below(column, lambda values: count_below(values, upper))
    return start, end


def _check_inside(
    batches: Iterator[pa.RecordBatch], column: str, bounds: KeyBounds, *, path: str
) -> Iterator[pa.RecordBatch]:
    """Rows are taken by their place; one that is there but not within the bounds would be in nobody's share."""
    for batch in batches:
        if bounds.find(batch.column(column)) != (0, batch.num_rows):
            raise UnreadableFileError(f"{path} is not sorted by its key.", file=path)
        yield batch
