"""One data file as a listing shows it, and the formats of files in a Hive directory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from packstone.model.codec import Count, Mode, Name, OwnerId


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Permissions:
    """The owner, the mode and the replication of a file; outputs get those of their inputs.

    Local files have numeric owners, HDFS has names and a replication. ``attributes`` are what a listing does not show:
    entries of an ACL, extended attributes. Records that are older than the support of other stores than local ones lack
    the later fields.
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
    """A visible data file: its name inside the partition, its size, its modification time and its permissions."""

    name: Name
    size_bytes: Count
    mtime_ns: int
    permissions: Permissions

    def __str__(self) -> str:
        return f"{self.name} {self.size_bytes}B"


class FileFormat(StrEnum):
    """The format of a file in a Hive directory, detected from its first bytes."""

    PARQUET = "parquet"
    TEXT = "text"
    ORC = "orc"
    AVRO = "avro"
    SEQUENCE_FILE = "sequencefile"
    RC_FILE = "rcfile"
    COMPRESSED = "compressed text"
    GZIP_TEXT = "gzip text"
    BZIP2_TEXT = "bzip2 text"
    ZSTD_TEXT = "zstd text"
    LZ4_TEXT = "lz4 text"  # frames, as the command lz4 writes them
    SNAPPY_TEXT = "snappy text"  # the framing format
    DEFLATE_TEXT = "deflate text"
    HADOOP_LZ4_TEXT = "hadoop-lz4 text"  # Hadoop's own framing, which Hive and Spark write
    HADOOP_SNAPPY_TEXT = "hadoop-snappy text"
    EMPTY = "empty"
    UNKNOWN = "unknown"
