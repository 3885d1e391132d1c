"""Read Parquet files with dictionary-encoded strings left as codes: decoding, hashing and ranges each cost a fifth.

Only where nothing has to be done to the rows: no evolved type, no deleted position. Everything else goes the common
way of ``data_files``.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import CorruptionError
from packstone.rewrite.data_files.key_share import share_of
from packstone.rewrite.data_files.parquet_rows import ParquetRows, RowWidths
from packstone.rewrite.data_files.rows import RowFilter, read_rows
from packstone.rewrite.merge.merge_spec import FileFormat, InputFile
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.int96 import int96_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Codes take at most so much of a value, dictionary included: where a writer gave up its dictionary and wrote the
# strings themselves, making one here costs more than it saves.
_CODE_BYTES = 3


def read_coded(
    io: FileIO, file: InputFile, schema: pa.Schema, *, codable: Collection[str], batch_bytes: int, keep: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows; of the columns named, strings may come as dictionary arrays."""
    coded = [] if keep.expiry is not None else _find_coded(io, file, schema, codable=codable)
    if not coded:
        yield from read_rows(io, file, schema, batch_bytes=batch_bytes, keep=keep)
        return
    count = 0
    rows = ParquetRows(io, file.path, schema.names, widths=RowWidths(), coded=coded)
    share = share_of(file, schema, keep.bounds)
    with closing(rows):
        for _, batch in rows.batches(batch_bytes=batch_bytes, share=share):
            count += batch.num_rows
            kept = batch.select(schema.names)
            kept = kept if keep.bounds is None else keep.bounds.cut(kept)
            if kept.num_rows:
                yield kept
    if keep.bounds is None and count != file.rows:
        raise CorruptionError(f"{file.path} holds {count} rows, its metadata say {file.rows}.", file=file.path)


def _find_coded(io: FileIO, file: InputFile, schema: pa.Schema, *, codable: Collection[str]) -> list[str]:
    """Name the columns to be left as codes; none if the rows cannot be taken as they are."""
    wanted = set(schema.names)
    plain = file.file_format is FileFormat.PARQUET and not file.deleted and file.sequence_override is None
    if not plain or any(column.source != column.target for column in file.columns if column.target in wanted):
        return []
    with open_parquet(io, file.path) as parquet:
        found = parquet.schema_arrow
        same = all(found.get_field_index(f.name) >= 0 and found.field(f.name).type == f.type for f in schema)
        if not same or wanted & set(int96_columns(parquet)):
            return []
        return [field.name for field in schema if field.name in codable and is_coded(parquet, field)]


def is_coded(parquet: pq.ParquetFile, field: pa.Field) -> bool:
    """Whether every chunk of a string column is so small that it must be codes."""
    if not (pt.is_string(field.type) or pt.is_binary(field.type)):
        return False
    metadata = parquet.metadata
    at = next((i for i in range(metadata.num_columns) if metadata.schema.column(i).path == field.name), None)
    if at is None:
        return False
    chunks = [metadata.row_group(group).column(at) for group in range(metadata.num_row_groups)]
    return all(
        chunk.has_dictionary_page and chunk.total_uncompressed_size <= _CODE_BYTES * chunk.num_values
        for chunk in chunks
    )
