"""One line of a manifest: a data file was added or deleted, in this partition and bucket."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from packstone.tables.paimon.data_file_meta import DataFileMeta

# What makes two entries speak of the same file: an upgrade changes the level, so it is another one.
FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class FileKind(IntEnum):
    """What happened to the file."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A change of one file."""

    kind: FileKind
    partition: bytes  # a serialised row of the partition columns
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> FileIdentity:
        """By what an ADD and a DELETE are matched."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )

    def __str__(self) -> str:
        return f"{self.kind.name} bucket-{self.bucket} {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The live files of one bucket of one partition."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
