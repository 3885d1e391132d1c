"""Inputs that end the process which reads them: noted, tried in a process of their own, and left alone.

One such file would otherwise end the compaction of its whole table, every night. A task leaves a marker when it begins
and one for each unit that it has done, so the unit in which a process died is known: its inputs are suspects. The next
attempt, on Spark one of the same job and otherwise the next run, reads each suspect in a child process first:

| the child | the unit |
|---|---|
| dies while it reads a file | the file is left alone, with the signal as the reason, until it changes |
| reads all of them | is done as usual; after three deaths it is left alone for a week, or until its files change |

Notes are files in ``<folder>/<digest of the path>.json``; a unit that was done removes those of its inputs. The second
row is for what only a merge can show: a fault of a writer, or a merge that needs more memory than there is.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, UnreadableFileError
from packstone.model.codec import dump_record, load_record
from packstone.model.record_fields import AbsolutePath
from packstone.rewrite.trial_read import find_deadly_file
from packstone.storage.task_board import Attempt, Job, UnitInputs, begun_path, find_dead_units, find_stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packstone.storage.fileio import FileIO

MAX_DEATHS: Final = 3
RETRY_SECONDS: Final = 7 * 86_400  # somebody may have given the executors more memory since


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathNote:
    """A file that was being read when its process died; with a reason once it is known to be the cause."""

    path: AbsolutePath
    size_bytes: int
    mtime_ns: int
    deaths: int
    signal: str = ""


@dataclass(slots=True)
class DeathWatch:
    """What a task knows about its inputs before it reads them."""

    attempt: Attempt
    folder: str
    marker: str  # what this attempt left when it began
    suspect: int | None = None  # the unit in which earlier attempts at this task died
    deaths: int = 0  # how many of them
    _notes: dict[str, DeathNote] = field(default_factory=dict)

    @classmethod
    def begin(cls, attempt: Attempt, folder: str, *, task: int, units: Iterable[UnitInputs]) -> DeathWatch:
        """Read the notes, and find out where earlier attempts at this task stopped."""
        marker = begun_path(attempt, task)
        watch = cls(attempt=attempt, folder=folder, marker=marker, _notes=_read_notes(attempt.io, folder))
        if attempt.number:
            watch.suspect, watch.deaths = find_stop(attempt, task, units)
        return watch

    def check(self, unit: UnitInputs) -> None:
        """Raise UnreadableFileError if an input ended a process before, or ends the child that reads it now."""
        if self.suspect == unit.number:
            for path in unit.paths:
                self._add(path)
        noted = {path: note for path in unit.paths if (note := self._current_note(path)) is not None}
        for path, note in noted.items():
            if note.signal:
                raise _left_alone(path, note.signal)
        if not noted:
            return
        found = find_deadly_file(self.attempt.io, [file for file in unit.files if file[0] in noted])
        if found is not None:
            path, name = found
            self._write(replace(noted[path], signal=name))
            raise _left_alone(path, name)
        deaths = max(note.deaths for note in noted.values())
        if deaths >= MAX_DEATHS and not any(self._is_old(path) for path in noted):
            if self.suspect == unit.number:
                for note in noted.values():
                    self._write(note)
            raise UnreadableFileError(
                f"The process that merged these {len(unit.paths)} files ended {deaths} times without a word, though "
                "each can be read alone; they are left alone for 7 days, or until one of them changes. Is there too "
                "little memory?",
                file="",
            )

    def survived(self, unit: UnitInputs) -> None:
        """Forget the suspicion against the inputs of a unit that was done."""
        for path in unit.paths:
            note = self._notes.get(path)
            if note is not None and not note.signal:
                self.attempt.io.remove(_note_path(self.folder, path))

    def _current_note(self, path: str) -> DeathNote | None:
        note = self._notes.get(path)
        if note is None:
            return None
        found = self.attempt.io.stat(path)
        is_same = found is not None and (found.size_bytes, found.mtime_ns) == (note.size_bytes, note.mtime_ns)
        return note if is_same else None

    def _is_old(self, path: str) -> bool:
        """Whether the last death was long ago, by the clock of the store, which stamped our own marker just now."""
        note = self.attempt.io.stat(_note_path(self.folder, path))
        now = self.attempt.io.stat(self.marker)
        return note is not None and now is not None and now.mtime_ns - note.mtime_ns > RETRY_SECONDS * 1_000_000_000

    def _add(self, path: str) -> None:
        found = self.attempt.io.stat(path)
        if found is not None and path not in self._notes:
            self._notes[path] = DeathNote(
                path=path, size_bytes=found.size_bytes, mtime_ns=found.mtime_ns, deaths=self.deaths
            )

    def _write(self, note: DeathNote) -> None:
        _write_note(self.attempt.io, self.folder, note)


def note_deaths(io: FileIO, staging: str, *, folder: str, job: Job[Any, Any]) -> None:
    """Note the inputs of units in which processes of this host died; ``staging`` holds the staging of all runs."""
    notes: dict[str, DeathNote] | None = None
    for unit in find_dead_units(io, staging, job):
        notes = _read_notes(io, folder) if notes is None else notes
        for path in unit.paths:
            found = io.stat(path)
            if found is None:
                continue
            before = notes.get(path)
            is_same = before is not None and (before.size_bytes, before.mtime_ns) == (found.size_bytes, found.mtime_ns)
            note = DeathNote(
                path=path,
                size_bytes=found.size_bytes,
                mtime_ns=found.mtime_ns,
                deaths=before.deaths + 1 if is_same and before is not None else 1,
                signal=before.signal if is_same and before is not None else "",
            )
            _write_note(io, folder, note)
            notes[path] = note


def _left_alone(path: str, name: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"{path} ends the process that reads it ({name}); it is left alone until it changes.", file=path
    )


def _write_note(io: FileIO, folder: str, note: DeathNote) -> None:
    io.make_dirs(folder)
    io.replace(_note_path(folder, note.path), dump_record(note))


def _read_notes(io: FileIO, folder: str) -> dict[str, DeathNote]:
    """All notes by path; one that is damaged or of another file's name says nothing."""
    notes: dict[str, DeathNote] = {}
    try:
        names = [entry.name for entry in io.list_dir(folder)]
    except FileNotFoundError:
        return notes
    for name in names:
        path = f"{folder}/{name}"
        with contextlib.suppress(CorruptionError, FileNotFoundError):
            note = load_record(DeathNote, io.read_bytes(path), path=path)
            if _note_path(folder, note.path) == path:
                notes[note.path] = note
    return notes


def _note_path(folder: str, path: str) -> str:
    return f"{folder}/{hashlib.sha256(path.encode()).hexdigest()[:32]}.json"
