"""Runs that the history does not know yet: files, one for each run, that the next command reads.

A run writes such a file when it begins and removes it when it is recorded. So what is left behind tells of a run whose
record could not be written, with all its facts, or of one that was killed, with enough to find out what became of it.

There are two places. The folder of the user, on this machine, is seen by every command, whatever its table. For Hive
directories a copy lies beside the table, ``.packstone/<table>/unrecorded/``, where commands on other machines see it.
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
from packstone.model.codec import dump_record, load_record
from packstone.model.record_fields import AbsolutePath, RunId
from packstone.model.run_record import RunFacts
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.fileio import PRIVATE
from packstone.storage.local import LocalFileIO
from packstone.tables.state_folder import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

FOLDER: Final = "unrecorded"
VARIABLE: Final = "PACKSTONE_UNRECORDED"
_ENDING: Final = ".json"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """One run that a history should know; ``facts`` are None while it runs, and for ever if it was killed."""

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
    restored: bool = False  # not a record: the run is known, and was undone since


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """A folder of unrecorded runs."""

    io: FileIO
    folder: str
    root: str = ""  # the table that it is beside, whose state folder may have to be made, and removed again

    def write(self, entry: Unrecorded) -> None:
        """Keep an entry, in place of what is known of the run."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            if self.root:
                make_state_folder(self.io, self.root, posixpath.dirname(self.folder))
            self.io.make_dirs(self.folder, like=None if self.root else PRIVATE)
            try:
                self.io.replace(self._path(entry), dump_record(entry))
            except FileNotFoundError:  # somebody who removed the last entry took the folder with it
                if not attempts_left:
                    raise
            else:
                return

    def remove(self, entry: Unrecorded) -> None:
        """Forget an entry, and leave no empty folder."""
        self.io.remove(self._path(entry))
        state = posixpath.dirname(self.folder)
        for folder in (self.folder, state, posixpath.dirname(state)) if self.root else (self.folder,):
            if not self.io.remove_empty_dir(folder):
                return

    def list_entries(self, history: str) -> Iterator[Unrecorded]:
        """Yield what is meant for a history, oldest first; what cannot be read is left for a person to see."""
        try:
            names = sorted(entry.name for entry in self.io.list_dir(self.folder) if entry.name.endswith(_ENDING))
        except FileNotFoundError:
            return
        for name in names:
            path = f"{self.folder}/{name}"
            with contextlib.suppress(FileNotFoundError, PackstoneError):
                entry = load_record(Unrecorded, self.io.read_bytes(path), path=path)
                if entry.history == history:
                    yield entry

    def _path(self, entry: Unrecorded) -> str:
        return f"{self.folder}/{entry.run}{'.restored' if entry.restored else ''}{_ENDING}"


def user_spool() -> Spool:
    """The user's own folder on this machine."""
    chosen = os.environ.get(VARIABLE) or str(platformdirs.user_data_path("packstone", appauthor=False) / FOLDER)
    return Spool(io=LocalFileIO(), folder=str(Path(chosen).expanduser().absolute()))


def table_spool(io: FileIO, state: str, *, root: str) -> Spool:
    """The folder beside a table."""
    return Spool(io=io, folder=f"{state}/{FOLDER}", root=root)
