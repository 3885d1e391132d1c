"""What an open Parquet file holds in memory, beside the batches that were read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_PAGE_BYTES = 256 << 10
_VALUES_BETWEEN_LOOKS = 1024  # a writer looks at the size of a page after so many values, however big they are
_DICTIONARY_BYTES = 1 << 20  # most writers give a bigger one up
_COLUMN_BYTES = 48 << 10  # buffers and a decompressor


def held_bytes(group: pq.RowGroupMetaData) -> int:
    """Estimate it for a file that is read batch by batch and in small buffers; one row group speaks for all.

    Of each column that is a page as it is stored and as it is decoded, and often a dictionary.
    """
    return sum(_column_bytes(group.column(at)) for at in range(group.num_columns))


def _column_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    size_bytes = int(chunk.total_uncompressed_size)
    dictionary = max(_DICTIONARY_BYTES, _dictionary_bytes(chunk)) if chunk.has_dictionary_page else 0
    page = max(_PAGE_BYTES, size_bytes // max(1, chunk.num_values) * _VALUES_BETWEEN_LOOKS)
    return min(2 * size_bytes, dictionary + 2 * page) + _COLUMN_BYTES


def _dictionary_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    """Estimate the size of a decompressed dictionary: the footer states where it begins and where data pages do."""
    stored = max(0, chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset))
    return int(stored * chunk.total_uncompressed_size // max(1, chunk.total_compressed_size))
