"""Runs that are not yet in the history: one file for each run, which the next command reads.

A run writes such a file when it starts and removes it when it is recorded. A remaining file therefore belongs to a run
whose record could not be written, and has all its facts, or to a run that was killed, and has enough to find out its
outcome.

The files are in two places. Every command on this machine reads the user's own folder, whatever its table. A copy is
kept beside the table, in ``.packstone/<table>/unrecorded/``, where commands on other machines find it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs

from packstone.errors import PackstoneError
from packstone.model.codec import AbsolutePath, RunId, dump_record, load_record
from packstone.model.run_record import RunFacts
from packstone.runs.liveness import ProcessIdentity
from packstone.runs.state_folder import make_state_folder
from packstone.storage.fileio import PRIVATE
from packstone.storage.local import LocalFileIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

FOLDER: Final = "unrecorded"
VARIABLE: Final = "PACKSTONE_UNRECORDED"
_ENDING: Final = ".json"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRecord:
    """One run that is to be recorded; ``facts`` is None while it runs, and stays None if it is killed."""

    run: RunId
    history: str  # its address without password: the record is for that database and no other
    command: str
    family: str
    table: AbsolutePath
    strategy: str
    started_at: datetime
    user: str
    process: ProcessIdentity
    facts: RunFacts | None = None
    restored: bool = False  # the run is recorded already; the record must be marked as restored


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRecords:
    """A folder of unrecorded runs."""

    io: FileIO
    folder: str
    root: str = ""  # the table that the folder belongs to; its state folder may have to be created and removed

    def write(self, entry: PendingRecord) -> None:
        """Write an entry; replace an earlier entry of the same run."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            if self.root:
                make_state_folder(self.io, self.root, posixpath.dirname(self.folder))
            self.io.make_dirs(self.folder, like=None if self.root else PRIVATE)
            try:
                self.io.replace(self._path(entry), dump_record(entry))
            except FileNotFoundError:  # another process removed the last entry and the empty folder
                if not attempts_left:
                    raise
            else:
                return

    def remove(self, entry: PendingRecord) -> None:
        """Remove an entry, and the folders that become empty."""
        self.io.remove(self._path(entry))
        state = posixpath.dirname(self.folder)
        for folder in (self.folder, state, posixpath.dirname(state)) if self.root else (self.folder,):
            if not self.io.remove_empty_dir(folder):
                return

    def list_entries(self, history: str) -> Iterator[PendingRecord]:
        """Yield the entries for a history, oldest first; unreadable entries are skipped and stay for inspection."""
        try:
            names = sorted(entry.name for entry in self.io.list_dir(self.folder) if entry.name.endswith(_ENDING))
        except FileNotFoundError:
            return
        for name in names:
            path = f"{self.folder}/{name}"
            with contextlib.suppress(FileNotFoundError, PackstoneError):
                entry = load_record(PendingRecord, self.io.read_bytes(path), path=path)
                if entry.history == history:
                    yield entry

    def has_others(self, run: str, *, history: str) -> bool:
        """Whether a history has entries besides that of a run; True also if that cannot be found out."""
        try:
            if all(entry.name == f"{run}{_ENDING}" for entry in self.io.list_dir(self.folder)):
                return False  # without reading it: it may have thousands of units
            return any(entry.run != run or entry.restored for entry in self.list_entries(history))
        except FileNotFoundError:
            return False
        except (OSError, PackstoneError):
            return True

    def _path(self, entry: PendingRecord) -> str:
        return f"{self.folder}/{entry.run}{'.restored' if entry.restored else ''}{_ENDING}"


def user_spool() -> PendingRecords:
    """Return the user's own folder on this machine."""
    chosen = os.environ.get(VARIABLE) or str(platformdirs.user_data_path("packstone", appauthor=False) / FOLDER)
    return PendingRecords(io=LocalFileIO(), folder=str(Path(chosen).expanduser().absolute()))


def table_spool(io: FileIO, state: str, *, root: str) -> PendingRecords:
    """Return the folder beside a table."""
    return PendingRecords(io=io, folder=f"{state}/{FOLDER}", root=root)
