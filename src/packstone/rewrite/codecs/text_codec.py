"""Codecs of text files: which one a file has, and how its text is read and written.

Reading is strict: a file that is cut, or that has anything but further members behind its last one (zeros, as tapes
leave them, too), is broken. Copied into the middle of a merged file, such bytes would hide all that follows from a
reader that stops there.
"""

from __future__ import annotations

import bz2
import zlib
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.errors import UnreadableFileError
from packstone.model.file_format import FileFormat
from packstone.rewrite.codecs.hadoop_blocks import read_hadoop_blocks, write_hadoop_blocks
from packstone.rewrite.codecs.lz4_block import decompress_lz4_block
from packstone.rewrite.codecs.snappy_frames import read_snappy_frames, write_snappy_frames
from packstone.rewrite.parquet.footer import one_line
from packstone.storage.bounded_codecs import unsnap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_CHUNK_BYTES: Final = 1 << 20


class TextCodec(StrEnum):
    """How a file of text is compressed."""

    GZIP = "gzip"
    BZIP2 = "bzip2"
    ZSTD = "zstd"
    LZ4 = "lz4"  # frames, as the command lz4 writes them
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
    """The codec that a file's first bytes show, if they show one."""
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), None)


def codec_by_ending(head: bytes, ending: str) -> TextCodec | None:
    """The codec by which readers read a file of this ending; None if it is none that can be read here."""
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
    """Yield the text of a file in chunks; UnreadableFileError if it is broken, cut or followed by something else."""
    try:
        with io.open_input(path) as source:
            yield from _decode(source, codec)
    except (OSError, ValueError, zlib.error, pa.ArrowException) as error:
        raise UnreadableFileError(f"{path} is no whole {codec} file: {one_line(error)}.", file=path) from error


def _decode(source: Any, codec: TextCodec) -> Iterator[bytes]:  # noqa: ANN401 - a pyarrow file
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


def _inflate(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - a pyarrow file
    """Yield the text of zlib's streams, one behind the other as Hadoop reads them."""
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
    """Writes text to a file under a codec, as one member where the codec allows to go on with one."""

    def __init__(self, sink: Any, codec: TextCodec) -> None:  # noqa: ANN401 - a pyarrow file
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
        """Write what is still held back; the file itself stays open."""
        if self._coder:
            self._sink.write(self._coder.flush())


def _encode(text: bytes, codec: TextCodec) -> bytes:
    """Encode some text as a member of its own."""
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
