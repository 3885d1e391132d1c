"""What one task of a compaction does: merge, sort or join files of some segments, prove it, tell what it wrote.

Data files are written straight into the folder of the new segment under their final names; nobody sees them until a
status names a segment file that names them. The name of each is recorded in the attempt's folder before it is created,
so an attempt that dies leaves only files of known names.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from packstone.errors import VerificationError
from packstone.model.file_format import FileFormat
from packstone.model.unit import UnitStatus
from packstone.rewrite.ordered.ordered_merge import merge_ordered
from packstone.rewrite.ordered.ordered_spec import OrderedMergeSpec, WrittenBlockFile
from packstone.rewrite.ordered.verify_ordered import verify_ordered
from packstone.storage.task_board import Attempt, Job, UnitInputs
from packstone.tables.deaths import DeathWatch
from packstone.tables.segments.attempts import record_created
from packstone.tables.segments.layout import data_file_name, deaths_folder
from packstone.tables.unit_failure import FAILURES, describe_failure

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeUnit:
    """One piece of a merge; units are numbered through over all groups of a run."""

    unit: int
    attempt: str  # of the compaction it belongs to
    spec: OrderedMergeSpec
    input_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """The payload of one task."""

    number: int
    table: str
    units: tuple[MergeUnit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeUnitResult:
    """What became of one unit; ``files`` have absolute paths and stand in the order of keys."""

    unit: int
    status: UnitStatus
    message: str = ""
    blamed: str = ""
    files: tuple[WrittenBlockFile, ...] = ()
    rows_in: int = 0
    rows_out: int = 0
    fingerprint: str = ""
    write_seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTaskResult:
    """What one try at a task did."""

    units: tuple[MergeUnitResult, ...] = field(default=())


def run_merge_task(attempt: Attempt, task: MergeTask) -> MergeTaskResult:
    """Do all units of a task; one that fails does not stop the others."""
    results = []
    watch = DeathWatch.begin(attempt, deaths_folder(task.table), task=task.number, units=unit_inputs(task))
    for unit in task.units:
        results.append(_guarded(attempt, task, unit, watch=watch))
        attempt.mark_done(unit.unit, size_bytes=unit.input_bytes)
    return MergeTaskResult(units=tuple(results))


def unit_inputs(task: MergeTask) -> tuple[UnitInputs, ...]:
    """The files that each unit of a task reads."""
    return tuple(_inputs_of(unit) for unit in task.units)


def _inputs_of(unit: MergeUnit) -> UnitInputs:
    return UnitInputs(number=unit.unit, files=tuple((file.path, FileFormat.PARQUET) for file in unit.spec.files))


def _guarded(attempt: Attempt, task: MergeTask, unit: MergeUnit, *, watch: DeathWatch) -> MergeUnitResult:
    try:
        watch.check(_inputs_of(unit))
        result = _merge(attempt, task, unit)
        watch.survived(_inputs_of(unit))
    except FAILURES as error:
        failure = describe_failure(error)
        return MergeUnitResult(unit=unit.unit, status=failure.status, message=failure.message, blamed=failure.blamed)
    return result


def _merge(attempt: Attempt, task: MergeTask, unit: MergeUnit) -> MergeUnitResult:
    written: list[str] = []
    attempt = attempt.as_private_as(file.path for file in unit.spec.files)
    try:
        name_file = _namer(attempt, task, unit=unit, written=written)
        result = merge_ordered(attempt.io, unit.spec, name_file=name_file)
        verified = verify_ordered(attempt.io, unit.spec, result.files)
    except VerificationError:
        raise  # the evidence stays; its names are recorded
    except Exception:
        for path in written:
            attempt.io.remove(path)
        raise
    return MergeUnitResult(
        unit=unit.unit,
        status=UnitStatus.WRITTEN,
        files=result.files,
        rows_in=result.rows_in,
        rows_out=result.rows_out,
        fingerprint=str(verified.fingerprint_after),
        write_seconds=result.read_seconds + result.merge_seconds + result.write_seconds,
        read_seconds_before=verified.seconds_before,
        read_seconds_after=verified.seconds_after,
    )


def _namer(attempt: Attempt, task: MergeTask, *, unit: MergeUnit, written: list[str]) -> Callable[[int], str]:
    """Name files, and write each name down before the file is there."""
    # A task's name for this try is random: two tries at one unit never write the same file.
    this_try = zlib.crc32(f"{attempt.staging}/{attempt.name}".encode())
    directory = unit.spec.output.directory

    def name(number: int) -> str:
        made = data_file_name(task=unit.unit, number=number, attempt=unit.attempt, attempt_try=this_try)
        path = f"{directory}/{made}"
        relative = path.removeprefix(f"{task.table}/")
        label = f"{unit.unit:06d}-{attempt.name}-{number}"
        record_created(attempt.io, task.table, unit.attempt, paths=(relative,), label=label)
        written.append(path)
        return made

    return name


SEGMENTS_MERGE_JOB: Final = Job(task=MergeTask, result=MergeTaskResult, do=run_merge_task, units=unit_inputs)
