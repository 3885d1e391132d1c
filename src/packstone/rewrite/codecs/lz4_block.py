"""Raw LZ4 blocks, which do not say how long they are decoded: a look at their tokens does."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from packstone.storage.bounded_codecs import TooLongError

_MIN_MATCH: Final = 4
_LONG: Final = 15
_FULL: Final = 255
_OFFSET_BYTES: Final = 2


def decompress_lz4_block(data: bytes, most_bytes: int | None = None) -> bytes:
    """Decode one block; ValueError if it is none, or is longer than the limit."""
    size_bytes = lz4_decoded_bytes(data)
    if most_bytes is not None and size_bytes > most_bytes:
        raise TooLongError(most_bytes)
    if not size_bytes:
        return b""
    try:
        found: bytes = pa.decompress(data, decompressed_size=size_bytes, codec="lz4_raw", asbytes=True)
    except OSError as error:
        raise ValueError("a block of LZ4 is broken") from error
    return found


def lz4_decoded_bytes(data: bytes) -> int:
    """How many bytes a block decodes to; ValueError if it ends too early."""
    total = at = 0
    try:
        while at < len(data):
            token = data[at]
            literals, at = _read_length(data, at + 1, token >> 4)
            total += literals
            at += literals
            if at == len(data):
                return total
            at += _OFFSET_BYTES
            match, at = _read_length(data, at, token & _LONG)
            total += match + _MIN_MATCH
    except IndexError:
        raise ValueError("a block of LZ4 ends too early") from None
    raise ValueError("a block of LZ4 ends too early")


def _read_length(data: bytes, at: int, nibble: int) -> tuple[int, int]:
    length = nibble
    if nibble == _LONG:
        while True:
            more = data[at]
            at += 1
            length += more
            if more != _FULL:
                break
    return length, at
