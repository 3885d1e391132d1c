"""The attempts of one compaction run: one for each merge, and the run's own with its staging folder.

All of them are kept alive by one thread. An attempt is opened before the status names it and closed after the status
has let go of it, so whoever meets it in the status can ask whether it lives; and whatever it created is known by name.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from packstone.errors import PackstoneError, UnavailableError, storage_sentence
from packstone.runs.clock import new_id, new_run_id, now_ms
from packstone.runs.liveness import Heartbeat, ProcessIdentity
from packstone.tables.segments.attempts import (
    AttemptKind,
    AttemptRecord,
    close_attempt,
    open_attempt,
    read_created,
)
from packstone.tables.segments.layout import attempt_folder, heartbeat_path
from packstone.tables.segments.link_guard import LinkGuard

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from packstone.model.segment import SegmentId
    from packstone.storage.fileio import FileIO


class CompactionAttempts:
    """A run from its first record to its last; use it as a context manager."""

    def __init__(self, io: FileIO, table: str, *, has_stragglers: bool, run: str | None = None) -> None:
        self.io, self.table, self.run = io, table, run or new_run_id()
        self._has_stragglers = has_stragglers  # on Spark a task may be at work when the job is over
        self._heartbeat = Heartbeat(io)

    def __enter__(self) -> Self:
        self._begin(self.run, ())
        self._heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.stop()
        with contextlib.suppress(OSError):  # `clean` finds what is left
            self.close(self.run)

    def staging(self, wave: int) -> str:
        """Where the tasks of one wave find their payloads."""
        return f"{attempt_folder(self.table, self.run)}/w{wave:04d}"

    def open(self, inputs: Sequence[SegmentId]) -> str:
        """Begin the attempt of one merge."""
        attempt = new_id()
        self._begin(attempt, tuple(inputs))
        return attempt

    def close(self, attempt: str) -> None:
        """Forget an attempt that has nothing left to tell."""
        self._heartbeat.drop(heartbeat_path(self.table, attempt))
        close_attempt(self.io, self.table, attempt)

    def leave(self, attempt: str) -> None:
        """Stop keeping an attempt alive, with all that it recorded: its files are evidence, or its fate is unknown."""
        self._heartbeat.drop(heartbeat_path(self.table, attempt))

    def discard(self, attempt: str, *, keep: Collection[str] = ()) -> None:
        """Remove what an attempt created but did not commit, and forget it; what fails, `clean` does later."""
        self._heartbeat.drop(heartbeat_path(self.table, attempt))
        with contextlib.suppress(OSError, PackstoneError):
            has_open_names, guard = False, LinkGuard(self.io, self.table)
            for path in read_created(self.io, self.table, attempt):
                if path not in keep and guard.may_remove(path):
                    has_open_names |= self.io.stat(f"{self.table}/{path}") is None
                    self.io.remove(f"{self.table}/{path}")
            if not (self._has_stragglers and has_open_names):  # else a file may come yet, and its record must stay
                close_attempt(self.io, self.table, attempt)

    def _begin(self, attempt: str, inputs: tuple[SegmentId, ...]) -> None:
        record = AttemptRecord(
            attempt=attempt,
            kind=AttemptKind.COMPACTION,
            process=ProcessIdentity.mine(),
            started_ms=now_ms(),
            inputs=inputs,
        )
        try:
            open_attempt(self.io, self.table, record)
        except OSError as error:
            with contextlib.suppress(OSError):
                close_attempt(self.io, self.table, attempt)
            raise UnavailableError(f"{storage_sentence(error)} The compaction has not begun.") from error
        self._heartbeat.add(heartbeat_path(self.table, attempt))
