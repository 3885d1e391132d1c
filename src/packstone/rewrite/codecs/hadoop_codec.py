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

from packstone.rewrite.codecs.lz4_block import decompress_lz4_block
from packstone.rewrite.orc.compression import decompress_snappy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INT: Final = struct.Struct(">I")
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_BROKEN: Final = (zlib.error, EOFError, IndexError, OSError, struct.error, pa.ArrowException)
MOST_BYTES: Final = 16 << 20  # bigger pieces are not decompressed for a check alone
_MOST_PLAIN_BYTES: Final = 64 << 20  # nor is more of the others


def decompress_piece(codec_class: str, data: bytes, *, size_bytes: int) -> bytes:
    """Decompress a piece; ValueError if it does not become exactly so many bytes."""
    try:
        plain = DECOMPRESS[codec_class](data, size_bytes)
    except _BROKEN as error:
        raise ValueError(str(error)) from error
    if len(plain) != size_bytes:
        raise ValueError(f"{len(plain)} bytes instead of {size_bytes}")
    return plain


def check_piece(codec_class: str, data: bytes) -> None:
    """ValueError if a piece, which becomes nobody knows how many bytes, cannot be decompressed."""
    if codec_class not in DECOMPRESS:
        return
    try:
        DECOMPRESS[codec_class](data, _MOST_PLAIN_BYTES)
    except _BROKEN as error:
        raise ValueError(str(error)) from error


def _inflate(data: bytes, size_bytes: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    # One more than wanted, so that too much is noticed without being held.
    plain = stream.decompress(data, size_bytes + 1)
    return _ended(plain, size_bytes, has_ended=stream.eof or not data)


def _unbzip(data: bytes, size_bytes: int) -> bytes:
    stream = bz2.BZ2Decompressor()
    plain = stream.decompress(data, size_bytes + 1)
    return _ended(plain, size_bytes, has_ended=stream.eof or not data)


def _ended(plain: bytes, size_bytes: int, *, has_ended: bool) -> bytes:
    if len(plain) <= size_bytes and not has_ended:
        raise ValueError("it is cut off")
    return plain


def _unzstd(data: bytes, size_bytes: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(size_bytes + 1))


def _in_blocks(unpack: Callable[[bytes], bytes]) -> Callable[[bytes, int], bytes]:
    """Codecs that cut their input into blocks: the plain size, then pieces with their compressed size each."""

    def decompress(data: bytes, size_bytes: int) -> bytes:  # noqa: ARG001 - what comes out is bounded by what went in
        plain, at = bytearray(), 0
        while at < len(data):
            (block_bytes,) = _INT.unpack_from(data, at)
            at += _INT.size
            block_end = len(plain) + block_bytes
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
