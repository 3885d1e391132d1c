"""Text files into one text file, as bytes: nothing is parsed, so nothing can be changed.

A missing last newline is added, or two lines would become one. Header lines are removed only where the caller
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
            sink.write(_with_newline(header))
        for path in paths:
            _check_same_header(header, read_header(io, path, header_lines), path)
            last = b"\n"
            for chunk in read_chunks(io, path, header_lines=header_lines):
                sink.write(chunk)
                last = chunk[-1:]
            if last != b"\n":
                sink.write(b"\n")


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
    if other and _with_newline(other) != _with_newline(first):
        raise UnfaithfulError(f"{path} has another header than the first file of its group")


def _with_newline(line: bytes) -> bytes:
    return line if line.endswith(b"\n") or not line else line + b"\n"
