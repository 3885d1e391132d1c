"""Write an Avro data file: records in blocks, each compressed by itself."""

from __future__ import annotations

import hashlib
import io as pyio
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import RefusedError
from packstone.rewrite.data_files.avro_container import CODECS, block_bytes, compress, header_bytes
from packstone.rewrite.data_files.avro_schema import from_arrow, without_logical_types
from packstone.rewrite.data_files.column_facts import FactsSoFar
from packstone.rewrite.merge.merge_spec import ColumnFacts, OutputSpec
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.storage.fileio import FileIO

_BLOCK_ROWS = 4096


class AvroOutput:
    """An open Avro file."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        import fastavro  # noqa: PLC0415 - an optional dependency, needed by Avro files only

        del sample  # nothing to choose
        self._codec = CODECS.get(output.compression.lower(), "")
        if not self._codec:
            raise RefusedError(f"Avro files are not written with the codec {output.compression}.")
        self._level = output.compression_level
        avro = from_arrow(schema)
        self._record = fastavro.parse_schema(without_logical_types(avro))
        self._names = schema.names
        self._convert = [_converter(field.type) for field in schema]
        self._facts = [FactsSoFar(field) for field in schema]
        self._sync = hashlib.md5(os.fsencode(path), usedforsecurity=False).digest()
        self._sink = io.open_output(path)
        self._sink.write(header_bytes(avro, self._codec, self._sync))

    @property
    def written_bytes(self) -> int:
        """How big the file is so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write more rows, in blocks."""
        for batch in rows.to_batches(max_chunksize=_BLOCK_ROWS):
            columns = [convert(column) for convert, column in zip(self._convert, batch.columns, strict=True)]
            data = compress(self._encode(columns), self._codec, self._level)
            self._sink.write(block_bytes(batch.num_rows, data, self._sync))
            for facts, column in zip(self._facts, batch.columns, strict=True):
                facts.add(column)

    def close(self) -> tuple[ColumnFacts, ...]:
        """End the file and tell what is in it."""
        self._sink.close()
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close without caring for the content."""
        abandon_output(self._sink)

    def _encode(self, columns: list[list[Any]]) -> bytes:
        import fastavro  # noqa: PLC0415 - an optional dependency, needed by Avro files only

        sink = pyio.BytesIO()
        for values in zip(*columns, strict=True):
            fastavro.schemaless_writer(sink, self._record, dict(zip(self._names, values, strict=True)))
        return sink.getvalue()


def _converter(kind: pa.DataType) -> Callable[[pa.Array], list[Any]]:
    """How a column becomes the values that are stored: numbers, texts, bytes."""
    if pt.is_decimal(kind):
        return _decimals
    if pt.is_temporal(kind):
        stored = pa.int32() if kind.bit_width == 32 else pa.int64()  # noqa: PLR2004 - bits
        return lambda column: column.cast(stored).to_pylist()
    if pt.is_struct(kind):
        return _structs
    if pt.is_map(kind):
        return _maps
    if pt.is_list(kind):
        return _lists
    return lambda column: column.to_pylist()


def _decimals(column: pa.Array) -> list[Any]:
    """Two's complement, big end first, as short as it can be; Arrow has sixteen bytes, little end first."""
    stored = pa.Array.from_buffers(pa.binary(16), len(column), column.buffers(), offset=column.offset).to_pylist()
    numbers = (None if value is None else int.from_bytes(value, "little", signed=True) for value in stored)
    return [None if n is None else n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True) for n in numbers]


def _structs(column: pa.Array) -> list[Any]:
    names = [child.name for child in column.type]
    children = [_converter(c.type)(c) for c in column.flatten()]
    valid = column.is_valid().to_pylist()
    rows = zip(*children, strict=True) if children else iter([()] * len(column))
    return [dict(zip(names, row, strict=True)) if ok else None for ok, row in zip(valid, rows, strict=True)]


def _lists(column: pa.Array) -> list[Any]:
    values = _converter(column.type.value_type)(column.values)
    return [None if span is None else values[span[0] : span[1]] for span in _spans(column)]


def _maps(column: pa.Array) -> list[Any]:
    keys, items = _converter(column.type.key_type)(column.keys), _converter(column.type.item_type)(column.items)
    if pt.is_string(column.type.key_type):
        return [
            None if s is None else dict(zip(keys[slice(*s)], items[slice(*s)], strict=True)) for s in _spans(column)
        ]
    return [
        None if s is None else [{"key": k, "value": v} for k, v in zip(keys[slice(*s)], items[slice(*s)], strict=True)]
        for s in _spans(column)
    ]


def _spans(column: pa.Array) -> list[tuple[int, int] | None]:
    """Where in the flat values each list begins and ends."""
    offsets = np.asarray(column.offsets).tolist()
    valid = column.is_valid().to_pylist()
    return [(offsets[at], offsets[at + 1]) if ok else None for at, ok in enumerate(valid)]
