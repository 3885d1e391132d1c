"""Hadoop's SequenceFiles: ``SEQ`` and a version, classes, compression, metadata, the marker; then records or blocks.

A record is its length, the length of its key, the key and the value (compressed or not). Now and then, where the
length would stand, -1 says that a marker follows. A file that is compressed by block has a marker before every block:
the number of records, then the lengths and bodies of four columns (lengths of keys, keys, lengths of values, values).
Neither keys nor values are looked into.

Versions 5 and 6 are alike but for the metadata in the header, and are never mixed. Older ones wrote their
classes in another way; they are left alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from packstone.rewrite.block_files.block_format import SYNC_BYTES, Header, Piece
from packstone.rewrite.block_files.hadoop_values import (
    SYNC_ESCAPE,
    read_flag,
    read_metadata,
    read_text,
    read_vlong,
)
from packstone.rewrite.codecs.hadoop_codec import DECOMPRESS, MOST_BYTES, check_piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.block_files.byte_source import ByteSource

mark_before_bytes = 2000  # Hadoop's own least distance of markers between records

_MAGIC = b"SEQ"
_OLDEST, _NEWEST = 5, 6
_WITH_METADATA = 6
_LENGTHS = struct.Struct(">ii")
_COLUMNS = 4


def read_header(source: ByteSource) -> Header:
    """Read the header; of a version that is left alone, no more than the version."""
    if source.take(len(_MAGIC)) != _MAGIC:
        raise source.damaged("it does not begin as SequenceFiles do")
    version = source.take(1)[0]
    if not _OLDEST <= version <= _NEWEST:
        why = f"it is a SequenceFile of version {version}; versions {_OLDEST} and {_NEWEST} are merged"
        return Header(begin=b"", sync=b"", agreement=b"", codec="", why_not=why)
    read_text(source)  # the class of the keys
    read_text(source)  # the class of the values
    is_compressed, is_in_blocks = read_flag(source), read_flag(source)
    codec = read_text(source) if is_compressed else "null"
    if version >= _WITH_METADATA:
        read_metadata(source)
    begin = source.read_begin()
    return Header(begin=begin, sync=source.take(SYNC_BYTES), agreement=begin, codec=codec, is_in_blocks=is_in_blocks)


def read_pieces(source: ByteSource, header: Header) -> Iterator[Piece]:
    """Yield records, or blocks of them, up to the end of the file."""
    return _read_blocks(source, header) if header.is_in_blocks else _read_records(source, header)


def check_packed(source: ByteSource, header: Header) -> None:
    """Decompress the columns of every block, or the value of every record."""
    if header.codec not in DECOMPRESS:
        return
    while source.left_bytes:
        if is_at_mark(source):
            take_mark(source, header.sync)
        elif header.is_in_blocks:
            read_vlong(source)
            for _ in range(_COLUMNS):
                check_piece_of(source, header.codec, size=read_vlong(source)[0])
        else:
            size, key_size = _LENGTHS.unpack(source.take(_LENGTHS.size))
            source.skip_far(key_size)
            check_piece_of(source, header.codec, size=size - key_size)


def check_piece_of(source: ByteSource, codec: str, *, size: int) -> None:
    """Take a compressed piece, which must be whole; a giant one is only skipped."""
    if size > MOST_BYTES:
        source.skip_far(size)
        return
    try:
        check_piece(codec, source.take(size))
    except ValueError as error:
        raise source.damaged(f"a part of it cannot be decompressed ({error})") from error


def mark(sync: bytes) -> bytes:
    """A marker where a length would stand."""
    return SYNC_ESCAPE + sync


def take_mark(source: ByteSource, sync: bytes) -> None:
    """Take a marker, which must be the file's own."""
    if source.take(len(SYNC_ESCAPE) + SYNC_BYTES) != mark(sync):
        raise source.damaged("its sync marker is not where it should be")


def is_at_mark(source: ByteSource) -> bool:
    """Whether a marker comes next, and no length."""
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
            if marked:  # Hadoop's reader takes this for the end of the file
                raise source.damaged("two sync markers follow each other")
            take_mark(source, header.sync)
            marked = True
        else:
            yield from _read_big_record(source, marked=marked)
            marked = False


def _whole_records(window: memoryview) -> tuple[int, int]:
    """Where the last of the records ends that the window holds as a whole, and how many they are."""
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
    """A record that does not end in the window, or is none."""
    size, key_size = _LENGTHS.unpack_from(source.window(_LENGTHS.size))
    if not 0 <= key_size <= size:
        raise source.damaged("the length of a record is wrong")
    if _LENGTHS.size + size > source.left_bytes:
        raise source.damaged("its last record is cut off, or the length of a record is wrong")
    begins = True
    for data in source.pieces(_LENGTHS.size + size):
        yield Piece(data=data, rows=int(begins), is_marked_before=marked and begins, begins=begins)
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
            yield Piece(data=written, rows=0, begins=False)
            for data in source.pieces(size):
                yield Piece(data=data, rows=0, begins=False)
