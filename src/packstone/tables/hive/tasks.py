"""What one task does: take its payload by number from the staging folder, leave the results there.

Payloads and results are files, not closures or rows, so that a task runs alike on classic Spark, through Spark
Connect and in this process, and so that the driver can count finished work while the job runs. An attempt puts its
own name on everything it writes; nothing of an attempt that the driver did not hear from is ever used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from packstone.model.codec import dump_record, load_record
from packstone.model.files import FileEntry
from packstone.model.unit import UnitResult, UnitSpec
from packstone.rewrite.run_unit import run_unit
from packstone.tables.hive.file_facts import FileFacts, read_file_facts
from packstone.tables.hive.fingerprint_files import FilesToProve, Proof, fingerprint_files

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class TaskKind(StrEnum):
    """The three things a task can do."""

    UNITS = "units"
    FACTS = "facts"
    PROOFS = "proofs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsTask:
    """Look into these files of one folder."""

    directory: str
    files: tuple[FileEntry, ...]
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The payload of one task; only the field of its kind is filled."""

    kind: TaskKind
    number: int
    units: tuple[UnitSpec, ...] = ()
    facts: tuple[FactsTask, ...] = ()
    proofs: tuple[FilesToProve, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What one attempt at a task found."""

    units: tuple[UnitResult, ...] = ()
    facts: tuple[FileFacts, ...] = ()
    proofs: tuple[Proof, ...] = ()


def write_task(io: FileIO, staging: str, task: Task) -> None:
    """Put a payload where its task will look for it."""
    io.replace(f"{staging}/task-{task.number:06d}.json", dump_record(task))


def read_result(io: FileIO, staging: str, *, number: int, attempt: str) -> TaskResult:
    """Read what the one successful attempt left."""
    path = f"{staging}/result-{number:06d}-{attempt}.json"
    return load_record(TaskResult, io.read_bytes(path), path=path)


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


def run_task(io: FileIO, staging: str, *, number: int, attempt: str) -> None:
    """Do one task and leave its result under the attempt's name."""
    path = f"{staging}/task-{number:06d}.json"
    task = load_record(Task, io.read_bytes(path), path=path)
    io.replace(
        f"{staging}/result-{number:06d}-{attempt}.json", dump_record(_result(io, staging, task, attempt=attempt))
    )


def _result(io: FileIO, staging: str, task: Task, *, attempt: str) -> TaskResult:
    match task.kind:
        case TaskKind.UNITS:
            return TaskResult(units=tuple(_run_units(io, staging, task, attempt=attempt)))
        case TaskKind.FACTS:
            facts = (read_file_facts(io, t.directory, f, codec=t.codec) for t in task.facts for f in t.files)
            return TaskResult(facts=tuple(facts))
        case TaskKind.PROOFS:
            return TaskResult(proofs=tuple(fingerprint_files(io, files) for files in task.proofs))
        case _:
            assert_never(task.kind)


def _run_units(io: FileIO, staging: str, task: Task, *, attempt: str) -> list[UnitResult]:
    results = []
    for spec in task.units:
        results.append(run_unit(io, spec, staging=staging, attempt=attempt))
        io.replace(f"{staging}/done-{spec.unit:06d}-{spec.input_bytes}", b"")
    return results
