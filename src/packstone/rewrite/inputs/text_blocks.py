"""A text file in blocks of whole lines: those that begin in a range of bytes, so that tasks share a file."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.rewrite.inputs.input_files import InputPiece, LoadFile
    from packstone.storage.fileio import FileIO

BLOCK_BYTES: Final = 4 << 20
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = b"\n"


@contextmanager
def open_text(io: FileIO, file: LoadFile) -> Iterator[Any]:
    """Open a file for its text, whatever compresses it."""
    with io.open_input(file.path) as raw:
        if not file.codec:
            yield raw
            return
        with pa.CompressedInputStream(raw, file.codec) as plain:
            yield plain


def read_blocks(io: FileIO, piece: InputPiece) -> Iterator[bytes]:
    """Yield the lines that begin in the piece; every block ends with a line, the last perhaps without its break."""
    with open_text(io, piece.file) as file:
        at = _skip_to_line(file, piece.start)
        rest, end = b"", piece.end
        while end == -1 or at < end:
            data = file.read(BLOCK_BYTES)
            block = rest + data
            if not data:
                if block:
                    yield _without_mark(block, at)
                return
            cut = block.rfind(_NEWLINE) + 1
            if end != -1 and at + len(block) >= end:
                cut = block.find(_NEWLINE, max(0, end - 1 - at)) + 1
            if cut:
                yield _without_mark(block[:cut], at)
            rest = block[cut:]
            at += cut
            if end != -1 and at >= end:
                return


def _without_mark(block: bytes, at: int) -> bytes:
    """Leave out the mark of UTF-8 that some programs put first."""
    return block.removeprefix(_BOM) if at == 0 else block


def first_line(io: FileIO, file: LoadFile) -> bytes:
    """The first line of a file, without its break."""
    with open_text(io, file) as text:
        line = b""
        while _NEWLINE not in line:
            data = text.read(1 << 16)
            if not data:
                break
            line += data
    return line.partition(_NEWLINE)[0].removeprefix(_BOM).rstrip(b"\r")


def lines_before(io: FileIO, piece: InputPiece) -> Callable[[], int] | None:
    """A function that counts the lines before a piece, once: only the message about a bad row needs to know."""
    if piece.start == 0:
        return None

    @cache
    def count() -> int:
        with open_text(io, piece.file) as file:
            start, found = _skip_to_line(file, piece.start), 0
            file.seek(0)
            while start > 0:
                data = file.read(min(start, BLOCK_BYTES))
                found += data.count(_NEWLINE)
                start -= len(data)
        return found

    return count


def _skip_to_line(file: Any, start: int) -> int:  # noqa: ANN401 - a NativeFile
    """Go to the first line that begins at ``start`` or later; the answer is where that is."""
    if start == 0:
        return 0
    file.seek(start - 1)  # a break there: the line begins at the start itself
    at = start - 1
    while data := file.read(1 << 16):
        found = data.find(_NEWLINE)
        if found >= 0:
            file.seek(at + found + 1)
            return at + found + 1
        at += len(data)
    return at
