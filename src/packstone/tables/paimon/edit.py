"""What a compaction changes in one bucket: the files it takes out and the files it puts in.

A commit is a set of edits, at most one per bucket. A file that merely moves to another level stands in both lists,
under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import InvalidInputError
from packstone.tables.paimon.data_file_meta import DataFileMeta
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BucketId: TypeAlias = tuple[bytes, int]  # the partition's serialised row, and the number of the bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One bucket's change."""

    partition: bytes
    bucket: int
    total_buckets: int
    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]
    # Index files of deletion vectors that go with the inputs. Each must cover rewritten inputs and nothing else.
    index_files: tuple[str, ...] = ()

    @property
    def bucket_id(self) -> BucketId:
        """Which bucket this is."""
        return self.partition, self.bucket

    @property
    def delta_rows(self) -> int:
        """Rows added less rows taken out; usually negative."""
        return sum(file.row_count for file in self.after) - sum(file.row_count for file in self.before)

    @property
    def rewritten(self) -> tuple[DataFileMeta, ...]:
        """The inputs whose names do not come back: all but the upgraded ones."""
        names = {file.file_name for file in self.after}
        return tuple(file for file in self.before if file.file_name not in names)

    def entries(self) -> Iterator[ManifestEntry]:
        """Yield the manifest's lines: every DELETE before every ADD.

        Expiry removes a path whose last line is a DELETE, so an upgrade written the other way round would lose
        its file later.
        """
        for file in self.before:
            yield self._entry(FileKind.DELETE, file)
        for file in self.after:
            yield self._entry(FileKind.ADD, file)

    def __str__(self) -> str:
        return f"bucket-{self.bucket}: {len(self.before)} files -> {len(self.after)}"

    def _entry(self, kind: FileKind, file: DataFileMeta) -> ManifestEntry:
        return ManifestEntry(
            kind=kind, partition=self.partition, bucket=self.bucket, total_buckets=self.total_buckets, file=file
        )


def check_edits(edits: Iterable[Edit]) -> None:
    """Raise InvalidInputError unless the edits are consistent among themselves: one per bucket, no line twice.

    A file deleted and added under one identity is refused too: readers match lines by identity, in whatever
    order they meet them, so it could vanish.
    """
    buckets: set[BucketId] = set()
    totals: dict[bytes, int] = {}
    for edit in edits:
        if edit.bucket_id in buckets:
            raise InvalidInputError(f"Two edits of bucket-{edit.bucket} of one partition cannot be one commit.")
        buckets.add(edit.bucket_id)
        if totals.setdefault(edit.partition, edit.total_buckets) != edit.total_buckets:
            raise InvalidInputError("The edits of one partition disagree on its number of buckets.")
        if not edit.before and not edit.after:
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} changes nothing.")
        identities = [entry.identity for entry in edit.entries()]
        if len(set(identities)) != len(identities):
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} names a file twice on one level.")
        names = [file.file_name for file in edit.after]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} adds a file twice.")
