"""Merge Avro, SequenceFile and RCFile files: copy blocks or records unchanged, under one header and a new sync marker.

The proof covers what is copied: all blocks or records in their order, without the markers between them, and the number
of rows that they state. Inputs are read a second time, the output is opened again, and their bytes are compared; a
digest of them is recorded. Every length and every marker is compared with the file as it is read, on both sides, up to
the last byte.

Before anything is copied, every input is decompressed and, under ``--verify content``, decoded as far as its format
defines it: copying an already damaged block would make the whole merged file unreadable.

The marker is derived from the names and sizes of the inputs, so that the same merge gives the same file. If it occurs
in the data, where a reader that begins in the middle of the file would take it for a marker, another one is made.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import UnfaithfulError, VerificationError
from packstone.model.unit import How, Verify
from packstone.rewrite.formats import avro_blocks, rc_file, sequence_file
from packstone.rewrite.formats.block_format import SYNC_BYTES, ContentCheck, open_source
from packstone.rewrite.formats.bounded_codecs import PlainBudget
from packstone.rewrite.proof.ordered_digest import PartsDigest, digest_parts
from packstone.rewrite.small_files.merge_unit import MergeKernel, Written, check_copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.unit import Fingerprint, UnitSpec
    from packstone.rewrite.formats.block_format import BlockFormat, ByteSource, Header, Piece
    from packstone.rewrite.proof.ordered_digest import Part
    from packstone.storage.fileio import FileIO


class _MarkerInDataError(Exception):
    """The 16 bytes chosen as a marker occur in the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockKernel:
    """The merge kernel of a format whose blocks can be copied."""

    blocks: BlockFormat

    def write(self, io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
        """Check all inputs, then copy their blocks after the first file's header."""
        budget = PlainBudget(spec.input_bytes)
        check = ContentCheck(values=spec.verify is Verify.CONTENT, text=spec.checks_text, budget=budget)
        self.blocks.check_contents(self._open_to_check(io, paths, check), check)
        header = self._read_header(io, paths[0])
        attempt = 0
        while True:
            try:
                self._copy(io, paths, output, header=header, sync=make_marker(spec, header, attempt=attempt))
            except _MarkerInDataError:
                io.remove(output)
                attempt += 1
            else:
                return Written(how=How.CONCATENATE, ordered=True)

    def check_readable(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Do nothing: ``write`` checks every input before it copies it."""

    def count(self, io: FileIO, paths: Sequence[str], *, written: Written) -> int:
        """Add up the row counts that the blocks state."""
        return sum(piece.rows for path in paths for piece in self._read(io, path))

    def compare_copy(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> Fingerprint | None:
        """Compare blocks or records, without the markers."""
        digest = PartsDigest(hashlib.sha256())
        check_copied(digest.update(self._parts(io, paths)), self._parts(io, [output]), output=output)
        return digest.finish()

    def fingerprint(self, io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
        """Digest blocks or records in their order, without the markers."""
        return digest_parts(self._parts(io, paths), hashlib.sha256())

    def check_same_shape(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Check that all headers agree in everything but the marker."""
        agreement = self._read_header(io, output).agreement
        for path in paths:
            if self._read_header(io, path).agreement != agreement:
                raise VerificationError(f"The header written differs from that of {path}.", file=path)

    def read_through(self, io: FileIO, path: str) -> None:
        """Read all bytes."""
        for _ in self._read(io, path):
            pass

    def _parts(self, io: FileIO, paths: Sequence[str]) -> Iterator[Part]:
        return ((piece.data, piece.rows) for path in paths for piece in self._read(io, path))

    def _copy(self, io: FileIO, paths: Sequence[str], output: str, *, header: Header, sync: bytes) -> None:
        with io.open_output(output) as file:
            sink = _Sink(file, sync, mark=self.blocks.mark(sync))
            sink.begin(header)
            for path in paths:
                is_far = 0 < self.blocks.mark_before_bytes <= sink.unmarked_bytes
                for piece in self._read(io, path, agreement=header.agreement):
                    sink.write(piece, marked_before=piece.is_marked_before or is_far)
                    is_far = False

    def _open_to_check(
        self, io: FileIO, paths: Sequence[str], check: ContentCheck
    ) -> Iterator[tuple[ByteSource, Header]]:
        for path in paths:
            with open_source(io, path) as source:
                check.budget.begin(path, source.size_bytes)
                header = self.blocks.read_header(source)
                if not header.why_not and (check.values or header.codec != "null"):
                    yield source, header

    def _read_header(self, io: FileIO, path: str) -> Header:
        with open_source(io, path) as source:
            return self.blocks.read_header(source)

    def _read(self, io: FileIO, path: str, *, agreement: bytes | None = None) -> Iterator[Piece]:
        with open_source(io, path) as source:
            header = self.blocks.read_header(source)
            if header.why_not:
                raise UnfaithfulError(f"{path} is left alone: {header.why_not}")
            if agreement not in (None, header.agreement):
                raise UnfaithfulError(f"{path} has a different header than the first file of its group")
            yield from self.blocks.read_pieces(source, header)


class _Sink:
    """Writes pieces with markers between them; _MarkerInDataError if a piece contains the marker."""

    def __init__(self, file: Any, sync: bytes, *, mark: bytes) -> None:
        self._file = file
        self._sync = sync
        self._mark = mark
        self._tail = b""
        self.unmarked_bytes = 0

    def begin(self, header: Header) -> None:
        """Write the header, with the new marker."""
        self._check_unmarked(header.begin)
        self._file.write(header.begin + self._sync)

    def write(self, piece: Piece, *, marked_before: bool) -> None:
        """Write a piece and the markers that belong to it."""
        if marked_before:
            self._put_mark()
        self._check_unmarked(piece.data)
        self._file.write(piece.data)
        self.unmarked_bytes += len(piece.data)
        if piece.is_marked_after:
            self._put_mark()

    def _put_mark(self) -> None:
        self._file.write(self._mark)
        self._tail = b""
        self.unmarked_bytes = 0

    def _check_unmarked(self, data: memoryview | bytes) -> None:
        text = self._tail + data
        if self._sync in text:
            raise _MarkerInDataError
        self._tail = text[1 - SYNC_BYTES :]


def make_marker(spec: UnitSpec, header: Header, *, attempt: int) -> bytes:
    """Return 16 bytes that are unlikely to occur elsewhere, and the same ones if the merge is repeated."""
    seed = hashlib.sha256(header.agreement)
    for file in spec.inputs:
        seed.update(f"{file.name}/{file.size_bytes}/{file.mtime_ns}\n".encode("utf-8", "surrogateescape"))
    seed.update(str(attempt).encode())
    return seed.digest()[:SYNC_BYTES]


AVRO: Final[MergeKernel] = BlockKernel(blocks=avro_blocks)
SEQUENCE_FILE: Final[MergeKernel] = BlockKernel(blocks=sequence_file)
RC_FILE: Final[MergeKernel] = BlockKernel(blocks=rc_file)
