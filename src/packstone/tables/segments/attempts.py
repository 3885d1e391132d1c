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
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from packstone.errors import CorruptionError
from packstone.model.codec import dump_record, load_record
from packstone.model.record_fields import RunId, check_relative, check_run
from packstone.model.segment import SegmentId
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.storage.fileio import Kind
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

    from packstone.storage.fileio import Entry, FileIO

_CREATED: Final = "created-"
_CREATED_IN: Final = frozenset({"index", "segments", "badrecords", "attempts"})


class AttemptKind(StrEnum):
    """What an attempt does."""

    LOAD = "load"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """What an attempt says of itself; its segment is in the status, by the attempt's id."""

    attempt: RunId
    kind: AttemptKind
    process: ProcessIdentity
    started_ms: int
    inputs: tuple[SegmentId, ...] = ()  # of a compaction

    def __str__(self) -> str:
        return f"{self.kind} {self.attempt} ({self.process})"


def check_created(path: str) -> None:
    """Refuse a path where no attempt creates a file: `clean` removes what these records name."""
    check_relative(path)
    folder, _, name = path.partition("/")
    where, _, rest = name.partition("/")
    is_data = folder == DATA_FOLDER and where.startswith("Segment_") and rest and "/" not in rest
    is_own = folder == METADATA_FOLDER and where in _CREATED_IN and rest
    if not is_data and not is_own:
        raise ValueError(f"{path[:100]!r} is not a file of an attempt")


CreatedPath: TypeAlias = Annotated[str, check_created]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedPaths:
    """Paths, relative to the table, that an attempt is about to create."""

    paths: tuple[CreatedPath, ...]


def open_attempt(io: FileIO, table: str, record: AttemptRecord) -> None:
    """Make the folder of an attempt; the heartbeat comes first, so that nobody finds a record without one."""
    io.make_dirs(attempt_folder(table, record.attempt))
    io.replace(heartbeat_path(table, record.attempt), b"")
    io.write_new(attempt_path(table, record.attempt), dump_record(record))


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
    """The ids of all attempts that have a folder; what is no folder, or has the name of none of ours, is left out."""
    found = _list(io, attempts_folder(table))
    return tuple(entry.name for entry in found if entry.kind is Kind.DIRECTORY and _is_id(entry.name))


def read_attempt(io: FileIO, table: str, attempt: str) -> AttemptRecord | None:
    """What an attempt says of itself; None if that cannot be read, RefusedError if a newer packstone wrote it."""
    path = attempt_path(table, attempt)
    try:
        record = load_record(AttemptRecord, io.read_bytes(path), path=path)
    except (OSError, CorruptionError):
        return None
    return record if record.attempt == attempt else None


def read_created(io: FileIO, table: str, attempt: str) -> tuple[str, ...]:
    """All paths (relative to the table) that an attempt recorded; CorruptionError if one cannot be its own."""
    folder = attempt_folder(table, attempt)
    paths: dict[str, None] = {}
    for entry in _list(io, folder):
        if entry.name.startswith(_CREATED) and entry.name.endswith(".json"):
            path = f"{folder}/{entry.name}"
            paths.update(dict.fromkeys(load_record(CreatedPaths, io.read_bytes(path), path=path).paths))
    return tuple(paths)


def _is_id(name: str) -> bool:
    try:
        check_run(name)
    except ValueError:
        return False
    return True


def is_dead(io: FileIO, table: str, attempt: str, *, started_ms: int, now_ms: int) -> bool:
    """Whether an attempt's process is gone: seen on this host, or, on another, by a heartbeat older than the lease.

    An attempt without a readable record is given the lease from its start: its folder may be on its way.
    """
    record = read_attempt(io, table, attempt)
    if record is None:
        return now_ms - started_ms > LEASE_SECONDS * 1000
    heartbeat = io.stat(heartbeat_path(table, attempt))
    last_ms = record.started_ms if heartbeat is None else heartbeat.mtime_ns // 1_000_000
    return record.process.is_dead(heartbeat_seconds=last_ms / 1000, now_seconds=now_ms / 1000)


def _list(io: FileIO, folder: str) -> list[Entry]:
    try:
        return sorted(io.list_dir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
