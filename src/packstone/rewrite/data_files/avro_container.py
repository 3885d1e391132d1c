"""The container around Avro records: a header, then blocks of records, each compressed and closed by a sync marker.

We (de)compress blocks with PyArrow and Python's own libraries, because fastavro asks for one more package per codec.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packstone.errors import UnfaithfulError

if TYPE_CHECKING:
    from collections.abc import Iterator

SYNC_BYTES = 16
MAGIC = b"Obj\x01"
_HEADER = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": SYNC_BYTES}},
    ],
}
_CRC_BYTES = 4
_LOW, _MORE = 0x7F, 0x80  # seven bits of a number, and the bit that says that more follow
# The name in a table's options, and the one in a file's header.
CODECS = {
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
}


def read_header(source: Any) -> tuple[dict[str, Any], str, bytes]:  # noqa: ANN401 - a pyarrow file
    """Read schema, codec and sync marker; the source then stands before the first block."""
    import fastavro  # noqa: PLC0415 - an optional dependency, needed by Avro files only

    header: Any = fastavro.schemaless_reader(source, _HEADER, None)
    if header["magic"] != MAGIC:
        raise ValueError("it does not begin as Avro files do")
    meta = header["meta"]
    return json.loads(meta["avro.schema"]), meta.get("avro.codec", b"null").decode(), header["sync"]


def header_bytes(schema: Any, codec: str, sync: bytes) -> bytes:  # noqa: ANN401 - JSON
    """Write a header."""
    text = json.dumps(schema).encode()
    pairs = ((b"avro.schema", text), (b"avro.codec", codec.encode()))
    body = b"".join(encode_long(len(part)) + part for pair in pairs for part in pair)
    return MAGIC + encode_long(len(pairs)) + body + b"\x00" + sync


def read_blocks(source: Any, codec: str, sync: bytes) -> Iterator[tuple[int, bytes]]:  # noqa: ANN401 - a pyarrow file
    """Yield the number of records and their bytes, block by block."""
    while (count := _read_long(source)) is not None:
        size = _read_long(source)
        if size is None or size < 0 or count < 0:
            raise ValueError("a block has no size")
        data = source.read(size)
        if len(data) != size or source.read(SYNC_BYTES) != sync:
            raise ValueError("a block is cut off or its sync marker is wrong")
        yield count, decompress(data, codec)


def block_bytes(count: int, data: bytes, sync: bytes) -> bytes:
    """Write a block of already compressed records."""
    return encode_long(count) + encode_long(len(data)) + data + sync


def compress(data: bytes, codec: str, level: int | None) -> bytes:
    """Compress a block."""
    match codec:
        case "null":
            return data
        case "deflate":
            packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, -15)
            return packer.compress(data) + packer.flush()
        case "zstandard":
            return bytes(pa.Codec("zstd", compression_level=level).compress(data, asbytes=True))
        case "snappy":
            crc = zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
            return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + crc
    raise UnfaithfulError(f"Avro's codec {codec} is not supported")


def decompress(data: bytes, codec: str) -> bytes:
    """Decompress a block."""
    match codec:
        case "null":
            return data
        case "deflate":
            return zlib.decompress(data, -15)
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                return bytes(stream.read())
        case "snappy":
            packed = data[:-_CRC_BYTES]
            return bytes(pa.Codec("snappy").decompress(packed, _snappy_size(packed), asbytes=True))
        case "bzip2":
            return bz2.decompress(data)
        case "xz":
            return lzma.decompress(data)
    raise UnfaithfulError(f"Avro's codec {codec} is not supported")


def encode_long(value: int) -> bytes:
    """Zigzag, seven bits a byte, low end first."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > _LOW:
        out.append((rest & _LOW) | _MORE)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_long(source: Any) -> int | None:  # noqa: ANN401 - a pyarrow file
    """Read a number; None at the end of the file."""
    value = shift = 0
    while True:
        byte = source.read(1)
        if not byte:
            return None
        value |= (byte[0] & _LOW) << shift
        if byte[0] < _MORE:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _snappy_size(data: bytes) -> int:
    """Snappy begins with the size of what it holds."""
    size = shift = 0
    for byte in data:
        size |= (byte & _LOW) << shift
        if byte < _MORE:
            return size
        shift += 7
    raise ValueError("a block is no snappy data")
