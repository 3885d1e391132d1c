"""What keeps files alive besides the snapshots of the table itself; all of it is read, or nothing may be removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import RefusedError
from packstone.storage.fileio import Kind
from packstone.tables.paimon.paths import branch_path, tag_folder
from packstone.tables.paimon.snapshot import Snapshot
from packstone.tables.paimon.table_schema import list_schema_ids
from packstone.tables.paimon.tags import (
    list_branches,
    list_changelogs,
    list_consumers,
    list_protecting_snapshots,
    list_tags,
)

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

# Written beside tags when `tag.create-success-file` is on: they say when a tag was complete, and hold no snapshot.
_TAG_MARKS = "tag-success-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protectors:
    """Snapshots of tags and branches, changelogs, and how far consumers have read."""

    snapshots: tuple[Snapshot, ...]
    changelogs: tuple[Snapshot, ...]
    next_to_consume: int | None
    names: frozenset[str]  # of tags, branches and changelogs: if they change, whoever planned must plan again


def read_protectors(io: FileIO, table: str) -> Protectors:
    """Read them all; RefusedError, CorruptionError or OSError if one of them is in doubt."""
    check_no_stranger(io, table)
    consumers = list_consumers(io, table)
    names = list_protector_names(io, table)
    return Protectors(
        snapshots=list_protecting_snapshots(io, table),
        changelogs=list_changelogs(io, table),
        next_to_consume=min((consumer.next_snapshot for consumer in consumers), default=None),
        names=names,
    )


def list_protector_names(io: FileIO, table: str) -> frozenset[str]:
    """Name all tags, branches and changelogs, with the snapshots that they stand for."""
    branches = list_branches(io, table)
    tags = [f"tag {tag.name} of {tag.snapshot.id}" for tag in list_tags(io, table)]
    for branch in branches:
        tags += [f"tag {tag.name} of {tag.snapshot.id} in {branch}" for tag in list_tags(io, table, branch=branch)]
    changelogs = (f"changelog {changelog.id}" for changelog in list_changelogs(io, table))
    return frozenset((*tags, *changelogs, *(f"branch {branch}" for branch in branches)))


def check_no_stranger(io: FileIO, table: str) -> None:
    """Refuse if there is something among tags or branches that we do not know: it may keep files alive."""
    for folder, prefix, kind in (
        (tag_folder(table), "tag-", Kind.FILE),
        (f"{table}/branch", "branch-", Kind.DIRECTORY),
    ):
        try:
            entries = list(io.list_dir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            known = entry.kind is kind and entry.name.startswith(prefix)
            if not known and entry.name != _TAG_MARKS and not entry.name.startswith("."):
                raise RefusedError(f"{folder}/{entry.name} is not known to packstone; it may keep files alive.")
    for branch in list_branches(io, table):
        if not list_schema_ids(io, branch_path(table, branch)):
            raise RefusedError(f"The branch {branch} has no schema, so what it keeps alive is not known.")
