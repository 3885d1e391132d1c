"""Where tasks of a job are taken from and their results are left: a folder, so that every engine works alike.

Payloads and results are files, not closures or rows, so that a task runs alike on classic Spark, through Spark
Connect and in this process, and so that the driver can count finished work while the job runs. An attempt puts its
own name on everything it writes; nothing of an attempt that the driver did not hear from is ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from packstone.model.codec import dump_record, load_record

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a task: where it works, and the name on all that it writes."""

    io: FileIO
    staging: str
    name: str
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
        self.io.replace(f"{self.staging}/done-{unit:06d}-{size_bytes}", b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[TaskT, ResultT]):
    """What the tasks of one kind are; travels to executors by the names of its types and its function."""

    task: type[TaskT]
    result: type[ResultT]
    do: Callable[[Attempt, TaskT], ResultT]


def write_task(io: FileIO, staging: str, task: Numbered) -> None:
    """Put a payload where its task will look for it."""
    io.replace(_task_path(staging, task.number), dump_record(task))


def run_task(job: Job[TaskT, ResultT], attempt: Attempt, number: int) -> None:
    """Do one task and leave its result under the attempt's name."""
    path = _task_path(attempt.staging, number)
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
            if entry.name.startswith("done-"):
                _, unit, size_bytes = entry.name.split("-")
                units[unit] = int(size_bytes)
    except FileNotFoundError:
        return 0, 0
    return len(units), sum(units.values())


def _task_path(staging: str, number: int) -> str:
    return f"{staging}/task-{number:06d}.json"


def _result_path(staging: str, number: int, attempt: str) -> str:
    return f"{staging}/result-{number:06d}-{attempt}.json"
