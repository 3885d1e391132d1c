"""Rows of one data file in the target schema, whatever its format and the age of its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.data_files.avro_rows import AvroRows
from packstone.rewrite.data_files.evolve import Evolution, source_columns
from packstone.rewrite.data_files.orc_rows import OrcRows
from packstone.rewrite.data_files.parquet_rows import ParquetRows, RowWidths
from packstone.rewrite.deleted_positions import Positions, unpack_positions
from packstone.rewrite.java_order import to_java_order
from packstone.rewrite.merge_spec import Expiry, FileFormat, InputFile, KeyRange, unpack_value
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.storage.fileio import FileIO

BATCH_BYTES = 8 << 20
_MILLISECONDS_FROM = 10**12  # a BIGINT from here on holds milliseconds


class _Rows(Protocol):
    schema: pa.Schema

    def batches(
        self, *, batch_bytes: int, skip: Callable[[Any, Any], bool] | None, skip_on: str
    ) -> Iterator[tuple[int, pa.RecordBatch]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Keep rows whose column is in [lower, upper); nulls come before every value."""

    column: str
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, column: str, key_range: KeyRange | None) -> KeyBounds | None:
        """Read the bounds of a spec; None if there are none."""
        if key_range is None or (key_range.lower is None and key_range.upper is None):
            return None
        bounds = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        lower, upper = bounds
        return cls(column=column, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows of a file take part: in the task's share of the keys, and not expired."""

    bounds: KeyBounds | None = None
    expiry: Expiry | None = None


def read_rows(
    io: FileIO,
    file: InputFile,
    schema: pa.Schema,
    *,
    batch_bytes: int = BATCH_BYTES,
    keep: RowFilter | None = None,
    widths: RowWidths | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows, without deleted ones, in batches of about so many bytes; never an empty batch.

    The schema may be any part of the spec's: only what it names is decoded. ``widths`` is shared between files of one
    table, so that only the first is asked how wide its rows are.
    """
    keep = keep or RowFilter()
    rows = open_rows(io, file, source_columns(file, schema.names), widths=widths)
    try:
        yield from _read(rows, file, schema, batch_bytes=batch_bytes, keep=keep)
    finally:
        rows.close()


def _read(
    rows: _Rows, file: InputFile, schema: pa.Schema, *, batch_bytes: int, keep: RowFilter
) -> Iterator[pa.RecordBatch]:
    evolution = Evolution(file, rows.schema, schema)
    deleted = unpack_positions(file.deleted)
    skip, skip_on = _row_group_test(rows, file, keep.bounds)
    read = 0
    for position, batch in rows.batches(batch_bytes=batch_bytes, skip=skip, skip_on=skip_on):
        read += batch.num_rows
        kept = evolution.apply(_without_deleted(batch, position, deleted))
        if keep.bounds is not None and kept.num_rows:
            kept = _inside(kept, keep.bounds)
            if not kept.num_rows and _is_beyond(batch, evolution, keep.bounds):
                return
        if keep.expiry is not None and kept.num_rows:
            kept = kept.filter(to_column(not_expired(kept.column(keep.expiry.column), keep.expiry)))
        if kept.num_rows:
            yield kept
    if skip is None and read != file.rows:
        raise CorruptionError(f"{file.path} holds {read} rows, its metadata say {file.rows}.", file=file.path)


def not_expired(column: pa.Array, expiry: Expiry) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows are young enough, or have no time."""
    kind = column.type
    if pt.is_timestamp(kind):
        per_ms = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
        values = _integers(column)
        millis = values * 1000 if per_ms == 0 else values // per_ms
        seconds = np.sign(millis) * (np.abs(millis) // 1000)  # Java's division goes towards zero
    elif pt.is_int32(kind):
        seconds = _integers(column)
    elif pt.is_int64(kind):
        values = _integers(column)
        seconds = np.where(values >= _MILLISECONDS_FROM, values // 1000, values)
    else:
        raise InvalidInputError(f"The time of a row is INT, BIGINT or TIMESTAMP; {expiry.column} is {kind}.")
    young = seconds >= expiry.now_seconds - expiry.expire_seconds
    return young | column.is_null().to_numpy(zero_copy_only=False)


def _integers(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    whole = column.cast(pa.int64()) if column.type != pa.int64() else column
    return whole.fill_null(0).to_numpy(zero_copy_only=False)


def open_rows(io: FileIO, file: InputFile, columns: list[str], *, widths: RowWidths | None = None) -> _Rows:
    """Open a file for those of the columns that it has."""
    match file.file_format:
        case FileFormat.PARQUET:
            return ParquetRows(io, file.path, columns, widths=widths or RowWidths())
        case FileFormat.ORC:
            return OrcRows(io, file.path, columns)
        case FileFormat.AVRO:
            return AvroRows(io, file.path, columns)


def _without_deleted(batch: pa.RecordBatch, position: int, deleted: Positions) -> pa.RecordBatch:
    if not deleted.size:
        return batch
    first, last = np.searchsorted(deleted, [position, position + batch.num_rows])
    if first == last:
        return batch
    keep = np.ones(batch.num_rows, dtype=bool)
    keep[deleted[first:last] - position] = False
    return batch.filter(to_column(keep))


def _row_group_test(
    rows: _Rows, file: InputFile, bounds: KeyBounds | None
) -> tuple[Callable[[Any, Any], bool] | None, str]:
    """A test on the statistics of the first key column, where they can be compared with the bounds as they are."""
    if bounds is None:
        return None, ""
    source = next((c.source for c in file.columns if c.target == bounds.column), None)
    if source is None:
        return None, ""
    kind = rows.schema.field(source).type
    wanted = [bound.type for bound in (bounds.lower, bounds.upper) if bound is not None]
    if kind != wanted[0] or not (pt.is_integer(kind) or pt.is_string(kind) or pt.is_decimal(kind) or pt.is_date(kind)):
        return _never, source
    lower = None if bounds.lower is None else bounds.lower.as_py()
    upper = None if bounds.upper is None else bounds.upper.as_py()
    return lambda low, high: bool((lower is not None and high < lower) or (upper is not None and low >= upper)), source


def _never(_low: object, _high: object) -> bool:
    return False


def _inside(batch: pa.RecordBatch, bounds: KeyBounds) -> pa.RecordBatch:
    """Slice: rows are in the order of keys, so those below a bound come first."""
    column = batch.column(bounds.column)
    first = 0 if bounds.lower is None else _count_below(column, bounds.lower)
    last = batch.num_rows if bounds.upper is None else _count_below(column, bounds.upper)
    return batch.slice(first, max(0, last - first))


def _is_beyond(batch: pa.RecordBatch, evolution: Evolution, bounds: KeyBounds) -> bool:
    """Whether all rows from here on lie behind the upper bound."""
    if bounds.upper is None:
        return False
    return _count_below(evolution.apply(batch.slice(0, 1)).column(bounds.column), bounds.upper) == 0


def _count_below(column: pa.Array, bound: pa.Scalar) -> int:
    nulls = column.null_count
    values = column.drop_null() if nulls else column
    if pt.is_floating(column.type):
        limit = to_java_order(np.array([bound.as_py()], values.to_numpy().dtype))[0]
        return nulls + int(np.count_nonzero(to_java_order(values.to_numpy()) < limit))
    return nulls + int(pc.sum(pc.less(values, bound)).as_py() or 0)
