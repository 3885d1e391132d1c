"""What keeps old files alive besides snapshots: tags, branches, streaming readers (consumers) and old changelogs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from packstone.errors import CorruptionError
from packstone.storage.fileio import FileIO, Kind
from packstone.tables.paimon.paths import MAIN_BRANCH, branch_path, changelog_folder, consumer_folder, tag_folder
from packstone.tables.paimon.snapshot import Snapshot
from packstone.tables.paimon.snapshot_files import list_numbered, list_snapshot_ids, parse_snapshot, read_snapshot

_TAG: Final = "tag-"
_BRANCH: Final = "branch-"
_CONSUMER: Final = "consumer-"
_CHANGELOG: Final = "changelog-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A snapshot with a name; its files stay, whatever expires."""

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
    return _names(io, f"{table}/branch", _BRANCH, kind=Kind.DIRECTORY)


def list_consumers(io: FileIO, table: str, *, branch: str = MAIN_BRANCH) -> tuple[Consumer, ...]:
    """The streaming readers that a table knows of."""
    folder = consumer_folder(branch_path(table, branch))
    consumers = []
    for name in _names(io, folder, _CONSUMER):
        path = f"{folder}/{_CONSUMER}{name}"
        try:
            following = int(json.loads(io.read_bytes(path))["nextSnapshot"])
        except FileNotFoundError:
            continue  # deleted between the two calls
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"{path} is no Paimon consumer.", path=path) from error
        consumers.append(Consumer(name=name, next_snapshot=following))
    return tuple(consumers)


def list_changelogs(io: FileIO, table: str, *, branch: str = MAIN_BRANCH) -> tuple[Snapshot, ...]:
    """The changelogs that outlived their snapshots, by number; each is written like a snapshot."""
    folder = changelog_folder(branch_path(table, branch))
    found = []
    for number in list_numbered(io, folder, _CHANGELOG):
        path = f"{folder}/{_CHANGELOG}{number}"
        try:
            found.append(parse_snapshot(io.read_bytes(path), path=path))
        except FileNotFoundError:
            continue
    return tuple(found)


def list_protecting_snapshots(io: FileIO, table: str) -> tuple[Snapshot, ...]:
    """Every snapshot whose files must stay though no snapshot of the main branch may name them.

    Tags of the main branch, and snapshots, tags and changelogs of all other branches. The manifests of all of them
    stand in the table's own ``manifest/``.
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


def _names(io: FileIO, folder: str, prefix: str, *, kind: Kind = Kind.FILE) -> tuple[str, ...]:
    try:
        entries = list(io.list_dir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    named = (entry.name for entry in entries if entry.kind is kind and entry.name.startswith(prefix))
    return tuple(sorted(name.removeprefix(prefix) for name in named))
