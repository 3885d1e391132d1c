"""The facts that an index records of the row groups of a file, as a small Arrow batch: its *part* of the index.

=====================  ==================================================================================
`row_group`, `rows`    its number in the file, and its number of rows
`size_bytes, offset`   of its compressed pages in the file
`start.c`, `end.c`     of each sort column: the values of the first and of the last row, whole and exact
`min.c`, `max.c`       of each column that has an order; null if there is no value or the bound is unknown
`nulls.c`              the number of nulls
`nan.c`                of float columns: whether there is a NaN; it is in neither min nor max
`exact.c`              of strings and binaries: false if min or max was cut to 256 bytes
=====================  ==================================================================================

Bounds of strings are binary, because they are compared by bytes and a bound that was cut may not be a valid string. A
lower bound is cut; an upper bound is cut and its last byte incremented, or null if that is impossible. A null bound in
a row group with values means that it may hold any value. The smallest zero is -0.0, the largest 0.0.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import CorruptionError
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.data_files.parquet_output import (
    find_extremes,
    footer_value,
    has_long_values,
    has_order,
    is_in_footer,
)
from packstone.rewrite.formats.parquet_checks import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

MAX_BOUND_BYTES = 256
_READ_BYTES = 4 << 20
_HIGHEST_BYTE = 0xFF


def part_schema(schema: pa.Schema, sort_columns: Sequence[str]) -> pa.Schema:
    """The schema of a part, for files with this schema and these sort columns."""
    fields = [
        pa.field("row_group", pa.int32()),
        pa.field("rows", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("offset", pa.int64()),
    ]
    for name in sort_columns:
        fields += [pa.field(f"{end}.{name}", schema.field(name).type) for end in ("start", "end")]
    for field in schema:
        if has_order(field.type):
            bound = pa.binary() if is_bytes(field.type) else field.type
            fields += [pa.field(f"min.{field.name}", bound), pa.field(f"max.{field.name}", bound)]
            fields.append(pa.field(f"nulls.{field.name}", pa.int64()))
        if pt.is_floating(field.type):
            fields.append(pa.field(f"nan.{field.name}", pa.bool_()))
        if is_bytes(field.type):
            fields.append(pa.field(f"exact.{field.name}", pa.bool_()))
    return pa.schema(fields)


def read_part(data: bytes) -> pa.RecordBatch:
    """Read the part in a result."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


def bloom_checksum(source: Any, footer: pq.FileMetaData) -> int:
    """Return the CRC-32 of the part of an open file that contains all its bloom filters; 0 if it has none.

    Parquet has checksums for pages only, and a bit of a filter that is lost hides rows.
    """
    chunks = [
        footer.row_group(at).column(leaf) for at in range(footer.num_row_groups) for leaf in range(footer.num_columns)
    ]
    found = [(chunk, getattr(chunk, "bloom_filter_offset", None)) for chunk in chunks]
    ends = [(offset, offset + (chunk.bloom_filter_length or 0)) for chunk, offset in found if offset is not None]
    if not ends:
        return 0
    return _checksum(source, min(ends)[0], max(last for _, last in ends))


def page_index_checksum(source: Any, footer: pq.FileMetaData, *, footer_begin: int) -> int:
    """Return the CRC-32 of the page indexes: what lies between the pages or bloom filters and the footer.

    A reader that skips pages by them loses rows if a bit is lost. The footer must be sound.
    """
    begin = len(MAGIC)
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        for chunk in (group.column(leaf) for leaf in range(group.num_columns)):
            bloom = getattr(chunk, "bloom_filter_offset", None)
            blooms_end = 0 if bloom is None else bloom + (chunk.bloom_filter_length or 0)
            begin = max(begin, min(_starts([chunk])) + chunk.total_compressed_size, blooms_end)
    return _checksum(source, begin, footer_begin)


def _checksum(source: Any, at: int, end: int) -> int:
    checksum = 0
    while at < end and (data := source.read_at(min(_READ_BYTES, end - at), at)):
        checksum, at = zlib.crc32(data, checksum), at + len(data)
    return checksum


def write_part(part: pa.RecordBatch) -> bytes:
    """Return a part as the bytes that `read_part` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema) as writer:
        writer.write_batch(part)
    return bytes(sink.getvalue().to_pybytes())


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are strings or binaries of any length, whose bounds may be cut."""
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind))


def leaf_numbers(schema: pa.Schema) -> dict[str, int]:
    """The position of each column that is not nested in a Parquet footer, which numbers leaves."""
    found, at = {}, 0
    for field in schema:
        leaves = _count_leaves(field.type)
        if not pt.is_nested(field.type):
            found[field.name] = at
        at += leaves
    return found


def cut_bounds(low: bytes | None, high: bytes | None) -> tuple[bytes | None, bytes | None, bool]:
    """Cut bounds that are too long, so that they remain bounds; also return whether both are unchanged."""
    is_exact = all(bound is None or len(bound) <= MAX_BOUND_BYTES for bound in (low, high))
    if low is not None:
        low = low[:MAX_BOUND_BYTES]
    if high is not None and len(high) > MAX_BOUND_BYTES:
        kept = high[:MAX_BOUND_BYTES].rstrip(bytes([_HIGHEST_BYTE]))
        high = kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    return low, high, is_exact


class PartBuilder:
    """Builds the part of a file that is being written, row group by row group."""

    def __init__(self, schema: pa.Schema, sort_columns: Sequence[str]) -> None:
        self._schema, self._sort_columns = schema, sort_columns
        self._ordered = [field for field in schema if has_order(field.type)]
        self._ends: dict[str, list[pa.Array]] = {name: [] for name in sort_columns}
        self._nulls: dict[str, list[int]] = {field.name: [] for field in self._ordered}
        self._nans: dict[str, list[bool]] = {field.name: [] for field in self._ordered if pt.is_floating(field.type)}
        # Smallest and largest values that the footer will not have, by row group and column.
        self._own: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._groups = 0

    def add(self, rows: pa.Table) -> None:
        """Add the facts of the rows of one more row group."""
        edges = to_column(np.array([0, rows.num_rows - 1]))
        for name, ends in self._ends.items():
            # Copies of the values: a slice would keep the whole row group in memory.
            ends.append(rows.column(name).take(edges).combine_chunks())
        for field in self._ordered:
            column = rows.column(field.name)
            self._nulls[field.name].append(column.null_count)
            if field.name in self._nans:
                self._nans[field.name].append(bool(pc.any(pc.is_nan(column)).as_py()))
            has_nan = field.name in self._nans and self._nans[field.name][-1]
            if has_nan or not is_in_footer(field.type) or has_long_values(column):
                self._own[self._groups, field.name] = _extremes(column)
        self._groups += 1

    def finish(self, footer: pq.FileMetaData) -> bytes:
        """Combine the facts with those of the footer; return the part as bytes."""
        if footer.num_row_groups != self._groups:
            raise CorruptionError(f"The footer has {footer.num_row_groups} row groups, not {self._groups} as written.")
        columns: dict[str, Any] = {
            "row_group": list(range(self._groups)),
            "rows": [footer.row_group(at).num_rows for at in range(self._groups)],
        }
        columns["size_bytes"], columns["offset"] = _sizes_and_offsets(footer)
        for name, ends in self._ends.items():
            joined = pa.concat_arrays(ends)
            for at, end in enumerate(("start", "end")):
                columns[f"{end}.{name}"] = joined.take(to_column(np.arange(at, len(joined), 2)))
        leaves = leaf_numbers(self._schema)
        for field in self._ordered:
            columns |= self._column(footer, field, leaves[field.name])
        schema = part_schema(self._schema, self._sort_columns)
        arrays = [_to_array(columns[field.name], field.type) for field in schema]
        return write_part(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def _column(self, footer: pq.FileMetaData, field: pa.Field, leaf: int) -> dict[str, list[Any]]:
        lows, highs, exacts = [], [], []
        for group in range(self._groups):
            own = self._own.get((group, field.name))
            low, high = own if own is not None else _footer_extremes(footer.row_group(group).column(leaf), field.type)
            is_exact = True
            if is_bytes(field.type):
                low, high, is_exact = cut_bounds(low, high)
            elif pt.is_floating(field.type) and low is not None:
                low, high = low or -0.0, high or 0.0
            lows.append(low)
            highs.append(high)
            exacts.append(is_exact)
        name = field.name
        facts: dict[str, list[Any]] = {f"min.{name}": lows, f"max.{name}": highs, f"nulls.{name}": self._nulls[name]}
        if name in self._nans:
            facts[f"nan.{name}"] = self._nans[name]
        if is_bytes(field.type):
            facts[f"exact.{name}"] = exacts
        return facts


def find_wrong_bounds(part: pa.RecordBatch, footer: pq.FileMetaData, schema: pa.Schema) -> str | None:
    """The first column of which a part and a footer state different nulls or bounds; None if they agree.

    What only one of them states is not compared: a footer has no bounds of a row group with a NaN, nor of long values.
    """
    leaves, groups = leaf_numbers(schema), range(footer.num_row_groups)
    for field in (one for one in schema if has_order(one.type) and is_in_footer(one.type)):
        name = field.name
        found = [footer.row_group(at).column(leaves[name]) for at in groups]
        stated = [chunk.statistics if chunk.is_stats_set else None for chunk in found]
        facts = {"nulls": [one.null_count if one is not None and one.has_null_count else None for one in stated]}
        bounds = [_footer_extremes(chunk, field.type) for chunk in found]
        if is_bytes(field.type):
            bounds = [cut_bounds(low, high)[:2] for low, high in bounds]
        facts |= {"min": [low for low, _ in bounds], "max": [high for _, high in bounds]}
        for fact, values in facts.items():
            recorded = part.column(f"{fact}.{name}")
            if pc.any(pc.not_equal(pa.array(values, recorded.type), recorded)).as_py():
                return str(name)
    return None


def _count_leaves(kind: pa.DataType) -> int:
    if not pt.is_nested(kind):
        return 1
    return sum(_count_leaves(kind.field(at).type) for at in range(kind.num_fields))


def _extremes(column: pa.ChunkedArray) -> tuple[Any, Any]:
    smallest: Any = None
    largest: Any = None
    for low, high in map(find_extremes, column.chunks):  # one chunk at a time: values may be megabytes long
        if low is not None:
            smallest = low if smallest is None else min(smallest, low)
            largest = high if largest is None else max(largest, high)
    return smallest, largest


def _footer_extremes(chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> tuple[Any, Any]:
    found = chunk.statistics
    if found is None or not found.has_min_max:
        return None, None
    return footer_value(found.min_raw, kind), footer_value(found.max_raw, kind)


def _sizes_and_offsets(footer: pq.FileMetaData) -> tuple[list[int], list[int]]:
    """Size and offset of each row group's pages."""
    sizes, offsets = [], []
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        chunks = [group.column(number) for number in range(group.num_columns)]
        sizes.append(sum(chunk.total_compressed_size for chunk in chunks))
        offsets.append(min(_starts(chunks), default=0))
    return sizes, offsets


def _starts(chunks: Sequence[pq.ColumnChunkMetaData]) -> Iterator[int]:
    for chunk in chunks:
        yield chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            yield chunk.dictionary_page_offset


def _to_array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, type=kind)
