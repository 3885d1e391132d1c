"""Decode a Parquet file in batches of bounded size, and name it if that cannot be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import UnfaithfulError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.parquet.expansion import check_expansion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# 8 MiB of decoded rows fit the last-level cache; fewer, longer batches would not be quicker.
_BATCH_BYTES = 8 << 20
_MAX_BATCH_ROWS = 65_536
_PROBED_ROWS = 256


def read_batches(
    file: pq.ParquetFile,
    path: str,
    *,
    batch_rows: int,
    columns: list[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one row group after the other: PyArrow has no batch of nested dictionaries over two of them."""
    with blame_file(path, "has a broken data page"):
        try:
            for group in range(file.num_row_groups) if row_groups is None else row_groups:
                yield from file.iter_batches(
                    batch_size=batch_rows, row_groups=[group], columns=columns, use_threads=False
                )
        except pa.ArrowNotImplementedError as error:
            raise UnfaithfulError(f"PyArrow cannot read {path}: {one_line(error)}") from error


def decoded_row_bytes(io: FileIO, file: pq.ParquetFile, path: str, *, known: int) -> int:
    """Estimate the decoded size of a row: from the footer, and from what is known of the files before this one.

    The footer tells encoded sizes, and behind each byte of a dictionary-encoded column may stand a long string. So
    a first file, of which nothing is known, is asked for its first rows. UnfaithfulError if decoding takes too much.
    """
    before, known = known, max(known, check_expansion(io, path, file))
    metadata = file.metadata
    encoded = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    row_bytes = max(known, encoded // max(1, metadata.num_rows), 1)
    if before or metadata.num_rows <= _PROBED_ROWS:
        return row_bytes
    probed = min(_PROBED_ROWS, batch_rows_for(row_bytes))
    first = next(read_batches(file, path, batch_rows=probed), None)
    return row_bytes if first is None else max(row_bytes, first.nbytes // max(1, first.num_rows))


def batch_rows_for(row_bytes: int) -> int:
    """How many rows make a batch that fits the cache."""
    return min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // row_bytes))
