"""The bytes of one file from its beginning to its end, each step held against the file's size.

A length that is read from a damaged file may be anything: it is compared with what is left before a single byte is
fetched, so that no memory is asked for in its name. What is big is handed out in pieces.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packstone.errors import UnreadableFileError
from packstone.model.megabytes import MB
from packstone.rewrite.codecs.plain_budget import MAX_PIECE_BYTES
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

PIECE_BYTES = 1 << 20


class ByteSource:
    """One file, read forwards."""

    def __init__(self, file: Any, path: str) -> None:  # noqa: ANN401 - a pyarrow file
        self._file = file
        self.path = path
        self._size_bytes: int = file.size()
        self._buffer = b""
        self._at = 0
        self._fetched = 0

    @property
    def size_bytes(self) -> int:
        """How long the file is."""
        return self._size_bytes

    @property
    def position(self) -> int:
        """How many bytes were taken."""
        return self._fetched - len(self._buffer) + self._at

    @property
    def left_bytes(self) -> int:
        """How many bytes are left."""
        return self._size_bytes - self.position

    def window(self, at_least: int = 1) -> memoryview:
        """Show what comes next without taking it: so many bytes, usually many more."""
        if len(self._buffer) - self._at < at_least:
            self._fetch(at_least)
        return memoryview(self._buffer)[self._at :]

    def skip(self, size: int) -> None:
        """Take what a window showed."""
        self._at += size

    def take(self, size: int) -> bytes:
        """Take so many bytes."""
        taken = bytes(self.window(size)[:size])
        self._at += size
        return taken

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Take so many bytes, in pieces that fit the memory whatever their sum is."""
        self._check_left(size)
        while size:
            piece = self.window()[:size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def skip_far(self, size: int) -> None:
        """Take so many bytes and forget them."""
        for _ in self.pieces(size):
            pass

    def read_begin(self) -> bytes:
        """Read once more what was taken so far."""
        return bytes(self._file.read_at(self.position, 0))

    def take_piece(self, size: int) -> bytes:
        """Take bytes that are decompressed or looked into as a whole; UnreadableFileError if they are too many."""
        if size > MAX_PIECE_BYTES:
            raise self.too_long()
        begun = len(self._buffer) - self._at
        if size <= max(PIECE_BYTES, begun):
            return self.take(size)
        self._check_left(size)
        # Read into its place at once: as a window it would be held two times more.
        piece = self._buffer[self._at :] + self._read(size - begun)
        self._buffer, self._at = b"", 0
        if len(piece) < size:
            raise self._cut_off()
        return piece

    def too_long(self) -> UnreadableFileError:
        """The error that leaves this file alone because a part of it is too long to be checked."""
        return UnreadableFileError(
            f"{self.path} is left alone: a part of it has more than {MAX_PIECE_BYTES // MB} MB, which is the most "
            "that is decompressed and checked at once.",
            file=self.path,
        )

    def damaged(self, what: str) -> UnreadableFileError:
        """The error that blames this file."""
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
    """Open a file to be read forwards."""
    try:
        file = io.open_input(path)
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error
    with file:
        yield ByteSource(file, path)
