"""Where the pages of a column chunk are, and a file put together of some of them that only PyArrow gets to see."""

from __future__ import annotations

import bisect
import io
from dataclasses import dataclass
from typing import Any, Final

from packstone.rewrite.parquet.check_footer import MAGIC
from packstone.rewrite.parquet.pages import ENCODING_IN, HEADER_OF, header_number
from packstone.rewrite.parquet.thrift_compact import I64, LIST, STRUCT, Struct, ThriftList, read_struct, write_struct

# Fields and values in parquet.thrift
_NUM_ROWS, _ROW_GROUPS = 3, 4
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_META_DATA, _VALUES, _CHUNK_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 3, 5, 7, 9, 11
# Of a chunk: key-values, index page, statistics, page counts, bloom filter, sizes.
_NOT_NEEDED: Final = frozenset({8, 10, 12, 13, 14, 15, 16, 17})
_PAGE_TYPE, _BODY_BYTES, _PAGE_VALUES = 1, 3, 1
_DICTIONARY_ENCODINGS: Final = frozenset({2, 8})
_DICTIONARY_PAGE: Final = 2
_HEADER_BYTES: Final = 256
_MOST_HEADER_BYTES: Final = 1 << 20  # statistics in a header may hold long values


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file."""

    start: int
    size_bytes: int

    @property
    def end(self) -> int:
        """Where the next byte is."""
        return self.start + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column chunk by its pages; ``starts`` has the row at which each begins, and the end."""

    at: int  # which column of the row group
    dictionary: Span | None
    pages: tuple[Span, ...]
    coded: tuple[bool, ...]  # whether a page needs the dictionary: writers give it up when it has grown too big
    starts: tuple[int, ...]

    def page_of(self, row: int) -> int:
        """Tell which page holds a row."""
        return bisect.bisect_right(self.starts, row) - 1


def find_pages(source: Any, chunks: list[Struct], *, at: int, rows: int) -> Chunk:  # noqa: ANN401 - a pyarrow file
    """Walk over a chunk of a column that is not nested, from header to header; ValueError if it is not understood."""
    metadata: Struct = chunks[at][_META_DATA][1]
    offsets = [metadata[number][1] for number in (_DATA_OFFSET, _DICTIONARY_OFFSET) if metadata.get(number, (0, 0))[1]]
    place, end = min(offsets), min(offsets) + metadata[_CHUNK_BYTES][1]
    dictionary, pages, coded, starts = None, [], [], [0]
    while place < end:
        header, header_bytes = _read_header(source, place)
        kind = header_number(header, _PAGE_TYPE)
        page = Span(place, header_bytes + header_number(header, _BODY_BYTES))
        if kind in HEADER_OF:
            data: Struct = header.get(HEADER_OF[kind], (0, {}))[1]
            pages.append(page)
            coded.append(header_number(data, ENCODING_IN[kind]) in _DICTIONARY_ENCODINGS)
            starts.append(starts[-1] + header_number(data, _PAGE_VALUES))
        elif kind == _DICTIONARY_PAGE and not pages and dictionary is None:
            dictionary = page
        else:
            raise ValueError(f"a page of type {kind}")
        place = page.end
    if place != end or starts[-1] != rows or not pages or (any(coded) and dictionary is None):
        raise ValueError("pages that are not the whole chunk")
    return Chunk(at=at, dictionary=dictionary, pages=tuple(pages), coded=tuple(coded), starts=tuple(starts))


def strip_group(group: Struct) -> Struct:
    """Leave out of a row group what decoding does not need."""
    columns = [
        {**chunk, _META_DATA: (STRUCT, {n: v for n, v in chunk[_META_DATA][1].items() if n not in _NOT_NEEDED})}
        for chunk in group[_GROUP_COLUMNS][1].items
    ]
    return {**group, _GROUP_COLUMNS: (LIST, ThriftList(STRUCT, columns))}


def _read_header(source: Any, place: int) -> tuple[Struct, int]:  # noqa: ANN401 - a pyarrow file
    size_bytes = _HEADER_BYTES
    while True:
        data = source.read_at(size_bytes, place)
        try:
            return read_struct(data)
        except ValueError:
            if size_bytes >= _MOST_HEADER_BYTES or len(data) < size_bytes:
                raise
        size_bytes *= 16


class ShownFile(io.RawIOBase):
    """Pages of a file and a footer of our own, as one file to be read: of one row group, column by column."""

    def __init__(self, footer: Struct, group: Struct, source: Any) -> None:  # noqa: ANN401 - a pyarrow file
        super().__init__()
        self._footer, self._group, self._source = footer, group, source
        self._columns: list[Struct] = list(group[_GROUP_COLUMNS][1].items)
        self._rows = 0
        self._starts: list[int] = []
        self._parts: list[Span | bytes] = []
        self._size_bytes = self._place = 0
        self._append(MAGIC)

    def add(self, chunk: Chunk, first: int, last: int) -> int:
        """Show a column, the pages with rows ``first`` up to ``last`` of it; return the row with which they begin."""
        begin, end = chunk.page_of(first), chunk.page_of(last - 1) + 1
        metadata = dict(self._columns[chunk.at][_META_DATA][1])
        start = self._size_bytes
        if chunk.dictionary is not None and any(chunk.coded[begin:end]):
            metadata[_DICTIONARY_OFFSET] = I64, start
            self._append(chunk.dictionary)
        else:
            metadata.pop(_DICTIONARY_OFFSET, None)
        metadata[_DATA_OFFSET] = I64, self._size_bytes
        self._append(Span(chunk.pages[begin].start, chunk.pages[end - 1].end - chunk.pages[begin].start))
        metadata[_CHUNK_BYTES] = I64, self._size_bytes - start
        rows = chunk.starts[end] - chunk.starts[begin]
        metadata[_VALUES] = I64, rows
        self._columns[chunk.at] = {2: (I64, 0), _META_DATA: (STRUCT, dict(sorted(metadata.items())))}
        self._rows = max(self._rows, rows)
        return chunk.starts[begin]

    def finish(self) -> ShownFile:
        """Add the footer."""
        group = {
            **self._group,
            _GROUP_COLUMNS: (LIST, ThriftList(STRUCT, self._columns)),
            _GROUP_ROWS: (I64, self._rows),
        }
        footer = {**self._footer, _NUM_ROWS: (I64, self._rows), _ROW_GROUPS: (LIST, ThriftList(STRUCT, [group]))}
        data = write_struct(dict(sorted(footer.items())))
        self._append(data + len(data).to_bytes(4, "little") + MAGIC)
        return self

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte will be read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size_bytes}[whence]
        self._place = base + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Read over as many parts as needed."""
        end = self._size_bytes if size < 0 else min(self._size_bytes, self._place + size)
        pieces = []
        while self._place < end:
            at = bisect.bisect_right(self._starts, self._place) - 1
            part, skip = self._parts[at], self._place - self._starts[at]
            if isinstance(part, bytes):
                piece = part[skip : skip + end - self._place]
            else:
                piece = self._source.read_at(min(end - self._place, part.size_bytes - skip), part.start + skip)
            if not piece:
                break  # the file became shorter; PyArrow will say so
            pieces.append(piece)
            self._place += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _append(self, part: Span | bytes) -> None:
        self._starts.append(self._size_bytes)
        self._parts.append(part)
        self._size_bytes += part.size_bytes if isinstance(part, Span) else len(part)
