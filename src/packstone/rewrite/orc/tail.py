"""The tail of an ORC file: postscript, footer and the statistics of its stripes, read and written without a schema.

::

    "ORC"  stripe …  stripe  | statistics of stripes | footer | postscript | length of the postscript (1 byte)

Stripes know nothing of their place: the footer alone says where each begins. Numbers of fields are those of ORC's own
``orc_proto.proto``; fields without a name here are kept as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from packstone.errors import UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.orc.compression import MAX_BLOCK_BYTES, OrcCompression, OrcKind
from packstone.rewrite.orc.protobuf import (
    BYTES,
    VARINT,
    Field,
    Message,
    find_all,
    find_int,
    read_message,
    read_packed,
    write_message,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO

MAGIC: Final = b"ORC"
_MAX_ROWS_PER_BYTE: Final = 1 << 20  # a run of nulls under zlib is a thousandth of that
_MAX_DEPTH: Final = 100
_VERSIONS: Final = ([0, 11], [0, 12])
_MAX_FOOTER_BYTES: Final = 128 << 20  # a thousand columns in ten thousand stripes; several copies of it are made
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


class ByteSource(Protocol):
    """What is read of an open file; PyArrow's files are such."""

    def size(self) -> int:
        """The number of its bytes."""
        ...

    def read_at(self, nbytes: int, offset: int, /) -> bytes:
        """Read bytes from a place; fewer where the file ends."""
        ...


class UnknownCodecError(ValueError):
    """The footer is compressed by a codec that is not to be had here."""


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where one stripe lies; ``fields`` is all that the footer says of it."""

    fields: tuple[Field, ...]

    @property
    def offset(self) -> int:
        """Where it begins."""
        return find_int(list(self.fields), _STRIPE_OFFSET)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Bytes of its index, of its data and of its footer."""
        index, data, footer = (find_int(list(self.fields), number) for number in _STRIPE_LENGTHS)
        return index, data, footer

    @property
    def size_bytes(self) -> int:
        """Bytes of all its parts, which lie behind each other."""
        return sum(self.lengths)

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return find_int(list(self.fields), _STRIPE_ROWS)

    def moved_to(self, offset: int) -> Stripe:
        """The same stripe at another place."""
        rest = [field for field in self.fields if field[0] != _STRIPE_OFFSET]
        return Stripe(((_STRIPE_OFFSET, VARINT, offset), *rest))

    def resized(self, *lengths: int) -> Stripe:
        """The same stripe with other lengths of its index, data and footer."""
        values = dict(zip(_STRIPE_LENGTHS, lengths, strict=True))
        return Stripe(tuple(replace_ints(list(self.fields), values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """What the end of a file says of the whole."""

    postscript: Message
    footer: Message
    stripes: tuple[Stripe, ...]
    stripe_statistics: tuple[bytes, ...]  # one for each stripe, or none at all
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
        """The number of the implementation that wrote the file, and its version for readers that know its faults."""
        return find_int(self.footer, FOOTER_WRITER), find_int(self.postscript, PS_WRITER_VERSION)


def read_tail(io: FileIO, path: str) -> OrcTail:
    """Read the tail; UnreadableFileError if it is broken, UnknownCodecError if its codec is not to be had."""
    try:
        with io.open_input(path) as source:
            return tail_of(source)
    except UnknownCodecError:
        raise
    except (ValueError, OSError) as error:
        raise UnreadableFileError(f"{path} is no readable ORC file: {one_line(error)}.", file=path) from error


def tail_of(source: ByteSource) -> OrcTail:
    """Read the tail of an open file; ValueError if it is broken."""
    size_bytes = source.size()
    guess = min(_GUESSED_BYTES, size_bytes)
    data = source.read_at(guess, size_bytes - guess)
    postscript, need = _read_postscript(data, size_bytes=size_bytes)
    if need > guess:
        data = source.read_at(need, size_bytes - need)
    return _parse_tail(postscript, data[len(data) - need :], content_end=size_bytes - need)


def write_tail(like: OrcTail, *, footer: Message, stripe_statistics: Sequence[bytes]) -> bytes:
    """Make the end of a file: the statistics of stripes, the footer, the postscript and its length."""
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
    """Set varint fields, in the order of their numbers; the rest stays."""
    rest = [field for field in message if field[0] not in values]
    return sorted([*rest, *((number, VARINT, value) for number, value in values.items())], key=lambda field: field[0])


def _read_postscript(data: bytes, *, size_bytes: int) -> tuple[Message, int]:
    """Return the postscript and how long the whole tail is."""
    if not data or data[-1] + 1 > len(data):
        raise ValueError("it has no postscript")
    own = data[-1] + 1
    postscript = read_message(data[len(data) - own : -1])
    footer_bytes = find_int(postscript, PS_FOOTER_LENGTH)
    if not footer_bytes:
        raise ValueError("its postscript tells of no footer")
    need = own + footer_bytes + find_int(postscript, PS_METADATA_LENGTH)
    if need > size_bytes - len(MAGIC):
        raise ValueError("its postscript tells of more bytes than there are")
    return postscript, need


def _parse_tail(postscript: Message, data: bytes, *, content_end: int) -> OrcTail:
    kind = find_int(postscript, PS_COMPRESSION)
    if kind not in list(OrcKind) or kind == OrcKind.LZO:
        name = OrcKind(kind).name if kind in list(OrcKind) else f"number {kind}"
        raise UnknownCodecError(f"its footer is compressed by {name}, which cannot be decoded here")
    version = [number for packed in find_all(postscript, PS_VERSION) for number in read_packed(packed)]
    if version and version not in _VERSIONS:
        raise ValueError(f"it is of version {'.'.join(map(str, version))} of the format, which is not known")
    block_bytes = find_int(postscript, PS_BLOCK_BYTES, _DEFAULT_BLOCK_BYTES)
    if not 0 < block_bytes <= MAX_BLOCK_BYTES:
        raise ValueError(f"its compressed blocks would be of {block_bytes} bytes")
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
            raise ValueError(f"a stripe of {stripe.size_bytes} bytes would hold {stripe.rows} rows")
        at = stripe.offset + stripe.size_bytes
    if at > tail.content_end:
        raise ValueError("its stripes reach into its footer")
    if sum(stripe.rows for stripe in tail.stripes) != tail.rows:
        raise ValueError("its stripes hold another number of rows than its footer says")


def _check_messages(footer: Message) -> None:
    """What is read of a footer later must be readable: nobody expects a broken file there."""
    if not find_all(footer, FOOTER_TYPES):
        raise ValueError("its footer has no types")
    for number in (FOOTER_TYPES, FOOTER_USER_METADATA, FOOTER_STATISTICS):
        for message in find_all(footer, number):
            read_message(message)
    _check_types([read_message(one) for one in find_all(footer, FOOTER_TYPES)])


def _check_types(types: Sequence[Message]) -> None:
    """Columns are a tree, each behind its parent: PyArrow trusts the numbers of children."""
    depths = {0: 0}
    for number, column in enumerate(types):
        children = children_of(column)
        for child in children:
            if not number < child < len(types) or child in depths:
                raise ValueError("its columns are not a tree")
            depths[child] = depths.get(number, _MAX_DEPTH) + 1
        for name in names_of(column):
            name.decode()  # UnicodeDecodeError is a ValueError; PyArrow raises it wherever the schema is looked at
        if kind_of(column) == _STRUCT and len(names_of(column)) != len(children):
            raise ValueError("a struct of its schema has more names than fields, or fewer")
        expected = _CHILDREN.get(kind_of(column), len(children) if kind_of(column) in (_STRUCT, _UNION) else 0)
        if len(children) != expected:
            raise ValueError(f"a column of type number {kind_of(column)} has {len(children)} children")
    if len(depths) != len(types) or max(depths.values()) > _MAX_DEPTH:
        raise ValueError("its columns are not a tree")


def read_types(tail: OrcTail) -> list[Message]:
    """The types of all columns, nested ones too, in the order of their numbers."""
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
