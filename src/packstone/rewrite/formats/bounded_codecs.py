"""Decompress data in memory, up to a limit that the caller sets.

A few bytes can become gigabytes, through damage or on purpose, and the size is known only after decompression. So
every function here stops at the limit and raises ``TooLongError``. ``PlainBudget`` limits the sum over the files of a
merge, to detect decompression bombs.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.sizes import MB

if TYPE_CHECKING:
    from collections.abc import Callable

RAW_DEFLATE: Final = -zlib.MAX_WBITS
GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_READ_BYTES: Final = 1 << 20
_XZ_MEMORY_BYTES: Final = 256 << 20  # a header may request gigabytes of dictionary
_SNAPPY_MOST_RATIO: Final = 64  # the longest copy, of 64 bytes, takes three bytes
_SEVEN_BITS: Final = 0x7F


class TooLongError(ValueError):
    """The decompressed data is longer than the limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"it becomes more than {most_bytes} bytes")
        self.most_bytes = most_bytes


def inflate(data: bytes, most_bytes: int, *, wbits: int = RAW_DEFLATE) -> bytes:
    """Decompress one stream of zlib, gzip or raw deflate; bytes after it are ignored, as in zlib."""
    stream = zlib.decompressobj(wbits)
    plain = stream.decompress(data, most_bytes + 1)
    if len(plain) > most_bytes:
        raise TooLongError(most_bytes)
    if not stream.eof:
        raise ValueError("it is cut off")
    return plain


def unbzip(data: bytes, most_bytes: int) -> bytes:
    """Decompress concatenated bzip2 streams."""
    return _decode_streams(data, most_bytes, bz2.BZ2Decompressor)


def unxz(data: bytes, most_bytes: int) -> bytes:
    """Decompress concatenated xz streams."""
    return _decode_streams(data, most_bytes, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES))


def unzstd(data: bytes, most_bytes: int) -> bytes:
    """Decompress concatenated zstd frames."""
    plain = bytearray()
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        while chunk := stream.read(_READ_BYTES):
            plain += chunk
            if len(plain) > most_bytes:
                raise TooLongError(most_bytes)
    return bytes(plain)


def unsnap(data: bytes, most_bytes: int) -> bytes:
    """Decompress one raw Snappy block, which begins with its length."""
    size_bytes = _snappy_length(data)
    if size_bytes > most_bytes:
        raise TooLongError(most_bytes)
    if size_bytes > _SNAPPY_MOST_RATIO * len(data):  # do not allocate memory for a damaged length
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


MOST_RATIO: Final = 64  # text and records are compressed to a tenth or a thirtieth
FREE_BYTES: Final = 64 << 20
RECORD_BYTES: Final = 16
MAX_PIECE_BYTES: Final = 128 << 20  # the limit for what is decompressed in memory as a whole: a block, column or value


class PlainBudget:
    """Limits the decompressed size of the files of one merge, to detect decompression bombs.

    One megabyte can hold gigabytes. That does not exhaust memory, because nothing is held as a whole, but it takes
    time: inputs are read twice, and records are checked one by one. So a file may become 64 times its size
    plus 64 MiB, and so may the files of a merge together; a record counts as at least 16 bytes. A merged file is about
    as long as its inputs, so it is within the limit whenever they were, and can be merged again.
    """

    def __init__(self, stored_bytes: int) -> None:
        self._stored_bytes = stored_bytes
        self._left = _most(stored_bytes)
        self._path, self._file_bytes, self._file_left = "", 0, 0

    def begin(self, path: str, stored_bytes: int) -> None:
        """Start the next file."""
        self._path, self._file_bytes, self._file_left = path, stored_bytes, _most(stored_bytes)

    def spend(self, plain_bytes: int, *, records: int = 0) -> None:
        """Count decompressed bytes and the records in them; raise if the file, or all files together, have too many."""
        spent = max(plain_bytes, RECORD_BYTES * records)
        self._left -= spent
        self._file_left -= spent
        if self._file_left < 0:
            raise UnreadableFileError(
                f"{self._path} is left alone: decompressed, its {self._file_bytes / MB:.1f} MB become more than "
                f"{_most(self._file_bytes) / MB:.1f} MB.",
                file=self._path,
            )
        if self._left < 0:
            raise UnfaithfulError(
                f"decompressed, their {self._stored_bytes / MB:.1f} MB become more than "
                f"{_most(self._stored_bytes) / MB:.1f} MB"
            )


def _most(stored_bytes: int) -> int:
    return FREE_BYTES + MOST_RATIO * stored_bytes
