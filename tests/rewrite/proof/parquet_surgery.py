"""Take a Parquet file apart, change a part, and put it together so that everything else still fits.

Sizes, offsets, checksums and the places of the page index follow the change, as they would if the writer had made the
mistake. What is to be wrong in itself (an offset, a statistic) is changed by a *tweak*, after all that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from packstone.rewrite.formats.parquet_thrift import I32, I64, Struct, read_struct, write_struct

CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
CODED = {2, 8}
V1, DICTIONARY, V2 = 0, 2, 3
DETAILS = {V1: 5, DICTIONARY: 7, V2: 8}
WIDTHS = {1: 4, 2: 8, 3: 12, 4: 4, 5: 8}


@dataclass
class Page:
    """A page: its header and its body, as stored."""

    header: Struct
    body: bytes

    @property
    def kind(self) -> int:
        """Of version 1 or 2, or a dictionary."""
        return self.header[1][1]

    @property
    def details(self) -> Struct:
        """The part of the header that depends on the kind."""
        return self.header[DETAILS[self.kind]][1]

    @property
    def encoding(self) -> int:
        """Of its values."""
        return self.details[4 if self.kind == V2 else 2][1]


@dataclass
class Leaf:
    """A leaf of the schema."""

    path: str
    kind: int
    width: int
    definition: int
    repetition: int


@dataclass
class Chunk:
    """A column chunk with everything that belongs to it."""

    leaf: Leaf
    struct: Struct
    pages: list[Page]
    column_index: Struct | None
    offset_index: Struct | None
    bloom: bytes | None
    tweaks: list[Callable[[Chunk], None]] = field(default_factory=list)

    @property
    def metadata(self) -> Struct:
        """Of the footer."""
        return self.struct[3][1]

    @property
    def codec(self) -> str | None:
        """As PyArrow calls it."""
        return CODECS[self.metadata[4][1]]

    def data_pages(self) -> list[Page]:
        """All but the dictionary."""
        return [page for page in self.pages if page.kind != DICTIONARY]

    def dictionary(self) -> Page:
        """The dictionary page; LookupError if there is none."""
        if self.pages[0].kind != DICTIONARY:
            raise LookupError("no dictionary")
        return self.pages[0]

    # ---- the content of a page: repetition levels, definition levels, values ----

    def open(self, page: Page) -> tuple[list[int], list[int], bytes]:
        """Levels and values of a page."""
        count = page.details[1][1]
        if page.kind == DICTIONARY:
            return [], [], self._decompress(page.body, page.header[2][1])
        if page.kind == V2:
            repetition, definition = page.details[6][1], page.details[5][1]
            levels = page.body[: repetition + definition]
            values = page.body[repetition + definition :]
            if page.details.get(7, (0, True))[1]:
                values = self._decompress(values, page.header[2][1] - len(levels))
            parts = [levels[:repetition], levels[repetition:]]
        else:
            values = self._decompress(page.body, page.header[2][1])
            parts = []
            for highest in (self.leaf.repetition, self.leaf.definition):
                size = int.from_bytes(values[:4], "little") if highest else 0
                parts.append(values[4 : 4 + size] if highest else b"")
                values = values[4 + size :] if highest else values
        levels = [
            unpack(part, highest.bit_length(), count) if highest else []
            for part, highest in zip(parts, (self.leaf.repetition, self.leaf.definition), strict=True)
        ]
        return levels[0], levels[1], values

    def close(self, page: Page, repetition: list[int], definition: list[int], values: bytes) -> None:
        """Put levels and values into a page again."""
        parts = [
            pack(levels, highest.bit_length()) if highest else b""
            for levels, highest in ((repetition, self.leaf.repetition), (definition, self.leaf.definition))
        ]
        if page.kind == V2:
            is_compressed = page.details.get(7, (0, True))[1]
            page.details[6], page.details[5] = (I32, len(parts[0])), (I32, len(parts[1]))
            body = b"".join(parts) + (self._compress(values) if is_compressed else values)
            plain_bytes = len(parts[0]) + len(parts[1]) + len(values)
        else:
            plain = b"".join(len(part).to_bytes(4, "little") + part for part in parts if part) + values
            body, plain_bytes = self._compress(plain), len(plain)
        page.header[2], page.header[3] = (I32, plain_bytes), (I32, len(body))
        page.body = body
        seal(page)

    def _decompress(self, data: bytes, size: int) -> bytes:
        return data if self.codec is None or not data else pa.Codec(self.codec).decompress(data, size, asbytes=True)

    def _compress(self, data: bytes) -> bytes:
        return data if self.codec is None else pa.Codec(self.codec).compress(data, asbytes=True)


def seal(page: Page) -> None:
    """Compute the checksum anew, if the page has one."""
    if 4 in page.header:
        crc = zlib.crc32(page.body)
        page.header[4] = I32, crc - (1 << 32) if crc >> 31 else crc


def unpack(data: bytes, bits: int, count: int) -> list[int]:
    """Levels or codes in runs."""
    found: list[int] = []
    at = 0
    while len(found) < count:
        head, at = read_varint(data, at)
        if head & 1:
            packed = np.frombuffer(data, np.uint8, (head >> 1) * bits, at)
            at += len(packed)
            found += (np.unpackbits(packed, bitorder="little").reshape(-1, bits) @ (1 << np.arange(bits))).tolist()
        else:
            size = (bits + 7) // 8
            found += [int.from_bytes(data[at : at + size], "little")] * (head >> 1)
            at += size
    return found[:count]


def pack(numbers: list[int], bits: int) -> bytes:
    """Levels or codes as one packed run."""
    groups = (len(numbers) + 7) // 8
    padded = np.array(numbers + [0] * (groups * 8 - len(numbers)), np.uint64)
    packed = ((padded[:, np.newaxis] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)).astype(np.uint8)
    return varint(groups << 1 | 1) + np.packbits(packed.ravel(), bitorder="little").tobytes()


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def varint(value: int) -> bytes:
    """A number, seven bits a byte."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Parts:
    """A file in parts."""

    def __init__(self, data: bytes) -> None:
        length = int.from_bytes(data[-8:-4], "little")
        self.footer, _ = read_struct(data[-8 - length : -8])
        leaves = list(self._leaves())
        self.groups: list[tuple[Struct, list[Chunk]]] = [
            (group, [_read_chunk(data, leaf, chunk) for leaf, chunk in zip(leaves, group[1][1].items, strict=True)])
            for group in self.footer[4][1].items
        ]

    def chunks(self) -> list[Chunk]:
        """All column chunks."""
        return [chunk for _, chunks in self.groups for chunk in chunks]

    def build(self) -> bytes:
        """Write the file."""
        out = bytearray(b"PAR1")
        for group, chunks in self.groups:
            begin = len(out)
            for chunk in chunks:
                _write_pages(out, chunk)
            group[5], group[6] = (I64, begin), (I64, len(out) - begin)
            group[2] = I64, sum(chunk.metadata[6][1] for chunk in chunks)
        for chunk in self.chunks():
            for tweak in chunk.tweaks:
                tweak(chunk)
            if chunk.bloom is not None:
                chunk.metadata[14], chunk.metadata[15] = (I64, len(out)), (I32, len(chunk.bloom))
                out += chunk.bloom
            else:
                chunk.metadata.pop(14, None)
                chunk.metadata.pop(15, None)
        for chunk in self.chunks():
            for index, at in ((chunk.column_index, 6), (chunk.offset_index, 4)):
                if index is not None:
                    data = write_struct(index)
                    chunk.struct[at], chunk.struct[at + 1] = (I64, len(out)), (I32, len(data))
                    out += data
                else:
                    chunk.struct.pop(at, None)
                    chunk.struct.pop(at + 1, None)
        footer = write_struct(self.footer)
        return bytes(out) + footer + len(footer).to_bytes(4, "little") + b"PAR1"

    def _leaves(self):
        elements = iter(self.footer[2][1].items)

        def descend(children, path, definition, repetition):
            for _ in range(children):
                element = next(elements)
                name, repeats = element[4][1].decode(), element[3][1]
                below = element.get(5, (0, 0))[1]
                d, r = definition + (repeats != 0), repetition + (repeats == 2)
                if below:
                    yield from descend(below, [*path, name], d, r)
                else:
                    kind = element[1][1]
                    width = element[2][1] if kind == 7 else WIDTHS.get(kind, 0)
                    yield Leaf(".".join([*path, name]), kind, width, d, r)

        yield from descend(next(elements)[5][1], [], 0, 0)


def _read_chunk(data: bytes, leaf: Leaf, struct: Struct) -> Chunk:
    metadata = struct[3][1]
    at = metadata.get(11, (0, 0))[1] or metadata[9][1]
    end = at + metadata[7][1]
    pages = []
    while at < end:
        header, body = read_struct(data, at)
        at = body + header[3][1]
        pages.append(Page(header, data[body:at]))
    indexes = [read_struct(data, struct[field][1])[0] if field in struct else None for field in (6, 4)]
    bloom = None
    if 14 in metadata:
        header, begin = read_struct(data, metadata[14][1])
        bloom = data[metadata[14][1] : begin + header[1][1]]
    return Chunk(leaf, struct, pages, indexes[0], indexes[1], bloom)


def _write_pages(out: bytearray, chunk: Chunk) -> None:
    metadata, begin = chunk.metadata, len(out)
    places, plain_bytes = [], 0
    for page in chunk.pages:
        at = len(out)
        header = write_struct(dict(sorted(page.header.items())))
        out += header + page.body
        plain_bytes += len(header) + page.header[2][1]
        if page.kind == DICTIONARY:
            metadata[11] = I64, at
        else:
            places.append((at, len(out) - at))
    metadata[6], metadata[7], metadata[9] = (I64, plain_bytes), (I64, len(out) - begin), (I64, places[0][0])
    ordered = sorted(metadata.items())
    metadata.clear()
    metadata.update(ordered)
    if chunk.offset_index is not None:
        for place, (at, size) in zip(chunk.offset_index[1][1].items, places, strict=True):
            place[1], place[2] = (I64, at), (I32, size)
