"""Rows of one data file in the target schema, whatever its format and the age of its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.data_files.avro_rows import AvroRows
from packstone.rewrite.data_files.evolve import Evolution, source_columns
from packstone.rewrite.data_files.key_share import FileShare, KeyBounds, count_below, share_of
from packstone.rewrite.data_files.orc_rows import OrcRows
from packstone.rewrite.data_files.parquet_rows import ParquetRows, RowWidths
from packstone.rewrite.merge.deleted_positions import Positions, unpack_positions
from packstone.rewrite.merge.merge_spec import Expiry, FileFormat, InputFile
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

BATCH_BYTES = 8 << 20
_MILLISECONDS_FROM = 10**12  # a BIGINT from here on holds milliseconds


class _Rows(Protocol):
    schema: pa.Schema

    def batches(self, *, batch_bytes: int, share: FileShare | None) -> Iterator[tuple[int, pa.RecordBatch]]: ...

    def close(self) -> None: ...


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
    share = share_of(file, rows.schema, keep.bounds)
    read = 0
    for position, batch in rows.batches(batch_bytes=batch_bytes, share=share):
        read += batch.num_rows
        kept = evolution.apply(_without_deleted(batch, position, deleted))
        if keep.bounds is not None and kept.num_rows:
            kept = keep.bounds.cut(kept)
            if not kept.num_rows and _is_beyond(batch, evolution, keep.bounds):
                return
        if keep.expiry is not None and kept.num_rows:
            kept = kept.filter(to_column(not_expired(kept.column(keep.expiry.column), keep.expiry)))
        if kept.num_rows:
            yield kept
    if keep.bounds is None and read != file.rows:
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


def _is_beyond(batch: pa.RecordBatch, evolution: Evolution, bounds: KeyBounds) -> bool:
    """Whether all rows from here on lie behind the upper bound."""
    if bounds.upper is None:
        return False
    return count_below(evolution.apply(batch.slice(0, 1)).column(bounds.column), bounds.upper) == 0
