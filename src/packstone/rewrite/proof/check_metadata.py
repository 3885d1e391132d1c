"""Compare the metadata to be recorded for a written file with the rows read back from it.

``FactsOfRows`` checks the record of a whole file, ``check_shape`` its columns (readers find them by name, others by
position, type and field id), ``BlockCheck`` what an index records for each row group.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from packstone.errors import VerificationError
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnFacts,
    DataFormat,
    OutputSpec,
    PlainValue,
    WrittenFile,
)
from packstone.rewrite.proof.order_codes import find_disorder, read_validity
from packstone.rewrite.proof.row_lanes import read_fixed
from packstone.rewrite.sorted_merge.block_facts import is_bytes, part_schema, read_part
from packstone.rewrite.sorted_merge.spec import WrittenBlockFile

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO


class FactsOfRows:
    """Facts of the rows of one file, added batch by batch in order; ``check`` compares them with its record."""

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self._schema, self._keys = schema, keys
        self._rows = self._delete_rows = 0
        self._sequences: list[int] = []
        self._ends: list[tuple[PlainValue, ...]] = []
        self._columns = {field.name: _ColumnRange(field.type) for field in schema}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows."""
        self._rows += batch.num_rows
        for name, column in self._columns.items():
            column.add(batch.column(name))
        if not self._keys or not batch.num_rows:
            return
        keys = [batch.column(name) for name in self._keys]
        last = tuple(to_plain(key[batch.num_rows - 1]) for key in keys)
        first = self._ends[0] if self._ends else tuple(to_plain(key[0]) for key in keys)
        self._ends = [first, last]
        sequence = read_fixed(batch.column(SEQUENCE_COLUMN))
        self._sequences = [
            min([*self._sequences[:1], int(sequence.min())]),
            max([*self._sequences[1:], int(sequence.max())]),
        ]
        self._delete_rows += int(np.count_nonzero(read_fixed(batch.column(KIND_COLUMN)) & 1))

    def check(self, io: FileIO, file: WrittenFile, *, has_columns: bool = True) -> None:
        """Raise VerificationError if the record is wrong; ``has_columns=False`` if it has no facts of column values."""
        found = io.stat(file.path)
        _expect(file, "size in bytes", recorded=file.size_bytes, found=found.size_bytes if found else None)
        _expect(file, "number of rows", recorded=file.rows, found=self._rows)
        if self._keys:
            ends = self._ends or [(), ()]
            _expect(file, "smallest key", recorded=file.first_key, found=ends[0])
            _expect(file, "largest key", recorded=file.last_key, found=ends[1])
            sequences = self._sequences or [0, 0]
            _expect(file, "smallest sequence number", recorded=file.min_sequence, found=sequences[0])
            _expect(file, "largest sequence number", recorded=file.max_sequence, found=sequences[1])
            _expect(file, "number of retract rows", recorded=file.delete_rows, found=self._delete_rows)
        if has_columns:
            self._check_columns(file)

    def _check_columns(self, file: WrittenFile) -> None:
        recorded = {facts.name: facts for facts in file.columns}
        for name, column in self._columns.items():
            if name in recorded:
                column.check(file, recorded[name])
            elif name not in {*self._keys, SEQUENCE_COLUMN, KIND_COLUMN}:
                raise VerificationError(f"{file.path}: nothing is recorded of column {name}.", file=file.path)


class _ColumnRange:
    """Nulls, smallest and largest value of a column."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._null_count = 0
        self._is_disputed = False
        self._low: Any = None
        self._high: Any = None

    def add(self, array: pa.Array) -> None:
        self._null_count += array.null_count
        self._is_disputed = self._is_disputed or _holds_disputed(array)
        low, high = range_of(array)
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def check(self, file: WrittenFile, facts: ColumnFacts) -> None:
        _expect(file, f"number of nulls of {facts.name}", recorded=facts.null_count, found=self._null_count)
        # A column written as INT96 has no range.
        may_be_int96 = types.is_timestamp(self._kind) and self._kind.unit == "ns"
        if may_be_int96 and facts.minimum is None and facts.maximum is None:
            return
        low, high = _signed_zero(self._low, -0.0), _signed_zero(self._high, 0.0)
        if self._is_disputed:
            low = high = None
        if types.is_string(self._kind) and self._low is not None:
            low, high = _to_text(self._low), _to_text(self._high)
        _expect(file, f"smallest value of {facts.name}", recorded=facts.minimum, found=low)
        _expect(file, f"largest value of {facts.name}", recorded=facts.maximum, found=high)


def range_of(array: pa.Array) -> tuple[PlainValue, PlainValue]:
    """Return the smallest and largest value of a batch; NaN is ignored, and nested values have no order."""
    if types.is_dictionary(array.type):
        codes = read_fixed(array.indices)[read_validity(array.indices)]
        array = array.dictionary.take(pa.array(np.flatnonzero(np.bincount(codes))))
    kind = array.type
    if types.is_nested(kind) or types.is_null(kind) or array.null_count == len(array):
        return None, None
    if types.is_floating(kind):
        values = read_fixed(array)[read_validity(array)]
        values = values[~np.isnan(values)]
        return (float(values.min()), float(values.max())) if len(values) else (None, None)
    ends = pc.min_max(array.cast(pa.binary()) if types.is_string(kind) else array)
    return to_plain(ends["min"]), to_plain(ends["max"])


def _holds_disputed(array: pa.Array) -> bool:
    """Whether readers disagree about the order of a value: NaN, and binaries with a byte from 0x80."""
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    if not (types.is_floating(kind) or types.is_binary(kind)):
        return False
    values = array.dictionary_decode() if types.is_dictionary(array.type) else array
    if types.is_floating(kind):
        return bool(np.isnan(read_fixed(values)[read_validity(values)]).any())
    return not b"".join(value for value in values.to_pylist() if value).isascii()


def to_plain(scalar: pa.Scalar) -> PlainValue:
    """Convert a value to the form used in records: times are integers in their unit."""
    if scalar.is_valid and types.is_temporal(scalar.type):
        return int(scalar.value)
    if scalar.is_valid and types.is_string(scalar.type):
        return _to_text(scalar.as_buffer().to_pybytes())
    value: PlainValue = scalar.as_py()
    return value


def _to_text(data: bytes) -> str:
    """Decode a string, which may hold invalid UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def _signed_zero(value: PlainValue, zero: float) -> PlainValue:
    return zero if isinstance(value, float) and value == 0 else value


def _expect(file: WrittenFile, what: str, *, recorded: object, found: object) -> None:
    if not is_same(recorded, found):
        raise VerificationError(f"{file.path}: the {what} is {found!r}, but {recorded!r} was recorded.", file=file.path)


def is_same(left: object, right: object) -> bool:
    """Whether two plain values are equal, including type and sign of zero; NaN equals NaN."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        same_sign = math.copysign(1, left) == math.copysign(1, right)
        return (left == right and same_sign) or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and left == right


_FIELD_ID = b"PARQUET:field_id"


def check_shape(
    io: FileIO, file: WrittenFile, output: OutputSpec, *, schema: pa.Schema, left_out: Collection[str] = ()
) -> None:
    """Raise unless a Parquet file has exactly the requested columns, in order; other formats have their own types."""
    if output.file_format is not DataFormat.PARQUET:
        return
    wanted = [field for field in schema if field.name not in left_out]
    with open_parquet(io, file.path) as parquet:
        check_columns(parquet, file.path, wanted)


def check_columns(parquet: pq.ParquetFile, path: str, wanted: list[pa.Field]) -> None:
    """Raise unless an open file has exactly these columns, in order."""
    found = parquet.schema_arrow
    names = [field.name for field in wanted]
    if found.names != names:
        raise VerificationError(f"{path} has the columns {found.names}, not {names}.", file=path)
    for field, stored in zip(wanted, found, strict=True):
        if not _is_stored_as(field, stored):
            raise VerificationError(
                f"{path}: column {field.name} is {_describe(stored)}, not {_describe(field)}.", file=path
            )


def _is_stored_as(field: pa.Field, stored: pa.Field) -> bool:
    if _field_id(field) not in {None, _field_id(stored)}:
        return False
    if types.is_nested(field.type):
        return bool(types.is_nested(stored.type))
    # INT96 has no time zone.
    if types.is_timestamp(field.type) and types.is_timestamp(stored.type) and field.type.unit == "ns":
        return bool(stored.type.unit == "ns")
    return bool(stored.type == field.type)


def _field_id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _describe(field: pa.Field) -> str:
    number = _field_id(field)
    return f"{field.type} with field id {number.decode()}" if number else str(field.type)


_CUT_BYTES = 256


class BlockCheck:
    """Checks the row groups of one file, batch by batch in their order; some of the columns are enough."""

    def __init__(
        self, file: WrittenBlockFile, schema: pa.Schema, *, sort_columns: Sequence[str], seen: Sequence[str]
    ) -> None:
        self._file, self._sort_columns = file, tuple(sort_columns)
        self._part = read_part(file.part)
        if self._part.schema != part_schema(schema, sort_columns):
            raise _wrong(file, "the columns of its part of the index differ from those of the file")
        self._columns = {name: _Range(schema.field(name).type) for name in seen}
        self._group, self._rows = 0, 0

    @property
    def groups(self) -> int:
        """The number of row groups recorded."""
        return int(self._part.num_rows)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the current row group."""
        if not self._rows:
            self._check_edge("start", batch.slice(0, 1))
        self._rows += batch.num_rows
        for name, column in self._columns.items():
            column.add(batch.column(name))
        if self._rows == self._recorded("rows"):
            self._check_edge("end", batch.slice(batch.num_rows - 1))

    def end_group(self) -> None:
        """Compare the row group that has ended with its record."""
        self._expect("number of rows", self._recorded("rows"), self._rows)
        self._expect("number of the row group", self._recorded("row_group"), self._group)
        for name, column in self._columns.items():
            if f"nulls.{name}" in self._part.schema.names:
                self._check_column(name, column)
            self._columns[name] = _Range(column.kind)
        self._group, self._rows = self._group + 1, 0

    def _check_edge(self, edge: str, row: pa.RecordBatch) -> None:
        for name in self._sort_columns:
            self._expect(f"{edge} of {name}", self._recorded(f"{edge}.{name}"), to_plain(row.column(name)[0]))

    def _check_column(self, name: str, column: _Range) -> None:
        low, high = self._recorded(f"min.{name}"), self._recorded(f"max.{name}")
        self._expect(f"number of nulls of {name}", self._recorded(f"nulls.{name}"), column.null_count)
        if types.is_floating(column.kind):
            self._expect(f"presence of NaN in {name}", self._recorded(f"nan.{name}"), column.has_nan)
        if not is_bytes(column.kind):
            self._expect(f"smallest value of {name}", low, column.low)
            self._expect(f"largest value of {name}", high, column.high)
            return
        longest = max(len(bound or b"") for bound in (column.low, column.high))
        self._expect(f"exactness of {name}", self._recorded(f"exact.{name}"), longest <= _CUT_BYTES)
        if longest <= _CUT_BYTES:
            self._expect(f"smallest value of {name}", low, column.low)
            self._expect(f"largest value of {name}", high, column.high)
        elif low != column.low[:_CUT_BYTES] or (high is not None and (high < column.high or len(high) > _CUT_BYTES)):
            raise _wrong(self._file, f"the bounds of {name} in row group {self._group} do not contain its values")

    def _recorded(self, name: str) -> Any:
        return to_plain(self._part.column(name)[self._group])

    def _expect(self, what: str, recorded: object, found: object) -> None:
        if not is_same(recorded, found):
            raise _wrong(
                self._file, f"the {what} in row group {self._group} is {found!r}, but {recorded!r} was recorded"
            )


class _Range:
    """Nulls, NaN, smallest and largest value of a column."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.null_count = 0
        self.has_nan = False
        self._low: Any = None
        self._high: Any = None

    def add(self, array: pa.Array) -> None:
        self.null_count += array.null_count
        low, high = range_of(array)
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)
        if types.is_floating(self.kind) and not self.has_nan:
            self.has_nan = bool(pc.any(pc.is_nan(array)).as_py())

    @property
    def low(self) -> Any:
        return -0.0 if isinstance(self._low, float) and self._low == 0 else self._low

    @property
    def high(self) -> Any:
        return 0.0 if isinstance(self._high, float) and self._high == 0 else self._high


def check_order(file: WrittenBlockFile, keys: list[pa.Array], last: list[pa.Array] | None) -> None:
    """Raise unless rows are sorted, and none is below the last row of the previous batch."""
    joint = None if last is None else [pa.concat_arrays([a, b.slice(0, 1)]) for a, b in zip(last, keys, strict=True)]
    for rows in (joint, keys):
        at = None if rows is None else find_disorder(rows, may_repeat=True)
        if rows is not None and at is not None:
            pair = [tuple(column[place].as_py() for column in rows) for place in (at, at + 1)]
            raise _wrong(file, f"{pair[0]} comes before {pair[1]}")


def _wrong(file: WrittenBlockFile, what: str) -> VerificationError:
    return VerificationError(f"{file.path}: {what}.", file=file.path)
