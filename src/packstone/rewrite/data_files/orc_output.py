"""Write an ORC data file. PyArrow shows no statistics of ORC, so smallest and largest values are computed.

What PyArrow writes otherwise than Java is corrected on its way to the file (``corrected_sink``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import RefusedError
from packstone.rewrite.data_files.column_facts import FactsSoFar
from packstone.rewrite.merge.merge_spec import ColumnFacts, OutputSpec
from packstone.rewrite.orc.corrected_sink import CorrectedSink
from packstone.rewrite.orc.java_form import check_fractions

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

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
    """An open ORC file."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        from pyarrow import orc  # noqa: PLC0415 - only for ORC

        del sample  # ORC decides about dictionaries by itself
        codec = _CODECS.get(output.compression.lower())
        if codec is None:
            raise RefusedError(f"ORC files are not written with the codec {output.compression}.")
        self._stored = pa.schema([_stored_field(field) for field in schema])
        self._facts = [FactsSoFar(field) for field in schema]
        self._io, self._path = io, path
        self._sink = CorrectedSink(io.open_output(path))
        self._writer = orc.ORCWriter(
            self._sink, compression=codec, stripe_size=max(1 << 16, output.block_bytes), batch_size=_ROWS_PER_WRITE
        )

    @property
    def written_bytes(self) -> int:
        """How big the file is so far; a stripe is written when it is full."""
        return self._sink.tell()

    def write(self, rows: pa.Table) -> None:
        """Write more rows."""
        stored = rows.cast(self._stored) if rows.schema != self._stored else rows
        self._sink.write_rows(self._writer, _unsliced(stored))
        for facts, column in zip(self._facts, rows.columns, strict=True):
            for chunk in column.chunks:
                facts.add(chunk)

    def close(self) -> tuple[ColumnFacts, ...]:
        """Write the footer and tell what is in the file."""
        self._sink.finish(self._writer)
        if self._sink.is_corrected:
            check_fractions(self._io, self._path)
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close without caring for the content."""
        self._sink.abandon(self._writer)


def _unsliced(rows: pa.Table) -> pa.Table:
    """Copy columns with structs: PyArrow's ORC writer (to 26.0) ignores that one is a slice, and writes other rows."""
    everything = None
    for at, field in enumerate(rows.schema):
        if _holds_struct(field.type):
            everything = pa.array(range(rows.num_rows), pa.int64()) if everything is None else everything
            rows = rows.set_column(at, field, rows.column(at).take(everything))
    return rows


def _holds_struct(kind: pa.DataType) -> bool:
    return pt.is_struct(kind) or any(_holds_struct(kind.field(at).type) for at in range(kind.num_fields))


def _stored_field(field: pa.Field) -> pa.Field:
    """ORC has no time of day: it is an int of milliseconds, as Java's files have it."""
    return field.with_type(pa.int32()) if pt.is_time32(field.type) else field
