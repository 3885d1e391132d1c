"""Commit an edit: read the newest version, apply the edit, publish the next number exclusively; retry if it is taken.

    1. read the newest version and apply the edit to it, which raises if it does not fit any more
    2. if there is one, write a new chunk of entries, one of retired segments, and on a clean the history, under names
       of this try: nothing names them yet
    3. create ``status/<version + 1>`` exclusively: this is the commit
    4. if the number is taken, remove the files of step 2, wait a little, and repeat from 1; if the outcome is unknown,
       read the version, and publish the same version again, which is harmless because it contains our commit's id

One writer wins every round, so the table always makes progress. Waits are random and their growth is limited: a writer
that waited longer each time it lost would starve beside new ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PackstoneError,
    UnavailableError,
    storage_sentence,
)
from packstone.model.segment import SegmentStatus
from packstone.storage.store_checks import check_exclusive
from packstone.tables.segments.format.edits import Change, Edit, new_table
from packstone.tables.segments.format.layout import (
    METADATA_FOLDER,
    entries_folder,
    history_folder,
    history_path,
    metadata_folders,
    retired_folder,
    status_path,
)
from packstone.tables.segments.format.status import (
    EntryChunk,
    StatusEntry,
    TableStatus,
    dump_entries,
    join_entries,
    name_chunk,
    plan_chunks,
    store_entries,
)
from packstone.tables.segments.format.status_files import (
    StatusPublish,
    publish,
    read_floor,
    read_header,
    read_history,
    read_latest,
    read_retired,
    read_retired_chunks,
    settle_time,
    write_hint,
)

if TYPE_CHECKING:
    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.columns import TableColumn

_MOST_TRIES: Final = 500  # against 20 busy writers the probability of losing all of them is 10^-11
_UNKNOWN_TRIES: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.004  # about the duration of a commit on a local disk
_LONGEST_WAIT_SECONDS: Final = 0.1
_MOST_ANCESTORS: Final = 64  # for this many versions it is known whether a commit is part of the table; 2 KB
_MOST_HISTORY_FILES: Final = 16  # more are joined into one, because the status names them all


def create_table(
    io: FileIO, table: str, columns: tuple[TableColumn, ...], *, properties: Mapping[str, str], clock: Clock
) -> TableStatus:
    """Create an empty table; InvalidInputError if one exists already."""
    check_can_commit(io, table)
    now_ms = clock.now_ms()
    status = new_table(columns, properties, table_id=clock.new_id(), commit=clock.new_id(), now_ms=now_ms)
    try:
        for folder in metadata_folders(table):
            io.make_dirs(folder)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} The table was not created.", table=table) from error
    is_old = read_floor(io, table) > status.version  # clean removed its first version, so the number is free
    if is_old or _publish_until_known(io, table, status, clock=clock) is not StatusPublish.OURS:
        raise InvalidInputError(f"{table} is a segment table already; load into it, or choose another path.")
    write_hint(io, table, status)
    return status


def commit_edit(io: FileIO, table: str, edit: Edit, *, clock: Clock, operation: str) -> TableStatus:
    """Apply the edit to the newest version, publish the result and return it; the newest version if nothing changes.

    Errors of the edit are passed on, and nothing is committed. ConflictError: every race was lost. CommitUnknownError:
    check the table before a retry; files that the edit names must be kept. UnavailableError: the storage failed,
    nothing was committed.
    """
    check_can_commit(io, table)
    commit = _Commit(io, table, clock=clock, operation=operation)
    try:
        return commit.run(edit)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=table) from error


def check_can_commit(io: FileIO, table: str) -> None:
    """Refuse a store on which two writers could publish the same version number; the error names the store."""
    check_exclusive(io, f"{table}/{METADATA_FOLDER}", what="version")


class _Commit:
    """One commit with all its tries."""

    def __init__(self, io: FileIO, table: str, *, clock: Clock, operation: str) -> None:
        self._io, self._table, self._clock, self._operation = io, table, clock, operation
        self._id = clock.new_id()
        self._lists: list[str] = []  # paths that this try wrote; nothing names them before it is published

    def run(self, edit: Edit) -> TableStatus:
        """Retry until the edit is published."""
        for number in range(_MOST_TRIES):
            if number:
                wait = min(_FIRST_WAIT_SECONDS * 2**number, _LONGEST_WAIT_SECONDS)
                self._clock.sleep(wait * self._clock.random())
            base = read_latest(self._io, self._table)
            change = edit(base)
            if self._is_empty(change, base):
                return base
            done = self._try(base, change, number=number)
            if done is not None:
                return done
        raise ConflictError(
            f"{self._table}: {_MOST_TRIES} tries to commit lost the race against other writers; nothing was committed. "
            "Run it again when they are less busy."
        )

    def _try(self, base: TableStatus, change: Change, *, number: int) -> TableStatus | None:
        try:
            status = self._draft(base, change, name=f"{self._id}-{number}.json")
            if base.version < read_floor(self._io, self._table):  # we were suspended; the version would not count
                self._drop_lists()
                return None
            outcome = _publish_until_known(self._io, self._table, status, clock=self._clock)
        except CommitUnknownError:
            raise
        except (OSError, PackstoneError):
            self._drop_lists()
            raise
        if outcome is StatusPublish.TAKEN or not self._is_built_on(status):
            self._drop_lists()
            return None
        write_hint(self._io, self._table, status)
        return status

    def _draft(self, base: TableStatus, change: Change, *, name: str) -> TableStatus:
        """Return the next version; writes its new chunks and lists."""
        self._lists = []
        clock_ms = self._clock.now_ms()
        written_ms, ordered_since = settle_time(
            base, now_ms=clock_ms, read_header=lambda version: read_header(self._io, self._table, version)
        )
        status = replace(
            change.status,
            version=base.version + 1,
            commit=self._id,
            ancestors=(*base.ancestors, base.commit)[-_MOST_ANCESTORS:],
            written_ms=written_ms,
            clock_ms=clock_ms,
            ordered_since=ordered_since,
            operation=self._operation,
        )
        status = replace(
            status, chunks=self._store(status.entries, base.chunks, folder=entries_folder(self._table), name=name)
        )
        if not change.touches_lists:
            return status
        chunks = read_retired_chunks(self._io, self._table, base)
        before = join_entries(base.retired, [chunk.entries for chunk in chunks])
        leaving = change.cleaned | change.revived
        after = [_marked(entry, change) for entry in before if entry.key not in leaving] + list(change.retired)
        chunks = self._store(after, chunks, folder=retired_folder(self._table), name=name)
        gone = [_as_history(entry) for entry in before if entry.key in change.cleaned]
        history = self._write_history(base, gone, name=name) if gone else base.history_files
        return replace(status, retired=store_entries(after, chunks), history_files=history)

    def _store(
        self, entries: Sequence[StatusEntry], chunks: tuple[EntryChunk, ...], *, folder: str, name: str
    ) -> tuple[EntryChunk, ...]:
        """Return the chunks of the next version; writes a new one if it is time."""
        kept, moving = plan_chunks(entries, chunks)
        if not moving:
            return kept
        return (*kept, name_chunk(name, self._write_list(folder, f"{folder}/{name}", moving), moving))

    def _write_history(self, base: TableStatus, gone: list[StatusEntry], *, name: str) -> tuple[str, ...]:
        names = base.history_files
        if len(names) >= _MOST_HISTORY_FILES:
            gone = [*read_history(self._io, self._table, base), *gone]
            names = ()
        self._write_list(history_folder(self._table), history_path(self._table, name), gone)
        return (*names, name)

    def _write_list(self, folder: str, path: str, entries: Sequence[StatusEntry]) -> bytes:
        data = dump_entries(entries, commit=self._id)
        self._io.make_dirs(folder)  # a copy of a table may have lost its empty folders
        self._lists.append(path)
        self._io.write_new(path, data)
        return data

    def _drop_lists(self) -> None:
        """Remove lists that no version will name; if this fails or we are killed, clean removes them later."""
        for path in self._lists:
            with contextlib.suppress(OSError):
                self._io.remove(path)
        self._lists = []

    def _is_empty(self, change: Change, base: TableStatus) -> bool:
        if change.status is not base or change.retired or change.revived:
            return False
        if not change.cleaned and not change.cleaning:
            return True
        before = read_retired(self._io, self._table, base)
        return not any(entry.key in change.cleaned or _marked(entry, change) is not entry for entry in before)

    def _is_built_on(self, status: TableStatus) -> bool:
        """Whether our number was free, not taken and cleaned while we were suspended (see status_files.py)."""
        try:
            if status.version >= read_floor(self._io, self._table):
                return True
            latest = read_latest(self._io, self._table)
            if status.commit in (latest.commit, *latest.ancestors):
                return True  # it was published, and has been cleaned since
            if latest.version - status.version > len(latest.ancestors):
                raise not_known(self._table, status)  # too many versions ago to determine
            self._io.remove(status_path(self._table, status.version))
        except OSError as error:
            raise not_known(self._table, status) from error
        return False


def _marked(entry: StatusEntry, change: Change) -> StatusEntry:
    """An entry of the retired list after the change."""
    is_cleaning = entry.key in change.cleaning and entry.status is SegmentStatus.COMPACTED
    return replace(entry, status=SegmentStatus.MARKED_FOR_DELETE) if is_cleaning else entry


def _as_history(entry: StatusEntry) -> StatusEntry:
    """An entry of the history: one that was compacted has that status again, now that its files are removed."""
    return entry if entry.merged_into is None else replace(entry, status=SegmentStatus.COMPACTED)


def not_known(table: str, status: TableStatus) -> CommitUnknownError:
    """The error if it is unknown whether a version was published."""
    return CommitUnknownError(
        f"{table}: the storage did not say whether version {status.version} was published; look for the commit "
        f"{status.commit} in its status files before you try again.",
        version=status.version,
        commit=status.commit,
    )


def _publish_until_known(io: FileIO, table: str, status: TableStatus, *, clock: Clock) -> StatusPublish:
    """Publish until the outcome is known: it writes the same bytes to the same number, so a retry changes nothing."""
    for number in range(_UNKNOWN_TRIES):
        if number:
            clock.sleep(_LONGEST_WAIT_SECONDS * 2**number)
        outcome = publish(io, table, status)
        if outcome is not StatusPublish.UNKNOWN:
            return outcome
    raise not_known(table, status)
