"""What one task of a load does: read, convert, sort and write rows, and tell what it wrote.

The same code writes for files (a task of an engine), for a stream in this process and for a partition of a DataFrame.
Data files get their final names at once; nobody sees them until a status names a segment file that names them. Each
name is recorded in the attempt's folder before the file is created, and carries the try, so what a killed, retried or
speculative task leaves behind is known by name and never meets another's.

Input that is wrong comes back as a result, not as an error: a second try would find it wrong again.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
from packstone.model.unit import UnitResult, UnitStatus, Verify
from packstone.rewrite.inputs.bad_rows import BadField, BadRecords, bad_record_error, to_json_lines
from packstone.rewrite.inputs.convert_rows import Converter, InputBatch
from packstone.rewrite.inputs.input_files import InputOptions, InputPiece
from packstone.rewrite.inputs.read_inputs import read_inputs
from packstone.rewrite.merge.merge_spec import unpack_schema
from packstone.rewrite.ordered.block_writer import BlockWriter
from packstone.rewrite.ordered.ordered_spec import BlockOutput, WrittenBlockFile, WrittenBlocks
from packstone.rewrite.ordered.row_sorter import RowSorter
from packstone.rewrite.ordered.verify_ordered import RowDigest, verify_written
from packstone.rewrite.read_ahead import read_ahead
from packstone.runs.tasks import Attempt, Job
from packstone.storage.fileio import abandon_output
from packstone.storage.stores import store_beside
from packstone.tables.segments.attempts import drop_created, record_created
from packstone.tables.segments.layout import data_file_name

if TYPE_CHECKING:
    from packstone.rewrite.inputs.convert_rows import ConvertedRows
    from packstone.storage.fileio import FileIO

_EXAMPLES: Final = 3  # bad fields that a result shows


class LoadVerify(StrEnum):
    """How hard to look at what a load wrote before it is committed."""

    CONTENT = "content"  # every value of every row, read back from the files: about as long as the load again
    COUNT = "count"  # the rows that the files' footers count are those that were converted; costs nothing
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Where rows go and what becomes of bad ones; the same for all tasks of a load."""

    table: str
    attempt: str
    arrow_schema: str  # merge_spec.pack_schema
    output: BlockOutput  # its sort columns are those of the load: none if it does not sort
    bad_records: BadRecords
    bad_folder: str
    zone: str
    verify: LoadVerify
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """What all tasks of a load on files have in common."""

    target: LoadTarget
    inputs: InputOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUnit:
    """Some pieces of files; what becomes of it is one part of the load."""

    number: int
    pieces: tuple[InputPiece, ...]
    input_files: tuple[tuple[str, str], ...] = ()

    @property
    def input_bytes(self) -> int:
        """How much is read."""
        return sum(piece.size_bytes for piece in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one try at a task wrote, in order; or why it cannot be done."""

    task: int
    files: tuple[WrittenBlockFile, ...] = ()
    rows: int = 0
    bad_rows: int = 0
    bad_file: str = ""  # relative to the table; empty: no row was bad
    examples: tuple[BadField, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    failure_kind: str = ""  # the name of an error class
    bad_field: BadField | None = None  # of a load that takes no bad rows


def load_pieces(attempt: Attempt, context: LoadContext, unit: LoadUnit) -> UnitResult[LoadResult]:
    """Load some pieces of files."""
    target, schema = context.target, unpack_schema(context.target.arrow_schema)
    batches = (batch for piece in unit.pieces for batch in _read_piece(attempt.io, context, piece, schema=schema))
    # Decoding runs beside converting and sorting.
    result = write_load(attempt.io, target, read_ahead(batches), task=unit.number, name=attempt.name)
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=(result,))


def _read_piece(io: FileIO, context: LoadContext, piece: InputPiece, *, schema: pa.Schema) -> Iterator[InputBatch]:
    source = store_beside(io, context.target.table, piece.file.path)  # what is loaded need not be where the table is
    return read_inputs(source, piece, schema=schema, options=context.inputs)


def write_load(io: FileIO, target: LoadTarget, batches: Iterable[InputBatch], *, task: int, name: str) -> LoadResult:
    """Convert, sort and write rows; ``name`` tells this try from all others."""
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
    """Raise what a task came back with, as if it had been raised here."""
    if result.bad_field is not None:
        raise bad_record_error(result.bad_field)
    if result.failure_kind == UnreadableFileError.__name__:
        raise UnreadableFileError(result.failure)
    if result.failure:
        raise InvalidInputError(result.failure)


class LoadWriter:
    """One try at one task."""

    def __init__(self, io: FileIO, target: LoadTarget, *, task: int, name: str) -> None:
        self._io, self._target, self._task = io, target, task
        self._name = name
        self._try = zlib.crc32(name.encode())
        self._schema = unpack_schema(target.arrow_schema)
        self._converter = Converter(self._schema, action=target.bad_records, zone=target.zone)
        self._digest = RowDigest(self._schema) if target.verify is LoadVerify.CONTENT else None
        self._bad_sink: Any = None
        self._created: list[tuple[str, str]] = []
        self.rows = self.bad_rows = 0
        self.bad_file = ""
        self.examples: list[BadField] = []

    def write(self, batches: Iterable[InputBatch]) -> tuple[WrittenBlockFile, ...]:
        """Write all rows; the files stand in the order of rows."""
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
        """On an error remove what was created, so that a failed try leaves nothing."""
        try:
            yield
        except VerificationError:
            raise  # the evidence stays; its names are recorded
        except BaseException:
            if self._bad_sink is not None:
                abandon_output(self._bad_sink)
            for path, label in self._created:
                self._io.remove(f"{self._target.table}/{path}")
                drop_created(self._io, self._target.table, self._target.attempt, label=label)
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
            # Rows are gathered while those before them are encoded.
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
            self._record(self.bad_file, label=f"bad-{self._task:05d}-{self._name}")
            self._io.make_dirs(f"{self._target.table}/{self._target.bad_folder}")
            self._bad_sink = self._io.open_output(f"{self._target.table}/{self.bad_file}")
        self._bad_sink.write(to_json_lines(rows.bad))

    def _name_file(self, number: int) -> str:
        made = data_file_name(task=self._task, number=number, attempt=self._target.attempt, attempt_try=self._try)
        folder = self._target.output.directory.removeprefix(f"{self._target.table}/")
        self._record(f"{folder}/{made}", label=f"{self._task:05d}-{self._name}-{number}")
        return made

    def _record(self, path: str, *, label: str) -> None:
        record_created(self._io, self._target.table, self._target.attempt, paths=(path,), label=label)
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
                raise VerificationError(f"{self.rows} rows were to be written, the files hold {found}.")


def _count_rows(io: FileIO, path: str) -> int:
    try:
        with io.open_input(path) as source:
            return int(pq.read_metadata(source).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"{path} cannot be read right after it was written: {error}.", file=path) from error


def _field(error: PackstoneError) -> BadField | None:
    """The bad field that an error is about."""
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
