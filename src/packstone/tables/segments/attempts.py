"""A load or a compaction at work tells of itself in a folder of its own, before it does anything else.

::

    Metadata/attempts/<attempt>/attempt.json         what it does, and which process does it
    Metadata/attempts/<attempt>/heartbeat            its time says that the process lives
    Metadata/attempts/<attempt>/created-<label>.json paths, before the files exist

The folder is made before the status names the attempt and removed after the status has let go of it, so whoever finds
an attempt in the status can ask whether it lives. What a dead one has recorded and no status names may be removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError
from packstone.model.codec import dump_record, load_record
from packstone.model.segment import SegmentId
from packstone.storage.ownership import LEASE_SECONDS, ProcessIdentity
from packstone.tables.segments.layout import (
    DATA_FOLDER,
    METADATA_FOLDER,
    attempt_folder,
    attempt_path,
    attempts_folder,
    heartbeat_path,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO

_CREATED: Final = "created-"


class AttemptKind(StrEnum):
    """What an attempt does."""

    LOAD = "load"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """What an attempt says of itself; its segment is in the status, by the attempt's id."""

    attempt: str
    kind: AttemptKind
    process: ProcessIdentity
    started_ms: int
    inputs: tuple[SegmentId, ...] = ()  # of a compaction

    def __str__(self) -> str:
        return f"{self.kind} {self.attempt} ({self.process})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedPaths:
    """Paths, relative to the table, that an attempt is about to create."""

    paths: tuple[str, ...]


def open_attempt(io: FileIO, table: str, record: AttemptRecord) -> None:
    """Make the folder of an attempt; the heartbeat comes first, so that nobody finds a record without one."""
    io.make_dirs(attempt_folder(table, record.attempt))
    io.replace(heartbeat_path(table, record.attempt), b"")
    io.write_new(attempt_path(table, record.attempt), dump_record(record))


def beat(io: FileIO, table: str, attempt: str) -> None:
    """Say that the attempt lives."""
    io.replace(heartbeat_path(table, attempt), b"")


def record_created(io: FileIO, table: str, attempt: str, *, paths: Sequence[str], label: str) -> None:
    """Write down paths (relative to the table) before they are created; the label is unique in its attempt."""
    path = f"{attempt_folder(table, attempt)}/{_CREATED}{label}.json"
    io.write_new(path, dump_record(CreatedPaths(paths=tuple(paths))))


def drop_created(io: FileIO, table: str, attempt: str, *, label: str) -> None:
    """Forget paths that were recorded and that nobody will create any more."""
    io.remove(f"{attempt_folder(table, attempt)}/{_CREATED}{label}.json")


def close_attempt(io: FileIO, table: str, attempt: str) -> None:
    """Forget an attempt whose files are all in the status, or all removed."""
    io.remove_tree(attempt_folder(table, attempt))


def list_attempts(io: FileIO, table: str) -> tuple[str, ...]:
    """The ids of all attempts that have a folder."""
    return tuple(_names(io, attempts_folder(table)))


def read_attempt(io: FileIO, table: str, attempt: str) -> AttemptRecord | None:
    """What an attempt says of itself; None if it says nothing that can be read."""
    path = attempt_path(table, attempt)
    try:
        return load_record(AttemptRecord, io.read_bytes(path), path=path)
    except (OSError, PackstoneError):
        return None


def read_created(io: FileIO, table: str, attempt: str) -> tuple[str, ...]:
    """All paths (relative to the table) that an attempt recorded; what lies outside the table is left out."""
    folder = attempt_folder(table, attempt)
    paths: dict[str, None] = {}
    for name in _names(io, folder):
        if name.startswith(_CREATED) and name.endswith(".json"):
            path = f"{folder}/{name}"
            created = load_record(CreatedPaths, io.read_bytes(path), path=path)
            paths.update(dict.fromkeys(one for one in created.paths if is_inside(one)))
    return tuple(paths)


def is_inside(path: str) -> bool:
    """Whether a recorded path can be one that we made: below the table's own two folders."""
    parts = path.split("/")
    return len(parts) > 1 and parts[0] in (DATA_FOLDER, METADATA_FOLDER) and not {"", ".", ".."} & set(parts)


def is_dead(io: FileIO, table: str, attempt: str, *, started_ms: int, now_ms: int) -> bool:
    """Whether an attempt's process is gone: seen on this host, or, on another, by a heartbeat older than the lease.

    An attempt without a readable record is given the lease from its start: its folder may be on its way.
    """
    record = read_attempt(io, table, attempt)
    if record is None:
        return now_ms - started_ms > LEASE_SECONDS * 1000
    if record.process.is_on_this_host():
        return not record.process.is_running()
    heartbeat = io.stat(heartbeat_path(table, attempt))
    last_ms = record.started_ms if heartbeat is None else heartbeat.mtime_ns // 1_000_000
    return now_ms - last_ms > LEASE_SECONDS * 1000


def _names(io: FileIO, folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in io.list_dir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
