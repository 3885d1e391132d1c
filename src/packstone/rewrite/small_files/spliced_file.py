"""Write a Parquet file from copied pages and encoded columns: its row groups, their statistics, the footer.

**The file** is written row group by row group, then the footer. The footer is the first input's, field by field
(schema, key-value metadata, writer, column orders, unknown fields), with the row groups replaced. Chunks that PyArrow
encoded come with their own metadata and bloom filters, moved to their new offsets; chunks made of copied pages get
metadata that state what was counted.

**The statistics** of copied chunks are merged: the smallest minimum, the greatest maximum, the sum of the nulls.
Readers skip row groups by these numbers, so a wrong one loses rows in queries: a bound is written only where the order
of the column's type is beyond doubt and every chunk states its own. PyArrow has then already dropped what old writers
got wrong (it identifies them by ``created_by``). A bound may be truncated, so nothing is stated about exactness.

===================================  =====================================================
type                                 order
===================================  =====================================================
integers, dates, times, booleans     as signed numbers; unsigned where the type says so
float, double                        as numbers; no bounds if a bound, or a value, is NaN,
                                     nor a range made of single values (see
                                     ``formats.parquet_file_writer``)
strings and bytes, UUID              byte by byte, unsigned
decimals as bytes                    as signed big-endian numbers
INT96, half floats, intervals, ...   no bounds
===================================  =====================================================
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import PackstoneError
from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_footer import (
    with_row_count,
)
from packstone.rewrite.formats.parquet_pages import SELF_CONTAINED, PageCount
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    read_struct,
    write_struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq


_TAIL_BYTES: Final = 8  # the footer's length and the magic
_PHYSICAL_NUMBERS: Final = {
    "BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7,
}  # fmt: skip
# FileMetaData
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS, _ENCRYPTION, _SIGNING_KEY = 2, 3, 4, 5, 7, 8, 9
# KeyValue
_KEY, _VALUE = 1, 2
# SchemaElement
_NAME, _NUM_CHILDREN = 4, 5
# ColumnChunk
_META_DATA, _PAGE_INDEX = 3, (4, 5, 6, 7)
# ColumnMetaData
_CHUNK_BYTES, _PLAIN_BYTES, _DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET = 7, 6, 9, 10, 11
_BLOOM_OFFSET, _BLOOM_BYTES = 14, 15
_MAX_ORDINAL = 32_767
# Statistics
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_WIDTHS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_BYTEWISE = frozenset({"NONE", "STRING", "ENUM", "JSON", "BSON", "UUID"})
_NUMERIC = frozenset({"NONE", "DATE", "TIME", "TIMESTAMP", "INT", "DECIMAL"})


# LZ4 is left out: two framings have that name, and PyArrow does not show the footer's number for it.
CODEC_NUMBERS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}


class CannotSpliceError(PackstoneError):
    """These files cannot be merged by copying pages: encode them again."""


@dataclass(slots=True)
class SplicedChunk:
    """Copied pages that become one column chunk, and their totals."""

    column: pq.ColumnSchema
    codec: str
    statistics: MergedStatistics
    pieces: list[memoryview] = field(default_factory=list)
    pages: PageCount = field(default_factory=PageCount)
    encodings: set[int] = field(default_factory=set)
    plain_bytes: int = 0

    def add(self, piece: memoryview, pages: PageCount, chunk: pq.ColumnChunkMetaData, *, holds_nan: bool) -> None:
        """Append one input's pages."""
        self.pieces.append(piece)
        self.pages.add(pages)
        self.plain_bytes += chunk.total_uncompressed_size
        self.encodings.update(SELF_CONTAINED[name] for name in chunk.encodings)
        self.statistics.add(chunk, holds_nan=holds_nan)


class SplicedFile:
    """Writes row groups to a sink; ``finish`` writes the footer."""

    def __init__(self, sink: Any, footer: Struct) -> None:
        self._sink, self._footer = sink, footer
        self._paths = _leaf_paths(footer[_SCHEMA][1].items)
        self._groups: list[Struct] = []
        self._rows = 0
        self._at = 0
        self._write(MAGIC)

    def add_group(self, rows: int, copied: dict[int, SplicedChunk], encoded: memoryview) -> None:
        """Write a row group: its columns in the schema's order, copied ones and those of a file that PyArrow wrote."""
        begin, filters, columns = self._at, [], []
        others = iter(_only_group(encoded) if encoded else ())
        for leaf in range(len(self._paths)):
            if leaf in copied:
                columns.append(self._add_copied(self._paths[leaf], copied[leaf]))
            else:
                chunk = next(others)
                columns.append(self._add_encoded(chunk, encoded))
                filters.append(chunk)
        size_bytes = self._at - begin
        for chunk in filters:
            self._add_bloom_filter(chunk[_META_DATA][1], encoded)
        group: Struct = {
            1: (LIST, ThriftList(STRUCT, columns)),
            2: (I64, sum(column[_META_DATA][1][_PLAIN_BYTES][1] for column in columns)),
            3: (I64, rows),
            5: (I64, begin),
            6: (I64, size_bytes),
        }
        if len(self._groups) <= _MAX_ORDINAL:
            group[7] = I16, len(self._groups)
        self._groups.append(group)
        self._rows += rows

    def finish(self) -> None:
        """Write the footer."""
        footer = dict(self._footer)
        footer[_NUM_ROWS] = I64, self._rows
        footer[_ROW_GROUPS] = LIST, ThriftList(STRUCT, self._groups)
        for pair in footer.get(_KEY_VALUES, (LIST, ThriftList(STRUCT, [])))[1].items:
            if _VALUE in pair:
                key = pair[_KEY][1]
                pair[_VALUE] = BINARY, with_row_count({key: pair[_VALUE][1]}, self._rows)[key]
        typed: Struct = {1: (STRUCT, {})}
        footer.setdefault(_COLUMN_ORDERS, (LIST, ThriftList(STRUCT, [typed] * len(self._paths))))
        data = write_struct(dict(sorted(footer.items())))
        self._write(data)
        self._write(len(data).to_bytes(4, "little") + MAGIC)

    def _add_copied(self, path: list[bytes], chunk: SplicedChunk) -> Struct:
        begin, pages = self._at, chunk.pages
        for piece in chunk.pieces:
            self._write(piece)
        counts: list[Struct] = [
            {1: (I32, kind), 2: (I32, encoding), 3: (I32, count)}
            for (kind, encoding), count in sorted(pages.by_encoding.items())
        ]
        metadata: Struct = {
            1: (I32, _PHYSICAL_NUMBERS[chunk.column.physical_type]),
            2: (LIST, ThriftList(I32, sorted(chunk.encodings))),
            3: (LIST, ThriftList(BINARY, path)),
            4: (I32, CODEC_NUMBERS[chunk.codec]),
            5: (I64, pages.values),
            _PLAIN_BYTES: (I64, chunk.plain_bytes),
            _CHUNK_BYTES: (I64, self._at - begin),
            _DATA_OFFSET: (I64, begin),
        }
        statistics = chunk.statistics.to_struct()
        if statistics:
            metadata[12] = STRUCT, statistics
        metadata[13] = LIST, ThriftList(STRUCT, counts)
        return {2: (I64, 0), _META_DATA: (STRUCT, metadata)}

    def _add_encoded(self, chunk: Struct, encoded: memoryview) -> Struct:
        metadata: Struct = chunk[_META_DATA][1]
        begin = min(metadata[at][1] for at in (_DATA_OFFSET, _DICTIONARY_OFFSET) if metadata.get(at, (0, 0))[1])
        moved = self._at - begin
        self._write(encoded[begin : begin + metadata[_CHUNK_BYTES][1]])
        for at in (_DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET):
            if metadata.get(at, (0, 0))[1]:
                metadata[at] = I64, metadata[at][1] + moved
        for at in _PAGE_INDEX:  # the inputs had none, see ``_check_file``
            chunk.pop(at, None)
        chunk[2] = I64, 0
        return dict(sorted(chunk.items()))

    def _add_bloom_filter(self, metadata: Struct, encoded: memoryview) -> None:
        if _BLOOM_OFFSET not in metadata:
            return
        if _BLOOM_BYTES not in metadata:
            raise CannotSpliceError("PyArrow does not state the length of its bloom filter")
        begin, moved_to = metadata[_BLOOM_OFFSET][1], self._at
        self._write(encoded[begin : begin + metadata[_BLOOM_BYTES][1]])
        metadata[_BLOOM_OFFSET] = I64, moved_to

    def _write(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self._at += len(data)


def read_footer(source: Any) -> Struct:
    """Read a footer with all its fields; CannotSpliceError if a field must not be copied into a new file."""
    size_bytes = source.size()
    length = int.from_bytes(source.read_at(4, size_bytes - _TAIL_BYTES), "little")
    footer = _parse_footer(source.read_at(length, size_bytes - _TAIL_BYTES - length))
    if _ENCRYPTION in footer or _SIGNING_KEY in footer:
        raise CannotSpliceError("it has encrypted columns")
    if any(1 not in order for order in footer.get(_COLUMN_ORDERS, (0, ThriftList(STRUCT, [])))[1].items):
        raise CannotSpliceError("it has an unknown column order")
    return footer


def _parse_footer(data: bytes) -> Struct:
    try:
        return read_struct(data)[0]
    except ValueError as error:
        raise CannotSpliceError(f"its footer cannot be read: {error}") from error


def _only_group(encoded: memoryview) -> list[Struct]:
    """Return the column chunks of a file with one row group."""
    length = int.from_bytes(encoded[-_TAIL_BYTES:-4], "little")
    groups = _parse_footer(bytes(encoded[-_TAIL_BYTES - length : -_TAIL_BYTES]))[_ROW_GROUPS][1].items
    if len(groups) != 1:
        raise CannotSpliceError("PyArrow wrote more than one row group")
    columns: list[Struct] = groups[0][1][1].items
    return columns


def _leaf_paths(elements: list[Struct]) -> list[list[bytes]]:
    """List the paths of the leaf columns; a footer lists the schema tree depth first."""
    paths: list[list[bytes]] = []
    rest = iter(elements[1:])

    def descend(children: int, path: list[bytes]) -> None:
        for _ in range(children):
            element = next(rest)
            name: bytes = element[_NAME][1]
            below = element.get(_NUM_CHILDREN, (0, 0))[1]
            if below:
                descend(below, [*path, name])
            else:
                paths.append([*path, name])

    descend(elements[0].get(_NUM_CHILDREN, (0, 0))[1], [])
    return paths


class MergedStatistics:
    """The merged statistics of the chunks added so far."""

    __slots__ = ("_key", "_max", "_min", "_null_count", "_of_single", "_physical")

    def __init__(self, column: pq.ColumnSchema) -> None:
        self._physical = column.physical_type
        self._key = _order_of(column)
        self._null_count: int | None = 0
        self._min: Any = None
        self._max: Any = None
        self._of_single = False  # whether some chunk states the same value as both bounds

    def add(self, chunk: pq.ColumnChunkMetaData, *, holds_nan: bool = False) -> None:
        """Add one chunk's statistics; its bounds ignore a NaN, see ``formats.parquet_file_writer``."""
        found = chunk.statistics if chunk.is_stats_set else None
        nulls = found.null_count if found is not None and found.has_null_count else None
        self._null_count = None if self._null_count is None or nulls is None else self._null_count + nulls
        if self._key is None or nulls == chunk.num_values:
            return  # nothing but nulls: no bounds, and none needed
        if found is None or not found.has_min_max or holds_nan:
            self._key = None
            return
        low, high = found.min_raw, found.max_raw
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            self._key = None
            return
        self._of_single |= low == high
        self._min = low if self._min is None else min(self._min, low, key=self._key)
        self._max = high if self._max is None else max(self._max, high, key=self._key)

    def to_struct(self) -> Struct:
        """Return the Statistics struct; empty if nothing is known."""
        statistics: Struct = {}
        if self._null_count is not None:
            statistics[_NULL_COUNT] = I64, self._null_count
        if self._key is not None and self._min is not None and not self._is_introduced_range():
            low, high = self._min, self._max
            if isinstance(low, float):  # -0.0 is below 0.0 to some readers: a bound must hold both
                low, high = low or -0.0, high or 0.0
            statistics[_MAX_VALUE] = BINARY, self._encode(high)
            statistics[_MIN_VALUE] = BINARY, self._encode(low)
        return statistics

    def _is_introduced_range(self) -> bool:
        is_range = self._min != self._max and not self._null_count
        return self._physical in _FLOATS and self._of_single and is_range

    def _encode(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else struct.pack(_WIDTHS[self._physical], value)


def _order_of(column: pq.ColumnSchema) -> Callable[[Any], Any] | None:
    """Return the key by which values of a column's type are compared; None where the order is unknown."""
    physical, logical = column.physical_type, column.logical_type.type
    if physical in ("INT32", "INT64") and logical in _NUMERIC:
        is_signed = logical != "INT" or json.loads(column.logical_type.to_json())["isSigned"]
        bits = 32 if physical == "INT32" else 64
        return _same if is_signed else lambda value: value % (1 << bits)
    if physical in ("FLOAT", "DOUBLE", "BOOLEAN") and logical == "NONE":
        return _same
    if physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        if logical == "DECIMAL":
            return lambda value: int.from_bytes(value, "big", signed=True)
        return _same if logical in _BYTEWISE else None
    return None


def _same(value: Any) -> Any:
    return value


def field_of(file: pq.ParquetFile, leaf: int) -> str:
    """Name the top-level field that a column belongs to (names contain no dots, see ``_check_schema``)."""
    path: str = file.metadata.schema.column(leaf).path
    return path.split(".", 1)[0]


def leaves_of(file: pq.ParquetFile, name: str) -> list[int]:
    """Number the columns of a top-level field."""
    return [leaf for leaf in range(file.metadata.num_columns) if field_of(file, leaf) == name]


def encoded_fields(file: pq.ParquetFile, copied: Sequence[int]) -> tuple[str, ...]:
    """Name the fields of which not every column was copied."""
    rest = sorted(set(range(file.metadata.num_columns)) - set(copied))
    return tuple(dict.fromkeys(field_of(file, leaf) for leaf in rest))


def copied_fields(file: pq.ParquetFile, copied: Sequence[int]) -> tuple[str, ...]:
    """Name the fields whose columns were copied."""
    return tuple(dict.fromkeys(field_of(file, leaf) for leaf in copied))
