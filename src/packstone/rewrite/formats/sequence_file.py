"""Copy and check the records and blocks of Hadoop's SequenceFiles.

A file is ``SEQ`` and a version, classes, compression, metadata, the marker; then records or blocks. A record is its
length, the length of its key, the key and the value (compressed or not). At intervals, -1 in place of the length
indicates that a marker follows. A file that is compressed by block has a marker before every block: the number of
records, then the lengths and bodies of four columns (lengths of keys, keys, lengths of values, values). Keys and
values are copied unchanged. Before that, the lengths inside are checked, and for Hadoop's own classes also the lengths
that keys and values state (``writables``); other classes are unknown.

Versions 5 and 6 differ only in the metadata of the header, and are never mixed. Older versions wrote their classes in
another way; they are left alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from packstone.rewrite.formats.block_format import PIECE_BYTES, SYNC_BYTES, Header, Piece, refuse_unknown_codec
from packstone.rewrite.formats.bounded_codecs import MAX_PIECE_BYTES, TooLongError
from packstone.rewrite.formats.codecs import DECOMPRESS, decompress_up_to
from packstone.rewrite.formats.writables import (
    SYNC_ESCAPE,
    parse_lengths,
    read_flag,
    read_metadata,
    read_text,
    read_vlong,
    writable_check,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.rewrite.formats.block_format import ByteSource, ContentCheck
    from packstone.rewrite.formats.writables import WritableCheck

mark_before_bytes = 2000  # the minimum distance of markers between records in Hadoop's writer

_MAGIC = b"SEQ"
_OLDEST, _NEWEST = 5, 6
_WITH_METADATA = 6
_LENGTHS = struct.Struct(">ii")
_COLUMNS = 4
_RECORDS_AT_ONCE = 4096


def read_header(source: ByteSource) -> Header:
    """Read the header; for an unsupported version, only the version, and set ``why_not``."""
    if source.take(len(_MAGIC)) != _MAGIC:
        raise source.damaged("it does not begin as SequenceFiles do")
    version = source.take(1)[0]
    if not _OLDEST <= version <= _NEWEST:
        why = f"it is a SequenceFile of version {version}; versions {_OLDEST} and {_NEWEST} are merged"
        return Header(begin=b"", sync=b"", agreement=b"", codec="", why_not=why)
    classes = read_text(source), read_text(source)  # of keys and values
    is_compressed, is_in_blocks = read_flag(source), read_flag(source)
    codec = read_text(source) if is_compressed else "null"
    if version >= _WITH_METADATA:
        read_metadata(source)
    begin = source.read_begin()
    sync = source.take(SYNC_BYTES)
    return Header(begin=begin, sync=sync, agreement=begin, codec=codec, is_in_blocks=is_in_blocks, classes=classes)


def read_pieces(source: ByteSource, header: Header) -> Iterator[Piece]:
    """Yield records, or blocks of them, up to the end of the file."""
    return _read_blocks(source, header) if header.is_in_blocks else _read_records(source, header)


def check_contents(files: Iterable[tuple[ByteSource, Header]], check: ContentCheck) -> None:
    """Check every file."""
    for source, header in files:
        _check_content(source, header, check)


def _check_content(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Decompress the columns of every block, or the value of every record, and check the lengths inside."""
    if header.codec != "null" and header.codec not in DECOMPRESS:
        refuse_unknown_codec(source, header, check)
        return
    checks = [writable_check(name, text=check.text) if check.values else None for name in header.classes]
    records = _Records(source, checks)
    while source.left_bytes:
        if is_at_mark(source):
            take_mark(source, header.sync)
        elif header.is_in_blocks:
            _check_block(source, header, check, checks=checks)
        else:
            records.add(*_take_record(source, header, check))
    records.finish()


def take_plain(source: ByteSource, codec: str, check: ContentCheck, *, size: int) -> bytes:
    """Take ``size`` bytes, and decompress them if the file is compressed."""
    stored = source.take_piece(size)
    try:
        plain = stored if codec == "null" else decompress_up_to(codec, stored, most_bytes=MAX_PIECE_BYTES)
    except TooLongError as error:
        raise source.too_long() from error
    except ValueError as error:
        raise source.damaged(f"a part of it cannot be decompressed ({error})") from error
    check.budget.spend(len(plain))
    return plain


def _take_record(source: ByteSource, header: Header, check: ContentCheck) -> tuple[bytes, bytes]:
    size, key_size = _LENGTHS.unpack(source.take(_LENGTHS.size))
    if not 0 <= key_size <= size:
        raise source.damaged("the length of a record is wrong")
    return source.take_piece(key_size), take_plain(source, header.codec, check, size=size - key_size)


class _Records:
    """Collects keys and values of records, and checks many of them at once."""

    def __init__(self, source: ByteSource, checks: list[WritableCheck | None]) -> None:
        self._source, self._checks = source, checks
        self._parts: tuple[list[bytes], list[bytes]] = ([], [])
        self._bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record."""
        self._parts[0].append(key)
        self._parts[1].append(value)
        self._bytes += len(key) + len(value)
        if self._bytes >= PIECE_BYTES or len(self._parts[0]) >= _RECORDS_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Check the records that are not checked yet."""
        parts, self._parts, self._bytes = self._parts, ([], []), 0
        try:
            for part, values in zip(self._checks, parts, strict=True):
                if part is not None:
                    part(b"".join(values), np.array([len(value) for value in values], dtype=np.int64))
        except ValueError as error:
            raise self._source.damaged(f"a record cannot be decoded: {error}") from error


def _check_block(
    source: ByteSource, header: Header, check: ContentCheck, *, checks: list[WritableCheck | None]
) -> None:
    records, _ = read_vlong(source)
    check.budget.spend(0, records=records)
    columns = [take_plain(source, header.codec, check, size=read_vlong(source)[0]) for _ in range(_COLUMNS)]
    try:
        for lengths, whole, part in zip(columns[::2], columns[1::2], checks, strict=True):
            if part is not None:
                part(whole, parse_lengths(lengths, count=records, total=len(whole)))
    except ValueError as error:
        raise source.damaged(f"a block cannot be decoded: {error}") from error


def mark(sync: bytes) -> bytes:
    """The bytes of a marker, with the escape in place of a length."""
    return SYNC_ESCAPE + sync


def take_mark(source: ByteSource, sync: bytes) -> None:
    """Take a marker, which must be the file's."""
    if source.take(len(SYNC_ESCAPE) + SYNC_BYTES) != mark(sync):
        raise source.damaged("its sync marker is not where it should be")


def is_at_mark(source: ByteSource) -> bool:
    """Whether a marker is next, rather than a length."""
    return bytes(source.window(len(SYNC_ESCAPE))[: len(SYNC_ESCAPE)]) == SYNC_ESCAPE


def _read_records(source: ByteSource, header: Header) -> Iterator[Piece]:
    marked = False
    while source.left_bytes:
        window = source.window()
        end, rows = _whole_records(window)
        if end:
            yield Piece(data=window[:end], rows=rows, is_marked_before=marked)
            source.skip(end)
            marked = False
        elif is_at_mark(source):
            if marked:  # Hadoop's reader treats this as the end of the file
                raise source.damaged("two sync markers follow each other")
            take_mark(source, header.sync)
            marked = True
        else:
            yield from _read_big_record(source, marked=marked)
            marked = False


def _whole_records(window: memoryview) -> tuple[int, int]:
    """The offset after the last complete record in the window, and the number of complete records."""
    at = rows = 0
    last = len(window) - _LENGTHS.size
    while at <= last:
        size, key_size = _LENGTHS.unpack_from(window, at)
        after = at + _LENGTHS.size + size
        if not 0 <= key_size <= size or after > len(window):
            break
        at, rows = after, rows + 1
    return at, rows


def _read_big_record(source: ByteSource, *, marked: bool) -> Iterator[Piece]:
    """Yield the pieces of a record that does not end in the window, or report a wrong length."""
    size, key_size = _LENGTHS.unpack_from(source.window(_LENGTHS.size))
    if not 0 <= key_size <= size:
        raise source.damaged("the length of a record is wrong")
    if _LENGTHS.size + size > source.left_bytes:
        raise source.damaged("its last record is cut off, or the length of a record is wrong")
    begins = True
    for data in source.pieces(_LENGTHS.size + size):
        yield Piece(data=data, rows=int(begins), is_marked_before=marked and begins)
        begins = False


def _read_blocks(source: ByteSource, header: Header) -> Iterator[Piece]:
    while source.left_bytes:
        take_mark(source, header.sync)
        rows, written = read_vlong(source)
        if rows < 0:
            raise source.damaged("the number of records of a block is wrong")
        yield Piece(data=written, rows=rows, is_marked_before=True)
        for _ in range(_COLUMNS):
            size, written = read_vlong(source)
            if not 0 <= size <= source.left_bytes:
                raise source.damaged("its last block is cut off, or the length of a block is wrong")
            yield Piece(data=written, rows=0)
            for data in source.pieces(size):
                yield Piece(data=data, rows=0)
