"""What one task on a Paimon table does: merge or concatenate files of a bucket, prove it, describe the outputs.

Data files are written directly into their bucket's folder under their final names; readers do not see them until a
manifest names them. The name of each is recorded before it is created, so a killed run leaves only files of known
names.

A file that is only to get a new level is inspected first, unless a compaction wrote it: some writers record no deletes
where there are some (pypaimon 2.1 always records 0), and a reader that trusts the record would show the deleted rows
again. Such a file is rewritten if it goes to the top level, else its record is corrected. If the keys of a file differ
from its record, its bucket is left alone: the whole plan relies on the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, RefusedError, VerificationError
from packstone.model.maintenance import ProvedUnit
from packstone.model.unit import How, UnitResult, UnitStatus, Verify
from packstone.rewrite.data_files.rows import read_rows, with_real_keys
from packstone.rewrite.merge_tree.merge import run_append
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    AppendSpec,
    MergeResult,
    MergeSpec,
    WrittenFile,
    unpack_schema,
)
from packstone.rewrite.proof.check_metadata import to_plain
from packstone.rewrite.proof.verify_merge import (
    Verified,
    fingerprint_appended,
    fingerprint_merged,
    merge_and_verify,
    verify_append,
    verify_merge,
)
from packstone.rewrite.proved_unit import proved_result, removed_on_failure
from packstone.rewrite.small_files.merge_unit import read_through
from packstone.runs.folder import record_created
from packstone.runs.reuse import FinishedUnit, check_is_there
from packstone.runs.tasks import Attempt, Job, Reuse
from packstone.tables.paimon.format.binary_row import decode_row, encode_row
from packstone.tables.paimon.format.data_file import DataFileMeta, MetaWriter
from packstone.tables.paimon.format.paths import DataFileNames
from packstone.tables.paimon.format.schema import TableSchema

if TYPE_CHECKING:
    from packstone.model.unit import Fingerprint
    from packstone.rewrite.merge_tree.spec import PlainValue
    from packstone.storage.fileio import FileIO

_ODD: Final = 1  # the row kinds of retractions are odd


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonUnit:
    """The work on some files of one bucket; either ``merge`` or ``append`` is set."""

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
    rejects_retractions: bool = False  # a delete marker in its inputs makes a partial merge wrong

    @property
    def directory(self) -> str:
        """The folder of its outputs."""
        spec = self.merge or self.append
        assert spec is not None  # one of the two is always set
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
    """Run one unit: rewrite files, or only give one a new level."""
    unit = _with_real_keys(attempt.io, unit)
    if unit.upgraded is not None and unit.merge is not None:
        delete_rows = _inspect(attempt.io, context.schema, unit)
        if delete_rows == 0 or not unit.to_top:
            upgraded = replace(unit.upgraded, level=unit.level, delete_row_count=delete_rows)
            return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, how=How.UPGRADE, outputs=(upgraded,))
    if unit.rejects_retractions:
        _check_no_retracts(attempt.io, unit)
    return _rewrite(attempt, context, unit)


def _check_no_retracts(io: FileIO, unit: PaimonUnit) -> None:
    """Raise RefusedError if a merge of only some runs would apply retractions: their targets may be in other runs."""
    assert unit.merge is not None  # only merge trees have row kinds
    for file in unit.merge.files:
        schema = pa.schema([pa.field(KIND_COLUMN, pa.int8())])
        for batch in read_rows(io, file, schema):
            if np.count_nonzero(batch.column(0).to_numpy(zero_copy_only=False) & _ODD):
                raise RefusedError(
                    f"{file.path} holds deletes, and an aggregation of only some runs could apply them to nothing; "
                    "use --strategy full."
                )


def _rewrite(attempt: Attempt, context: PaimonContext, unit: PaimonUnit) -> UnitResult[DataFileMeta]:
    attempt = attempt.as_private_as(path for path, _ in unit.input_files)
    with removed_on_failure(attempt.io) as written:
        result, verified = _merge(attempt, unit, name_file=_namer(attempt, context, unit=unit, written=written))
    outputs = _describe(context, unit, result.files)
    return proved_result(attempt.io, unit, result, verified=verified, outputs=outputs)


def _merge(attempt: Attempt, unit: PaimonUnit, *, name_file: Callable[[int], str]) -> tuple[MergeResult, Verified]:
    io = attempt.io
    if unit.merge is not None:
        return merge_and_verify(io, unit.merge, name_file=name_file, has_idle_core=attempt.has_idle_core)
    assert unit.append is not None  # one of the two is always there
    result = run_append(io, unit.append, name_file=name_file)
    return result, verify_append(io, unit.append, result.files)


def _namer(attempt: Attempt, context: PaimonContext, *, unit: PaimonUnit, written: list[str]) -> Callable[[int], str]:
    """Return a function that names files and records each name before the file is created."""
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
    """Count the delete markers of a file, and compare its first and last key with its record."""
    assert unit.merge is not None  # an upgrade is one of a merge tree
    (file,) = unit.merge.files
    names = [*unit.merge.key_columns, KIND_COLUMN]
    wanted = pa.schema([unpack_schema(unit.merge.arrow_schema).field(name) for name in names])
    retracts, keys = 0, []
    for batch in read_rows(io, file, wanted):
        retracts += int(np.count_nonzero(batch.column(KIND_COLUMN).to_numpy(zero_copy_only=False) & _ODD))
        keys += [_key(batch, 0, schema), _key(batch, batch.num_rows - 1, schema)]
    if unit.upgraded is None or (keys[0], keys[-1]) != (unit.upgraded.min_key, unit.upgraded.max_key):
        raise CorruptionError(
            f"{file.path} does not hold the keys that its manifest records, so its bucket is not compacted.",
            file=file.path,
        )
    return retracts


def _key(batch: pa.RecordBatch, row: int, schema: TableSchema) -> bytes:
    values = [to_plain(batch.column(field.name)[row]) for field in schema.key_fields]
    return encode_row(values, schema.key_types)


def _with_real_keys(io: FileIO, unit: PaimonUnit) -> PaimonUnit:
    """Take key columns from the value columns they mirror in files that leave them out (thin mode)."""
    if unit.merge is None:
        return unit
    return replace(unit, merge=with_real_keys(io, unit.merge))


# ---- prove again what was published ----


def prove_again(
    attempt: Attempt, context: PaimonContext, proved: ProvedUnit[PaimonUnit, DataFileMeta]
) -> UnitResult[DataFileMeta]:
    """Repeat the proof of a published unit: against its inputs, or by itself if they have expired."""
    written = tuple(_as_written(context, proved.unit, file) for file in proved.outputs)
    found = _fingerprint(attempt.io, proved, written)
    return UnitResult(number=proved.number, status=UnitStatus.WRITTEN, rows_out=found.rows, fingerprint=str(found))


def _fingerprint(
    io: FileIO, proved: ProvedUnit[PaimonUnit, DataFileMeta], written: tuple[WrittenFile, ...]
) -> Fingerprint:
    unit = _with_real_keys(io, proved.unit) if proved.has_inputs else proved.unit
    if unit.merge is not None:
        if proved.has_inputs:
            return verify_merge(io, unit.merge, written, has_columns=False).fingerprint_after
        return fingerprint_merged(io, unit.merge, written)
    assert unit.append is not None  # one of the two is always there
    if proved.has_inputs:
        return verify_append(io, unit.append, written, has_columns=False).fingerprint_after
    return fingerprint_appended(io, unit.append, written)


def _as_written(context: PaimonContext, unit: PaimonUnit, file: DataFileMeta) -> WrittenFile:
    """The manifest entry of an output as its proof needs it, without the statistics, which are truncated."""
    types = context.schema.key_types
    return WrittenFile(
        path=f"{unit.directory}/{file.file_name}",
        size_bytes=file.file_size,
        rows=file.row_count,
        first_key=cast("tuple[PlainValue, ...]", decode_row(file.min_key, types)),
        last_key=cast("tuple[PlainValue, ...]", decode_row(file.max_key, types)),
        min_sequence=file.min_sequence_number,
        max_sequence=file.max_sequence_number,
        delete_rows=file.delete_row_count or 0,
        columns=(),
    )


# ---- take over what a killed run had finished ----


def reuse_files(
    attempt: Attempt, context: PaimonContext, finished: FinishedUnit[PaimonUnit, DataFileMeta]
) -> UnitResult[DataFileMeta]:
    """Rename the data files for this run, and prove them against the inputs, by content whatever the mode."""
    unit, found = finished.unit, finished.result
    with removed_on_failure(attempt.io) as written:
        name_file, outputs = _namer(attempt, context, unit=unit, written=written), list[DataFileMeta]()
        for number, file in enumerate(found.outputs):
            path = _output_path(unit, file)
            check_is_there(attempt.io, path, size_bytes=file.file_size)
            made = name_file(number)
            attempt.io.move(path, f"{unit.directory}/{made}")
            outputs.append(replace(file, file_name=made))
        proved = ProvedUnit(unit=_by_content(unit), outputs=tuple(outputs), has_inputs=True)
        try:
            seen = _fingerprint(attempt.io, proved, tuple(_as_written(context, unit, file) for file in outputs))
        except VerificationError as error:  # not evidence of a wrong merge: the files were damaged since
            raise CorruptionError(error.message, file=unit.directory) from error
    return replace(found, number=unit.number, outputs=tuple(outputs), rows_out=seen.rows, fingerprint=str(seen))


def _by_content(unit: PaimonUnit) -> PaimonUnit:
    merge = replace(unit.merge, verify=Verify.CONTENT) if unit.merge is not None else None
    append = replace(unit.append, verify=Verify.CONTENT) if unit.append is not None else None
    return replace(unit, merge=merge, append=append)


def _identity(context: PaimonContext, unit: PaimonUnit) -> tuple[PaimonContext, PaimonUnit]:
    """The context and unit without the names and times of a run; record expiry is part of the unit."""
    return replace(context, run_folder="", created_ms=0), replace(unit, number=0)


def _output_path(unit: PaimonUnit, file: DataFileMeta) -> str:
    return f"{unit.directory}/{file.file_name}"


PAIMON_JOB: Final = Job(
    context=PaimonContext,
    unit=PaimonUnit,
    output=DataFileMeta,
    do=merge_and_prove,
    read_through=read_through,
    prove=prove_again,
    reuse=Reuse(do=reuse_files, identity=_identity, output_path=_output_path),
)
