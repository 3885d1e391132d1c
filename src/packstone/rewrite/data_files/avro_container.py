"""The container around Avro records: a header, then blocks of records, each compressed and closed by a sync marker.

Unlike manifests, data files are read block by block from a file; codecs and numbers are those of
``packstone.storage.avro_container``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packstone.errors import UnfaithfulError
from packstone.storage.avro_container import CODECS as READABLE
from packstone.storage.avro_container import compressor, decompressor, write_long

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
    body = b"".join(write_long(len(part)) + part for pair in pairs for part in pair)
    return MAGIC + write_long(len(pairs)) + body + b"\x00" + sync


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
    return write_long(count) + write_long(len(data)) + data + sync


def compress(data: bytes, codec: str, level: int | None) -> bytes:
    """Compress a block."""
    if codec not in CODECS.values():
        raise UnfaithfulError(f"Avro's codec {codec} is not supported")
    return compressor(codec, level)(data)


def decompress(data: bytes, codec: str) -> bytes:
    """Decompress a block."""
    if codec not in READABLE:
        raise UnfaithfulError(f"Avro's codec {codec} is not supported")
    return decompressor(codec, "")(data)


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
