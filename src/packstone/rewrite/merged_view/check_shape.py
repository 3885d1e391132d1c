"""The columns of a written file: readers find them by name, but others by place, type and field id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from packstone.errors import VerificationError
from packstone.rewrite.merge.merge_spec import FileFormat, OutputSpec, WrittenFile
from packstone.rewrite.parquet.footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

_FIELD_ID = b"PARQUET:field_id"


def check_shape(
    io: FileIO, file: WrittenFile, output: OutputSpec, *, schema: pa.Schema, left_out: Collection[str] = ()
) -> None:
    """Raise unless a Parquet file has exactly the columns asked for, in order; other formats have their own types."""
    if output.file_format is not FileFormat.PARQUET:
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
            raise VerificationError(f"{path}: column {field.name} is {_tell(stored)}, not {_tell(field)}.", file=path)


def _is_stored_as(field: pa.Field, stored: pa.Field) -> bool:
    if _field_id(field) not in {None, _field_id(stored)}:
        return False
    if types.is_nested(field.type):
        return bool(types.is_nested(stored.type))
    # INT96 knows no zone.
    if types.is_timestamp(field.type) and types.is_timestamp(stored.type) and field.type.unit == "ns":
        return bool(stored.type.unit == "ns")
    return bool(stored.type == field.type)


def _field_id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _tell(field: pa.Field) -> str:
    number = _field_id(field)
    return f"{field.type} with field id {number.decode()}" if number else str(field.type)
