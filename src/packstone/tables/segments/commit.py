"""Commit an edit: read the newest version, reduce, publish the next number exclusively; somebody was quicker: again.

    1. read the newest version and apply the edit to it, which raises if it does not fit any more
    2. write the retired list, and on a clean the history, under names of this try: nothing names them yet
    3. create ``status/<version + 1>`` exclusively: this is the commit
    4. the number is taken: remove the lists of step 2, wait a little, and again from 1; the outcome is unknown: look,
       and try the same version again, which is harmless because it holds our commit's id

Somebody wins every round, so the table always gets on. Waits are random and do not grow far: a writer that waited
ever longer, the more often it lost, would starve beside fresh ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
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
from packstone.storage.exclusive import check_exclusive
from packstone.tables.segments.edits import Change, Edit, delete_segments, new_table
from packstone.tables.segments.layout import (
    METADATA_FOLDER,
    history_folder,
    history_path,
    metadata_folders,
    retired_folder,
    retired_path,
    status_path,
)
from packstone.tables.segments.status import StatusEntry, TableStatus, dump_entries
from packstone.tables.segments.status_files import (
    Publish,
    publish,
    read_floor,
    read_header,
    read_history,
    read_latest,
    read_retired,
    write_hint,
)
from packstone.tables.segments.version_times import settle_time

if TYPE_CHECKING:
    from packstone.model.segment import SegmentId
    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.column_types import Column

_MOST_TRIES: Final = 500  # against 20 busy rivals the chance to lose them all is 10^-11
_UNKNOWN_TRIES: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.004  # about what a commit takes on a local disk
_LONGEST_WAIT_SECONDS: Final = 0.1
_MOST_ANCESTORS: Final = 64  # so far back it can be told whether a commit is part of the table; 2 KB
_MOST_HISTORY_FILES: Final = 16  # beyond, they are joined into one: the status names them all


def create_table(
    io: FileIO, table: str, columns: tuple[Column, ...], *, properties: Mapping[str, str], clock: Clock
) -> TableStatus:
    """Make an empty table; InvalidInputError if there is one already."""
    check_can_commit(io, table)
    now_ms = clock.now_ms()
    status = new_table(columns, properties, table_id=clock.new_id(), commit=clock.new_id(), now_ms=now_ms)
    try:
        for folder in metadata_folders(table):
            io.make_dirs(folder)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} The table was not created.", table=table) from error
    is_old = read_floor(io, table) > status.version  # its first version was cleaned away, so that the number is free
    if is_old or _publish_surely(io, table, status, clock=clock) is not Publish.OURS:
        raise InvalidInputError(f"{table} is a segment table already; load into it, or choose another path.")
    write_hint(io, table, status)
    return status


def commit_edit(io: FileIO, table: str, edit: Edit, *, clock: Clock, operation: str) -> TableStatus:
    """Publish what the edit makes of the newest version, and return that; the newest one itself if nothing changes.

    What the edit raises is passed on, and nothing is committed. ConflictError: every race was lost. CommitUnknownError:
    look before you retry; what the edit names must stay. UnavailableError: the storage failed, nothing was committed.
    """
    check_can_commit(io, table)
    commit = _Commit(io, table, clock=clock, operation=operation)
    try:
        return commit.run(edit)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=table) from error


def commit_delete(io: FileIO, table: str, ids: Iterable[SegmentId], *, clock: Clock) -> TableStatus:
    """Delete segments by id; an error tells what became of one that is retired already."""
    wanted = tuple(ids)

    def edit(status: TableStatus) -> Change:
        retired = read_retired(io, table, status)
        return delete_segments(status, wanted, now_ms=clock.now_ms(), retired=retired)

    return commit_edit(io, table, edit, clock=clock, operation="delete")


def check_can_commit(io: FileIO, table: str) -> None:
    """Refuse, by name, a store on which two writers could both believe that they have a number."""
    check_exclusive(io, f"{table}/{METADATA_FOLDER}", what="version")


class _Commit:
    """One commit over its tries."""

    def __init__(self, io: FileIO, table: str, *, clock: Clock, operation: str) -> None:
        self._io, self._table, self._clock, self._operation = io, table, clock, operation
        self._id = clock.new_id()
        self._lists: list[str] = []  # paths of this try, which nothing names before it is published

    def run(self, edit: Edit) -> TableStatus:
        """Try until it is published."""
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
            if base.version < read_floor(self._io, self._table):  # we slept; publishing would only be taken back
                self._drop_lists()
                return None
            outcome = _publish_surely(self._io, self._table, status, clock=self._clock)
        except CommitUnknownError:
            raise
        except (OSError, PackstoneError):
            self._drop_lists()
            raise
        if outcome is Publish.TAKEN or not self._is_built_on(status):
            self._drop_lists()
            return None
        write_hint(self._io, self._table, status)
        return status

    def _draft(self, base: TableStatus, change: Change, *, name: str) -> TableStatus:
        """The next version, with its lists written."""
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
        if not change.retired and not change.cleaned:
            return status
        before = read_retired(self._io, self._table, base)
        after = [entry for entry in before if entry.id not in change.cleaned] + list(change.retired)
        self._write_list(retired_folder(self._table), retired_path(self._table, name), after)
        gone = [entry for entry in before if entry.id in change.cleaned]
        history = self._write_history(base, gone, name=name) if gone else base.history_files
        return replace(status, retired_file=name, history_files=history)

    def _write_history(self, base: TableStatus, gone: list[StatusEntry], *, name: str) -> tuple[str, ...]:
        names = base.history_files
        if len(names) >= _MOST_HISTORY_FILES:
            gone = [*read_history(self._io, self._table, base), *gone]
            names = ()
        self._write_list(history_folder(self._table), history_path(self._table, name), gone)
        return (*names, name)

    def _write_list(self, folder: str, path: str, entries: list[StatusEntry]) -> None:
        self._io.make_dirs(folder)  # a copy of a table may have lost its empty folders
        self._lists.append(path)
        ordered = sorted(entries, key=lambda entry: entry.id) if folder == retired_folder(self._table) else entries
        self._io.write_new(path, dump_entries(ordered, commit=self._id))

    def _drop_lists(self) -> None:
        """Remove what nobody will name; what stays, because this fails or we are killed, clean removes later."""
        for path in self._lists:
            with contextlib.suppress(OSError):
                self._io.remove(path)
        self._lists = []

    def _is_empty(self, change: Change, base: TableStatus) -> bool:
        if change.status is not base or change.retired:
            return False
        return not change.cleaned or not any(
            entry.id in change.cleaned for entry in read_retired(self._io, self._table, base)
        )

    def _is_built_on(self, status: TableStatus) -> bool:
        """Whether our number was really free, and not taken and cleaned away while we slept (see status_files.py)."""
        try:
            if status.version >= read_floor(self._io, self._table):
                return True
            latest = read_latest(self._io, self._table)
            if status.commit in (latest.commit, *latest.ancestors):
                return True  # it was, and has been cleaned since
            if latest.version - status.version > len(latest.ancestors):
                raise not_known(self._table, status)  # too long ago to be told
            self._io.remove(status_path(self._table, status.version))
        except OSError as error:
            raise not_known(self._table, status) from error
        return False


def not_known(table: str, status: TableStatus) -> CommitUnknownError:
    """What is raised if the storage does not say whether a version was published."""
    return CommitUnknownError(
        f"{table}: the storage did not say whether version {status.version} was published; look for the commit "
        f"{status.commit} in its status files before you try again.",
        version=status.version,
        commit=status.commit,
    )


def _publish_surely(io: FileIO, table: str, status: TableStatus, *, clock: Clock) -> Publish:
    """Publish until the outcome is known: the same bytes for the same number, so a second write changes nothing."""
    for number in range(_UNKNOWN_TRIES):
        if number:
            clock.sleep(_LONGEST_WAIT_SECONDS * 2**number)
        outcome = publish(io, table, status)
        if outcome is not Publish.UNKNOWN:
            return outcome
    raise not_known(table, status)
