"""Parquet files into one Parquet file: decode and encode again, batch by batch, in the files' order.

Memory is bounded by one row group, decoded and encoded, whatever the number and size of inputs. PyArrow starts a
row group with every call that writes, so the batches of one are gathered first: a merged file that kept a row group
for each of its inputs would be as slow to read as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import UnreadableFileError
from packstone.rewrite.int96 import find_int96_unit, int96_columns
from packstone.rewrite.parquet_footer import one_line, open_parquet
from packstone.rewrite.parquet_writer import WriterSettings, find_writer_settings, sort_options
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# A reader handles a row group at a time: 128 MiB decoded keeps its memory and the number of groups small.
ROW_GROUP_BYTES = 128 << 20
_MAX_ROW_GROUP_ROWS = 1 << 20
# 8 MiB of decoded rows fit the last-level cache; fewer, longer batches would not be quicker.
_BATCH_BYTES = 8 << 20
_MAX_BATCH_ROWS = 65_536
_PROBED_ROWS = 256


def rewrite_parquet(io: FileIO, paths: Sequence[str], output: str, *, codec: str) -> int:
    """Write the rows of all inputs to the output, in order; return how many there were."""
    unit = "us"
    with open_parquet(io, paths[0]) as first:
        if int96_columns(first):
            unit = find_int96_unit(io, paths)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec, files=len(paths))
    batches = read_ahead(_read_batches(io, paths, unit=unit))
    return _write_groups(io, output, _cut_row_groups(batches), settings=settings)


def decoded_row_bytes(file: pq.ParquetFile, *, known: int) -> int:
    """Estimate the decoded size of a row: from the footer, and from what is known of the files before this one.

    The footer tells encoded sizes, and behind each byte of a dictionary-encoded column may stand a long string. So
    a first file, of which nothing is known, is asked for its first rows.
    """
    metadata = file.metadata
    encoded = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    row_bytes = max(known, encoded // max(1, metadata.num_rows), 1)
    if known or metadata.num_rows <= _PROBED_ROWS:
        return row_bytes
    probed = min(_PROBED_ROWS, batch_rows_for(row_bytes))
    first = next(file.iter_batches(batch_size=probed, use_threads=False), None)
    return row_bytes if first is None else max(row_bytes, first.nbytes // max(1, first.num_rows))


def batch_rows_for(row_bytes: int) -> int:
    """How many rows make a batch that fits the cache."""
    return min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // row_bytes))


def _read_batches(io: FileIO, paths: Sequence[str], *, unit: str) -> Iterator[pa.RecordBatch]:
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
            try:
                row_bytes = decoded_row_bytes(file, known=row_bytes)
                for batch in file.iter_batches(batch_size=batch_rows_for(row_bytes), use_threads=False):
                    row_bytes = max(row_bytes, batch.nbytes // max(1, batch.num_rows))
                    yield batch
            except (pa.ArrowException, OSError) as error:
                raise UnreadableFileError(f"{path} has a broken data page: {one_line(error)}.", file=path) from error


def _cut_row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches until they make a row group, by the bytes they really take."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if size_bytes >= ROW_GROUP_BYTES or rows >= _MAX_ROW_GROUP_ROWS:
            group, waiting, size_bytes, rows = pa.Table.from_batches(waiting), [], 0, 0
            yield group
            del group
    if rows:
        yield pa.Table.from_batches(waiting)


def _write_groups(io: FileIO, output: str, groups: Iterator[pa.Table], *, settings: WriterSettings) -> int:
    rows = 0
    with io.open_output(output) as sink, settings.open_writer(sink) as writer:
        for group in groups:
            rows += group.num_rows
            writer.write_table(_sorted_group(group, settings), row_group_size=group.num_rows)
            del group  # or two would be in memory while the next one is gathered
        if settings.key_values:
            writer.add_key_value_metadata(settings.key_values)
    return rows


def _sorted_group(group: pa.Table, settings: WriterSettings) -> pa.Table:
    """Sort a row group where the inputs claim an order for theirs: the claim stays true."""
    if not settings.sorting:
        return group
    whole = group.combine_chunks()
    return whole.take(pc.sort_indices(whole, options=sort_options(settings)))
