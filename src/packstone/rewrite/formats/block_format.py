"""The interface of formats whose blocks can be copied: a header, a marker, and pieces that are moved unchanged.

A marker is 16 bytes that a header declares and that are written between blocks, so that a reader that starts in the
middle of the file can find the next block. Each file has its own: a copied block gets the marker of its new file, and
nothing else changes.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.sizes import MB
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.bounded_codecs import MAX_PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.rewrite.formats.bounded_codecs import PlainBudget
    from packstone.storage.fileio import FileIO

SYNC_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a file."""

    begin: bytes  # the header without the marker
    sync: bytes
    agreement: bytes  # equal in files that may be merged: everything that determines how blocks are read
    codec: str
    schema: bytes = b""  # Avro only
    is_in_blocks: bool = False  # SequenceFile only: many records are compressed together
    classes: tuple[str, str] = ("", "")  # SequenceFile only: the classes of keys and values
    columns: int = 0  # RCFile only
    why_not: str = ""  # the reason not to merge a file that is otherwise fine


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes that are copied: whole blocks or records, or a part of a big block."""

    data: memoryview | bytes
    rows: int  # rows that begin in this piece
    is_marked_before: bool = False
    is_marked_after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentCheck:
    """How thoroughly blocks are checked before their copies are published."""

    values: bool  # follow the lengths and numbers inside; if False, blocks are only decompressed
    text: bool  # strings must be UTF-8
    budget: PlainBudget


class BlockFormat(Protocol):
    """A format whose blocks can be copied; UnreadableFileError names a file that is damaged."""

    @property
    def mark_before_bytes(self) -> int:
        """Write a marker before the next file's blocks after this many bytes without one; 0 for never."""
        ...

    def read_header(self, source: ByteSource) -> Header:
        """Read a header; the source is then positioned at the first block."""
        ...

    def read_pieces(self, source: ByteSource, header: Header) -> Iterator[Piece]:
        """Yield the pieces to copy, up to the last byte of the file; markers are checked and left out."""
        ...

    def check_contents(self, files: Iterable[tuple[ByteSource, Header]], check: ContentCheck) -> None:
        """Decompress the blocks and, if requested, check everything that a reader relies on to find the values.

        A file is open until the next one is requested.
        """
        ...

    def mark(self, sync: bytes) -> bytes:
        """The bytes of a marker as written between blocks."""
        ...


def refuse_unknown_codec(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Refuse a file whose values must be checked but whose codec no installed library reads."""
    if check.values:
        raise UnfaithfulError(
            f"{source.path} is compressed with {header.codec}, which Packstone cannot read, so its content cannot be "
            "checked; --verify count merges it without that check"
        )


PIECE_BYTES = 1 << 20


class ByteSource:
    """Reads one file from beginning to end, checking every length against the file's size.

    A length that is read from a damaged file may be any number: it is compared with the remaining bytes before
    anything is read, so that no memory is allocated for it. Long content is returned in pieces.
    """

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self.path = path
        self._size_bytes: int = file.size()
        self._buffer = b""
        self._at = 0
        self._fetched = 0

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._size_bytes

    @property
    def position(self) -> int:
        """The number of bytes taken so far."""
        return self._fetched - len(self._buffer) + self._at

    @property
    def left_bytes(self) -> int:
        """The number of remaining bytes."""
        return self._size_bytes - self.position

    def window(self, at_least: int = 1) -> memoryview:
        """The next bytes, without taking them: at least this many, usually many more."""
        if len(self._buffer) - self._at < at_least:
            self._fetch(at_least)
        return memoryview(self._buffer)[self._at :]

    def skip(self, size: int) -> None:
        """Take bytes that a window returned."""
        self._at += size

    def take(self, size: int) -> bytes:
        """Take ``size`` bytes."""
        taken = bytes(self.window(size)[:size])
        self._at += size
        return taken

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Take ``size`` bytes, in pieces that fit in memory whatever their total size."""
        self._check_left(size)
        while size:
            piece = self.window()[:size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def read_begin(self) -> bytes:
        """Read again all bytes taken so far."""
        return bytes(self._file.read_at(self.position, 0))

    def take_piece(self, size: int) -> bytes:
        """Take bytes that are decompressed or checked as a whole; UnreadableFileError if they are too many."""
        if size > MAX_PIECE_BYTES:
            raise self.too_long()
        begun = len(self._buffer) - self._at
        if size <= max(PIECE_BYTES, begun):
            return self.take(size)
        self._check_left(size)
        # Read directly: a window would hold two more copies of it.
        piece = self._buffer[self._at :] + self._read(size - begun)
        self._buffer, self._at = b"", 0
        if len(piece) < size:
            raise self._cut_off()
        return piece

    def too_long(self) -> UnreadableFileError:
        """The error for a file that is not merged because a part of it is too long to be checked."""
        return UnreadableFileError(
            f"{self.path} is left alone: a part of it has more than {MAX_PIECE_BYTES // MB} MB, the limit for "
            "decompressing and checking at once.",
            file=self.path,
        )

    def damaged(self, what: str) -> UnreadableFileError:
        """The error that reports damage in this file."""
        return UnreadableFileError(f"{self.path} is damaged: {what}.", file=self.path)

    def _fetch(self, at_least: int) -> None:
        self._check_left(at_least)
        rest = self._buffer[self._at :]
        self._buffer = rest + self._read(max(PIECE_BYTES, at_least - len(rest)))
        self._at = 0
        if len(self._buffer) < at_least:
            raise self._cut_off()

    def _read(self, size: int) -> bytes:
        try:
            fetched: bytes = self._file.read_at(size, self._fetched)
        except OSError as error:
            raise UnreadableFileError(f"{self.path} cannot be read: {one_line(error)}.", file=self.path) from error
        self._fetched += len(fetched)
        return fetched

    def _check_left(self, size: int) -> None:
        if size > self.left_bytes:
            raise self._cut_off()

    def _cut_off(self) -> UnreadableFileError:
        return UnreadableFileError(f"{self.path} is cut off, or a length in it is damaged.", file=self.path)


@contextmanager
def open_source(io: FileIO, path: str) -> Iterator[ByteSource]:
    """Open a file for reading from beginning to end."""
    try:
        file = io.open_input(path)
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error
    with file:
        yield ByteSource(file, path)
