"""Merge sorted runs into files: sections in the order of keys, window by window, in bounded memory."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from packstone.rewrite.data_files.key_share import KeyBounds
from packstone.rewrite.data_files.parquet_rows import RowWidths
from packstone.rewrite.data_files.rows import RowFilter, read_rows
from packstone.rewrite.merge.key_words import column_values
from packstone.rewrite.merge.merge_engines import Engine, make_engine
from packstone.rewrite.merge.merge_memory import SpilledRun, share_memory
from packstone.rewrite.merge.merge_spec import (
    KIND_COLUMN,
    AppendSpec,
    InputFile,
    MergeResult,
    MergeSpec,
    unpack_schema,
)
from packstone.rewrite.merge.merge_window import Ordering, Window, check_run, cut_windows
from packstone.rewrite.merge.rolling_writer import RollingWriter
from packstone.rewrite.merge.run_cursor import Piece, RunCursor
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.write_all import write_all

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.storage.fileio import FileIO


class _Reading:
    """Rows and seconds of all reading."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0
        self.widths = RowWidths()

    def timed(self, batches: Iterator[pa.RecordBatch], path: str) -> Iterator[Piece]:
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            self.rows += batch.num_rows
            yield Piece(batch=batch, path=path)


def run_merge(io: FileIO, spec: MergeSpec, *, name_file: Callable[[int], str]) -> MergeResult:
    """Write the merged rows of all sections; on any error, nothing stays behind.

    ``name_file`` is asked for the name of the n-th file before it is created, so that the caller can note it.
    """
    began = time.perf_counter()
    schema = unpack_schema(spec.arrow_schema)
    engine = make_engine(spec, schema)
    writer = _writer(io, spec, schema, name_file=name_file)
    reading = _Reading()
    files, write_seconds = write_all(writer, _merge_sections(io, spec, schema, engine=engine, reading=reading))
    seconds = time.perf_counter() - began
    return MergeResult(
        files=files,
        rows_in=reading.rows,
        rows_out=writer.rows,
        read_seconds=reading.seconds,
        merge_seconds=max(0.0, seconds - reading.seconds - write_seconds),
        write_seconds=write_seconds,
    )


def read_merged(io: FileIO, spec: MergeSpec) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of all sections, for those who read and write nothing; the spec's output is not used."""
    schema = unpack_schema(spec.arrow_schema)
    yield from _merge_sections(io, spec, schema, engine=make_engine(spec, schema), reading=_Reading())


def run_append(io: FileIO, spec: AppendSpec, *, name_file: Callable[[int], str]) -> MergeResult:
    """Write the rows of all files, in their order, into fewer; on any error, nothing stays behind."""
    began = time.perf_counter()
    schema = unpack_schema(spec.arrow_schema)
    writer = _writer(io, spec, schema, name_file=name_file)
    reading = _Reading()
    shares = share_memory(io, (spec.inputs,), spec.memory_bytes)
    files, _ = write_all(
        writer,
        (
            piece.batch
            for file in spec.inputs
            for piece in reading.timed(
                read_rows(io, file, schema, batch_bytes=shares.batch_bytes, widths=reading.widths), file.path
            )
        ),
    )
    return MergeResult(
        files=files,
        rows_in=reading.rows,
        rows_out=writer.rows,
        read_seconds=reading.seconds,
        merge_seconds=0.0,
        write_seconds=max(0.0, time.perf_counter() - began - reading.seconds),
    )


def _merge_sections(
    io: FileIO, spec: MergeSpec, schema: pa.Schema, *, engine: Engine, reading: _Reading
) -> Iterator[pa.RecordBatch]:
    for section in spec.sections:
        merged = _merge_section(io, spec, section, schema=schema, engine=engine, reading=reading)
        yield from _without_deletes(merged) if spec.drop_deletes else merged


def _merge_section(
    io: FileIO,
    spec: MergeSpec,
    section: Sequence[Sequence[InputFile]],
    *,
    schema: pa.Schema,
    engine: Engine,
    reading: _Reading,
) -> Iterator[pa.RecordBatch]:
    keep = RowFilter(bounds=KeyBounds.of(spec.key_columns[0], spec.key_range), expiry=spec.expiry)
    shares = share_memory(io, section, spec.memory_bytes)

    def read_run(run: Sequence[InputFile]) -> Iterator[Piece]:
        for file in run:
            rows = read_rows(io, file, schema, batch_bytes=shares.batch_bytes, keep=keep, widths=reading.widths)
            yield from reading.timed(rows, file.path)

    if len(section) == 1:
        yield from check_run(read_run(section[0]), spec.key_columns)
        return
    ordering = Ordering(
        key_columns=spec.key_columns,
        sequence_columns=spec.sequence_columns,
        sequence_descending=spec.sequence_descending,
    )
    with ExitStack() as stack:
        cursors = []
        for at, run in enumerate(section):
            pieces = read_run(run)
            if at in shares.spilled_runs:
                spilled = SpilledRun(pieces, schema)
                stack.callback(spilled.close)
                pieces = spilled.read()
            cursors.append(RunCursor(pieces, spec.key_columns))
        for window in cut_windows(cursors, ordering):
            yield engine(window) if isinstance(window, Window) else window


def _without_deletes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        adds = (column_values(batch.column(KIND_COLUMN), np.dtype(np.int8)) & 1) == 0
        yield batch if adds.all() else batch.filter(to_column(adds))


def _writer(
    io: FileIO, spec: MergeSpec | AppendSpec, schema: pa.Schema, *, name_file: Callable[[int], str]
) -> RollingWriter:
    inputs = spec.files if isinstance(spec, MergeSpec) else spec.inputs
    rows = sum(file.rows for file in inputs)
    sections = spec.sections if isinstance(spec, MergeSpec) else ((spec.inputs,),)
    blocks = (share_memory(io, section, spec.memory_bytes).block_bytes for section in sections)
    block_bytes = min(spec.output.block_bytes, *blocks)
    return RollingWriter(
        io,
        dataclasses.replace(spec.output, block_bytes=block_bytes),
        schema=schema,
        key_columns=spec.key_columns if isinstance(spec, MergeSpec) else (),
        name_file=name_file,
        row_bytes=sum(file.size_bytes for file in inputs) / max(1, rows),
    )
