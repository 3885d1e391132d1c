"""One data file as a listing shows it."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.model.record_fields import Count, Mode, Name, OwnerId


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Permissions:
    """Who owns a file, who may read it, and how it is kept; outputs get those of their inputs.

    Local files have numbers, HDFS has names and a replication. ``attributes`` are what a listing does not show: entries
    of an ACL, extended attributes. Records of before there were stores other than local ones lack the later fields.
    """

    uid: OwnerId = -1
    gid: OwnerId = -1
    mode: Mode
    owner: str = ""
    group: str = ""
    replication: Count = 0  # 0: the store has none
    attributes: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = f"{self.owner}:{self.group}" if self.owner else f"{self.uid}:{self.gid}"
        copies = f" x{self.replication}" if self.replication else ""
        return " ".join((f"{who} {self.mode:04o}{copies}", *self.attributes))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A visible data file: its name inside the partition, its size, when and by whom it was written."""

    name: Name
    size_bytes: Count
    mtime_ns: int
    permissions: Permissions

    def is_same_version(self, other: FileEntry) -> bool:
        """Whether nothing wrote to the file between the two listings."""
        return (self.name, self.size_bytes, self.mtime_ns) == (other.name, other.size_bytes, other.mtime_ns)

    def __str__(self) -> str:
        return f"{self.name} {self.size_bytes}B"
