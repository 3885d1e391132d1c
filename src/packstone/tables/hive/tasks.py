"""What one task on a Hive directory does: merge units, copy files, look into them, or prove them again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from packstone.errors import UnreadableFileError
from packstone.model.files import FileEntry
from packstone.model.unit import UnitResult, UnitSpec, UnitStatus
from packstone.rewrite.run_unit import run_unit
from packstone.storage.task_board import Attempt, Job, UnitInputs
from packstone.tables.deaths import DeathWatch
from packstone.tables.hive.copy_file import CopyResult, CopySpec, run_copy
from packstone.tables.hive.file_facts import read_file_facts
from packstone.tables.hive.file_verdict import FileFacts
from packstone.tables.hive.fingerprint_files import FilesToProve, Proof, fingerprint_files


class TaskKind(StrEnum):
    """The four things a task can do."""

    UNITS = "units"
    COPIES = "copies"
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
    deaths: str = ""  # where inputs are noted that ended a process
    units: tuple[UnitSpec, ...] = ()
    copies: tuple[CopySpec, ...] = ()
    facts: tuple[FactsTask, ...] = ()
    proofs: tuple[FilesToProve, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What one attempt at a task found."""

    units: tuple[UnitResult, ...] = ()
    copies: tuple[CopyResult, ...] = ()
    facts: tuple[FileFacts, ...] = ()
    proofs: tuple[Proof, ...] = ()


def run_hive_task(attempt: Attempt, task: Task) -> TaskResult:
    """Do what the task's kind says."""
    io = attempt.io
    match task.kind:
        case TaskKind.UNITS:
            watch = DeathWatch.begin(attempt, task.deaths, task=task.number, units=unit_inputs(task))
            return TaskResult(units=tuple(_run_unit(attempt, spec, watch) for spec in task.units))
        case TaskKind.COPIES:
            return TaskResult(copies=tuple(_run_copy(attempt, spec) for spec in task.copies))
        case TaskKind.FACTS:
            facts = (read_file_facts(io, t.directory, f, codec=t.codec) for t in task.facts for f in t.files)
            return TaskResult(facts=tuple(facts))
        case TaskKind.PROOFS:
            return TaskResult(proofs=tuple(fingerprint_files(io, files) for files in task.proofs))
        case _:
            assert_never(task.kind)


def unit_inputs(task: Task) -> tuple[UnitInputs, ...]:
    """The files that each unit of a task reads."""
    return tuple(_inputs_of(spec) for spec in task.units)


def _inputs_of(spec: UnitSpec) -> UnitInputs:
    files = tuple((f"{spec.directory}/{file.name}", spec.file_format) for file in spec.inputs)
    return UnitInputs(number=spec.unit, files=files)


def _run_unit(attempt: Attempt, spec: UnitSpec, watch: DeathWatch) -> UnitResult:
    try:
        watch.check(_inputs_of(spec))
        result = run_unit(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
        watch.survived(_inputs_of(spec))
    except UnreadableFileError as error:
        result = UnitResult(
            unit=spec.unit,
            attempt=attempt.name,
            status=UnitStatus.UNREADABLE,
            message=error.message,
            blamed=str(error.facts.get("file", "")),
        )
    attempt.mark_done(spec.unit, size_bytes=spec.input_bytes)
    return result


def _run_copy(attempt: Attempt, spec: CopySpec) -> CopyResult:
    result = run_copy(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
    attempt.mark_done(spec.unit, size_bytes=spec.file.size_bytes)
    return result


HIVE_JOB: Final = Job(task=Task, result=TaskResult, do=run_hive_task, units=unit_inputs)
