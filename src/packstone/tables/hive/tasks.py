"""What one task on a Hive directory does: merge units, copy files, look into them, or prove them again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from packstone.model.files import FileEntry
from packstone.model.unit import UnitResult, UnitSpec
from packstone.rewrite.run_unit import run_unit
from packstone.storage.task_board import Attempt, Job
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
            return TaskResult(units=tuple(_run_unit(attempt, spec) for spec in task.units))
        case TaskKind.COPIES:
            return TaskResult(copies=tuple(_run_copy(attempt, spec) for spec in task.copies))
        case TaskKind.FACTS:
            facts = (read_file_facts(io, t.directory, f, codec=t.codec) for t in task.facts for f in t.files)
            return TaskResult(facts=tuple(facts))
        case TaskKind.PROOFS:
            return TaskResult(proofs=tuple(fingerprint_files(io, files) for files in task.proofs))
        case _:
            assert_never(task.kind)


def _run_unit(attempt: Attempt, spec: UnitSpec) -> UnitResult:
    result = run_unit(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
    attempt.mark_done(spec.unit, size_bytes=spec.input_bytes)
    return result


def _run_copy(attempt: Attempt, spec: CopySpec) -> CopyResult:
    result = run_copy(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
    attempt.mark_done(spec.unit, size_bytes=spec.file.size_bytes)
    return result


HIVE_JOB: Final = Job(task=Task, result=TaskResult, do=run_hive_task)
