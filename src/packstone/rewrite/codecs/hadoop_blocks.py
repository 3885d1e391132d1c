"""Hadoop's own framing of Snappy and LZ4, in which Hive and Spark write text: blocks without magic or checksum.

::

    length before compression (4 bytes, big end first) | length of a chunk (4 bytes) | chunk | length | chunk …

A block has as many chunks as it takes to fill its length. Nothing stands before the first block or behind the last, so
files of this framing are joined by putting them behind each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LENGTH_BYTES: Final = 4
# Hadoop's decoders have buffers of 256 KiB; a block as long as this fits, compressed or not.
_BLOCK_BYTES: Final = 64 << 10
_MAX_BLOCK_BYTES: Final = 128 << 20


def read_hadoop_blocks(source: Any, decompress: Callable[[bytes, int], bytes]) -> Iterator[bytes]:  # noqa: ANN401 - a file
    """Yield the decoded chunks; ValueError if the file is cut or is no such file.

    A chunk is decompressed up to what is left of its block, so that it cannot become more.
    """
    while head := source.read(_LENGTH_BYTES):
        left = _length(head)
        while left:
            chunk_bytes = _length(source.read(_LENGTH_BYTES))
            chunk = source.read(chunk_bytes)
            if len(chunk) < chunk_bytes:
                raise ValueError("it ends within a block")
            plain = decompress(chunk, left)
            if not plain:
                raise ValueError("a block has another length than it says")
            left -= len(plain)
            yield plain


def write_hadoop_blocks(data: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    """Encode bytes as blocks of one chunk each."""
    out = bytearray()
    for at in range(0, len(data), _BLOCK_BYTES):
        plain = data[at : at + _BLOCK_BYTES]
        packed = compress(plain)
        out += len(plain).to_bytes(_LENGTH_BYTES, "big") + len(packed).to_bytes(_LENGTH_BYTES, "big") + packed
    return bytes(out)


def _length(data: bytes) -> int:
    if len(data) < _LENGTH_BYTES:
        raise ValueError("it ends within a length")
    found = int.from_bytes(data, "big")
    if found > _MAX_BLOCK_BYTES:
        raise ValueError("a length is longer than any block")
    return found
