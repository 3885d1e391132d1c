"""The pages of a column chunk, counted by walking from header to header; no page is decompressed.

::

    chunk = [dictionary page] data page, data page, ...        page = header (a thrift struct), body

A data page without a dictionary can be decoded on its own: it says how many values it holds, how they are encoded, and
brings its levels. So the data pages of many chunks, behind each other, are a chunk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from packstone.rewrite.parquet.thrift_compact import STRUCT, Struct, read_struct

# Numbers of fields and values in parquet.thrift
_TYPE: Final = 1
_UNCOMPRESSED_BYTES: Final = 2
_BODY_BYTES: Final = 3
DATA_PAGE: Final = 0
DATA_PAGE_V2: Final = 3
HEADER_OF: Final = {DATA_PAGE: 5, DATA_PAGE_V2: 8}
ENCODING_IN: Final = {DATA_PAGE: 2, DATA_PAGE_V2: 4}
_NUM_VALUES: Final = 1
# PLAIN, RLE, BIT_PACKED, the three deltas, BYTE_STREAM_SPLIT: all that need no dictionary, and no unknown ones
SELF_CONTAINED: Final = {
    "PLAIN": 0, "RLE": 3, "BIT_PACKED": 4, "DELTA_BINARY_PACKED": 5, "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7, "BYTE_STREAM_SPLIT": 9,
}  # fmt: skip
_NUMBERS: Final = frozenset(SELF_CONTAINED.values())


@dataclass(slots=True)
class PageCount:
    """What the pages of one chunk, or of many, sum up to."""

    values: int = 0
    pages: int = 0
    encoded_bytes: int = 0
    by_encoding: Counter[tuple[int, int]] = field(default_factory=Counter)  # (page type, encoding)

    def add(self, other: PageCount) -> None:
        """Count the pages of another chunk too."""
        self.values += other.values
        self.pages += other.pages
        self.encoded_bytes += other.encoded_bytes
        self.by_encoding.update(other.by_encoding)


def count_pages(chunk: bytes | memoryview) -> PageCount:
    """Walk a chunk; ValueError, with the reason, unless it is data pages from end to end that need no dictionary."""
    found = PageCount()
    at = 0
    while at < len(chunk):
        header, at = read_struct(chunk, at)
        kind = header_number(header, _TYPE)
        if kind not in HEADER_OF:
            raise ValueError(f"a chunk holds a page of type {kind}")
        wire, data = header.get(HEADER_OF[kind], (STRUCT, {}))
        if wire != STRUCT:
            raise ValueError("a page header holds a value where a struct belongs")
        encoding = header_number(data, ENCODING_IN[kind])
        if encoding not in _NUMBERS:
            raise ValueError(f"a data page has the encoding {encoding}")
        found.values += header_number(data, _NUM_VALUES)
        found.pages += 1
        found.encoded_bytes += header_number(header, _UNCOMPRESSED_BYTES)
        found.by_encoding[kind, encoding] += 1
        at += header_number(header, _BODY_BYTES)
    if at != len(chunk):
        raise ValueError("the last page of a chunk is longer than the chunk")
    return found


def header_number(struct: Struct, number: int) -> int:
    """Return a field of a page's header that every page has; ValueError if it is not there, or no count."""
    if number not in struct:
        raise ValueError(f"a page header lacks the field {number}")
    value = struct[number][1]
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"a page header has no count in the field {number}")
    return value
