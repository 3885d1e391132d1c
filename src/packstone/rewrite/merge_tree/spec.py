"""The input and the result of a merge kernel: runs of data files in, sorted files out.

Nothing here depends on a table format. A spec holds plain values only, so it can be sent as JSON (model/codec.py);
Arrow schemas and single values are in it as base64 of Arrow IPC bytes. Results stay in the process that wrote the
files. Values of columns (keys, smallest, largest) are plain Python: bool, int, float, str, bytes, Decimal; dates,
times and timestamps are *integers in the unit of the Arrow type* (days, ms, us, ns), because Python's own types have
no nanoseconds and end in the year 9999.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from packstone.model.unit import Verify

SEQUENCE_COLUMN = "_SEQUENCE_NUMBER"
KIND_COLUMN = "_VALUE_KIND"

PlainValue: TypeAlias = bool | int | float | str | bytes | Decimal | None


class DataFormat(StrEnum):
    """The format of a data file."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


class RowKind(IntEnum):
    """The kind of a row, as stored in _VALUE_KIND: even numbers add, odd ones retract."""

    INSERT = 0  # +I
    UPDATE_BEFORE = 1  # -U
    UPDATE_AFTER = 2  # +U
    DELETE = 3  # -D


class MergeEngine(StrEnum):
    """How the records of one key are merged into one."""

    DEDUPLICATE = "deduplicate"
    FIRST_ROW = "first-row"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSource:
    """The column of one file that a column of the output comes from; None: the file lacks it, so its values are null.

    A source of another type than the target is cast, as an evolved schema requires. In a file without `_KEY_`
    columns (thin mode) a key column names the value column it mirrors. A text or binary column whose declared length
    changed is accepted only if no value would be cut or padded; lengths are in characters, of binaries in bytes.
    """

    target: str
    source: str | None
    min_length: int = 0
    max_length: int | None = None  # None: any length


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One data file; it has a source for every column of the spec's schema."""

    path: str
    file_format: DataFormat
    size_bytes: int
    rows: int
    columns: tuple[ColumnSource, ...]
    sequence_override: int | None = None  # every row gets this sequence number instead of its stored one
    deleted: str = ""  # positions of deleted rows, as `pack_positions` writes them

    def __str__(self) -> str:
        return f"{self.path} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAggregate:
    """The aggregate function of one column, with the names of the table's options."""

    column: str
    function: str  # sum, max, last_value, ...; an unsupported one is refused by name
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """The merge engine with its options.

    Aggregation: a value column that is not listed takes `last_non_null_value`; columns that mirror the key take
    `primary-key`, sequence columns `last_value`.
    """

    name: str = MergeEngine.DEDUPLICATE.value  # a MergeEngine; an unknown one, of a newer table, is refused by name
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
    """Rows whose first key column is in [lower, upper), as `pack_value` writes them; None: unbounded."""

    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """Where and how files are written. `PARQUET:field_id` of the field metadata is written to Parquet files."""

    directory: str
    file_format: DataFormat = DataFormat.PARQUET
    compression: str = "zstd"
    compression_level: int | None = 1  # for zstd; None: the codec's default
    target_bytes: int = 128 << 20
    block_bytes: int = 128 << 20  # of a Parquet row group or ORC stripe, decoded; memory_bytes may force less
    thin: bool = False  # omit the key columns: the value columns hold the same values


Section: TypeAlias = tuple[tuple[InputFile, ...], ...]  # overlapping runs; a run is files in the order of keys


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """A merge: sections in the order of keys become files that do not overlap."""

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
    """A compaction of files without keys: fewer files, with the rows in the order of the inputs."""

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

    Both are None if there is no value, and always for nested columns. Both are None too if readers disagree about the
    order (NaN; binaries with a byte from 0x80): a reader without bounds skips nothing. The smallest zero is -0.0, the
    largest 0.0 (as Parquet requires). Strings and binaries compare by unsigned bytes.
    """

    name: str
    minimum: PlainValue
    maximum: PlainValue
    null_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One output with everything that metadata will record; append tables have no keys and no sequences (0)."""

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
    """The written files, the row counts, and the time of each phase. No files: every row was deleted or expired."""

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


Positions = np.ndarray[Any, np.dtype[np.int64]]


def pack_positions(positions: Positions) -> str:
    """Write ascending positions of deleted rows as text, compact enough for a spec: deflated gaps; empty for none."""
    if not len(positions):
        return ""
    gaps = np.diff(positions, prepend=0).astype("<u8")
    return base64.b64encode(zlib.compress(gaps.tobytes(), 1)).decode()


def unpack_positions(text: str) -> Positions:
    """Read positions that ``pack_positions`` wrote, ascending."""
    if not text:
        return np.empty(0, dtype=np.int64)
    gaps = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u8")
    return np.cumsum(gaps).astype(np.int64)
