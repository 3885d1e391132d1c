"""Write rows to Parquet files of whole blocks: row groups of equal row counts, files that roll at a target size.

A file ends with the row group that brings it nearest to the target, so that only the very last row group is small. A
single row group that is bigger than the target is cut: the configured target asks for small files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import CorruptionError
from packstone.rewrite.data_files.parquet_output import writer_options
from packstone.rewrite.formats.parquet_checks import digest_footer
from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
from packstone.rewrite.formats.parquet_writer import can_write
from packstone.rewrite.merge_tree.cursor import BatchKeys, RowKey
from packstone.rewrite.sorted_merge.block_facts import (
    PartBuilder,
    bloom_checksum,
    leaf_numbers,
    page_index_checksum,
)
from packstone.rewrite.sorted_merge.spec import BlockOutput, WrittenBlockFile
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_TAIL_BYTES = 8  # the footer's length and the magic
_PIECES = 4  # a batch of more than a quarter of a block is added in pieces
# Small pages make a fine-grained page index, and allow many files to be open at the same time in a merge.
_PAGE_BYTES = 256 << 10
_PAGE_ROWS = 20_000
_VALUES_BETWEEN_CHECKS = 1024  # PyArrow's default
_ENCODED_PCT = 30  # of a decoded row, an estimate until the first row group is written


class BlockWriter:
    """Write batches in the order of the sort columns, if there are any."""

    def __init__(
        self,
        io: FileIO,
        output: BlockOutput,
        *,
        schema: pa.Schema,
        name_file: Callable[[int], str],
        row_bytes: float = 0.0,
    ) -> None:
        self._io, self._output, self._schema, self._name_file = io, output, schema, name_file
        self._row_bytes = row_bytes  # of an encoded row: the caller's estimate until it is measured
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._open: _OpenFile | None = None
        self._last_key: RowKey | None = None
        self._created: list[str] = []
        self._files: list[WrittenBlockFile] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; a row group is written when there are enough."""
        if not batch.num_rows:
            return
        self._check_order(batch)
        self.rows += batch.num_rows
        pieces = -(-batch.nbytes * _PIECES // max(1, self._output.block_bytes))
        step = max(1, batch.num_rows // pieces) if pieces > 1 else batch.num_rows
        for start in range(0, batch.num_rows, step):
            self._take(batch.slice(start, step))

    def close(self) -> tuple[WrittenBlockFile, ...]:
        """Write the waiting rows, and close the last file."""
        while self._waiting_rows:
            self._write_block()
        self._end_file()
        return tuple(self._files)

    def abandon(self) -> None:
        """Remove every file that was created: nothing refers to them yet."""
        if self._open is not None:
            self._open.abandon()
            self._open = None
        for path in self._created:
            self._io.remove(path)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        if not self._output.sort_columns:
            return
        ends = [BatchKeys(batch.slice(at, 1), self._output.sort_columns).get(0) for at in (0, batch.num_rows - 1)]
        if self._last_key is not None and ends[0] < self._last_key:
            raise CorruptionError("A row comes after a larger one: sections overlap; plan again.")
        self._last_key = ends[1]

    def _take(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        while self._waiting_rows >= self._output.block_rows or self._waiting_bytes >= self._output.block_bytes:
            self._write_block()

    def _write_block(self) -> None:
        """Write a row group of the waiting rows; the excess rows keep waiting."""
        rows = pa.Table.from_batches(self._waiting, schema=self._schema)
        if not self._row_bytes:
            self._row_bytes = max(0.001, rows.nbytes * _ENCODED_PCT / 100 / rows.num_rows)
        count = self._fitting(min(rows.num_rows, self._output.block_rows))
        block, rest = rows.slice(0, count), rows.slice(count)
        self._waiting = rest.to_batches()
        self._waiting_rows, self._waiting_bytes = rest.num_rows, rest.nbytes
        if self._open is None:
            path = f"{self._output.directory}/{self._name_file(len(self._created))}"
            self._created.append(path)
            self._open = _OpenFile(self._io, path, output=self._output, schema=self._schema, sample=block)
        self._open.write(block)
        self._row_bytes = max(0.001, self._open.written_bytes / self._open.rows)

    def _fitting(self, rows: int) -> int:
        """The number of rows of the next row group, in this file or, if it is full enough, in the next."""
        target, row_bytes = self._output.target_bytes, self._row_bytes
        if self._open is not None and self._open.written_bytes + rows * row_bytes / 2 > target:
            self._end_file()
        if self._open is None and rows * row_bytes > target:
            return max(1, int(target / row_bytes))
        return rows

    def _end_file(self) -> None:
        if self._open is None:
            return
        ended, self._open = self._open, None
        try:
            part, facts = ended.close()
        except BaseException:
            ended.abandon()
            raise
        self._io.sync_file(ended.path)
        found = self._io.stat(ended.path)
        if found is None:
            raise CorruptionError(f"{ended.path} does not exist after it was written.", file=ended.path)
        self._files.append(
            WrittenBlockFile(
                path=ended.path,
                size_bytes=found.size_bytes,
                rows=ended.rows,
                part=part,
                bloom_crc=facts.bloom_crc,
                page_index_crc=facts.page_index_crc,
                footer_digest=facts.footer_digest,
            )
        )


class _OpenFile:
    """The file being written."""

    def __init__(self, io: FileIO, path: str, *, output: BlockOutput, schema: pa.Schema, sample: pa.Table) -> None:
        self.path, self.rows = path, 0
        self._part = PartBuilder(schema, output.sort_columns)
        self._sink = io.open_output(path)
        self._last = _LastWrite(self._sink)
        leaves = leaf_numbers(schema)
        sorting = [pq.SortingColumn(leaves[name], nulls_first=True) for name in output.sort_columns]
        options = writer_options(schema, output, sample) | {
            "write_page_index": True,
            "data_page_size": _PAGE_BYTES,
            "write_batch_size": _values_between_checks(sample),
            "sorting_columns": sorting or None,
        }
        if can_write("max_rows_per_page"):
            options["max_rows_per_page"] = _PAGE_ROWS
        if can_write("write_page_checksum"):  # else a bit flip on disk would be merged as a value
            options["write_page_checksum"] = True
        if output.bloom_columns and can_write("bloom_filter_options"):
            # The first row group is the largest.
            one = {"ndv": sample.num_rows, "fpp": output.bloom_fpp}
            options["bloom_filter_options"] = dict.fromkeys(output.bloom_columns, one)
        try:
            self._writer = ParquetFileWriter(self._last, schema, options=options)
        except BaseException:
            abandon_output(self._sink)
            raise

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows)
        self._part.add(rows)
        self.rows += rows.num_rows

    def close(self) -> tuple[bytes, _TailFacts]:
        footer = self._writer.close()
        facts = _TailFacts.of(self._last.data, footer, end=int(self._sink.tell()))
        self._sink.close()
        return self._part.finish(footer), facts

    def abandon(self) -> None:
        """Close the file and discard its content."""
        self._writer.abandon()
        abandon_output(self._sink)


class _LastWrite:
    """The open file, which keeps the last write: ``ParquetFileWriter`` writes all that follows the pages at once."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data = data
        self._sink.write(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TailFacts:
    """Checksums of the parts of a file that have none of their own: bloom filters, page indexes, footer."""

    bloom_crc: int
    page_index_crc: int
    footer_digest: str

    @classmethod
    def of(cls, tail: bytes, metadata: pq.FileMetaData, *, end: int) -> _TailFacts:
        """Compute them from the last bytes of a file of ``end`` bytes; nothing is read."""
        source = _Tail(tail, end - len(tail))
        length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
        begin = end - _TAIL_BYTES - length
        footer = source.read_at(length, begin)
        return cls(
            bloom_crc=bloom_checksum(source, metadata),
            page_index_crc=page_index_checksum(source, metadata, footer_begin=begin),
            footer_digest=digest_footer(footer, begin).hex(),
        )


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last bytes of a file, read by their offsets in the file."""

    data: bytes
    begin: int

    def read_at(self, count: int, offset: int) -> bytes:
        first = offset - self.begin
        if first < 0:
            raise CorruptionError("Pages of the file were written after its bloom filters.")
        return self.data[first : first + count]


def _values_between_checks(sample: pa.Table) -> int:
    """The number of values after which PyArrow checks the size of a page or dictionary; fewer if values are big."""
    widest = max((column.nbytes for column in sample.columns), default=0) // max(1, sample.num_rows)
    return min(_VALUES_BETWEEN_CHECKS, max(1, _PAGE_BYTES // max(1, widest)))
