"""The work of one task: of a compaction (merge, sort or join files, and verify) and of a load (convert, sort, write).

Data files are written directly into the folder of the new segment under their final names; they are invisible until a
status names a segment file that names them. Each name is recorded in the run's folder before the file is created, and
contains the id of the try: so the files of a killed, retried or speculative task are known by name, and two tries never
write the same file. Sorted runs that are still to be merged are in the run's staging.

The same code writes a load of files (tasks of an engine), of a stream in this process and of the partitions of a
DataFrame. Invalid input is returned as a result, not raised: a retry would fail again.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import (
    CorruptionError,
    InvalidInputError,
    PackstoneError,
    UnreadableFileError,
    VerificationError,
)
from packstone.model.codec import Name
from packstone.model.files import FileFormat
from packstone.model.maintenance import ProvedUnit
from packstone.model.unit import UnitResult, UnitStatus, Verify
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.load.convert_rows import (
    BadField,
    BadRecords,
    Converter,
    InputBatch,
    bad_record_error,
    to_json_lines,
)
from packstone.rewrite.load.input_files import InputOptions, InputPiece
from packstone.rewrite.load.read_inputs import read_inputs
from packstone.rewrite.merge_tree.spec import unpack_schema
from packstone.rewrite.proved_unit import proved_result, removed_on_failure
from packstone.rewrite.small_files.merge_unit import read_through
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.merge import RowSorter, merge_ordered
from packstone.rewrite.sorted_merge.spec import BlockOutput, OrderedMergeSpec, WrittenBlockFile, WrittenBlocks
from packstone.rewrite.sorted_merge.verify import (
    RowDigest,
    fingerprint_written,
    verify_ordered,
    verify_written,
    written_by,
)
from packstone.runs.folder import forget_created, record_created
from packstone.runs.reuse import FinishedUnit, check_is_there
from packstone.runs.tasks import Attempt, Job, Reuse
from packstone.storage.fileio import abandon_output
from packstone.storage.stores import store_beside
from packstone.tables.segments.format.layout import data_file_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.rewrite.load.convert_rows import ConvertedRows
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeUnit:
    """One piece of a merge; units are numbered through the run."""

    number: int
    attempt: str  # the run
    spec: OrderedMergeSpec
    input_bytes: int
    members: tuple[Name, ...] = ()  # the segment files of the whole merge
    deletes: tuple[Name, ...] = ()  # the delete files of those with deleted rows
    is_staged: bool = False  # the output is a sorted run that is removed with the run's staging
    is_sorted_first: bool = False  # some inputs are such sorted runs, which are removed when the run ends

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes, each with its format."""
        return tuple((file.path, FileFormat.PARQUET) for file in self.spec.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeContext:
    """What all units of a task have in common."""

    table: str
    run_folder: str  # where the names of files are recorded


def merge_and_prove(attempt: Attempt, context: MergeContext, unit: MergeUnit) -> UnitResult[WrittenBlockFile]:
    """Merge, sort or join some files; the outputs have absolute paths and are in key order."""
    attempt = attempt.as_private_as(file.path for file in unit.spec.files)
    with removed_on_failure(attempt.io) as written:
        name_file = _namer(attempt, context, unit=unit, written=written)
        result = merge_ordered(attempt.io, unit.spec, name_file=name_file)
        verified = verify_ordered(attempt.io, unit.spec, result.files)
    return proved_result(attempt.io, unit, result, verified=verified, outputs=result.files)


def _namer(attempt: Attempt, context: MergeContext, *, unit: MergeUnit, written: list[str]) -> Callable[[int], str]:
    """Return a function that names output files and records each name before the file is created."""
    # The name of a task's try is random: two tries of one unit never write the same file.
    this_try = zlib.crc32(os.fsencode(f"{attempt.staging}/{attempt.name}"))
    directory = unit.spec.output.directory

    def name(number: int) -> str:
        made = data_file_name(task=unit.number, number=number, attempt=unit.attempt, attempt_try=this_try)
        path = f"{directory}/{made}"
        if not unit.is_staged:
            label = f"{unit.number:06d}-{attempt.name}-{number}"
            record_created(attempt.io, context.run_folder, (path,), label=label)
        written.append(path)
        return made

    return name


def prove_again(
    attempt: Attempt,
    context: MergeContext,  # noqa: ARG001 - the job's
    proved: ProvedUnit[MergeUnit, WrittenBlockFile],
) -> UnitResult[WrittenBlockFile]:
    """Compare published files with their inputs, or without inputs, report what they hold."""
    spec = proved.unit.spec
    if proved.has_inputs:
        found = verify_ordered(attempt.io, spec, proved.outputs).fingerprint_after
    else:
        found = fingerprint_written(attempt.io, written_by(spec, proved.outputs))
    return UnitResult(number=proved.number, status=UnitStatus.WRITTEN, rows_out=found.rows, fingerprint=str(found))


def reuse_files(
    attempt: Attempt, context: MergeContext, finished: FinishedUnit[MergeUnit, WrittenBlockFile]
) -> UnitResult[WrittenBlockFile]:
    """Rename the files of a killed run to names of this run, and compare their content with the inputs."""
    unit, found, outputs = finished.unit, finished.result, list[WrittenBlockFile]()
    with removed_on_failure(attempt.io) as written:
        name_file = _namer(attempt, context, unit=unit, written=written)
        for number, file in enumerate(found.outputs):
            check_is_there(attempt.io, file.path, size_bytes=file.size_bytes)
            path = f"{unit.spec.output.directory}/{name_file(number)}"
            attempt.io.move(file.path, path)
            outputs.append(replace(file, path=path))
        try:
            seen = verify_ordered(attempt.io, replace(unit.spec, verify=Verify.CONTENT), tuple(outputs))
        except VerificationError as error:  # not evidence of a wrong merge: the files were damaged afterwards
            raise CorruptionError(error.message, file=unit.spec.output.directory) from error
    return replace(
        found,
        number=unit.number,
        outputs=tuple(outputs),
        rows_out=seen.rows,
        fingerprint=str(seen.fingerprint_after),
    )


def _identity(context: MergeContext, unit: MergeUnit) -> tuple[MergeContext, MergeUnit]:
    """Everything except the names of a run; sorted runs are in its staging, so merges of them are never identical."""
    return replace(context, run_folder=""), replace(unit, number=0, attempt="")


def _output_path(_unit: MergeUnit, file: WrittenBlockFile) -> str:
    return file.path


SEGMENTS_MERGE_JOB: Final = Job(
    context=MergeContext,
    unit=MergeUnit,
    output=WrittenBlockFile,
    do=merge_and_prove,
    read_through=read_through,
    prove=prove_again,
    reuse=Reuse(do=reuse_files, identity=_identity, output_path=_output_path),
)


# ---- load ----


_EXAMPLES: Final = 3  # bad fields that a result shows


class LoadVerify(StrEnum):
    """How a load verifies its files before the commit."""

    CONTENT = "content"  # read back and compare every value of every row: takes about as long as the load itself
    COUNT = "count"  # compare the row counts of the file footers with the converted rows; costs nothing
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Where a load writes its rows and how it handles bad ones; the same for all tasks of a load."""

    table: str
    attempt: str  # the run
    run_folder: str  # where the names of files are recorded
    arrow_schema: str  # merge_spec.pack_schema
    output: BlockOutput  # its sort columns are those of the load: none if it does not sort
    is_staged: bool = False  # the outputs are sorted runs that are removed with the run's staging
    bad_records: BadRecords
    bad_folder: str
    zone: str
    verify: LoadVerify
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """What all tasks of a load of files have in common."""

    target: LoadTarget
    inputs: InputOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUnit:
    """Pieces of input files that one task loads."""

    number: int
    pieces: tuple[InputPiece, ...]
    input_files: tuple[tuple[str, str], ...] = ()

    @property
    def input_bytes(self) -> int:
        """The size of the input."""
        return sum(piece.size_bytes for piece in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The files that one try of a task wrote, in order; or why it failed."""

    task: int
    files: tuple[WrittenBlockFile, ...] = ()
    rows: int = 0
    bad_rows: int = 0
    bad_file: str = ""  # relative to the table; empty: no row was bad
    examples: tuple[BadField, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    failure_kind: str = ""  # the name of an error class
    bad_field: BadField | None = None  # of a load that fails on bad rows


def load_pieces(attempt: Attempt, context: LoadContext, unit: LoadUnit) -> UnitResult[LoadResult]:
    """Load some pieces of files."""
    target, schema = context.target, unpack_schema(context.target.arrow_schema)
    batches = (batch for piece in unit.pieces for batch in _read_piece(attempt.io, context, piece, schema=schema))
    # Decoding runs in parallel with converting and sorting.
    result = write_load(attempt.io, target, read_ahead(batches), task=unit.number, name=attempt.name)
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=(result,))


def _read_piece(io: FileIO, context: LoadContext, piece: InputPiece, *, schema: pa.Schema) -> Iterator[InputBatch]:
    source = store_beside(io, context.target.table, piece.file.path)  # inputs may be in another store than the table
    return read_inputs(source, piece, schema=schema, options=context.inputs)


def write_load(io: FileIO, target: LoadTarget, batches: Iterable[InputBatch], *, task: int, name: str) -> LoadResult:
    """Convert, sort and write rows; ``name`` is unique to this try."""
    began = time.perf_counter()
    writer = LoadWriter(io, target, task=task, name=name)
    try:
        with writer.clean_up():
            result = writer.write(batches)
    except (InvalidInputError, UnreadableFileError) as error:
        return LoadResult(task=task, failure=error.message, failure_kind=type(error).__name__, bad_field=_field(error))
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
    return LoadResult(
        task=task,
        files=result,
        rows=writer.rows,
        bad_rows=writer.bad_rows,
        bad_file=writer.bad_file,
        examples=tuple(writer.examples),
        seconds=time.perf_counter() - began,
    )


def raise_failure(result: LoadResult) -> None:
    """Raise the failure that a task returned, if any."""
    if result.bad_field is not None:
        raise bad_record_error(result.bad_field)
    if result.failure_kind == UnreadableFileError.__name__:
        raise UnreadableFileError(result.failure)
    if result.failure:
        raise InvalidInputError(result.failure)


class LoadWriter:
    """Writes the files of one try of one task."""

    def __init__(self, io: FileIO, target: LoadTarget, *, task: int, name: str) -> None:
        self._io, self._target, self._task = io, target, task
        self._name = name
        self._try = zlib.crc32(name.encode())
        self._schema = unpack_schema(target.arrow_schema)
        self._converter = Converter(self._schema, action=target.bad_records, zone=target.zone)
        self._digest = RowDigest(self._schema) if target.verify is LoadVerify.CONTENT else None
        self._bad_sink: Any = None
        self._created: list[tuple[str, str]] = []  # full paths, with the label of their record
        self.rows = self.bad_rows = 0
        self.bad_file = ""
        self.examples: list[BadField] = []

    def write(self, batches: Iterable[InputBatch]) -> tuple[WrittenBlockFile, ...]:
        """Write all rows; the returned files are in row order."""
        writer = BlockWriter(self._io, self._target.output, schema=self._schema, name_file=self._name_file)
        try:
            with closing(self._ordered(batches)) as rows:
                for batch in rows:
                    writer.write(batch)
            files = writer.close()
        except BaseException:
            writer.abandon()
            raise
        if self._bad_sink is not None:
            self._bad_sink.close()
            self._io.sync_file(f"{self._target.table}/{self.bad_file}")
        self._verify(files)
        return files

    @contextmanager
    def clean_up(self) -> Iterator[None]:
        """On an error, remove the created files, so that a failed try leaves nothing."""
        try:
            yield
        except VerificationError:
            raise  # keep the files as evidence; their names are recorded
        except BaseException:
            if self._bad_sink is not None:
                abandon_output(self._bad_sink)
            for path, label in self._created:
                self._io.remove(path)
                if label:
                    forget_created(self._io, self._target.run_folder, label=label)
            raise

    def _ordered(self, batches: Iterable[InputBatch]) -> Generator[pa.RecordBatch, None, None]:
        """The converted rows, sorted if the load sorts."""
        sort_columns = self._target.output.sort_columns
        if not sort_columns:
            yield from self._converted(batches)
            return
        with RowSorter(self._schema, sort_columns, memory_bytes=self._target.memory_bytes) as sorter:
            for batch in self._converted(batches):
                sorter.add(batch)
            # Gather rows while the previous ones are encoded.
            with closing(read_ahead(sorter.sorted_batches())) as ahead:
                yield from ahead

    def _converted(self, batches: Iterable[InputBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = self._converter.convert(batch)
            if rows.bad_rows:
                self._keep_bad(rows)
            if rows.batch.num_rows:
                self.rows += rows.batch.num_rows
                if self._digest is not None:
                    self._digest.add(rows.batch)
                yield rows.batch

    def _keep_bad(self, rows: ConvertedRows) -> None:
        self.bad_rows += rows.bad_rows
        self.examples += rows.bad[: max(0, _EXAMPLES - len(self.examples))]
        if self._bad_sink is None:
            self.bad_file = f"{self._target.bad_folder}/part-{self._task:05d}-{self._try}.jsonl"
            self._record(f"{self._target.table}/{self.bad_file}", label=f"bad-{self._task:05d}-{self._name}")
            self._io.make_dirs(f"{self._target.table}/{self._target.bad_folder}")
            self._bad_sink = self._io.open_output(f"{self._target.table}/{self.bad_file}")
        self._bad_sink.write(to_json_lines(rows.bad))

    def _name_file(self, number: int) -> str:
        made = data_file_name(task=self._task, number=number, attempt=self._target.attempt, attempt_try=self._try)
        path = f"{self._target.output.directory}/{made}"
        if self._target.is_staged:
            self._created.append((path, ""))
        else:
            self._record(path, label=f"{self._task:05d}-{self._name}-{number}")
        return made

    def _record(self, path: str, *, label: str) -> None:
        record_created(self._io, self._target.run_folder, (path,), label=label)
        self._created.append((path, label))

    def _verify(self, files: tuple[WrittenBlockFile, ...]) -> None:
        target = self._target
        if self._digest is not None:
            written = WrittenBlocks(
                files=files,
                arrow_schema=target.arrow_schema,
                sort_columns=target.output.sort_columns,
                memory_bytes=target.memory_bytes,
                verify=Verify.CONTENT,
            )
            verify_written(self._io, written, self._digest.fingerprint)
        elif target.verify is LoadVerify.COUNT:
            found = sum(_count_rows(self._io, file.path) for file in files)
            if found != self.rows:
                raise VerificationError(f"{self.rows} rows were converted, but the files hold {found}.")


def _count_rows(io: FileIO, path: str) -> int:
    try:
        with io.open_input(path) as source:
            return int(pq.read_metadata(source).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"{path} cannot be read right after it was written: {error}.", file=path) from error


def _field(error: PackstoneError) -> BadField | None:
    """The bad field that caused an error, if any."""
    facts = error.facts
    if not {"file", "row", "column", "value", "reason"} <= facts.keys():
        return None
    return BadField(
        source=facts["file"],
        row=facts["row"],
        column=facts["column"],
        value=facts["value"],
        reason=facts["reason"],
    )


LOAD_JOB: Final = Job(context=LoadContext, unit=LoadUnit, output=LoadResult, do=load_pieces)
