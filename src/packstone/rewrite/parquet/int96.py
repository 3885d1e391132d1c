"""INT96 timestamps: nanoseconds of a Julian day, wider than 64 bits can say.

PyArrow decodes INT96 into 64-bit nanoseconds and silently wraps what does not fit: 9999-12-31 becomes 1816.
In microseconds the range fits, but nanosecond digits are cut. So every value is decoded in both units. With *n*
the (wrapped) nanoseconds and *u* the microseconds, modulo 2^64:

- ``n == 1000 u`` says that there are no digits below the microsecond, wrapped or not;
- ``u`` outside the 64-bit range of nanoseconds says that *n* has wrapped.

A column with nanosecond digits *and* a wrapped value fits neither unit, and is left alone. So is one in which even
the microseconds have wrapped (a broken writer's year 1,000,000): seconds never do, so they tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packstone.errors import UnfaithfulError
from packstone.rewrite.parquet.batches import read_batches
from packstone.rewrite.parquet.footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

_US_LIMIT = (2**63 - 1) // 1000
_BATCH_ROWS = 65_536


def int96_columns(file: pq.ParquetFile) -> list[str]:
    """Name the leaf columns that are stored as INT96."""
    schema = file.metadata.schema
    return [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]


def find_int96_unit(io: FileIO, paths: Sequence[str]) -> str:
    """Choose the unit ("us" or "ns") in which all INT96 values of the files survive."""
    needs_digits = needs_range = ""
    for path in paths:
        for seconds, micros, nanos in _values_in_all_units(io, path):
            if bool((micros // 1_000_000 != seconds).any()):
                raise UnfaithfulError(f"{path} has an INT96 date beyond the year 294246, which no Arrow type holds")
            with np.errstate(over="ignore"):
                if not needs_digits and bool((micros * np.int64(1000) != nanos).any()):
                    needs_digits = path
            if not needs_range and micros.size and (micros.max() > _US_LIMIT or micros.min() < -_US_LIMIT):
                needs_range = path
        if needs_digits and needs_range:
            raise UnfaithfulError(
                "an INT96 column holds nanosecond digits as well as dates outside 1677-2262, which no Arrow type holds"
            )
    return "ns" if needs_digits else "us"


def read_in_unit(io: FileIO, path: str, unit: str, *, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the INT96 columns decoded in a unit, in the batches that a read in any other unit has."""
    with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
        yield from read_batches(file, path, batch_rows=batch_rows, columns=columns)


def _values_in_all_units(io: FileIO, path: str) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
    with open_parquet(io, path) as file:
        columns = int96_columns(file)
    readers = [read_in_unit(io, path, unit, columns=columns, batch_rows=_BATCH_ROWS) for unit in ("s", "us", "ns")]
    for batches in zip(*readers, strict=True):
        yield from zip(*map(_timestamps, batches), strict=True)


def _timestamps(batch: pa.RecordBatch) -> Iterator[np.ndarray[Any, Any]]:
    for column in batch.columns:
        yield from _timestamp_leaves(column)


def _timestamp_leaves(array: pa.Array) -> Iterator[np.ndarray[Any, Any]]:
    """Dig the timestamps out of structs, lists and maps, without the nulls."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        yield array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _timestamp_leaves(child)
    elif pa.types.is_map(kind):
        yield from _timestamp_leaves(array.keys)
        yield from _timestamp_leaves(array.items)
    else:  # a list: large, of fixed size and as a view too, where ARROW:schema says so
        yield from _timestamp_leaves(array.flatten())
