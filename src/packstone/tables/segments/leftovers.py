"""Find dead loads and compactions, the files that they left, and files that no record names.

A load and a compaction are runs with a folder of their own (``runs/folder.py``), in which the path of every file is
recorded before the file exists. The folder is created before the status names the run, as the ``attempt`` of a load or
of a registered merge, and is removed after the status has dropped it; so for every run in the status it can be checked
whether the run is alive. Files that a dead run has recorded and no segment names may be removed.

The order matters: first determine which runs are dead, then read the status. In the other order, a run that was alive
when the status was read may have committed and died before the check. A run on another host that is considered dead
because its lease expired may resume: so a commit ends its registrations before any of its files is touched; after that
it cannot commit, and the mark in its folder keeps it from registering again.

A run that is not in the status has either not begun, was abandoned, or has committed. In the last case its segments
name files that must be kept; the other files that it recorded, of failed tries of a task, are removed.
"""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.model.codec import check_relative, damaged, load_record
from packstone.runs.folder import CreatedFiles, RunFolders, RunInfo, is_created_record, list_names
from packstone.runs.liveness import LEASE_SECONDS
from packstone.runs.state_folder import find_state_folder
from packstone.storage.fileio import EntryKind, list_entries
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import Change, abandon_attempt
from packstone.tables.segments.format.layout import (
    DATA_FOLDER,
    METADATA_FOLDER,
    LinkGuard,
    delete_file_path,
    index_file_path,
    linked,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.format.segment_file import read_segment
from packstone.tables.segments.format.status_files import read_latest, read_retired

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packstone.runs.clock import Clock
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.format.status import StatusEntry, TableStatus

_BAD_RECORDS = f"{METADATA_FOLDER}/badrecords/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovableFile:
    """A file that may be removed; the path is relative to the table."""

    path: str
    size_bytes: int

    @property
    def is_data(self) -> bool:
        """Whether it is a data file."""
        return self.path.startswith(f"{DATA_FOLDER}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadAttempt:
    """A dead run, and the files that it left."""

    attempt: str
    what: str
    is_registered: bool
    files: tuple[RemovableFile, ...]
    committed: frozenset[str] = frozenset()  # the segment files that it has published

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        return f"{self.what}: {len(self.files)} files {self.size_bytes}B"


def find_dead(io: FileIO, table: str, status: TableStatus, *, now_ms: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dead runs among those in the status or with records of files, and a sentence for each live one."""
    started = _started(status)
    folders = table_runs(io, table)
    dead, alive = [], []
    for attempt in dict.fromkeys((*started, *list_attempts(io, table))):
        since = started.get(attempt)
        if since is None:
            found = io.stat(folders.folder(attempt))
            if found is None:
                continue  # ended since the listing, or an empty folder that the object store still lists
            since = found.mtime_ns // 1_000_000
        if is_dead(io, table, attempt, started_ms=since, now_ms=now_ms):
            dead.append(attempt)
        elif attempt in started or folders.list_created(attempt):
            record = read_attempt(io, table, attempt)
            alive.append(f"The {record or f'run {attempt}'} is still running; its files are left alone.")
    return tuple(dead), tuple(alive)


def _started(status: TableStatus) -> dict[str, int]:
    """The runs that the status names, with their start times."""
    started = {running.attempt: running.started_ms for running in reversed(status.running)}
    return started | {entry.attempt: entry.load_start_ms for entry in status.loading}


def is_registered(io: FileIO, table: str, attempt: str) -> bool:
    """Whether the status names a run; True if it cannot be read, so that nothing of the run is removed."""
    try:
        return read_latest(io, table).is_registered(attempt)
    except (OSError, PackstoneError):
        return True


def find_dead_registrations(
    io: FileIO, table: str, status: TableStatus, *, now_ms: int, take_over: bool = False
) -> tuple[str, ...]:
    """The runs that the status names and whose process is dead."""
    return tuple(
        attempt
        for attempt, since in _started(status).items()
        if is_dead(io, table, attempt, started_ms=since, now_ms=now_ms, take_over=take_over)
    )


def end_registrations(io: FileIO, table: str, dead: Collection[str], *, clock: Clock, operation: str) -> TableStatus:
    """Abandon the loads and merges of dead runs in one commit; `clean` finds their files by the recorded names."""

    def edit(status: TableStatus) -> Change:
        return _without(status, dead, now_ms=clock.now_ms())

    return commit_edit(io, table, edit, clock=clock, operation=operation)


def without_dead_compactions(io: FileIO, table: str, status: TableStatus, *, now_ms: int) -> TableStatus:
    """The status as it is once dead compactions are ended; writes nothing."""
    running = {one.attempt: one.started_ms for one in reversed(status.running)}
    dead = [one for one, at in running.items() if is_dead(io, table, one, started_ms=at, now_ms=now_ms)]
    return _without(status, dead, now_ms=now_ms).status


def _without(status: TableStatus, dead: Collection[str], *, now_ms: int) -> Change:
    changed = status
    retired: list[StatusEntry] = []
    for attempt in dead:
        change = abandon_attempt(changed, attempt=attempt, now_ms=now_ms)
        changed = change.status
        retired += change.retired
    return Change(status=changed, retired=tuple(retired))


def describe_dead(
    io: FileIO, table: str, attempt: str, *, status: TableStatus, retired: Iterable[StatusEntry]
) -> DeadAttempt:
    """Return what a dead run left; PackstoneError if that is unknown, and then none of its files may be removed."""
    record = read_attempt(io, table, attempt)
    is_load = status.find_load(attempt) is not None
    committed = [
        entry for entry in (*status.live, *retired) if entry.attempt == attempt and entry.segment_file is not None
    ]
    needed = {path for entry in committed for path in _needed_files(io, table, entry)}
    found, guard = [], LinkGuard(io, table)
    created = read_created(io, table, attempt)
    for path in created:
        link = guard.find_link(path)
        if link is not None:
            raise linked(table, link)
    for path in created:
        is_kept = is_bad_rows(path) and bool(committed)  # of a successful load: for the user
        there = None if path in needed or is_kept or attempt not in path else io.stat(f"{table}/{path}")
        if there is not None:
            found.append(RemovableFile(path=path, size_bytes=there.size_bytes))
    return DeadAttempt(
        attempt=attempt,
        what=str(record) if record is not None else f"{'load' if is_load else 'run'} {attempt}",
        is_registered=status.is_registered(attempt),
        files=tuple(found),
        committed=frozenset(entry.segment_file for entry in committed if entry.segment_file is not None),
    )


def is_bad_rows(path: str) -> bool:
    """Whether a path (relative to the table) is that of a file of bad rows."""
    return path.startswith(_BAD_RECORDS)


def _needed_files(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    """The files of a committed segment; without its segment file they cannot be distinguished from leftovers."""
    found = files_of(io, table, entry)
    if not found and entry.modified_ms is None:  # a live one: clean did not remove it
        path = segment_file_path(table, entry.segment_file or "")
        raise CorruptionError(f"The segment file {path} of segment {entry.id} is missing.", file=path)
    return found


def files_of(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    """All files of a committed segment, relative to the table: data, deleted rows, index, and the segment file last.

    Empty if the segment file is missing: it is removed last. PackstoneError if it is damaged.
    """
    if entry.segment_file is None:
        return ()
    try:
        content = read_segment(io, table, entry)
    except FileNotFoundError:
        return ()
    prefix = f"{table}/"
    own = [index_file_path(table, content.index_file), segment_file_path(table, entry.segment_file)]
    if entry.delete_file is not None:
        own.insert(0, delete_file_path(table, entry.delete_file))
    return (*(file.path for file in content.files), *(path.removeprefix(prefix) for path in own))


def describe_all(
    io: FileIO, table: str, attempts: Iterable[str], *, status: TableStatus, retired: tuple[StatusEntry, ...]
) -> tuple[tuple[DeadAttempt, ...], tuple[str, ...]]:
    """Describe dead runs; for one whose records are damaged, return a sentence instead."""
    found, left = [], []
    for attempt in attempts:
        try:
            found.append(describe_dead(io, table, attempt, status=status, retired=retired))
        except RefusedError:  # of a newer format: then nothing at all may be removed
            raise
        except PackstoneError as error:
            left.append(f"{error.message} The files of run {attempt} are left alone.")
    return tuple(found), tuple(left)


# ---- unknown files ----


_NAMED: Final = 1_000  # unknown files whose paths are listed; further ones are only counted


@dataclass(slots=True)
class UnknownFiles:
    """Files below ``Fact/`` that no segment and no run names: their number, size and first paths.

    They are reported, never removed, because somebody may need them: a copy of a table without its runs has such files,
    and so has a folder that is also used for something else.
    """

    count: int = 0
    size_bytes: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, path: str, found: Entry) -> None:
        """Add one file."""
        self.count += 1
        self.size_bytes += found.size_bytes
        if len(self.paths) < _NAMED:
            self.paths.append(path)


def find_unknown(io: FileIO, table: str, entries: Iterable[StatusEntry]) -> UnknownFiles:
    """Find unknown files in ``Fact/``; ``entries`` are all live and retired segments.

    Other runs write at the same time. A file is recorded before it exists, and its record is removed only after a
    status names the file, or after the file is removed. So the files found are checked again against the records, then
    against the newest status.
    """
    found = _find_unnamed(io, table, _by_folder(entries))
    unknown = UnknownFiles()
    if not found:
        return unknown
    recorded = {path for attempt in list_attempts(io, table) for path in _created(io, table, attempt)}
    status = read_latest(io, table)
    by_folder = _by_folder((*status.entries, *read_retired(io, table, status)))
    for folder, files in groupby(found.items(), key=lambda one: posixpath.dirname(one[0])):
        known = recorded.union(*(_files_of(io, table, entry) for entry in by_folder.get(folder, ())))
        for path, file in files:
            if path not in known and io.stat(f"{table}/{path}") is not None:
                unknown.add(path, file)
    return unknown


def _by_folder(entries: Iterable[StatusEntry]) -> dict[str, list[StatusEntry]]:
    found: dict[str, list[StatusEntry]] = {}
    for entry in entries:
        found.setdefault(segment_folder(entry.id), []).append(entry)
    return found


def _find_unnamed(io: FileIO, table: str, by_folder: Mapping[str, Sequence[StatusEntry]]) -> dict[str, Entry]:
    """Files that none of these segments has, by path, folder by folder; includes files that runs are writing.

    A segment file is read only if the folder holds another number of files than the status says. Several segments can
    share a folder: the id of an undone merge is used again.
    """
    found: dict[str, Entry] = {}
    for folder in list_entries(io, f"{table}/{DATA_FOLDER}"):
        path = f"{DATA_FOLDER}/{folder.name}"
        if folder.kind is not EntryKind.DIRECTORY:
            found[path] = folder
            continue
        files = list_entries(io, f"{table}/{path}")
        entries = by_folder.get(path, ())
        if entries and len(files) == sum(entry.files for entry in entries):
            continue
        known = frozenset[str]().union(*(_files_of(io, table, entry) for entry in entries))
        found.update({f"{path}/{file.name}": file for file in files if f"{path}/{file.name}" not in known})
    return found


def _files_of(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    try:
        return files_of(io, table, entry)
    except PackstoneError:
        return ()


def _created(io: FileIO, table: str, attempt: str) -> tuple[str, ...]:
    try:
        return read_created(io, table, attempt)
    except (OSError, PackstoneError):
        return ()


# ---- runs and their records ----


_CREATED_IN: Final = frozenset({"index", "segments", "badrecords"})
_ENDED: Final = "ended.json"


def table_runs(io: FileIO, table: str) -> RunFolders:
    """The folders of all runs on a table."""
    return RunFolders(io=io, state=find_state_folder(io, table))


def list_attempts(io: FileIO, table: str) -> tuple[str, ...]:
    """The runs that have not ended or that left records of files: those that `clean` has to inspect."""
    folders = table_runs(io, table)
    return tuple(run for run in folders.list_runs() if _is_open(folders, run))


def _is_open(folders: RunFolders, run: str) -> bool:
    names = [entry.name for entry in list_names(folders.io, folders.folder(run))]
    if not names:  # killed at its first step; on an object store, an empty folder that is still listed
        return folders.io.capabilities.has_folders
    return _ENDED not in names or any(map(is_created_record, names))


def read_attempt(io: FileIO, table: str, attempt: str) -> RunInfo | None:
    """Read a run's own record; None if it cannot be read, RefusedError if a newer packstone wrote it."""
    try:
        return table_runs(io, table).read_info(attempt)
    except (OSError, CorruptionError):
        return None


def is_dead(io: FileIO, table: str, attempt: str, *, started_ms: int, now_ms: int, take_over: bool = False) -> bool:
    """Whether a run has ended or its process is dead, according to ``RunFolders.is_dead``.

    A copy of a table may have a registration without a run folder, a damaged table one with a torn record: for both the
    lease counts from the start of the registration, or from the last heartbeat.
    """
    folders, last_ms = table_runs(io, table), started_ms
    try:
        if io.stat(folders.folder(attempt)) is not None:
            return folders.is_dead(attempt, now_seconds=now_ms / 1000, take_over=take_over)
    except CorruptionError:
        heartbeat = io.stat(folders.heartbeat(attempt))
        last_ms = max(started_ms, 0 if heartbeat is None else heartbeat.mtime_ns // 1_000_000)
    return now_ms - last_ms > LEASE_SECONDS * 1000


def check_created(path: str) -> None:
    """Refuse a path (relative to the table) where no run creates files: `clean` removes what these records name."""
    check_relative(path)
    folder, _, name = path.partition("/")
    where, _, rest = name.partition("/")
    is_data = folder == DATA_FOLDER and where.startswith("Segment_") and rest and "/" not in rest
    is_own = folder == METADATA_FOLDER and where in _CREATED_IN and rest
    if not is_data and not is_own:
        raise ValueError(f"{path[:100]!r} is not a file of a run")


def read_created(io: FileIO, table: str, attempt: str) -> tuple[str, ...]:
    """All paths (relative to the table) that a run recorded; CorruptionError if one cannot be a file of the run."""
    paths: dict[str, None] = {}
    for record in table_runs(io, table).list_created(attempt):
        for path in load_record(CreatedFiles, io.read_bytes(record), path=record).paths:
            try:
                paths[_inside(table, path)] = None
            except ValueError as error:
                raise damaged(record, error) from error
    return tuple(paths)


def _inside(table: str, path: str) -> str:
    if not path.startswith(f"{table}/"):
        raise ValueError(f"{path[:100]!r} is not in the table")
    relative = path.removeprefix(f"{table}/")
    check_created(relative)
    return relative


def close_attempt(io: FileIO, table: str, attempt: str) -> None:
    """Remove a run's records of files, which are all in the status or removed; keeps what it published."""
    folders = table_runs(io, table)
    with contextlib.suppress(CorruptionError):
        folders.fence(attempt)  # a run that resumes after its lease expired must not register anything
    io.remove_tree(folders.staging(attempt))
    if not folders.has_waves(attempt):
        io.remove_tree(folders.folder(attempt))
        return
    for record in folders.list_created(attempt):
        io.remove(record)
    folders.end(attempt)
