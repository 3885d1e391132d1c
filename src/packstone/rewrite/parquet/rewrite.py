"""Parquet files into one Parquet file: decode and encode again, batch by batch, in the files' order.

Memory is bounded by one row group, decoded and encoded, whatever the number and size of inputs. PyArrow starts a
row group with every call that writes, so the batches of one are gathered first: a merged file that kept a row group
for each of its inputs would be as slow to read as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from packstone.rewrite.parquet.batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.parquet.float_statistics import BoundsOfRows
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.int96 import find_int96_unit, int96_columns
from packstone.rewrite.parquet.pandas_note import with_row_count
from packstone.rewrite.parquet.writer import WriterSettings, find_writer_settings, sort_options
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

# A reader handles a row group at a time: 128 MiB decoded keeps its memory and the number of groups small.
ROW_GROUP_BYTES = 128 << 20
MAX_ROW_GROUP_ROWS = 1 << 20


def rewrite_parquet(io: FileIO, paths: Sequence[str], output: str, *, codec: str) -> bool:
    """Write the rows of all inputs to the output; return whether they kept their order (else groups were sorted)."""
    unit = "us"
    with open_parquet(io, paths[0]) as first:
        if int96_columns(first):
            unit = find_int96_unit(io, paths)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec, files=len(paths))
    bounds = BoundsOfRows(settings.schema)
    batches = read_ahead(_read_batches(io, paths, unit=unit, settings=settings, bounds=bounds))
    _write_groups(io, output, _cut_row_groups(batches), settings=settings, bounds=bounds)
    return not settings.sorting


def _read_batches(
    io: FileIO, paths: Sequence[str], *, unit: str, settings: WriterSettings, bounds: BoundsOfRows
) -> Iterator[pa.RecordBatch]:
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
            row_bytes = decoded_row_bytes(io, file, path, known=row_bytes)
            for number in range(file.num_row_groups):  # before its first row is passed on to the writer's thread
                bounds.add(file.metadata.row_group(number))
            for found in read_batches(file, path, batch_rows=batch_rows_for(row_bytes)):
                batch = settings.decode(found)
                row_bytes = max(row_bytes, batch.nbytes // max(1, batch.num_rows))
                yield batch


def _cut_row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches until they make a row group, by the bytes they really take."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if size_bytes >= ROW_GROUP_BYTES or rows >= MAX_ROW_GROUP_ROWS:
            group, waiting, size_bytes, rows = pa.Table.from_batches(waiting), [], 0, 0
            yield group
            del group
    if rows:
        yield pa.Table.from_batches(waiting)


def _write_groups(
    io: FileIO, output: str, groups: Iterator[pa.Table], *, settings: WriterSettings, bounds: BoundsOfRows
) -> None:
    with io.open_output(output) as sink:
        writer, rows = None, 0
        try:
            for found in groups:
                group = _sorted_group(found, settings)
                writer = writer or settings.open_writer(sink, group)
                writer.write(group, inputs=bounds.take(group.num_rows))
                rows += group.num_rows
                del found, group  # or two would be in memory while the next one is gathered
            writer = writer or settings.open_writer(sink, settings.schema.empty_table())
            writer.close(with_row_count(settings.key_values, rows))
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise


def _sorted_group(group: pa.Table, settings: WriterSettings) -> pa.Table:
    """Sort a row group where the inputs claim an order for theirs: the claim stays true."""
    if not settings.sorting:
        return group
    whole = group.combine_chunks()
    return whole.take(pc.sort_indices(whole, options=sort_options(settings)))
