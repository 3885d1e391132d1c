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
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import PackstoneError
from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_footer import (
    with_row_count,
)
from packstone.rewrite.formats.parquet_pages import DICTIONARY_PAGE, Page, PageCount
from packstone.rewrite.formats.parquet_scan import list_head
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftList,
    read_struct,
    write_number,
    write_struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.rewrite.formats.parquet_scan import ChunkPlaces


_TAIL_BYTES: Final = 8  # the footer's length and the magic
_PHYSICAL_NUMBERS: Final = {
    "BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}  # fmt: skip
# FileMetaData
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS, _ENCRYPTION, _SIGNING_KEY = 2, 3, 4, 5, 7, 8, 9
# KeyValue
_KEY, _VALUE = 1, 2
# SchemaElement
_NAME, _NUM_CHILDREN = 4, 5
# ColumnChunk
_META_DATA, _OFFSET_INDEX, _COLUMN_INDEX = 3, (4, 5), (6, 7)
# ColumnMetaData
_CHUNK_BYTES, _PLAIN_BYTES, _DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET = 7, 6, 9, 10, 11
_BLOOM_OFFSET, _BLOOM_BYTES, _SIZES = 14, 15, 16
# BoundaryOrder
_UNORDERED, _ASCENDING, _DESCENDING = range(3)
_WRITTEN_BYTES: Final = 256 << 10
_MAX_ORDINAL = 32_767
# Statistics
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_WIDTHS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_BYTEWISE = frozenset({"NONE", "STRING", "ENUM", "JSON", "BSON", "UUID"})
_NUMERIC = frozenset({"NONE", "DATE", "TIME", "TIMESTAMP", "INT", "DECIMAL"})


# By PyArrow's names. Its LZ4 is LZ4_RAW; frames of Hadoop, the older meaning, are UNKNOWN to it.
CODEC_NUMBERS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}


class CannotSpliceError(PackstoneError):
    """These files cannot be merged by copying pages: encode them again."""


@dataclass(slots=True)
class InputChunk:
    """A column chunk of an input: what its footer and its page index state."""

    chunk: pq.ColumnChunkMetaData
    values: int
    has_bloom_filter: bool
    statistics: pq.Statistics | None
    sizes: Struct  # the size statistics; empty if there are none
    indexes: Struct  # where the page indexes are
    stated_nulls: int | None  # as stated, for every type
    index: memoryview = field(default_factory=lambda: memoryview(b""))  # the page index of its row group
    index_begin: int = 0  # the offset of ``index`` in the file

    @classmethod
    def of(cls, chunk: pq.ColumnChunkMetaData, places: ChunkPlaces, leaf: int) -> InputChunk:
        """Return the chunk, by what PyArrow and our own scan found in its footer."""
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is not None and statistics.has_null_count:
            nulls: int | None = statistics.null_count
        else:
            nulls = places.read_statistics(leaf).get(_NULL_COUNT, (0, None))[1]
        sizes, indexes = places.read_sizes(leaf), places.read_indexes(leaf)
        return cls(chunk, places.values[leaf], bool(places.blooms[leaf]), statistics, sizes, indexes, nulls)

    def null_count(self) -> int | None:
        """The number of nulls; PyArrow does not read the statistics of INT96."""
        if self.chunk.physical_type == "INT96":
            return self.stated_nulls
        statistics = self.statistics
        return statistics.null_count if statistics is not None and statistics.has_null_count else None

    def offset_index(self) -> Struct | None:
        """Where the pages are; None if that is not stated."""
        return self._read_index(*_OFFSET_INDEX)

    def column_index(self) -> Struct | None:
        """The bounds of the pages; None if they are not stated."""
        return self._read_index(*_COLUMN_INDEX)

    def _read_index(self, offset: int, length: int) -> Struct | None:
        if offset not in self.indexes or length not in self.indexes:
            return None
        begin = self.indexes[offset][1] - self.index_begin
        if not 0 <= begin <= begin + self.indexes[length][1] <= len(self.index):
            return None
        try:
            return read_struct(self.index, begin)[0]
        except ValueError as error:
            raise CannotSpliceError(f"its page index cannot be read: {error}") from error


@dataclass(slots=True)
class SplicedChunk:
    """Pages of the inputs that become one column chunk, and what footer and page index state about them."""

    column: pq.ColumnSchema
    codec: str
    statistics: MergedStatistics
    pieces: list[bytes | memoryview] = field(default_factory=list)
    pages: PageCount = field(default_factory=PageCount)
    encodings: set[int] = field(default_factory=set)
    plain_bytes: int = 0
    size_bytes: int = 0
    dictionary_bytes: int = 0  # of the dictionary page with its header
    bloom_filter: bytes = b""
    is_copied: bool = True  # whether it consists of unchanged pages only
    _places: list[tuple[int, int]] = field(default_factory=list)
    _first_rows: list[int] = field(default_factory=list)
    _rows: int = 0
    _index: _PageIndex | None = None
    _sizes: _Sizes | None = None

    def put_dictionary(self, header: bytes, body: bytes, *, plain_bytes: int, encoding: int) -> None:
        """Write the dictionary page, before any other."""
        self.pieces += header, body
        self.size_bytes = self.dictionary_bytes = len(header) + len(body)
        self.plain_bytes = len(header) + plain_bytes
        self.encodings.add(encoding)
        self.pages.by_encoding[DICTIONARY_PAGE, encoding] += 1
        self.is_copied = False

    def put_copies(self, data: memoryview, pages: Sequence[Page]) -> None:
        """Append adjacent pages as they are."""
        begin, end = pages[0].begin, pages[-1].end
        for page in pages:
            self._places.append((self.size_bytes + page.begin - begin, page.end - page.begin))
            self._count(page, page.encoding, page.body - page.begin + page.plain_bytes)
        self.pieces.append(data[begin:end])
        self.size_bytes += end - begin

    def put_page(self, page: Page, header: bytes, body: bytes, *, plain_bytes: int, encoding: int) -> None:
        """Append a page with another body."""
        self._places.append((self.size_bytes, len(header) + len(body)))
        self._count(page, encoding, len(header) + plain_bytes)
        self.pieces += header, body
        self.size_bytes += len(header) + len(body)
        self.is_copied = False

    def _count(self, page: Page, encoding: int, plain_bytes: int) -> None:
        self.plain_bytes += plain_bytes
        self.pages.values += page.values
        self.pages.pages += 1
        self.pages.encoded_bytes += page.plain_bytes
        self.pages.by_encoding[page.kind, encoding] += 1
        self.encodings.update((encoding, page.definition_encoding, page.repetition_encoding))

    def add_input(self, found: InputChunk, pages: Sequence[Page], *, rows: int, holds_nan: bool) -> None:
        """Add what an input states about the data pages that were appended last."""
        bounds = self.statistics.add(found, holds_nan=holds_nan)
        if not self._rows:
            self._index, self._sizes = _PageIndex(self.column), _Sizes()
        if self._index is not None and not self._index.add(found, pages, bounds):
            self._index = None
        if self._sizes is not None and not self._sizes.add(found.sizes):
            self._sizes = None
        if self._index is not None:
            self._first_rows += [self._rows + row for row in self._index.first_rows(found, pages)]
        self._rows += rows

    def metadata(self, path: list[bytes], begin: int) -> Struct:
        """The ColumnMetaData of the chunk at an offset of the file."""
        metadata: Struct = {
            1: (I32, _PHYSICAL_NUMBERS[self.column.physical_type]),
            2: (LIST, ThriftList(I32, sorted(self.encodings))),
            3: (LIST, ThriftList(BINARY, path)),
            4: (I32, CODEC_NUMBERS[self.codec]),
            5: (I64, self.pages.values),
            _PLAIN_BYTES: (I64, self.plain_bytes),
            _CHUNK_BYTES: (I64, self.size_bytes),
            _DATA_OFFSET: (I64, begin + self.dictionary_bytes),
        }
        if self.dictionary_bytes:
            metadata[_DICTIONARY_OFFSET] = I64, begin
        statistics = self.statistics.to_struct()
        if statistics:
            metadata[12] = STRUCT, statistics
        if not self.dictionary_bytes or self.statistics.excludes_zero():
            counts: list[Struct] = [
                {1: (I32, kind), 2: (I32, encoding), 3: (I32, count)}
                for (kind, encoding), count in sorted(self.pages.by_encoding.items())
            ]
            metadata[13] = LIST, ThriftList(STRUCT, counts)
        if self._sizes is not None and (sizes := self._sizes.to_struct()):
            metadata[_SIZES] = STRUCT, sizes
        return metadata

    def offset_index(self, begin: int) -> bytes:
        """The offset index of the chunk at an offset of the file; empty if the inputs do not have one."""
        if self._index is None:
            return b""
        parts = [b"\x19", list_head(len(self._places))]
        for (at, size_bytes), row in zip(self._places, self._first_rows, strict=True):
            parts += (b"\x16", write_number(begin + at), b"\x15", write_number(size_bytes))
            parts += (b"\x16", write_number(row), b"\x00")
        return b"".join((*parts, self._index.unencoded()))

    def column_index(self) -> bytes:
        """The column index; empty if the inputs do not have one, or if bounds of pages would say more than allowed."""
        if self._index is None or not self.statistics.may_bound_pages():
            return b""
        return self._index.to_bytes()


class _PageIndex:
    """Joins the page indexes of input chunks; of a chunk with one page, the footer says the same."""

    def __init__(self, column: pq.ColumnSchema) -> None:
        self._column = column
        self._has_bounds = True
        self._null_pages: list[bool] = []
        self._bounds: tuple[list[bytes], list[bytes]] = [], []
        # Optional lists, by their field: null counts and counts of levels of a column index, bytes of an offset index
        self._lists: dict[int, list[int] | None] = {5: [], 6: [], 7: []}
        self._unencoded: list[int] | None = []

    def add(self, found: InputChunk, pages: Sequence[Page], bounds: PageBounds | None) -> bool:
        """Add the pages of a chunk; False if it has no offset index, or not for these pages."""
        if _OFFSET_INDEX[0] not in found.indexes:
            return False
        if len(pages) == 1:
            self._add_page(found, bounds)
            return True
        places = found.offset_index()
        if places is None or len(places[1][1].items) != len(pages):
            return False
        unencoded = places.get(2, (LIST, None))[1]
        self._unencoded = _extended(self._unencoded, unencoded and unencoded.items)
        self._add_pages(found, len(pages))
        return True

    def first_rows(self, found: InputChunk, pages: Sequence[Page]) -> list[int]:
        """The first row of each page within its chunk."""
        if len(pages) == 1:
            return [0]
        places = found.offset_index() or {}
        return [place[3][1] for place in places[1][1].items]

    def unencoded(self) -> bytes:
        """The end of an offset index, with the bytes of strings in each page if they are known."""
        return write_struct({1: (LIST, ThriftList(I64, self._unencoded))} if self._unencoded else {})

    def to_bytes(self) -> bytes:
        """The column index; empty if bounds of a page are not known."""
        if not self._has_bounds:
            return b""
        lows, highs = self._bounds
        index: Struct = {
            1: (LIST, ThriftList(TRUE, self._null_pages)),
            2: (LIST, ThriftList(BINARY, lows)),
            3: (LIST, ThriftList(BINARY, highs)),
            4: (I32, self._boundary_order()),
        }
        index |= {field: (LIST, ThriftList(I64, items)) for field, items in self._lists.items() if items}
        return write_struct(index)

    def _boundary_order(self) -> int:
        """The order of the bounds of the pages, without those of nulls only; readers search ordered ones by halving."""
        key, physical = _order_of(self._column), self._column.physical_type
        if key is None:
            return _UNORDERED
        lists = []
        for bounds in self._bounds:
            stored = [bound for bound, is_null in zip(bounds, self._null_pages, strict=True) if not is_null]
            try:
                values = [struct.unpack(_WIDTHS[physical], one)[0] for one in stored] if physical in _WIDTHS else stored
            except struct.error:
                return _UNORDERED
            lists.append([key(value) for value in values])
        # Compared in pairs: with a NaN, no comparison is true.
        if all(one <= other for found in lists for one, other in pairwise(found)):
            return _ASCENDING
        if all(one >= other for found in lists for one, other in pairwise(found)):
            return _DESCENDING
        return _UNORDERED

    def _add_page(self, found: InputChunk, bounds: PageBounds | None) -> None:
        sizes = found.sizes
        self._unencoded = _extended(self._unencoded, [sizes[1][1]] if 1 in sizes else None)
        for number, of_sizes in ((6, 2), (7, 3)):
            levels = sizes.get(of_sizes, (LIST, None))[1]
            self._lists[number] = _extended(self._lists[number], levels and levels.items)
        if bounds is None or _COLUMN_INDEX[0] not in found.indexes:
            self._has_bounds = False
            return
        self._null_pages.append(bounds.is_null)
        self._lists[5] = _extended(self._lists[5], [bounds.nulls])
        for listed, bound in zip(self._bounds, (bounds.low, bounds.high), strict=True):
            listed.append(bound)

    def _add_pages(self, found: InputChunk, pages: int) -> None:
        index = found.column_index()
        if index is None or any(len(index[number][1].items) != pages for number in (1, 2, 3)):
            self._has_bounds = False
            return
        self._null_pages += index[1][1].items
        for listed, number, zero in zip(self._bounds, (2, 3), (-0.0, 0.0), strict=True):
            listed.extend(with_zero(bound, self._column.physical_type, zero) for bound in index[number][1].items)
        for number, listed_counts in self._lists.items():
            counts = index.get(number, (LIST, None))[1]
            self._lists[number] = _extended(listed_counts, counts and counts.items)


def _extended(known: list[int] | None, more: list[int] | None) -> list[int] | None:
    """Append to a list that is known only if every input states its part."""
    if known is None or more is None:
        return None
    known.extend(more)
    return known


class _Sizes:
    """Adds up size statistics; a field is known only if every input states it."""

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] | None = None

    def add(self, sizes: Struct) -> bool:
        """Add those of a chunk; False if there are none."""
        stated = {number: [value] if kind == I64 else value.items for number, (kind, value) in sizes.items()}
        if self._sums is None:
            self._sums = stated
        else:
            self._sums = {
                number: [one + other for one, other in zip(counts, stated[number], strict=True)]
                for number, counts in self._sums.items()
                if number in stated and len(stated[number]) == len(counts)
            }
        return bool(self._sums)

    def to_struct(self) -> Struct:
        """The sums."""
        return {
            number: (I64, counts[0]) if number == 1 else (LIST, ThriftList(I64, counts))
            for number, counts in sorted((self._sums or {}).items())
        }


class SplicedFile:
    """Writes row groups to a sink; ``finish`` writes the footer."""

    def __init__(self, sink: Any, footer: Struct) -> None:
        self._sink, self._footer = sink, footer
        self._paths = _leaf_paths(footer[_SCHEMA][1].items)
        self._groups: list[Struct] = []
        self._indexes: list[tuple[Struct, bytes, bytes]] = []
        self._rows = 0
        self._at = 0
        self._write(MAGIC)

    def add_group(self, rows: int, chunks: Iterator[SplicedChunk | EncodedChunk]) -> None:
        """Write a row group: its columns in the schema's order, spliced ones and those that PyArrow encoded."""
        begin, columns = self._at, []
        filters: list[tuple[Struct, memoryview | bytes]] = []
        for path, chunk in zip(self._paths, chunks, strict=True):
            column = self._add_spliced(path, chunk) if isinstance(chunk, SplicedChunk) else self._add_encoded(chunk)
            columns.append(column)
            filters.append((column[_META_DATA][1], chunk.bloom_filter))
        size_bytes = self._at - begin
        for metadata, bloom_filter in filters:
            if bloom_filter:
                metadata[_BLOOM_OFFSET] = I64, self._at
                metadata[_BLOOM_BYTES] = I32, len(bloom_filter)
                self._write(bloom_filter)
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
        """Write the page indexes and the footer."""
        self._add_indexes()
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

    def _add_spliced(self, path: list[bytes], chunk: SplicedChunk) -> Struct:
        begin = self._at
        for data in joined(chunk.pieces):
            self._write(data)
        chunk.pieces.clear()
        column: Struct = {2: (I64, 0), _META_DATA: (STRUCT, chunk.metadata(path, begin))}
        self._indexes.append((column, chunk.column_index(), chunk.offset_index(begin)))
        return column

    def _add_encoded(self, chunk: EncodedChunk) -> Struct:
        metadata: Struct = chunk.struct[_META_DATA][1]
        moved = self._at - chunk.begin
        self._write(chunk.data[chunk.begin : chunk.begin + metadata[_CHUNK_BYTES][1]])
        for at in (_DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET):
            if metadata.get(at, (0, 0))[1]:
                metadata[at] = I64, metadata[at][1] + moved
        column: Struct = {2: (I64, 0), _META_DATA: (STRUCT, metadata)}
        self._indexes.append((column, chunk.column_index(), chunk.offset_index(moved)))
        return column

    def _add_indexes(self) -> None:
        for column, bounds, places in self._indexes:
            for data, (offset, length) in ((bounds, _COLUMN_INDEX), (places, _OFFSET_INDEX)):
                if data:
                    column[offset] = I64, self._at
                    column[length] = I32, len(data)
                    self._write(data)
            ordered = sorted(column.items())
            column.clear()
            column.update(ordered)
            metadata = column[_META_DATA][1]
            column[_META_DATA] = STRUCT, dict(sorted(metadata.items()))

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


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """A column chunk in a file that PyArrow wrote."""

    struct: Struct
    data: memoryview
    has_index: bool  # whether its page index is kept

    @property
    def begin(self) -> int:
        """The offset of its first page."""
        metadata: Struct = self.struct[_META_DATA][1]
        return int(min(metadata[at][1] for at in (_DATA_OFFSET, _DICTIONARY_OFFSET) if metadata.get(at, (0, 0))[1]))

    @property
    def bloom_filter(self) -> memoryview:
        """The bytes of its bloom filter; empty if it has none."""
        metadata: Struct = self.struct[_META_DATA][1]
        if _BLOOM_OFFSET not in metadata:
            return memoryview(b"")
        if _BLOOM_BYTES not in metadata:
            raise CannotSpliceError("PyArrow does not state the length of its bloom filter")
        begin = metadata[_BLOOM_OFFSET][1]
        return self.data[begin : begin + metadata[_BLOOM_BYTES][1]]

    def column_index(self) -> bytes:
        """The bytes of its column index."""
        offset, length = _COLUMN_INDEX
        if not self.has_index or offset not in self.struct:
            return b""
        return bytes(self.data[self.struct[offset][1] : self.struct[offset][1] + self.struct[length][1]])

    def offset_index(self, moved: int) -> bytes:
        """The offset index for pages that were moved by this many bytes."""
        if not self.has_index or _OFFSET_INDEX[0] not in self.struct:
            return b""
        index = read_struct(self.data, self.struct[_OFFSET_INDEX[0]][1])[0]
        for place in index[1][1].items:
            place[1] = I64, place[1][1] + moved
        return write_struct(index)


def read_encoded(data: memoryview, *, has_index: bool) -> list[EncodedChunk]:
    """The column chunks of a file with one row group that PyArrow wrote."""
    length = int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    groups = _parse_footer(bytes(data[-_TAIL_BYTES - length : -_TAIL_BYTES]))[_ROW_GROUPS][1].items
    if len(groups) != 1:
        raise CannotSpliceError("PyArrow wrote more than one row group")
    return [EncodedChunk(struct, data, has_index) for struct in groups[0][1][1].items]


def joined(pieces: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Join small pieces, so that a file is not written header by header."""
    waiting: list[bytes | memoryview] = []
    size_bytes = 0
    for piece in pieces:
        if len(piece) >= _WRITTEN_BYTES:
            if waiting:
                yield b"".join(waiting)
                waiting, size_bytes = [], 0
            yield piece
            continue
        waiting.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _WRITTEN_BYTES:
            yield b"".join(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield b"".join(waiting)


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


@dataclass(frozen=True, slots=True)
class PageBounds:
    """What a column index states about a page."""

    low: bytes
    high: bytes
    nulls: int
    is_null: bool


class MergedStatistics:
    """The merged statistics of the chunks added so far."""

    __slots__ = ("_has_values", "_key", "_max", "_min", "_null_count", "_of_single", "_physical")

    def __init__(self, column: pq.ColumnSchema) -> None:
        self._physical = column.physical_type
        self._key = _order_of(column)
        self._null_count: int | None = 0
        self._min: Any = None
        self._max: Any = None
        self._has_values = False
        self._of_single = False  # whether some chunk states the same value as both bounds

    def add(self, found: InputChunk, *, holds_nan: bool = False) -> PageBounds | None:
        """Add a chunk; return its own bounds, if known. They ignore a NaN, see ``formats.parquet_file_writer``."""
        nulls, statistics = found.null_count(), found.statistics
        self._null_count = None if self._null_count is None or nulls is None else self._null_count + nulls
        if nulls is not None and nulls == found.values:
            return PageBounds(b"", b"", nulls, is_null=True)  # nothing but nulls: no bounds, and none needed
        self._has_values = True
        if self._key is None:
            return None
        if statistics is None or not statistics.has_min_max or holds_nan:
            self._key = None
            return None
        low, high = statistics.min_raw, statistics.max_raw
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            self._key = None
            return None
        self._of_single |= low == high
        self._min = low if self._min is None else min(self._min, low, key=self._key)
        self._max = high if self._max is None else max(self._max, high, key=self._key)
        return None if nulls is None else PageBounds(*self._encode_bounds(low, high), nulls, is_null=False)

    def to_struct(self) -> Struct:
        """Return the Statistics struct; empty if nothing is known."""
        statistics: Struct = {}
        if self._null_count is not None:
            statistics[_NULL_COUNT] = I64, self._null_count
        if self._key is not None and self._min is not None and not self._is_introduced_range():
            low, high = self._encode_bounds(self._min, self._max)
            statistics[_MAX_VALUE] = BINARY, high
            statistics[_MIN_VALUE] = BINARY, low
        return statistics

    def may_bound_pages(self) -> bool:
        """Whether bounds of pages are as sound as those of the chunk, which needs none if all its values are null."""
        return not self._has_values or (self._key is not None and not self._is_introduced_range())

    def excludes_zero(self) -> bool:
        """Whether no value is a zero of floating-point numbers, of which a dictionary has only one of two."""
        if self._physical not in _FLOATS:
            return True
        stated = self._min is not None and self._key is not None and not self._is_introduced_range()
        return stated and (self._min > 0 or self._max < 0)

    def _is_introduced_range(self) -> bool:
        is_range = self._min != self._max and not self._null_count
        return self._physical in _FLOATS and self._of_single and is_range

    def _encode_bounds(self, low: Any, high: Any) -> tuple[bytes, bytes]:
        if isinstance(low, float):  # -0.0 is below 0.0 to some readers: a bound must hold both
            low, high = low or -0.0, high or 0.0
        return self._encode(low), self._encode(high)

    def _encode(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else struct.pack(_WIDTHS[self._physical], value)


def with_zero(bound: bytes, physical: str, zero: float) -> bytes:
    """A bound of a page, with the sign that it must have if it is a zero of floating-point numbers."""
    if physical not in _FLOATS or not bound or struct.unpack(_WIDTHS[physical], bound)[0] != 0.0:
        return bound
    return struct.pack(_WIDTHS[physical], zero)


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
