"""Loads and compactions whose process is gone, and the files that they left: known by the names they wrote down.

The order matters. First it is found out who is dead, and only then the status is read: an attempt that was alive when
the status was read may have committed and died before we asked. One that is taken for dead by its lease, on another
host, may wake up: so its registration is ended by a commit before a file of it is touched; after that it cannot commit
any more, and without its folder it cannot record, and so not create, another file.

An attempt that is not in the status has either never begun, was given up, or has committed. In the last case its
segment names files that must stay; what it recorded besides, a lost try of a task or sorted runs, goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.tables.segments.attempts import is_dead, list_attempts, read_attempt, read_created
from packstone.tables.segments.layout import (
    DATA_FOLDER,
    METADATA_FOLDER,
    attempt_folder,
    attempt_path,
    index_file_path,
    segment_file_path,
)
from packstone.tables.segments.link_guard import LinkGuard, linked
from packstone.tables.segments.segment_file import read_segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry, TableStatus

_BAD_RECORDS = f"{METADATA_FOLDER}/badrecords/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoomedFile:
    """A file that may go; the path is relative to the table."""

    path: str
    size_bytes: int

    @property
    def is_data(self) -> bool:
        """Whether rows are in it."""
        return self.path.startswith(f"{DATA_FOLDER}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadAttempt:
    """An attempt that is over, and what it left."""

    attempt: str
    what: str
    is_registered: bool
    files: tuple[DoomedFile, ...]

    @property
    def size_bytes(self) -> int:
        """How much its files take."""
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        return f"{self.what}: {len(self.files)} files {self.size_bytes}B"


def find_dead(io: FileIO, table: str, status: TableStatus, *, now_ms: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attempts of the status and of the folder that are dead; and a sentence about each that lives."""
    started = {entry.attempt: entry.load_start_ms for entry in status.loading}
    started |= {running.attempt: running.started_ms for running in status.running}
    dead, alive = [], []
    for attempt in dict.fromkeys((*started, *list_attempts(io, table))):
        since = started.get(attempt)
        if since is None:
            since = _last_change_ms(io, attempt_folder(table, attempt))
        if since is None:
            continue  # over since the listing, or an emptied folder that the store has yet to forget
        if is_dead(io, table, attempt, started_ms=since, now_ms=now_ms):
            dead.append(attempt)
        else:
            record = read_attempt(io, table, attempt)
            alive.append(f"The {record or f'attempt {attempt}'} is still at work; its files are left alone.")
    return tuple(dead), tuple(alive)


def _last_change_ms(io: FileIO, folder: str) -> int | None:
    """When something in an attempt's folder changed last; None if it is not there.

    Where folders have no time of their own, that of the youngest file: one that appears after its folder was removed,
    by a process that slept, makes the attempt as young as itself.
    """
    found = io.stat(folder)
    if found is None or io.capabilities.has_folders:
        return None if found is None else found.mtime_ns // 1_000_000
    try:
        return max((entry.mtime_ns for entry in io.list_dir(folder)), default=0) // 1_000_000
    except FileNotFoundError:
        return None


def describe_dead(
    io: FileIO, table: str, attempt: str, *, status: TableStatus, retired: Iterable[StatusEntry]
) -> DeadAttempt:
    """What a dead attempt left; PackstoneError if that cannot be told, and then nothing of it may go."""
    record = read_attempt(io, table, attempt)
    is_load = status.find_load(attempt) is not None
    is_registered = is_load or status.find_compaction(attempt) is not None
    committed = [
        entry for entry in (*status.live, *retired) if entry.attempt == attempt and entry.segment_file is not None
    ]
    needed = {path for entry in committed for path in _needed_files(io, table, entry)}
    found, guard = [], LinkGuard(io, table)
    created = read_created(io, table, attempt)
    for path in (attempt_path("", attempt).removeprefix("/"), *created):
        link = guard.find_link(path)
        if link is not None:
            raise linked(table, link)
    for path in created:
        is_bad_rows = path.startswith(_BAD_RECORDS) and bool(committed)  # rows of a load that succeeded: users' own
        there = None if path in needed or is_bad_rows or attempt not in path else io.stat(f"{table}/{path}")
        if there is not None:
            found.append(DoomedFile(path=path, size_bytes=there.size_bytes))
    return DeadAttempt(
        attempt=attempt,
        what=str(record) if record is not None else f"{'load' if is_load else 'attempt'} {attempt}",
        is_registered=is_registered,
        files=tuple(found),
    )


def _needed_files(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    """The files of a committed segment; without its segment file nobody can tell them from what was left behind."""
    found = files_of(io, table, entry)
    if not found and entry.modified_ms is None:  # a live one: clean did not remove it
        path = segment_file_path(table, entry.segment_file or "")
        raise CorruptionError(f"The segment file {path} of segment {entry.id} is gone.", file=path)
    return found


def files_of(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    """All files of a committed segment, relative to the table: data, index, and the segment file last.

    Nothing if the segment file is gone: it is the last that is removed. PackstoneError if it is damaged.
    """
    if entry.segment_file is None:
        return ()
    try:
        content = read_segment(io, table, entry)
    except FileNotFoundError:
        return ()
    prefix = f"{table}/"
    own = (index_file_path(table, content.index_file), segment_file_path(table, entry.segment_file))
    return (*(file.path for file in content.files), *(path.removeprefix(prefix) for path in own))


def describe_all(
    io: FileIO, table: str, attempts: Iterable[str], *, status: TableStatus, retired: tuple[StatusEntry, ...]
) -> tuple[tuple[DeadAttempt, ...], tuple[str, ...]]:
    """Describe dead attempts; of one whose records are damaged, a sentence instead."""
    found, left = [], []
    for attempt in attempts:
        try:
            found.append(describe_dead(io, table, attempt, status=status, retired=retired))
        except RefusedError:  # of a newer format: then nothing at all may go
            raise
        except PackstoneError as error:
            left.append(f"{error.message} The files of attempt {attempt} are left alone.")
    return tuple(found), tuple(left)
