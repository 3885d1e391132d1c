"""Where tasks of a job are taken from and their results are left: a folder, so that every engine works alike.

Payloads and results are files, not closures or rows, so that a task runs alike on classic Spark, through Spark
Connect and in this process, and so that the driver can count finished work while the job runs. An attempt puts its
own name on everything it writes; nothing of an attempt that the driver did not hear from is ever used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from packstone.errors import CorruptionError
from packstone.model.codec import dump_record, load_record
from packstone.storage.fileio import Kind
from packstone.storage.ownership import ProcessIdentity

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class Numbered(Protocol):
    """A payload; its number is its place in the job."""

    @property
    def number(self) -> int:
        """Which task of the job this is."""
        ...


TaskT = TypeVar("TaskT", bound=Numbered)
ResultT = TypeVar("ResultT")


_TASK: Final = "task-"
_RESULT: Final = "result-"
_BEGUN: Final = "begun-"
_DONE: Final = "done-"
_BEGUN_NAME: Final = re.compile(r"begun-([0-9]{6,9})-\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitInputs:
    """The files that one unit of a task reads, each with the name of its format."""

    number: int
    files: tuple[tuple[str, str], ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files alone."""
        return tuple(path for path, _ in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """Which process began an attempt at a task."""

    process: ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a task: where it works, and the name on all that it writes."""

    io: FileIO
    staging: str
    name: str
    number: int = 0  # how many attempts at this task came before
    has_idle_core: bool = False  # nobody else will use the machine's other cores meanwhile

    def as_private_as(self, paths: Iterable[str]) -> Attempt:
        """The same try, whose new data files are never more open than any of these files."""
        if not self.io.capabilities.has_folders:
            return self  # objects have no modes
        found = (self.io.stat(path) for path in paths)
        modes = [entry.permissions.mode for entry in found if entry is not None]
        return replace(self, io=self.io.limited(reduce(and_, modes, 0o777)))

    def mark_done(self, unit: int, *, size_bytes: int) -> None:
        """Let the driver count a finished unit before its task ends."""
        self.io.replace(f"{self.staging}/{_DONE}{unit:06d}-{size_bytes}", b"")


def _no_units(_task: object) -> tuple[UnitInputs, ...]:
    """Of a job whose tasks are not watched."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[TaskT, ResultT]):
    """What the tasks of one kind are; travels to executors by the names of its types and its function."""

    task: type[TaskT]
    result: type[ResultT]
    do: Callable[[Attempt, TaskT], ResultT]
    units: Callable[[TaskT], tuple[UnitInputs, ...]] = _no_units  # in the order in which the task does them


def write_task(io: FileIO, staging: str, task: Numbered) -> None:
    """Put a payload where its task will look for it."""
    io.replace(_task_path(staging, task.number), dump_record(task))


def run_task(job: Job[TaskT, ResultT], attempt: Attempt, number: int) -> None:
    """Do one task and leave its result under the attempt's name."""
    path = _task_path(attempt.staging, number)
    begun = dump_record(_Begun(process=ProcessIdentity.mine()))
    attempt.io.replace(begun_path(attempt, number), begun)
    result = job.do(attempt, load_record(job.task, attempt.io.read_bytes(path), path=path))
    attempt.io.replace(_result_path(attempt.staging, number, attempt.name), dump_record(result))


def read_result(io: FileIO, staging: str, *, kind: type[ResultT], number: int, attempt: str) -> ResultT:
    """Read what the one successful attempt left."""
    path = _result_path(staging, number, attempt)
    return load_record(kind, io.read_bytes(path), path=path)


def count_done_bytes(io: FileIO, staging: str) -> tuple[int, int]:
    """Count finished units and their input bytes, by the names of the markers they leave."""
    units: dict[str, int] = {}
    try:
        for entry in io.list_dir(staging):
            if entry.name.startswith(_DONE):
                _, unit, size_bytes = entry.name.split("-")
                units[unit] = int(size_bytes)
    except FileNotFoundError:
        return 0, 0
    return len(units), sum(units.values())


def begun_path(attempt: Attempt, task: int) -> str:
    """The marker that an attempt leaves when it begins."""
    return f"{attempt.staging}/{_BEGUN}{task:06d}-{attempt.name}"


def find_stop(attempt: Attempt, task: int, units: Iterable[UnitInputs]) -> tuple[int | None, int]:
    """The unit in which earlier attempts at this task stopped without a result, and how many there were."""
    names = [entry.name for entry in attempt.io.list_dir(attempt.staging)]
    mine = f"{_BEGUN}{task:06d}-{attempt.name}"
    others = [name for name in names if name.startswith(f"{_BEGUN}{task:06d}-") and name != mine]
    results = set(names)
    stopped = sum(1 for name in others if _result_of(name) not in results)
    return (_first_undone(names, units) if stopped else None), stopped


def find_dead_units(io: FileIO, staging: str, job: Job[Any, Any]) -> Iterator[UnitInputs]:
    """Yield the units, anywhere below a folder, in which a process of this host died; each only once."""
    try:
        entries = list(io.list_dir(staging))
    except (FileNotFoundError, NotADirectoryError):
        return
    names = [entry.name for entry in entries]
    for name in names:
        begun = _BEGUN_NAME.fullmatch(name)
        if begun is None or _result_of(name) in names or not _has_died(io, f"{staging}/{name}"):
            continue
        path = _task_path(staging, int(begun[1]))
        try:
            task = load_record(job.task, io.read_bytes(path), path=path)
        except (FileNotFoundError, CorruptionError):
            continue
        units = job.units(task)
        found = _first_undone(names, units)
        yield from (unit for unit in units if unit.number == found)
        io.remove(f"{staging}/{name}")
    for entry in entries:
        if entry.kind is Kind.DIRECTORY:
            yield from find_dead_units(io, f"{staging}/{entry.name}", job)


def _has_died(io: FileIO, path: str) -> bool:
    try:
        process = load_record(_Begun, io.read_bytes(path), path=path).process
    except (FileNotFoundError, CorruptionError):
        return False
    return process.is_on_this_host() and not process.is_running()


def _first_undone(names: Iterable[str], units: Iterable[UnitInputs]) -> int | None:
    done = {name.split("-")[1] for name in names if name.startswith(_DONE)}
    return next((unit.number for unit in units if f"{unit.number:06d}" not in done), None)


def _result_of(begun: str) -> str:
    return f"{_RESULT}{begun.removeprefix(_BEGUN)}.json"


def _task_path(staging: str, number: int) -> str:
    return f"{staging}/{_TASK}{number:06d}.json"


def _result_path(staging: str, number: int, attempt: str) -> str:
    return f"{staging}/{_RESULT}{number:06d}-{attempt}.json"
