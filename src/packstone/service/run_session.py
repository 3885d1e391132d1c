"""One run of a writing command: its id, its folder, its heartbeat, and the partitions it owns."""

from __future__ import annotations

import contextlib
import posixpath
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from packstone.errors import ConflictError, UnavailableError
from packstone.model.codec import dump_record
from packstone.runs import owner as ownership
from packstone.runs.clock import new_run_id
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.liveness import Heartbeat, ProcessIdentity
from packstone.runs.owner import Owner
from packstone.tables.hive.journal import RunInfo
from packstone.tables.hive.recover import end_run, find_unfinished
from packstone.tables.state_folder import make_state_folder

if TYPE_CHECKING:
    from packstone.tables.hive.journal import Journal


class RunSession:
    """A run from its first record to its last; use it as a context manager."""

    def __init__(
        self,
        journal: Journal,
        *,
        command: str,
        run: str | None = None,
        take_over: bool = False,
        restores: str | None = None,
    ) -> None:
        self.journal, self.io, self.layout = journal, journal.io, journal.layout
        self.take_over = take_over
        self.run = run or new_run_id()
        self.started_at = datetime.now(UTC)
        self._command, self._restores = command, restores
        self._claims: dict[str, int] = {}
        self._heartbeat = Heartbeat(journal.io)
        self.keep_staging = False  # a swap is half-way, its outputs are needed
        self.keep_evidence = False  # a merge was wrong, somebody will want to see it

    @property
    def me(self) -> Owner:
        """How this run signs its owner files."""
        return Owner(run=self.run, process=ProcessIdentity.mine(), heartbeat_path=self.layout.heartbeat(self.run))

    def __enter__(self) -> Self:
        info = RunInfo(
            run=self.run,
            command=self._command,
            table=self.layout.root,
            process=ProcessIdentity.mine(),
            started_at=self.started_at.isoformat(),
            restores=self._restores,
        )
        try:
            make_state_folder(self.io, self.layout.root, self.layout.state)
            self.io.make_dirs(self.layout.run(self.run))
            # Before anything says who we are: a run without a heartbeat is dead to other hosts.
            self.io.replace(self.layout.heartbeat(self.run), b"")
            self.io.replace(f"{self.layout.run(self.run)}/run.json", dump_record(info))
            self._heartbeat.start(self.layout.heartbeat(self.run))
        except BaseException as error:
            self._heartbeat.stop()
            self.io.remove_tree(self.layout.run(self.run))
            self._tidy()
            if isinstance(error, OSError):
                raise UnavailableError(f"{self.layout.state} cannot be written: {error.strerror or error}.") from error
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with finish_first():
                self._end(is_unfinished=kind is not None)
        except Interrupted:
            # Asked to stop when all was over: what was published is told and recorded all the same.
            if kind is not None or not any(True for _ in self.journal.read_intents(self.run)):
                raise

    def _end(self, *, is_unfinished: bool) -> None:
        self._heartbeat.stop()
        # On a full disk neither may be possible to write (staging goes first, to make room); a run whose process
        # is gone counts as ended all the same.
        with contextlib.suppress(OSError):
            end_run(self.journal, self.run, keep_staging=self.keep_evidence)
        with contextlib.suppress(OSError):
            for partition in list(self._claims):
                self.release(partition, is_unfinished=is_unfinished)
        with contextlib.suppress(OSError):
            self.io.remove(self.layout.heartbeat(self.run))
        self._tidy()

    def _tidy(self) -> None:
        """Leave no empty folders."""
        state = self.layout.state
        for folder in (
            f"{state}/staging",
            self.layout.deaths,
            self.layout.runs,
            f"{state}/owners",
            state,
            posixpath.dirname(state),
        ):
            with contextlib.suppress(OSError):
                self.io.remove_empty_dir(folder)

    def claim(self, partition: str) -> None:
        """Own a partition; ConflictError if somebody alive does, or died in the middle of a swap there."""
        if partition in self._claims:
            return
        folder, what = self.layout.owners(partition), self.layout.directory(partition)
        number, before = ownership.read_owner(self.io, folder)
        self._claims[partition] = ownership.claim(
            self.io, folder, self.me, what=what, now_seconds=self.store_now(), take_over=self.take_over
        )
        is_clean = before is None or (isinstance(before, Owner) and before.is_clean)
        if self._claims[partition] == number + 1 and is_clean:
            return
        # We recovered the table when we began, but the owner may have died since; and what we listed is half a swap.
        dead = find_unfinished(self.journal, partition, besides=self.run)
        if dead is not None:
            self.release(partition, is_unfinished=True)
            raise ConflictError(f"{what} was left half-way by run {dead}; run `packstone recover`, then try again.")

    def store_now(self) -> float:
        """The time by the clock that stamps heartbeats (a file server's may differ from ours), 30 s behind at most."""
        found = self.io.stat(self.layout.heartbeat(self.run))
        return time.time() if found is None else found.mtime_ns / 1e9

    def check_owned(self, partition: str) -> None:
        """Make sure that nobody took over while we worked."""
        info = self.journal.read_run_info(self.run)
        if info is None or info.fenced:
            raise ConflictError(f"Run {self.run} was taken for dead by another run; nothing more is changed.")
        folder, what = self.layout.owners(partition), self.layout.directory(partition)
        ownership.check_owned(self.io, folder, self._claims[partition], what=what)

    def release(self, partition: str, *, is_unfinished: bool = False) -> None:
        """Give a partition back."""
        number = self._claims.pop(partition, None)
        if number is not None:
            folder = self.layout.owners(partition)
            ownership.release(self.io, folder, number=number, owner=self.me, unfinished=is_unfinished)
