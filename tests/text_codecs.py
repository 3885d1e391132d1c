"""Compressed text as other programs write it; nothing here is the product's own."""

import bz2
import gzip
import struct
import zlib

import pyarrow as pa

BLOCK_BYTES = 4000


def frames(codec: str):
    """A writer of PyArrow's."""

    def compress(text: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        stream = pa.CompressedOutputStream(sink, codec)
        stream.write(text)
        stream.close()
        return sink.getvalue().to_pybytes()

    return compress


def hadoop(codec: str, *, chunks: int = 1):
    """Hadoop's blocks, each of some chunks."""

    def compress(text: bytes) -> bytes:
        out = b""
        for at in range(0, len(text), BLOCK_BYTES):
            block = text[at : at + BLOCK_BYTES]
            step = -(-len(block) // chunks)
            packed = [pa.compress(block[i : i + step], codec=codec, asbytes=True) for i in range(0, len(block), step)]
            out += struct.pack(">I", len(block)) + b"".join(struct.pack(">I", len(one)) + one for one in packed)
        return out or struct.pack(">I", 0)

    return compress


def snappy_frames(text: bytes) -> bytes:
    """Snappy's framing format, its checksums computed bit by bit."""
    out = b"\xff\x06\x00\x00sNaPpY"
    for at in range(0, len(text), 60_000):
        plain = text[at : at + 60_000]
        body = struct.pack("<I", masked_checksum(plain)) + pa.compress(plain, codec="snappy", asbytes=True)
        out += b"\x00" + struct.pack("<I", len(body))[:3] + body
    return out


def masked_checksum(data: bytes) -> int:
    """CRC-32C as its definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# By what the product calls them: the ending, and a writer.
WRITERS = {
    "gzip": ("gz", gzip.compress),
    "bzip2": ("bz2", bz2.compress),
    "zstd": ("zst", frames("zstd")),
    "lz4": ("lz4", frames("lz4")),
    "snappy": ("snappy", snappy_frames),
    "deflate": ("deflate", zlib.compress),
    "hadoop-lz4": ("lz4", hadoop("lz4_raw")),
    "hadoop-snappy": ("snappy", hadoop("snappy", chunks=3)),
}
