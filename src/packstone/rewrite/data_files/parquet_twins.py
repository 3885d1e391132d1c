"""Columns of a row group that are equal, byte for byte: of such twins only one is decoded.

A merge-tree file stores its key twice, as key columns and among the value columns. Where the writer encoded both alike,
their column chunks are the same bytes, which is quickly compared, and proves that they decode to the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

_COMPARED_BYTES = 1 << 20


def find_twins(source: Any, file: pq.ParquetFile, group: int, *, schema: pa.Schema) -> dict[str, str]:  # noqa: ANN401
    """Map each column that has a twin before it to that one; nested columns are left alone."""
    metadata = file.metadata.row_group(group)
    firsts: dict[tuple[object, ...], list[tuple[str, pq.ColumnChunkMetaData]]] = {}
    twins: dict[str, str] = {}
    paths = [metadata.column(at).path_in_schema for at in range(metadata.num_columns)]
    for at in range(metadata.num_columns):
        chunk = metadata.column(at)
        name = chunk.path_in_schema
        if schema.get_field_index(name) < 0 or paths.count(name) > 1:
            continue  # nested, not wanted, or a name with dots that a nested column has too
        column = file.schema.column(at)
        alike = firsts.setdefault(
            (
                schema.field(name).type,
                chunk.physical_type,
                column.max_definition_level,
                chunk.compression,
                chunk.total_compressed_size,
                chunk.total_uncompressed_size,
            ),
            [],
        )
        same = next((first for first, other in alike if _same_bytes(source, chunk, other)), None)
        if same is None:
            alike.append((name, chunk))
        else:
            twins[name] = same
    return twins


def add_twins(batch: pa.RecordBatch, twins: dict[str, str], names: Sequence[str]) -> pa.RecordBatch:
    """Put the columns that were not decoded beside their twins, all in their order."""
    if not twins and batch.schema.names == list(names):
        return batch
    arrays = [batch.column(twins.get(name, name)) for name in names]
    return type(batch).from_arrays(arrays, names=list(names))


def _same_bytes(source: Any, one: pq.ColumnChunkMetaData, other: pq.ColumnChunkMetaData) -> bool:  # noqa: ANN401
    start, other_start = _start(one), _start(other)
    size = one.total_compressed_size
    for at in range(0, size, _COMPARED_BYTES):
        count = min(_COMPARED_BYTES, size - at)
        if source.read_at(count, start + at) != source.read_at(count, other_start + at):
            return False
    return True


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the first page is: a dictionary comes before the data, and some writers state 0 for none."""
    offset = chunk.dictionary_page_offset
    return int(min(offset, chunk.data_page_offset) if offset else chunk.data_page_offset)
