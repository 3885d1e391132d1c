"""One load of a segment table: its attempt from the first record to the last.

The attempt's folder is there before the status names the load, and goes after the status has let go of it. While the
load works, a thread touches its heartbeat. A load that fails is given up at once: its entry leaves the status, what it
created is removed by the names that it recorded. One that is killed is given up by `clean`, from the same records.

Tasks on Spark may outlive the action that started them (a speculative copy, a job that failed): then a name may be
recorded whose file comes only later. As long as there is such a name, its record stays for `clean`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from packstone.errors import CommitUnknownError, PackstoneError, UnavailableError, VerificationError, storage_sentence
from packstone.runs.clock import system_clock
from packstone.runs.interrupts import finish_first
from packstone.runs.liveness import Heartbeat, ProcessIdentity
from packstone.tables.segments.attempts import (
    AttemptKind,
    AttemptRecord,
    close_attempt,
    open_attempt,
    read_created,
    record_created,
)
from packstone.tables.segments.commit import commit_edit
from packstone.tables.segments.edits import SegmentFacts, abandon_attempt, begin_load, finish_load
from packstone.tables.segments.layout import attempt_folder, heartbeat_path, segment_folder
from packstone.tables.segments.link_guard import LinkGuard
from packstone.tables.segments.missing_files import check_no_lost_load

if TYPE_CHECKING:
    from collections.abc import Collection

    from packstone.model.segment import SegmentId
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import TableStatus


class SegmentSession:
    """A load at work; use it as a context manager."""

    def __init__(self, io: FileIO, table: str) -> None:
        self.io, self.table = io, table
        self._clock = system_clock()
        self.attempt = self._clock.new_id()
        self.folder = attempt_folder(table, self.attempt)
        self.has_stragglers = False  # tasks may still be at work when their results are there
        self._segment: SegmentId | None = None
        self._kept: set[str] | None = None  # paths of the committed segment, once it is
        self._heartbeat = Heartbeat(io)

    def __enter__(self) -> Self:
        record = AttemptRecord(
            attempt=self.attempt,
            kind=AttemptKind.LOAD,
            process=ProcessIdentity.mine(),
            started_ms=self._clock.now_ms(),
        )
        try:
            open_attempt(self.io, self.table, record)
            self._heartbeat.start(heartbeat_path(self.table, self.attempt))
        except OSError as error:
            with contextlib.suppress(OSError):
                close_attempt(self.io, self.table, self.attempt)
            raise UnavailableError(f"{storage_sentence(error)} The load has not begun.") from error
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, *__: object) -> None:
        with finish_first():
            self._heartbeat.stop()
            if self._kept is not None:
                self._forget(self._kept)
            elif not isinstance(error, CommitUnknownError):
                self._give_up(keep_files=isinstance(error, VerificationError))

    def begin(self, *, overwrite: bool) -> SegmentId:
        """Announce the load; the id that it gets is nobody else's, ever."""
        check_no_lost_load(self.io, self.table)
        status = commit_edit(
            self.io,
            self.table,
            lambda status: begin_load(status, attempt=self.attempt, overwrite=overwrite, now_ms=self._clock.now_ms()),
            clock=self._clock,
            operation="begin-load",
        )
        entry = status.find_load(self.attempt)
        assert entry is not None  # noqa: S101 - the commit has just put it there
        self._segment = entry.id
        return entry.id

    def record(self, paths: Collection[str], *, label: str) -> None:
        """Write down paths, relative to the table, before they are created."""
        record_created(self.io, self.table, self.attempt, paths=tuple(paths), label=label)

    def finish(self, facts: SegmentFacts, *, keep: Collection[str], operation: str) -> TableStatus:
        """Make the load visible; ``keep`` are the paths, relative to the table, that it consists of."""
        with finish_first():
            status = commit_edit(
                self.io,
                self.table,
                lambda status: finish_load(status, facts, attempt=self.attempt, now_ms=self._clock.now_ms()),
                clock=self._clock,
                operation=operation,
            )
            self._kept = set(keep)
        return status

    def _give_up(self, *, keep_files: bool) -> None:
        """Take the load out of the status and remove what it created; what fails here, `clean` does."""
        with contextlib.suppress(OSError, PackstoneError):
            commit_edit(
                self.io,
                self.table,
                lambda status: abandon_attempt(status, attempt=self.attempt, now_ms=self._clock.now_ms()),
                clock=self._clock,
                operation="abandon-load",
            )
            if not keep_files:  # rows that differ from what they should be: somebody will want to see them
                self._forget(set())
            if self._segment is not None:
                self.io.remove_empty_dir(f"{self.table}/{segment_folder(self._segment)}")

    def _forget(self, keep: set[str]) -> None:
        with contextlib.suppress(OSError, PackstoneError):
            open_names, guard = False, LinkGuard(self.io, self.table)
            for path in read_created(self.io, self.table, self.attempt):
                if path in keep or not guard.may_remove(path):
                    continue
                whole = f"{self.table}/{path}"
                open_names |= self.io.stat(whole) is None
                self.io.remove(whole)
            if not (self.has_stragglers and open_names):
                close_attempt(self.io, self.table, self.attempt)
