"""One run on a Paimon table: its id, its folder beside the table, and the names of all it creates.

There is no owner: commits are optimistic, so two runs at once cost work but lose nothing. What a run leaves behind when
it is killed are files that nothing references, under names that its folder tells; `packstone clean` removes them after
a safe age. ::

    .packstone/orders/runs/<run>/run.json           what the run is, and which process
    .packstone/orders/runs/<run>/heartbeat          its time says that the process lives
    .packstone/orders/runs/<run>/created-*.json     paths that it was about to create
    .packstone/orders/runs/<run>/published-*.json   the snapshots that it published
    .packstone/orders/deaths/                       files that were being read when a process died
    .packstone/orders/staging/<run>/g0001/          payloads and results of one group's tasks
"""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Self

from packstone.errors import UnavailableError
from packstone.model.codec import dump_record, load_record
from packstone.runs.clock import new_run_id
from packstone.runs.deaths import note_deaths
from packstone.runs.liveness import Heartbeat, ProcessIdentity
from packstone.tables.paimon.leftovers import CreatedFiles, record_created
from packstone.tables.paimon.tasks import PAIMON_JOB
from packstone.tables.state_folder import DEATHS_FOLDER, find_state_folder, make_state_folder

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.publish import Published

_CREATED = "created-"
HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonRunInfo:
    """What a run says of itself before it does anything."""

    run: str
    command: str
    table: str
    family: str
    process: ProcessIdentity
    started_at: str


class PaimonSession:
    """A run from its first record to its last; use it as a context manager."""

    def __init__(self, io: FileIO, table: str, *, command: str, run: str | None = None) -> None:
        self.io, self.table, self.run = io, table, run or new_run_id()
        self.state = find_state_folder(io, table)
        self.folder = f"{self.state}/runs/{self.run}"
        self.commit_user = f"packstone-{self.run}"
        self.keep_evidence = False  # a merge was wrong, somebody will want to see it
        self.keep_records = False  # a commit's outcome is unknown: what it created must stay known by name
        self._command = command
        self._heartbeat = Heartbeat(io)
        self._labels = count(1)
        self._published = 0
        self._committed: set[str] = set()

    def staging(self, group: int) -> str:
        """Where the tasks of one group find their payloads."""
        return f"{self._staging}/g{group:04d}"

    @property
    def _staging(self) -> str:
        return f"{self.state}/staging/{self.run}"

    @property
    def deaths(self) -> str:
        """Where inputs are noted that ended a process."""
        return f"{self.state}/{DEATHS_FOLDER}"

    def __enter__(self) -> Self:
        info = PaimonRunInfo(
            run=self.run,
            command=self._command,
            table=self.table,
            family="paimon",
            process=ProcessIdentity.mine(),
            started_at=datetime.now(UTC).isoformat(),
        )
        try:
            make_state_folder(self.io, self.table, self.state)
            self.io.make_dirs(self.folder)
            # Before anything says who we are: a run without a heartbeat is judged by the age of its files alone.
            self.io.replace(f"{self.folder}/{HEARTBEAT}", b"")
            self.io.replace(f"{self.folder}/run.json", dump_record(info))
            self._heartbeat.start(f"{self.folder}/{HEARTBEAT}")
            note_deaths(self.io, f"{self.state}/staging", folder=self.deaths, job=PAIMON_JOB)
        except OSError as error:
            raise UnavailableError(f"{self.state} cannot be written: {error.strerror or error}.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._heartbeat.stop()
        with contextlib.suppress(OSError):
            self.io.remove(f"{self.folder}/{HEARTBEAT}")
        if not self.keep_evidence:
            with contextlib.suppress(OSError):
                self.io.remove_tree(self._staging)
        if kind is None and not self.keep_evidence and not self.keep_records:
            with contextlib.suppress(OSError):
                self._forget_committed()
        for folder in (self.folder, f"{self.state}/runs", f"{self.state}/staging", self.deaths, self.state):
            with contextlib.suppress(OSError):
                self.io.remove_empty_dir(folder)
        with contextlib.suppress(OSError):
            self.io.remove_empty_dir(posixpath.dirname(self.state))

    def record_names(self, paths: tuple[str, ...]) -> None:
        """Write down paths that the driver is about to create: manifests and their lists."""
        record_created(self.io, self.folder, paths, label=f"commit-{next(self._labels)}")

    def note_published(self, published: Published) -> None:
        """Write down a snapshot of ours; that this is not possible must not undo what was published."""
        self._published += 1
        with contextlib.suppress(OSError):
            self.io.replace(f"{self.folder}/published-{published.snapshot_id}.json", dump_record(published))

    def note_committed(self, paths: set[str]) -> None:
        """These paths are named by a snapshot now."""
        self._committed |= paths

    def _forget_committed(self) -> None:
        """Remove the records of paths that are committed or were never made; a lost attempt's stay for `clean`."""
        for entry in list(self.io.list_dir(self.folder)):
            if not entry.name.startswith(_CREATED):
                continue
            path = f"{self.folder}/{entry.name}"
            created = load_record(CreatedFiles, self.io.read_bytes(path), path=path)
            left = [one for one in created.paths if one not in self._committed and self.io.stat(one) is not None]
            is_commit = entry.name.startswith(f"{_CREATED}commit-")
            if not left or (is_commit and self._published):
                self.io.remove(path)
        if not self._published and not any(e.name.startswith(_CREATED) for e in self.io.list_dir(self.folder)):
            self.io.remove(f"{self.folder}/run.json")
