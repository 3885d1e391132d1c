"""What Hadoop's compression codecs wrote, for small pieces whose size is known.

Codecs that no library here reads (LZO among them) are not in the table: who needs to look into such a piece leaves
the file alone.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.rewrite.lz4_block import decompress_lz4_block
from packstone.rewrite.orc_compression import decompress_snappy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INT: Final = struct.Struct(">I")
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32


def decompress_piece(codec_class: str, data: bytes, *, size_bytes: int) -> bytes:
    """Decompress a piece; ValueError if it does not become exactly so many bytes."""
    try:
        plain = DECOMPRESS[codec_class](data, size_bytes)
    except (zlib.error, EOFError, IndexError, OSError, struct.error, pa.ArrowException) as error:
        raise ValueError(str(error)) from error
    if len(plain) != size_bytes:
        raise ValueError(f"{len(plain)} bytes instead of {size_bytes}")
    return plain


def _inflate(data: bytes, size_bytes: int) -> bytes:
    # One more than wanted, so that too much is noticed without being held.
    return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(data, size_bytes + 1)


def _unbzip(data: bytes, size_bytes: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, size_bytes + 1)


def _unzstd(data: bytes, size_bytes: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(size_bytes + 1))


def _in_blocks(unpack: Callable[[bytes], bytes]) -> Callable[[bytes, int], bytes]:
    """Codecs that cut their input into blocks: the plain size, then pieces with their compressed size each."""

    def decompress(data: bytes, size_bytes: int) -> bytes:
        plain, at = bytearray(), 0
        while at < len(data):
            (block_bytes,) = _INT.unpack_from(data, at)
            at += _INT.size
            block_end = len(plain) + block_bytes
            if block_end > size_bytes:
                raise ValueError("a block is too big")
            while len(plain) < block_end:
                (packed_bytes,) = _INT.unpack_from(data, at)
                piece = unpack(data[at + _INT.size : at + _INT.size + packed_bytes])
                at += _INT.size + packed_bytes
                if not piece or len(plain) + len(piece) > block_end:
                    raise ValueError("a piece does not fit its block")
                plain += piece
        return bytes(plain)

    return decompress


_PACKAGE: Final = "org.apache.hadoop.io.compress."
DECOMPRESS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    _PACKAGE + "DefaultCodec": _inflate,
    _PACKAGE + "DeflateCodec": _inflate,
    _PACKAGE + "GzipCodec": _inflate,
    _PACKAGE + "BZip2Codec": _unbzip,
    _PACKAGE + "ZStandardCodec": _unzstd,
    _PACKAGE + "SnappyCodec": _in_blocks(decompress_snappy),
    _PACKAGE + "Lz4Codec": _in_blocks(decompress_lz4_block),
}
