"""What a file of blocks is to those who copy it: a header, a marker, and pieces that are moved unchanged.

A marker is 16 bytes that a header declares and that stand between blocks, so that a reader who begins in the middle
of the file finds its way. Files have different ones: a copied block gets the marker of the file it comes to, and that
is all that changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from packstone.errors import UnfaithfulError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.block_files.byte_source import ByteSource
    from packstone.rewrite.codecs.plain_budget import PlainBudget

SYNC_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the first block."""

    begin: bytes  # all of it but the marker
    sync: bytes
    agreement: bytes  # equal in files that may be merged: all that says how blocks are read
    codec: str
    schema: bytes = b""  # of an Avro file
    is_in_blocks: bool = False  # of a SequenceFile: many records are compressed together
    classes: tuple[str, str] = ("", "")  # of a SequenceFile: of its keys and values
    columns: int = 0  # of an RCFile
    why_not: str = ""  # the reason not to touch a file that is otherwise fine


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes that are copied: whole blocks or records, or a part of a big one."""

    data: memoryview | bytes
    rows: int  # that begin here
    is_marked_before: bool = False
    is_marked_after: bool = False
    begins: bool = True  # a part of a big block that does not begin it must not be torn from the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentCheck:
    """How closely blocks are looked at before their copies are published."""

    values: bool  # follow the lengths and numbers inside; otherwise blocks are only decompressed
    text: bool  # strings must be UTF-8
    budget: PlainBudget


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

    def check_content(self, source: ByteSource, header: Header, check: ContentCheck) -> None:
        """Decompress what is compressed and, if asked for, follow all that a reader relies on to find the values."""
        ...

    def mark(self, sync: bytes) -> bytes:
        """A marker as it stands between blocks."""
        ...


def refuse_unknown_codec(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Leave files alone whose values are to be checked and whose codec no library here reads."""
    if check.values:
        raise UnfaithfulError(
            f"{source.path} is compressed by {header.codec}, which cannot be read here, so its content cannot be "
            "checked; --verify count merges it all the same"
        )
