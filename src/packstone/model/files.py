"""One data file as a listing shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Permissions:
    """Who owns a file and who may read it; outputs get those of their inputs."""

    uid: int
    gid: int
    mode: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid} {self.mode:04o}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A visible data file: its name inside the partition, its size, when and by whom it was written."""

    name: str
    size_bytes: int
    mtime_ns: int
    permissions: Permissions

    def is_same_version(self, other: FileEntry) -> bool:
        """Whether nothing wrote to the file between the two listings."""
        return (self.name, self.size_bytes, self.mtime_ns) == (other.name, other.size_bytes, other.mtime_ns)

    def __str__(self) -> str:
        return f"{self.name} {self.size_bytes}B"
