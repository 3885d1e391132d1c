"""The files of a bucket as the strategies see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from packstone.model.sorted_run import TreeFile
from packstone.strategy.append_view import AppendFile
from packstone.tables.paimon.binary_row import decode_row, key_reader
from packstone.tables.paimon.data_file_meta import FileSource
from packstone.tables.paimon.data_type import TypeRoot, time_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.sorted_run import Key
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.data_type import DataType
    from packstone.tables.paimon.table_schema import TableSchema

_MILLIS_FROM = 10**12  # a BIGINT time from here up counts milliseconds, below it seconds
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def key_order(schema: TableSchema) -> Callable[[bytes], Key]:
    """Make the function that turns a serialised key into something with Paimon's order."""
    return cast("Callable[[bytes], Key]", key_reader(schema.key_types))


def tree_file(
    meta: DataFileMeta, order: Callable[[bytes], Key], *, has_vector: bool = False, may_be_expired: bool = False
) -> TreeFile:
    """Describe one file of a merge tree."""
    return TreeFile(
        name=meta.file_name,
        level=meta.level,
        size_bytes=meta.file_size,
        min_key=order(meta.min_key),
        max_key=order(meta.max_key),
        delete_rows=meta.delete_row_count,
        has_deletion_vector=has_vector,
        may_be_expired=may_be_expired,
        min_sequence=meta.min_sequence_number,
        max_sequence=meta.max_sequence_number,
        created_ms=meta.creation_time_ms or 0,
    )


def append_file(meta: DataFileMeta, *, dv_index: str = "", deleted_rows: int | None = 0) -> AppendFile:
    """Describe one file of a table without keys."""
    return AppendFile(
        size_bytes=meta.file_size,
        rows=meta.row_count,
        deleted_rows=deleted_rows,
        dv_index=dv_index,
        is_compacted=meta.file_source is FileSource.COMPACT,
    )


def oldest_second(meta: DataFileMeta, column: str, schemas: Mapping[int, TableSchema]) -> int | None:
    """The smallest time in a file, in seconds, from its statistics; None if they do not tell."""
    schema = schemas[meta.schema_id]
    names = meta.value_stats_cols
    columns = tuple(field for field in schema.value_fields if names is None or field.name in names)
    if names is not None:
        columns = tuple(schema.field(name) for name in names)
    types = tuple(field.type for field in columns)
    if column not in (field.name for field in columns) or not _has_arity(meta.value_stats.min_values, len(types)):
        return None
    at = next(at for at, field in enumerate(columns) if field.name == column)
    value = decode_row(meta.value_stats.min_values, types)[at]
    return None if value is None else seconds_of(cast("int", value), types[at])


def seconds_of(value: int, data_type: DataType) -> int:
    """Read a record-level time field: INT is seconds, a big BIGINT milliseconds, timestamps are cut to seconds."""
    if data_type.root is TypeRoot.BIGINT:
        return value // 1000 if value >= _MILLIS_FROM else value
    if data_type.root is TypeRoot.INT:
        return value
    return value // _PER_SECOND[time_unit(data_type)]


def _has_arity(row: bytes, arity: int) -> bool:
    return int.from_bytes(row[:4], "big") == arity
