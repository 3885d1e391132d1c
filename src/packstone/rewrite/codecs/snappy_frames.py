"""Snappy's framing format: chunks behind four bytes of kind and length, with a checksum each.

The mark with which a file begins may come again, so files are joined by putting them behind each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.storage.bounded_codecs import unsnap

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK: Final = b"\xff\x06\x00\x00sNaPpY"
_HEAD_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4
_PLAIN_BYTES: Final = 1 << 16
_COMPRESSED: Final = 0x00
_STORED: Final = 0x01
_LAST_UNSKIPPABLE: Final = 0x7F


def _make_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C: Final = _make_table()


def read_snappy_frames(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - a pyarrow file
    """Yield the decoded chunks, each held against its checksum; ValueError if one is broken or cut."""
    if source.read(len(MARK)) != MARK:
        raise ValueError("it does not begin as Snappy frames do")
    while head := source.read(_HEAD_BYTES):
        size_bytes = int.from_bytes(head[1:], "little")
        body = source.read(size_bytes)
        if len(head) < _HEAD_BYTES or len(body) < size_bytes:
            raise ValueError("it ends within a frame")
        if head[0] > _LAST_UNSKIPPABLE:
            if head[0] == MARK[0] and head + body != MARK:
                raise ValueError("a mark in the middle is broken")
            continue
        if head[0] not in (_COMPRESSED, _STORED):
            raise ValueError(f"a frame is of the unknown kind {head[0]}")
        plain = body[_CHECKSUM_BYTES:]
        if head[0] == _COMPRESSED:
            plain = unsnap(plain, _PLAIN_BYTES)
        if masked_crc32c(plain) != int.from_bytes(body[:_CHECKSUM_BYTES], "little"):
            raise ValueError("a frame has another checksum than it says")
        yield plain


def write_snappy_frames(data: bytes) -> bytes:
    """Encode bytes as a file of frames."""
    out = bytearray(MARK)
    for at in range(0, len(data), _PLAIN_BYTES):
        plain = data[at : at + _PLAIN_BYTES]
        packed: bytes = pa.compress(plain, codec="snappy", asbytes=True)
        body = masked_crc32c(plain).to_bytes(_CHECKSUM_BYTES, "little") + packed
        out += bytes((_COMPRESSED,)) + len(body).to_bytes(_HEAD_BYTES - 1, "little") + body
    return bytes(out)


def masked_crc32c(data: bytes) -> int:
    """The checksum of the framing format: CRC-32C, turned and moved so that checksums of checksums stay good."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
