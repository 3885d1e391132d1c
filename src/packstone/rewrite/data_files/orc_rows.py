"""Read and write the rows of ORC data files, in batches smaller than stripes.

PyArrow exposes no statistics of ORC, so a writer computes smallest and largest values itself. Where PyArrow's encoding
differs from Java's, it is corrected on the way to the file (``CorrectedSink`` in ``orc_java_form``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import RefusedError
from packstone.rewrite.data_files.parquet_output import FactsSoFar
from packstone.rewrite.formats.orc_java_form import CorrectedSink, check_fractions
from packstone.rewrite.formats.orc_reader import OrcReader
from packstone.rewrite.formats.orc_streams import MAX_BATCH_ROWS
from packstone.rewrite.merge_tree.spec import ColumnFacts, OutputSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.merge_tree.cursor import FileShare
    from packstone.storage.fileio import FileIO

_PROBED_ROWS = 256


class OrcRows:
    """An open ORC file; batches come with the position of their first row."""

    def __init__(self, io: FileIO, path: str, columns: list[str]) -> None:
        self._file = OrcReader(io, path)
        wanted = set(columns)
        self.schema = pa.schema([field for field in self._file.schema if field.name in wanted])

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about this size; nothing is skipped, because PyArrow exposes no statistics of ORC."""
        del share
        first = next(self._file.batches(self.schema.names, max_rows=_PROBED_ROWS), None)
        if first is None:
            return
        row_bytes = max(1, first.nbytes // first.num_rows)
        rows = min(MAX_BATCH_ROWS, max(1, batch_bytes // row_bytes))
        at = 0
        for batch in self._file.batches(self.schema.names, max_rows=rows):
            yield at, batch
            at += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_CODECS = {
    "none": "uncompressed",
    "null": "uncompressed",
    "uncompressed": "uncompressed",
    "zstd": "zstd",
    "lz4": "lz4",
    "snappy": "snappy",
    "zlib": "zlib",
    "gzip": "zlib",
}
_ROWS_PER_WRITE = 8192


class OrcOutput:
    """An ORC file that is written."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        from pyarrow import orc  # only for ORC

        del sample  # the ORC writer chooses dictionaries itself
        codec = _CODECS.get(output.compression.lower())
        if codec is None:
            raise RefusedError(f"ORC files cannot be written with the codec {output.compression}.")
        self._stored = pa.schema([_stored_field(field) for field in schema])
        self._facts = [FactsSoFar(field) for field in schema]
        self._io, self._path = io, path
        self._sink = CorrectedSink(io.open_output(path))
        self._writer = orc.ORCWriter(
            self._sink, compression=codec, stripe_size=max(1 << 16, output.block_bytes), batch_size=_ROWS_PER_WRITE
        )

    @property
    def written_bytes(self) -> int:
        """The size of the file so far; a stripe is written when it is full."""
        return self._sink.tell()

    def write(self, rows: pa.Table) -> None:
        """Write more rows."""
        stored = rows.cast(self._stored) if rows.schema != self._stored else rows
        self._sink.write_rows(self._writer, _unsliced(stored))
        for facts, column in zip(self._facts, rows.columns, strict=True):
            for chunk in column.chunks:
                facts.add(chunk)

    def close(self) -> tuple[ColumnFacts, ...]:
        """Write the footer and return the facts of the columns."""
        self._sink.finish(self._writer)
        if self._sink.is_corrected:
            check_fractions(self._io, self._path)
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close the file and discard its content."""
        self._sink.abandon(self._writer)


def _unsliced(rows: pa.Table) -> pa.Table:
    """Copy columns with structs: PyArrow's ORC writer (up to 26.0) ignores a slice's offset and writes wrong rows."""
    everything = None
    for at, field in enumerate(rows.schema):
        if _holds_struct(field.type):
            everything = pa.array(range(rows.num_rows), pa.int64()) if everything is None else everything
            rows = rows.set_column(at, field, rows.column(at).take(everything))
    return rows


def _holds_struct(kind: pa.DataType) -> bool:
    return pt.is_struct(kind) or any(_holds_struct(kind.field(at).type) for at in range(kind.num_fields))


def _stored_field(field: pa.Field) -> pa.Field:
    """The field as stored: ORC has no time of day, so it is an int of milliseconds, as in Java's files."""
    return field.with_type(pa.int32()) if pt.is_time32(field.type) else field
