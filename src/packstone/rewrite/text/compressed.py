"""Compressed text files into one of the same codec.

Members (frames, blocks) are copied behind each other: every codec here but zlib allows it, readers read them as one,
and nothing is compressed again, so neither the level nor the time of the writer is lost. A missing last newline becomes
a tiny member of its own, with the file's own line end. Every input is decoded while it is copied, because a broken one
must not be.

Text is compressed again, all of it under one member, where copying is not enough: if header lines are to be removed,
and for ``.deflate``, whose format knows one stream only (Hadoop reads several, others stop after the first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from packstone.errors import UnfaithfulError, UnreadableFileError, VerificationError
from packstone.rewrite.codecs.plain_budget import PlainBudget
from packstone.rewrite.codecs.text_codec import TextCodec, TextEncoder, read_text
from packstone.rewrite.parquet.footer import one_line
from packstone.rewrite.proof.fingerprint import Fingerprint, fingerprint_lines
from packstone.rewrite.text.concatenate import LineEnds, complete_lines, with_line_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

_CHUNK_BYTES: Final = 4 << 20
_MAX_HEADER_BYTES: Final = 1 << 20
_NEWLINE: Final = b"\n"


def concatenate_compressed(
    io: FileIO, paths: Sequence[str], output: str, *, codec: TextCodec, header_lines: int
) -> None:
    """Write the lines of all inputs as one file, the header once."""
    budget = PlainBudget(sum(_stored_bytes(io, path) for path in paths))
    with io.open_output(output) as sink:
        if header_lines or codec is TextCodec.DEFLATE:
            _encode_again(io, paths, sink, codec=codec, header_lines=header_lines, budget=budget)
            return
        for path in paths:
            ends = LineEnds()
            for chunk in _bounded(io, path, codec, budget=budget):
                ends.see(chunk)
            for raw in _read_raw(io, path):
                sink.write(raw)
            if missing := ends.missing():
                _write_member(sink, missing, codec)


def read_lines(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> Iterator[bytes]:
    """Yield the text behind the header, its last line completed; UnreadableFileError if it turns out not to be text."""
    header, body = _split_header(io, path, codec=codec, header_lines=header_lines)
    yield from complete_lines(body, header=header)


def read_header(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> bytes:
    """Read the first lines of a file, with a newline behind the last."""
    header, _ = _split_header(io, path, codec=codec, header_lines=header_lines)
    return header


def fingerprint_compressed(io: FileIO, paths: Sequence[str], *, codec: TextCodec, header_lines: int) -> Fingerprint:
    """Fingerprint all lines, headers left out."""
    total = Fingerprint.zero()
    for path in paths:
        total += fingerprint_lines(read_lines(io, path, codec=codec, header_lines=header_lines))
    return total


def count_compressed(io: FileIO, paths: Sequence[str], *, codec: TextCodec, header_lines: int) -> int:
    """Count lines; a last one without a newline counts."""
    lines = 0
    for path in paths:
        last = _NEWLINE
        for chunk in read_lines(io, path, codec=codec, header_lines=header_lines):
            lines += chunk.count(_NEWLINE)
            last = chunk[-1:]
        lines += last != _NEWLINE
    return lines


def check_same_header(io: FileIO, inputs: Sequence[str], output: str, *, codec: TextCodec, header_lines: int) -> None:
    """The output must begin with the first input's header."""
    wanted = read_header(io, inputs[0], codec=codec, header_lines=header_lines)
    if read_header(io, output, codec=codec, header_lines=header_lines) != wanted:
        raise VerificationError(f"The header written differs from that of {inputs[0]}.", file=inputs[0])


def _encode_again(
    io: FileIO,
    paths: Sequence[str],
    sink: Any,  # noqa: ANN401 - a pyarrow file
    *,
    codec: TextCodec,
    header_lines: int,
    budget: PlainBudget,
) -> None:
    encoder = TextEncoder(sink, codec)
    first = b""
    for at, path in enumerate(paths):
        chunks = _bounded(io, path, codec, budget=budget)
        header, body = _split_chunks(chunks, path, header_lines=header_lines)
        if at == 0:
            first = header
            encoder.write(header)
        elif header and header != first:
            raise UnfaithfulError(f"{path} has another header than the first file of its group")
        for chunk in complete_lines(body, header=header):
            encoder.write(chunk)
    encoder.finish()


def _split_header(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> tuple[bytes, Iterator[bytes]]:
    return _split_chunks(_checked(io, path, codec), path, header_lines=header_lines)


def _split_chunks(chunks: Iterator[bytes], path: str, *, header_lines: int) -> tuple[bytes, Iterator[bytes]]:
    head, end = b"", 0
    for _ in range(header_lines):
        while (newline := head.find(_NEWLINE, end)) < 0:
            more = next(chunks, b"")
            if len(head) > _MAX_HEADER_BYTES:
                raise UnfaithfulError(f"{path} has no {header_lines} header lines in its first megabyte")
            if not more:
                return with_line_end(head), iter(())
            head += more
        end = newline + 1
    return head[:end], _chain(head[end:], chunks)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _checked(io: FileIO, path: str, codec: TextCodec) -> Iterator[bytes]:
    for chunk in read_text(io, path, codec=codec):
        if b"\0" in chunk:
            raise UnreadableFileError(f"{path} holds NUL bytes, so it is no text file.", file=path)
        yield chunk


def _bounded(io: FileIO, path: str, codec: TextCodec, *, budget: PlainBudget) -> Iterator[bytes]:
    """Yield the text of a file until it is too much for its size: an input is decoded in this way first."""
    budget.begin(path, _stored_bytes(io, path))
    for chunk in _checked(io, path, codec):
        budget.spend(len(chunk))
        yield chunk


def _stored_bytes(io: FileIO, path: str) -> int:
    found = io.stat(path)
    if found is None:
        raise UnreadableFileError(f"{path} was removed.", file=path)
    return found.size_bytes


def _read_raw(io: FileIO, path: str) -> Iterator[bytes]:
    try:
        with io.open_input(path) as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error


def _write_member(sink: Any, text: bytes, codec: TextCodec) -> None:  # noqa: ANN401 - a pyarrow file
    encoder = TextEncoder(sink, codec)
    encoder.write(text)
    encoder.finish()
