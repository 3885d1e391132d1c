"""Read and write Avro container files: a header with the schema, then compressed blocks of records.

fastavro decodes and encodes the records; the container is handled here, because

* PyArrow already includes zstd and snappy, so no further library is needed for them;
* a logical type would turn every timestamp into a datetime object: slow, and wrong beyond the year 9999. The schema is
  passed to fastavro without its logical types, so that a long stays the long that was written;
* a writer that rolls its files must know how many compressed bytes it has written so far.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.formats.bounded_codecs import inflate, unbzip, unsnap, unxz, unzstd

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_SCHEMA: Final = b"avro.schema"
_CODEC: Final = b"avro.codec"
_BLOCK_BYTES: Final = 64_000  # Java's default distance between two sync marks
_CRC_BYTES: Final = 4
_MAX_NUMBER_BYTES: Final = 10
_MAX_HEADER_BYTES: Final = 64 << 20
MAX_BLOCK_BYTES: Final = 256 << 20  # of a decompressed block; writers end a block after some hundred kilobytes
CODECS: Final = frozenset({"null", "deflate", "zstandard", "snappy", "bzip2", "xz"})  # supported for reading
Take = Callable[[int], bytes]  # the next bytes of a file, fewer at its end
BROKEN_BLOCK: Final = (IndexError, ValueError, EOFError, OSError, zlib.error, lzma.LZMAError)  # from decompressors


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroHeader:
    """The header of an Avro file."""

    schema: str  # JSON, as it was written
    codec: str
    sync: bytes
    end: int = 0  # offset of the first block


def read_header(data: bytes, *, path: str) -> AvroHeader:
    """Read the header of an Avro file; CorruptionError names a file that is not Avro."""
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptionError(f"{path} is not an Avro file.", path=path)
    source = io.BytesIO(data)
    try:
        return replace(take_header(source.read), end=source.tell())
    except ValueError as error:
        raise CorruptionError(f"The Avro header of {path} cannot be read.", path=path) from error


def take_header(take: Take) -> AvroHeader:
    """Read a header from the beginning of a file; ValueError if it is not an Avro header."""
    if take(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as Avro files do")
    metadata = take_metadata(take)
    if _SCHEMA not in metadata:
        raise ValueError("its header has no schema")
    codec = metadata.get(_CODEC, b"null").decode(errors="replace")
    return AvroHeader(schema=metadata[_SCHEMA].decode(), codec=codec, sync=take(SYNC_BYTES))


def read_records(data: bytes, *, path: str) -> Iterator[dict[str, Any]]:
    """Yield the records of an Avro file as plain values, without logical types."""
    import fastavro  # executors need it for Paimon's Avro files only

    header = read_header(data, path=path)
    plain_schema(header, path=path)  # raises CorruptionError unless the file holds records
    plain = io.BytesIO(b"".join(_plain_file(data, header, root_schema(header, path=path), path=path)))
    try:
        yield from fastavro.reader(plain)  # type: ignore[misc]
    except _unreadable() as error:
        raise CorruptionError(f"A record of {path} cannot be read: {error!r}.", path=path) from error


def _unreadable() -> tuple[type[Exception], ...]:
    """The exceptions that fastavro raises for a damaged file."""
    from fastavro.read import SchemaResolutionError  # see read_records
    from fastavro.schema import SchemaParseException, UnknownType  # see read_records

    plain = (EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
    return (*plain, SchemaParseException, SchemaResolutionError, UnknownType)


def plain_schema(header: AvroHeader, *, path: str, logical: bool = False) -> dict[str, Any]:
    """The schema of a file's records, without its logical types unless ``logical`` is set."""
    root = root_schema(header, path=path, logical=logical)
    records = [branch for branch in (root if isinstance(root, list) else [root]) if isinstance(branch, dict)]
    if len(records) != 1:
        raise CorruptionError(f"{path} must hold records, but its schema is {root!r}.", path=path)
    return records[0]


def root_schema(header: AvroHeader, *, path: str, logical: bool = False) -> Any:
    """The schema as it was written; pypaimon-rust wraps its records into a union with null."""
    try:
        return json.loads(header.schema) if logical else without_logical_types(json.loads(header.schema))
    except ValueError as error:
        raise CorruptionError(f"The Avro schema of {path} is not JSON.", path=path) from error


class AvroWriter:
    """Builds an Avro file in memory; ``size_bytes`` is the size of the blocks compressed so far."""

    def __init__(self, schema: Mapping[str, Any], *, codec: str) -> None:
        import fastavro  # see read_records

        self._schema = fastavro.parse_schema(without_logical_types(dict(schema)))
        self._encode = fastavro.schemaless_writer
        self._compress = compressor(codec)
        text = json.dumps(schema).encode()
        self._sync = hashlib.md5(text, usedforsecurity=False).digest()  # any 16 bytes will do; these are repeatable
        header = header_bytes(text, _avro_codec(codec), self._sync)
        self._blocks = [header]
        self._pending = io.BytesIO()
        self._pending_records = 0
        self.size_bytes = len(header)

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one record."""
        self._encode(self._pending, self._schema, record)
        self._pending_records += 1
        if self._pending.tell() >= _BLOCK_BYTES:
            self._flush()

    def finish(self) -> bytes:
        """Return the whole file."""
        self._flush()
        return b"".join(self._blocks)

    def _flush(self) -> None:
        if not self._pending_records:
            return
        body = self._compress(self._pending.getvalue())
        block = block_bytes(self._pending_records, body, self._sync)
        self._blocks.append(block)
        self.size_bytes += len(block)
        self._pending = io.BytesIO()
        self._pending_records = 0


def write_records(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], *, codec: str) -> bytes:
    """Build a whole Avro file of records."""
    writer = AvroWriter(schema, codec=codec)
    for record in records:
        writer.write(record)
    return writer.finish()


def read_blocks(data: bytes, header: AvroHeader, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield each block of a file, decompressed, with the number of its records."""
    source = io.BytesIO(data)
    source.seek(header.end)
    try:
        yield from take_blocks(source.read, header, path=path)
    except BROKEN_BLOCK as error:
        raise CorruptionError(f"{path} is cut off or damaged: {error}.", path=path) from error


def take_blocks(take: Take, header: AvroHeader, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of an open file from after its header; raises one of ``BROKEN_BLOCK`` if a block is broken."""
    decompress = decompressor(header.codec, path)
    while first := take(1):
        count, _ = take_number(take, first)
        size, _ = take_number(take)
        if count < 0 or size < 0:
            raise ValueError("a block has a negative size")
        body = take(size)
        if len(body) != size or take(SYNC_BYTES) != header.sync:
            raise ValueError("a block does not end where it should")
        yield count, decompress(body)


def header_bytes(schema: bytes, codec: str, sync: bytes) -> bytes:
    """The bytes of a header."""
    pairs = ((_SCHEMA, schema), (_CODEC, codec.encode()))
    body = b"".join(write_long(len(part)) + part for pair in pairs for part in pair)
    return MAGIC + write_long(len(pairs)) + body + write_long(0) + sync


def block_bytes(count: int, body: bytes, sync: bytes) -> bytes:
    """The bytes of a block whose body is already compressed."""
    return write_long(count) + write_long(len(body)) + body + sync


def _plain_file(data: bytes, header: AvroHeader, schema: Any, *, path: str) -> Iterator[bytes]:
    """Yield the file without compression and logical types, piece by piece."""
    yield header_bytes(json.dumps(schema).encode(), "null", header.sync)
    for count, body in read_blocks(data, header, path=path):
        yield block_bytes(count, body, header.sync)


def without_logical_types(schema: Any) -> Any:
    """The schema without logical types, so that a timestamp is a plain number."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            key: without_logical_types(value) if key in {"type", "fields", "items", "values"} else value
            for key, value in schema.items()
            if key != "logicalType"
        }
    return schema


def decompressor(codec: str, path: str, *, most_bytes: int = MAX_BLOCK_BYTES) -> Callable[[bytes], bytes]:
    """The function that decompresses a block, up to a limit; InvalidInputError if the codec is not in ``CODECS``."""
    match codec:
        case "null":
            return bytes
        case "deflate":
            return lambda body: inflate(body, most_bytes)
        case "zstandard":
            return lambda body: unzstd(body, most_bytes)
        case "snappy":
            return lambda body: _unsnap_checked(body, most_bytes)
        case "bzip2":
            return lambda body: unbzip(body, most_bytes)
        case "xz":
            return lambda body: unxz(body, most_bytes)
        case _:
            raise InvalidInputError(f"{path} is compressed with {codec!r}, which this version cannot read.", path=path)


def compressor(codec: str, level: int | None = None) -> Callable[[bytes], bytes]:
    """The function that compresses a block; InvalidInputError if Avro files cannot have the codec."""
    match _avro_codec(codec):
        case "null":
            return bytes
        case "deflate":
            return lambda body: zlib.compress(body, -1 if level is None else level, -zlib.MAX_WBITS)
        case "zstandard":
            zstd = pa.Codec("zstd", compression_level=1 if level is None else level)
            return lambda body: bytes(zstd.compress(body, asbytes=True))
        case "snappy":
            snappy = pa.Codec("snappy")
            return lambda body: (
                bytes(snappy.compress(body, asbytes=True)) + zlib.crc32(body).to_bytes(_CRC_BYTES, "big")
            )
        case "bzip2":
            return bz2.compress
        case "xz":
            return lzma.compress
        case _:
            raise InvalidInputError(f"Avro files cannot be written with compression {codec!r}.", codec=codec)


def _avro_codec(codec: str) -> str:
    """Avro's name for a codec that table options name."""
    name = codec.lower()
    return {"zstd": "zstandard", "none": "null", "uncompressed": "null", "gzip": "deflate"}.get(name, name)


def _unsnap_checked(body: bytes, most_bytes: int) -> bytes:
    """Decompress a Snappy block, which in Avro ends with a checksum."""
    plain = unsnap(body[:-_CRC_BYTES], most_bytes)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != body[-_CRC_BYTES:]:
        raise ValueError("its checksum is wrong")
    return plain


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a zig-zag varint; return the number and the offset of its end."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # the last byte of a varint
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def write_long(number: int) -> bytes:
    """The bytes of a number as a zig-zag varint."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:  # seven bits per byte
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def take_number(take: Take, begun: bytes = b"") -> tuple[int, bytes]:
    """Read a number; return it and its bytes. ``begun`` is its first byte, if that is already read."""
    written = begun
    while not written or written[-1] > 0x7F:
        byte = take(1)
        if not byte or len(written) == _MAX_NUMBER_BYTES:
            raise ValueError("a number in it has no end")
        written += byte
    return read_long(written, 0)[0], written


def take_metadata(take: Take) -> dict[bytes, bytes]:
    """Read the map of a header."""
    content: dict[bytes, bytes] = {}
    while count := take_number(take)[0]:
        if count < 0:  # then the size in bytes of the map's block follows
            take_number(take)
        for _ in range(abs(count)):
            key = _take_bytes(take)
            content[key] = _take_bytes(take)
    return content


def _take_bytes(take: Take) -> bytes:
    size, _ = take_number(take)
    content = take(size) if 0 <= size <= _MAX_HEADER_BYTES else b""
    if len(content) != size:
        raise ValueError("its header cannot be read")
    return content


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read bytes or text; return them and the offset of their end."""
    size, at = read_long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


# ---- records as columns ----
# Decode Avro records to columns, many blocks at once.
#
# Records have different lengths, so within a block the next record is found only by walking through the previous one.
# But blocks do not depend on each other: there is one cursor per block, and all cursors walk through a field of their
# next record together, each step one NumPy operation over all blocks. A million manifest entries need seconds instead
# of half a minute, and fields that are not wanted cost no objects.


Longs: TypeAlias = npt.NDArray[np.int64]
_Lanes: TypeAlias = slice | Longs  # which cursors walk: the first few, or these
_Step: TypeAlias = Callable[[_Lanes], None]

_VARINT_BITS: Final = 63
_PADDING: Final = bytes(16)  # so that a cursor at the end can still read
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8, "fixed": 0}


@dataclass(slots=True, kw_only=True)
class AvroColumn:
    """One field of all records: numbers, or positions of bytes; for an array its position and its first count."""

    values: Longs  # the number; the length of bytes and text; the number of items in the first part of an array
    starts: Longs  # the offset of bytes, text or an array in the body; empty for numbers
    present: npt.NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class AvroColumns:
    """Wanted fields by their path, ``_FILE._LEVEL``; fields that the files do not have are absent."""

    file_rows: tuple[int, ...]  # the number of records of each file; the files follow one another
    body: bytes
    columns: Mapping[str, AvroColumn]


def read_columns(files: Sequence[tuple[str, bytes]], *, wanted: frozenset[str]) -> AvroColumns:
    """Decode the wanted fields of Avro files (path and content) that all have one schema."""
    headers = [read_header(data, path=path) for path, data in files]
    schema = root_schema(headers[0], path=files[0][0])
    file_blocks = [
        list(read_blocks(data, header, path=path)) for (path, data), header in zip(files, headers, strict=True)
    ]
    blocks = [block for each in file_blocks for block in each if block[0]]
    body = b"".join([content for _, content in blocks] + [_PADDING])
    try:
        walk = _Walk(body, blocks, wanted)
        walk.run(walk.compile(schema, ""))
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        for one in files if len(files) > 1 else ():  # find the file that is damaged
            read_columns([one], wanted=wanted)
        raise CorruptionError(f"A record of {files[0][0]} cannot be read: {error}.", path=files[0][0]) from error
    file_rows = tuple(sum(count for count, _ in each) for each in file_blocks)
    return AvroColumns(file_rows=file_rows, body=body, columns=walk.columns)


class _Walk:
    """The cursors, and the columns that they fill."""

    def __init__(self, body: bytes, blocks: list[tuple[int, bytes]], wanted: frozenset[str]) -> None:
        if any(count > len(block) for count, block in blocks):
            raise ValueError("its block is too short for the number of records that it states")
        counts = np.array([count for count, _ in blocks], dtype=np.int64)
        ends = np.cumsum([len(block) for _, block in blocks], dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if blocks else ends
        first_rows = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if blocks else counts
        order = np.argsort(-counts, kind="stable")  # longest first: those still walking are a prefix
        self._bytes = np.frombuffer(body, dtype=np.uint8)
        self._counts, self._ends = counts[order], ends[order]
        self._at, self._row = starts[order], first_rows[order]
        self._wanted = wanted
        self._named: dict[str, Any] = {}
        self.rows = int(counts.sum())
        self.columns: dict[str, AvroColumn] = {}

    def run(self, step: _Step) -> None:
        """Walk all cursors to the end of their blocks."""
        for done in range(int(self._counts.max(initial=0))):
            walking = slice(0, int(np.searchsorted(-self._counts, -done, side="left")))
            step(walking)
            if (self._at[walking] > self._ends[walking]).any():
                raise ValueError("it extends beyond its block")
            self._row[walking] += 1
        if not np.array_equal(self._at, self._ends):
            raise ValueError("its block does not end with a whole record")

    def compile(self, schema: Any, path: str) -> _Step:
        """The step that walks over a value of this schema; ValueError for an unsupported schema."""
        if isinstance(schema, list):
            return self._union([self.compile(branch, path) for branch in schema])
        if isinstance(schema, str) and schema in self._named:
            return self.compile(self._named[schema], path)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, list | dict):
            return self.compile(kind, path)
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = self._named[schema["name"].rpartition(".")[2]] = schema
        if kind in {"record", "array", "map"}:
            return self._nested(schema, path)
        if kind in {"int", "long", "enum"}:
            return self._number(path)
        if kind in {"bytes", "string"}:
            return self._bytes_value(path)
        if kind == "null" or (kind in _FIXED_BYTES and path not in self._wanted):
            return self._skip(schema["size"] if kind == "fixed" else _FIXED_BYTES[kind])
        raise ValueError(f"its field {path} has the unsupported type {kind}")

    def _nested(self, schema: Mapping[str, Any], path: str) -> _Step:
        match schema["type"]:
            case "record":
                prefix = f"{path}." if path else ""
                return _sequence([self.compile(field["type"], prefix + field["name"]) for field in schema["fields"]])
            case "array":
                return self._array(self.compile(schema["items"], f"{path}[]"), path)
            case _:
                entry = _sequence([self._bytes_value(f"{path}{{}}"), self.compile(schema["values"], f"{path}[]")])
                return self._array(entry, path)

    def _column(self, path: str, *, spans: bool) -> AvroColumn | None:
        if path not in self._wanted or path in self.columns:
            return self.columns.get(path)
        column = AvroColumn(
            values=np.zeros(self.rows, dtype=np.int64),
            starts=np.zeros(self.rows if spans else 0, dtype=np.int64),
            present=np.zeros(self.rows, dtype=np.bool_),
        )
        self.columns[path] = column
        return column

    def _long(self, lanes: _Lanes) -> Longs:
        at = self._at[lanes]
        byte = self._bytes[at]
        number = (byte & 0x7F).astype(np.uint64)
        at = at + 1
        more = byte >= 0x80  # the continuation bit of a varint
        shift = 7
        while more.any():
            if shift > _VARINT_BITS:
                raise ValueError("a number is too long")
            byte = np.where(more, self._bytes[at], 0).astype(np.uint8)
            number |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at += more
            more = byte >= 0x80
            shift += 7
        self._at[lanes] = at
        half: Longs = (number >> np.uint64(1)).astype(np.int64)
        return half ^ -(number & np.uint64(1)).astype(np.int64)

    def _number(self, path: str) -> _Step:
        column = self._column(path, spans=False)

        def step(lanes: _Lanes) -> None:
            number = self._long(lanes)
            if column is not None:
                rows = self._row[lanes]
                column.values[rows] = number
                column.present[rows] = True

        return step

    def _bytes_value(self, path: str) -> _Step:
        column = self._column(path, spans=True)

        def step(lanes: _Lanes) -> None:
            length = self._long(lanes)
            if (length < 0).any():
                raise ValueError("a length is negative")
            if column is not None:
                rows = self._row[lanes]
                column.values[rows], column.starts[rows] = length, self._at[lanes]
                column.present[rows] = True
            self._at[lanes] += length

        return step

    def _skip(self, size: int) -> _Step:
        def step(lanes: _Lanes) -> None:
            self._at[lanes] += size

        return step

    def _union(self, branches: list[_Step]) -> _Step:
        def step(lanes: _Lanes) -> None:
            chosen = self._long(lanes)
            first = int(chosen[0])
            if 0 <= first < len(branches) and (chosen == first).all():
                branches[first](lanes)
                return
            if ((chosen < 0) | (chosen >= len(branches))).any():
                raise ValueError("a union has no such branch")
            for number, branch in enumerate(branches):
                taken = chosen == number
                if taken.any():
                    branch(_some(lanes, taken))

        return step

    def _array(self, item: _Step, path: str) -> _Step:
        column = self._column(path, spans=True)

        def step(lanes: _Lanes) -> None:
            begin = self._at[lanes].copy()
            count = self._long(lanes)
            if column is not None:
                rows = self._row[lanes]
                column.values[rows], column.starts[rows] = count, begin
                column.present[rows] = True
            while count.any():
                if not count.all():
                    lanes, count = _some(lanes, count != 0), count[count != 0]
                sized = count < 0
                if sized.any():
                    skipped = _some(lanes, sized)
                    size = self._long(skipped)
                    self._at[skipped] += size
                for number in range(int(count.max(initial=0))):
                    goes_on = count > number
                    item(lanes if goes_on.all() else _some(lanes, goes_on))
                count = self._long(lanes)

        return step


def _some(lanes: _Lanes, chosen: npt.NDArray[np.bool_]) -> Longs:
    return np.flatnonzero(chosen) if isinstance(lanes, slice) else lanes[chosen]


def _sequence(steps: list[_Step]) -> _Step:
    def step(lanes: _Lanes) -> None:
        for one in steps:
            one(lanes)

    return step
