"""The one seam to storage. No storage library is imported outside this package.

Paths are absolute strings: plain ones of this machine, all others with scheme and authority (storage/location.py).
An implementation pickles to its settings, for it travels to the tasks of a job. Every method that changes something is
one *step*: it either happened or it did not, whatever kills the process. ``FaultyFileIO`` counts these steps and kills
at a chosen one; the crash tests run over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from packstone.errors import CorruptionError
from packstone.model.files import Permissions

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE: Final = Permissions(mode=0o700)  # of a folder that its owner alone may enter
# The largest records are the status of a segment table (200 bytes a segment) and the intent of a swap (300 bytes a
# file); Paimon's manifests have 8 MB. Whatever is larger is not a record, and must not fill the memory.
MAX_WHOLE_BYTES: Final = 256 << 20
_MAY_READ_FILE: Final = 0o644
_OWNER_ENTERS: Final = 0o700
_OWNER_WRITES: Final = 0o600
_GROUP: Final = 0o070


class Kind(StrEnum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"  # a symbolic link: never followed, never moved
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory, with what a single stat tells."""

    name: str
    kind: Kind
    size_bytes: int
    mtime_ns: int
    permissions: Permissions
    identity: tuple[int, int] = (0, 0)  # tells a file or folder from another one of its name, where the store can


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store promises; a protocol that needs more refuses the store by name."""

    atomic_rename: bool
    create_if_absent: bool
    durable_write: bool
    has_folders: bool = True  # False: a folder is there while something is in it, and making one does nothing
    needs_proof: bool = False  # create_if_absent is what the store should do; whether it does, only a try can tell


class FileIO(Protocol):
    """Files of one kind of storage."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises."""
        ...

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield the entries of a directory, in no order; FileNotFoundError if it does not exist."""
        ...

    def stat(self, path: str) -> Entry | None:
        """Describe one path, or None if there is nothing."""
        ...

    def read_permissions(self, path: str) -> Permissions:
        """Read what a listing shows of owner and mode and what it does not show: ACLs, extended attributes."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Read a small file whole; CorruptionError at once if it is not a file or has more than ``MAX_WHOLE_BYTES``."""
        ...

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - a pyarrow.NativeFile, which has no types
        """Open a data file for random reads."""
        ...

    def limited(self, mode: int) -> Self:
        """The same store, whose new data files are never more open than this mode; for tasks that read such files."""
        ...

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - a pyarrow.NativeFile, which has no types
        """Open a new data file for writing; its directory exists, and the file is never more open than that.

        Object stores show nothing before ``close``; their files have ``abort`` too (``abandon_output``).
        """
        ...

    def write_new(self, path: str, data: bytes) -> None:
        """Step: create the file with this content, durably and whole; FileExistsError if it exists.

        Exclusive between processes: of many callers exactly one succeeds.
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Step: put this content at the path, durably and whole, over whatever was there."""
        ...

    def move(self, source: str, target: str) -> None:
        """Step: rename within the store; FileExistsError if the target exists, and then nothing changed."""
        ...

    def remove(self, path: str) -> None:
        """Step: remove one file; nothing happens if it is not there."""
        ...

    def remove_tree(self, path: str) -> None:
        """Step: remove a folder of our own with all that is in it; nothing happens if it is not there."""
        ...

    def remove_empty_dir(self, path: str) -> bool:
        """Step: remove a directory if it is empty; False if it is not."""
        ...

    def make_dirs(self, path: str, *, like: Permissions | None = None) -> None:
        """Step: create a directory and its parents, durably; fine if it exists.

        A new directory is never more open than the one above it, nor than ``like``; with ``like`` it has the ACL among
        those attributes and no other.
        """
        ...

    def sync_dir(self, path: str) -> None:
        """Step: make the names in a directory durable."""
        ...

    def sync_file(self, path: str) -> None:
        """Step: make the bytes of a closed file durable."""
        ...

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Step: set owner, group, mode and all else that they hold; PermissionError if we may not."""
        ...

    def free_bytes(self, path: str) -> int:
        """How many bytes can still be written where the path is."""
        ...

    def store_id(self, path: str) -> str:
        """Name the store (file system, zone) of a path: a move works only between equal ids."""
        ...

    def may_write(self, path: str) -> bool:
        """Whether we may create names in this directory."""
        ...


def folder_mode(above: int, like: Permissions | None) -> int:
    """The mode of a new folder, from that of the folder above it."""
    return (above & 0o777 & (0o777 if like is None else like.mode)) | _OWNER_ENTERS


def file_mode(folder: int, most: int = _MAY_READ_FILE) -> int:
    """The mode of a new file, from that of its folder: whoever may enter may read, and only the owner writes."""
    return (folder & most & _MAY_READ_FILE) | _OWNER_WRITES


def without_group(mode: int) -> int:
    """The mode where the group cannot be the right one: its members may do what everybody may."""
    return (mode & ~_GROUP) | (mode & 0o007) << 3


def check_whole_size(path: str, size_bytes: int) -> None:
    """CorruptionError if a file is too large to be read whole."""
    if size_bytes > MAX_WHOLE_BYTES:
        raise CorruptionError(f"{path} has more than {MAX_WHOLE_BYTES >> 20} MB, which no record has.", path=path)


def abandon_output(file: Any) -> None:  # noqa: ANN401 - what open_output gave
    """Close a file whose content nobody wants any more; where files appear only at the end, nothing appears."""
    getattr(file, "abort", file.close)()
