"""Copy a file as it is, and prove the copy: what is carried over into a new folder beside merged files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_CHUNK = 8 << 20


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
