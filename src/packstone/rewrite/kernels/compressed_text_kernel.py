"""Compressed text: members behind each other under the same codec, proved by the lines they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.rewrite.text import compressed as compressed_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.codecs.text_codec import TextCodec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True)
class CompressedTextKernel:
    """The kernel of one codec."""

    codec: TextCodec

    def write(self, io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
        """Write the lines of all inputs as one file."""
        compressed_text.concatenate_compressed(io, paths, output, codec=self.codec, header_lines=spec.header_lines)
        return Written(how=How.CONCATENATE, header_lines=spec.header_lines)

    def check_readable(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Every input was decoded while it was copied: nothing more can be wrong with it."""

    def count(self, io: FileIO, paths: Sequence[str], *, written: Written) -> int:
        """Count lines."""
        return compressed_text.count_compressed(io, paths, codec=self.codec, header_lines=written.header_lines)

    def fingerprint(self, io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
        """Fingerprint lines."""
        return compressed_text.fingerprint_compressed(io, paths, codec=self.codec, header_lines=written.header_lines)

    def check_same_shape(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """The output must begin with the first input's header."""
        lines = written.header_lines
        compressed_text.check_same_header(io, paths, output, codec=self.codec, header_lines=lines)

    def read_through(self, io: FileIO, path: str) -> None:
        """Decode all text."""
        for _ in compressed_text.read_lines(io, path, codec=self.codec, header_lines=0):
            pass
