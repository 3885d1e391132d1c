"""How ORC compresses footers (and streams): blocks, each behind three bytes that tell its length and whether it is so.

The codecs are those that PyArrow and the standard library bring. LZO is in neither.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import pyarrow as pa

from packstone.rewrite.codecs.lz4_block import decompress_lz4_block
from packstone.rewrite.orc.protobuf import read_varint

_HEAD_BYTES: Final = 3
_RAW_DEFLATE: Final = -15
SNAPPY_MOST_RATIO: Final = 64  # the longest copy, of 64 bytes, takes three
_MAX_BLOCK_BYTES: Final = 1 << 23  # three bytes, one bit of them a flag


class OrcKind(IntEnum):
    """The codecs by their number in the postscript."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


@dataclass(frozen=True, slots=True)
class OrcCompression:
    """The codec of one file, and how long its blocks are before they are compressed."""

    kind: OrcKind
    block_bytes: int

    def decompress(self, data: bytes) -> bytes:
        """Decode a footer; ValueError if it is broken."""
        if self.kind is OrcKind.NONE:
            return data
        out, at = bytearray(), 0
        while at < len(data):
            head = int.from_bytes(data[at : at + _HEAD_BYTES], "little")
            at += _HEAD_BYTES
            block = data[at : at + (head >> 1)]
            if len(block) < head >> 1:
                raise ValueError("a compressed block ends too early")
            at += len(block)
            out += block if head & 1 else self._decompress_block(block)
        return bytes(out)

    def compress(self, data: bytes) -> bytes:
        """Encode a footer; blocks that do not get shorter stay as they are, and say so."""
        if self.kind is OrcKind.NONE:
            return data
        out = bytearray()
        step = min(self.block_bytes, _MAX_BLOCK_BYTES - 1)
        for at in range(0, len(data), step):
            plain = data[at : at + step]
            packed = self._compress_block(plain)
            is_plain = len(packed) >= len(plain)
            block = plain if is_plain else packed
            out += (len(block) << 1 | is_plain).to_bytes(_HEAD_BYTES, "little") + block
        return bytes(out)

    def _decompress_block(self, block: bytes) -> bytes:
        try:
            match self.kind:
                case OrcKind.ZLIB:
                    return zlib.decompress(block, _RAW_DEFLATE)
                case OrcKind.SNAPPY:
                    return decompress_snappy(block)
                case OrcKind.LZ4:
                    return decompress_lz4_block(block)
                case OrcKind.ZSTD | OrcKind.BROTLI:
                    with pa.CompressedInputStream(pa.BufferReader(block), self.kind.name.lower()) as stream:
                        found: bytes = stream.read()
                    return found
                case _:
                    raise ValueError(f"{self.kind.name} cannot be decoded here")
        except (zlib.error, OSError) as error:
            raise ValueError("a compressed block is broken") from error

    def _compress_block(self, block: bytes) -> bytes:
        match self.kind:
            case OrcKind.ZLIB:
                coder = zlib.compressobj(wbits=_RAW_DEFLATE)
                return coder.compress(block) + coder.flush()
            case OrcKind.SNAPPY | OrcKind.ZSTD | OrcKind.BROTLI:
                found: bytes = pa.compress(block, codec=self.kind.name.lower(), asbytes=True)
                return found
            case OrcKind.LZ4:
                packed: bytes = pa.compress(block, codec="lz4_raw", asbytes=True)
                return packed
            case _:
                return block


def decompress_snappy(block: bytes) -> bytes:
    """Decode one raw block, which begins with its length; ValueError if it is broken."""
    size_bytes, _ = read_varint(block, 0)
    if not size_bytes:
        return b""
    if size_bytes > SNAPPY_MOST_RATIO * len(block):  # no memory is asked for in the name of a damaged length
        raise ValueError("a block of Snappy is broken")
    try:
        found: bytes = pa.decompress(block, decompressed_size=size_bytes, codec="snappy", asbytes=True)
    except OSError as error:
        raise ValueError("a block of Snappy is broken") from error
    return found
