"""Tasks: units of work packed together, run one by one, with payloads and results as files, on every engine alike.

Payloads and results are files, not closures or rows, so that a task runs alike on classic Spark, through Spark
Connect and in this process, and so that the driver can count finished work while the job runs. An attempt puts its
own name on everything it writes; only the results of attempts that the engine reports are used. If there is no such
report because the job was interrupted or its driver was killed, the results of single units are used instead.

::

    task-000001.json               the payload: units, and the context that they share
    begun-000001-<attempt>.json    the process that began an attempt
    done-000007-<bytes>            unit 7 is done: its result; the bytes are for the progress bar
    result-000001-<attempt>.json   a result for each unit

A failure of one unit is its result, not an exception: one broken file must not end a job that merges ten thousand
others.

None of these files is synced. A killed process leaves them whole; after a power cut they may be empty, and then the
units are merged again.
"""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from packstone.errors import (
    CorruptionError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.codec import dump_record, kind_of, load_record
from packstone.model.maintenance import ProvedUnit
from packstone.model.unit import OutputT, UnitResult, UnitStatus
from packstone.model.work import Unit, UnitT
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.fileio import EntryKind, list_entries

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_TASK_BYTES: Final = 64 << 20  # about a second of work
_TASK_UNITS: Final = 64
_LEAST_TASK_BYTES: Final = 1 << 20  # an empty Spark task costs 40 ms
_FILE_BYTES: Final = 64 << 10  # a tiny file takes about as long as this many bytes of a big one
_TASK: Final = "task-"
_RESULT: Final = "result-"
_BEGUN: Final = "begun-"
_DONE: Final = "done-"
_STAGING_LEVELS: Final = 3  # a run, its waves, and the stages of a wave; anything deeper is not ours
_DONE_NAME: Final = re.compile(r"done-[0-9]{6,9}-[0-9]+")
_TASK_NAME: Final = re.compile(r"task-([0-9]{6,9})\.json")
_BEGUN_NAME: Final = re.compile(r"begun-([0-9]{6,9})-\w+\.json")


ContextT = TypeVar("ContextT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a task: its store and folder, and the name on everything that it writes."""

    io: FileIO
    staging: str
    name: str
    number: int = 0  # the number of earlier attempts at this task
    has_idle_core: bool = False  # no other task uses the machine's other cores at the same time

    def as_private_as(self, paths: Iterable[str]) -> Attempt:
        """The same attempt, whose new data files are never more open than any of these files."""
        if not self.io.capabilities.has_folders:
            return self  # objects have no modes
        found = (self.io.stat(path) for path in paths)
        modes = [entry.permissions.mode for entry in found if entry is not None]
        return replace(self, io=self.io.limited(reduce(and_, modes, 0o777)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[ContextT, UnitT]):
    """The payload of one task: some units, their shared context, and the folder of death notes ("": none)."""

    number: int
    context: ContextT
    units: tuple[UnitT, ...]
    deaths: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(Generic[OutputT]):
    """The results of one attempt at a task, unit by unit."""

    units: tuple[UnitResult[OutputT], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(Generic[ContextT, UnitT, OutputT]):
    """The functions that take over units that a killed run had finished; see runs/reuse.py."""

    # Move the outputs of a FinishedUnit to names of this attempt, and prove them.
    do: Callable[[Attempt, ContextT, Any], UnitResult[OutputT]]
    # What must be equal for a unit to be reused: context and unit without ids and names.
    identity: Callable[[ContextT, UnitT], tuple[ContextT, UnitT]]
    output_path: Callable[[UnitT, OutputT], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[ContextT, UnitT, OutputT]):
    """The types and functions of one kind of unit; sent to executors as the names of these types and functions."""

    context: type[ContextT]
    unit: type[UnitT]
    output: type[OutputT]
    do: Callable[[Attempt, ContextT, UnitT], UnitResult[OutputT]]
    read_through: Callable[[FileIO, str, str], None] | None = None  # decode one input (path, format), as a test
    # Prove published outputs again, against the inputs if they still exist; `verify` runs it.
    prove: Callable[[Attempt, ContextT, ProvedUnit[UnitT, OutputT]], UnitResult[OutputT]] | None = None
    reuse: Reuse[ContextT, UnitT, OutputT] | None = None
    load_format: Callable[[str], object] | None = None  # import the code for a format of `input_files`


def prove_job(job: Job[ContextT, UnitT, OutputT]) -> Job[ContextT, ProvedUnit[UnitT, OutputT], OutputT]:
    """The job that proves again what a job published."""
    assert job.prove is not None  # a family without it offers nothing to verify
    kind = kind_of(ProvedUnit, job.unit, job.output)
    return Job(context=job.context, unit=kind, output=job.output, do=job.prove)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The process that began an attempt at a task."""

    process: ProcessIdentity


class UnitGuard(Protocol):
    """Checks a unit before it is done, and is notified afterwards; see ``deaths``."""

    def check(self, unit: Unit) -> None:
        """Raise a PackstoneError if the unit must not be done."""
        ...

    def survived(self, unit: Unit) -> None:
        """Note that the unit was done."""
        ...


def pack_units(
    units: Sequence[UnitT],
    *,
    context: ContextT,
    parallelism: int,
    parallel: int | None = None,
    deaths: str = "",
) -> list[Task[ContextT, UnitT]]:
    """Pack units into tasks of about equal work: one for each that can run at once, or a multiple of that.

    ``parallel`` is the number of tasks, where the caller limits how many run at once. If the parallelism is not known
    (1), tasks are filled one after another. Tiny units share a task.
    """
    biggest_first = sorted(units, key=lambda unit: (-_estimate_work(unit), unit.number))
    if parallel is None and parallelism > 1:
        work = sum(map(_estimate_work, units))
        least = max(-(-work // _TASK_BYTES), -(-len(units) // _TASK_UNITS))
        whole = -(-least // parallelism) * parallelism  # so that no core is idle at the end
        parallel = min(whole, max(least, work // _LEAST_TASK_BYTES, 1))
    packs = _deal(biggest_first, parallel) if parallel else _fill(biggest_first)
    return [Task(number=number, context=context, units=tuple(pack), deaths=deaths) for number, pack in enumerate(packs)]


def _estimate_work(unit: Unit) -> int:
    return unit.input_bytes + len(unit.input_files) * _FILE_BYTES


def _fill(units: list[UnitT]) -> list[list[UnitT]]:
    packs: list[list[UnitT]] = []
    room = 0
    for unit in units:
        if not packs or room < _estimate_work(unit) or len(packs[-1]) >= _TASK_UNITS:
            packs.append([])
            room = _TASK_BYTES
        packs[-1].append(unit)
        room -= _estimate_work(unit)
    return packs


def _deal(units: list[UnitT], tasks: int) -> list[list[UnitT]]:
    heap: list[tuple[int, int, list[UnitT]]] = [(0, at, []) for at in range(min(tasks, len(units)))]
    for unit in units:
        work, at, pack = heapq.heappop(heap)
        pack.append(unit)
        heapq.heappush(heap, (work + _estimate_work(unit), at, pack))
    return [pack for _, _, pack in sorted(heap, key=lambda item: item[1])]


def write_task(io: FileIO, staging: str, task: Task[Any, Any]) -> None:
    """Write the payload of a task to the staging folder."""
    io.replace(_task_path(staging, task.number), dump_record(task), durable=False)


def begin_task(job: Job[ContextT, UnitT, OutputT], attempt: Attempt, number: int) -> Task[ContextT, UnitT]:
    """Write the marker of an attempt and read its payload."""
    begun = dump_record(Begun(process=ProcessIdentity.mine()))
    attempt.io.replace(begun_path(attempt, number), begun, durable=False)
    return _read_task(attempt.io, attempt.staging, job, number=number)


def run_units(
    job: Job[ContextT, UnitT, OutputT],
    attempt: Attempt,
    task: Task[ContextT, UnitT],
    *,
    guard: UnitGuard,
    on_unit: Callable[[Unit], None],
) -> None:
    """Run all units of a task, even if some fail, and write the results under the attempt's name."""
    results = []
    for unit in task.units:
        results.append(_run_unit(job, attempt, task.context, unit=unit, guard=guard))
        marker = f"{attempt.staging}/{_DONE}{unit.number:06d}-{unit.input_bytes}"
        attempt.io.replace(marker, dump_record(results[-1]), durable=False)
        on_unit(unit)
    path = _result_path(attempt.staging, task.number, attempt.name)
    attempt.io.replace(path, dump_record(TaskResult(units=tuple(results))), durable=False)


def _run_unit(
    job: Job[ContextT, UnitT, OutputT], attempt: Attempt, context: ContextT, *, unit: UnitT, guard: UnitGuard
) -> UnitResult[OutputT]:
    try:
        guard.check(unit)
        result = job.do(attempt, context, unit)
        guard.survived(unit)
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        return describe_failure(error, number=unit.number)
    return result


def describe_failure(error: Exception, *, number: int) -> UnitResult[Any]:
    """The result of a unit that failed with an error."""
    status, blamed = UnitStatus.FAILED, ""
    match error:
        case VerificationError():
            status, message = UnitStatus.MISMATCH, error.message
        case CorruptionError():
            status, message, blamed = UnitStatus.UNREADABLE, error.message, str(error.facts.get("file", ""))
        case RefusedError():
            status, message = UnitStatus.UNFAITHFUL, error.message
        case PackstoneError():
            message = error.message
        case OSError():
            message = storage_sentence(error)
        case _ if type(error).__module__.startswith("pyarrow"):  # which a driver need not import
            message = f"Arrow failed: {error}"
        case _:
            message = f"The unit failed: {type(error).__name__} {error}"
    return UnitResult(number=number, status=status, message=message, blamed=blamed)


def check_done(result: UnitResult[Any]) -> None:
    """Raise the error of a failed unit, for callers that cannot continue without it."""
    match result.status:
        case UnitStatus.WRITTEN:
            return
        case UnitStatus.MISMATCH:
            raise VerificationError(result.message)
        case UnitStatus.UNREADABLE:
            raise CorruptionError(result.message, file=result.blamed)
        case UnitStatus.UNFAITHFUL:
            raise RefusedError(result.message)
        case _:
            raise UnavailableError(result.message)


def read_result(
    io: FileIO, staging: str, *, job: Job[Any, Any, OutputT], number: int, attempt: str
) -> tuple[UnitResult[OutputT], ...]:
    """Read the results of the one successful attempt."""
    path = _result_path(staging, number, attempt)
    kind = kind_of(TaskResult, job.output)
    loaded: TaskResult[OutputT] = load_record(kind, io.read_bytes(path), path=path)
    return loaded.units


def read_finished(io: FileIO, staging: str, *, job: Job[Any, Any, OutputT]) -> Iterator[UnitResult[OutputT]]:
    """Yield the results that single units left in a folder; skip what is damaged or of another format."""
    kind = kind_of(UnitResult, job.output)
    for name in sorted(entry.name for entry in list_entries(io, staging) if _DONE_NAME.fullmatch(entry.name)):
        path = f"{staging}/{name}"
        with contextlib.suppress(CorruptionError, RefusedError, FileNotFoundError):
            result: UnitResult[OutputT] = load_record(kind, io.read_bytes(path), path=path)
            if result.number == int(name.split("-")[1]):
                yield result


def list_tasks(io: FileIO, staging: str, job: Job[ContextT, UnitT, Any]) -> Iterator[Task[ContextT, UnitT]]:
    """Yield the payloads in a folder; skip what is damaged or of another format."""
    names = (_TASK_NAME.fullmatch(entry.name) for entry in list_entries(io, staging))
    for number in sorted(int(name[1]) for name in names if name):
        with contextlib.suppress(CorruptionError, RefusedError, FileNotFoundError):
            yield _read_task(io, staging, job, number=number)


def has_finished_units(io: FileIO, staging: str, *, levels: int = _STAGING_LEVELS) -> bool:
    """Whether a unit left its result in a folder or below it."""
    entries = list_entries(io, staging)
    if any(_DONE_NAME.fullmatch(entry.name) for entry in entries):
        return True
    folders = (f"{staging}/{entry.name}" for entry in entries if entry.kind is EntryKind.DIRECTORY and levels)
    return any(has_finished_units(io, folder, levels=levels - 1) for folder in folders)


def count_done_bytes(io: FileIO, staging: str) -> tuple[int, int]:
    """Count finished units and their input bytes, by the names of the markers they leave."""
    units: dict[str, int] = {}
    for entry in list_entries(io, staging):
        if entry.name.startswith(_DONE):
            _, unit, size_bytes = entry.name.split("-")
            units[unit] = int(size_bytes)
    return len(units), sum(units.values())


def find_stop(attempt: Attempt, task: Task[Any, Any]) -> tuple[int | None, int]:
    """The unit in which earlier attempts at this task stopped without a result, and the number of these attempts."""
    names = [entry.name for entry in attempt.io.list_dir(attempt.staging)]
    mine = f"{_BEGUN}{task.number:06d}-{attempt.name}.json"
    others = [name for name in names if name.startswith(f"{_BEGUN}{task.number:06d}-") and name != mine]
    results = set(names)
    stopped = sum(1 for name in others if _result_of(name) not in results)
    return (_first_undone(names, task.units) if stopped else None), stopped


def find_dead_units(
    io: FileIO, staging: str, job: Job[Any, UnitT, Any], *, levels: int = _STAGING_LEVELS
) -> Iterator[tuple[UnitT, int]]:
    """Yield the units, in a folder or below it, in which a process of this host died, with its start; each once."""
    entries = list_entries(io, staging)
    names = [entry.name for entry in entries]
    for name, mtime_ns in [(entry.name, entry.mtime_ns) for entry in entries]:
        begun = _BEGUN_NAME.fullmatch(name)
        if begun is None or _result_of(name) in names or not _has_died(io, f"{staging}/{name}"):
            continue
        try:
            task = _read_task(io, staging, job, number=int(begun[1]))
        except (FileNotFoundError, CorruptionError):
            continue
        found = _first_undone(names, task.units)
        yield from ((unit, mtime_ns) for unit in task.units if unit.number == found)
        io.remove(f"{staging}/{name}")
    for entry in entries:
        if entry.kind is EntryKind.DIRECTORY and levels:
            yield from find_dead_units(io, f"{staging}/{entry.name}", job, levels=levels - 1)


def begun_path(attempt: Attempt, task: int) -> str:
    """The marker that an attempt leaves when it begins."""
    return f"{attempt.staging}/{_BEGUN}{task:06d}-{attempt.name}.json"


def _has_died(io: FileIO, path: str) -> bool:
    try:
        process = load_record(Begun, io.read_bytes(path), path=path).process
    except (FileNotFoundError, CorruptionError):
        return False
    return process.is_on_this_host() and not process.is_running()


def _first_undone(names: Iterable[str], units: Iterable[Unit]) -> int | None:
    done = {name.split("-")[1] for name in names if name.startswith(_DONE)}
    return next((unit.number for unit in units if f"{unit.number:06d}" not in done), None)


def _read_task(io: FileIO, staging: str, job: Job[ContextT, UnitT, Any], *, number: int) -> Task[ContextT, UnitT]:
    path = _task_path(staging, number)
    kind = kind_of(Task, job.context, job.unit)
    task: Task[ContextT, UnitT] = load_record(kind, io.read_bytes(path), path=path)
    return task


def _result_of(begun: str) -> str:
    return f"{_RESULT}{begun.removeprefix(_BEGUN)}"


def _task_path(staging: str, number: int) -> str:
    return f"{staging}/{_TASK}{number:06d}.json"


def _result_path(staging: str, number: int, attempt: str) -> str:
    return f"{staging}/{_RESULT}{number:06d}-{attempt}.json"


class Progress(Protocol):
    """Receives how much of the work is done; the command line draws it."""

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Receive the current state; called often, also from another thread."""
        ...

    def close(self) -> None:
        """Note that the work has ended."""
        ...


class NoProgress:
    """Ignores all progress; the default for callers of the library."""

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
