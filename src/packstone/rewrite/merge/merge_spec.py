"""What a merge kernel is told and what it answers: runs of data files in, sorted files out.

Nothing here knows of a table format. A spec holds plain values only, so it travels as JSON (model/codec.py); Arrow
schemas and single values travel in it as base64 of Arrow's own bytes. Results stay in the process that wrote the
files. Values of columns (keys, smallest, largest) are plain Python: bool, int, float, str, bytes, Decimal; dates,
times and timestamps are *integers in the unit of the Arrow type* (days, ms, us, ns), because Python's own types have
no nanoseconds and end in the year 9999.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import TypeAlias

import pyarrow as pa

from packstone.model.unit import Verify

SEQUENCE_COLUMN = "_SEQUENCE_NUMBER"
KIND_COLUMN = "_VALUE_KIND"

PlainValue: TypeAlias = bool | int | float | str | bytes | Decimal | None


class FileFormat(StrEnum):
    """How rows are stored in a data file."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


class RowKind(IntEnum):
    """What a row says, as stored in _VALUE_KIND: even numbers add, odd ones retract."""

    INSERT = 0  # +I
    UPDATE_BEFORE = 1  # -U
    UPDATE_AFTER = 2  # +U
    DELETE = 3  # -D


class MergeEngine(StrEnum):
    """How the records of one key become one."""

    DEDUPLICATE = "deduplicate"
    FIRST_ROW = "first-row"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSource:
    """Where a column of the output comes from in one file; None: this file has none, its rows are null there.

    A source of another type than the target is cast, as an evolved schema asks for. In a file without `_KEY_`
    columns (thin mode) a key column names the value column it mirrors. A text or binary whose declared length changed
    is taken only if no value would be cut or padded; lengths are in characters, of binaries in bytes.
    """

    target: str
    source: str | None
    min_length: int = 0
    max_length: int | None = None  # None: any length


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One data file; it has a source for every column of the spec's schema."""

    path: str
    file_format: FileFormat
    size_bytes: int
    rows: int
    columns: tuple[ColumnSource, ...]
    sequence_override: int | None = None  # every row of the file has this sequence number, whatever it says
    deleted: str = ""  # positions of rows that are gone, as `pack_positions` writes them

    def __str__(self) -> str:
        return f"{self.path} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAggregate:
    """How the values of one column become one, in the words of the table's options."""

    column: str
    function: str  # sum, max, last_value, ...; what is not supported is refused by name
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """The merge engine with its options.

    Aggregation: a value column that is not named takes `last_non_null_value`; columns that mirror the key take
    `primary-key`, sequence columns `last_value`.
    """

    name: str = MergeEngine.DEDUPLICATE.value  # a MergeEngine, or what a newer table names: refused by name
    ignore_delete: bool = False
    remove_record_on_delete: bool = False
    aggregates: tuple[ColumnAggregate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """A row is kept while `now_seconds <= time + expire_seconds`; a row without a time is kept."""

    column: str
    now_seconds: int
    expire_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Rows whose first key column is in [lower, upper), as `pack_value` writes them; None: no bound."""

    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """Where and how files are written. `PARQUET:field_id` in the schema's field metadata lands in Parquet files."""

    directory: str
    file_format: FileFormat = FileFormat.PARQUET
    compression: str = "zstd"
    compression_level: int | None = 1  # for zstd; None: the codec's own
    target_bytes: int = 128 << 20
    block_bytes: int = 128 << 20  # of a Parquet row group or ORC stripe, decoded; memory_bytes may force less
    thin: bool = False  # leave the key columns out: the value columns hold the same


Section: TypeAlias = tuple[tuple[InputFile, ...], ...]  # runs that overlap; a run is files in the order of keys


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """What should happen: sections in the order of keys are merged into files that do not overlap."""

    sections: tuple[tuple[tuple[InputFile, ...], ...], ...]
    arrow_schema: str  # pack_schema of key columns, _SEQUENCE_NUMBER, _VALUE_KIND, value columns
    key_columns: tuple[str, ...]
    sequence_columns: tuple[str, ...] = ()
    sequence_descending: bool = False
    engine: EngineSpec = EngineSpec()
    drop_deletes: bool
    expiry: Expiry | None = None
    key_range: KeyRange | None = None
    output: OutputSpec
    memory_bytes: int = 256 << 20
    verify: Verify = Verify.CONTENT
    accept_invalid_text: bool = False

    @property
    def checks_text(self) -> bool:
        """Whether an input whose strings are not valid UTF-8 is unreadable."""
        return self.verify is Verify.CONTENT and not self.accept_invalid_text

    @property
    def files(self) -> tuple[InputFile, ...]:
        """All inputs, section by section and run by run."""
        return tuple(file for section in self.sections for run in section for file in run)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSpec:
    """What should happen: files without keys become fewer, their rows in the files' order."""

    inputs: tuple[InputFile, ...]
    arrow_schema: str
    output: OutputSpec
    memory_bytes: int = 256 << 20
    verify: Verify = Verify.CONTENT
    accept_invalid_text: bool = False

    @property
    def checks_text(self) -> bool:
        """Whether an input whose strings are not valid UTF-8 is unreadable."""
        return self.verify is Verify.CONTENT and not self.accept_invalid_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Smallest and largest value, exact and not truncated, and number of nulls of one column of one file.

    Both are None if there is no value, and for nested columns always. Both are None too where readers disagree
    about the order (NaN; binaries with a byte from 0x80): one that finds no bounds skips nothing. The smallest zero
    is -0.0, the largest 0.0 (as Parquet asks for). Strings and binaries compare by unsigned bytes.
    """

    name: str
    minimum: PlainValue
    maximum: PlainValue
    null_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One output and all that metadata will say of it; append tables have no keys and no sequences (0)."""

    path: str
    size_bytes: int
    rows: int
    first_key: tuple[PlainValue, ...]
    last_key: tuple[PlainValue, ...]
    min_sequence: int
    max_sequence: int
    delete_rows: int
    columns: tuple[ColumnFacts, ...]

    def __str__(self) -> str:
        return f"{self.path} {self.rows} rows {self.size_bytes}B {self.first_key}..{self.last_key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The files written, rows, and where the time went. No files: every row was deleted or has expired."""

    files: tuple[WrittenFile, ...]
    rows_in: int
    rows_out: int
    read_seconds: float
    merge_seconds: float
    write_seconds: float


def pack_schema(schema: pa.Schema) -> str:
    """Write an Arrow schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpack_schema(text: str) -> pa.Schema:
    """Read an Arrow schema back."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def pack_value(value: pa.Scalar) -> str:
    """Write one typed value, a bound of a key range, as text."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([value], type=value.type)], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def unpack_value(text: str) -> pa.Scalar:
    """Read one typed value back."""
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_all().column(0)[0]
