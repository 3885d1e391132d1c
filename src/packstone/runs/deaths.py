"""Find input files that crash the process that reads them, and leave them alone.

One such file would otherwise end the compaction of its whole table, every night. A task leaves a marker when it begins
and one for each unit that it finishes, so the unit in which a process died is known: its inputs are suspects. The next
attempt, of the same run if a worker died and otherwise of the next run, first reads each suspect in a child process:

| the child | the unit |
|---|---|
| dies of a fault while it reads a file | the file is left alone, with the signal as the reason, until it changes |
| is killed from outside | is left alone by this run, and one more death is counted |
| reads all of them | is done as usual; after three deaths it is left alone for a week, or until its files change |

A fault is a signal that a decoder raises itself (``FAULTS``). SIGKILL and SIGTERM come from outside, such as from the
kernel when memory is short, and prove nothing about the file.

Deaths within one hour count as one: killing a command repeatedly does not make its files suspects.

Notes are files in ``<folder>/<digest of the path>.json``; a unit that is done removes those of its inputs. The last row
covers what only a merge can show: a fault of a writer, or a merge that needs more memory than there is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, PackstoneError, UnavailableError, UnreadableFileError
from packstone.model.codec import AbsolutePath, dump_record, load_record
from packstone.runs.tasks import Attempt, Job, Task, begin_task, begun_path, find_dead_units, find_stop, run_units
from packstone.storage.fileio import list_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packstone.model.work import Unit
    from packstone.storage.fileio import Entry, FileIO

MAX_DEATHS: Final = 3
RETRY_SECONDS: Final = 7 * 86_400  # the executors may have got more memory by then
APART_SECONDS: Final = 3_600
FAULTS: Final = frozenset({"SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"})
_NS: Final = 1_000_000_000
_CHILD: Final = "from packstone.runs.deaths import read_suspects; read_suspects()"


def run_task(
    job: Job[Any, Any, Any], attempt: Attempt, number: int, *, on_unit: Callable[[Unit], None] = lambda _: None
) -> None:
    """Run one task, guarded against inputs that crashed a process before, and write its results."""
    task = begin_task(job, attempt, number)
    run_units(job, attempt, task, guard=DeathWatch.begin(job, attempt, task), on_unit=on_unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathNote:
    """A file that was being read when its process died; it has a signal once the file is known to be the cause."""

    path: AbsolutePath
    size_bytes: int
    mtime_ns: int
    deaths: int
    signal: str = ""

    @property
    def is_proved(self) -> bool:
        """Whether the file is known to be the cause; earlier versions recorded any signal."""
        return self.signal in FAULTS

    def is_about(self, found: Entry | None) -> bool:
        """Whether the file is unchanged since the note was written."""
        return found is not None and (found.size_bytes, found.mtime_ns) == (self.size_bytes, self.mtime_ns)


@dataclass(slots=True, kw_only=True)
class DeathWatch:
    """The ``UnitGuard`` of all tasks: it checks the notes about the inputs of a unit before they are read."""

    job: Job[Any, Any, Any]
    attempt: Attempt
    folder: str
    marker: str  # the file that this attempt wrote when it began
    suspect: int | None = None  # the unit in which earlier attempts at this task died
    deaths: int = 0  # the number of these attempts
    _notes: dict[str, DeathNote] = field(default_factory=dict)

    @classmethod
    def begin(cls, job: Job[Any, Any, Any], attempt: Attempt, task: Task[Any, Any]) -> DeathWatch:
        """Read the notes, and find the unit at which earlier attempts at this task stopped."""
        watch = cls(job=job, attempt=attempt, folder=task.deaths, marker=begun_path(attempt, task.number))
        if job.read_through is not None and task.deaths:
            watch._notes = _read_notes(attempt.io, task.deaths)
            if attempt.number:
                watch.suspect, watch.deaths = find_stop(attempt, task)
        return watch

    def check(self, unit: Unit) -> None:
        """Raise UnreadableFileError if an input crashed a process before, or crashes the child that reads it now."""
        if self.suspect == unit.number:
            self._suspect(unit)
        if self.job.read_through is None or not self._notes:
            return
        files = {path: form for path, form in unit.input_files if self._is_noted(path)}
        for path in files:
            if self._notes[path].is_proved:
                raise _left_alone(path, self._notes[path].signal)
        if not files:
            return
        if self.suspect != unit.number:
            self._check_not_too_often(unit, tuple(files))
        found = find_deadly_file(self.attempt.io, tuple(files.items()), read_through=self.job.read_through)
        if found is not None and found[1] in FAULTS:
            path, name = found
            _write_note(self.attempt.io, self.folder, replace(self._notes[path], signal=name))
            raise _left_alone(path, name)
        if found is not None:
            self._count_death(tuple(files))
        self._check_not_too_often(unit, tuple(files))
        if found is not None:
            raise UnavailableError(
                f"The process that tried to read {found[0]} was ended by {found[1]}, which says nothing about the "
                "file; the next run tries it again. Is there too little memory?"
            )

    def survived(self, unit: Unit) -> None:
        """Remove the notes about the inputs of a unit that is done."""
        for path, _ in unit.input_files if self._notes else ():
            note = self._notes.get(path)
            if note is not None and not note.is_proved:
                self.attempt.io.remove(_note_path(self.folder, path))

    def _check_not_too_often(self, unit: Unit, paths: tuple[str, ...]) -> None:
        deaths = max(self._notes[path].deaths for path in paths)
        if deaths < MAX_DEATHS or any(self._is_old(path) for path in paths):
            return
        if self.suspect == unit.number:
            for path in paths:
                _write_note(self.attempt.io, self.folder, self._notes[path])
        raise UnreadableFileError(
            f"The process that merged these {len(unit.input_files)} files ended {deaths} times without a message, "
            "though each can be read alone; they are left alone for 7 days, or until one of them changes. Is there too "
            "little memory?",
            file="",
        )

    def _count_death(self, paths: tuple[str, ...]) -> None:
        """Record that a child was killed, unless a death was recorded within the hour."""
        io, now = self.attempt.io, self.attempt.io.stat(self.marker)
        for path in paths:
            note = _note_path(self.folder, path)
            is_noted = io.stat(note) is not None
            if is_noted and now is not None and not _is_later(io, note, now.mtime_ns, by_seconds=APART_SECONDS):
                continue
            deaths = self._notes[path].deaths + (1 if is_noted else 0)
            self._notes[path] = replace(self._notes[path], deaths=deaths)
            _write_note(io, self.folder, self._notes[path])

    def _is_noted(self, path: str) -> bool:
        note = self._notes.get(path)
        return note is not None and note.is_about(self.attempt.io.stat(path))

    def _is_old(self, path: str) -> bool:
        """Whether the last death was over a week ago, by the clock of the store, which has just stamped our marker."""
        now = self.attempt.io.stat(self.marker)
        note = _note_path(self.folder, path)
        return now is not None and _is_later(self.attempt.io, note, now.mtime_ns, by_seconds=RETRY_SECONDS)

    def _suspect(self, unit: Unit) -> None:
        for path, _ in unit.input_files:
            found = self.attempt.io.stat(path)
            if found is not None and path not in self._notes:
                self._notes[path] = _new_note(path, found, deaths=self.deaths)


def note_deaths(io: FileIO, staging: str, *, folder: str, job: Job[Any, Any, Any]) -> None:
    """Write notes for the inputs of units in which processes of this host died; ``staging`` is that of all runs."""
    notes: dict[str, DeathNote] | None = None
    for unit, began_ns in find_dead_units(io, staging, job):
        notes = _read_notes(io, folder) if notes is None else notes
        for path, _ in unit.input_files:
            found, before = io.stat(path), notes.get(path)
            if found is None:
                continue
            if before is not None and before.is_about(found):
                if not _is_later(io, _note_path(folder, path), began_ns, by_seconds=APART_SECONDS):
                    continue
                notes[path] = replace(before, deaths=before.deaths + 1)
            else:
                notes[path] = _new_note(path, found)
            _write_note(io, folder, notes[path])


def find_deadly_file(
    io: FileIO, files: Sequence[tuple[str, str]], *, read_through: Callable[[FileIO, str, str], None]
) -> tuple[str, str] | None:
    """Read files, given as (path, format), in a child; return the path and signal of the one that crashed it, if any.

    The child prints the number of each file before it reads it, so the last number is that of the cause.
    """
    try:
        question = pickle.dumps((io, read_through, tuple(files)))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None  # a store that cannot be pickled: its files cannot be tried in a child
    with start_python(_CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        begun = child.communicate(question)[0].split()
    if child.returncode >= 0 or not begun:
        return None
    return files[int(begun[-1])][0], _signal_name(-child.returncode)


def start_python(code: str, *, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process of our own code that imports what this process imports; ``options`` are those of Popen."""
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, **(env or {}), "PYTHONPATH": path}
    command = [sys.executable, "-P", "-c", code]  # -P: no module comes from the current folder
    return subprocess.Popen(command, env=environment, **options)  # noqa: S603 - our own interpreter and code


def read_suspects() -> None:
    """The child's main function: read the files that the parent sends; errors are ignored, the merge reports them."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    io, read_through, files = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent process
    for number, (path, file_format) in enumerate(files):
        os.write(1, b"%d\n" % number)
        with contextlib.suppress(PackstoneError, OSError, Exception):
            read_through(io, path, file_format)


def _is_later(io: FileIO, note: str, moment_ns: int, *, by_seconds: int) -> bool:
    """Whether a moment is more than ``by_seconds`` after a note was written."""
    found = io.stat(note)
    return found is not None and moment_ns - found.mtime_ns > by_seconds * _NS


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _left_alone(path: str, name: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"{path} ends the process that reads it ({name}); it is left alone until it changes.", file=path
    )


def _new_note(path: str, found: Entry, *, deaths: int = 1) -> DeathNote:
    return DeathNote(path=path, size_bytes=found.size_bytes, mtime_ns=found.mtime_ns, deaths=deaths)


def _write_note(io: FileIO, folder: str, note: DeathNote) -> None:
    io.make_dirs(folder)
    io.replace(_note_path(folder, note.path), dump_record(note))


def _read_notes(io: FileIO, folder: str) -> dict[str, DeathNote]:
    """All notes by path; one that is damaged or has the wrong name is ignored."""
    notes: dict[str, DeathNote] = {}
    for entry in list_entries(io, folder):
        path = f"{folder}/{entry.name}"
        with contextlib.suppress(CorruptionError, FileNotFoundError):
            note = load_record(DeathNote, io.read_bytes(path), path=path)
            if _note_path(folder, note.path) == path:
                notes[note.path] = note
    return notes


def _note_path(folder: str, path: str) -> str:
    return f"{folder}/{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"
