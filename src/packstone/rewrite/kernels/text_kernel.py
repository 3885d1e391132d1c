"""Text: bytes behind each other, a missing last newline added, the header kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.rewrite.proof import verify
from packstone.rewrite.text.concatenate import concatenate_text, read_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the bytes of all inputs behind each other."""
    concatenate_text(io, paths, output, header_lines=spec.header_lines)
    return Written(how=How.CONCATENATE, header_lines=spec.header_lines)


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Text that was copied was read: nothing more can be wrong with it."""


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:
    """Count lines."""
    return verify.count_text(io, paths, header_lines=written.header_lines)


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Fingerprint lines."""
    return verify.fingerprint_text(io, paths, header_lines=written.header_lines)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """The output must begin with the first input's header."""
    verify.check_same_header(io, paths, output, header_lines=written.header_lines)


def read_through(io: FileIO, path: str) -> None:
    """Read all bytes."""
    for _ in read_chunks(io, path, header_lines=0):
        pass
