"""A file's columns turned into the target's: renamed, filled with nulls where missing, cast where the type evolved.

Only casts are done that every engine agrees about: to a wider number, to a finer unit of time, between Arrow's several
layouts of one type. Narrowing, parsing and formatting differ between engines, so they are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import CorruptionError, UnfaithfulError
from packstone.rewrite.merge.merge_spec import SEQUENCE_COLUMN, ColumnSource, InputFile
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


class Evolution:
    """How the batches of one file become batches of the target schema; made once per file."""

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
        """Turn one batch."""
        columns = [self._column(batch, field, at) for field, at in zip(self._wanted, self._found, strict=True)]
        for source, column in zip(self._sources, columns, strict=True):
            if source is not None and (source.min_length or source.max_length is not None):
                self._check_lengths(source, column)
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def _check_lengths(self, source: ColumnSource, column: pa.Array) -> None:
        """Refuse values that readers cut or pad to the present length: a rewritten file would show them as they are."""
        counted = pc.utf8_length(column) if pt.is_string(column.type) else pc.binary_length(column)
        found = pc.min_max(counted)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None or (low >= source.min_length and (source.max_length is None or high <= source.max_length)):
            return
        unit = "characters" if pt.is_string(column.type) else "bytes"
        shown = f"{low} to {high}" if low != high else str(low)
        now = source.max_length if source.min_length else f"at most {source.max_length}"
        raise UnfaithfulError(
            f"{self._file.path}: column {source.target} holds values of {shown} {unit} and has {now} now; readers cut "
            "or pad them, so they would change in a rewritten file. Compact with Java Paimon once"
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
    """Name the columns of the file that the targets need, each once."""
    wanted = frozenset(targets)
    return list(dict.fromkeys(c.source for c in file.columns if c.target in wanted and c.source is not None))


def _find(file: InputFile, found: pa.Schema, source: str | None) -> int:
    if source is None:
        return -1
    at = found.get_field_index(source)
    if at < 0:
        raise CorruptionError(f"{file.path} has no column {source}, or two of that name.", file=file.path)
    return at


def _check_castable(file: InputFile, field: pa.Field, found: pa.DataType) -> None:
    if found == field.type or _is_widening(found, field.type):
        return
    raise UnfaithfulError(
        f"{file.path}: column {field.name} is {found} and became {field.type}; engines disagree about this cast"
    )


def _is_widening(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is the same value in the other, however Arrow lays it out."""
    if pt.is_dictionary(found):
        return found.value_type == wanted or _is_widening(found.value_type, wanted)
    if pt.is_nested(wanted):
        return _is_widening_nested(found, wanted)
    if pt.is_integer(wanted):
        return pt.is_integer(found)  # Avro stores small ones as int; a value that does not fit is an error
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
    """An integer becomes the nearest float, as in every language; all other casts must be exact."""
    return bool(pt.is_integer(found) and pt.is_floating(wanted))
