"""Rows of an Avro data file, block by block.

A row-wise format has to be walked row by row; fastavro does that in C and hands out records, which become columns here.
Logical types are taken out of the header on the way, so that times stay numbers and decimals stay bytes: both are
quicker, and Python's own types would not hold every value.
"""

from __future__ import annotations

import io as pyio
import lzma
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnreadableFileError
from packstone.rewrite.data_files.avro_container import block_bytes, header_bytes, read_blocks, read_header
from packstone.rewrite.data_files.avro_schema import to_arrow, without_logical_types
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.rewrite.data_files.key_share import FileShare
    from packstone.storage.fileio import FileIO

_MAX_BATCH_ROWS = 1 << 16
_RECORD_OVERHEAD = 4  # a record of Python objects takes several times the bytes of the stored one
_LONG_DIGITS = 18  # decimal digits that fit 64 bits


class AvroRows:
    """An open Avro file; batches come with the position of their first row."""

    def __init__(self, io: FileIO, path: str, columns: list[str]) -> None:
        self._path = path
        try:
            self._source = io.open_input(path)
            schema, self._codec, self._sync = read_header(self._source)
        except Exception as error:
            raise self._broken(error) from error
        self._head = header_bytes(without_logical_types(schema), "null", self._sync)
        wanted = set(columns)
        self.schema = pa.schema(
            [pa.field(f["name"], to_arrow(f["type"])) for f in schema["fields"] if f["name"] in wanted]
        )

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about so many bytes; a block is never cut."""
        del share
        at = rows = 0
        waiting = bytearray()
        for count, data in self._read_blocks():
            waiting += block_bytes(count, data, self._sync)
            rows += count
            if len(waiting) >= batch_bytes // _RECORD_OVERHEAD or rows >= _MAX_BATCH_ROWS:
                yield at, self._decode(waiting)
                at, rows = at + rows, 0
                waiting.clear()
        if rows:
            yield at, self._decode(waiting)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _read_blocks(self) -> Iterator[tuple[int, bytes]]:
        try:
            yield from read_blocks(self._source, self._codec, self._sync)
        except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
            raise self._broken(error) from error

    def _decode(self, blocks: bytes | bytearray) -> pa.RecordBatch:
        import fastavro  # noqa: PLC0415 - an optional dependency, needed by Avro files only

        try:
            records: list[Any] = list(fastavro.reader(pyio.BytesIO(self._head + blocks)))
        except Exception as error:
            raise self._broken(error) from error
        columns = [to_array([record[field.name] for record in records], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _broken(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} is no readable Avro file: {one_line(error)}.", file=self._path)


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Turn stored values (numbers, bytes) into a column of the type they stand for."""
    if pt.is_decimal(kind):
        return _decimals(values, kind)
    if pt.is_struct(kind):
        missing = pa.array([value is None for value in values])
        children = [to_array([None if v is None else v[f.name] for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)
    if pt.is_list(kind):
        offsets, flat = _flatten(values)
        return pa.ListArray.from_arrays(offsets, to_array(flat, kind.value_type), type=kind)
    if pt.is_map(kind):
        pairs = [None if value is None else _pairs(value) for value in values]
        offsets, flat = _flatten(pairs)
        keys = to_array([pair[0] for pair in flat], kind.key_type)
        return pa.MapArray.from_arrays(offsets, keys, to_array([p[1] for p in flat], kind.item_type), type=kind)
    return pa.array(values, type=kind)


def _pairs(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - a map of any types
    return list(value.items()) if isinstance(value, dict) else [(pair["key"], pair["value"]) for pair in value]


def _flatten(values: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    flat: list[Any] = []
    starts: list[int | None] = []
    for value in values:
        starts.append(None if value is None else len(flat))
        flat.extend(value or ())
    return pa.array([*starts, len(flat)], pa.int32()), flat


def _decimals(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Two's complement, big end first, of any length: sixteen bytes, little end first."""
    numbers = [0 if value is None else int.from_bytes(value, "big", signed=True) for value in values]
    words = np.empty((len(numbers), 2), dtype=np.int64)
    if kind.precision <= _LONG_DIGITS:
        words[:, 0] = numbers
        words[:, 1] = words[:, 0] >> 63
    else:
        data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
        words = np.frombuffer(data, dtype=np.int64).reshape(-1, 2)
    valid = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(np.ascontiguousarray(words))])
