"""What Hadoop's compression codecs wrote, for pieces that are held in memory.

Codecs that no library here reads (LZO among them) are not in the table: who needs to look into such a piece leaves
the file alone.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.rewrite.codecs.lz4_block import decompress_lz4_block
from packstone.storage.bounded_codecs import GZIP_OR_ZLIB, TooLongError, inflate, unbzip, unsnap, unzstd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INT: Final = struct.Struct(">I")
_BROKEN: Final = (zlib.error, lzma.LZMAError, EOFError, IndexError, OSError, struct.error, pa.ArrowException)


def decompress_piece(codec_class: str, data: bytes, *, size_bytes: int) -> bytes:
    """Decompress a piece; ValueError if it does not become exactly this many bytes."""
    plain = decompress_up_to(codec_class, data, most_bytes=size_bytes)
    if len(plain) != size_bytes:
        raise ValueError(f"{len(plain)} bytes instead of {size_bytes}")
    return plain


def decompress_up_to(codec_class: str, data: bytes, *, most_bytes: int) -> bytes:
    """Decompress a piece; ValueError if it is broken, TooLongError if it becomes more than this many bytes."""
    if not data:
        return b""
    try:
        return DECOMPRESS[codec_class](data, most_bytes)
    except _BROKEN as error:
        raise ValueError(str(error)) from error


def _in_blocks(unpack: Callable[[bytes, int], bytes]) -> Callable[[bytes, int], bytes]:
    """Codecs that cut their input into blocks: the plain size, then pieces with their compressed size each."""

    def decompress(data: bytes, most_bytes: int) -> bytes:
        plain, at = bytearray(), 0
        while at < len(data):
            (block_bytes,) = _INT.unpack_from(data, at)
            at += _INT.size
            block_end = len(plain) + block_bytes
            if block_end > most_bytes:
                raise TooLongError(most_bytes)
            while len(plain) < block_end:
                (packed_bytes,) = _INT.unpack_from(data, at)
                begin, at = at + _INT.size, at + _INT.size + packed_bytes
                piece = unpack(data[begin:at], block_end - len(plain))
                if not piece or at > len(data):
                    raise ValueError("a piece does not fit its block")
                plain += piece
        return bytes(plain)

    return decompress


_PACKAGE: Final = "org.apache.hadoop.io.compress."
DECOMPRESS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    _PACKAGE + "DefaultCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "DeflateCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "GzipCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "BZip2Codec": unbzip,
    _PACKAGE + "ZStandardCodec": unzstd,
    _PACKAGE + "SnappyCodec": _in_blocks(unsnap),
    _PACKAGE + "Lz4Codec": _in_blocks(decompress_lz4_block),
}
