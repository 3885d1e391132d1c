"""Read and write the rows of Avro data files, block by block.

A row-wise format must be read row by row; fastavro does that in C and returns records, which become columns here.
Logical types are removed from the header first, so that times stay numbers and decimals stay bytes: both are faster,
and Python's own types cannot hold every value.

Schemas are mapped to Arrow types as Apache Paimon's writers map them. These writers annotate a timestamp without a
zone as `timestamp-…` and one with the local zone as `local-timestamp-…`, the reverse of what Avro specifies. When
reading, both are plain numbers of their unit and get the zone of the target; when writing, we follow Paimon's writers.
A map whose keys are not strings is an array of (key, value) records.
"""

from __future__ import annotations

import hashlib
import io as pyio
import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import RefusedError, UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.data_files.parquet_output import FactsSoFar
from packstone.rewrite.formats.avro_file import (
    BROKEN_BLOCK,
    CODECS,
    block_bytes,
    compressor,
    header_bytes,
    take_blocks,
    take_header,
    without_logical_types,
)
from packstone.rewrite.merge_tree.spec import ColumnFacts, OutputSpec
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.rewrite.merge_tree.cursor import FileShare
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
            self._header = take_header(self._source.read)
            schema = json.loads(self._header.schema)
        except Exception as error:
            raise self._broken(error) from error
        self._head = header_bytes(json.dumps(without_logical_types(schema)).encode(), "null", self._header.sync)
        wanted = set(columns)
        self.schema = pa.schema(
            [pa.field(f["name"], to_arrow(f["type"])) for f in schema["fields"] if f["name"] in wanted]
        )

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about ``batch_bytes``; a block is never cut."""
        del share
        at = rows = 0
        waiting = bytearray()
        for count, data in self._read_blocks():
            waiting += block_bytes(count, data, self._header.sync)
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
        if self._header.codec not in CODECS:
            raise UnfaithfulError(f"the Avro codec {self._header.codec} is not supported")
        try:
            yield from take_blocks(self._source.read, self._header, path=self._path)
        except (*BROKEN_BLOCK, pa.ArrowException) as error:
            raise self._broken(error) from error

    def _decode(self, blocks: bytes | bytearray) -> pa.RecordBatch:
        import fastavro  # an optional dependency, needed by Avro files only

        try:
            records: list[Any] = list(fastavro.reader(pyio.BytesIO(self._head + blocks)))
        except Exception as error:
            raise self._broken(error) from error
        columns = [to_array([record[field.name] for record in records], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _broken(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} is not a readable Avro file: {one_line(error)}.", file=self._path)


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert stored values (numbers, bytes) to a column of their logical type."""
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


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(pair["key"], pair["value"]) for pair in value]


def _flatten(values: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    flat: list[Any] = []
    starts: list[int | None] = []
    for value in values:
        starts.append(None if value is None else len(flat))
        flat.extend(value or ())
    return pa.array([*starts, len(flat)], pa.int32()), flat


def _decimals(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Convert big-endian two's complement of any length to Arrow's 16 little-endian bytes."""
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


_BLOCK_ROWS = 4096
# The codec's name in a table's options, and its name in a file's header.
_CODECS = {
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
}


class AvroOutput:
    """An Avro file that is written; each block is compressed by itself."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        import fastavro  # an optional dependency, needed by Avro files only

        del sample  # Avro has no encodings to choose
        codec = _CODECS.get(output.compression.lower())
        if codec is None:
            raise RefusedError(f"Avro files cannot be written with the codec {output.compression}.")
        self._compress = compressor(codec, output.compression_level)
        avro = from_arrow(schema)
        self._record = fastavro.parse_schema(without_logical_types(avro))
        self._names = schema.names
        self._convert = [_converter(field.type) for field in schema]
        self._facts = [FactsSoFar(field) for field in schema]
        self._sync = hashlib.md5(os.fsencode(path), usedforsecurity=False).digest()
        self._sink = io.open_output(path)
        self._sink.write(header_bytes(json.dumps(avro).encode(), codec, self._sync))

    @property
    def written_bytes(self) -> int:
        """The size of the file so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write more rows, in blocks."""
        for batch in rows.to_batches(max_chunksize=_BLOCK_ROWS):
            columns = [convert(column) for convert, column in zip(self._convert, batch.columns, strict=True)]
            data = self._compress(self._encode(columns))
            self._sink.write(block_bytes(batch.num_rows, data, self._sync))
            for facts, column in zip(self._facts, batch.columns, strict=True):
                facts.add(column)

    def close(self) -> tuple[ColumnFacts, ...]:
        """Close the file and return the facts of its columns."""
        self._sink.close()
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close the file and discard its content."""
        abandon_output(self._sink)

    def _encode(self, columns: list[list[Any]]) -> bytes:
        import fastavro  # an optional dependency, needed by Avro files only

        sink = pyio.BytesIO()
        for values in zip(*columns, strict=True):
            fastavro.schemaless_writer(sink, self._record, dict(zip(self._names, values, strict=True)))
        return sink.getvalue()


def _converter(kind: pa.DataType) -> Callable[[pa.Array], list[Any]]:
    """The function that converts a column to the values that are stored: numbers, strings, bytes."""
    if pt.is_decimal(kind):
        return _encode_decimals
    if pt.is_temporal(kind):
        stored = pa.int32() if kind.bit_width == 32 else pa.int64()
        return lambda column: column.cast(stored).to_pylist()
    if pt.is_struct(kind):
        return _structs
    if pt.is_map(kind):
        return _maps
    if pt.is_list(kind):
        return _lists
    return lambda column: column.to_pylist()


def _encode_decimals(column: pa.Array) -> list[Any]:
    """Convert Arrow's 16 little-endian bytes to the shortest big-endian two's complement."""
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
    """The start and end of each list in the flat values; None for a null list."""
    offsets = np.asarray(column.offsets).tolist()
    valid = column.is_valid().to_pylist()
    return [(offsets[at], offsets[at + 1]) if ok else None for at, ok in enumerate(valid)]


AvroSchema: TypeAlias = Any  # a str, dict or list of JSON
_RECORD = "org.apache.paimon.avro.generated.record"
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def to_arrow(schema: AvroSchema) -> pa.DataType:
    """The Arrow type of an Avro type; a union with null is the other type."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise UnfaithfulError(f"the Avro union {schema} has no Arrow type")
        return to_arrow(others[0])
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise UnfaithfulError(f"the Avro type {schema} has no Arrow type")
        return _PLAIN[schema]
    return _complex_to_arrow(schema)


def _complex_to_arrow(schema: dict[str, Any]) -> pa.DataType:
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        return pa.struct([pa.field(field["name"], to_arrow(field["type"])) for field in schema["fields"]])
    if kind == "array":
        items = schema["items"]
        if logical == "map":
            key, value = (next(f["type"] for f in items["fields"] if f["name"] == n) for n in ("key", "value"))
            return pa.map_(to_arrow(key), to_arrow(value))
        return pa.list_(to_arrow(items))
    if kind == "map":
        return pa.map_(pa.string(), to_arrow(schema["values"]))
    if kind == "fixed":
        return pa.binary(schema["size"])
    return to_arrow(kind)


def from_arrow(schema: pa.Schema) -> dict[str, Any]:
    """The Avro record of an Arrow schema."""
    return _record(_RECORD, list(schema))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    members = []
    for field in fields:
        member: dict[str, Any] = {"name": field.name, "type": _nullable(field, f"{name}_{field.name}")}
        if field.nullable:
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


def _nullable(field: pa.Field, name: str) -> AvroSchema:
    inner = _from_type(field.type, name)
    return ["null", inner] if field.nullable else inner


def _from_type(kind: pa.DataType, name: str) -> AvroSchema:
    if pt.is_struct(kind):
        return _record(name, list(kind))
    if pt.is_map(kind):
        return _from_map(kind, name)
    if pt.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_field, name)}
    return _from_plain_type(kind)


def _from_plain_type(kind: pa.DataType) -> AvroSchema:
    if pt.is_timestamp(kind) and kind.unit in {"ms", "us"}:
        unit = "millis" if kind.unit == "ms" else "micros"
        return {"type": "long", "logicalType": f"{'local-' if kind.tz else ''}timestamp-{unit}"}
    if pt.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pt.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pt.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}
    if pt.is_integer(kind):
        return "long" if pt.is_int64(kind) else "int"
    for avro, plain in _PLAIN.items():
        if plain == kind:
            return avro
    raise UnfaithfulError(f"Avro data files cannot hold {kind}")


def _from_map(kind: pa.MapType, name: str) -> AvroSchema:
    if pt.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_field, name)}
    pair = _record(name, [pa.field("key", kind.key_type, nullable=False), kind.item_field.with_name("value")])
    return {"type": "array", "items": pair, "logicalType": "map"}
