"""Decompression of pieces that are held in memory, up to a number of bytes that the caller can afford.

A few bytes can become gigabytes, by damage or on purpose, and what they become is known only by doing it. So every
function here stops behind the limit, and raises ``TooLongError``.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

RAW_DEFLATE: Final = -zlib.MAX_WBITS
GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_READ_BYTES: Final = 1 << 20
_XZ_MEMORY_BYTES: Final = 256 << 20  # a header may ask for gigabytes of dictionary
_SNAPPY_MOST_RATIO: Final = 64  # the longest copy, of 64 bytes, takes three
_SEVEN_BITS: Final = 0x7F


class TooLongError(ValueError):
    """What comes out is longer than the limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"it becomes more than {most_bytes} bytes")
        self.most_bytes = most_bytes


def inflate(data: bytes, most_bytes: int, *, wbits: int = RAW_DEFLATE) -> bytes:
    """Decompress one stream of zlib, gzip or raw deflate; bytes behind it are ignored, as zlib does."""
    stream = zlib.decompressobj(wbits)
    plain = stream.decompress(data, most_bytes + 1)
    if len(plain) > most_bytes:
        raise TooLongError(most_bytes)
    if not stream.eof:
        raise ValueError("it is cut off")
    return plain


def unbzip(data: bytes, most_bytes: int) -> bytes:
    """Decompress streams of bzip2 that follow each other."""
    return _decode_streams(data, most_bytes, bz2.BZ2Decompressor)


def unxz(data: bytes, most_bytes: int) -> bytes:
    """Decompress streams of xz that follow each other."""
    return _decode_streams(data, most_bytes, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES))


def unzstd(data: bytes, most_bytes: int) -> bytes:
    """Decompress frames of zstd that follow each other."""
    plain = bytearray()
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        while chunk := stream.read(_READ_BYTES):
            plain += chunk
            if len(plain) > most_bytes:
                raise TooLongError(most_bytes)
    return bytes(plain)


def unsnap(data: bytes, most_bytes: int) -> bytes:
    """Decompress one raw block of Snappy, which begins with its length."""
    size_bytes = _snappy_length(data)
    if size_bytes > most_bytes:
        raise TooLongError(most_bytes)
    if size_bytes > _SNAPPY_MOST_RATIO * len(data):  # no memory is asked for in the name of a damaged length
        raise ValueError("its length is wrong")
    return bytes(pa.decompress(data, decompressed_size=size_bytes, codec="snappy", asbytes=True)) if size_bytes else b""


def _snappy_length(data: bytes) -> int:
    size_bytes = shift = 0
    for byte in data:
        size_bytes |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            return size_bytes
        shift += 7
    raise ValueError("its length is wrong")


def _decode_streams(data: bytes, most_bytes: int, make: Callable[[], Any]) -> bytes:
    plain = b""
    while data:
        stream = make()
        plain += stream.decompress(data, max_length=most_bytes + 1 - len(plain))
        if len(plain) > most_bytes:
            raise TooLongError(most_bytes)
        if not stream.eof:
            raise ValueError("it is cut off")
        data = stream.unused_data
    return plain
