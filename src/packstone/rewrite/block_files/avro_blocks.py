"""Avro's container files: ``Obj1``, a map of metadata, the marker; then blocks, each followed by the marker.

A block is the number of its records, the size of its body, and the body, compressed by the file's codec. Blocks of
files with one schema and one codec are alike, so they are copied as they are; a walk through their records
(``avro_walk``) sees to it that no damaged one is.

Metadata other than schema and codec belong to the user; files in which they differ are different files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.rewrite.block_files.avro_walk import check_records
from packstone.rewrite.block_files.block_format import SYNC_BYTES, Header, Piece, refuse_unknown_codec
from packstone.rewrite.codecs.plain_budget import MAX_PIECE_BYTES
from packstone.storage.avro_container import BROKEN_BLOCK, CODECS, decompressor
from packstone.storage.bounded_codecs import TooLongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.block_files.block_format import ContentCheck
    from packstone.rewrite.block_files.byte_source import ByteSource

mark_before_bytes = 0  # every block ends with a marker

_MAGIC = b"Obj\x01"
_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"
_MAX_LONG_BYTES = 10
_MAX_HEADER_BYTES = 64 << 20
_LOW, _MORE = 0x7F, 0x80  # seven bits of a number, and the bit that says that more follow


def read_header(source: ByteSource) -> Header:
    """Read the header."""
    if source.take(len(_MAGIC)) != _MAGIC:
        raise source.damaged("it does not begin as Avro files do")
    metadata = _read_map(source)
    begin = source.read_begin()
    if _SCHEMA not in metadata:
        raise source.damaged("its header has no schema")
    codec = metadata.setdefault(_CODEC, b"null")
    return Header(
        begin=begin,
        sync=source.take(SYNC_BYTES),
        agreement=repr(sorted(metadata.items())).encode(),
        codec=codec.decode("utf-8", "replace"),
        schema=metadata[_SCHEMA],
    )


def read_pieces(source: ByteSource, header: Header) -> Iterator[Piece]:
    """Yield block after block; the marker behind each must be the header's."""
    while source.left_bytes:
        rows, rows_bytes = _read_long(source)
        size, size_bytes = _read_long(source)
        if rows < 0 or size < 0:
            raise source.damaged("a block has a negative size")
        if size + SYNC_BYTES > source.left_bytes:
            raise source.damaged("its last block is cut off, or the size of a block is wrong")
        last: memoryview | bytes = rows_bytes + size_bytes
        begins = True
        for data in source.pieces(size):
            yield Piece(data=last, rows=rows if begins else 0, begins=begins)
            last, begins = data, False
        # The marker is checked before the block's last piece is handed on, which is followed by ours.
        if source.take(SYNC_BYTES) != header.sync:
            raise source.damaged("a block does not end with the file's sync marker")
        yield Piece(data=last, rows=rows if begins else 0, begins=begins, is_marked_after=True)


def check_content(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Decompress every block (those of Snappy have a checksum), and walk through its records."""
    if header.codec not in CODECS:
        refuse_unknown_codec(source, header, check)
        return
    decompress = decompressor(header.codec, source.path, most_bytes=MAX_PIECE_BYTES)
    while source.left_bytes:
        records, _ = _read_long(source)
        size, _ = _read_long(source)
        body = source.take_piece(size)
        try:
            plain = decompress(body)
            check.budget.spend(len(plain), records=records if check.values else 0)
            if check.values:
                check_records(header.schema, plain, records=records, text=check.text)
        except TooLongError as error:
            raise source.too_long() from error
        except BROKEN_BLOCK as error:
            raise source.damaged(f"a block cannot be decoded: {error}") from error
        source.take(SYNC_BYTES)


def mark(sync: bytes) -> bytes:
    """The marker alone."""
    return sync


def _read_map(source: ByteSource) -> dict[bytes, bytes]:
    content: dict[bytes, bytes] = {}
    while count := _read_long(source)[0]:
        if count < 0:  # then the size of the map's block in bytes follows
            _read_long(source)
        for _ in range(abs(count)):
            key = _read_bytes(source)
            content[key] = _read_bytes(source)
    return content


def _read_bytes(source: ByteSource) -> bytes:
    size, _ = _read_long(source)
    if not 0 <= size <= _MAX_HEADER_BYTES:
        raise source.damaged("its header cannot be read")
    return source.take(size)


def _read_long(source: ByteSource) -> tuple[int, bytes]:
    """A number, zigzag, seven bits a byte, low end first; and the bytes it was written in."""
    written = bytearray()
    while len(written) < _MAX_LONG_BYTES:
        written += source.take(1)
        if written[-1] < _MORE:
            value = sum((byte & _LOW) << 7 * at for at, byte in enumerate(written))
            return (value >> 1) ^ -(value & 1), bytes(written)
    raise source.damaged("a number in it has no end")
