"""What a task on a Hive directory does: merge units and copy files, inspect files, or prove merged files again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from packstone.model.files import FileEntry
from packstone.model.unit import How, StagedFile, UnitResult, UnitSpec, UnitStatus
from packstone.rewrite.kernels.registry import read_through
from packstone.rewrite.run_unit import run_unit
from packstone.runs.tasks import Attempt, Job
from packstone.tables.hive.copy_file import copy_file
from packstone.tables.hive.file_facts import read_file_facts
from packstone.tables.hive.file_verdict import FileFacts
from packstone.tables.hive.fingerprint_files import FilesToProve, Proof, fingerprint_files


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsUnit:
    """Inspect these files of one folder."""

    number: int
    directory: str
    files: tuple[FileEntry, ...]
    codec: str
    input_bytes: int = 1  # all weigh the same: footers only
    input_files: tuple[tuple[str, str], ...] = ()


def merge_or_copy(attempt: Attempt, _context: None, spec: UnitSpec) -> UnitResult[StagedFile]:
    """Merge the inputs of a unit and prove the output, or copy its one input."""
    if spec.how is not How.COPY:
        return run_unit(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
    target = f"{attempt.staging}/copy-{spec.number:05d}-{attempt.name}"
    copy_file(attempt.io, f"{spec.directory}/{spec.inputs[0].name}", target)
    return UnitResult(number=spec.number, status=UnitStatus.WRITTEN, how=How.COPY, outputs=(StagedFile(path=target),))


def read_facts(attempt: Attempt, _context: None, unit: FactsUnit) -> UnitResult[FileFacts]:
    """Inspect some files."""
    facts = (read_file_facts(attempt.io, unit.directory, file, codec=unit.codec) for file in unit.files)
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=tuple(facts))


def prove_again(attempt: Attempt, _context: None, files: FilesToProve) -> UnitResult[Proof]:
    """Fingerprint some files."""
    return UnitResult(number=files.number, status=UnitStatus.WRITTEN, outputs=(fingerprint_files(attempt.io, files),))


HIVE_JOB: Final = Job(context=type(None), unit=UnitSpec, output=StagedFile, do=merge_or_copy, read_through=read_through)
FACTS_JOB: Final = Job(context=type(None), unit=FactsUnit, output=FileFacts, do=read_facts)
PROOF_JOB: Final = Job(context=type(None), unit=FilesToProve, output=Proof, do=prove_again)
