"""Rows of one Parquet file in the schema of a table, in batches of bounded size, or those of a share of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.inputs.conform_batch import conform
from packstone.rewrite.merge.run_cursor import Piece
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.ordered.block_facts import leaf_numbers
from packstone.rewrite.ordered.ordered_range import OrderedRange
from packstone.rewrite.ordered.ordered_spec import OrderedFile
from packstone.rewrite.ordered.ordered_window import check_sorted
from packstone.rewrite.parquet.batches import read_batches
from packstone.rewrite.parquet.footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Many files are open at once: a column chunk is read in such pieces instead of whole.
_BUFFER_BYTES = 128 << 10
_MAX_BATCH_ROWS = 1 << 16
_PROBED_ROWS = 16


class OrderedReader:
    """Reads the files of one task; what it learns of the width of rows in one file serves for the next."""

    def __init__(self, io: FileIO, schema: pa.Schema, *, key_range: OrderedRange | None = None) -> None:
        self._io, self._schema, self._range = io, schema, key_range
        self._row_bytes = 0

    def read(self, file: OrderedFile, *, batch_bytes: int, is_sorted: bool) -> Iterator[Piece]:
        """Yield the rows; never an empty batch.

        Whatever their order, the rows of the share are all found: row groups are left out by their statistics only,
        and reading never stops early. A batch that is cut must be sorted if the file is said to be.
        """
        read = 0
        with open_parquet(self._io, file.path, buffer_size=_BUFFER_BYTES) as parquet:
            self._check_size(file)
            self._check_columns(parquet, file.path)
            for group in range(parquet.metadata.num_row_groups):
                if self._leaves_out(parquet, group):
                    read += parquet.metadata.row_group(group).num_rows
                    continue
                for batch in self._read_group(parquet, file.path, group=group, batch_bytes=batch_bytes):
                    read += batch.num_rows
                    piece = self._cut(Piece(batch=batch, path=file.path), is_sorted=is_sorted)
                    if piece.batch.num_rows:
                        yield piece
        if read != file.rows:
            raise CorruptionError(f"{file.path} holds {read} rows, its metadata say {file.rows}.", file=file.path)

    def _read_group(
        self, parquet: pq.ParquetFile, path: str, *, group: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        metadata = parquet.metadata.row_group(group)
        encoded = metadata.total_byte_size // max(1, metadata.num_rows)
        if not self._row_bytes:
            # Behind each byte of a dictionary-encoded column may stand a long string.
            probe = next(
                read_batches(parquet, path, batch_rows=_PROBED_ROWS, columns=self._schema.names, row_groups=(group,)),
                None,
            )
            self._row_bytes = 1 if probe is None else max(1, probe.nbytes // max(1, probe.num_rows))
        width = max(self._row_bytes, encoded)
        rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // width))
        for batch in read_batches(parquet, path, batch_rows=rows, columns=self._schema.names, row_groups=(group,)):
            self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
            try:
                yield conform(batch, self._schema)
            except InvalidInputError as error:
                raise CorruptionError(f"{path}: {error.message}", file=path) from error

    def _cut(self, piece: Piece, *, is_sorted: bool) -> Piece:
        if self._range is None:
            return piece
        inside = self._range.find_inside(piece.batch)
        if inside.all():
            return piece
        if is_sorted and inside.any():
            check_sorted(piece, [self._range.column])
        return Piece(batch=piece.batch.filter(to_column(inside)), path=piece.path)

    def _leaves_out(self, parquet: pq.ParquetFile, group: int) -> bool:
        if self._range is None:
            return False
        leaf = leaf_numbers(parquet.schema_arrow)[self._range.column]
        return self._range.leaves_out(parquet.metadata.row_group(group), leaf)

    def _check_size(self, file: OrderedFile) -> None:
        """A file is never changed once it is written: one of another size is another file."""
        found = self._io.stat(file.path)
        if found is not None and found.size_bytes != file.size_bytes:
            raise CorruptionError(
                f"{file.path} has {found.size_bytes} bytes, its metadata say {file.size_bytes}.", file=file.path
            )

    def _check_columns(self, parquet: pq.ParquetFile, path: str) -> None:
        missing = [name for name in self._schema.names if parquet.schema_arrow.get_field_index(name) < 0]
        if missing:
            raise CorruptionError(f"{path} has no column {', '.join(missing)}.", file=path)
