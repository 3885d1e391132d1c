"""Merge sorted files into sorted files, all rows kept: section by section, window by window, in bounded memory.

Files that are not sorted are sorted first, with what does not fit in memory on local disk, and then merged with the
others. A run may go through several sections, which follow each other, so the runs of all sections are laid end to end
for that. Without sort columns the rows of all files come one behind the other.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from packstone.rewrite.merge.merge_spec import unpack_schema
from packstone.rewrite.merge.run_cursor import Piece, RunCursor
from packstone.rewrite.ordered.block_writer import BlockWriter
from packstone.rewrite.ordered.ordered_memory import share_runs
from packstone.rewrite.ordered.ordered_range import OrderedRange
from packstone.rewrite.ordered.ordered_rows import OrderedReader
from packstone.rewrite.ordered.ordered_spec import (
    BlockOutput,
    OrderedFile,
    OrderedMergeSpec,
    OrderedResult,
    OrderedSection,
)
from packstone.rewrite.ordered.ordered_window import check_order, merge_cursors
from packstone.rewrite.ordered.row_sorter import RowSorter
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.write_all import write_all

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.storage.fileio import FileIO

_BATCH_BYTES = 4 << 20  # of files that are read alone
_BLOCK_SHARE = 0.2  # of the memory, the rows of a row group while it is gathered
_ENCODING_RATIO = 0.5  # of those rows, their pages and dictionaries, which stay until the row group is written
_DECODED_RATIO = 1.5  # decoded bytes of a row for each byte of its pages, a guess


def merge_ordered(
    io: FileIO, spec: OrderedMergeSpec, *, name_file: Callable[[int], str], temp_folder: str | None = None
) -> OrderedResult:
    """Write the rows of all inputs in order; on any error, nothing stays behind.

    ``name_file`` is asked for the name of the n-th file before it is created, so that the caller can note it.
    """
    began = time.perf_counter()
    merge = _Merge.of(io, spec, temp_folder=temp_folder)
    writer = BlockWriter(io, merge.output(), schema=merge.schema, name_file=name_file, row_bytes=_row_bytes(spec.files))
    with closing(merge.batches()) as batches:
        files, write_seconds = write_all(writer, batches)
    seconds = time.perf_counter() - began
    return OrderedResult(
        files=files,
        rows_in=merge.reading.rows,
        rows_out=writer.rows,
        read_seconds=merge.reading.seconds,
        merge_seconds=max(0.0, seconds - merge.reading.seconds - write_seconds),
        write_seconds=write_seconds,
    )


class _Reading:
    """Rows and seconds of all reading."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0

    def timed(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        while True:
            began = time.perf_counter()
            piece = next(pieces, None)
            self.seconds += time.perf_counter() - began
            if piece is None:
                return
            self.rows += piece.batch.num_rows
            yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    io: FileIO
    spec: OrderedMergeSpec
    schema: pa.Schema
    reader: OrderedReader
    reading: _Reading
    temp_folder: str | None

    @classmethod
    def of(cls, io: FileIO, spec: OrderedMergeSpec, *, temp_folder: str | None) -> _Merge:
        schema = unpack_schema(spec.arrow_schema)
        bounds = OrderedRange.of(schema.field(spec.sort_columns[0]), spec.key_range) if spec.sort_columns else None
        reader = OrderedReader(io, schema, key_range=bounds)
        return cls(io=io, spec=spec, schema=schema, reader=reader, reading=_Reading(), temp_folder=temp_folder)

    def output(self) -> BlockOutput:
        """How files are written: a row group must fit its share of the memory."""
        output = dataclasses.replace(self.spec.output, sort_columns=self.spec.sort_columns)
        limit = max(1, int(self.spec.memory_bytes * _BLOCK_SHARE))
        return dataclasses.replace(output, block_bytes=min(output.block_bytes, limit))

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of all inputs in order."""
        if not self.spec.sort_columns:
            for file in self.spec.files:
                for piece in self._read((file,), _BATCH_BYTES):
                    yield piece.batch
        elif self.spec.unsorted:
            yield from self._merge_all()
        else:
            for section in self.spec.sections:
                with ExitStack() as stack:
                    yield from self._merge_runs(section, None, stack=stack)

    def _merge_all(self) -> Iterator[pa.RecordBatch]:
        """Sort what is not sorted, and merge it with the runs of all sections."""
        runs = tuple(
            tuple(file for run in end_to_end for file in run)
            for end_to_end in zip_longest(*self.spec.sections, fillvalue=())
        )
        unsorted = (piece.batch for piece in self._read(self.spec.unsorted, _BATCH_BYTES, is_sorted=False))
        with ExitStack() as stack:
            yield from self._merge_runs(runs, unsorted, stack=stack)

    def _merge_runs(
        self, section: OrderedSection, unsorted: Iterator[pa.RecordBatch] | None, *, stack: ExitStack
    ) -> Iterator[pa.RecordBatch]:
        section = tuple(run for run in section if run)
        if len(section) <= 1 and unsorted is None:
            for run in section:
                yield from check_order(self._read(run, _BATCH_BYTES), self.spec.sort_columns)
            return
        memory_bytes = self.spec.memory_bytes - self._block_bytes()
        shares = share_runs(self.io, section, memory_bytes, beside_sorter=unsorted is not None)
        sorter = RowSorter(self.schema, self.spec.sort_columns, memory_bytes=memory_bytes, temp_folder=self.temp_folder)
        stack.callback(sorter.close)
        for batch in unsorted or ():
            sorter.add(batch)
        for run in shares.sorted_anew:
            for batch in check_order(self._read(run, _BATCH_BYTES), self.spec.sort_columns):
                sorter.add(batch)
        if not shares.kept:
            yield from sorter.sorted_batches()
            return
        runs = [*(self._read(run, shares.batch_bytes) for run in shares.kept), *sorter.open_runs(stack)]
        yield from merge_cursors([RunCursor(run, self.spec.sort_columns) for run in runs], self.spec.sort_columns)

    def _read(self, files: Sequence[OrderedFile], batch_bytes: int, *, is_sorted: bool = True) -> Iterator[Piece]:
        for file in files:
            yield from self.reading.timed(self.reader.read(file, batch_bytes=batch_bytes, is_sorted=is_sorted))

    def _block_bytes(self) -> int:
        """Estimate what a row group takes until it is written; the first input speaks for all."""
        output = self.output()
        with open_parquet(self.io, self.spec.files[0].path) as parquet:
            metadata = parquet.metadata
            groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
            row_bytes = sum(group.total_byte_size for group in groups) / max(1, metadata.num_rows)
        rows_bytes = min(output.block_bytes, int(row_bytes * _DECODED_RATIO * output.block_rows))
        return int(rows_bytes * (1 + _ENCODING_RATIO))


def _row_bytes(files: Sequence[OrderedFile]) -> float:
    return sum(file.size_bytes for file in files) / max(1, sum(file.rows for file in files))
