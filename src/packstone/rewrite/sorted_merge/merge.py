"""Merge sorted files into sorted files, all rows kept: section by section, window by window, in bounded memory.

Files that are not sorted are sorted first, spilling to local disk what does not fit in memory, and then merged with the
others. For that the runs of all sections are concatenated, because sections are in the order of keys. Without sort
columns the rows of all files are concatenated.

``share_runs`` decides which runs are open at the same time. An open Parquet file holds pages and dictionaries; a cursor
holds up to three batches of at least one row each. Runs that do not fit in memory are sorted again together with the
unsorted rows: that has its own memory bound, costs little more than a copy to local disk, and leaves few runs.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from packstone.rewrite.data_files.batches import write_all
from packstone.rewrite.formats.parquet_footer import held_bytes, open_parquet
from packstone.rewrite.merge_tree.cursor import FileRows, RunCursor
from packstone.rewrite.merge_tree.spec import unpack_schema
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.rows import OrderedRange, OrderedReader, check_order, merge_cursors
from packstone.rewrite.sorted_merge.sorter import RowSorter
from packstone.rewrite.sorted_merge.spec import (
    BlockOutput,
    OrderedFile,
    OrderedMergeSpec,
    OrderedResult,
    OrderedRun,
    OrderedSection,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.storage.fileio import FileIO

_BATCH_BYTES = 4 << 20  # of files that are read one at a time
_BLOCK_SHARE = 0.2  # rows of a row group that are being collected / memory
_ENCODING_RATIO = 0.5  # pages and dictionaries / those rows; they are held until the row group is written
_DECODED_RATIO = 1.5  # decoded bytes of a row / bytes of its pages, an estimate


def merge_ordered(
    io: FileIO, spec: OrderedMergeSpec, *, name_file: Callable[[int], str], temp_folder: str | None = None
) -> OrderedResult:
    """Write the rows of all inputs in order; after an error, the files written so far are removed.

    ``name_file`` returns the name of the n-th file before it is created, so that the caller can record it.
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
    """The number of rows read, and the seconds that reading took."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0

    def timed(self, pieces: Iterator[FileRows]) -> Iterator[FileRows]:
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
        """The output of the spec, with row groups limited to their share of the memory."""
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
        """Sort the unsorted files, and merge them with the runs of all sections."""
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
        shares = share_runs(self.io, section, memory_bytes, with_sorter=unsorted is not None)
        sorter = RowSorter(self.schema, self.spec.sort_columns, memory_bytes=memory_bytes, temp_folder=self.temp_folder)
        stack.callback(sorter.close)
        for batch in unsorted or ():
            sorter.add(batch)
        for run in shares.sorted_again:
            for batch in check_order(self._read(run, _BATCH_BYTES), self.spec.sort_columns):
                sorter.add(batch)
        if not shares.kept:
            yield from sorter.sorted_batches()
            return
        runs = [*(self._read(run, shares.batch_bytes) for run in shares.kept), *sorter.open_runs(stack)]
        yield from merge_cursors([RunCursor(run, self.spec.sort_columns) for run in runs], self.spec.sort_columns)

    def _read(self, files: Sequence[OrderedFile], batch_bytes: int, *, is_sorted: bool = True) -> Iterator[FileRows]:
        for file in files:
            yield from self.reading.timed(self.reader.read(file, batch_bytes=batch_bytes, is_sorted=is_sorted))

    def _block_bytes(self) -> int:
        """Estimate the memory of a row group until it is written; the first input stands for all."""
        output = self.output()
        with open_parquet(self.io, self.spec.files[0].path) as parquet:
            metadata = parquet.metadata
            groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
            row_bytes = sum(group.total_byte_size for group in groups) / max(1, metadata.num_rows)
        rows_bytes = min(output.block_bytes, int(row_bytes * _DECODED_RATIO * output.block_rows))
        return int(rows_bytes * (1 + _ENCODING_RATIO))


def _row_bytes(files: Sequence[OrderedFile]) -> float:
    return sum(file.size_bytes for file in files) / max(1, sum(file.rows for file in files))


_MAX_BATCH_BYTES = 8 << 20
_MIN_BATCH_BYTES = 64 << 10
_BATCHES_PER_CURSOR = 3
# A process takes about 1.5 times the memory that is counted here: see merge_tree/merge.py.
_COUNTED_SHARE = 0.64
_OPEN_SHARE = 0.6
_OPEN_SHARE_WITH_SORTER = 0.2
_BATCH_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShares:
    """Runs that are read at the same time, in batches of ``batch_bytes``, and runs that are sorted again."""

    kept: tuple[OrderedRun, ...]
    sorted_again: tuple[OrderedRun, ...]
    batch_bytes: int


def share_runs(io: FileIO, runs: Sequence[OrderedRun], memory_bytes: int, *, with_sorter: bool) -> RunShares:
    """Keep open as many bytes of runs as fit; ``with_sorter``: other rows are sorted in any case."""
    counted = memory_bytes * _COUNTED_SHARE
    costs = [_cost(io, run) for run in runs]
    room = counted * (_OPEN_SHARE_WITH_SORTER if with_sorter else _OPEN_SHARE)
    if sum(costs) > room:
        room = counted * _OPEN_SHARE_WITH_SORTER
    kept, used = set(), 0
    # Start with the runs that have the most bytes per memory, because the remaining ones have to be sorted.
    for at in sorted(range(len(runs)), key=lambda at: costs[at] / max(1, sum(file.size_bytes for file in runs[at]))):
        if used + costs[at] <= room:
            kept.add(at)
            used += costs[at]
    batch = int(counted * _BATCH_SHARE) // (_BATCHES_PER_CURSOR * max(1, len(kept)))
    return RunShares(
        kept=tuple(run for at, run in enumerate(runs) if at in kept),
        sorted_again=tuple(run for at, run in enumerate(runs) if at not in kept),
        batch_bytes=min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, batch)),
    )


def _cost(io: FileIO, run: OrderedRun) -> int:
    """Estimate the least memory of an open run; its first file stands for it."""
    with open_parquet(io, run[0].path) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return 0
        group = metadata.row_group(0)
        width = group.total_byte_size // max(1, group.num_rows)
        return held_bytes(group) + _BATCHES_PER_CURSOR * max(_MIN_BATCH_BYTES, width)
