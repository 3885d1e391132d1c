"""The interface to storage. No storage library is imported outside this package.

Paths are absolute strings: local paths are plain, all others have a scheme and an authority (storage/location.py). An
implementation pickles to its settings, because it is sent to the tasks of a job. Every method that changes something is
one *step*: it happens completely or not at all, even if the process is killed. ``FaultyFileIO`` counts these steps and
kills the process at a chosen one; the crash tests run over all of them.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from packstone.errors import CorruptionError
from packstone.model.files import Permissions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PRIVATE: Final = Permissions(mode=0o700)  # of a folder that only its owner may enter
# The largest records are the status of a segment table (200 bytes a segment) and the intent of a swap (300 bytes a
# file); Paimon's manifests have 8 MB. A larger file is not a record, and must not fill the memory.
MAX_WHOLE_BYTES: Final = 256 << 20
INCOMPLETE_NAME: Final = re.compile(r"\.new-[0-9a-f]{16}")  # the names that `incomplete_path` makes
_MAY_READ_FILE: Final = 0o644
_OWNER_ENTERS: Final = 0o700
_OWNER_WRITES: Final = 0o600
_GROUP: Final = 0o070


class EntryKind(StrEnum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"  # a symbolic link: never followed, never moved
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory, with the result of a single stat."""

    name: str
    kind: EntryKind
    size_bytes: int
    mtime_ns: int
    permissions: Permissions
    identity: tuple[int, int] = (
        0,
        0,
    )  # distinguishes files that had the same name at different times, if the store can


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store guarantees; a protocol that needs more refuses the store with an error that names it."""

    atomic_rename: bool
    create_if_absent: bool
    has_folders: bool = True  # False: a folder exists while something is in it, and making one does nothing
    needs_proof: bool = False  # the store should support create_if_absent, but only a trial can show whether it does


class FileIO(Protocol):
    """Access to the files of one kind of storage."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store guarantees."""
        ...

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield the entries of a directory, in any order; FileNotFoundError if it does not exist."""
        ...

    def stat(self, path: str) -> Entry | None:
        """Describe one path; None if it does not exist."""
        ...

    def read_permissions(self, path: str) -> Permissions:
        """Read owner and mode, as in a listing, and what a listing does not show: ACLs, extended attributes."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Read a small file completely; CorruptionError if it is not a file or larger than ``MAX_WHOLE_BYTES``."""
        ...

    def open_input(self, path: str) -> Any:
        """Open a data file for random reads."""
        ...

    def limited(self, mode: int) -> Self:
        """Return the same store, whose new data files are at most this accessible; for tasks that read such files."""
        ...

    def open_output(self, path: str) -> Any:
        """Open a new data file for writing; its directory must exist, and the file is not more accessible than that.

        On object stores nothing is visible before ``close``; their files also have ``abort`` (``abandon_output``).
        """
        ...

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step: create the file with this content, durably and atomically; FileExistsError if it exists.

        Exclusive between processes: of many callers exactly one succeeds. Without ``durable`` the file is as atomic and
        exclusive for all processes, but a power cut may lose it, or leave it empty or full of zeros.
        """
        ...

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step: write this content to the path, durably and atomically, replacing any existing file.

        Without ``durable`` as for ``write_new``.
        """
        ...

    def move(self, source: str, target: str) -> None:
        """Step: rename within the store; FileExistsError if the target exists, and then nothing changed.

        A power cut before ``sync_dir`` may leave the file under its old name, its new name or both, never under none.
        """
        ...

    def remove(self, path: str) -> None:
        """Step: remove one file; does nothing if it does not exist."""
        ...

    def remove_tree(self, path: str) -> None:
        """Step: remove a folder of our own with its content; does nothing if it does not exist."""
        ...

    def remove_empty_dir(self, path: str) -> bool:
        """Step: remove a directory if it is empty; False if it is not."""
        ...

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Step: create a directory and its parents, durably; it may exist already.

        A new directory is not more accessible than its parent, nor than ``like``; with ``like`` it gets the ACL of
        those permissions and no other. Without ``durable`` a power cut may lose it, until its parent is synced.
        """
        ...

    def sync_dir(self, path: str) -> None:
        """Step: make the names in a directory durable."""
        ...

    def sync_file(self, path: str) -> None:
        """Step: make the bytes of a closed file durable."""
        ...

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Step: set owner, group, mode, ACL and attributes; PermissionError if that is not allowed."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return how many bytes can still be written at the path."""
        ...

    def store_id(self, path: str) -> str:
        """Return the id of the store (file system, zone) of a path: a move works only between equal ids."""
        ...

    def may_write(self, path: str) -> bool:
        """Whether this process may create files in this directory."""
        ...

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Why this process surely cannot replace files with these permissions in a directory; empty if it may be able.

        Asked before the work, not instead of handling a PermissionError: rights may change, and stores differ in what
        they let a client know.
        """
        ...


class WriteOnly:
    """The methods that ``pyarrow.PythonFile`` needs of a write-only file."""

    def writable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False

    def __enter__(self) -> Self:
        return self


def folder_mode(above: int, like: Permissions | None) -> int:
    """The mode of a new folder, from the mode of its parent."""
    return (above & 0o777 & (0o777 if like is None else like.mode)) | _OWNER_ENTERS


def file_mode(folder: int, most: int = _MAY_READ_FILE) -> int:
    """The mode of a new file, from that of its folder: who may enter it may read, only the owner writes."""
    return (folder & most & _MAY_READ_FILE) | _OWNER_WRITES


def without_group(mode: int) -> int:
    """The mode if the group cannot be set: group members get only the permissions of all users."""
    return (mode & ~_GROUP) | (mode & 0o007) << 3


def incomplete_path(path: str) -> str:
    """Return a new name beside a file, for its bytes until all are written; a killed process leaves such a file."""
    return f"{posixpath.dirname(path)}/.new-{os.urandom(8).hex()}"


def list_entries(io: FileIO, folder: str) -> tuple[Entry, ...]:
    """The entries of a folder, by name; () if it does not exist."""
    try:
        return tuple(sorted(io.list_dir(folder), key=lambda entry: entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def list_file_sizes(io: FileIO, folder: str) -> dict[str, int]:
    """The size of each file in a folder, by its name; empty if the folder does not exist."""
    return {entry.name: entry.size_bytes for entry in list_entries(io, folder) if entry.kind is not EntryKind.DIRECTORY}


def check_whole_size(path: str, size_bytes: int) -> None:
    """Raise CorruptionError if a file is too large to be read completely."""
    if size_bytes > MAX_WHOLE_BYTES:
        raise CorruptionError(f"{path} is larger than {MAX_WHOLE_BYTES >> 20} MB, so it is not a record.", path=path)


def abandon_output(file: Any) -> None:
    """Close a file whose content is no longer needed; on stores that show files only when complete, none appears."""
    getattr(file, "abort", file.close)()


class KeptFiles:
    """``FileIO`` that reads each of some small files once, and keeps its bytes; all else is done by the inner store.

    For a task that reads the same inputs several times: it sees the same bytes each time, at the cost of memory.
    """

    def __init__(self, inner: FileIO, sizes: Mapping[str, int]) -> None:
        self._inner, self._sizes = inner, sizes
        self._kept: dict[str, tuple[Any, dict[str, Any]]] = {}

    def open_input(self, path: str) -> Any:
        """Open a file, from memory if it is one of those to keep and has the expected size."""
        import pyarrow as pa  # slow to import, not needed to plan

        found = self._kept.get(path)
        if found is None:
            source = self._inner.open_input(path)
            if self._sizes.get(path) != source.size():
                return source
            with source:
                found = self._kept[path] = source.read_buffer(), {}
        return pa.BufferReader(found[0])

    def remembered(self, path: str) -> dict[str, Any] | None:
        """What was derived from the bytes of a file, to be filled by the caller; None if they are not kept."""
        found = self._kept.get(path)
        return None if found is None else found[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
