"""Who names a file: streams through manifests and keeps only what is asked for.

A table may have millions of files and dozens of tags that share most of their manifests. So each manifest is read once,
lean, and of its lines only those of wanted files are kept.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from packstone.tables.paimon.manifest import read_manifest
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry
from packstone.tables.paimon.manifest_list import read_all_manifests, read_manifest_list
from packstone.tables.paimon.touched import read_index_entries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.snapshot import Snapshot

FileKey: TypeAlias = tuple[bytes, int, str]  # partition, bucket, name: one path, on whatever level


def file_key(entry: ManifestEntry) -> FileKey:
    """By what a path is known in manifests."""
    return entry.partition, entry.bucket, entry.file.file_name


class Mentions:
    """Which of some wanted data files a snapshot names."""

    def __init__(self, io: FileIO, table: str, *, wanted: Collection[FileKey]) -> None:
        self._io, self._table, self._wanted = io, table, wanted
        self._seen: dict[str, tuple[Counter[FileKey], Counter[FileKey]]] = {}

    def live(self, snapshot: Snapshot) -> set[FileKey]:
        """Those that the snapshot consists of: added more often than deleted."""
        balance: Counter[FileKey] = Counter()
        for meta in read_all_manifests(self._io, self._table, snapshot):
            added, deleted = self._lines(meta.file_name)
            balance.update(added)
            balance.subtract(deleted)
        return {key for key, count in balance.items() if count > 0}

    def added(self, list_name: str | None) -> set[FileKey]:
        """Those that some manifest of a list adds."""
        if list_name is None:
            return set()
        metas = read_manifest_list(self._io, f"{self._table}/manifest/{list_name}")
        return {key for meta in metas for key in self._lines(meta.file_name)[0]}

    def _lines(self, name: str) -> tuple[Counter[FileKey], Counter[FileKey]]:
        if name not in self._seen:
            added: Counter[FileKey] = Counter()
            deleted: Counter[FileKey] = Counter()
            for entry in read_manifest(self._io, f"{self._table}/manifest/{name}", lean=True):
                key = file_key(entry)
                if key in self._wanted:
                    (added if entry.kind is FileKind.ADD else deleted)[key] += 1
            self._seen[name] = added, deleted
        return self._seen[name]


def manifest_lists(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of a snapshot's manifest lists."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    return tuple(name for name in lists if name)


def metadata_names(io: FileIO, table: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield the names of all files of ``manifest/``, ``index/`` and ``statistics/`` that a snapshot needs."""
    for name in manifest_lists(snapshot):
        yield name
        for meta in read_manifest_list(io, f"{table}/manifest/{name}"):
            yield meta.file_name
            yield from meta.extra_files or ()
    if snapshot.index_manifest is not None:
        yield snapshot.index_manifest
        for entry in read_index_entries(io, table, snapshot):
            yield entry.file_name
    if snapshot.statistics is not None:
        yield snapshot.statistics
