"""Merge text files by concatenating their bytes: nothing is parsed, so nothing can change.

If a file's last newline is missing, it is added, because two lines would become one otherwise: with the line end of the
file's first line, CRLF or LF. Header lines are removed only where the caller says how many there are; the first file's
header stays, and every other file must have the same one.

The lines keep their order, so the proof compares the output with the inputs, byte for byte, and records a digest of the
text. Earlier versions recorded the sum of the hashes of all lines, which costs more; what they merged
(``Written.ordered`` is False in their journals) is still verified that way.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from packstone.errors import UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.unit import Fingerprint, How
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.proof.fingerprint import fingerprint_lines
from packstone.rewrite.proof.ordered_digest import PartsDigest, digest_parts
from packstone.rewrite.small_files.merge_unit import Written, check_copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.ordered_digest import Part
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the bytes of all inputs one after another."""
    concatenate_text(io, paths, output, header_lines=spec.header_lines)
    return Written(how=How.CONCATENATE, ordered=True, header_lines=spec.header_lines)


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Do nothing: ``write`` reads every input completely."""


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:
    """Count lines."""
    return count_text(io, paths, header_lines=written.header_lines)


def compare_copy(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> Fingerprint | None:
    """Compare the lines of the inputs with the output."""
    lines = written.header_lines
    before = (chunk for path in paths for chunk in read_lines(io, path, header_lines=lines))
    after = ((chunk, 0) for chunk in read_chunks(io, output, header_lines=lines))
    digest = PartsDigest(text_digest())
    check_copied(digest.update(count_lines(before)), after, output=output)
    return digest.finish()


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Fingerprint lines."""
    texts = (read_lines(io, path, header_lines=written.header_lines) for path in paths)
    return fingerprint_texts(texts, ordered=written.ordered)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Check that the output begins with the first input's header."""
    check_same_header(io, paths, output, header_lines=written.header_lines)


def read_through(io: FileIO, path: str) -> None:
    """Read all bytes."""
    for _ in read_chunks(io, path, header_lines=0):
        pass


_CHUNK_BYTES = 4 << 20
_MAX_HEADER_BYTES = 1 << 20


def concatenate_text(io: FileIO, paths: Sequence[str], output: str, *, header_lines: int) -> None:
    """Write the bytes of all inputs one after another, the header once."""
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
    """Yield a text and, if its last line has no line end, the missing one."""
    ends = LineEnds(header)
    for chunk in chunks:
        ends.add(chunk)
        yield chunk
    if missing := ends.missing():
        yield missing


class LineEnds:
    """How the first line of a text (header included) ends, and whether the last line has an end."""

    def __init__(self, header: bytes = b"") -> None:
        self._first, self._last = b"", b"\n"
        self.add(header)
        self._last = b"\n"

    def add(self, chunk: bytes) -> None:
        """Inspect the next chunk of the text."""
        if not self._first and (newline := chunk.find(b"\n")) >= 0:
            before = chunk[newline - 1 : newline] if newline else self._last
            self._first = b"\r\n" if before == b"\r" else b"\n"
        self._last = chunk[-1:] or self._last

    def missing(self) -> bytes:
        """Return the line end missing from the last line; empty if it has one."""
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
                    raise UnreadableFileError(f"{path} holds NUL bytes, so it is not a text file.", file=path)
                yield chunk
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error


def read_header(io: FileIO, path: str, header_lines: int) -> bytes:
    """Read the first lines of a file, with their newlines."""
    if header_lines == 0:
        return b""
    with io.open_input(path) as source:
        return _read_header_from(source, path, header_lines)


def _read_header_from(source: Any, path: str, header_lines: int) -> bytes:
    head: bytes = source.read_at(min(_MAX_HEADER_BYTES, source.size()), 0) if header_lines else b""
    end = 0
    for _ in range(header_lines):
        newline = head.find(b"\n", end)
        if newline < 0:
            if len(head) == _MAX_HEADER_BYTES:
                raise UnfaithfulError(f"{path} does not have {header_lines} header lines in its first megabyte")
            return head
        end = newline + 1
    return head[:end]


def _check_same_header(first: bytes, other: bytes, path: str) -> None:
    if other and with_line_end(other) != with_line_end(first):
        raise UnfaithfulError(f"{path} has a different header than the first file of its group")


def with_line_end(lines: bytes) -> bytes:
    """Return the lines with a line end after the last one."""
    return b"".join(complete_lines(iter((lines,) if lines else ())))


def count_text(io: FileIO, paths: Sequence[str], *, header_lines: int) -> int:
    """Count lines, including a last one without a newline."""
    lines = 0
    for path in paths:
        last = b"\n"
        for chunk in read_chunks(io, path, header_lines=header_lines):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
        lines += last != b"\n"
    return lines


def fingerprint_texts(texts: Iterable[Iterable[bytes]], *, ordered: bool) -> Fingerprint:
    """Fingerprint all lines of texts that arrive in chunks, every line with its end."""
    if not ordered:
        return sum(map(fingerprint_lines, texts), start=Fingerprint.zero())
    return digest_parts(count_lines(chunk for chunks in texts for chunk in chunks), text_digest())


def text_digest() -> Any:
    """A digest of text: it finds accidents, and is twice as fast as SHA-256 without instructions for that."""
    return hashlib.md5(usedforsecurity=False)


def count_lines(chunks: Iterable[bytes]) -> Iterator[Part]:
    """Yield the chunks, each with the number of lines that end in it."""
    for chunk in chunks:
        yield chunk, chunk.count(b"\n")


def check_same_header(io: FileIO, inputs: Sequence[str], output: str, *, header_lines: int) -> None:
    """Raise VerificationError unless the output begins with the first input's header."""
    wanted = with_line_end(read_header(io, inputs[0], header_lines))
    if with_line_end(read_header(io, output, header_lines)) != wanted:
        raise VerificationError(f"The header written differs from that of {inputs[0]}.", file=inputs[0])
