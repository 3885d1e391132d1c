"""What may go from a segment table, and in which order it goes.

1. *Dead attempts* (dead_attempts.py): registration ended, recorded data files moved to the trash, the rest removed.
2. *Versions* of the status that were out of date before the *cutoff*, which is ``SEGMENT_RETENTION_DAYS`` ago but at
   least ``MAX_QUERY_MINUTES``: neither time travel nor a query at work may need them.
3. *Retired segments*, compacted or deleted before the cutoff and named by no version that stays: data files, index,
   segment file; then one commit moves their entries to the history.
4. Lists of retired and cleaned segments that no version names (what 2 uncovers, and what killed commits left), and
   halves of files that killed writers left, if older than a day: a commit may be just about to name a young one.
5. *Trash* older than ``TRASH_RETENTION_DAYS``.

Everything is planned before anything goes, on versions that have all been read: if one of them cannot be, nothing
goes. Data is found by the names that records tell; folders are listed only to find records of our own.

Why files first and the commit after (3): until the commit, the retired list is the record of what is still to do.
Killed anywhere, the next clean finds the same entries and removes what is left of them; the segment file goes last,
because it names the others. The other way round, files that a kill left behind would be in no list that anybody looks
at. No live file can be hit: an entry never leaves the retired list but for the history (transitions.py), a new segment
never has the name of an old one's file, and what a version that stays names is kept. Versions go before the segments
that only they name, below a floor that is raised first (status_files.py), so a reader of an old version finds either
all of it or no version. Two cleans at once remove the same things, which is harmless, and the second
one's commit finds its entries gone and writes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.storage.fileio import Kind
from packstone.tables.segments.dead_attempts import DeadAttempt, DoomedFile, describe_all, files_of, find_dead
from packstone.tables.segments.layout import (
    DATA_FOLDER,
    METADATA_FOLDER,
    attempts_folder,
    floor_folder,
    history_folder,
    history_path,
    index_folder,
    parse_status_name,
    retired_folder,
    retired_path,
    segment_folder,
    segments_folder,
    status_folder,
    status_path,
    trash_folder,
)
from packstone.tables.segments.link_guard import LinkGuard, linked
from packstone.tables.segments.properties import parse_properties
from packstone.tables.segments.status import DAY_MS
from packstone.tables.segments.status_files import list_versions, read_header, read_latest, read_retired, read_version
from packstone.tables.segments.unknown_files import UnknownFiles, find_unknown
from packstone.tables.segments.version_times import first_needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.segment import SegmentId
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.properties import Properties
    from packstone.tables.segments.status import StatusEntry

_SAFE_AGE_MS: Final = DAY_MS
_MINUTE_MS: Final = 60_000
_LIST_NAME: Final = re.compile(r"[0-9a-f]{16}-\d+\.json")  # as commits name their lists
_HALF_NAME: Final = re.compile(r"\.new-\w{8}")  # as storage/local.py and hdfs.py name a file that is not whole yet
_CLEAN_RACES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSegment:
    """A retired segment whose time is over; its segment file stands last."""

    id: SegmentId
    rows: int
    files: tuple[DoomedFile, ...]

    @property
    def size_bytes(self) -> int:
        """How much comes back."""
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        return f"{self.id} {len(self.files)} files {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashFolder:
    """What one clean moved away."""

    name: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """All that may go, found without changing anything."""

    table: str
    version: int
    keeps_trash: bool  # data of dead attempts goes to the trash first
    attempts: tuple[DeadAttempt, ...] = ()
    versions: range = range(0)
    segments: tuple[ExpiredSegment, ...] = ()
    metadata: tuple[DoomedFile, ...] = ()  # lists and halves that nothing names
    version_bytes: int = 0
    trash: tuple[TrashFolder, ...] = ()
    trash_left_bytes: int = 0
    waiting_segments: int = 0  # retired, and not yet old enough
    waiting_bytes: int = 0
    left_alone: tuple[str, ...] = ()  # one sentence each
    unknown: UnknownFiles = field(default_factory=UnknownFiles)

    @property
    def trashed(self) -> tuple[DoomedFile, ...]:
        """Files that are moved to the trash and come back later."""
        if not self.keeps_trash:
            return ()
        return tuple(file for attempt in self.attempts for file in attempt.files if file.is_data)

    @property
    def removed(self) -> tuple[DoomedFile, ...]:
        """Files that are removed now, but for versions and trash."""
        trashed = set(self.trashed)
        own = (file for attempt in self.attempts for file in attempt.files if file not in trashed)
        return (*own, *(file for segment in self.segments for file in segment.files), *self.metadata)

    @property
    def files(self) -> int:
        """How many files leave their place: removed for good, or moved to the trash."""
        trash = sum(folder.files for folder in self.trash)
        return len(self.removed) + len(self.trashed) + len(self.versions) + trash

    @property
    def size_bytes(self) -> int:
        """How many bytes come back now."""
        trash = sum(folder.size_bytes for folder in self.trash)
        return sum(file.size_bytes for file in self.removed) + self.version_bytes + trash

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do at all."""
        return not (self.attempts or self.versions or self.segments or self.metadata or self.trash)


def plan_clean(io: FileIO, table: str, *, now_ms: int) -> CleanPlan:
    """Look at everything; CorruptionError if a version that stays cannot be read, and then nothing may go."""
    gone = ""
    for _ in range(_CLEAN_RACES):
        try:
            return _plan(io, table, now_ms=now_ms)
        except FileNotFoundError as error:  # another clean is at work
            gone = str(error.filename or table)
        except CorruptionError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            gone = str(error.facts.get("file", table))
    raise CorruptionError(
        f"{gone} is gone, though the status of {table} names it; restore it from a backup. Nothing was removed.",
        table=table,
        file=gone,
    )


def _plan(io: FileIO, table: str, *, now_ms: int) -> CleanPlan:
    _check_no_links(io, table)
    dead, alive = find_dead(io, table, read_latest(io, table), now_ms=now_ms)
    status = read_latest(io, table)  # again: who is dead now has committed before this, or never will
    retired = read_retired(io, table, status)
    properties = parse_properties(status.properties, status.columns)
    cutoff_ms = cutoff(properties, now_ms=now_ms)
    versions = list_versions(io, table)
    first = first_needed(
        versions, cutoff_ms, now_ms=now_ms, read_header=lambda version: read_header(io, table, version)
    )
    kept = range(first, versions.stop)
    needed = _read_needed(io, table, kept)
    attempts, damaged = describe_all(io, table, dead, status=status, retired=retired)
    segments, unclear = _expired(io, table, retired, cutoff_ms=cutoff_ms, needed=needed.segment_files)
    trash, trash_left = _old_trash(io, table, before_ms=now_ms - properties.trash_retention_days * DAY_MS)
    gone = {segment.id for segment in segments}
    waiting = [entry for entry in retired if entry.id not in gone]
    doomed = range(versions.start, kept.start)
    return CleanPlan(
        table=table,
        version=status.version,
        keeps_trash=properties.trash_retention_days > 0,
        attempts=attempts,
        versions=doomed,
        version_bytes=sum(_size(io, status_path(table, version)) for version in doomed),
        segments=segments,
        metadata=(
            *_stray_versions(io, table, versions, before_ms=now_ms - _SAFE_AGE_MS),
            *_unnamed_metadata(io, table, needed.lists, before_ms=now_ms - _SAFE_AGE_MS),
        ),
        trash=trash,
        trash_left_bytes=trash_left,
        waiting_segments=len(waiting),
        waiting_bytes=sum(entry.data_bytes + entry.index_bytes for entry in waiting),
        left_alone=(*alive, *damaged, *unclear),
        unknown=find_unknown(io, table, (*status.entries, *retired)),
    )


def _check_no_links(io: FileIO, table: str) -> None:
    """Refuse a table whose own folders are links: what they lead to may be somebody else's."""
    guard = LinkGuard(io, table)
    for folder in (*_own_folders(table), f"{table}/{DATA_FOLDER}", attempts_folder(table), trash_folder(table)):
        link = guard.find_link(f"{folder.removeprefix(f'{table}/')}/x")
        if link is not None:
            raise RefusedError(
                f"{table}/{link} is a symbolic link, and nothing is removed through it; put the folder itself there.",
                path=link,
            )


def cutoff(properties: Properties, *, now_ms: int) -> int:
    """What was retired, or out of date, before this moment is needed by nobody."""
    retention_ms = properties.segment_retention_days * DAY_MS
    return now_ms - max(retention_ms, properties.max_query_minutes * _MINUTE_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    segment_files: frozenset[str]
    lists: frozenset[str]  # whole paths: one commit gives its retired list and its history the same name


def _read_needed(io: FileIO, table: str, kept: range) -> _Needed:
    """What versions that stay name; all of them are read whole, so that a damaged one stops everything."""
    segment_files: set[str] = set()
    lists: set[str] = set()
    for version in kept:
        status = read_version(io, table, version)
        segment_files.update(entry.segment_file for entry in status.entries if entry.segment_file is not None)
        if status.retired_file is not None:
            lists.add(retired_path(table, status.retired_file))
        lists.update(history_path(table, name) for name in status.history_files)
    return _Needed(segment_files=frozenset(segment_files), lists=frozenset(lists))


def _expired(
    io: FileIO, table: str, retired: Iterable[StatusEntry], *, cutoff_ms: int, needed: frozenset[str]
) -> tuple[tuple[ExpiredSegment, ...], tuple[str, ...]]:
    found, unclear, guard = [], [], LinkGuard(io, table)
    for entry in retired:
        if (entry.modified_ms or cutoff_ms) >= cutoff_ms or entry.segment_file in needed:
            continue
        try:
            paths = files_of(io, table, entry)
            for link in filter(None, map(guard.find_link, (*paths, f"{segment_folder(entry.id)}/x"))):
                raise linked(table, link)
        except RefusedError:  # of a newer format: then nothing at all may go
            raise
        except PackstoneError as error:
            unclear.append(f"{error.message} Segment {entry.id} is left alone.")
            continue
        sizes = {path: io.stat(f"{table}/{path}") for path in paths}
        files = tuple(
            DoomedFile(path=path, size_bytes=one.size_bytes) for path, one in sizes.items() if one is not None
        )
        found.append(ExpiredSegment(id=entry.id, rows=entry.rows, files=files))
    return tuple(found), tuple(unclear)


def _stray_versions(io: FileIO, table: str, versions: range, *, before_ms: int) -> Iterator[DoomedFile]:
    """Version files below the floor: of a clean that was killed, or of writers that slept too long and died."""
    for entry in _list(io, status_folder(table)):
        number = parse_status_name(entry.name)
        if number is not None and number < versions.start and entry.mtime_ns // 1_000_000 < before_ms:
            path = status_path(table, number).removeprefix(f"{table}/")
            yield DoomedFile(path=path, size_bytes=entry.size_bytes)


def _unnamed_metadata(io: FileIO, table: str, named: frozenset[str], *, before_ms: int) -> tuple[DoomedFile, ...]:
    found = []
    for folder, pattern in (
        (retired_folder(table), _LIST_NAME),
        (history_folder(table), _LIST_NAME),
        *((folder, _HALF_NAME) for folder in _own_folders(table)),
    ):
        for entry in _list(io, folder):
            is_old = entry.mtime_ns // 1_000_000 < before_ms
            path = f"{folder}/{entry.name}"
            if entry.kind is Kind.FILE and is_old and pattern.fullmatch(entry.name) and path not in named:
                found.append(DoomedFile(path=path.removeprefix(f"{table}/"), size_bytes=entry.size_bytes))
    return tuple(found)


def _own_folders(table: str) -> tuple[str, ...]:
    """Where only we write, and write whole files."""
    lists = (retired_folder(table), history_folder(table))
    files = (segments_folder(table), index_folder(table))
    return (f"{table}/{METADATA_FOLDER}", status_folder(table), floor_folder(table), *lists, *files)


def _old_trash(io: FileIO, table: str, *, before_ms: int) -> tuple[tuple[TrashFolder, ...], int]:
    """Folders of the trash whose time is over, and how many bytes the others hold."""
    old, left_bytes = [], 0
    for entry in _list(io, trash_folder(table)):
        if entry.kind is not Kind.DIRECTORY or not entry.name.isdecimal():
            continue
        sizes = [file.size_bytes for file in _walk(io, f"{trash_folder(table)}/{entry.name}")]
        if int(entry.name) < before_ms:
            old.append(TrashFolder(name=entry.name, files=len(sizes), size_bytes=sum(sizes)))
        else:
            left_bytes += sum(sizes)
    return tuple(old), left_bytes


def _walk(io: FileIO, folder: str) -> Iterator[Entry]:
    for entry in _list(io, folder):
        if entry.kind is Kind.DIRECTORY:
            yield from _walk(io, f"{folder}/{entry.name}")
        else:
            yield entry


def _list(io: FileIO, folder: str) -> list[Entry]:
    try:
        return sorted(io.list_dir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size(io: FileIO, path: str) -> int:
    found = io.stat(path)
    return 0 if found is None else found.size_bytes
