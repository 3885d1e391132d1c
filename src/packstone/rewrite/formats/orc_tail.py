"""Read and write the tail of an ORC file (postscript, footer, statistics of stripes) without a schema.

::

    "ORC"  stripe …  stripe  | statistics of stripes | footer | postscript | length of the postscript (1 byte)

Stripes do not contain their own offset: only the footer says where each begins. Numbers of fields are those of ORC's
``orc_proto.proto``; fields without a name here are kept unchanged.

Footers and streams are compressed in blocks, each after three bytes that state its length and whether it is
compressed. The codecs are those of PyArrow and the standard library; neither includes LZO.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, cast

import pyarrow as pa

from packstone.errors import UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.codecs import decompress_lz4_block
from packstone.rewrite.formats.orc_protobuf import (
    BYTES,
    VARINT,
    Field,
    Message,
    find_all,
    find_int,
    read_message,
    read_packed,
    read_varint,
    write_message,
)
from packstone.storage.fileio import KeptFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

MAGIC: Final = b"ORC"
_REMEMBERED: Final = "orc tail"
_MAX_ROWS_PER_BYTE: Final = 1 << 20  # a run of nulls under zlib is a thousandth of that
_MAX_DEPTH: Final = 100
_VERSIONS: Final = ([0, 11], [0, 12])
_MAX_FOOTER_BYTES: Final = 128 << 20  # a thousand columns in ten thousand stripes; several copies are held
_GUESSED_BYTES: Final = 16 << 10
_MAX_POSTSCRIPT_BYTES: Final = 255

# Postscript.
PS_FOOTER_LENGTH: Final = 1
PS_COMPRESSION: Final = 2
PS_BLOCK_BYTES: Final = 3
PS_VERSION: Final = 4
PS_METADATA_LENGTH: Final = 5
PS_WRITER_VERSION: Final = 6
PS_ENCRYPTED_STATISTICS: Final = 7
_DEFAULT_BLOCK_BYTES: Final = 256 << 10
# Footer.
FOOTER_CONTENT_LENGTH: Final = 2
FOOTER_STRIPES: Final = 3
FOOTER_TYPES: Final = 4
FOOTER_USER_METADATA: Final = 5
FOOTER_ROWS: Final = 6
FOOTER_STATISTICS: Final = 7
FOOTER_STRIDE: Final = 8
FOOTER_WRITER: Final = 9
FOOTER_ENCRYPTION: Final = 10
FOOTER_CALENDAR: Final = 11
FOOTER_SOFTWARE: Final = 12
# Stripe.
_STRIPE_OFFSET: Final = 1
_STRIPE_LENGTHS: Final = (2, 3, 4)  # index, data, footer
_STRIPE_ROWS: Final = 5
# Type.
_TYPE_KIND: Final = 1
_TYPE_CHILDREN: Final = 2
_TYPE_NAMES: Final = 3
_STRUCT, _UNION = 12, 13
_CHILDREN: Final = {10: 1, 11: 2}  # list, map
# Section of stripe statistics.
_STATISTICS_OF_STRIPE: Final = 1


class OrcSource(Protocol):
    """An open file; PyArrow's files match this protocol."""

    def size(self) -> int:
        """The size of the file in bytes."""
        ...

    def read_at(self, nbytes: int, offset: int, /) -> bytes:
        """Read bytes at an offset; fewer at the end of the file."""
        ...


class UnknownCodecError(ValueError):
    """The footer is compressed with a codec that no installed library has."""


@dataclass(frozen=True, slots=True)
class Stripe:
    """The position of one stripe; ``fields`` is its whole entry in the footer."""

    fields: tuple[Field, ...]

    @property
    def offset(self) -> int:
        """The offset of its first byte."""
        return find_int(list(self.fields), _STRIPE_OFFSET)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """The bytes of its index, its data and its footer."""
        index, data, footer = (find_int(list(self.fields), number) for number in _STRIPE_LENGTHS)
        return index, data, footer

    @property
    def size_bytes(self) -> int:
        """The bytes of all its parts, which are contiguous."""
        return sum(self.lengths)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return find_int(list(self.fields), _STRIPE_ROWS)

    def moved_to(self, offset: int) -> Stripe:
        """The same stripe at another offset."""
        rest = [field for field in self.fields if field[0] != _STRIPE_OFFSET]
        return Stripe(((_STRIPE_OFFSET, VARINT, offset), *rest))

    def resized(self, *lengths: int) -> Stripe:
        """The same stripe with other lengths of its index, data and footer."""
        values = dict(zip(_STRIPE_LENGTHS, lengths, strict=True))
        return Stripe(tuple(replace_ints(list(self.fields), values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """The tail of a file."""

    postscript: Message
    footer: Message
    stripes: tuple[Stripe, ...]
    stripe_statistics: tuple[bytes, ...]  # one for each stripe, or empty
    compression: OrcCompression
    content_end: int  # where the stripes end

    @property
    def rows(self) -> int:
        """The number of rows that the footer states."""
        return find_int(self.footer, FOOTER_ROWS)

    @property
    def column_statistics(self) -> list[bytes]:
        """Statistics of the whole file, a message for each column."""
        return find_all(self.footer, FOOTER_STATISTICS)

    @property
    def writer(self) -> tuple[int, int]:
        """The implementation that wrote the file, and its version, by which readers work around its bugs."""
        return find_int(self.footer, FOOTER_WRITER), find_int(self.postscript, PS_WRITER_VERSION)


def read_tail(io: FileIO, path: str) -> OrcTail:
    """Read the tail; UnreadableFileError if it is broken, UnknownCodecError if its codec is not available.

    The tail of a file whose bytes are kept for a unit is parsed once.
    """
    kept = io if isinstance(io, KeptFiles) else None
    remembered = kept.remembered(path) if kept is not None else None
    if remembered and _REMEMBERED in remembered:
        return cast("OrcTail", remembered[_REMEMBERED])
    try:
        with io.open_input(path) as source:
            found = tail_of(source)
    except UnknownCodecError:
        raise
    except (ValueError, OSError) as error:
        raise UnreadableFileError(f"{path} is not a readable ORC file: {one_line(error)}.", file=path) from error
    remembered = kept.remembered(path) if kept is not None else None  # None if it has another size than expected
    if remembered is not None:
        remembered[_REMEMBERED] = found
    return found


def tail_of(source: OrcSource) -> OrcTail:
    """Read the tail of an open file; ValueError if it is broken."""
    size_bytes = source.size()
    guess = min(_GUESSED_BYTES, size_bytes)
    data = source.read_at(guess, size_bytes - guess)
    postscript, need = _read_postscript(data, size_bytes=size_bytes)
    if need > guess:
        data = source.read_at(need, size_bytes - need)
    return _parse_tail(postscript, data[len(data) - need :], content_end=size_bytes - need)


def write_tail(like: OrcTail, *, footer: Message, stripe_statistics: Sequence[bytes]) -> bytes:
    """The bytes of a tail: the statistics of stripes, the footer, the postscript and its length."""
    packed_statistics = b""
    if stripe_statistics:
        section = write_message((_STATISTICS_OF_STRIPE, BYTES, one) for one in stripe_statistics)
        packed_statistics = like.compression.compress(section)
    packed_footer = like.compression.compress(write_message(footer))
    lengths = {PS_FOOTER_LENGTH: len(packed_footer), PS_METADATA_LENGTH: len(packed_statistics)}
    postscript = write_message(replace_ints(like.postscript, lengths))
    if len(postscript) > _MAX_POSTSCRIPT_BYTES:
        raise ValueError("the postscript is too long")
    return packed_statistics + packed_footer + postscript + bytes((len(postscript),))


def replace_ints(message: Message, values: dict[int, int]) -> Message:
    """The message with some varint fields replaced, sorted by field number."""
    rest = [field for field in message if field[0] not in values]
    return sorted([*rest, *((number, VARINT, value) for number, value in values.items())], key=lambda field: field[0])


def _read_postscript(data: bytes, *, size_bytes: int) -> tuple[Message, int]:
    """Return the postscript and the length of the whole tail."""
    if not data or data[-1] + 1 > len(data):
        raise ValueError("it has no postscript")
    own = data[-1] + 1
    postscript = read_message(data[len(data) - own : -1])
    footer_bytes = find_int(postscript, PS_FOOTER_LENGTH)
    if not footer_bytes:
        raise ValueError("its postscript states no footer")
    need = own + footer_bytes + find_int(postscript, PS_METADATA_LENGTH)
    if need > size_bytes - len(MAGIC):
        raise ValueError("its postscript states more bytes than the file has")
    return postscript, need


def _parse_tail(postscript: Message, data: bytes, *, content_end: int) -> OrcTail:
    kind = find_int(postscript, PS_COMPRESSION)
    if kind not in list(OrcKind) or kind == OrcKind.LZO:
        name = OrcKind(kind).name if kind in list(OrcKind) else f"number {kind}"
        raise UnknownCodecError(f"its footer is compressed with {name}, which Packstone cannot decode")
    version = [number for packed in find_all(postscript, PS_VERSION) for number in read_packed(packed)]
    if version and version not in _VERSIONS:
        raise ValueError(f"it has the unknown format version {'.'.join(map(str, version))}")
    block_bytes = find_int(postscript, PS_BLOCK_BYTES, _DEFAULT_BLOCK_BYTES)
    if not 0 < block_bytes <= MAX_BLOCK_BYTES:
        raise ValueError(f"it states compressed blocks of {block_bytes} bytes, which is out of range")
    compression = OrcCompression(OrcKind(kind), block_bytes)
    metadata_bytes = find_int(postscript, PS_METADATA_LENGTH)
    footer_end = metadata_bytes + find_int(postscript, PS_FOOTER_LENGTH)
    footer = read_message(compression.decompress(data[metadata_bytes:footer_end], max_bytes=_MAX_FOOTER_BYTES))
    section = read_message(compression.decompress(data[:metadata_bytes], max_bytes=_MAX_FOOTER_BYTES))
    stripes = tuple(Stripe(tuple(read_message(one))) for one in find_all(footer, FOOTER_STRIPES))
    statistics = find_all(section, _STATISTICS_OF_STRIPE)
    tail = OrcTail(
        postscript=postscript,
        footer=footer,
        stripes=stripes,
        stripe_statistics=tuple(statistics) if len(statistics) == len(stripes) else (),
        compression=compression,
        content_end=content_end,
    )
    _check_stripes(tail)
    _check_messages(footer)
    return tail


def _check_stripes(tail: OrcTail) -> None:
    at = len(MAGIC)
    for stripe in tail.stripes:
        if stripe.offset < at:
            raise ValueError("its stripes overlap")
        if stripe.rows > (stripe.size_bytes + 1) * _MAX_ROWS_PER_BYTE:
            raise ValueError(f"a stripe of {stripe.size_bytes} bytes states {stripe.rows} rows")
        at = stripe.offset + stripe.size_bytes
    if at > tail.content_end:
        raise ValueError("its stripes overlap its footer")
    if sum(stripe.rows for stripe in tail.stripes) != tail.rows:
        raise ValueError("its stripes hold another number of rows than its footer states")


def _check_messages(footer: Message) -> None:
    """Check the parts of a footer that are parsed later, where a broken file is not expected."""
    if not find_all(footer, FOOTER_TYPES):
        raise ValueError("its footer has no types")
    for number in (FOOTER_TYPES, FOOTER_USER_METADATA, FOOTER_STATISTICS):
        for message in find_all(footer, number):
            read_message(message)
    _check_types([read_message(one) for one in find_all(footer, FOOTER_TYPES)])


def _check_types(types: Sequence[Message]) -> None:
    """Check that the columns are a tree, each after its parent: PyArrow trusts the numbers of children."""
    depths = {0: 0}
    for number, column in enumerate(types):
        children = children_of(column)
        for child in children:
            if not number < child < len(types) or child in depths:
                raise ValueError("its columns are not a tree")
            depths[child] = depths.get(number, _MAX_DEPTH) + 1
        for name in names_of(column):
            name.decode()  # UnicodeDecodeError is a ValueError; PyArrow raises it wherever the schema is used
        if kind_of(column) == _STRUCT and len(names_of(column)) != len(children):
            raise ValueError("a struct of its schema has more names than fields, or fewer")
        expected = _CHILDREN.get(kind_of(column), len(children) if kind_of(column) in (_STRUCT, _UNION) else 0)
        if len(children) != expected:
            raise ValueError(f"a column of type number {kind_of(column)} has {len(children)} children")
    if len(depths) != len(types) or max(depths.values()) > _MAX_DEPTH:
        raise ValueError("its columns are not a tree")


def read_types(tail: OrcTail) -> list[Message]:
    """The types of all columns, including nested ones, in the order of their numbers."""
    return [read_message(one) for one in find_all(tail.footer, FOOTER_TYPES)]


def kind_of(column: Message) -> int:
    """The number of a column's type."""
    return find_int(column, _TYPE_KIND)


def names_of(column: Message) -> tuple[bytes, ...]:
    """The names of a struct's fields."""
    return tuple(find_all(column, _TYPE_NAMES))


def children_of(column: Message) -> list[int]:
    """The numbers of a column's children, however they were packed."""
    loose = [value for number, _, value in column if number == _TYPE_CHILDREN and isinstance(value, int)]
    return [*loose, *(child for packed in find_all(column, _TYPE_CHILDREN) for child in read_packed(packed))]


# ---- compression ----

BLOCK_HEAD_BYTES: Final = 3
_RAW_DEFLATE: Final = -15
SNAPPY_MOST_RATIO: Final = 64  # the longest copy, of 64 bytes, takes three bytes
MAX_BLOCK_BYTES: Final = 1 << 23  # the length has three bytes, and one bit of them is a flag


class OrcKind(IntEnum):
    """The codecs by their number in the postscript."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


@dataclass(frozen=True, slots=True)
class OrcCompression:
    """The codec of one file, and the size of its uncompressed blocks."""

    kind: OrcKind
    block_bytes: int

    def decompress(self, data: bytes, *, max_bytes: int = 1 << 30) -> bytes:
        """Decode a footer or a stream; ValueError if it is broken, or longer than any real one."""
        if self.kind is OrcKind.NONE:
            return data
        parts, size_bytes = [], 0
        for block, is_plain in self._blocks(data):
            parts.append(block if is_plain else self._decompress_block(block))
            size_bytes += len(parts[-1])
            if size_bytes > max_bytes:
                raise ValueError(f"{len(data)} bytes hold more than {max_bytes} when they are decoded")
        return b"".join(parts)

    def _blocks(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield each block, and whether it is stored without compression."""
        at = 0
        while at < len(data):
            head = int.from_bytes(data[at : at + BLOCK_HEAD_BYTES], "little")
            at += BLOCK_HEAD_BYTES
            block = data[at : at + (head >> 1)]
            if len(block) < head >> 1:
                raise ValueError("a compressed block ends too early")
            at += len(block)
            yield block, bool(head & 1)

    def compress(self, data: bytes) -> bytes:
        """Encode a footer or a stream; blocks that would not get shorter are stored uncompressed and flagged so."""
        return self.compress_with_positions(data, ())[0]

    def compress_with_positions(self, data: bytes, places: Sequence[int]) -> tuple[bytes, list[list[int]]]:
        """Encode, and return the positions of some bytes of the content in the form of a row index.

        Each position ends with a zero: it is the start of a run.
        """
        if self.kind is OrcKind.NONE:
            return data, [[place, 0] for place in places]
        out, starts = bytearray(), []
        step = min(self.block_bytes, MAX_BLOCK_BYTES - 1)
        for at in range(0, len(data), step):
            starts.append(len(out))
            plain = data[at : at + step]
            packed = self._compress_block(plain)
            is_plain = len(packed) >= len(plain)
            block = plain if is_plain else packed
            out += (len(block) << 1 | is_plain).to_bytes(BLOCK_HEAD_BYTES, "little") + block
        starts.append(len(out))
        return bytes(out), [[starts[place // step], place % step, 0] for place in places]

    def block_starts(self, data: bytes) -> dict[int, int]:
        """Map the offset of each block of a stream, and of the end, to that of its content; empty without a codec."""
        if self.kind is OrcKind.NONE:
            return {}
        found, at, content = {}, 0, 0
        for block, is_plain in self._blocks(data):
            found[at] = content
            at += BLOCK_HEAD_BYTES + len(block)
            content += len(block if is_plain else self._decompress_block(block))
        found[at] = content
        return found

    def _decompress_block(self, block: bytes) -> bytes:
        try:
            found = self._decode(block)
        except (zlib.error, OSError) as error:
            raise ValueError("a compressed block is broken") from error
        if len(found) > self.block_bytes:
            raise ValueError(f"a compressed block holds more than {self.block_bytes} bytes")
        return found

    def _decode(self, block: bytes) -> bytes:
        """Decode a block; if it is too long, decode only enough to detect that."""
        match self.kind:
            case OrcKind.ZLIB:
                decoder = zlib.decompressobj(_RAW_DEFLATE)
                plain = decoder.decompress(block, self.block_bytes + 1)
                if len(plain) <= self.block_bytes and not decoder.eof:
                    raise ValueError("a compressed block ends too early")
                return plain
            case OrcKind.SNAPPY:
                return decompress_snappy(block)  # at most 64 times as long
            case OrcKind.LZ4:
                return decompress_lz4_block(block)  # at most 255 times as long
            case OrcKind.ZSTD | OrcKind.BROTLI:
                with pa.CompressedInputStream(pa.BufferReader(block), self.kind.name.lower()) as stream:
                    found: bytes = stream.read(self.block_bytes + 1)
                return found
            case _:
                raise ValueError(f"the codec {self.kind.name} is not supported")

    def _compress_block(self, block: bytes) -> bytes:
        match self.kind:
            case OrcKind.ZLIB:
                coder = zlib.compressobj(wbits=_RAW_DEFLATE)
                return coder.compress(block) + coder.flush()
            case OrcKind.SNAPPY | OrcKind.ZSTD | OrcKind.BROTLI:
                found: bytes = pa.compress(block, codec=self.kind.name.lower(), asbytes=True)
                return found
            case OrcKind.LZ4:
                packed: bytes = pa.compress(block, codec="lz4_raw", asbytes=True)
                return packed
            case _:
                return block


def decompress_snappy(block: bytes) -> bytes:
    """Decode one raw Snappy block, which begins with its length; ValueError if it is broken."""
    size_bytes, _ = read_varint(block, 0)
    if not size_bytes:
        return b""
    if size_bytes > SNAPPY_MOST_RATIO * len(block):  # do not allocate memory for a damaged length
        raise ValueError("a block of Snappy is broken")
    try:
        found: bytes = pa.decompress(block, decompressed_size=size_bytes, codec="snappy", asbytes=True)
    except OSError as error:
        raise ValueError("a block of Snappy is broken") from error
    return found
