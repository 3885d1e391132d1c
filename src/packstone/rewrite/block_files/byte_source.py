"""The bytes of one file from its beginning to its end, each step held against the file's size.

A length that is read from a damaged file may be anything: it is compared with what is left before a single byte is
fetched, so that no memory is asked for in its name. What is big is handed out in pieces.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packstone.errors import UnreadableFileError
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

    def damaged(self, what: str) -> UnreadableFileError:
        """The error that blames this file."""
        return UnreadableFileError(f"{self.path} is damaged: {what}.", file=self.path)

    def _fetch(self, at_least: int) -> None:
        self._check_left(at_least)
        rest = self._buffer[self._at :]
        try:
            fetched = self._file.read_at(max(PIECE_BYTES, at_least - len(rest)), self._fetched)
        except OSError as error:
            raise UnreadableFileError(f"{self.path} cannot be read: {one_line(error)}.", file=self.path) from error
        self._buffer = rest + fetched
        self._at = 0
        self._fetched += len(fetched)
        if len(self._buffer) < at_least:
            raise self._cut_off()

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
