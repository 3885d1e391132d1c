"""Fingerprint named files again, for ``packstone verify``: a proof can be repeated as long as the files exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import PackstoneError
from packstone.rewrite.blame_file import tell_error
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.rewrite.kernels.registry import kernel_of

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToProve:
    """Some files whose rows make one fingerprint."""

    number: int
    file_format: str
    written: Written
    paths: tuple[str, ...]
    input_bytes: int = 1  # all weigh the same
    input_files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The fingerprint found, or why there is none."""

    number: int
    fingerprint: str
    error: str = ""


def fingerprint_files(io: FileIO, files: FilesToProve) -> Proof:
    """Read the files and reduce their rows to one fingerprint."""
    try:
        found = kernel_of(files.file_format).fingerprint(io, files.paths, written=files.written)
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        said = str(error) if isinstance(error, (PackstoneError, OSError)) else tell_error(error)
        return Proof(number=files.number, fingerprint="", error=said)
    return Proof(number=files.number, fingerprint=str(found))
