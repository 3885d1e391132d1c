"""Codecs: detect that of a text file, read and write its text; decompress the blocks of Hadoop's files.

Reading is strict: a file that is truncated, or that has anything but further members after its last one (even zeros,
as tapes leave them), is broken. In the middle of a merged file, such bytes would hide everything after them from a
reader that stops there.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.errors import UnreadableFileError
from packstone.model.files import FileFormat
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.bounded_codecs import GZIP_OR_ZLIB, TooLongError, inflate, unbzip, unsnap, unzstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packstone.storage.fileio import FileIO

_CHUNK_BYTES: Final = 1 << 20


class TextCodec(StrEnum):
    """The compression of a text file."""

    GZIP = "gzip"
    BZIP2 = "bzip2"
    ZSTD = "zstd"
    LZ4 = "lz4"  # frames, as the command ``lz4`` writes them
    SNAPPY = "snappy"  # the framing format
    DEFLATE = "deflate"  # zlib, as Hadoop writes .deflate
    HADOOP_LZ4 = "hadoop-lz4"  # Hadoop's own framing
    HADOOP_SNAPPY = "hadoop-snappy"


def format_of(codec: TextCodec) -> FileFormat:
    """The format of text under a codec."""
    return FileFormat(f"{codec} text")


_CODEC_OF_ENDING: Final = {"gz": TextCodec.GZIP, "bz2": TextCodec.BZIP2, "zst": TextCodec.ZSTD}
_MAGIC: Final = {
    TextCodec.GZIP: b"\x1f\x8b",
    TextCodec.BZIP2: b"BZh",
    TextCodec.ZSTD: b"\x28\xb5\x2f\xfd",
    TextCodec.LZ4: b"\x04\x22\x4d\x18",
    TextCodec.SNAPPY: b"\xff\x06\x00\x00sNaPpY",
}
_STREAMED: Final = {TextCodec.GZIP: "gzip", TextCodec.BZIP2: "bz2", TextCodec.ZSTD: "zstd", TextCodec.LZ4: "lz4"}


def codec_by_magic(head: bytes) -> TextCodec | None:
    """The codec by a file's first bytes, or None."""
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), None)


def codec_by_ending(head: bytes, ending: str) -> TextCodec | None:
    """The codec that readers use for a file with this ending; None if it is not supported."""
    match ending:
        case "snappy" if not head.startswith(_MAGIC[TextCodec.SNAPPY]):
            return TextCodec.HADOOP_SNAPPY
        case "snappy":
            return TextCodec.SNAPPY
        case "lz4" if not head.startswith(_MAGIC[TextCodec.LZ4]):
            return TextCodec.HADOOP_LZ4
        case "lz4":
            return TextCodec.LZ4
        case "deflate":
            return TextCodec.DEFLATE
    return _CODEC_OF_ENDING.get(ending)


def read_text(io: FileIO, path: str, *, codec: TextCodec) -> Iterator[bytes]:
    """Yield the text of a file in chunks; UnreadableFileError if it is broken, truncated or has bytes after its end."""
    try:
        with io.open_input(path) as source:
            yield from decode_text(source, codec)
    except (OSError, ValueError, zlib.error, pa.ArrowException) as error:
        raise UnreadableFileError(f"{path} is not a complete {codec} file: {one_line(error)}.", file=path) from error


def decode_text(source: Any, codec: TextCodec) -> Iterator[bytes]:
    """Yield the text of an open file in chunks; what is raised if it is broken depends on the codec."""
    match codec:
        case TextCodec.HADOOP_SNAPPY:
            yield from read_hadoop_blocks(source, unsnap)
        case TextCodec.HADOOP_LZ4:
            yield from read_hadoop_blocks(source, decompress_lz4_block)
        case TextCodec.SNAPPY:
            yield from read_snappy_frames(source)
        case TextCodec.DEFLATE:
            yield from _inflate(source)
        case _:
            with pa.CompressedInputStream(source, _STREAMED[codec]) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    yield chunk


def _inflate(source: Any) -> Iterator[bytes]:
    """Yield the text of concatenated zlib streams, as Hadoop reads them."""
    coder, rest = zlib.decompressobj(), b""
    while data := rest or source.read(_CHUNK_BYTES):
        if coder.eof:
            coder = zlib.decompressobj()
        if plain := coder.decompress(data, _CHUNK_BYTES):
            yield plain
        rest = coder.unused_data if coder.eof else coder.unconsumed_tail
    while plain := coder.decompress(b"", _CHUNK_BYTES):
        yield plain
    if not coder.eof:
        raise ValueError("it ends within a stream")


class TextEncoder:
    """Writes compressed text to a file, as one member if the codec allows appending to a member."""

    def __init__(self, sink: Any, codec: TextCodec) -> None:
        self._sink, self._codec = sink, codec
        self._coder: Any = None
        match codec:
            case TextCodec.GZIP:
                self._coder = zlib.compressobj(wbits=31)
            case TextCodec.DEFLATE:
                self._coder = zlib.compressobj()
            case TextCodec.BZIP2:
                self._coder = bz2.BZ2Compressor()

    def write(self, text: bytes) -> None:
        """Write some text."""
        if text:
            self._sink.write(self._coder.compress(text) if self._coder else _encode(text, self._codec))

    def finish(self) -> None:
        """Write buffered bytes; the file itself stays open."""
        if self._coder:
            self._sink.write(self._coder.flush())


def _encode(text: bytes, codec: TextCodec) -> bytes:
    """Encode some text as a separate member."""
    match codec:
        case TextCodec.HADOOP_SNAPPY:
            return write_hadoop_blocks(text, partial(pa.compress, codec="snappy", asbytes=True))
        case TextCodec.HADOOP_LZ4:
            return write_hadoop_blocks(text, partial(pa.compress, codec="lz4_raw", asbytes=True))
        case TextCodec.SNAPPY:
            return write_snappy_frames(text)
        case _:
            found: bytes = pa.compress(text, codec=_STREAMED[codec], asbytes=True)
            return found


# ---- Snappy's framing format ----
# Chunks, each after four bytes of kind and length, with a checksum. The mark at the beginning of a file may occur
# again, so files can be concatenated.

MARK: Final = b"\xff\x06\x00\x00sNaPpY"
_HEAD_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4
_PLAIN_BYTES: Final = 1 << 16
_COMPRESSED: Final = 0x00
_STORED: Final = 0x01
_LAST_UNSKIPPABLE: Final = 0x7F


def _make_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C: Final = _make_table()


def read_snappy_frames(source: Any) -> Iterator[bytes]:
    """Yield the decoded chunks, each checked against its checksum; ValueError if one is broken or truncated."""
    if source.read(len(MARK)) != MARK:
        raise ValueError("it does not begin as Snappy frames do")
    while head := source.read(_HEAD_BYTES):
        size_bytes = int.from_bytes(head[1:], "little")
        body = source.read(size_bytes)
        if len(head) < _HEAD_BYTES or len(body) < size_bytes:
            raise ValueError("it ends within a frame")
        if head[0] > _LAST_UNSKIPPABLE:
            if head[0] == MARK[0] and head + body != MARK:
                raise ValueError("a mark in the middle is broken")
            continue
        if head[0] not in (_COMPRESSED, _STORED):
            raise ValueError(f"a frame has the unknown kind {head[0]}")
        plain = body[_CHECKSUM_BYTES:]
        if head[0] == _COMPRESSED:
            plain = unsnap(plain, _PLAIN_BYTES)
        if masked_crc32c(plain) != int.from_bytes(body[:_CHECKSUM_BYTES], "little"):
            raise ValueError("a frame has another checksum than it states")
        yield plain


def write_snappy_frames(data: bytes) -> bytes:
    """Encode bytes as a file of frames."""
    out = bytearray(MARK)
    for at in range(0, len(data), _PLAIN_BYTES):
        plain = data[at : at + _PLAIN_BYTES]
        packed: bytes = pa.compress(plain, codec="snappy", asbytes=True)
        body = masked_crc32c(plain).to_bytes(_CHECKSUM_BYTES, "little") + packed
        out += bytes((_COMPRESSED,)) + len(body).to_bytes(_HEAD_BYTES - 1, "little") + body
    return bytes(out)


def masked_crc32c(data: bytes) -> int:
    """The checksum of the framing format: CRC-32C, rotated and offset so that checksums of checksums stay effective."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- Hadoop's framing of Snappy and LZ4 ----
# Hive and Spark write text in it: blocks without magic or checksum.
#
# ::
#
#     length before compression (4 bytes, big-endian) | length of a chunk (4 bytes) | chunk | length | chunk …
#
# A block has as many chunks as needed to fill its length. There are no bytes before the first block or after the last,
# so files of this framing can be concatenated.

_LENGTH_BYTES: Final = 4
# Hadoop's decoders have buffers of 256 KiB; a block as long as this fits, compressed or not.
_BLOCK_BYTES: Final = 64 << 10
_MAX_BLOCK_BYTES: Final = 128 << 20


def read_hadoop_blocks(source: Any, decompress: Callable[[bytes, int], bytes]) -> Iterator[bytes]:
    """Yield the decoded chunks; ValueError if the file is truncated or does not have this framing.

    A chunk is decompressed up to the remaining length of its block, so that it cannot exceed it.
    """
    while head := source.read(_LENGTH_BYTES):
        left = _length(head)
        while left:
            chunk_bytes = _length(source.read(_LENGTH_BYTES))
            chunk = source.read(chunk_bytes)
            if len(chunk) < chunk_bytes:
                raise ValueError("it ends within a block")
            plain = decompress(chunk, left)
            if not plain:
                raise ValueError("a block has another length than it states")
            left -= len(plain)
            yield plain


def write_hadoop_blocks(data: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    """Encode bytes as blocks of one chunk each."""
    out = bytearray()
    for at in range(0, len(data), _BLOCK_BYTES):
        plain = data[at : at + _BLOCK_BYTES]
        packed = compress(plain)
        out += len(plain).to_bytes(_LENGTH_BYTES, "big") + len(packed).to_bytes(_LENGTH_BYTES, "big") + packed
    return bytes(out)


def _length(data: bytes) -> int:
    if len(data) < _LENGTH_BYTES:
        raise ValueError("it ends within a length")
    found = int.from_bytes(data, "big")
    if found > _MAX_BLOCK_BYTES:
        raise ValueError("a length is longer than any block")
    return found


# ---- codecs of Hadoop's files ----
# Decompress data of Hadoop's compression codecs in memory.
#
# Codecs that no installed library reads (LZO among them) are not in ``DECOMPRESS``: a caller that must decompress such
# data refuses the file.


_MIN_MATCH: Final = 4
_LONG: Final = 15
_FULL: Final = 255
_OFFSET_BYTES: Final = 2


def decompress_lz4_block(data: bytes, most_bytes: int | None = None) -> bytes:
    """Decode one raw LZ4 block; ValueError if it is broken or longer than the limit.

    Such a block does not state its decoded size, so that is computed from its tokens first.
    """
    size_bytes = lz4_decoded_bytes(data)
    if most_bytes is not None and size_bytes > most_bytes:
        raise TooLongError(most_bytes)
    if not size_bytes:
        return b""
    try:
        found: bytes = pa.decompress(data, decompressed_size=size_bytes, codec="lz4_raw", asbytes=True)
    except OSError as error:
        raise ValueError("a block of LZ4 is broken") from error
    return found


def lz4_decoded_bytes(data: bytes) -> int:
    """The decoded size of a block; ValueError if it ends too early."""
    total = at = 0
    try:
        while at < len(data):
            token = data[at]
            literals, at = _read_length(data, at + 1, token >> 4)
            total += literals
            at += literals
            if at == len(data):
                return total
            at += _OFFSET_BYTES
            match, at = _read_length(data, at, token & _LONG)
            total += match + _MIN_MATCH
    except IndexError:
        raise ValueError("a block of LZ4 ends too early") from None
    raise ValueError("a block of LZ4 ends too early")


def _read_length(data: bytes, at: int, nibble: int) -> tuple[int, int]:
    length = nibble
    if nibble == _LONG:
        while True:
            more = data[at]
            at += 1
            length += more
            if more != _FULL:
                break
    return length, at


_INT: Final = struct.Struct(">I")
_BROKEN: Final = (zlib.error, lzma.LZMAError, EOFError, IndexError, OSError, struct.error, pa.ArrowException)


def decompress_piece(codec_class: str, data: bytes, *, size_bytes: int) -> bytes:
    """Decompress data; ValueError if the result does not have exactly this many bytes."""
    plain = decompress_up_to(codec_class, data, most_bytes=size_bytes)
    if len(plain) != size_bytes:
        raise ValueError(f"{len(plain)} bytes instead of {size_bytes}")
    return plain


def decompress_up_to(codec_class: str, data: bytes, *, most_bytes: int) -> bytes:
    """Decompress data; ValueError if it is broken, TooLongError if the result has more than this many bytes."""
    if not data:
        return b""
    try:
        return DECOMPRESS[codec_class](data, most_bytes)
    except _BROKEN as error:
        raise ValueError(str(error)) from error


def _in_blocks(unpack: Callable[[bytes, int], bytes]) -> Callable[[bytes, int], bytes]:
    """A decompressor for codecs that cut their input into blocks.

    A block is its plain size, then pieces, each preceded by its compressed size.
    """

    def decompress(data: bytes, most_bytes: int) -> bytes:
        plain, at = bytearray(), 0
        while at < len(data):
            (block_bytes,) = _INT.unpack_from(data, at)
            at += _INT.size
            block_end = len(plain) + block_bytes
            if block_end > most_bytes:
                raise TooLongError(most_bytes)
            while len(plain) < block_end:
                (packed_bytes,) = _INT.unpack_from(data, at)
                begin, at = at + _INT.size, at + _INT.size + packed_bytes
                piece = unpack(data[begin:at], block_end - len(plain))
                if not piece or at > len(data):
                    raise ValueError("a piece does not fit its block")
                plain += piece
        return bytes(plain)

    return decompress


_PACKAGE: Final = "org.apache.hadoop.io.compress."
DECOMPRESS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    _PACKAGE + "DefaultCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "DeflateCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "GzipCodec": partial(inflate, wbits=GZIP_OR_ZLIB),
    _PACKAGE + "BZip2Codec": unbzip,
    _PACKAGE + "ZStandardCodec": unzstd,
    _PACKAGE + "SnappyCodec": _in_blocks(unsnap),
    _PACKAGE + "Lz4Codec": _in_blocks(decompress_lz4_block),
}
