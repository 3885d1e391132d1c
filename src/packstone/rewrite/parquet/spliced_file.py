"""The bytes of a Parquet file whose column chunks were put together elsewhere: row groups one by one, then the footer.

The footer is the first input's, field by field (schema, key-value metadata, writer, column orders, what we do not
know), with the row groups exchanged. Chunks that PyArrow encoded come with their own metadata and bloom filters, moved
to their new place; those made of copied pages get metadata that say what was counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.rewrite.parquet.check_footer import MAGIC
from packstone.rewrite.parquet.pages import SELF_CONTAINED, PageCount
from packstone.rewrite.parquet.pandas_note import with_row_count
from packstone.rewrite.parquet.splice_plan import CODEC_NUMBERS, CannotSpliceError
from packstone.rewrite.parquet.thrift_compact import (
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
    import pyarrow.parquet as pq

    from packstone.rewrite.parquet.chunk_statistics import MergedStatistics

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


@dataclass(slots=True)
class SplicedChunk:
    """Copied pages that become one column chunk, and what they sum up to."""

    column: pq.ColumnSchema
    codec: str
    statistics: MergedStatistics
    pieces: list[memoryview] = field(default_factory=list)
    pages: PageCount = field(default_factory=PageCount)
    encodings: set[int] = field(default_factory=set)
    plain_bytes: int = 0

    def add(self, piece: memoryview, pages: PageCount, chunk: pq.ColumnChunkMetaData, *, holds_nan: bool) -> None:
        """Put one input's pages behind those that are there."""
        self.pieces.append(piece)
        self.pages.add(pages)
        self.plain_bytes += chunk.total_uncompressed_size
        self.encodings.update(SELF_CONTAINED[name] for name in chunk.encodings)
        self.statistics.add(chunk, holds_nan=holds_nan)


class SplicedFile:
    """Writes row groups to a sink; ``finish`` writes the footer."""

    def __init__(self, sink: Any, footer: Struct) -> None:  # noqa: ANN401 - a pyarrow file
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
        for at in _PAGE_INDEX:  # the inputs had none, see ``splice_plan``
            chunk.pop(at, None)
        chunk[2] = I64, 0
        return dict(sorted(chunk.items()))

    def _add_bloom_filter(self, metadata: Struct, encoded: memoryview) -> None:
        if _BLOOM_OFFSET not in metadata:
            return
        if _BLOOM_BYTES not in metadata:
            raise CannotSpliceError("PyArrow does not tell how long its bloom filter is")
        begin, moved_to = metadata[_BLOOM_OFFSET][1], self._at
        self._write(encoded[begin : begin + metadata[_BLOOM_BYTES][1]])
        metadata[_BLOOM_OFFSET] = I64, moved_to

    def _write(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self._at += len(data)


def read_footer(source: Any) -> Struct:  # noqa: ANN401 - a pyarrow file
    """Read a footer with all its fields; CannotSpliceError if it holds what a new file must not repeat."""
    size_bytes = source.size()
    length = int.from_bytes(source.read_at(4, size_bytes - _TAIL_BYTES), "little")
    footer = _parse_footer(source.read_at(length, size_bytes - _TAIL_BYTES - length))
    if _ENCRYPTION in footer or _SIGNING_KEY in footer:
        raise CannotSpliceError("it has encrypted columns")
    if any(1 not in order for order in footer.get(_COLUMN_ORDERS, (0, ThriftList(STRUCT, [])))[1].items):
        raise CannotSpliceError("it has a column order that is not known here")
    return footer


def _parse_footer(data: bytes) -> Struct:
    try:
        return read_struct(data)[0]
    except ValueError as error:
        raise CannotSpliceError(f"its footer cannot be read: {error}") from error


def _only_group(encoded: memoryview) -> list[Struct]:
    """Return the column chunks of a file of one row group."""
    length = int.from_bytes(encoded[-_TAIL_BYTES:-4], "little")
    groups = _parse_footer(bytes(encoded[-_TAIL_BYTES - length : -_TAIL_BYTES]))[_ROW_GROUPS][1].items
    if len(groups) != 1:
        raise CannotSpliceError("PyArrow cut a row group in two")
    columns: list[Struct] = groups[0][1][1].items
    return columns


def _leaf_paths(elements: list[Struct]) -> list[list[bytes]]:
    """List the paths of the columns: the schema is its tree, written depth first."""
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
