"""References that keep files alive besides the table's own snapshots: tags, branches, consumers, old changelogs.

All of them are read, or nothing may be removed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import CorruptionError, RefusedError
from packstone.storage.fileio import EntryKind, FileIO, list_entries
from packstone.tables.paimon.conflicts import read_index_entries
from packstone.tables.paimon.format.data_file import FileKind, ManifestEntry
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_all_manifests, read_manifest_list
from packstone.tables.paimon.format.paths import (
    MAIN_BRANCH,
    branch_path,
    changelog_folder,
    consumer_folder,
    tag_folder,
)
from packstone.tables.paimon.format.schema import list_schema_ids
from packstone.tables.paimon.format.snapshot import (
    Snapshot,
    list_numbered,
    list_snapshot_ids,
    parse_snapshot,
    read_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# Written next to tags when `tag.create-success-file` is on: they say when a tag was complete, and hold no snapshot.
_TAG_MARKS = "tag-success-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Snapshots of tags and branches, changelogs, and how far consumers have read."""

    snapshots: tuple[Snapshot, ...]
    changelogs: tuple[Snapshot, ...]
    next_to_consume: int | None
    names: frozenset[str]  # of tags, branches and changelogs: if they change, a plan is out of date


def read_references(io: FileIO, table: str) -> References:
    """Read all references; RefusedError, CorruptionError or OSError if one of them is in doubt."""
    check_no_unknown_reference(io, table)
    consumers = list_consumers(io, table)
    names = list_reference_names(io, table)
    return References(
        snapshots=list_referenced_snapshots(io, table),
        changelogs=list_changelogs(io, table),
        next_to_consume=min((consumer.next_snapshot for consumer in consumers), default=None),
        names=names,
    )


def list_reference_names(io: FileIO, table: str) -> frozenset[str]:
    """The names of all tags, branches and changelogs, with the snapshots that tags refer to."""
    branches = list_branches(io, table)
    tags = [f"tag {tag.name} of {tag.snapshot.id}" for tag in list_tags(io, table)]
    for branch in branches:
        tags += [f"tag {tag.name} of {tag.snapshot.id} in {branch}" for tag in list_tags(io, table, branch=branch)]
    changelogs = (f"changelog {changelog.id}" for changelog in list_changelogs(io, table))
    return frozenset((*tags, *changelogs, *(f"branch {branch}" for branch in branches)))


def check_no_unknown_reference(io: FileIO, table: str) -> None:
    """Raise RefusedError if there is an unknown entry among tags or branches: it may keep files alive."""
    for folder, prefix, kind in (
        (tag_folder(table), "tag-", EntryKind.FILE),
        (f"{table}/branch", "branch-", EntryKind.DIRECTORY),
    ):
        for entry in list_entries(io, folder):
            known = entry.kind is kind and entry.name.startswith(prefix)
            if not known and entry.name != _TAG_MARKS and not entry.name.startswith("."):
                raise RefusedError(f"{folder}/{entry.name} is not known to packstone; it may keep files alive.")
    for branch in list_branches(io, table):
        if not list_schema_ids(io, branch_path(table, branch)):
            raise RefusedError(f"The branch {branch} has no schema, so what it keeps alive is not known.")


_TAG: Final = "tag-"
_BRANCH: Final = "branch-"
_CONSUMER: Final = "consumer-"
_CHANGELOG: Final = "changelog-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A snapshot with a name; its files stay when the snapshot expires."""

    name: str
    snapshot: Snapshot

    def __str__(self) -> str:
        return f"tag {self.name} of {self.snapshot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A streaming reader, and the first snapshot that it has not read yet."""

    name: str
    next_snapshot: int


def list_tags(io: FileIO, table: str, *, branch: str = MAIN_BRANCH) -> tuple[Tag, ...]:
    """The tags of a table or of one of its branches, by name."""
    folder = tag_folder(branch_path(table, branch))
    tags = []
    for name in _names(io, folder, _TAG):
        path = f"{folder}/{_TAG}{name}"
        try:
            tags.append(Tag(name=name, snapshot=parse_snapshot(io.read_bytes(path), path=path)))
        except FileNotFoundError:
            continue  # deleted between the two calls
    return tuple(tags)


def list_branches(io: FileIO, table: str) -> tuple[str, ...]:
    """The names of all branches but the main one."""
    return _names(io, f"{table}/branch", _BRANCH, kind=EntryKind.DIRECTORY)


def list_consumers(io: FileIO, table: str) -> tuple[Consumer, ...]:
    """The streaming readers that a table has on record."""
    folder = consumer_folder(table)
    consumers = []
    for name in _names(io, folder, _CONSUMER):
        path = f"{folder}/{_CONSUMER}{name}"
        try:
            following = int(json.loads(io.read_bytes(path))["nextSnapshot"])
        except FileNotFoundError:
            continue  # deleted between the two calls
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"{path} is not a Paimon consumer.", path=path) from error
        consumers.append(Consumer(name=name, next_snapshot=following))
    return tuple(consumers)


def list_changelogs(io: FileIO, table: str, *, branch: str = MAIN_BRANCH) -> tuple[Snapshot, ...]:
    """The changelogs that outlived their snapshots, by number; they have the format of snapshots."""
    folder = changelog_folder(branch_path(table, branch))
    found = []
    for number in list_numbered(io, folder, _CHANGELOG):
        path = f"{folder}/{_CHANGELOG}{number}"
        try:
            found.append(parse_snapshot(io.read_bytes(path), path=path))
        except FileNotFoundError:
            continue
    return tuple(found)


def list_referenced_snapshots(io: FileIO, table: str) -> tuple[Snapshot, ...]:
    """Every snapshot whose files must stay although possibly no snapshot of the main branch names them.

    Tags of the main branch, and snapshots, tags and changelogs of all other branches. The manifests of all of them
    are in the table's own ``manifest/``.
    """
    kept = [tag.snapshot for tag in list_tags(io, table)]
    for branch in list_branches(io, table):
        kept += [tag.snapshot for tag in list_tags(io, table, branch=branch)]
        kept += list_changelogs(io, table, branch=branch)
        root = branch_path(table, branch)
        for number in list_snapshot_ids(io, root):
            try:
                kept.append(read_snapshot(io, root, number))
            except FileNotFoundError:
                continue  # expired between the two calls
    return tuple(kept)


def _names(io: FileIO, folder: str, prefix: str, *, kind: EntryKind = EntryKind.FILE) -> tuple[str, ...]:
    named = (entry.name for entry in list_entries(io, folder) if entry.kind is kind and entry.name.startswith(prefix))
    return tuple(sorted(name.removeprefix(prefix) for name in named))


FileKey: TypeAlias = tuple[bytes, int, str]  # partition, bucket, name: one path, on any level


def file_key(entry: ManifestEntry) -> FileKey:
    """The key of an entry's file."""
    return entry.partition, entry.bucket, entry.file.file_name


class FileReferences:
    """Which of some wanted data files a snapshot names.

    A table may have millions of files and dozens of tags that share most of their manifests. So each manifest is read
    once, without statistics, and only the entries of wanted files are kept.
    """

    def __init__(self, io: FileIO, table: str, *, wanted: Collection[FileKey]) -> None:
        self._io, self._table, self._wanted = io, table, wanted
        self._seen: dict[str, tuple[Counter[FileKey], Counter[FileKey]]] = {}

    def live(self, snapshot: Snapshot) -> set[FileKey]:
        """The wanted files that are live in a snapshot: added more often than deleted."""
        balance: Counter[FileKey] = Counter()
        for meta in read_all_manifests(self._io, self._table, snapshot):
            added, deleted = self._lines(meta.file_name)
            balance.update(added)
            balance.subtract(deleted)
        return {key for key, count in balance.items() if count > 0}

    def added(self, list_name: str | None) -> set[FileKey]:
        """The wanted files that some manifest of a list adds."""
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
