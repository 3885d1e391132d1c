"""Write a Parquet data file, block by block: every call is a row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.rewrite.data_files.column_facts import FactsSoFar, find_extremes, has_order, is_disputed, to_decimal
from packstone.rewrite.data_files.split_times import leaf_types, restore_types, split_times
from packstone.rewrite.merge.merge_spec import ColumnFacts, OutputSpec
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.parquet.file_writer import ParquetFileWriter
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_SAMPLED_ROWS = 8192
_SAMPLED_BYTES = 8 << 20  # of rows: wide ones are sampled more thinly, for the sample is copied
_DICTIONARY_BYTES = 1 << 20  # a bigger dictionary is given up by the writer, after the work was done
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
        "use_dictionary": list(_dictionary_columns(schema, sample)) or False,
        "store_decimal_as_integer": True,
        "store_schema": False,
        # Java's own writer stores nanoseconds as INT96, and all its readers know that; PyArrow does so for all
        # timestamps or for none, so ``split_times`` leaves only those of nanoseconds.
        "use_deprecated_int96_timestamps": units == {"ns"},
    }
    if any(pt.is_time(kind) for field in schema for kind in leaf_types(field.type)):
        options["write_time_adjusted_to_utc"] = True
    return options


def _dictionary_columns(schema: pa.Schema, sample: pa.Table) -> Iterator[str]:
    """Name the leaf columns whose values repeat enough: to try the others costs a quarter of the encoding."""
    picked = _every_nth(sample, max(1, sample.num_rows // _SAMPLED_ROWS, sample.nbytes // _SAMPLED_BYTES))
    for field in schema:
        if pt.is_nested(field.type):
            yield from _leaf_paths(field.name, field.type)
        elif not pt.is_boolean(field.type) and _repeats(picked.column(field.name), sample.num_rows):
            yield field.name


def _every_nth(rows: pa.Table, step: int) -> pa.Table:
    """Batch by batch: of a table, ``take`` copies every value first."""
    batches, first = [], 0
    for batch in rows.to_batches():
        batches.append(batch.take(to_column(np.arange(first, batch.num_rows, step))))
        first += -(-max(0, batch.num_rows - first) // step) * step - batch.num_rows
    return pa.Table.from_batches(batches, schema=rows.schema)


def _repeats(column: pa.ChunkedArray, rows: int) -> bool:
    """Whether a dictionary of all values would stay small, by how many in the sample are equal (birthdays)."""
    values = column.drop_null()
    count = len(values)
    equal = count - int(pc.count_distinct(values).as_py())
    if not equal:
        return count == 0
    distinct = (count - equal) if count >= rows else count * count / (2 * equal)
    return distinct * 2 < rows and distinct * max(1, values.nbytes // count) < _DICTIONARY_BYTES


def _leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    if pt.is_struct(kind):
        for child in kind:
            yield from _leaf_paths(f"{path}.{child.name}", child.type)
    elif pt.is_map(kind):
        yield from _leaf_paths(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_paths(f"{path}.key_value.value", kind.item_type)
    elif pt.is_nested(kind):
        yield from _leaf_paths(f"{path}.list.element", kind.value_type)
    else:
        yield path
