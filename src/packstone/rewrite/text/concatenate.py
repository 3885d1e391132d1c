"""Text files into one text file, as bytes: nothing is parsed, so nothing can be changed.

A missing last newline is added, or two lines would become one: the line end that the file's first line has, CRLF or LF.
Header lines are removed only where the caller
says how many there are; the first file's header stays, and every other file must have the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

_CHUNK_BYTES = 4 << 20
_MAX_HEADER_BYTES = 1 << 20


def concatenate_text(io: FileIO, paths: Sequence[str], output: str, *, header_lines: int) -> None:
    """Write the bytes of all inputs behind each other, the header once."""
    header = read_header(io, paths[0], header_lines)
    with io.open_output(output) as sink:
        if header:
            sink.write(with_line_end(header))
        for path in paths:
            _check_same_header(header, read_header(io, path, header_lines), path)
            for chunk in read_lines(io, path, header_lines=header_lines):
                sink.write(chunk)


def read_lines(io: FileIO, path: str, *, header_lines: int) -> Iterator[bytes]:
    """Yield the body of a text file, its last line completed."""
    header = read_header(io, path, header_lines)
    return complete_lines(read_chunks(io, path, header_lines=header_lines), header=header)


def complete_lines(chunks: Iterator[bytes], *, header: bytes = b"") -> Iterator[bytes]:
    """Yield a text, and the line end that its last line lacks."""
    ends = LineEnds(header)
    for chunk in chunks:
        ends.see(chunk)
        yield chunk
    if missing := ends.missing():
        yield missing


class LineEnds:
    """How the first line of a text ends, which may be one of its header, and whether the last one does."""

    def __init__(self, header: bytes = b"") -> None:
        self._first, self._last = b"", b"\n"
        self.see(header)
        self._last = b"\n"

    def see(self, chunk: bytes) -> None:
        """Look at the next piece of the text."""
        if not self._first and (newline := chunk.find(b"\n")) >= 0:
            before = chunk[newline - 1 : newline] if newline else self._last
            self._first = b"\r\n" if before == b"\r" else b"\n"
        self._last = chunk[-1:] or self._last

    def missing(self) -> bytes:
        """What the last line lacks; nothing if it ends with a newline."""
        if self._last == b"\n":
            return b""
        return b"\n" if self._last == b"\r" else self._first or b"\n"


def read_chunks(io: FileIO, path: str, *, header_lines: int) -> Iterator[bytes]:
    """Yield the body of a text file; UnreadableFileError if it turns out not to be text."""
    try:
        with io.open_input(path) as source:
            source.seek(len(_read_header_from(source, path, header_lines)))
            while chunk := source.read(_CHUNK_BYTES):
                if b"\0" in chunk:
                    raise UnreadableFileError(f"{path} holds NUL bytes, so it is no text file.", file=path)
                yield chunk
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error


def read_header(io: FileIO, path: str, header_lines: int) -> bytes:
    """Read the first lines of a file, with their newlines."""
    if header_lines == 0:
        return b""
    with io.open_input(path) as source:
        return _read_header_from(source, path, header_lines)


def _read_header_from(source: Any, path: str, header_lines: int) -> bytes:  # noqa: ANN401 - a pyarrow file
    head: bytes = source.read_at(min(_MAX_HEADER_BYTES, source.size()), 0) if header_lines else b""
    end = 0
    for _ in range(header_lines):
        newline = head.find(b"\n", end)
        if newline < 0:
            if len(head) == _MAX_HEADER_BYTES:
                raise UnfaithfulError(f"{path} has no {header_lines} header lines in its first megabyte")
            return head
        end = newline + 1
    return head[:end]


def _check_same_header(first: bytes, other: bytes, path: str) -> None:
    if other and with_line_end(other) != with_line_end(first):
        raise UnfaithfulError(f"{path} has another header than the first file of its group")


def with_line_end(lines: bytes) -> bytes:
    """Complete the last of some lines."""
    return b"".join(complete_lines(iter((lines,) if lines else ())))
