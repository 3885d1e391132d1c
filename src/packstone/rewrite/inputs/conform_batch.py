"""Batches in the types of a table: values stay as they are, only their encoding and layout may change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.merged_view.row_lanes import read_fixed

_TEXTS = (pt.is_string, pt.is_large_string, pt.is_string_view)
_BINARIES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give rows the fields of the schema; InvalidInputError where that would change a value."""
    if batch.schema.equals(schema, check_metadata=False):
        return batch
    return pa.RecordBatch.from_arrays([_conform_column(batch, field) for field in schema], schema=schema)


def conform_parts(batch: pa.RecordBatch, schema: pa.Schema, *, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same in parts: behind the codes of a dictionary may stand far more bytes than the batch seems to have."""
    size_bytes = _decoded_bytes(batch)
    count = min(batch.num_rows, -(-size_bytes // max(1, max_bytes)))
    if count <= 1:
        yield conform(batch, schema)
        return
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)):
        yield from conform_parts(part, schema, max_bytes=max_bytes)


def _decoded_bytes(batch: pa.RecordBatch) -> int:
    return sum(_coded_bytes(column) if pt.is_dictionary(column.type) else column.nbytes for column in batch.columns)


def _coded_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of the values once they stand in the column one by one."""
    values = column.dictionary
    if not any(test(values.type) for test in (*_TEXTS, *_BINARIES)):
        return len(column) * max(1, values.nbytes // max(1, len(values)))
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    codes = column.indices.drop_null()
    return int(lengths[read_fixed(codes)].sum(dtype=np.int64)) + len(column) * 4 if len(codes) else len(column)


def _conform_column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if batch.schema.get_field_index(field.name) < 0:
        raise InvalidInputError(f"There is no column {field.name}, or two of that name.")
    column = batch.column(field.name)
    if column.type == field.type:
        return column
    plain = column.type.value_type if pt.is_dictionary(column.type) else column.type
    if not _is_like(plain, field.type):
        raise InvalidInputError(f"Column {field.name} is {column.type}, not {field.type}.")
    return column.cast(field.type)


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_nested(found) or pt.is_nested(wanted):
        return pt.is_nested(found) and pt.is_nested(wanted)
    families = (_TEXTS, _BINARIES)
    return found == wanted or any(
        any(test(found) for test in family) and any(test(wanted) for test in family) for family in families
    )
