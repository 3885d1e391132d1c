"""The folder of a run: its identity, its heartbeat, the files it creates and publishes; the same for every family.

::

    <state>/runs/<run>/run.json              what the run is, and its process
    <state>/runs/<run>/heartbeat             a recent modification time shows that the process lives
    <state>/runs/<run>/created-<label>.json  paths that it is about to create directly in the table
    <state>/runs/<run>/units-<wave>.json     the units of a wave with their results, written before they are published
    <state>/runs/<run>/ended.json            the run has ended, though its process may live on
    <state>/staging/<run>/w0001/s1/          payloads, results and outputs of one stage of a wave
    <state>/staging/<run>/w0001/r1/          the same for units that a killed run had finished
    <state>/deaths/                          notes about files that were being read when a process died

The heartbeat exists before ``run.json`` is written, and is removed before ``ended.json`` is written or the folder is
removed: a run that has a ``run.json`` and no heartbeat has ended.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from packstone.errors import ConflictError, CorruptionError, InvalidInputError, PackstoneError, UnavailableError
from packstone.model.codec import AbsolutePath, RunId, check_run, damaged, dump_record, kind_of, load_record
from packstone.model.maintenance import PublishedRun, Recovered
from packstone.model.outcome import UnitOutcome
from packstone.model.unit import OutputT, UnitResult
from packstone.model.work import UnitT
from packstone.runs.clock import new_run_id, now_seconds, now_utc
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.liveness import HEARTBEAT_SECONDS, LEASE_SECONDS, Heartbeat, ProcessIdentity
from packstone.runs.owner import Owner, may_take_over
from packstone.runs.state_folder import DEATHS_FOLDER, make_staging, make_state_folder
from packstone.runs.tasks import ContextT, Job, has_finished_units
from packstone.storage.fileio import EntryKind, list_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.storage.fileio import Entry, FileIO

# A run writes run.json within milliseconds of making its folder, unless the store is slow or the process is paused.
_NAMELESS_SECONDS: Final = LEASE_SECONDS
_KEPT_SECONDS: Final = 30 * 86_400  # people ask weeks later what a run did, and whether it can still be undone
_CREATED: Final = "created-"
_UNITS: Final = re.compile(r"units-[0-9]{4,9}\.json")
_ENDED: Final = "ended.json"
_INFO: Final = "run.json"
_HEARTBEAT: Final = "heartbeat"
_OWN_NAMES: Final = frozenset({_INFO, _HEARTBEAT})  # the folder of a run with no other files is not worth keeping
list_names = list_entries  # as the modules of Hive directories and segment tables call it


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a run is, for whoever finds its folder later."""

    run: RunId
    command: str
    table: AbsolutePath
    process: ProcessIdentity
    started_at: str
    family: str = ""
    stream: str = ""  # the streaming query whose batch it loads, which loads one batch at a time
    restores: RunId | None = None  # the run that this one undoes: ``recover`` finds it here, as it ended long ago
    fenced: bool = False  # another run took this one for dead and recovers it; if it still lives, it must stop

    @property
    def started_ms(self) -> int:
        """When it began, in milliseconds since 1970."""
        try:
            return int(datetime.fromisoformat(self.started_at).timestamp() * 1000)
        except (ValueError, OverflowError):
            return 0  # a damaged time counts as long ago

    def __str__(self) -> str:
        return f"{self.command} {self.run} ({self.process})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The content of ``ended.json``; that the file exists means that the run has ended."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFiles:
    """Paths that a run is about to create."""

    paths: tuple[AbsolutePath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord(Generic[UnitT, OutputT]):
    """One part of a wave: its units and results, and the outcomes for the history once it is published."""

    part: str
    units: tuple[UnitT, ...]
    results: tuple[UnitResult[OutputT], ...]
    outcomes: tuple[UnitOutcome, ...]

    @property
    def proofs(self) -> Iterator[tuple[UnitT, UnitResult[OutputT]]]:
        """Each unit with its result."""
        by_number = {result.number: result for result in self.results}
        return ((unit, by_number[unit.number]) for unit in self.units if unit.number in by_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRecord(Generic[ContextT, UnitT, OutputT]):
    """All parts of a wave that are published together."""

    run: RunId
    wave: int
    context: ContextT
    parts: tuple[PartRecord[UnitT, OutputT], ...]
    verified: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolders:
    """The folders of all runs on one table."""

    io: FileIO
    state: str

    @property
    def home(self) -> str:
        """The folder that holds them."""
        return f"{self.state}/runs"

    def folder(self, run: str) -> str:
        """The folder of one run."""
        return f"{self.home}/{run}"

    def heartbeat(self, run: str) -> str:
        """The file whose modification time shows that a run lives."""
        return f"{self.folder(run)}/{_HEARTBEAT}"

    def staging(self, run: str) -> str:
        """The folder of what a run has not published yet."""
        return f"{self.state}/staging/{run}"

    @property
    def deaths(self) -> str:
        """The folder of the notes about inputs that crashed a process."""
        return f"{self.state}/{DEATHS_FOLDER}"

    def list_runs(self) -> list[str]:
        """The ids of the runs that have a folder, oldest first (an id begins with the time)."""
        # Only real folders, no links: folders of runs are removed, and a link may lead anywhere.
        found = list_entries(self.io, self.home)
        return sorted(entry.name for entry in found if entry.kind is EntryKind.DIRECTORY and is_run_id(entry.name))

    def read_info(self, run: str) -> RunInfo | None:
        """Read what a run is; None if it was killed before it wrote that. CorruptionError if it is another's."""
        path = f"{self.folder(run)}/{_INFO}"
        try:
            info = load_record(RunInfo, self.io.read_bytes(path), path=path)
        except FileNotFoundError:
            return None
        if info.run != run:
            raise damaged(path, f"it is the record of run {info.run}")
        return info

    def read_known(self, run: str, *, table: str) -> RunInfo:
        """Read what a run is, by an id that a user gave; InvalidInputError if there is no record of it."""
        info = self.read_info(run) if is_run_id(run) else None
        if info is None:
            raise InvalidInputError(f"There is no run {run} of {table}; `packstone history` lists the runs.")
        return info

    def is_ended(self, run: str) -> bool:
        """Whether a run has ended, as it or a run that recovered it has recorded."""
        return self.io.stat(f"{self.folder(run)}/{_ENDED}") is not None

    def is_dead(self, run: str, *, now_seconds: float, take_over: bool = False) -> bool:
        """Whether a run has ended or its process is dead; a run without ``run.json`` is judged by its age."""
        if self.is_ended(run):
            return True
        info = self.read_info(run)
        if info is None:
            found = self.io.stat(self.folder(run))
            return found is not None and now_seconds - self._last_change(run, found) > _NAMELESS_SECONDS
        owner = Owner(run=run, process=info.process, heartbeat_path=self.heartbeat(run))
        return may_take_over(self.io, owner, now_seconds=now_seconds, take_over=take_over)

    def _last_change(self, run: str, found: Entry) -> float:
        """The time of the last change in a run's folder; that of its newest file where folders have no time."""
        if self.io.capabilities.has_folders:
            return found.mtime_ns / 1e9
        return max((entry.mtime_ns for entry in list_entries(self.io, self.folder(run))), default=0) / 1e9

    def fence(self, run: str) -> None:
        """Mark a run as dead. A live run checks the mark before it publishes; read its records only after marking."""
        info = self.read_info(run)
        if info is None or info.fenced:
            return
        with contextlib.suppress(FileNotFoundError):  # another run that recovers has ended it first
            self.io.replace(f"{self.folder(run)}/{_INFO}", dump_record(replace(info, fenced=True)))

    def end(self, run: str) -> None:
        """Record that a run has ended; its other records stay."""
        self.io.remove(self.heartbeat(run))
        self.io.replace(f"{self.folder(run)}/{_ENDED}", dump_record(Ended(run=run)))

    def list_created(self, run: str) -> list[str]:
        """The records of paths that a run was about to create."""
        names = (entry.name for entry in list_entries(self.io, self.folder(run)))
        return sorted(f"{self.folder(run)}/{name}" for name in names if is_created_record(name))

    def read_created(self, run: str) -> tuple[str, ...]:
        """All paths that a run was about to create; CorruptionError if a record is damaged."""
        found: dict[str, None] = {}
        for path in self.list_created(run):
            found.update(dict.fromkeys(load_record(CreatedFiles, self.io.read_bytes(path), path=path).paths))
        return tuple(found)

    def has_waves(self, run: str) -> bool:
        """Whether a run published something, or was about to."""
        return bool(self.list_waves(run))

    def list_waves(self, run: str) -> set[int]:
        """The waves that a run published or was about to publish, where a wave is one commit."""
        names = (entry.name for entry in list_entries(self.io, self.folder(run)))
        return {int(name[len("units-") : -len(".json")]) for name in names if _UNITS.fullmatch(name)}

    def read_waves(
        self, run: str, job: Job[ContextT, UnitT, OutputT]
    ) -> Iterator[WaveRecord[ContextT, UnitT, OutputT]]:
        """Yield what a run was about to publish, wave by wave; only the table shows whether it did."""
        kind = kind_of(WaveRecord, job.context, job.unit, job.output)
        names = (entry.name for entry in list_entries(self.io, self.folder(run)))
        for name in sorted(name for name in names if _UNITS.fullmatch(name)):
            path = f"{self.folder(run)}/{name}"
            wave: WaveRecord[ContextT, UnitT, OutputT] = load_record(kind, self.io.read_bytes(path), path=path)
            if wave.run != run:
                raise damaged(path, f"it is the record of run {wave.run}")
            yield wave

    def read_committed(
        self,
        run: str,
        job: Job[ContextT, UnitT, OutputT],
        find_committed: Callable[[WaveRecord[ContextT, UnitT, OutputT]], Collection[str]],
    ) -> Iterator[PartRecord[UnitT, OutputT]]:
        """Yield the recorded parts of a run that were published; ``find_committed`` as in ``read_published``."""
        for wave in self.read_waves(run, job):
            committed = find_committed(wave)
            yield from (part for part in wave.parts if part.part in committed)

    def read_published(
        self,
        run: str,
        job: Job[ContextT, UnitT, OutputT],
        find_committed: Callable[[WaveRecord[ContextT, UnitT, OutputT]], Collection[str]],
    ) -> PublishedRun:
        """Read what a run published; ``find_committed`` returns the parts of a wave that the table contains."""
        outcomes: list[UnitOutcome] = []
        verified, ended_seconds = "none", None
        for wave in self.read_waves(run, job):
            committed = find_committed(wave)
            found = [one for part in wave.parts if part.part in committed for one in part.outcomes]
            if found:
                verified = wave.verified
                written = self.io.stat(f"{self.folder(run)}/units-{wave.wave:04d}.json")
                ended_seconds = None if written is None else written.mtime_ns / 1e9
            outcomes += found
        return PublishedRun(outcomes=tuple(outcomes), verified=verified, ended_seconds=ended_seconds)

    def remove_empty(self) -> None:
        """Remove the empty folders among Packstone's own."""
        state = self.state
        for folder in (f"{state}/staging", self.deaths, self.home, f"{state}/owners", state, posixpath.dirname(state)):
            with contextlib.suppress(OSError):
                self.io.remove_empty_dir(folder)


class Run:
    """One run on a table, from its first record to its last; use it as a context manager."""

    def __init__(  # noqa: PLR0913 - all facts of a run in one place
        self,
        io: FileIO,
        root: str,
        *,
        state: str,
        family: str,
        command: str,
        id: str | None = None,  # noqa: A002 - `run.id` reads well
        process: ProcessIdentity | None = None,
        stream: str = "",
        take_over: bool = False,
        restores: str | None = None,
        is_half_done: Callable[[str], bool] = lambda _: False,
    ) -> None:
        if restores is not None and not is_run_id(restores):
            raise InvalidInputError(f"There is no run {restores} of {root}; `packstone history` lists the runs.")
        self.io, self.root, self.command, self.take_over = io, root, command, take_over
        self.id = id or new_run_id()
        self.folders = RunFolders(io=io, state=state)
        self.started_at = now_utc()
        self.keep_staging = False  # a commit may be half-done: what its wave wrote stays until the run ends
        self.keep_records = False  # the outcome of a commit is unknown: the names of created files must be kept
        self.keep_evidence = False  # a merge was wrong, and its files are kept for inspection
        self.has_published = False
        self.tasks_may_outlive = False  # on Spark a task may still write after its job has ended
        self.reuses = False  # finished units of killed runs are used, not removed; see runs/reuse.py
        self.inherited: list[str] = []  # the killed runs that had finished units; ended when this run ends
        self.parallelism: Callable[[], int] = lambda: 1  # tasks that run at once; called only when there is work
        self._info = RunInfo(
            run=self.id,
            command=command,
            table=root,
            process=process or ProcessIdentity.mine(),
            started_at=self.started_at.isoformat(),
            family=family,
            stream=stream,
            restores=restores,
        )
        self._is_half_done = is_half_done
        self._heartbeat = Heartbeat(io)
        self._labels = count(1)
        self._checked_info: Entry | None = None  # run.json when it was last found to be unfenced
        self._kept: set[str] = set()  # files that this run created and published

    @property
    def state(self) -> str:
        """The folder of Packstone's own files of the table."""
        return self.folders.state

    @property
    def folder(self) -> str:
        """The folder of this run's records."""
        return self.folders.folder(self.id)

    @property
    def owner(self) -> Owner:
        """The owner that this run writes into owner files."""
        return Owner(run=self.id, process=self._info.process, heartbeat_path=self.folders.heartbeat(self.id))

    def __enter__(self) -> Self:
        try:
            make_state_folder(self.io, self.root, self.state)
            self.io.make_dirs(self.folder)
            # Before run.json: a run that has run.json and no heartbeat has ended.
            self.io.replace(self.folders.heartbeat(self.id), b"")
            self.io.replace(f"{self.folder}/{_INFO}", dump_record(self._info))
            self._heartbeat.start(self.folders.heartbeat(self.id))
        except BaseException as error:
            self._heartbeat.stop()
            with contextlib.suppress(OSError):
                self.io.remove_tree(self.folder)
            self.folders.remove_empty()
            if isinstance(error, OSError):
                raise UnavailableError(f"{self.state} cannot be written: {error.strerror or error}.") from error
            raise
        return self

    def resume(self) -> None:
        """Continue a run that another process began and left open; ConflictError if it has ended or counts as dead."""
        info = self.folders.read_info(self.id)
        has_ended = info is None or info.fenced or self.io.stat(self.folders.heartbeat(self.id)) is None
        if info is None or has_ended:
            raise ConflictError(f"Run {self.id} has ended, or was taken for dead by another run; nothing was changed.")
        self._info, self.started_at = info, datetime.fromisoformat(info.started_at)
        self._heartbeat.start(self.folders.heartbeat(self.id))

    def leave_open(self) -> None:
        """Stop the heartbeat of this process, but do not end the run: another process resumes it."""
        self._heartbeat.stop()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with finish_first():
                self._end()
        except Interrupted:
            # The interrupt came when the work was done: what was published must still be reported and recorded.
            if kind is not None or not self.has_published:
                raise

    def inherit(self, dead: str) -> bool:
        """Keep the staging of a dead run with finished units; False if it has none, or nothing is reused."""
        if not self.reuses or not has_finished_units(self.io, self.folders.staging(dead)):
            return False
        if dead not in self.inherited:
            self.inherited.append(dead)
        return True

    def staging(self, wave: int, stage: int, *, kind: str = "s") -> str:
        """Make the folder of one stage of a wave, readable by the owner only."""
        folder = f"{self._wave_folder(wave)}/{kind}{stage}"
        make_staging(self.io, self.state, folder)
        return folder

    def remove_wave_staging(self, wave: int) -> None:
        """Remove the folder of a wave, unless it must be kept."""
        if not self.keep_staging and not self.keep_evidence:
            self.io.remove_tree(self._wave_folder(wave))

    def _wave_folder(self, wave: int) -> str:
        return f"{self.folders.staging(self.id)}/w{wave:04d}"

    def store_now(self) -> float:
        """The time by the clock that stamps heartbeats (a file server's may differ from ours), at most 30 s late."""
        found = self.io.stat(self.folders.heartbeat(self.id))
        return now_seconds() if found is None else found.mtime_ns / 1e9

    def check_not_fenced(self) -> None:
        """Raise ConflictError if another run took this one for dead: it may be undoing what we are about to publish."""
        found = self.io.stat(f"{self.folder}/{_INFO}")
        if found is not None and found == self._checked_info:
            return  # the file that was read last time
        info = self.folders.read_info(self.id)
        if info is None or info.fenced:
            raise ConflictError(f"Run {self.id} was taken for dead by another run; nothing more is changed.")
        self._checked_info = found

    def record_created(self, paths: tuple[str, ...], *, label: str = "") -> None:
        """Record paths that the driver is about to create."""
        record_created(self.io, self.folder, paths, label=label or f"commit-{next(self._labels)}")

    def record_wave(self, wave: WaveRecord[Any, Any, Any]) -> None:
        """Record what is about to be published, for later commands that verify, undo or record it."""
        self.io.replace(f"{self.folder}/units-{wave.wave:04d}.json", dump_record(wave))

    def forget_wave(self, wave: int) -> None:
        """Remove the record of a wave that was not published."""
        self.io.remove(f"{self.folder}/units-{wave:04d}.json")

    def note_published(self, paths: Iterable[str] = ()) -> None:
        """Note that these files of the run now belong to the table, so they are not leftovers."""
        self.has_published = True
        self._kept.update(paths)

    @property
    def published(self) -> Collection[str]:
        """The files of this run that now belong to the table."""
        return self._kept

    def discard(self, paths: Sequence[str]) -> None:
        """Remove files of this run that are definitely not published; if that fails, `clean` does it later."""
        with contextlib.suppress(OSError):
            for path in paths:
                self.io.remove(path)

    def _end(self) -> None:
        self._heartbeat.stop()
        # A full disk may allow no write (staging is removed first, to make room); a run whose process is dead, or that
        # has no heartbeat, still counts as ended.
        with contextlib.suppress(OSError, PackstoneError):
            if not self._is_half_done(self.id):
                self._close()
        with contextlib.suppress(OSError):
            self.io.remove(self.folders.heartbeat(self.id))
        self.folders.remove_empty()

    def _close(self) -> None:
        """Remove what is no longer needed; a run without further records leaves no folder."""
        if not self.keep_evidence:
            self.io.remove_tree(self.folders.staging(self.id))
            if not self.keep_records:
                self._forget_created()
        if self.keep_evidence or {entry.name for entry in list_entries(self.io, self.folder)} - _OWN_NAMES:
            self.folders.end(self.id)
        else:
            self.io.remove_tree(self.folder)

    def _forget_created(self) -> None:
        """Remove the records of paths that are published or were never made; keep those that a lost attempt left."""
        for record in self.folders.list_created(self.id):
            paths = load_record(CreatedFiles, self.io.read_bytes(record), path=record).paths
            open_paths = [path for path in paths if path not in self._kept]
            is_there = [self.io.stat(path) is not None for path in open_paths]
            may_come = self.tasks_may_outlive and not all(is_there)
            if not any(is_there) and not may_come:
                self.io.remove(record)


def end_dead_runs(run: Run, *, is_half_done: Callable[[str], bool] = lambda _: False) -> Iterator[Recovered]:
    """End the runs whose process is dead and that left nothing half-done, and remove their useless staging."""
    folders = run.folders
    for dead in folders.list_runs():
        if dead == run.id or folders.is_ended(dead):
            continue
        try:
            if not folders.is_dead(dead, now_seconds=run.store_now(), take_over=run.take_over):
                continue
            folders.fence(dead)
            if is_half_done(dead) or run.inherit(dead):
                continue
        except CorruptionError as error:
            yield Recovered(run=dead, part="", action=f"left alone: {error.message}", is_left=True, is_damaged=True)
            continue
        had_staging = run.io.stat(folders.staging(dead)) is not None
        run.io.remove_tree(folders.staging(dead))
        if any(entry.name not in _OWN_NAMES for entry in list_entries(run.io, folders.folder(dead))):
            folders.end(dead)
        else:
            run.io.remove_tree(folders.folder(dead))
        if had_staging:
            yield Recovered(run=dead, part="", action="remaining staging files removed")


def remove_old_runs(run: Run) -> None:
    """Remove the folders of runs that ended more than 30 days ago and left no record of created files."""
    folders = run.folders
    for old in folders.list_runs():
        found = run.io.stat(f"{folders.folder(old)}/{_INFO}")
        is_old = found is not None and run.store_now() - found.mtime_ns / 1e9 > _KEPT_SECONDS
        if is_old and folders.is_ended(old) and not folders.list_created(old):
            run.io.remove_tree(folders.folder(old))


def keep_alive(io: FileIO, state: str, run: str) -> None:
    """Touch the heartbeat of a run that no process has open, until it ends or its process dies.

    Python code that Spark calls in its driver runs in short-lived processes: one begins a load, another one commits it.
    The process of such a run is Spark's driver, which does not touch files.
    """
    folders = RunFolders(io=io, state=state)
    wait = threading.Event()
    while not wait.wait(HEARTBEAT_SECONDS):
        try:
            info = folders.read_info(run)
            if info is None or not info.process.is_running() or io.stat(folders.heartbeat(run)) is None:
                return
            io.replace(folders.heartbeat(run), b"")
        except OSError:
            continue  # as in Heartbeat: the lease tolerates nine misses


def record_created(io: FileIO, run_folder: str, paths: tuple[str, ...], *, label: str) -> None:
    """Record paths before they are created; the label is unique in its run."""
    io.write_new(f"{run_folder}/{_CREATED}{label}.json", dump_record(CreatedFiles(paths=paths)))


def forget_created(io: FileIO, run_folder: str, *, label: str) -> None:
    """Remove the record of paths that will not be created any more."""
    io.remove(f"{run_folder}/{_CREATED}{label}.json")


def is_created_record(name: str) -> bool:
    """Whether a file in a run's folder names paths that the run was about to create."""
    return name.startswith(_CREATED) and name.endswith(".json")


def is_run_id(name: str) -> bool:
    """Whether a name can be that of a run's folder."""
    try:
        check_run(name)
    except ValueError:
        return False
    return True
