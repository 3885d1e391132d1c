"""What a file of blocks is to those who copy it: a header, a marker, and pieces that are moved unchanged.

A marker is 16 bytes that a header declares and that stand between blocks, so that a reader who begins in the middle
of the file finds its way. Files have different ones: a copied block gets the marker of the file it comes to, and that
is all that changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.block_files.byte_source import ByteSource

SYNC_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the first block."""

    begin: bytes  # all of it but the marker
    sync: bytes
    agreement: bytes  # equal in files that may be merged: all that says how blocks are read
    codec: str
    is_in_blocks: bool = False  # of a SequenceFile: many records are compressed together
    why_not: str = ""  # the reason not to touch a file that is otherwise fine


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes that are copied: whole blocks or records, or a part of a big one."""

    data: memoryview | bytes
    rows: int  # that begin here
    is_marked_before: bool = False
    is_marked_after: bool = False
    begins: bool = True  # a part of a big block that does not begin it must not be torn from the one before


class BlockFormat(Protocol):
    """A format whose blocks can be copied; UnreadableFileError blames a file that is not as it should be."""

    @property
    def mark_before_bytes(self) -> int:
        """Without a marker for so long, one is written before the next file's blocks; 0 for never."""
        ...

    def read_header(self, source: ByteSource) -> Header:
        """Read a header; the source then stands at the first block."""
        ...

    def read_pieces(self, source: ByteSource, header: Header) -> Iterator[Piece]:
        """Yield what is to be copied, up to the last byte of the file; markers are checked and left out."""
        ...

    def check_packed(self, source: ByteSource, header: Header) -> None:
        """Decompress what is compressed, if it is not giant; no value is decoded."""
        ...

    def mark(self, sync: bytes) -> bytes:
        """A marker as it stands between blocks."""
        ...
