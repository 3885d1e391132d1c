"""What metadata will say of a written file, held against the rows read back from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from packstone.errors import VerificationError
from packstone.rewrite.merge.merge_spec import KIND_COLUMN, SEQUENCE_COLUMN, ColumnFacts, PlainValue, WrittenFile
from packstone.rewrite.merged_view.order_codes import read_validity
from packstone.rewrite.merged_view.row_lanes import read_fixed

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class FileFacts:
    """What the rows of one file say, batch by batch in their order; ``check`` compares it with what was recorded."""

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self._schema, self._keys = schema, keys
        self._rows = self._delete_rows = 0
        self._sequences: list[int] = []
        self._ends: list[tuple[PlainValue, ...]] = []
        self._columns = {field.name: _ColumnRange(field.type) for field in schema}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows."""
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

    def check(self, io: FileIO, file: WrittenFile) -> None:
        """Raise if anything recorded of the file is not so."""
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
        # Written as INT96 a column has no range.
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
    """Smallest and largest value of a batch; NaN is none, and nested values have no order."""
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
    """Turn a value into what records hold: times are integers in their unit."""
    if scalar.is_valid and types.is_temporal(scalar.type):
        return int(scalar.value)
    if scalar.is_valid and types.is_string(scalar.type):
        return _to_text(scalar.as_buffer().to_pybytes())
    value: PlainValue = scalar.as_py()
    return value


def _to_text(data: bytes) -> str:
    """Decode; whoever wrote the file may have put anything into a string."""
    return data.decode("utf-8", "surrogateescape")


def _signed_zero(value: PlainValue, zero: float) -> PlainValue:
    return zero if isinstance(value, float) and value == 0 else value


def _expect(file: WrittenFile, what: str, *, recorded: object, found: object) -> None:
    if not is_same(recorded, found):
        raise VerificationError(f"{file.path}: the {what} is {found!r}, but {recorded!r} was recorded.", file=file.path)


def is_same(left: object, right: object) -> bool:
    """Compare two plain values, also the types, the signs of zeros, and NaN with itself."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        same_sign = math.copysign(1, left) == math.copysign(1, right)
        return (left == right and same_sign) or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and left == right
