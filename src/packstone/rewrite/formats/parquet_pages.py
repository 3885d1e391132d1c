"""Find and count the pages of a column chunk by walking from header to header, without decompressing a page.

::

    chunk = [dictionary page] data page, data page, ...        page = header (a thrift struct), body

A data page without a dictionary can be decoded on its own: it states how many values it holds and how they are
encoded, and contains its levels. So the concatenated data pages of many chunks are a valid chunk. ``VirtualFile``
combines some pages with a new footer to a virtual file that only PyArrow reads.
"""

from __future__ import annotations

import bisect
import io
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_thrift import (
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftList,
    read_struct,
    read_varint,
    write_number,
    write_struct,
)

# Numbers of fields and values in parquet.thrift
_TYPE: Final = 1
_UNCOMPRESSED_BYTES: Final = 2
_BODY_BYTES: Final = 3
DATA_PAGE: Final = 0
DATA_PAGE_V2: Final = 3
HEADER_OF: Final = {DATA_PAGE: 5, DATA_PAGE_V2: 8}
ENCODING_IN: Final = {DATA_PAGE: 2, DATA_PAGE_V2: 4}
_CHECKSUM: Final = 4
_DETAILS_V1, _DETAILS_DICTIONARY, _DETAILS_V2 = 5, 7, 8
_DETAILS: Final = frozenset({_DETAILS_V1, _DETAILS_DICTIONARY, _DETAILS_V2})
_IS_COMPRESSED: Final = 7  # of the details of version 2
_IS_SORTED: Final = 3  # of the details of a dictionary
_FLAGS: Final = frozenset({(_DETAILS_V2, _IS_COMPRESSED), (_DETAILS_DICTIONARY, _IS_SORTED)})
_MOST_DETAILS: Final = 6
CHECKSUM_WITHIN: Final = 32  # the first fields of a header: four numbers of at most 6 bytes, and the head of the next
_MORE: Final = 0x80
_RLE: Final = 3
DICTIONARY_PAGE: Final = 2
_DETAILS_OF: Final = {DATA_PAGE: _DETAILS_V1, DICTIONARY_PAGE: _DETAILS_DICTIONARY, DATA_PAGE_V2: _DETAILS_V2}
PLAIN_DICTIONARY, RLE_DICTIONARY = 2, 8
DICTIONARY_ENCODINGS: Final = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})
# All known encodings that need no dictionary: PLAIN, RLE, BIT_PACKED, the three deltas, BYTE_STREAM_SPLIT
SELF_CONTAINED: Final = {
    "PLAIN": 0, "RLE": 3, "BIT_PACKED": 4, "DELTA_BINARY_PACKED": 5, "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7, "BYTE_STREAM_SPLIT": 9,
}  # fmt: skip
_KNOWN_ENCODINGS: Final = frozenset(SELF_CONTAINED.values()) | DICTIONARY_ENCODINGS


@dataclass(slots=True)
class PageCount:
    """The totals of the pages of one or more chunks."""

    values: int = 0
    pages: int = 0
    encoded_bytes: int = 0
    by_encoding: Counter[tuple[int, int]] = field(default_factory=Counter)  # (page type, encoding)

    def add(self, other: PageCount) -> None:
        """Add the pages of another chunk."""
        self.values += other.values
        self.pages += other.pages
        self.encoded_bytes += other.encoded_bytes
        self.by_encoding.update(other.by_encoding)


@dataclass(slots=True)
class Page:
    """The header of a page, and its place in the chunk."""

    kind: int
    plain_bytes: int
    body_bytes: int
    crc: int | None  # of the body as it is stored, signed
    values: int
    encoding: int
    definition_encoding: int  # of the levels of version 1
    repetition_encoding: int
    nulls: int  # of version 2, as are the following
    rows: int
    definition_bytes: int
    repetition_bytes: int
    is_compressed: bool
    is_plain_header: bool  # whether the header has nothing but these fields
    begin: int
    body: int
    end: int

    @property
    def is_coded(self) -> bool:
        """Whether its values are codes of a dictionary."""
        return self.encoding in DICTIONARY_ENCODINGS and self.kind != DICTIONARY_PAGE


def walk_pages(chunk: bytes | memoryview) -> list[Page]:
    """List the pages of a chunk; ValueError, with the reason, if it holds anything else."""
    pages = []
    at = 0
    while at < len(chunk):
        try:
            page = _read_usual_header(chunk, at)
        except IndexError:
            raise ValueError("the bytes end within the header of a page") from None
        page = page or _read_any_header(chunk, at)
        if page.end > len(chunk):
            raise ValueError("the last page of a chunk is longer than the chunk")
        if min(page.plain_bytes, page.body_bytes, page.values, page.definition_bytes, page.repetition_bytes) < 0:
            raise ValueError("a page header has no valid count")
        if page.encoding not in _KNOWN_ENCODINGS:
            raise ValueError(f"a page has the encoding {page.encoding}")
        pages.append(page)
        at = page.end
    return pages


def has_checksum(header: bytes) -> bool:
    """Whether the header of a page has a checksum; its first ``CHECKSUM_WITHIN`` bytes are sufficient."""
    outer: list[Any] = [-1, -1, -1, -1, None]
    try:
        _read_numbers(header, 0, outer)
    except IndexError:
        return False
    return outer[_CHECKSUM] is not None


def _read_usual_header(data: bytes | memoryview, at: int) -> Page | None:
    """Read a header without statistics or unknown fields, in a quarter of the time; None for any other."""
    begin, is_compressed = at, True
    outer: list[Any] = [-1, -1, -1, -1, None]  # type, sizes and checksum, by field
    details = [0, 0, 0, 0, 0, 0, 0]
    found, head, at = _read_numbers(data, at, outer)
    if head & 15 != STRUCT or found not in _DETAILS:
        return None
    number, head, at = _read_numbers(data, at, details)
    if (found, number) in _FLAGS and head & 15 in (TRUE, FALSE):
        is_compressed = head & 15 == TRUE or found == _DETAILS_DICTIONARY
        head, at = data[at], at + 1
    if head or data[at]:
        return None
    return _make_page(outer, found, details, is_compressed=is_compressed, is_plain=True, begin=begin, body=at + 1)


def _read_numbers(data: bytes | memoryview, at: int, into: list[Any]) -> tuple[int, int, int]:
    """Read 32-bit numbers by their fields; return the number and head of the next field, and the offset after it."""
    number = 0
    while True:
        head = data[at]
        at += 1
        number += head >> 4
        if head & 15 != I32 or not head >> 4 or number >= len(into):
            return number, head, at
        value = data[at]
        at += 1
        if value >= _MORE:
            value, at = read_varint(data, at - 1)
        into[number] = value >> 1 ^ -(value & 1)


def _read_any_header(data: bytes | memoryview, at: int) -> Page:
    header, body = read_struct(data, at)
    kind = header_number(header, _TYPE)
    if kind not in _DETAILS_OF:
        raise ValueError(f"a chunk holds a page of type {kind}")
    wire, found = header.get(_DETAILS_OF[kind], (STRUCT, {}))
    if wire != STRUCT:
        raise ValueError("a page header holds a value where a struct is expected")
    for number in (1, ENCODING_IN.get(kind, 2)):
        header_number(found, number)
    outer = [-1, kind, *(header_number(header, number) for number in (_UNCOMPRESSED_BYTES, _BODY_BYTES)), None]
    if _CHECKSUM in header:
        outer[_CHECKSUM] = header[_CHECKSUM][1]
    details = [0] * 7
    for number, (wire, value) in found.items():
        if wire == I32 and number <= _MOST_DETAILS:
            details[number] = value
    is_compressed = bool(found.get(_IS_COMPRESSED, (TRUE, True))[1]) if kind == DATA_PAGE_V2 else True
    return _make_page(
        outer, _DETAILS_OF[kind], details, is_compressed=is_compressed, is_plain=False, begin=at, body=body
    )


def _make_page(
    outer: list[Any], found: int, details: list[int], *, is_compressed: bool, is_plain: bool, begin: int, body: int
) -> Page:
    _, kind, plain_bytes, body_bytes, crc = outer
    if _DETAILS_OF.get(kind) != found:
        raise ValueError(f"a chunk holds a page of type {kind}")
    end = body + body_bytes
    if kind == DATA_PAGE_V2:
        _, values, nulls, rows, encoding, definition_bytes, repetition_bytes = details
        definition = repetition = _RLE
    else:
        _, values, encoding, definition, repetition, *_ = details
        nulls = rows = definition_bytes = repetition_bytes = 0
    return Page(
        kind, plain_bytes, body_bytes, crc, values, encoding, definition, repetition, nulls, rows, definition_bytes,
        repetition_bytes, is_compressed, is_plain, begin, body, end,
    )  # fmt: skip


def page_header(page: Page, chunk: bytes | memoryview, *, plain_bytes: int, body: bytes, encoding: int) -> bytes:
    """Write the header of a page of a chunk for another body; it has a checksum if it had one."""
    crc = None if page.crc is None else checksum(body)
    if page.is_plain_header and page.kind == DATA_PAGE:  # fields 1 to 5, and 1 to 4 in the last
        numbers = [DATA_PAGE, plain_bytes, len(body), *(() if crc is None else (crc,))]
        details = [page.values, encoding, page.definition_encoding, page.repetition_encoding]
        fields, inner = ([b"\x15" + write_number(one) for one in some] for some in (numbers, details))
        return b"".join((*fields, b"\x2c" if crc is None else b"\x1c", *inner, b"\x00\x00"))
    header, _ = read_struct(chunk, page.begin)
    found: Struct = header[_DETAILS_OF[page.kind]][1]
    found[ENCODING_IN[page.kind]] = I32, encoding
    if page.kind == DATA_PAGE_V2 and not page.is_compressed:
        found[_IS_COMPRESSED] = TRUE, False
        header[_DETAILS_V2] = STRUCT, dict(sorted(found.items()))
    header[_UNCOMPRESSED_BYTES] = I32, plain_bytes
    header[_BODY_BYTES] = I32, len(body)
    if crc is not None:
        header[_CHECKSUM] = I32, crc
    return write_struct(dict(sorted(header.items())))


def dictionary_page(plain: bytes, body: bytes, *, entries: int, encoding: int, has_crc: bool) -> bytes:
    """Write the header of a dictionary page."""
    header: Struct = {
        _TYPE: (I32, DICTIONARY_PAGE),
        _UNCOMPRESSED_BYTES: (I32, len(plain)),
        _BODY_BYTES: (I32, len(body)),
    }
    if has_crc:
        header[_CHECKSUM] = I32, checksum(body)
    header[_DETAILS_DICTIONARY] = STRUCT, {1: (I32, entries), 2: (I32, encoding)}
    return write_struct(header)


def checksum(body: bytes | memoryview) -> int:
    """The CRC-32 of a page's body, signed as in its header."""
    found = zlib.crc32(body)
    return found - (1 << 32) if found >> 31 else found


def header_number(struct: Struct, number: int) -> int:
    """The value of a mandatory field of a page header; ValueError if it is missing or not a valid count."""
    if number not in struct:
        raise ValueError(f"a page header lacks the field {number}")
    value = struct[number][1]
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"a page header has no valid count in the field {number}")
    return value


# ---- the virtual file ----

# Fields and values in parquet.thrift
_NUM_ROWS, _ROW_GROUPS = 3, 4
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_META_DATA, _VALUES, _CHUNK_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 3, 5, 7, 9, 11
# Of a chunk: key-values, index page, statistics, page counts, bloom filter, sizes.
_NOT_NEEDED: Final = frozenset({8, 10, 12, 13, 14, 15, 16, 17})
_PAGE_TYPE, _SPAN_BODY_BYTES, _PAGE_VALUES = 1, 3, 1
_HEADER_BYTES: Final = 256
_MOST_HEADER_BYTES: Final = 1 << 20  # statistics in a header may hold long values


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file."""

    start: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The pages of a column chunk; ``starts`` has the first row of each page, and the number of rows."""

    at: int  # index of the column in the row group
    dictionary: Span | None
    pages: tuple[Span, ...]
    coded: tuple[bool, ...]  # whether a page needs the dictionary: writers stop using it when it has grown too big
    starts: tuple[int, ...]

    def page_of(self, row: int) -> int:
        """The index of the page that holds a row."""
        return bisect.bisect_right(self.starts, row) - 1


def find_pages(source: Any, chunks: list[Struct], *, at: int, rows: int) -> Chunk:
    """Find the pages in a chunk of a column that is not nested; ValueError if the chunk cannot be parsed."""
    metadata: Struct = chunks[at][_META_DATA][1]
    offsets = [metadata[number][1] for number in (_DATA_OFFSET, _DICTIONARY_OFFSET) if metadata.get(number, (0, 0))[1]]
    place, end = min(offsets), min(offsets) + metadata[_CHUNK_BYTES][1]
    dictionary, pages, coded, starts = None, [], [], [0]
    while place < end:
        header, header_bytes = _read_header(source, place)
        kind = header_number(header, _PAGE_TYPE)
        page = Span(place, header_bytes + header_number(header, _SPAN_BODY_BYTES))
        if kind in HEADER_OF:
            data: Struct = header.get(HEADER_OF[kind], (0, {}))[1]
            pages.append(page)
            coded.append(header_number(data, ENCODING_IN[kind]) in DICTIONARY_ENCODINGS)
            starts.append(starts[-1] + header_number(data, _PAGE_VALUES))
        elif kind == DICTIONARY_PAGE and not pages and dictionary is None:
            dictionary = page
        else:
            raise ValueError(f"a page of type {kind}")
        place = page.end
    if place != end or starts[-1] != rows or not pages or (any(coded) and dictionary is None):
        raise ValueError("pages that are not the whole chunk")
    return Chunk(at=at, dictionary=dictionary, pages=tuple(pages), coded=tuple(coded), starts=tuple(starts))


def strip_group(group: Struct) -> Struct:
    """The row group without the fields that decoding does not need."""
    columns = [
        {**chunk, _META_DATA: (STRUCT, {n: v for n, v in chunk[_META_DATA][1].items() if n not in _NOT_NEEDED})}
        for chunk in group[_GROUP_COLUMNS][1].items
    ]
    return {**group, _GROUP_COLUMNS: (LIST, ThriftList(STRUCT, columns))}


def _read_header(source: Any, place: int) -> tuple[Struct, int]:
    size_bytes = _HEADER_BYTES
    while True:
        data = source.read_at(size_bytes, place)
        try:
            return read_struct(data)
        except ValueError:
            if size_bytes >= _MOST_HEADER_BYTES or len(data) < size_bytes:
                raise
        size_bytes *= 16


class VirtualFile(io.RawIOBase):
    """A virtual file for PyArrow: pages of a real file and a new footer, with one row group, column by column."""

    def __init__(self, footer: Struct, group: Struct, source: Any) -> None:
        super().__init__()
        self._footer, self._group, self._source = footer, group, source
        self._columns: list[Struct] = list(group[_GROUP_COLUMNS][1].items)
        self._rows = 0
        self._starts: list[int] = []
        self._parts: list[Span | bytes] = []
        self._size_bytes = self._place = 0
        self._append(MAGIC)

    def add(self, chunk: Chunk, first: int, last: int) -> int:
        """Add the pages of a column that hold rows ``first`` up to ``last``; return their first row."""
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

    def finish(self) -> VirtualFile:
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
        """True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """True: any offset can be read."""
        return True

    def tell(self) -> int:
        """The offset of the next read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the offset of the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size_bytes}[whence]
        self._place = base + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Read bytes across the parts."""
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
                break  # the file became shorter; PyArrow reports that
            pieces.append(piece)
            self._place += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _append(self, part: Span | bytes) -> None:
        self._starts.append(self._size_bytes)
        self._parts.append(part)
        self._size_bytes += part.size_bytes if isinstance(part, Span) else len(part)
