"""Parquet files into one Parquet file: decode and encode again, batch by batch, in the files' order.

Memory is bounded by one decoded batch and one encoded row group, whatever the number and size of inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import UnreadableFileError
from packstone.rewrite.int96 import find_int96_unit, int96_columns
from packstone.rewrite.parquet_footer import one_line, open_parquet
from packstone.rewrite.parquet_writer import WriterSettings, find_writer_settings, sort_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# A reader handles a row group at a time: 128 MiB decoded keeps its memory and the number of groups small.
ROW_GROUP_BYTES = 128 << 20
_MAX_ROW_GROUP_ROWS = 1 << 20
_MIN_ROW_GROUP_ROWS = 1024
# 8 MiB of decoded rows fit the last-level cache; fewer, longer batches would not be quicker.
_BATCH_BYTES = 8 << 20
_MAX_BATCH_ROWS = 65_536
_MIN_BATCH_ROWS = 64


def rewrite_parquet(io: FileIO, paths: Sequence[str], output: str, *, codec: str) -> int:
    """Write the rows of all inputs to the output, in order; return how many there were."""
    unit = "us"
    with open_parquet(io, paths[0]) as first:
        if int96_columns(first):
            unit = find_int96_unit(io, paths)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec)
    batch_rows, group_rows = _row_limits(io, paths)
    batches = _read_batches(io, paths, unit=unit, batch_rows=batch_rows)
    if settings.sorting:
        batches = _sorted_runs(batches, settings, group_rows)
    return _write_batches(io, output, batches, settings=settings, group_rows=group_rows)


def bytes_per_row(metadata: pq.FileMetaData) -> int:
    """Estimate the decoded size of a row from the footer's uncompressed sizes."""
    total = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return max(1, total // max(1, metadata.num_rows))


def batch_rows_for(row_bytes: int) -> int:
    """How many rows make a batch that fits the cache."""
    return min(_MAX_BATCH_ROWS, max(_MIN_BATCH_ROWS, _BATCH_BYTES // row_bytes))


def _row_limits(io: FileIO, paths: Sequence[str]) -> tuple[int, int]:
    """Rows of a batch and of a row group, by the widest rows among the inputs."""
    widest = 1
    for path in paths:
        with open_parquet(io, path) as file:
            widest = max(widest, bytes_per_row(file.metadata))
    group_rows = min(_MAX_ROW_GROUP_ROWS, max(_MIN_ROW_GROUP_ROWS, ROW_GROUP_BYTES // widest))
    return batch_rows_for(widest), group_rows


def _read_batches(io: FileIO, paths: Sequence[str], *, unit: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
            try:
                yield from file.iter_batches(batch_size=batch_rows, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise UnreadableFileError(f"{path} has a broken data page: {one_line(error)}.", file=path) from error


def _write_batches(
    io: FileIO, output: str, batches: Iterator[pa.RecordBatch], *, settings: WriterSettings, group_rows: int
) -> int:
    rows = 0
    with io.open_output(output) as sink, settings.open_writer(sink) as writer:
        for batch in batches:
            rows += batch.num_rows
            writer.write_batch(batch, row_group_size=group_rows)
        if settings.key_values:
            writer.add_key_value_metadata(settings.key_values)
    return rows


def _sorted_runs(batches: Iterator[pa.RecordBatch], settings: WriterSettings, group_rows: int) -> Iterator[Any]:
    """Sort what will be one row group, where the inputs claim an order for theirs: the claim stays true."""
    keys, placement = sort_keys(settings)
    waiting: list[pa.RecordBatch] = []
    waiting_rows = 0

    def release(rows: int) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(waiting)
        head = table.slice(0, rows).combine_chunks()
        order = pc.sort_indices(head, sort_keys=keys, null_placement=placement)
        waiting[:] = table.slice(rows).to_batches()
        yield from head.take(order).combine_chunks().to_batches()

    for batch in batches:
        waiting.append(batch)
        waiting_rows += batch.num_rows
        while waiting_rows >= group_rows:
            yield from release(group_rows)
            waiting_rows -= group_rows
    if waiting_rows:
        yield from release(waiting_rows)
