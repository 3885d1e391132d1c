"""How ORC compresses footers (and streams): blocks, each behind three bytes that tell its length and whether it is so.

The codecs are those that PyArrow and the standard library bring. LZO is in neither.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.rewrite.codecs.lz4_block import decompress_lz4_block
from packstone.rewrite.orc.protobuf import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK_HEAD_BYTES: Final = 3
_RAW_DEFLATE: Final = -15
SNAPPY_MOST_RATIO: Final = 64  # the longest copy, of 64 bytes, takes three
MAX_BLOCK_BYTES: Final = 1 << 23  # three bytes, one bit of them a flag


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

    def decompress(self, data: bytes, *, max_bytes: int = 1 << 30) -> bytes:
        """Decode a footer or a stream; ValueError if it is broken, or longer than anybody makes it."""
        if self.kind is OrcKind.NONE:
            return data
        parts, size_bytes = [], 0
        for block, is_plain in self._blocks(data):
            parts.append(block if is_plain else self._decompress_block(block))
            size_bytes += len(parts[-1])
            if size_bytes > max_bytes:
                raise ValueError(f"{len(data)} bytes hold more than {max_bytes} when they are decoded")
        return b"".join(parts)

    def _blocks(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield each block, and whether it is stored without compression."""
        at = 0
        while at < len(data):
            head = int.from_bytes(data[at : at + BLOCK_HEAD_BYTES], "little")
            at += BLOCK_HEAD_BYTES
            block = data[at : at + (head >> 1)]
            if len(block) < head >> 1:
                raise ValueError("a compressed block ends too early")
            at += len(block)
            yield block, bool(head & 1)

    def compress(self, data: bytes) -> bytes:
        """Encode a footer or a stream; blocks that do not get shorter stay as they are, and say so."""
        return self.compress_with_positions(data, ())[0]

    def compress_with_positions(self, data: bytes, places: Sequence[int]) -> tuple[bytes, list[list[int]]]:
        """Encode, and state for some bytes of the content where a reader finds them, as a row index does.

        Each position ends with a zero: it is the begin of a run.
        """
        if self.kind is OrcKind.NONE:
            return data, [[place, 0] for place in places]
        out, starts = bytearray(), []
        step = min(self.block_bytes, MAX_BLOCK_BYTES - 1)
        for at in range(0, len(data), step):
            starts.append(len(out))
            plain = data[at : at + step]
            packed = self._compress_block(plain)
            is_plain = len(packed) >= len(plain)
            block = plain if is_plain else packed
            out += (len(block) << 1 | is_plain).to_bytes(BLOCK_HEAD_BYTES, "little") + block
        starts.append(len(out))
        return bytes(out), [[starts[place // step], place % step, 0] for place in places]

    def block_starts(self, data: bytes) -> dict[int, int]:
        """Where each block of a stream begins, and where its content does; the end too. Nothing without a codec."""
        if self.kind is OrcKind.NONE:
            return {}
        found, at, content = {}, 0, 0
        for block, is_plain in self._blocks(data):
            found[at] = content
            at += BLOCK_HEAD_BYTES + len(block)
            content += len(block if is_plain else self._decompress_block(block))
        found[at] = content
        return found

    def _decompress_block(self, block: bytes) -> bytes:
        try:
            found = self._decode(block)
        except (zlib.error, OSError) as error:
            raise ValueError("a compressed block is broken") from error
        if len(found) > self.block_bytes:
            raise ValueError(f"a compressed block holds more than {self.block_bytes} bytes")
        return found

    def _decode(self, block: bytes) -> bytes:
        """Decode a block; of one that is too long, only as much as shows it."""
        match self.kind:
            case OrcKind.ZLIB:
                decoder = zlib.decompressobj(_RAW_DEFLATE)
                plain = decoder.decompress(block, self.block_bytes + 1)
                if len(plain) <= self.block_bytes and not decoder.eof:
                    raise ValueError("a compressed block ends too early")
                return plain
            case OrcKind.SNAPPY:
                return decompress_snappy(block)  # at most 64 times as long
            case OrcKind.LZ4:
                return decompress_lz4_block(block)  # at most 255 times as long
            case OrcKind.ZSTD | OrcKind.BROTLI:
                with pa.CompressedInputStream(pa.BufferReader(block), self.kind.name.lower()) as stream:
                    found: bytes = stream.read(self.block_bytes + 1)
                return found
            case _:
                raise ValueError(f"{self.kind.name} cannot be decoded here")

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
