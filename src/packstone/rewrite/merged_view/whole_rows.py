"""Rows of Parquet files row group by row group, strings as codes where the file has them so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from packstone.errors import VerificationError
from packstone.rewrite.merged_view.check_shape import check_columns
from packstone.rewrite.merged_view.coded_rows import is_coded
from packstone.rewrite.merged_view.key_share import KeyShare
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.ordered.block_facts import read_part
from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile
from packstone.rewrite.parquet.batches import read_batches
from packstone.rewrite.parquet.footer import open_parquet, sorting_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

_READ_SHARE = 16  # of the memory, a batch; some are decoded ahead
_MOST_BATCH_BYTES = 8 << 20
_MOST_BATCH_ROWS = 1 << 16
_PROBED_ROWS = 16
_BUFFER_BYTES = 128 << 10


class WholeRows:
    """Reads files of one schema, or of one share of the keys what row groups may hold of it."""

    def __init__(
        self,
        io: FileIO,
        schema: pa.Schema,
        *,
        memory_bytes: int,
        share: KeyShare | None = None,
        plain: Collection[str] = (),
    ) -> None:
        self._io, self._schema, self._share = io, schema, share
        self._plain = {*plain, *([share.column] if share is not None else ())}
        self._batch_bytes = min(_MOST_BATCH_BYTES, max(1, memory_bytes // _READ_SHARE))
        self._row_bytes = 0
        self.left_out_rows = 0  # of the file that was read last

    def read(self, path: str) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches, each with the number of its row group."""
        self.left_out_rows = 0
        with open_parquet(self._io, path) as parquet:
            coded = [f.name for f in self._schema if f.name not in self._plain and is_coded(parquet, f)]
        with open_parquet(self._io, path, read_dictionary=coded, buffer_size=_BUFFER_BYTES) as parquet:
            for group in range(parquet.metadata.num_row_groups):
                metadata = parquet.metadata.row_group(group)
                if self._share is not None and not self._share.may_hold(_chunk(metadata, self._share.column)):
                    self.left_out_rows += metadata.num_rows
                    continue
                for batch in self._read_group(parquet, path, group):
                    self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
                    yield group, batch.select(self._schema.names)

    def inside(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the rows of the share."""
        if self._share is None:
            return batch
        kept = self._share.is_inside(batch.column(self._share.column))
        return batch if kept.all() else batch.filter(to_column(kept))

    def check_file(self, file: WrittenBlockFile, schema: pa.Schema, *, sort_columns: Sequence[str]) -> None:
        """Raise unless the file has the size, columns and stated order it should have."""
        found = self._io.stat(file.path)
        if found is None or found.size_bytes != file.size_bytes:
            size = "is gone" if found is None else f"has {found.size_bytes} bytes"
            raise VerificationError(f"{file.path} {size}, but {file.size_bytes} were recorded.", file=file.path)
        with open_parquet(self._io, file.path) as parquet:
            if parquet.metadata.num_rows != file.rows:
                raise VerificationError(
                    f"{file.path} has {parquet.metadata.num_rows} rows, but {file.rows} were recorded.", file=file.path
                )
            check_columns(parquet, file.path, list(schema))
            _check_places(parquet.metadata, file)
            paths = [parquet.metadata.schema.column(at).path for at, _, _ in sorting_of(parquet.metadata)]
            if paths != list(sort_columns):
                raise VerificationError(f"{file.path} states an order by {paths}, not {sort_columns}.", file=file.path)

    def _read_group(self, parquet: pq.ParquetFile, path: str, group: int) -> Iterator[pa.RecordBatch]:
        columns, groups = self._schema.names, (group,)
        if not self._row_bytes:
            probe = next(read_batches(parquet, path, batch_rows=_PROBED_ROWS, columns=columns, row_groups=groups), None)
            self._row_bytes = 1 if probe is None else max(1, probe.nbytes // max(1, probe.num_rows))
        metadata = parquet.metadata.row_group(group)
        encoded = metadata.total_byte_size // max(1, metadata.num_rows)
        # Of few columns the whole row's width says nothing.
        width = max(self._row_bytes, encoded if len(columns) == len(parquet.schema_arrow) else 1)
        rows = min(_MOST_BATCH_ROWS, max(1, self._batch_bytes // width))
        yield from read_batches(parquet, path, batch_rows=rows, columns=columns, row_groups=groups)


def _check_places(footer: pq.FileMetaData, file: WrittenBlockFile) -> None:
    part = read_part(file.part)
    recorded = list(zip(part.column("size_bytes").to_pylist(), part.column("offset").to_pylist(), strict=True))
    found = []
    for at in range(footer.num_row_groups):
        chunks = [footer.row_group(at).column(leaf) for leaf in range(footer.num_columns)]
        first = chunks[0].dictionary_page_offset or chunks[0].data_page_offset  # the first page of the first column
        found.append((sum(chunk.total_compressed_size for chunk in chunks), first))
    if found != recorded:
        raise VerificationError(f"{file.path}: sizes and offsets of row groups are not those recorded.", file=file.path)


def _chunk(group: pq.RowGroupMetaData, column: str) -> pq.ColumnChunkMetaData:
    return next(chunk for at in range(group.num_columns) if (chunk := group.column(at)).path_in_schema == column)
