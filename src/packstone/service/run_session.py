"""One run of a writing command: its id, its folder, its heartbeat, and the partitions it owns."""

from __future__ import annotations

import contextlib
import posixpath
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from packstone.errors import UnavailableError
from packstone.model.codec import dump_record
from packstone.storage import ownership
from packstone.storage.ownership import HEARTBEAT_SECONDS, Owner, ProcessIdentity
from packstone.tables.hive.journal import RunInfo
from packstone.tables.hive.recover import end_run

if TYPE_CHECKING:
    from packstone.tables.hive.journal import Journal


def new_run_id() -> str:
    """Name a run: its time sorts, random digits tell runs of one second apart."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"


class RunSession:
    """A run from its first record to its last; use it as a context manager."""

    def __init__(self, journal: Journal, *, command: str, take_over: bool = False) -> None:
        self.journal, self.io, self.layout = journal, journal.io, journal.layout
        self.take_over = take_over
        self.run = new_run_id()
        self.started_at = datetime.now(UTC)
        self._command = command
        self._claims: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="packstone-heartbeat")
        self.keep_staging = False

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
        )
        try:
            self.io.make_dirs(self.layout.run(self.run))
            self.io.replace(f"{self.layout.run(self.run)}/run.json", dump_record(info))
        except OSError as error:
            self.io.remove_tree(self.layout.run(self.run))
            self._tidy()
            raise UnavailableError(f"{self.layout.state} cannot be written: {error.strerror or error}.") from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        # On a full disk neither may be possible to write (staging goes first, to make room); a run whose process
        # is gone counts as ended all the same.
        with contextlib.suppress(OSError):
            if not self.keep_staging:
                end_run(self.journal, self.run)
        with contextlib.suppress(OSError):
            for partition in list(self._claims):
                self.release(partition)
        self._tidy()

    def _tidy(self) -> None:
        """Leave no empty folders."""
        for folder in (f"{self.layout.state}/staging", self.layout.runs, f"{self.layout.state}/owners"):
            self.io.remove_empty_dir(folder)
        self.io.remove_empty_dir(self.layout.state)
        self.io.remove_empty_dir(posixpath.dirname(self.layout.state))

    def claim(self, partition: str) -> None:
        """Own a partition; ConflictError if somebody alive does."""
        if partition not in self._claims:
            self._claims[partition] = ownership.claim(
                self.io,
                self.layout.owners(partition),
                self.me,
                what=self.layout.directory(partition),
                now_seconds=time.time(),
                take_over=self.take_over,
            )

    def check_owned(self, partition: str) -> None:
        """Make sure that nobody took over while we worked."""
        folder, what = self.layout.owners(partition), self.layout.directory(partition)
        ownership.check_owned(self.io, folder, self._claims[partition], what=what)

    def release(self, partition: str) -> None:
        """Give a partition back."""
        number = self._claims.pop(partition, None)
        if number is not None:
            ownership.release(self.io, self.layout.owners(partition), number=number, owner=self.me)

    def _beat(self) -> None:
        path = self.layout.heartbeat(self.run)
        while True:
            try:
                self.io.replace(path, b"")
            except OSError:
                return  # the folder is gone: we were taken over, and the next ownership check will say so
            if self._stop.wait(HEARTBEAT_SECONDS):
                return
