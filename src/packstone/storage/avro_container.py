"""Avro's container file: a header with the schema, then compressed blocks of records.

fastavro decodes and encodes the records; the container is handled here, because

* PyArrow already brings zstd and snappy, so no further library is needed for them;
* a logical type would turn every timestamp into a datetime object: slow, and wrong beyond the year 9999. The schema is
  handed to fastavro without its logical types, so that a long stays the long that was written;
* a writer that rolls its files must know how many compressed bytes it has written so far.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.bounded_codecs import inflate, unbzip, unsnap, unxz, unzstd

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_BLOCK_BYTES: Final = 64_000  # Java's default distance between two sync marks
_CRC_BYTES: Final = 4
MAX_BLOCK_BYTES: Final = 256 << 20  # of a block that is decompressed; writers end a block after some hundred kilobytes
CODECS: Final = frozenset({"null", "deflate", "zstandard", "snappy", "bzip2", "xz"})  # those that can be read
BROKEN_BLOCK: Final = (IndexError, ValueError, EOFError, OSError, zlib.error, lzma.LZMAError)  # by decompressors


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroHeader:
    """What stands before the first block."""

    schema: str  # JSON, as it was written
    codec: str
    sync: bytes
    end: int  # where the first block begins


def read_header(data: bytes, *, path: str) -> AvroHeader:
    """Read the header of an Avro file; CorruptionError names the file if it is none."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise CorruptionError(f"{path} is no Avro file.", path=path)
    try:
        metadata, at = _read_map(data, len(_MAGIC))
        schema = metadata[b"avro.schema"].decode()
    except (IndexError, KeyError, ValueError) as error:
        raise CorruptionError(f"The Avro header of {path} cannot be read.", path=path) from error
    codec = metadata.get(b"avro.codec", b"null").decode(errors="replace")
    return AvroHeader(schema=schema, codec=codec, sync=data[at : at + _SYNC_BYTES], end=at + _SYNC_BYTES)


def read_records(
    data: bytes, *, path: str, wanted: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the records of an Avro file as plain values, without logical types.

    ``wanted`` gets the file's schema and returns the one to read with, usually the same with fewer fields: the others
    are skipped without being decoded.
    """
    import fastavro  # noqa: PLC0415 - executors need it for Paimon's Avro files only

    header = read_header(data, path=path)
    written, root = plain_schema(header, path=path), root_schema(header, path=path)
    plain = io.BytesIO(b"".join(_plain_file(data, header, root, path=path)))
    reader_schema: Any = None if wanted is None else dict(wanted(written))
    if reader_schema is not None and isinstance(root, list):
        reader_schema = [reader_schema if isinstance(branch, dict) else branch for branch in root]
    try:
        yield from fastavro.reader(plain, reader_schema)  # type: ignore[misc]
    except _unreadable() as error:
        raise CorruptionError(f"A record of {path} cannot be read: {error!r}.", path=path) from error


def _unreadable() -> tuple[type[Exception], ...]:
    """What fastavro raises at a damaged file."""
    from fastavro.read import SchemaResolutionError  # noqa: PLC0415 - see read_records
    from fastavro.schema import SchemaParseException, UnknownType  # noqa: PLC0415 - see read_records

    plain = (EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
    return (*plain, SchemaParseException, SchemaResolutionError, UnknownType)


def plain_schema(header: AvroHeader, *, path: str, logical: bool = False) -> dict[str, Any]:
    """The schema of a file's records, without its logical types unless asked for."""
    root = root_schema(header, path=path, logical=logical)
    records = [branch for branch in (root if isinstance(root, list) else [root]) if isinstance(branch, dict)]
    if len(records) != 1:
        raise CorruptionError(f"{path} holds no records but {root!r}.", path=path)
    return records[0]


def root_schema(header: AvroHeader, *, path: str, logical: bool = False) -> Any:  # noqa: ANN401 - JSON
    """The schema as it was written; pypaimon-rust wraps its records into a union with null."""
    try:
        return json.loads(header.schema) if logical else without_logical_types(json.loads(header.schema))
    except ValueError as error:
        raise CorruptionError(f"The Avro schema of {path} is no JSON.", path=path) from error


class AvroWriter:
    """Builds an Avro file in memory; ``size_bytes`` tells what is already compressed."""

    def __init__(self, schema: Mapping[str, Any], *, codec: str, level: int | None = None) -> None:
        import fastavro  # noqa: PLC0415 - see read_records

        self._schema = fastavro.parse_schema(without_logical_types(dict(schema)))
        self._encode = fastavro.schemaless_writer
        self._compress = compressor(codec, level)
        text = json.dumps(schema).encode()
        self._sync = hashlib.md5(text, usedforsecurity=False).digest()  # any 16 bytes will do; these are repeatable
        header = _MAGIC + _write_map({b"avro.schema": text, b"avro.codec": _avro_codec(codec).encode()}) + self._sync
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
        block = write_long(self._pending_records) + write_long(len(body)) + body + self._sync
        self._blocks.append(block)
        self.size_bytes += len(block)
        self._pending = io.BytesIO()
        self._pending_records = 0


def write_records(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], *, codec: str, level: int | None = None
) -> bytes:
    """Build a whole Avro file of records."""
    writer = AvroWriter(schema, codec=codec, level=level)
    for record in records:
        writer.write(record)
    return writer.finish()


def read_blocks(data: bytes, header: AvroHeader, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield each block of a file, decompressed, with the number of its records."""
    decompress = decompressor(header.codec, path)
    at = header.end
    while at < len(data):
        try:
            count, at = read_long(data, at)
            size, at = read_long(data, at)
            body = decompress(data[at : at + size])
        except BROKEN_BLOCK as error:
            raise CorruptionError(f"A block of {path} cannot be read: {error}.", path=path) from error
        at += size + _SYNC_BYTES
        if count < 0 or size < 0 or at > len(data) or data[at - _SYNC_BYTES : at] != header.sync:
            raise CorruptionError(f"{path} is cut off or damaged: a block does not end where it should.", path=path)
        yield count, body


def _plain_file(data: bytes, header: AvroHeader, schema: Any, *, path: str) -> Iterator[bytes]:  # noqa: ANN401 - JSON
    """The same file without compression and logical types, piece by piece."""
    yield _MAGIC + _write_map({b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}) + header.sync
    for count, body in read_blocks(data, header, path=path):
        yield write_long(count) + write_long(len(body)) + body + header.sync


def without_logical_types(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The same schema, in which a timestamp is but a number."""
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
    """How a block of a codec is decompressed, up to a limit; InvalidInputError if it is not one of ``CODECS``."""
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


def compressor(codec: str, level: int | None) -> Callable[[bytes], bytes]:
    """How a block is compressed; InvalidInputError if the codec is not one that Avro files can have."""
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
    """Avro's own word for a compression as table options name it."""
    name = codec.lower()
    return {"zstd": "zstandard", "none": "null", "uncompressed": "null", "gzip": "deflate"}.get(name, name)


def _unsnap_checked(body: bytes, most_bytes: int) -> bytes:
    """Decompress a block of Snappy, which Avro lets end with a checksum."""
    plain = unsnap(body[:-_CRC_BYTES], most_bytes)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != body[-_CRC_BYTES:]:
        raise ValueError("its checksum is wrong")
    return plain


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Avro's number, a zig-zag varint, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def write_long(number: int) -> bytes:
    """Avro's number: zig-zag, seven bits a byte, low end first."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_map(data: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    content: dict[bytes, bytes] = {}
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return content, at
        if count < 0:  # then the size of the block in bytes follows
            _, at = read_long(data, at)
        for _ in range(abs(count)):
            key, at = read_bytes(data, at)
            content[key], at = read_bytes(data, at)


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Avro's bytes or text, and where they end."""
    size, at = read_long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


def _write_map(content: Mapping[bytes, bytes]) -> bytes:
    pieces = [write_long(len(content))]
    for key, value in content.items():
        pieces += [write_long(len(key)), key, write_long(len(value)), value]
    return b"".join([*pieces, write_long(0)])
