"""INT96 timestamps: nanoseconds of a Julian day, wider than 64 bits can say.

PyArrow decodes INT96 into 64-bit nanoseconds and silently wraps what does not fit: 9999-12-31 becomes 1816. In
microseconds the range fits, but nanosecond digits are cut. And some writers (Flink, Paimon) store a time before 1970 as
a negative number of nanoseconds of the day after: PyArrow reads that rightly as nanoseconds, and as another century in
any other unit. None of this can be told from decoded values, so the twelve bytes themselves are looked at: PyArrow
hands them out if the footer that it is given calls the column a FIXED_LEN_BYTE_ARRAY.

A column with nanosecond digits or such negative times *and* a date that nanoseconds do not hold fits neither unit, and
is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.parquet.batches import read_batches
from packstone.rewrite.parquet.check_footer import MAGIC
from packstone.rewrite.parquet.footer import one_line, open_parquet
from packstone.rewrite.parquet.thrift_compact import I32, Struct, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

_US_LIMIT = (2**63 - 1) // 1000
_DAY_US = 86_400_000_000
_MAX_DAYS_NS = _US_LIMIT // _DAY_US
_MAX_DAYS_US = (2**63 - 1) // _DAY_US - 1
_JULIAN_1970 = 2_440_588
_INT96_BYTES = 12
_INT96 = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_BATCH_ROWS = 65_536
_TAIL_BYTES = 8  # the footer's length and the magic
# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _COLUMNS, _META_DATA, _STATISTICS = 2, 4, 5, 1, 3, 12
# SchemaElement (and ColumnMetaData), and the numbers of the physical types
_TYPE, _TYPE_LENGTH, _INT96_TYPE, _BINARY_TYPE = 1, 2, 3, 7


def int96_columns(file: pq.ParquetFile) -> list[str]:
    """Name the leaf columns that are stored as INT96."""
    schema = file.metadata.schema
    return [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]


def find_int96_unit(io: FileIO, paths: Sequence[str]) -> str:
    """Choose the unit ("us" or "ns") in which all INT96 values of the files survive."""
    needs_nanos = needs_range = False
    for path in paths:
        for days, nanos in _raw_values(io, path):
            if bool((np.abs(days) > _MAX_DAYS_US).any()):
                raise UnfaithfulError(f"{path} has an INT96 date beyond the year 294246, which no Arrow type holds")
            needs_nanos = needs_nanos or bool(((nanos % 1000 != 0) | (nanos < 0)).any())
            needs_range = needs_range or not fit_nanoseconds(days, nanos)
        if needs_nanos and needs_range:
            raise UnfaithfulError(
                "an INT96 column holds nanosecond digits as well as dates outside 1677-2262, which no Arrow type holds"
            )
    return "ns" if needs_nanos else "us"


def _raw_values(io: FileIO, path: str) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    with open_parquet(io, path) as file:
        columns = int96_columns(file)
    with open_raw_int96(io, path) as file:
        for batch in read_batches(file, path, batch_rows=_BATCH_ROWS, columns=columns):
            yield from raw_int96(batch)


def open_raw_int96(io: FileIO, path: str) -> pq.ParquetFile:
    """Open a file that ``open_parquet`` can open; its INT96 columns come as the twelve bytes that they are."""
    source = io.open_input(path)
    size_bytes = source.size()
    length = int.from_bytes(source.read_at(4, size_bytes - _TAIL_BYTES), "little")
    try:
        footer, _ = read_struct(source.read_at(length, size_bytes - _TAIL_BYTES - length))
        data = write_struct(_as_binaries(footer))
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + data + len(data).to_bytes(4, "little") + MAGIC))
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=False, page_checksum_verification=True)
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise UnreadableFileError(f"{path} has a broken Parquet footer: {one_line(error)}.", file=path) from error


def raw_int96(batch: pa.RecordBatch) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield of each column of twelve bytes the days since 1970 and the nanoseconds of the day, without the nulls."""
    for column in batch.columns:
        for leaf in _binary_leaves(column):
            values = leaf.drop_null()
            raw = np.frombuffer(values.buffers()[1] or b"", _INT96)[values.offset : values.offset + len(values)]
            yield raw["day"].astype(np.int64) - _JULIAN_1970, raw["nanos"]


def fit_nanoseconds(days: np.ndarray[Any, Any], nanos: np.ndarray[Any, Any]) -> bool:
    """Whether 64-bit nanoseconds since 1970 hold all of these."""
    if bool((np.abs(days) > _MAX_DAYS_NS).any()):
        return False
    micros = days * _DAY_US + nanos // 1000
    return not bool((np.abs(micros) > _US_LIMIT).any())


def read_in_unit(io: FileIO, path: str, unit: str, *, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the INT96 columns decoded in a unit, in the batches that a read in any other unit has."""
    with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
        yield from read_batches(file, path, batch_rows=batch_rows, columns=columns)


def _as_binaries(footer: Struct) -> Struct:
    """Call INT96 a binary of twelve bytes, in the schema and in every column chunk."""
    for element in footer[_SCHEMA][1].items:
        if element.get(_TYPE) == (I32, _INT96_TYPE):
            element[_TYPE] = I32, _BINARY_TYPE
            element[_TYPE_LENGTH] = I32, _INT96_BYTES
            ordered = sorted(element.items())
            element.clear()
            element.update(ordered)
    for group in footer[_ROW_GROUPS][1].items:
        for chunk in group[_COLUMNS][1].items:
            metadata = chunk[_META_DATA][1]
            if metadata[_TYPE] == (I32, _INT96_TYPE):
                metadata[_TYPE] = I32, _BINARY_TYPE
                metadata.pop(_STATISTICS, None)
    footer.pop(_KEY_VALUES, None)  # `ARROW:schema` would ask for timestamps
    return footer


def _binary_leaves(array: pa.Array) -> Iterator[pa.Array]:
    """Dig the values out of structs, lists and maps."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        yield array
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _binary_leaves(child)
    elif pa.types.is_map(kind):
        yield from _binary_leaves(array.keys)
        yield from _binary_leaves(array.items)
    elif pa.types.is_nested(kind):
        yield from _binary_leaves(array.flatten())
