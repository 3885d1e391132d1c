"""Read the rows of a data file in the target schema, whatever its format and however old its schema.

The columns of a file are renamed, filled with nulls where they are missing, and cast where the type evolved. Only
casts on which all engines agree are done: to a wider number, to a finer unit of time, between Arrow's several layouts
of one type. Narrowing, parsing and formatting differ between engines, so they are refused with the column's name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import CorruptionError, InvalidInputError, UnfaithfulError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.data_files.avro_rows import AvroRows
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.data_files.orc_rows import OrcRows
from packstone.rewrite.data_files.parquet_rows import ParquetRows, RowWidths
from packstone.rewrite.merge_tree.cursor import FileShare, KeyBounds, count_below, share_of
from packstone.rewrite.merge_tree.spec import (
    SEQUENCE_COLUMN,
    ColumnSource,
    DataFormat,
    Expiry,
    InputFile,
    MergeSpec,
    Positions,
    unpack_positions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

BATCH_BYTES = 8 << 20
_MILLISECONDS_FROM = 10**12  # a BIGINT of at least this value holds milliseconds


class _Rows(Protocol):
    schema: pa.Schema

    def batches(self, *, batch_bytes: int, share: FileShare | None) -> Iterator[tuple[int, pa.RecordBatch]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Selects rows of a file: those in the task's share of the keys that are not expired."""

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
    """Yield the file's rows, without deleted ones, in batches of about ``batch_bytes``; never an empty batch.

    The schema may be any part of the spec's: only the columns that it names are decoded. ``widths`` is shared between
    files of one table, so that the width of rows is measured in the first file only.
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
    """The mask of rows that are not expired, or have no time."""
    kind = column.type
    if pt.is_timestamp(kind):
        per_ms = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
        values = _integers(column)
        millis = values * 1000 if per_ms == 0 else values // per_ms
        seconds = np.sign(millis) * (np.abs(millis) // 1000)  # Java's division rounds towards zero
    elif pt.is_int32(kind):
        seconds = _integers(column)
    elif pt.is_int64(kind):
        values = _integers(column)
        seconds = np.where(values >= _MILLISECONDS_FROM, values // 1000, values)
    else:
        raise InvalidInputError(f"The time of a row must be INT, BIGINT or TIMESTAMP; {expiry.column} is {kind}.")
    young = seconds >= expiry.now_seconds - expiry.expire_seconds
    return young | column.is_null().to_numpy(zero_copy_only=False)


def _integers(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    whole = column.cast(pa.int64()) if column.type != pa.int64() else column
    return whole.fill_null(0).to_numpy(zero_copy_only=False)


def open_rows(io: FileIO, file: InputFile, columns: list[str], *, widths: RowWidths | None = None) -> _Rows:
    """Open a file to read those of the columns that it has."""
    match file.file_format:
        case DataFormat.PARQUET:
            return ParquetRows(io, file.path, columns, widths=widths or RowWidths())
        case DataFormat.ORC:
            return OrcRows(io, file.path, columns)
        case DataFormat.AVRO:
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
    """Whether all rows from this batch on are above the upper bound."""
    if bounds.upper is None:
        return False
    return count_below(evolution.apply(batch.slice(0, 1)).column(bounds.column), bounds.upper) == 0


class Evolution:
    """Converts the batches of one file to the target schema; created once per file."""

    def __init__(self, file: InputFile, found: pa.Schema, wanted: pa.Schema) -> None:
        sources = {column.target: column for column in file.columns}
        self._file = file
        self._wanted = wanted
        self._sources = [sources.get(field.name) for field in wanted]
        self._found = [-1 if one is None else _find(file, found, one.source) for one in self._sources]
        self._override = file.sequence_override
        for field, at in zip(wanted, self._found, strict=True):
            if at >= 0:
                _check_castable(file, field, found.field(at).type)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch."""
        columns = [self._column(batch, field, at) for field, at in zip(self._wanted, self._found, strict=True)]
        for source, column in zip(self._sources, columns, strict=True):
            if source is not None and (source.min_length or source.max_length is not None):
                self._check_lengths(source, column)
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def _check_lengths(self, source: ColumnSource, column: pa.Array) -> None:
        """Refuse values that readers cut or pad to the current length: a rewritten file would show them unchanged."""
        counted = pc.utf8_length(column) if pt.is_string(column.type) else pc.binary_length(column)
        found = pc.min_max(counted)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None or (low >= source.min_length and (source.max_length is None or high <= source.max_length)):
            return
        unit = "characters" if pt.is_string(column.type) else "bytes"
        shown = f"{low} to {high}" if low != high else str(low)
        now = source.max_length if source.min_length else f"at most {source.max_length}"
        raise UnfaithfulError(
            f"{self._file.path}: column {source.target} holds values of {shown} {unit}, and its type now has {now}; "
            "readers cut or pad them, so they would change in a rewritten file. Compact with Java Paimon once"
        )

    def _column(self, batch: pa.RecordBatch, field: pa.Field, at: int) -> pa.Array:
        if field.name == SEQUENCE_COLUMN and self._override is not None:
            return pa.repeat(pa.scalar(self._override, pa.int64()), batch.num_rows)
        if at < 0:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(at)
        if column.type == field.type:
            return column
        try:
            return pc.cast(column, field.type, safe=not _may_round(column.type, field.type))
        except pa.ArrowException as error:
            raise UnfaithfulError(
                f"{self._file.path}: column {field.name} is {column.type} and cannot become {field.type}: "
                f"{one_line(error)}"
            ) from error


def source_columns(file: InputFile, targets: Sequence[str]) -> list[str]:
    """The columns of the file that the targets need, each once."""
    wanted = frozenset(targets)
    return list(dict.fromkeys(c.source for c in file.columns if c.target in wanted and c.source is not None))


def _find(file: InputFile, found: pa.Schema, source: str | None) -> int:
    if source is None:
        return -1
    at = found.get_field_index(source)
    if at < 0:
        raise CorruptionError(f"{file.path} has no column {source}, or more than one.", file=file.path)
    return at


def _check_castable(file: InputFile, field: pa.Field, found: pa.DataType) -> None:
    if found == field.type or _is_widening(found, field.type):
        return
    raise UnfaithfulError(
        f"{file.path}: column {field.name} is {found} and the table's type is now {field.type}; "
        "engines disagree about this cast"
    )


def _is_widening(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is the same value in the other, whatever its layout in Arrow."""
    if pt.is_dictionary(found):
        return found.value_type == wanted or _is_widening(found.value_type, wanted)
    if pt.is_nested(wanted):
        return _is_widening_nested(found, wanted)
    if pt.is_integer(wanted):
        return pt.is_integer(found)  # Avro stores small integers as int; a value that does not fit is an error
    if pt.is_floating(wanted):
        return pt.is_integer(found) or (pt.is_floating(found) and found.bit_width <= wanted.bit_width)
    if pt.is_decimal(wanted):
        return _is_wider_decimal(found, wanted)
    if pt.is_timestamp(wanted):
        return pt.is_timestamp(found)  # a coarser unit is cast safely: digits that would be lost are an error
    if pt.is_time(wanted):
        return pt.is_time(found) or pt.is_int32(found)  # ORC files hold a time as an int
    if pt.is_date(wanted):
        return pt.is_date(found)
    return _is_text(found) and _is_text(wanted)


def _is_widening_nested(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_struct(wanted):
        return pt.is_struct(found) and all(
            wanted.get_field_index(child.name) >= 0 and _same_or_wider(child.type, wanted.field(child.name).type)
            for child in found
        )
    if pt.is_map(wanted):
        return (
            pt.is_map(found)
            and _same_or_wider(found.key_type, wanted.key_type)
            and _same_or_wider(found.item_type, wanted.item_type)
        )
    return _is_list(found) and _is_list(wanted) and _same_or_wider(found.value_type, wanted.value_type)


def _same_or_wider(found: pa.DataType, wanted: pa.DataType) -> bool:
    return found == wanted or _is_widening(found, wanted)


def _is_wider_decimal(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_integer(found):
        return True  # a cast that does not fit is an error
    return pt.is_decimal(found) and found.scale <= wanted.scale


def _is_text(kind: pa.DataType) -> bool:
    return (
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_string_view(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)


def _may_round(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the cast may round: an integer becomes the nearest float, as in every language; others must be exact."""
    return bool(pt.is_integer(found) and pt.is_floating(wanted))


_KEY_PREFIX: Final = "_KEY_"


def with_real_keys(io: FileIO, spec: MergeSpec) -> MergeSpec:
    """Inspect each file, and read key columns that it lacks (thin mode) from the value columns that they mirror.

    Only the file itself shows whether it lacks them: tables switch the mode on and off, and other writers differ.
    """
    sections = tuple(tuple(tuple(_fit_keys(io, file) for file in run) for run in section) for section in spec.sections)
    return replace(spec, sections=sections)


def _fit_keys(io: FileIO, file: InputFile) -> InputFile:
    names = {column.source for column in file.columns if column.source is not None}
    names |= {name.removeprefix(_KEY_PREFIX) for name in names}
    rows = open_rows(io, file, sorted(names))
    held = set(rows.schema.names)
    rows.close()
    columns = tuple(_fit_key(column, held) for column in file.columns)
    return file if columns == file.columns else replace(file, columns=columns)


def _fit_key(column: ColumnSource, held: set[str]) -> ColumnSource:
    source = column.source
    if source is None or source in held or not source.startswith(_KEY_PREFIX):
        return column
    return replace(column, source=source.removeprefix(_KEY_PREFIX))
