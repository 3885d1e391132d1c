"""Plan what `clean` may remove from a segment table, and remove it in a safe order.

1. *Dead runs* (leftovers.py): end their registrations, move their recorded data files to the trash, remove the rest.
2. *Versions* of the status that were superseded before the *cutoff*, which is ``SEGMENT_RETENTION_DAYS`` ago but at
   least ``MAX_QUERY_MINUTES``: neither time travel nor a running query can need them.
3. *Retired segments*, compacted or deleted before the cutoff and named by no version that is kept: one commit marks
   the compacted ones, then the data files, the index and the segment file are removed, then one commit moves their
   entries to the history.
4. Chunks of the status, delete files and lists of cleaned segments that no kept version names (step 2, later deletes
   and killed commits leave such files), and partial files that killed writers left, if older than a day. A commit
   writes its files before its version, and may be suspended in between for longer than that (a sleeping machine is
   enough). So clean publishes a version first: such a commit then finds its number taken. Whatever is published by
   then keeps the files it names.
5. *Trash* older than ``TRASH_RETENTION_DAYS``.

The whole plan is made before anything is removed, and it reads every version that is kept: if one of them cannot be
read, nothing is removed. Data files are found by the names in records; folders are listed only to find our own records.

Why step 3 removes files before it commits: until the commit, the retired list is the record of the remaining work. If
the process is killed at any point, the next clean finds the same entries and removes the rest; the segment file is
removed last, because it names the others. In the reverse order, a kill would leave files that are in no list.

No live file can be removed: an entry that is marked for delete leaves the retired list only for the history
(status.py), a new segment never reuses the file name of an old one, and whatever a kept version names is kept. Only
`restore` makes an entry live again, and only a compacted one: hence the mark. Versions are removed before the segments
that only they name, below a floor that is raised first (status_files.py), so a reader of an old version finds either
all of it or no version. Two concurrent cleans remove the same files, which is harmless; the commit of the second one
finds its entries gone and writes nothing.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.model.maintenance import CleanPlan
from packstone.model.sizes import format_bytes, plural
from packstone.storage.fileio import INCOMPLETE_NAME, EntryKind, list_entries
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import Change, cleaned, mark_cleaning
from packstone.tables.segments.format.layout import (
    DATA_FOLDER,
    METADATA_FOLDER,
    LinkGuard,
    delete_file_path,
    deletes_folder,
    entries_folder,
    floor_folder,
    history_folder,
    history_path,
    index_folder,
    linked,
    parse_status_name,
    retired_folder,
    segment_folder,
    segments_folder,
    status_folder,
    status_path,
    trash_folder,
)
from packstone.tables.segments.format.properties import parse_properties
from packstone.tables.segments.format.status import DAY_MS
from packstone.tables.segments.format.status_files import (
    first_needed,
    list_versions,
    raise_floor,
    read_chunk,
    read_head,
    read_header,
    read_latest,
    read_retired,
)
from packstone.tables.segments.leftovers import (
    DeadAttempt,
    RemovableFile,
    UnknownFiles,
    close_attempt,
    describe_all,
    end_registrations,
    files_of,
    find_dead,
    find_unknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.segment import SegmentId
    from packstone.runs.clock import Clock
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.format.edits import Edit
    from packstone.tables.segments.format.properties import Properties
    from packstone.tables.segments.format.status import ChunkRef, EntryKey, StatusEntry, TableStatus

_SAFE_AGE_MS: Final = DAY_MS
_MINUTE_MS: Final = 60_000
_LIST_NAME: Final = re.compile(r"[0-9a-f]{16}-\d+\.json")  # the names that commits give their lists
_DELETE_NAME: Final = re.compile(r"[0-9.]+_[0-9a-f]{16}-\d+\.json")  # the names that deletes give their files
_CLEAN_RACES: Final = 20
_SHOWN_PATHS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSegment:
    """A retired segment whose retention has expired; its segment file is the last of its files."""

    id: SegmentId
    attempt: str
    rows: int
    files: tuple[RemovableFile, ...]

    @property
    def key(self) -> EntryKey:
        """The key of its entry in the status."""
        return self.id, self.attempt

    @property
    def size_bytes(self) -> int:
        """The bytes that removing it frees."""
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        return f"{self.id} {len(self.files)} files {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashFolder:
    """The files that one clean moved to the trash."""

    name: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentClean(CleanPlan):
    """What clean can remove now, or has removed."""

    table: str
    version: int
    keeps_trash: bool  # data files of dead runs are moved to the trash instead of removed
    attempts: tuple[DeadAttempt, ...] = ()
    versions: range = range(0)
    segments: tuple[ExpiredSegment, ...] = ()
    metadata: tuple[RemovableFile, ...] = ()  # lists and partial files that nothing names
    version_bytes: int = 0
    trash: tuple[TrashFolder, ...] = ()
    trash_left_bytes: int = 0
    waiting_segments: int = 0  # retired, but still within the retention
    waiting_bytes: int = 0
    left_alone: tuple[str, ...] = ()  # one sentence each
    unknown: UnknownFiles = field(default_factory=UnknownFiles)

    @property
    def trashed(self) -> tuple[RemovableFile, ...]:
        """Files that are moved to the trash, so their space is freed later."""
        if not self.keeps_trash:
            return ()
        return tuple(file for attempt in self.attempts for file in attempt.files if file.is_data)

    @property
    def removed(self) -> tuple[RemovableFile, ...]:
        """Files that are removed now, except versions and trash."""
        trashed = set(self.trashed)
        own = (file for attempt in self.attempts for file in attempt.files if file not in trashed)
        return (*own, *(file for segment in self.segments for file in segment.files), *self.metadata)

    @property
    def files(self) -> int:
        """The number of files that are removed or moved to the trash."""
        trash = sum(folder.files for folder in self.trash)
        return len(self.removed) + len(self.trashed) + len(self.versions) + trash

    @property
    def bytes(self) -> int:
        """The bytes that are freed now."""
        trash = sum(folder.size_bytes for folder in self.trash)
        return sum(file.size_bytes for file in self.removed) + self.version_bytes + trash

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do at all."""
        return not (self.attempts or self.versions or self.segments or self.metadata or self.trash)

    def describe(self) -> str:
        """Return a one-line summary of what is removed."""
        parts = (
            (len(self.segments), "retired segment"),
            (len(self.versions), "old version"),
            (len(self.attempts), "dead run"),
            (len(self.metadata), "unused list"),
            (len(self.trash), "trash folder"),
        )
        named = ", ".join(plural(count, noun) for count, noun in parts if count)
        return f"{named}: {plural(self.files, 'file')}, {format_bytes(self.bytes)}"

    def notes(self) -> tuple[str, ...]:
        """Return what is moved to the trash, what is still within its retention, and what is left alone."""
        lines = []
        if self.trashed:
            size = format_bytes(sum(file.size_bytes for file in self.trashed))
            lines.append(f"{plural(len(self.trashed), 'data file')} of dead runs, {size}, to the trash first")
        if self.waiting_segments:
            waiting = plural(self.waiting_segments, "compacted or deleted segment")
            lines.append(f"{waiting}, {format_bytes(self.waiting_bytes)}: still within their retention")
        lines += [f"left alone: {why}" for why in self.left_alone]
        if self.unknown.count:
            size = format_bytes(self.unknown.size_bytes)
            lines.append(f"left alone: {plural(self.unknown.count, 'file')}, {size}, that no record names")
            lines += [f"  {one}" for one in self.unknown.paths[:_SHOWN_PATHS]]
        return tuple(lines)

    def to_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The documented keys."""
        trashed_bytes = sum(file.size_bytes for file in self.trashed)
        return {
            "format_version": 1,
            "table": self.table,
            "family": "segments",
            "status": "nothing-to-do" if self.is_empty else "planned" if dry_run else "cleaned",
            "files": self.files,
            "bytes": self.bytes,
            "attempts": [
                {"attempt": one.attempt, "what": one.what, "files": len(one.files), "bytes": one.size_bytes}
                for one in self.attempts
            ],
            "segments": [
                {"id": str(one.id), "files": len(one.files), "rows": one.rows, "bytes": one.size_bytes}
                for one in self.segments
            ],
            "versions_removed": len(self.versions),
            "first_version_kept": self.versions.stop if self.versions else None,
            "metadata_files": len(self.metadata),
            "moved_to_trash_files": len(self.trashed),
            "moved_to_trash_bytes": trashed_bytes,
            "trash_removed_bytes": sum(folder.size_bytes for folder in self.trash),
            "trash_left_bytes": self.trash_left_bytes + trashed_bytes,
            "waiting_segments": self.waiting_segments,
            "waiting_bytes": self.waiting_bytes,
            "left_alone": list(self.left_alone),
            "unknown_files": list(self.unknown.paths),
            "unknown_count": self.unknown.count,
            "unknown_bytes": self.unknown.size_bytes,
        }


def plan_clean(io: FileIO, table: str, *, now_ms: int) -> SegmentClean:
    """Plan a clean; CorruptionError if a version that is kept cannot be read, and then nothing may be removed."""
    gone = ""
    for _ in range(_CLEAN_RACES):
        try:
            return _plan(io, table, now_ms=now_ms)
        except FileNotFoundError as error:  # another clean is running
            gone = str(error.filename or table)
        except CorruptionError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            gone = str(error.facts.get("file", table))
    raise CorruptionError(
        f"{gone} is missing, but the status of {table} names it; restore it from a backup. Nothing was removed.",
        table=table,
        file=gone,
    )


def _plan(io: FileIO, table: str, *, now_ms: int) -> SegmentClean:
    _check_no_links(io, table)
    dead, alive = find_dead(io, table, read_latest(io, table), now_ms=now_ms)
    status = read_latest(io, table)  # again: a run that is dead by now has committed before this read, or never will
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
    gone = {segment.key for segment in segments}
    waiting = [entry for entry in retired if entry.key not in gone]
    removable = range(versions.start, kept.start)
    return SegmentClean(
        table=table,
        version=status.version,
        keeps_trash=properties.trash_retention_days > 0,
        attempts=attempts,
        versions=removable,
        version_bytes=sum(_size(io, status_path(table, version)) for version in removable),
        segments=segments,
        metadata=(
            *_stray_versions(io, table, versions, before_ms=now_ms - _SAFE_AGE_MS),
            *_unnamed_metadata(
                io, table, needed.lists | _delete_files(table, retired), before_ms=now_ms - _SAFE_AGE_MS
            ),
        ),
        trash=trash,
        trash_left_bytes=trash_left,
        waiting_segments=len(waiting),
        waiting_bytes=sum(entry.data_bytes + entry.index_bytes for entry in waiting),
        left_alone=(*alive, *damaged, *unclear),
        unknown=find_unknown(io, table, (*status.entries, *retired)),
    )


def _check_no_links(io: FileIO, table: str) -> None:
    """Refuse a table whose own folders are symbolic links: their targets may belong to somebody else."""
    guard = LinkGuard(io, table)
    for folder in (*_own_folders(table), f"{table}/{DATA_FOLDER}", trash_folder(table)):
        link = guard.find_link(f"{folder.removeprefix(f'{table}/')}/x")
        if link is not None:
            raise RefusedError(
                f"{table}/{link} is a symbolic link, and nothing is removed through it; replace it by the folder.",
                path=link,
            )


def cutoff(properties: Properties, *, now_ms: int) -> int:
    """Return the moment before which retired segments and superseded versions are no longer needed."""
    retention_ms = properties.segment_retention_days * DAY_MS
    return now_ms - max(retention_ms, properties.max_query_minutes * _MINUTE_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    segment_files: frozenset[str]
    lists: frozenset[str]  # full paths, delete files included: a commit names its retired list like its history


def _read_needed(io: FileIO, table: str, kept: range) -> _Needed:
    """Return the files that kept versions name; reads all heads and chunks, so that a damaged one stops the clean."""
    segment_files: set[str] = set()
    lists: set[str] = set()
    gone: dict[str, tuple[ChunkRef, frozenset[int]]] = {}  # of each chunk: what no kept version uses any more
    for version in kept:
        head = read_head(io, table, version)
        segment_files.update(entry.segment_file for entry in head.live.recent if entry.segment_file is not None)
        lists.update(_delete_files(table, head.live.recent))
        for ref in head.live.chunks:
            positions = ref.gone_positions
            gone[ref.name] = ref, gone[ref.name][1] & positions if ref.name in gone else positions
        lists.update(f"{retired_folder(table)}/{ref.name}" for ref in head.retired.chunks)
        lists.update(history_path(table, name) for name in head.history_files)
    folder = entries_folder(table)
    for ref, unused in gone.values():
        lists.add(f"{folder}/{ref.name}")
        used = [entry for at, entry in enumerate(read_chunk(io, folder, ref)) if at not in unused]
        segment_files.update(entry.segment_file for entry in used if entry.segment_file is not None)
        lists.update(_delete_files(table, used))
    return _Needed(segment_files=frozenset(segment_files), lists=frozenset(lists))


def _delete_files(table: str, entries: Iterable[StatusEntry]) -> frozenset[str]:
    """The paths of the delete files that entries name; a retired entry may become live again."""
    return frozenset(delete_file_path(table, entry.delete_file) for entry in entries if entry.delete_file is not None)


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
        except RefusedError:  # of a newer format: then nothing at all may be removed
            raise
        except PackstoneError as error:
            unclear.append(f"{error.message} Segment {entry.id} is left alone.")
            continue
        sizes = {path: io.stat(f"{table}/{path}") for path in paths}
        files = tuple(
            RemovableFile(path=path, size_bytes=one.size_bytes) for path, one in sizes.items() if one is not None
        )
        found.append(ExpiredSegment(id=entry.id, attempt=entry.attempt, rows=entry.rows, files=files))
    return tuple(found), tuple(unclear)


def _stray_versions(io: FileIO, table: str, versions: range, *, before_ms: int) -> Iterator[RemovableFile]:
    """Version files below the floor, left by a killed clean or by writers that were suspended and then died."""
    for entry in list_entries(io, status_folder(table)):
        number = parse_status_name(entry.name)
        if number is not None and number < versions.start and entry.mtime_ns // 1_000_000 < before_ms:
            path = status_path(table, number).removeprefix(f"{table}/")
            yield RemovableFile(path=path, size_bytes=entry.size_bytes)


def _unnamed_metadata(io: FileIO, table: str, named: frozenset[str], *, before_ms: int) -> tuple[RemovableFile, ...]:
    found = []
    for folder, pattern in (
        *((folder, _LIST_NAME) for folder in _list_folders(table)),
        (deletes_folder(table), _DELETE_NAME),
        *((folder, INCOMPLETE_NAME) for folder in _own_folders(table)),
    ):
        for entry in list_entries(io, folder):
            is_old = entry.mtime_ns // 1_000_000 < before_ms
            path = f"{folder}/{entry.name}"
            if entry.kind is EntryKind.FILE and is_old and pattern.fullmatch(entry.name) and path not in named:
                found.append(RemovableFile(path=path.removeprefix(f"{table}/"), size_bytes=entry.size_bytes))
    return tuple(found)


def _own_folders(table: str) -> tuple[str, ...]:
    """The folders that only Packstone writes, always complete files."""
    files = (segments_folder(table), index_folder(table), deletes_folder(table))
    return (f"{table}/{METADATA_FOLDER}", status_folder(table), floor_folder(table), *_list_folders(table), *files)


def _list_folders(table: str) -> tuple[str, ...]:
    """The folders of the lists that a version names."""
    return entries_folder(table), retired_folder(table), history_folder(table)


def _old_trash(io: FileIO, table: str, *, before_ms: int) -> tuple[tuple[TrashFolder, ...], int]:
    """Trash folders whose retention has expired, and the bytes in the other ones."""
    old, left_bytes = [], 0
    for entry in list_entries(io, trash_folder(table)):
        if entry.kind is not EntryKind.DIRECTORY or not entry.name.isdecimal():
            continue
        sizes = [file.size_bytes for file in _walk(io, f"{trash_folder(table)}/{entry.name}")]
        if int(entry.name) < before_ms:
            old.append(TrashFolder(name=entry.name, files=len(sizes), size_bytes=sum(sizes)))
        else:
            left_bytes += sum(sizes)
    return tuple(old), left_bytes


def _walk(io: FileIO, folder: str) -> Iterator[Entry]:
    for entry in list_entries(io, folder):
        if entry.kind is EntryKind.DIRECTORY:
            yield from _walk(io, f"{folder}/{entry.name}")
        else:
            yield entry


def _size(io: FileIO, path: str) -> int:
    found = io.stat(path)
    return 0 if found is None else found.size_bytes


def remove_expired(io: FileIO, plan: SegmentClean, *, clock: Clock) -> None:
    """Remove what a plan lists, in the order above; if it is killed at any point, the next clean does the rest."""
    if plan.is_empty:
        return
    dead = [attempt.attempt for attempt in plan.attempts if attempt.is_registered]
    if dead:
        end_registrations(io, plan.table, dead, clock=clock, operation="clean")
    trash = f"{trash_folder(plan.table)}/{clock.now_ms()}"
    resumed = _find_resumed(io, plan) if plan.attempts else frozenset()
    for attempt in plan.attempts:
        if attempt.attempt not in resumed:
            _remove_attempt(io, plan, attempt, trash=trash)
    if plan.versions:
        raise_floor(io, plan.table, plan.versions.stop)
    for version in plan.versions:
        io.remove(status_path(plan.table, version))
    if plan.segments:
        _remove_segments(io, plan, clock=clock)
    _remove_metadata(io, plan, clock=clock)
    for folder in plan.trash:
        io.remove_tree(f"{trash_folder(plan.table)}/{folder.name}")


def _remove_metadata(io: FileIO, plan: SegmentClean, *, clock: Clock) -> None:
    """Remove lists that no version names; publishes a version first, so that none of an older base can name them.

    A delete that finds its number taken writes its delete files again if they are old (delete_rows.py).
    """
    folders = tuple(f"{folder}/" for folder in (*_list_folders(plan.table), deletes_folder(plan.table)))
    named: frozenset[str] = frozenset()
    if any(f"{plan.table}/{file.path}".startswith(folders) for file in plan.metadata):
        fence = _commit(io, plan.table, lambda status: Change(status=replace(status)), clock=clock)
        named = _read_needed(io, plan.table, range(plan.version + 1, fence.version + 1)).lists
    for file in plan.metadata:
        if f"{plan.table}/{file.path}" not in named:
            io.remove(f"{plan.table}/{file.path}")


def _find_resumed(io: FileIO, plan: SegmentClean) -> frozenset[str]:
    """Runs that were dead in the plan but have registered or committed since: they were suspended past their lease."""
    status = read_latest(io, plan.table)
    found = {entry.attempt for entry in status.loading} | {running.attempt for running in status.running}
    there = (*status.live, *read_retired(io, plan.table, status))
    for one in plan.attempts:
        committed = {entry.segment_file for entry in there if entry.attempt == one.attempt and entry.segment_file}
        if not committed <= one.committed:
            found.add(one.attempt)
    return frozenset(found)


def _remove_attempt(io: FileIO, plan: SegmentClean, attempt: DeadAttempt, *, trash: str) -> None:
    for file in attempt.files:
        path = f"{plan.table}/{file.path}"
        if plan.keeps_trash and file.is_data and io.stat(path) is not None:
            target = f"{trash}/{file.path}"
            io.make_dirs(posixpath.dirname(target))
            io.move(path, target)
        else:
            io.remove(path)
    close_attempt(io, plan.table, attempt.attempt)


def _remove_segments(io: FileIO, plan: SegmentClean, *, clock: Clock) -> None:
    """Remove expired segments; marks them first, so that no restore revives one whose files are being removed."""
    keys = frozenset(segment.key for segment in plan.segments)
    status = _commit(io, plan.table, lambda status: mark_cleaning(status, keys), clock=clock)
    retired = {entry.key for entry in read_retired(io, plan.table, status)}
    outputs = {running.output for running in status.running}  # the id of an undone merge is used again
    for segment in plan.segments:
        if segment.key in retired:
            _remove_segment(io, plan.table, segment, keeps_folder=segment.id in outputs)
    _commit(io, plan.table, lambda status: cleaned(status, keys & retired), clock=clock)


def _remove_segment(io: FileIO, table: str, segment: ExpiredSegment, *, keeps_folder: bool) -> None:
    for file in segment.files:
        io.remove(f"{table}/{file.path}")
    if not keeps_folder:
        io.remove_empty_dir(f"{table}/{segment_folder(segment.id)}")


def _commit(io: FileIO, table: str, edit: Edit, *, clock: Clock) -> TableStatus:
    return commit_edit(io, table, edit, clock=clock, operation="clean")
