"""Give a snapshot its number: the one step that makes a commit visible, and the watch over it afterwards.

Ours is exclusive: ``write_new`` lets exactly one of many callers create ``snapshot-<id>``. Other writers (Java, Python)
ask whether the file exists and then rename over it, so one that asked before us may still replace what we published.
Nothing on a file system can stop that; what we can do is never to take our word for it:

    published, re-read, re-read a moment later           the window of such a writer is milliseconds
    re-read before building on it, and at the run's end  so that a loss is told, with what to do about it

A hint that is not written does no harm: readers look for the next number anyway. One that is written late may.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError, CorruptionError, RefusedError
from packstone.storage.exclusive import check_exclusive
from packstone.tables.paimon.snapshot_files import (
    dump_snapshot,
    find_latest_id,
    list_snapshot_ids,
    read_snapshot,
    snapshot_path,
    write_latest_hint,
)

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.snapshot import Snapshot

BATCH_IDENTIFIER = 2**63 - 1  # what every batch commit has, so it identifies nothing


class Publish(StrEnum):
    """How an attempt to publish ended."""

    OURS = "ours"
    TAKEN = "taken"  # somebody else has the number: build on theirs and try the next
    UNKNOWN = "unknown"  # the store failed, and the number is still free: it may yet appear


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A snapshot of ours, by what tells it from anybody else's of that number."""

    snapshot_id: int
    uuid: str

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.uuid})"


def check_can_publish(io: FileIO, table: str, *, single_writer: bool) -> None:
    """Refuse, by name, a store on which two writers could both believe that they have a number.

    Where there is no rename, other writers publish by a put that overwrites. Between themselves they take their
    catalog's lock, which we do not know; so there must be none of them, and somebody has to say so.
    """
    can = io.capabilities
    if can.create_if_absent and not can.atomic_rename and not single_writer:
        raise RefusedError(
            f"{table} is on an object store, where other writers publish snapshots by a put that overwrites, and "
            "packstone does not take their catalog's lock; if nobody else writes to the table meanwhile, give "
            "--single-writer.",
            table=table,
        )
    check_exclusive(io, f"{table}/manifest", what="snapshot")


def publish_snapshot(io: FileIO, table: str, snapshot: Snapshot) -> Publish:
    """Try to give the snapshot its number."""
    try:
        io.write_new(snapshot_path(table, snapshot.id), dump_snapshot(snapshot))
    except FileExistsError:
        outcome = _who_has_it(io, table, snapshot)  # ours, from a first try whose answer was lost; or somebody's
    except OSError:
        outcome = _who_has_it(io, table, snapshot)  # it may have been written all the same
    else:
        outcome = Publish.OURS
    if outcome is Publish.OURS:
        _write_hint(io, table, snapshot.id)
    return outcome


def find_ours(io: FileIO, table: str, snapshot: Snapshot) -> Snapshot | None:
    """Look for our commit at its number and at all later ones: by its uuid, or by user, identifier and kind."""
    latest = find_latest_id(io, table) or 0
    for snapshot_id in range(snapshot.id, latest + 1):
        try:
            there = read_snapshot(io, table, snapshot_id)
        except FileNotFoundError:
            continue  # expired
        if is_same_commit(there, snapshot):
            return there
    return None


def is_same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots are the same commit, tried more than once."""
    if one.uuid is not None and one.uuid == other.uuid:
        return True
    if BATCH_IDENTIFIER in (one.commit_identifier, other.commit_identifier):
        return False
    return (one.commit_user, one.commit_identifier, one.commit_kind) == (
        other.commit_user,
        other.commit_identifier,
        other.commit_kind,
    )


def check_published(io: FileIO, table: str, published: Published) -> None:
    """Re-read a snapshot of ours; raise if it is not there any more as we wrote it. An expired one is fine.

    ConflictError: another writer replaced it and nobody has built on it since: our commit did not happen.
    CommitUnknownError: it was replaced or removed, and later snapshots exist: they may be built on either.
    """
    number = published.snapshot_id
    try:
        there = read_snapshot(io, table, number)
    except FileNotFoundError:
        _check_expired(io, table, number)
        return
    if there.uuid == published.uuid:
        return
    by = f"{there.commit_kind} of user {there.commit_user} ({there.writer_version or 'unknown writer'})"
    path = snapshot_path(table, number)
    if (find_latest_id(io, table) or 0) <= number:
        raise ConflictError(
            f"{path}, which packstone had published, was replaced by an {by} that did not see it; the rows are those "
            "of before the compaction and of that commit. Plan again; a catalog lock keeps writers apart.",
            snapshot=number,
        )
    raise CommitUnknownError(
        f"{path}, which packstone had published, was replaced by an {by} after later snapshots were built; compare "
        f"{there.delta_manifest_list} with snapshot {number + 1} to see whose files are missing, and write them again.",
        snapshot=number,
    )


def _check_expired(io: FileIO, table: str, number: int) -> None:
    ids = list_snapshot_ids(io, table)
    if ids and ids[0] > number:
        return
    raise CommitUnknownError(
        f"{snapshot_path(table, number)}, which packstone had published, is gone, although snapshots of before it "
        "exist; somebody rolled the table back or removed it. Look at its snapshots before you compact again.",
        snapshot=number,
    )


def _write_hint(io: FileIO, table: str, number: int) -> None:
    """Tell readers, unless somebody is ahead of us: Java believes a hint whose successor does not exist.

    So a hint that comes late, when its successor has expired already, would lead it nowhere.
    """
    with contextlib.suppress(OSError):
        if io.stat(snapshot_path(table, number + 1)) is None:
            write_latest_hint(io, table, number)


def _who_has_it(io: FileIO, table: str, snapshot: Snapshot) -> Publish:
    try:
        there = read_snapshot(io, table, snapshot.id)
    except (OSError, CorruptionError):
        return Publish.UNKNOWN
    return Publish.OURS if is_same_commit(there, snapshot) else Publish.TAKEN
