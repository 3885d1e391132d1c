"""Merge compressed text files into one file of the same codec, and prove the result by the lines it holds.

Members (frames, blocks) are copied one after another: every codec here except zlib allows it, readers read them as
one text, and nothing is compressed again, so the writer's compression level is kept and no time is spent on it. If the
last newline is missing, a tiny member with the file's own line end is added. Every input is decoded before it is
copied, because a damaged one must not be copied, and its lines are digested in that pass. The output is then compared
with the files, byte for byte: members that decode do so wherever they are, so they are not decoded a second time.

Text is compressed again, all of it as one member, where copying is not enough: if header lines are to be removed, and
for ``.deflate``, whose format allows one stream only (Hadoop reads several, other readers stop after the first).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.unit import Fingerprint, How, Verify
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.bounded_codecs import PlainBudget
from packstone.rewrite.formats.codecs import TextCodec, TextEncoder, decode_text, read_text
from packstone.rewrite.proof.ordered_digest import digest_parts
from packstone.rewrite.small_files.merge_unit import MergeKernel, Written, check_copied
from packstone.rewrite.small_files.text_kernel import (
    LineEnds,
    complete_lines,
    count_lines,
    fingerprint_texts,
    text_digest,
    with_line_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.unit import UnitSpec
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True)
class CompressedTextKernel:
    """The merge kernel of one codec."""

    codec: TextCodec

    def write(self, io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
        """Write the lines of all inputs as one file."""
        line_ends: list[bytes] = []
        with io.open_output(output) as sink:
            if spec.header_lines or self.codec is TextCodec.DEFLATE:
                texts = encode_again(io, paths, sink, codec=self.codec, header_lines=spec.header_lines)
            else:
                texts = copy_members(io, paths, sink, codec=self.codec, line_ends=line_ends)
            lines = count_lines(texts)
            if spec.verify is Verify.COUNT:
                before = Fingerprint(rows=sum(rows for _, rows in lines), lo=0, hi=0)
            else:
                before = digest_parts(lines, text_digest())
        return Written(
            how=How.CONCATENATE,
            ordered=True,
            header_lines=spec.header_lines,
            before=before,
            line_ends=tuple(line_ends),
        )

    def check_readable(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Do nothing: ``write`` decodes every input while it copies it."""

    def count(self, io: FileIO, paths: Sequence[str], *, written: Written) -> int:
        """Count lines."""
        return count_compressed(io, paths, codec=self.codec, header_lines=written.header_lines)

    def compare_copy(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> Fingerprint | None:
        """Compare the members of the inputs, and those that were added, with the output."""
        if written.before is None or not written.line_ends:
            return None
        added = {end: _member_of(end, self.codec) for end in written.line_ends}
        before = (
            (chunk, 0)
            for path, end in zip(paths, written.line_ends, strict=True)
            for chunk in chain(_read_raw(io, path), (added[end],))
        )
        check_copied(before, ((chunk, 0) for chunk in _read_raw(io, output)), output=output)
        return written.before

    def fingerprint(self, io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
        """Fingerprint lines."""
        texts = (read_lines(io, path, codec=self.codec, header_lines=written.header_lines) for path in paths)
        return fingerprint_texts(texts, ordered=written.ordered)

    def check_same_shape(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Check that the output begins with the first input's header."""
        lines = written.header_lines
        check_same_header(io, paths, output, codec=self.codec, header_lines=lines)

    def read_through(self, io: FileIO, path: str) -> None:
        """Decode all text."""
        for _ in read_lines(io, path, codec=self.codec, header_lines=0):
            pass


GZIP: Final[MergeKernel] = CompressedTextKernel(TextCodec.GZIP)
BZIP2: Final[MergeKernel] = CompressedTextKernel(TextCodec.BZIP2)
ZSTD: Final[MergeKernel] = CompressedTextKernel(TextCodec.ZSTD)
LZ4: Final[MergeKernel] = CompressedTextKernel(TextCodec.LZ4)
SNAPPY: Final[MergeKernel] = CompressedTextKernel(TextCodec.SNAPPY)
DEFLATE: Final[MergeKernel] = CompressedTextKernel(TextCodec.DEFLATE)
HADOOP_LZ4: Final[MergeKernel] = CompressedTextKernel(TextCodec.HADOOP_LZ4)
HADOOP_SNAPPY: Final[MergeKernel] = CompressedTextKernel(TextCodec.HADOOP_SNAPPY)

_CHUNK_BYTES: Final = 4 << 20
_MAX_HEADER_BYTES: Final = 1 << 20
_NEWLINE: Final = b"\n"


def copy_members(
    io: FileIO, paths: Sequence[str], sink: Any, *, codec: TextCodec, line_ends: list[bytes]
) -> Iterator[bytes]:
    """Copy all inputs after decoding each; yield the decoded text, and collect the line ends that were added."""
    budget = PlainBudget(sum(_stored_bytes(io, path) for path in paths))
    for path in paths:
        ends = LineEnds()
        for chunk in _bounded(io, path, codec, budget=budget):
            ends.add(chunk)
            yield chunk
        for raw in _read_raw(io, path):
            sink.write(raw)
        line_ends.append(ends.missing())
        if line_ends[-1]:
            yield line_ends[-1]
            sink.write(_member_of(line_ends[-1], codec))


def encode_again(
    io: FileIO, paths: Sequence[str], sink: Any, *, codec: TextCodec, header_lines: int
) -> Iterator[bytes]:
    """Write the text of all inputs as one member, the header once; yield the text without headers."""
    budget = PlainBudget(sum(_stored_bytes(io, path) for path in paths))
    encoder = TextEncoder(sink, codec)
    first = b""
    for at, path in enumerate(paths):
        chunks = _bounded(io, path, codec, budget=budget)
        header, body = _split_chunks(chunks, path, header_lines=header_lines)
        if at == 0:
            first = header
            encoder.write(header)
        elif header and header != first:
            raise UnfaithfulError(f"{path} has a different header than the first file of its group")
        for chunk in complete_lines(body, header=header):
            encoder.write(chunk)
            yield chunk
    encoder.finish()


def read_lines(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> Iterator[bytes]:
    """Yield the text after the header, its last line completed; UnreadableFileError if it turns out not to be text."""
    header, body = _split_header(io, path, codec=codec, header_lines=header_lines)
    yield from complete_lines(body, header=header)


def read_header(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> bytes:
    """Read the first lines of a file; the last one always ends with a newline."""
    header, _ = _split_header(io, path, codec=codec, header_lines=header_lines)
    return header


def count_compressed(io: FileIO, paths: Sequence[str], *, codec: TextCodec, header_lines: int) -> int:
    """Count lines, including a last one without a newline."""
    lines = 0
    for path in paths:
        last = _NEWLINE
        for chunk in read_lines(io, path, codec=codec, header_lines=header_lines):
            lines += chunk.count(_NEWLINE)
            last = chunk[-1:]
        lines += last != _NEWLINE
    return lines


def check_same_header(io: FileIO, inputs: Sequence[str], output: str, *, codec: TextCodec, header_lines: int) -> None:
    """Raise VerificationError unless the output begins with the first input's header."""
    wanted = read_header(io, inputs[0], codec=codec, header_lines=header_lines)
    if read_header(io, output, codec=codec, header_lines=header_lines) != wanted:
        raise VerificationError(f"The header written differs from that of {inputs[0]}.", file=inputs[0])


def _split_header(io: FileIO, path: str, *, codec: TextCodec, header_lines: int) -> tuple[bytes, Iterator[bytes]]:
    return _split_chunks(_checked(io, path, codec), path, header_lines=header_lines)


def _split_chunks(chunks: Iterator[bytes], path: str, *, header_lines: int) -> tuple[bytes, Iterator[bytes]]:
    head, end = b"", 0
    for _ in range(header_lines):
        while (newline := head.find(_NEWLINE, end)) < 0:
            more = next(chunks, b"")
            if len(head) > _MAX_HEADER_BYTES:
                raise UnfaithfulError(f"{path} does not have {header_lines} header lines in its first megabyte")
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
            raise UnreadableFileError(f"{path} holds NUL bytes, so it is not a text file.", file=path)
        yield chunk


def _bounded(io: FileIO, path: str, codec: TextCodec, *, budget: PlainBudget) -> Iterator[bytes]:
    """Yield the text of an input; ``budget`` raises if it decompresses to too much for the file's size."""
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


def _member_of(text: bytes, codec: TextCodec) -> bytes:
    """Encode a line end, and decode it again, because a member that is compared as bytes is not decoded otherwise."""
    if not text:
        return b""
    sink = pa.BufferOutputStream()
    encoder = TextEncoder(sink, codec)
    encoder.write(text)
    encoder.finish()
    member: bytes = sink.getvalue().to_pybytes()
    if b"".join(decode_text(pa.BufferReader(member), codec)) != text:
        raise VerificationError(f"A line end that was encoded as {codec} cannot be decoded.")
    return member
