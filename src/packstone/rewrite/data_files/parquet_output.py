"""Write a Parquet data file, block by block: every call is a row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.rewrite.data_files.column_facts import FactsSoFar, find_extremes, has_order, is_disputed, to_decimal
from packstone.rewrite.data_files.split_times import leaf_types, restore_types, split_times
from packstone.rewrite.merge.merge_spec import ColumnFacts, OutputSpec
from packstone.rewrite.parquet.encodings import choose_encodings
from packstone.rewrite.parquet.file_writer import ParquetFileWriter
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_FOOTER_VALUE_BYTES = 2048  # PyArrow leaves longer values out of its statistics
_CODECS = {"none": "NONE", "uncompressed": "NONE", "null": "NONE"}
_LEVELLED = frozenset({"zstd", "gzip", "brotli"})


class Compressed(Protocol):
    """Settings of an output that say how it is compressed."""

    @property
    def compression(self) -> str:
        """The codec."""
        ...

    @property
    def compression_level(self) -> int | None:
        """Its level; None: the codec's own."""
        ...


class ParquetOutput:
    """An open Parquet file; smallest and largest values come from its footer, for nothing, where they are exact."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        self._schema = schema
        self._stored = split_times(schema)
        self._sink = io.open_output(path)
        self._facts = [FactsSoFar(field) for field in schema]
        written = self._stored or schema
        self._writer = ParquetFileWriter(
            self._sink,
            written,
            options=writer_options(written, output, sample),
            edit=None if self._stored is None else lambda footer: restore_types(footer, schema),
        )

    @property
    def written_bytes(self) -> int:
        """How big the file is so far, without its footer."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        self._writer.write(rows if self._stored is None else rows.cast(self._stored))
        for at, facts in enumerate(self._facts):
            column = rows.column(at)
            facts.add_extremes(None, None, column.null_count)
            if has_order(column.type) and any(map(is_disputed, column.chunks)):
                facts.drop_bounds()
            elif has_order(column.type) and (not is_in_footer(column.type) or has_long_values(column)):
                for chunk in column.chunks:
                    facts.add_extremes(*find_extremes(chunk), 0)

    def close(self) -> tuple[ColumnFacts, ...]:
        """Write the footer and tell what is in the file."""
        footer = self._writer.close()
        self._sink.close()
        self._read_footer(footer)
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close without caring for the content."""
        self._writer.abandon()
        abandon_output(self._sink)

    def _read_footer(self, metadata: pq.FileMetaData) -> None:
        at_of = {metadata.schema.column(at).path: at for at in range(len(metadata.schema))}
        for facts, field in zip(self._facts, self._schema, strict=True):
            at = at_of.get(field.name)
            if at is None or not is_in_footer(field.type):
                continue
            for group in range(metadata.num_row_groups):
                found = metadata.row_group(group).column(at).statistics
                if found is not None and found.has_min_max:
                    low, high = (footer_value(raw, field.type) for raw in (found.min_raw, found.max_raw))
                    facts.add_extremes(low, high, 0)


def is_in_footer(kind: pa.DataType) -> bool:
    """INT96 has no statistics."""
    return has_order(kind) and not (pt.is_timestamp(kind) and kind.unit == "ns")


def footer_value(raw: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - a value of the column
    """The physical value of a footer as a plain one."""
    if pt.is_decimal(kind):
        number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return to_decimal(number, kind.scale)
    return raw


def has_long_values(column: pa.ChunkedArray) -> bool:
    """Whether values are too long for the footer to tell the smallest and the largest."""
    kind = column.type
    if not (pt.is_string(kind) or pt.is_binary(kind)):
        return False
    longest = pc.max(pc.binary_length(column)).as_py() if column.nbytes > _FOOTER_VALUE_BYTES else 0
    return bool((longest or 0) > _FOOTER_VALUE_BYTES)


def writer_options(schema: pa.Schema, output: Compressed, sample: pa.Table) -> dict[str, Any]:
    """How to open a writer of rows like the sample."""
    codec = _CODECS.get(output.compression.lower(), output.compression)
    level = output.compression_level if codec.lower() in _LEVELLED else None
    units = {kind.unit for field in schema for kind in leaf_types(field.type) if pt.is_timestamp(kind)}
    options: dict[str, Any] = {
        "compression": codec,
        "compression_level": level,
        "store_decimal_as_integer": True,
        "store_schema": False,
        # Java's own writer stores nanoseconds as INT96, and all its readers know that; PyArrow does so for all
        # timestamps or for none, so ``split_times`` leaves only those of nanoseconds.
        "use_deprecated_int96_timestamps": units == {"ns"},
    }
    if any(pt.is_time(kind) for field in schema for kind in leaf_types(field.type)):
        options["write_time_adjusted_to_utc"] = True
    rows = sample.select(schema.names)  # a thin file leaves keys out
    rows = rows if rows.schema.types == schema.types else rows.cast(schema)
    return options | choose_encodings(rows, options, codes_wide_rows=False)
