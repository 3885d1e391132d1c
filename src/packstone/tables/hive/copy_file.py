"""Copy a file as it is, and prove the copy: what is carried over into a new folder beside merged files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError, PackstoneError, storage_sentence
from packstone.model.files import FileEntry

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """One file to be carried over."""

    unit: int
    directory: str
    file: FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """Where a copy waits; or why there is none, and then whoever publishes copies the file itself."""

    unit: int
    staged_path: str = ""
    error: str = ""


def run_copy(io: FileIO, spec: CopySpec, *, staging: str, attempt: str) -> CopyResult:
    """Copy into the staging folder, under the attempt's own name."""
    target = f"{staging}/copy-{spec.unit:05d}-{attempt}"
    try:
        copy_file(io, f"{spec.directory}/{spec.file.name}", target)
    except PackstoneError as error:
        return CopyResult(unit=spec.unit, error=error.message)
    except OSError as error:
        return CopyResult(unit=spec.unit, error=storage_sentence(error))
    return CopyResult(unit=spec.unit, staged_path=target)


def copy_file(io: FileIO, source: str, target: str) -> None:
    """Copy a file with its owner and mode, and read the copy again to prove it."""
    io.remove(target)  # of an attempt that died here
    with io.open_input(source) as read, io.open_output(target) as write:
        size, at = read.size(), 0
        while at < size:
            chunk = read.read_at(min(_CHUNK, size - at), at)
            write.write(chunk)
            at += len(chunk)
    io.set_permissions(target, io.read_permissions(source))
    io.sync_file(target)
    if _digest(io, source) != _digest(io, target):
        raise CorruptionError(f"The copy {target} is not like {source}; nothing was published.")


def _digest(io: FileIO, path: str) -> bytes:
    found = hashlib.sha256()
    with io.open_input(path) as read:
        size, at = read.size(), 0
        while at < size:
            chunk = read.read_at(min(_CHUNK, size - at), at)
            found.update(chunk)
            at += len(chunk)
    return found.digest()
