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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, RefusedError, VerificationError
from packstone.model.unit import How, UnitResult, UnitStatus
from packstone.rewrite.data_files.real_keys import with_real_keys
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.kernels.registry import read_through
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
from packstone.rewrite.parquet.growth import describe_growth
from packstone.runs.tasks import Attempt, Job
from packstone.tables.paimon.binary_row import encode_row
from packstone.tables.paimon.data_file_meta import DataFileMeta
from packstone.tables.paimon.leftovers import record_created
from packstone.tables.paimon.paths import DataFileNames
from packstone.tables.paimon.table_schema import TableSchema
from packstone.tables.paimon.written_meta import MetaWriter

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_ODD: Final = 1  # row kinds that retract are odd


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonUnit:
    """What should happen to some files of one bucket; either ``merge`` or ``append`` is there."""

    number: int
    how: How
    level: int
    input_bytes: int
    merge: MergeSpec | None = None
    append: AppendSpec | None = None
    first_sequence: int = 0  # of an append table's rows
    upgraded: DataFileMeta | None = None  # the record of a file that is to get a new level
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
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes, each with the name of its format."""
        files = self.merge.files if self.merge is not None else self.append.inputs if self.append is not None else ()
        return tuple((file.path, file.file_format) for file in files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonContext:
    """What all units of a task have in common."""

    run_folder: str  # where the names of files are recorded
    schema: TableSchema
    names: DataFileNames
    created_ms: int


def merge_and_prove(attempt: Attempt, context: PaimonContext, unit: PaimonUnit) -> UnitResult[DataFileMeta]:
    """Do one unit: rewrite files, or only give one a new level."""
    unit = _with_real_keys(attempt.io, unit)
    if unit.upgraded is not None and unit.merge is not None:
        delete_rows = _inspect(attempt.io, context.schema, unit)
        if delete_rows == 0 or not unit.to_top:
            upgraded = replace(unit.upgraded, level=unit.level, delete_row_count=delete_rows)
            return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, how=How.UPGRADE, outputs=(upgraded,))
    if unit.minds_retracts:
        _check_no_retracts(attempt.io, unit)
    return _rewrite(attempt, context, unit)


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


def _rewrite(attempt: Attempt, context: PaimonContext, unit: PaimonUnit) -> UnitResult[DataFileMeta]:
    written: list[str] = []
    attempt = attempt.as_private_as(path for path, _ in unit.input_files)
    try:
        result, verified = _merge(attempt, unit, name_file=_namer(attempt, context, unit=unit, written=written))
    except VerificationError:
        raise  # the evidence stays; its names are recorded
    except Exception:
        for path in written:
            attempt.io.remove(path)
        raise
    return UnitResult(
        number=unit.number,
        status=UnitStatus.WRITTEN,
        outputs=_describe(context, unit, result.files),
        rows_in=result.rows_in,
        rows_out=result.rows_out,
        fingerprint=str(verified.fingerprint_after),
        why_bigger=describe_growth(
            attempt.io,
            unit.input_files,
            [(file.path, file.size_bytes) for file in result.files],
            input_bytes=unit.input_bytes,
        ),
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


def _namer(attempt: Attempt, context: PaimonContext, *, unit: PaimonUnit, written: list[str]) -> Callable[[int], str]:
    """Name files, and write each name down before the file is there."""
    # As unique as the attempt's name, which is random.
    own = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{attempt.staging}/{unit.number}/{attempt.name}"))

    def name(number: int) -> str:
        made = context.names.name(number, uuid=own, file_format=unit.file_format, compression=unit.compression)
        path = f"{unit.directory}/{made}"
        label = f"{unit.number:06d}-{attempt.name}-{number}"
        record_created(attempt.io, context.run_folder, (path,), label=label)
        written.append(path)
        return made

    return name


def _describe(context: PaimonContext, unit: PaimonUnit, files: tuple[WrittenFile, ...]) -> tuple[DataFileMeta, ...]:
    writer = MetaWriter(schema=context.schema, level=unit.level, created_ms=context.created_ms)
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
    if unit.upgraded is None or (keys[0], keys[-1]) != (unit.upgraded.min_key, unit.upgraded.max_key):
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


PAIMON_JOB: Final = Job(
    context=PaimonContext, unit=PaimonUnit, output=DataFileMeta, do=merge_and_prove, read_through=read_through
)
