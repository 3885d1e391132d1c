"""INT96 beside INT64: PyArrow writes either all timestamps as INT96 or none.

Java Paimon writes nanoseconds as INT96 and coarser units as INT64. So the coarser ones are handed to PyArrow as plain
integers, and get their type back in the footer before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.rewrite.parquet.thrift_compact import Struct, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAIL_BYTES: Final = 8  # the footer's length and the magic
# FileMetaData, SchemaElement
_SCHEMA, _CONVERTED_TYPE, _LOGICAL_TYPE = 2, 6, 10


def split_times(schema: pa.Schema) -> pa.Schema | None:
    """The schema with coarse timestamps as integers, if it also has fine ones; None if PyArrow needs no help."""
    units = {kind.unit for field in schema for kind in leaf_types(field.type) if pt.is_timestamp(kind)}
    if "ns" not in units or len(units) == 1:
        return None
    return pa.schema([field.with_type(_without_coarse(field.type)) for field in schema])


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the Parquet columns that a column becomes, in their order."""
    if not pt.is_nested(kind):
        yield kind
        return
    for at in range(kind.num_fields):
        yield from leaf_types(kind.field(at).type)


def restore_types(footer: Struct, schema: pa.Schema) -> None:
    """Give the integers of a footer the types that PyArrow writes for this schema."""
    plain = _plain_footer(schema)
    for element, wanted in zip(footer[_SCHEMA][1].items, plain[_SCHEMA][1].items, strict=True):
        if element.get(1) != wanted.get(1):
            continue  # INT96 here, INT64 there
        for part in (_CONVERTED_TYPE, _LOGICAL_TYPE):
            element.pop(part, None)
            if part in wanted:
                element[part] = wanted[part]
        ordered = sorted(element.items())
        element.clear()
        element.update(ordered)


def _plain_footer(schema: pa.Schema) -> Struct:
    """The footer of an empty file of this schema, without INT96."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_decimal_as_integer=True, store_schema=False):
        pass
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    return read_struct(data[-_TAIL_BYTES - length : -_TAIL_BYTES])[0]


def _without_coarse(kind: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(kind):
        return kind if kind.unit == "ns" else pa.int64()
    if pt.is_struct(kind):
        return pa.struct([child.with_type(_without_coarse(child.type)) for child in kind])
    if pt.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_without_coarse(kind.key_type)),
            kind.item_field.with_type(_without_coarse(kind.item_type)),
        )
    if pt.is_nested(kind):
        return pa.list_(kind.value_field.with_type(_without_coarse(kind.value_type)))
    return kind
