"""What one task on a Paimon table does: merge or concatenate files of a bucket, prove it, describe the outputs.

Data files are written straight into their bucket's folder under their final names; nobody sees them until a manifest
names them. The name of each is recorded before it is created, so that a run that dies leaves only files of known names.

A file that is only to get a new level is looked into first, unless a compaction wrote it: some writers record no
deletes where there are some (pypaimon 2.1 always says 0), and a reader that trusts the record would bring the deleted
rows back. Such a file is rewritten if it goes to the top level, else its record is put right. A file whose keys are not
what its record says leaves its bucket alone: everything that was planned rests on the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, RefusedError, VerificationError
from packstone.model.unit import How, UnitStatus
from packstone.rewrite.data_files.real_keys import with_real_keys
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge.merge_spec import (
    KIND_COLUMN,
    AppendSpec,
    MergeResult,
    MergeSpec,
    WrittenFile,
    unpack_schema,
)
from packstone.rewrite.merge.run_merge import run_append
from packstone.rewrite.merged_view.check_facts import to_plain
from packstone.rewrite.merged_view.merge_and_verify import merge_and_verify
from packstone.rewrite.merged_view.verify_append import verify_append
from packstone.rewrite.merged_view.verify_merge import Verified
from packstone.storage.task_board import Attempt, Job, UnitInputs
from packstone.tables.deaths import DeathWatch
from packstone.tables.paimon.binary_row import encode_row
from packstone.tables.paimon.data_file_meta import DataFileMeta
from packstone.tables.paimon.leftovers import record_created
from packstone.tables.paimon.paths import DataFileNames
from packstone.tables.paimon.table_schema import TableSchema
from packstone.tables.paimon.written_meta import MetaWriter
from packstone.tables.unit_failure import FAILURES, describe_failure

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_ODD: Final = 1  # row kinds that retract are odd


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonUnit:
    """What should happen to some files of one bucket; either ``merge`` or ``append`` is there."""

    unit: int
    how: How
    level: int
    input_bytes: int
    merge: MergeSpec | None = None
    append: AppendSpec | None = None
    first_sequence: int = 0  # of an append table's rows
    min_key: bytes = b""  # what the record of a file says that is to be upgraded
    max_key: bytes = b""
    file_format: str = "parquet"
    compression: str = "zstd"
    to_top: bool = False
    minds_retracts: bool = False  # a delete marker among its inputs forbids to merge them alone

    @property
    def directory(self) -> str:
        """Where its outputs go."""
        spec = self.merge or self.append
        assert spec is not None  # noqa: S101 - one of the two is always there
        return spec.output.directory

    @property
    def inputs(self) -> UnitInputs:
        """The files that it reads."""
        files = self.merge.files if self.merge is not None else self.append.inputs if self.append is not None else ()
        return UnitInputs(number=self.unit, files=tuple((file.path, file.file_format) for file in files))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonTask:
    """The payload of one task."""

    number: int
    run_folder: str  # where the names of files are written down
    deaths: str  # where inputs are noted that ended a process
    schema: TableSchema
    names: DataFileNames
    created_ms: int
    units: tuple[PaimonUnit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonUnitResult:
    """What became of one unit."""

    unit: int
    status: UnitStatus
    message: str = ""
    blamed: str = ""
    how: How = How.REWRITE
    files: tuple[DataFileMeta, ...] = ()
    delete_rows: int | None = None  # of a file that is merely upgraded: what it really holds
    rows_in: int = 0
    rows_out: int = 0
    fingerprint: str = ""
    write_seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonTaskResult:
    """What one attempt at a task did."""

    units: tuple[PaimonUnitResult, ...] = field(default=())


def run_paimon_task(attempt: Attempt, task: PaimonTask) -> PaimonTaskResult:
    """Do all units of a task; one that fails does not stop the others."""
    results = []
    watch = DeathWatch.begin(attempt, task.deaths, task=task.number, units=unit_inputs(task))
    for unit in task.units:
        results.append(_guarded(attempt, task, unit, watch=watch))
        attempt.mark_done(unit.unit, size_bytes=unit.input_bytes)
    return PaimonTaskResult(units=tuple(results))


def unit_inputs(task: PaimonTask) -> tuple[UnitInputs, ...]:
    """The files that each unit of a task reads."""
    return tuple(unit.inputs for unit in task.units)


def _guarded(attempt: Attempt, task: PaimonTask, unit: PaimonUnit, *, watch: DeathWatch) -> PaimonUnitResult:
    try:
        watch.check(unit.inputs)
        result = _run_unit(attempt, task, unit)
        watch.survived(unit.inputs)
    except FAILURES as error:
        failure = describe_failure(error)
        return PaimonUnitResult(unit=unit.unit, status=failure.status, message=failure.message, blamed=failure.blamed)
    return result


def _run_unit(attempt: Attempt, task: PaimonTask, unit: PaimonUnit) -> PaimonUnitResult:
    unit = _with_real_keys(attempt.io, unit)
    if unit.how is How.UPGRADE and unit.merge is not None:
        delete_rows = _inspect(attempt.io, task.schema, unit)
        if delete_rows == 0 or not unit.to_top:
            return PaimonUnitResult(unit=unit.unit, status=UnitStatus.WRITTEN, how=How.UPGRADE, delete_rows=delete_rows)
    if unit.minds_retracts:
        _check_no_retracts(attempt.io, unit)
    return _rewrite(attempt, task, unit)


def _check_no_retracts(io: FileIO, unit: PaimonUnit) -> None:
    """Refuse to take something back from a part of the runs: what it is taken from may lie in the others."""
    assert unit.merge is not None  # noqa: S101 - only merge trees have row kinds
    for file in unit.merge.files:
        schema = pa.schema([pa.field(KIND_COLUMN, pa.int8())])
        for batch in read_rows(io, file, schema):
            if np.count_nonzero(batch.column(0).to_numpy(zero_copy_only=False) & _ODD):
                raise RefusedError(
                    f"{file.path} holds deletes, and an aggregation of only some runs could apply them to nothing; "
                    "use --strategy full."
                )


def _rewrite(attempt: Attempt, task: PaimonTask, unit: PaimonUnit) -> PaimonUnitResult:
    written: list[str] = []
    attempt = attempt.as_private_as(unit.inputs.paths)
    try:
        result, verified = _merge(attempt, unit, name_file=_namer(attempt, task, unit=unit, written=written))
    except VerificationError:
        raise  # the evidence stays; its names are recorded
    except Exception:
        for path in written:
            attempt.io.remove(path)
        raise
    return PaimonUnitResult(
        unit=unit.unit,
        status=UnitStatus.WRITTEN,
        files=_describe(task, unit, result.files),
        rows_in=result.rows_in,
        rows_out=result.rows_out,
        fingerprint=str(verified.fingerprint_after),
        write_seconds=result.read_seconds + result.merge_seconds + result.write_seconds,
        read_seconds_before=verified.seconds_before,
        read_seconds_after=verified.seconds_after,
    )


def _merge(attempt: Attempt, unit: PaimonUnit, *, name_file: Callable[[int], str]) -> tuple[MergeResult, Verified]:
    io = attempt.io
    if unit.merge is not None:
        return merge_and_verify(io, unit.merge, name_file=name_file, has_idle_core=attempt.has_idle_core)
    assert unit.append is not None  # noqa: S101 - one of the two is always there
    result = run_append(io, unit.append, name_file=name_file)
    return result, verify_append(io, unit.append, result.files)


def _namer(attempt: Attempt, task: PaimonTask, *, unit: PaimonUnit, written: list[str]) -> Callable[[int], str]:
    """Name files, and write each name down before the file is there."""
    # As unique as the attempt's name, which is random.
    own = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{attempt.staging}/{unit.unit}/{attempt.name}"))

    def name(number: int) -> str:
        made = task.names.name(number, uuid=own, file_format=unit.file_format, compression=unit.compression)
        path = f"{unit.directory}/{made}"
        label = f"{unit.unit:06d}-{attempt.name}-{number}"
        record_created(attempt.io, task.run_folder, (path,), label=label)
        written.append(path)
        return made

    return name


def _describe(task: PaimonTask, unit: PaimonUnit, files: tuple[WrittenFile, ...]) -> tuple[DataFileMeta, ...]:
    writer = MetaWriter(schema=task.schema, level=unit.level, created_ms=task.created_ms)
    if unit.append is None:
        return tuple(writer.describe(file) for file in files)
    described, sequence = [], unit.first_sequence
    for file in files:
        described.append(writer.describe(file, first_sequence=sequence))
        sequence += file.rows
    return tuple(described)


def _inspect(io: FileIO, schema: TableSchema, unit: PaimonUnit) -> int:
    """Count the rows of a file that delete something, and check its first and last key, whatever its record says."""
    assert unit.merge is not None  # noqa: S101 - an upgrade is one of a merge tree
    (file,) = unit.merge.files
    names = [*unit.merge.key_columns, KIND_COLUMN]
    wanted = pa.schema([unpack_schema(unit.merge.arrow_schema).field(name) for name in names])
    retracts, keys = 0, []
    for batch in read_rows(io, file, wanted):
        retracts += int(np.count_nonzero(batch.column(KIND_COLUMN).to_numpy(zero_copy_only=False) & _ODD))
        keys += [_key(batch, 0, schema), _key(batch, batch.num_rows - 1, schema)]
    if (keys[0], keys[-1]) != (unit.min_key, unit.max_key):
        raise CorruptionError(
            f"{file.path} does not hold the keys that its manifest records, so its bucket is left alone.",
            file=file.path,
        )
    return retracts


def _key(batch: pa.RecordBatch, row: int, schema: TableSchema) -> bytes:
    values = [to_plain(batch.column(field.name)[row]) for field in schema.key_fields]
    return encode_row(values, schema.key_types)


def _with_real_keys(io: FileIO, unit: PaimonUnit) -> PaimonUnit:
    """Let key columns come from the value columns they mirror in files that leave them out (thin mode)."""
    if unit.merge is None:
        return unit
    return replace(unit, merge=with_real_keys(io, unit.merge))


PAIMON_JOB: Final = Job(task=PaimonTask, result=PaimonTaskResult, do=run_paimon_task, units=unit_inputs)
