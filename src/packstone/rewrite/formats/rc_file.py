"""Copy and check the row groups of Hive's RCFiles.

A file is ``RCF1``, compression, metadata, the marker; then row groups, column by column. A row group is its length,
the length of its key, the length of its compressed key, the key, and the columns. The key states the number of rows,
the length of each column and the length of each value in it, so it is read (decompressed, if necessary) and compared
with the lengths before it. The columns are copied unchanged; before that they are decompressed, and the lengths of
their values are summed. At intervals, -1 in place of the length indicates that a marker follows.

Hive before 0.9, and later versions if configured, wrote the header of a SequenceFile whose keys have RCFile's class.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.rewrite.formats.block_format import SYNC_BYTES, Header, Piece
from packstone.rewrite.formats.codecs import DECOMPRESS, decompress_piece
from packstone.rewrite.formats.sequence_file import is_at_mark, mark, take_mark, take_plain
from packstone.rewrite.formats.writables import check_runs, parse_vlong, read_flag, read_metadata, read_text, vlong_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.rewrite.formats.block_format import ByteSource, ContentCheck

__all__ = ["check_contents", "mark", "mark_before_bytes", "read_header", "read_pieces"]

mark_before_bytes = 2000  # the minimum distance of markers in Hive's writer

_MAGIC, _OLD_MAGIC = b"RCF\x01", b"SEQ\x06"
_NUMBER_OF_COLUMNS = "hive.io.rcfile.column.number"
_MAX_DIGITS = 9
_LENGTHS = struct.Struct(">iii")
_MAX_KEY_BYTES = 64 << 20  # Hive ends a row group after 4 MB of columns


def read_header(source: ByteSource) -> Header:
    """Read the header; ``why_not`` is set for a file whose rows cannot be counted."""
    magic = source.take(len(_MAGIC))
    if magic[:3] == _MAGIC[:3] and magic != _MAGIC:
        why = f"it is an RCFile of version {magic[3]}; version {_MAGIC[3]} is merged"
        return Header(begin=b"", sync=b"", agreement=b"", codec="", why_not=why)
    if magic == _OLD_MAGIC:
        read_text(source)  # the class of the keys
        read_text(source)  # the class of the values
    elif magic != _MAGIC:
        raise source.damaged("it does not begin as RCFiles do")
    is_compressed = read_flag(source)
    if magic == _OLD_MAGIC and read_flag(source):
        raise source.damaged("its header states that rows are compressed in blocks")
    codec = read_text(source) if is_compressed else "null"
    metadata = read_metadata(source)
    begin = source.read_begin()
    sync = source.take(SYNC_BYTES)
    why = ""
    if is_compressed and codec not in DECOMPRESS:
        why = f"it is compressed with {codec}, so its rows cannot be counted"
    columns = metadata.get(_NUMBER_OF_COLUMNS, "")
    if not columns.isdecimal() or len(columns) > _MAX_DIGITS:
        raise source.damaged("its header does not state the number of columns")
    return Header(begin=begin, sync=sync, agreement=begin, codec=codec, columns=int(columns), why_not=why)


def read_pieces(source: ByteSource, header: Header) -> Iterator[Piece]:
    """Yield the row groups in order."""
    marked = False
    while source.left_bytes:
        if is_at_mark(source):
            if marked:
                raise source.damaged("two sync markers follow each other")
            take_mark(source, header.sync)
            marked = True
            continue
        yield from _read_row_group(source, codec=header.codec, marked=marked)
        marked = False


def check_contents(files: Iterable[tuple[ByteSource, Header]], check: ContentCheck) -> None:
    """Check every file."""
    for source, header in files:
        _check_content(source, header, check)


def _check_content(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Decompress every column of every row group, and check the sum of the lengths of its values."""
    while source.left_bytes:
        if is_at_mark(source):
            take_mark(source, header.sync)
            continue
        _, key, _ = _take_key(source, header.codec)
        check.budget.spend(sum(len(column.lengths) for column in key.columns))
        if check.values and len(key.columns) != header.columns:
            raise source.damaged(f"a row group has {len(key.columns)} columns instead of {header.columns}")
        for column in key.columns:
            plain = take_plain(source, header.codec, check, size=column.stored_bytes)
            if check.values:
                _check_column(source, column, plain, rows=key.rows)


def _check_column(source: ByteSource, column: _Column, plain: bytes, *, rows: int) -> None:
    try:
        if len(plain) != column.plain_bytes:
            raise ValueError(f"it has {len(plain)} bytes instead of {column.plain_bytes}")  # noqa: TRY301 - one message for all errors
        check_runs(column.lengths, count=rows, total=len(plain))
    except ValueError as error:
        raise source.damaged(f"a column cannot be decoded: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column's entry in the key of a row group: its stored and decompressed size, and the lengths of its values."""

    stored_bytes: int
    plain_bytes: int
    lengths: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """The key of a row group."""

    rows: int
    columns: tuple[_Column, ...]

    @property
    def columns_bytes(self) -> int:
        """The stored size of all columns."""
        return sum(column.stored_bytes for column in self.columns)


def _read_row_group(source: ByteSource, *, codec: str, marked: bool) -> Iterator[Piece]:
    written, key, columns_bytes = _take_key(source, codec)
    yield Piece(data=written, rows=key.rows, is_marked_before=marked)
    for data in source.pieces(columns_bytes):
        yield Piece(data=data, rows=0)


def _take_key(source: ByteSource, codec: str) -> tuple[bytes, _Key, int]:
    """Take the part of a row group before its columns; return its bytes, the key, and the size of the columns."""
    lengths = source.take(_LENGTHS.size)
    size, key_bytes, packed_bytes = _LENGTHS.unpack(lengths)
    if not 0 < key_bytes <= min(size, _MAX_KEY_BYTES) or not 0 < packed_bytes <= _MAX_KEY_BYTES:
        raise source.damaged("the length of a row group is wrong")
    columns_bytes = size - key_bytes
    if packed_bytes + columns_bytes > source.left_bytes:
        raise source.damaged("its last row group is cut off, or the length of a row group is wrong")
    packed = source.take(packed_bytes)
    try:
        plain = packed if codec == "null" else decompress_piece(codec, packed, size_bytes=key_bytes)
        key = _read_key(plain)
    except (ValueError, IndexError) as error:
        raise source.damaged(f"the key of a row group cannot be read ({error})") from error
    if len(plain) != key_bytes or key.columns_bytes != columns_bytes:
        raise source.damaged("the key of a row group does not fit its lengths")
    return lengths + packed, key, columns_bytes


def _read_key(key: bytes) -> _Key:
    rows, at = _vlong(key, 0)
    columns = []
    while at < len(key):
        stored_bytes, at = _vlong(key, at)
        plain_bytes, at = _vlong(key, at)
        lengths_bytes, at = _vlong(key, at)
        if min(stored_bytes, plain_bytes, lengths_bytes) < 0:
            raise ValueError("a negative length")
        lengths, at = key[at : at + lengths_bytes], at + lengths_bytes
        columns.append(_Column(stored_bytes=stored_bytes, plain_bytes=plain_bytes, lengths=lengths))
    if at != len(key) or rows < 0:
        raise ValueError("a length is wrong")
    return _Key(rows=rows, columns=tuple(columns))


def _vlong(key: bytes, at: int) -> tuple[int, int]:
    end = at + vlong_size(key[at])
    if end > len(key):
        raise ValueError("cut off")
    return parse_vlong(key[at:end]), end
