"""How Hadoop writes numbers, texts and metadata in the headers of its files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packstone.rewrite.block_files.byte_source import ByteSource

SYNC_ESCAPE = b"\xff\xff\xff\xff"  # a length of -1: a marker follows, no record

_INT = struct.Struct(">i")
_MAX_TEXT_BYTES = 1 << 20
_MAX_METADATA = 10_000
_ONE_BYTE = -112  # what is not below is itself a number
_NEGATIVE = -120  # what is below begins a negative number


def read_int(source: ByteSource) -> int:
    """Four bytes, high end first."""
    return int(_INT.unpack(source.take(_INT.size))[0])


def vlong_size(first: int) -> int:
    """How many bytes a number of variable length has, its first one included, by that first one (0 to 255)."""
    signed = first - 256 if first > 127 else first  # noqa: PLR2004 - Java's bytes have signs
    if signed >= _ONE_BYTE:
        return 1
    return _ONE_BYTE - signed + 1 if signed >= _NEGATIVE else _NEGATIVE - signed + 1


def parse_vlong(written: bytes) -> int:
    """A number of variable length from exactly its bytes."""
    first = written[0] - 256 if written[0] > 127 else written[0]  # noqa: PLR2004 - Java's bytes have signs
    if len(written) == 1:
        return first
    value = int.from_bytes(written[1:], "big")
    return ~value if first < _NEGATIVE else value


def read_vlong(source: ByteSource) -> tuple[int, bytes]:
    """A number of variable length, and the bytes it was written in."""
    written = source.take(vlong_size(source.window()[0]))
    return parse_vlong(written), written


def read_text(source: ByteSource) -> str:
    """A text with its length before it."""
    size, _ = read_vlong(source)
    if not 0 <= size <= _MAX_TEXT_BYTES:
        raise source.damaged("its header cannot be read")
    return source.take(size).decode("utf-8", "replace")


def read_flag(source: ByteSource) -> bool:
    """One byte, 0 or 1."""
    flag = source.take(1)
    if flag not in (b"\0", b"\1"):
        raise source.damaged("its header cannot be read")
    return flag == b"\1"


def read_metadata(source: ByteSource) -> dict[str, str]:
    """Pairs of texts with their number before them."""
    count = read_int(source)
    if not 0 <= count <= _MAX_METADATA:
        raise source.damaged("its header cannot be read")
    pairs = ((read_text(source), read_text(source)) for _ in range(count))
    return dict(pairs)
