"""Fingerprint named files again, for ``packstone verify``: a proof can be repeated as long as the files exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import PackstoneError
from packstone.model.unit import How
from packstone.rewrite.verify import fingerprint_parquet, fingerprint_text
from packstone.rewrite.verify_splice import fingerprint_splice

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToProve:
    """Some files whose rows make one fingerprint."""

    number: int
    how: How
    header_lines: int
    paths: tuple[str, ...]
    ordered: bool = False
    copied_columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The fingerprint found, or why there is none."""

    number: int
    fingerprint: str
    error: str = ""


def fingerprint_files(io: FileIO, files: FilesToProve) -> Proof:
    """Read the files and reduce their rows to one fingerprint."""
    try:
        match files.how:
            case How.CONCATENATE:
                found = fingerprint_text(io, files.paths, header_lines=files.header_lines)
            case How.SPLICE:
                found = fingerprint_splice(io, files.paths, copied=files.copied_columns)
            case _:
                found = fingerprint_parquet(io, files.paths, ordered=files.ordered)
    except (PackstoneError, OSError) as error:
        return Proof(number=files.number, fingerprint="", error=str(error))
    return Proof(number=files.number, fingerprint=str(found))
