"""Check a Parquet footer before PyArrow sees it.

PyArrow crashes the process when a footer contradicts itself in some ways: its C++ library throws an exception where
the Python layer does not expect one (a column chunk with another type than the schema, an unknown codec, a statistic
that is too short). Other contradictions raise a UnicodeDecodeError or an IndexError much later, in code that does not
know the file. So every footer is checked against the rules of parquet.thrift first, and a file that breaks one is
reported as unreadable, with its name and the reason.

Cost: about 25 µs per column and row group, once for each footer that a process sees; opening the file again costs a
digest of the footer, 4 µs including the read.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.formats.parquet_thrift import BINARY, I32, I64, LIST, STRUCT, Struct, ThriftList, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"PAR1"
_ENCRYPTED_MAGIC: Final = b"PARE"
_MIN_BYTES: Final = 12  # magic, an empty footer's length, magic
_TAIL_BYTES: Final = 8  # the footer's length and the magic
_FIRST_READ_BYTES: Final = 16 << 10  # contains most footers: one request to the storage instead of three
_REMEMBERED: Final = 1 << 16
_CHECKED: dict[bytes, None] = {}

# Numbers of fields in parquet.thrift. FileMetaData
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY, _ENCRYPTION = 2, 3, 4, 5, 6, 8
# SchemaElement
_TYPE, _TYPE_LENGTH, _REPETITION, _NAME, _NUM_CHILDREN = 1, 2, 3, 4, 5
# RowGroup
_COLUMNS, _GROUP_ROWS, _SORTING = 1, 3, 4
# ColumnChunk
_META_DATA, _CRYPTO = 3, 8
# ColumnMetaData
_CHUNK_TYPE, _ENCODINGS, _PATH, _CODEC, _NUM_VALUES, _PLAIN_BYTES, _CHUNK_BYTES = 1, 2, 3, 4, 5, 6, 7
_DATA_OFFSET, _DICTIONARY_OFFSET, _STATISTICS, _BLOOM_OFFSET, _BLOOM_BYTES, _SIZES = 9, 11, 12, 14, 15, 16
_BOUNDS: Final = (1, 2, 5, 6)  # of Statistics: max, min, max_value, min_value
_UNENCODED_BYTES, _REPETITION_COUNTS, _DEFINITION_COUNTS = 1, 2, 3  # of SizeStatistics
# Values
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
INT96, BYTE_ARRAY, _FIXED = 3, 6, 7
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, INT96: 12, 4: 4, 5: 8, BYTE_ARRAY: 0}  # bytes of a value, by physical type
_LIMITS: Final = {I32: 1 << 31, I64: 1 << 63}
_CODECS: Final = 8  # UNCOMPRESSED, SNAPPY, GZIP, LZO, BROTLI, LZ4, ZSTD, LZ4_RAW


@dataclass(frozen=True, slots=True)
class SchemaLeaf:
    """A column as the schema states it; ``definition`` and ``repetition`` are its highest levels."""

    name: str
    kind: int
    width_bytes: int  # of a value; 0 if values differ in width
    definition: int
    repetition: int


def check_footer(source: Any, path: str) -> None:
    """Raise UnreadableFileError, with the reason, unless the file has a footer that is safe for PyArrow."""
    footer, begin = find_footer(source, path)
    digest = digest_footer(footer, begin)
    if digest in _CHECKED:
        return
    from packstone.rewrite.formats.parquet_scan import scan_found  # it learns from what is checked here

    scan_found(footer, begin, path)
    if len(_CHECKED) >= _REMEMBERED:
        _CHECKED.clear()
    _CHECKED[digest] = None


def digest_footer(footer: bytes, begin: int) -> bytes:
    """A digest of the bytes of a footer and of its offset."""
    return hashlib.blake2b(footer, digest_size=16, key=begin.to_bytes(8, "little")).digest()


def find_footer(source: Any, path: str) -> tuple[bytes, int]:
    """Read the footer of a file; return its bytes and its offset."""
    size_bytes = source.size()
    if size_bytes < _MIN_BYTES:
        raise UnreadableFileError(f"{path} is too short ({size_bytes} bytes) to be a Parquet file.", file=path)
    tail = source.read_at(min(size_bytes, _FIRST_READ_BYTES), max(0, size_bytes - _FIRST_READ_BYTES))
    head = tail[:4] if len(tail) == size_bytes else source.read_at(4, 0)
    _check_magic(path, head=head, tail=tail[-4:])
    length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
    begin = size_bytes - _TAIL_BYTES - length
    if begin < len(MAGIC):
        raise UnreadableFileError(f"{path} has a footer of {length} bytes, which is more than the file.", file=path)
    if length + _TAIL_BYTES <= len(tail):
        return tail[len(tail) - _TAIL_BYTES - length : -_TAIL_BYTES], begin
    return source.read_at(length, begin), begin


@contextlib.contextmanager
def refused_by_name(path: str) -> Iterator[None]:
    """Name the file in the errors of ``check_metadata``."""
    try:
        yield
    except ValueError as error:
        raise UnreadableFileError(f"{path} has a broken Parquet footer: {error}.", file=path) from error
    except UnfaithfulError as error:
        raise UnfaithfulError(f"PyArrow cannot read {path}: {error.message}", file=path) from error


def _check_magic(path: str, *, head: bytes, tail: bytes) -> None:
    if _ENCRYPTED_MAGIC in (head, tail):
        raise UnreadableFileError(f"{path} is an encrypted Parquet file; packstone has no key for it.", file=path)
    if head != MAGIC:
        raise UnreadableFileError(f"{path} is not a Parquet file, although its name says so.", file=path)
    if tail != MAGIC:
        raise UnreadableFileError(f"{path} is a truncated Parquet file: its footer is missing.", file=path)


def check_metadata(footer: bytes, *, data_end: int) -> tuple[Struct, tuple[SchemaLeaf, ...]]:
    """Return the footer and its columns; ValueError, with the reason, unless it is consistent and fits its file."""
    metadata, _ = read_struct(footer)
    if _ENCRYPTION in metadata:
        raise ValueError("it has encrypted columns, and packstone has no key for them")
    leaves = tuple(_leaves(_structs(metadata, _SCHEMA)))
    for pair in _structs(metadata, _KEY_VALUES):
        _value(pair, 1, BINARY)
    _text(metadata, _CREATED_BY)
    rows = 0
    for group in _structs(metadata, _ROW_GROUPS):
        group_rows = _count(group, _GROUP_ROWS)
        _check_group(group, leaves, data_end=data_end)
        rows += group_rows
    if _count(metadata, _NUM_ROWS) != rows:
        raise ValueError(f"it states {_count(metadata, _NUM_ROWS)} rows, its row groups state {rows}")
    return metadata, leaves


def _leaves(elements: list[Struct]) -> Iterator[SchemaLeaf]:
    """Walk the schema's tree, written depth first; every element must belong to it."""
    if not elements:
        raise ValueError("it has no schema")
    # (remaining children, name, definition level, repetition level) of the open groups
    open_groups = [(_count(elements[0], _NUM_CHILDREN, I32), "", 0, 0)]
    for element in elements[1:]:
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        if not open_groups:
            raise ValueError("its schema has more elements than the groups have children")
        left, prefix, definition, repetition = open_groups.pop()
        open_groups.append((left - 1, prefix, definition, repetition))
        name = prefix + _text(element, _NAME)
        repeats = _count(element, _REPETITION, I32)
        if repeats > _REPEATED:
            raise ValueError(f"{name} has the unknown repetition {repeats}")
        if (_TYPE in element) == bool(_count(element, _NUM_CHILDREN, I32)):
            raise ValueError(f"{name} is neither a column nor a group of columns")
        definition, repetition = definition + (repeats != _REQUIRED), repetition + (repeats == _REPEATED)
        if _TYPE in element:
            yield _leaf(element, name, definition=definition, repetition=repetition)
        else:
            open_groups.append((_count(element, _NUM_CHILDREN, I32), f"{name}.", definition, repetition))
    if any(left for left, *_ in open_groups):
        raise ValueError("its schema has fewer elements than the groups have children")


def _leaf(element: Struct, name: str, *, definition: int, repetition: int) -> SchemaLeaf:
    kind = _count(element, _TYPE, I32)
    if kind == _FIXED:
        width = _count(element, _TYPE_LENGTH, I32)
    elif kind in _WIDTHS:
        width = _WIDTHS[kind]
    else:
        raise ValueError(f"{name} has the unknown type {kind}")
    return SchemaLeaf(name, kind, width, definition, repetition)


def _check_group(group: Struct, leaves: tuple[SchemaLeaf, ...], *, data_end: int) -> None:
    chunks = _structs(group, _COLUMNS)
    if len(chunks) != len(leaves):
        raise ValueError(f"a row group has {len(chunks)} columns, the schema has {len(leaves)}")
    for leaf, chunk in zip(leaves, chunks, strict=True):
        if _CRYPTO in chunk:
            raise ValueError(f"{leaf.name} is encrypted, and packstone has no key for it")
        metadata = _value(chunk, _META_DATA, STRUCT)
        _check_chunk(metadata, leaf, data_end=data_end)
    for key in _structs(group, _SORTING):
        if _count(key, 1, I32) >= len(leaves):
            raise ValueError(f"it claims to be sorted by column {_count(key, 1, I32)} of {len(leaves)}")


def _check_chunk(chunk: Struct, leaf: SchemaLeaf, *, data_end: int) -> None:
    if _count(chunk, _CHUNK_TYPE, I32) != leaf.kind:
        raise ValueError(f"{leaf.name} has another type in a row group than in the schema")
    if _count(chunk, _CODEC, I32) >= _CODECS:  # of a later Parquet version: not damage
        number = _count(chunk, _CODEC, I32)
        raise UnfaithfulError(f"{leaf.name} is compressed with the unknown codec number {number}")
    for part in _list(chunk, _PATH, BINARY):
        _decode_text(part, leaf.name)
    _list(chunk, _ENCODINGS, I32)
    _check_place(chunk, leaf, data_end=data_end)
    if _STATISTICS in chunk:
        _check_statistics(_value(chunk, _STATISTICS, STRUCT), leaf)
    if _SIZES in chunk:
        _check_sizes(_value(chunk, _SIZES, STRUCT), leaf)


def _check_place(chunk: Struct, leaf: SchemaLeaf, *, data_end: int) -> None:
    values, begin, size_bytes = (_count(chunk, field) for field in (_NUM_VALUES, _DATA_OFFSET, _CHUNK_BYTES))
    _count(chunk, _PLAIN_BYTES)
    if dictionary := _count(chunk, _DICTIONARY_OFFSET) if _DICTIONARY_OFFSET in chunk else 0:
        begin = min(begin, dictionary)
    if values and begin + size_bytes > data_end:
        raise ValueError(f"the data of {leaf.name} would end beyond the end of the file")
    if _BLOOM_OFFSET in chunk and _count(chunk, _BLOOM_OFFSET) >= data_end:
        raise ValueError(f"the bloom filter of {leaf.name} would begin beyond the end of the file")
    if _BLOOM_BYTES in chunk:
        _count(chunk, _BLOOM_BYTES, I32)


def _check_statistics(statistics: Struct, leaf: SchemaLeaf) -> None:
    """Check the length of bounds: PyArrow reads one as a value of the column's type, and crashes if it is too short."""
    for field in _BOUNDS:
        if field in statistics and len(_value(statistics, field, BINARY)) < leaf.width_bytes:
            if leaf.kind == _FIXED:  # arrow-rs truncates long values, which is allowed
                raise UnfaithfulError(f"the statistics of {leaf.name} are shortened")
            raise ValueError(f"a statistic of {leaf.name} is too short for its type")


def _check_sizes(sizes: Struct, leaf: SchemaLeaf) -> None:
    if _UNENCODED_BYTES in sizes and leaf.kind != BYTE_ARRAY:
        raise ValueError(f"{leaf.name} states a size of strings, but holds none")
    for field, level in ((_REPETITION_COUNTS, leaf.repetition), (_DEFINITION_COUNTS, leaf.definition)):
        if field in sizes:
            counts = _list(sizes, field, I64)
            if counts and len(counts) != level + 1:
                raise ValueError(f"{leaf.name} states counts for {len(counts)} levels and has {level + 1}")


def _value(struct: Struct, field: int, kind: int) -> Any:
    found = struct.get(field)
    if found is None or found[0] != kind:
        raise ValueError(f"it lacks the field {field}, or has it with another type")
    return found[1]


def _count(struct: Struct, field: int, kind: int = I64) -> int:
    """A number that is not negative, or 0 if it is absent; PyArrow ignores a number of another width."""
    found = struct.get(field)
    if found is None:
        return 0
    if found[0] != kind or not 0 <= found[1] < _LIMITS[kind]:
        raise ValueError(f"its field {field} is not a valid count")
    return int(found[1])


def _text(struct: Struct, field: int) -> str:
    return _decode_text(_value(struct, field, BINARY), f"field {field}") if field in struct else ""


def _decode_text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"a name is not valid UTF-8 ({where})") from None


def _list(struct: Struct, field: int, kind: int) -> list[Any]:
    found = struct.get(field)
    if found is None:
        return []
    items = found[1]
    if found[0] != LIST or not isinstance(items, ThriftList) or (items.kind != kind and items.items):
        raise ValueError(f"its field {field} is not a list of the expected type")
    return items.items


def _structs(struct: Struct, field: int) -> list[Struct]:
    return _list(struct, field, STRUCT)
