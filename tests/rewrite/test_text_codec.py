"""Compressed text is decoded strictly, and what is written others decode."""

import bz2
import gzip
import tempfile
import tracemalloc
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_codecs import WRITERS, hadoop, snappy_frames

from packstone.errors import UnreadableFileError
from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec
from packstone.rewrite.formats.avro_file import decompressor
from packstone.rewrite.formats.codecs import TextCodec, TextEncoder, codec_by_ending, format_of, read_text
from packstone.rewrite.formats.orc_tail import decompress_snappy
from packstone.rewrite.small_files.merge_unit import kernel_of
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
TEXT = b"".join(b"line %d of many\n" % at for at in range(3000))


def decode(content: bytes, codec: TextCodec) -> bytes:
    """What we read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(content)
        return b"".join(read_text(IO, str(path), codec=codec))


def by_others(content: bytes, codec: TextCodec) -> bytes:
    """What a reader of another maker reads, where there is one."""
    match codec:
        case TextCodec.GZIP:
            return gzip.decompress(content)
        case TextCodec.BZIP2:
            return bz2.decompress(content)
        case TextCodec.DEFLATE:
            return zlib.decompress(content)
        case TextCodec.ZSTD | TextCodec.LZ4:
            return pa.CompressedInputStream(pa.BufferReader(content), codec.value).read()
    return decode(content, codec)  # Spark reads Hadoop's codecs in tests/spark


@pytest.mark.parametrize("codec", TextCodec)
@pytest.mark.parametrize("text", [b"", b"a", TEXT], ids=["nothing", "a byte", "lines"])
def test_every_codec_is_read(codec, text):
    """What others wrote, one member or several, is read whole."""
    ending, compress = WRITERS[codec]
    content = compress(text)
    assert codec_by_ending(content, ending) is codec
    assert decode(content, codec) == text
    assert decode(content + compress(b"more\n") + content, codec) == text + b"more\n" + text


@pytest.mark.parametrize("codec", TextCodec)
def test_every_cut_is_found(codec):
    """A file that ends within a member is broken, wherever it was cut; frames of Snappy may end after any of them."""
    _, compress = WRITERS[codec]
    content = compress(b"one line\n" * 40)
    for keep in set(range(1, len(content))) - ({10} if codec is TextCodec.SNAPPY else set()):
        with pytest.raises(UnreadableFileError, match="not a complete"):
            decode(content[:keep], codec)


@pytest.mark.parametrize("codec", TextCodec)
@pytest.mark.parametrize("garbage", [b"\0" * 512, b"garbage behind the end", b"\n"], ids=["zeros", "words", "newline"])
def test_garbage_at_the_end_is_found(codec, garbage):
    """Whatever is not a member is not passed over, zeros too; but Hadoop's framing takes zeros for empty blocks."""
    _, compress = WRITERS[codec]
    if codec.startswith("hadoop") and not garbage.strip(b"\0"):
        assert decode(compress(TEXT) + garbage, codec) == TEXT
        return
    with pytest.raises(UnreadableFileError, match="not a complete"):
        decode(compress(TEXT) + garbage, codec)


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "snappy", "deflate"])
def test_a_changed_byte_is_found(codec):
    """Codecs with checksums show every change of their content."""
    _, compress = WRITERS[codec]
    content = bytearray(compress(TEXT))
    content[len(content) // 2] ^= 0x55
    with pytest.raises(UnreadableFileError, match="not a complete"):
        decode(bytes(content), TextCodec(codec))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.binary(max_size=300), max_size=4), st.sampled_from(list(TextCodec)))
def test_what_is_written_is_read(texts, codec):
    """Text written in pieces is the same text for others, and for us."""
    sink = pa.BufferOutputStream()
    encoder = TextEncoder(sink, codec)
    for text in texts:
        encoder.write(text)
    encoder.finish()
    content = sink.getvalue().to_pybytes()
    if content:
        assert by_others(content, codec) == b"".join(texts)


def test_frames_are_those_of_the_definition():
    """Our frames of Snappy are byte for byte those of a plain writer with checksums by definition."""
    sink = pa.BufferOutputStream()
    TextEncoder(sink, TextCodec.SNAPPY).write(b"some lines\n" * 99)
    assert sink.getvalue().to_pybytes() == snappy_frames(b"some lines\n" * 99)


@pytest.mark.parametrize("chunks", [1, 2, 7])
@pytest.mark.parametrize("codec", ["hadoop-lz4", "hadoop-snappy"])
def test_blocks_of_many_chunks(codec, chunks):
    """Hadoop's blocks may come in several chunks, of which none says how long it is in LZ4."""
    compress = hadoop("lz4_raw" if codec == "hadoop-lz4" else "snappy", chunks=chunks)
    assert decode(compress(TEXT), TextCodec(codec)) == TEXT


@pytest.mark.parametrize("codec", TextCodec)
@pytest.mark.parametrize("header_lines", [0, 1])
def test_joined_text(tmp_path, codec, header_lines):
    """Missing newlines are added, a header occurs once, and others read the joined file."""
    _, compress = WRITERS[codec]
    texts = [b"h\na1\na2", b"h\nb1\n", b"h", b"h\nd1"]
    for at, text in enumerate(texts):
        (tmp_path / str(at)).write_bytes(compress(text))
    paths = [str(tmp_path / str(at)) for at in range(len(texts))]
    permissions = Permissions(uid=0, gid=0, mode=0o644)
    inputs = tuple(
        FileEntry(name=str(at), size_bytes=9, mtime_ns=1, permissions=permissions) for at in range(len(texts))
    )
    spec = UnitSpec(
        number=1, partition="", directory=str(tmp_path), inputs=inputs, how=How.CONCATENATE,
        file_format=format_of(codec), output_name="out", why="test", permissions=permissions,
        header_lines=header_lines,
    )  # fmt: skip
    kernel = kernel_of(spec.file_format)
    written = kernel.write(IO, paths, str(tmp_path / "out"), spec=spec)
    assert written.before == kernel.fingerprint(IO, paths, written=written)
    assert kernel.fingerprint(IO, [str(tmp_path / "out")], written=written) == written.before
    is_copied = not header_lines and codec is not TextCodec.DEFLATE
    found = kernel.compare_copy(IO, paths, str(tmp_path / "out"), written=written)
    assert found == (written.before if is_copied else None)
    joined = b"h\na1\na2\nb1\nd1\n" if header_lines else b"h\na1\na2\nh\nb1\nh\nh\nd1\n"
    content = (tmp_path / "out").read_bytes()
    assert by_others(content, codec) == joined
    if not header_lines and codec is not TextCodec.DEFLATE:
        assert content.startswith(compress(texts[0]))


@pytest.mark.parametrize(
    "decompress", [decompress_snappy, lambda block: decompressor("snappy", "")(block + b"\0\0\0\0")]
)
@pytest.mark.parametrize("claimed", [b"\x80\x80\x80\x80\x01", b"\x81\x0b"], ids=["256 MB", "one byte too many"])
def test_a_damaged_length_of_snappy_asks_for_no_memory(decompress, claimed):
    """A block that says it is longer than any block of its size can be is broken, before memory is allocated for it."""
    block = claimed + bytes(22 - len(claimed))  # 22 bytes: 1,408 at most
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"a block of Snappy is broken|its length is wrong|more than"):
            decompress(block)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_sound_block_of_snappy_is_too_long():
    """The shortest block there is for its content, copies of 64 bytes in three each, is within the guard."""
    plain = bytes(64) * 1_000
    block = b"\x80\xf4\x03" + b"\xf0\x3f" + bytes(64) + b"\xfe\x01\x00" * 999
    assert decompress_snappy(block) == plain
    assert decompressor("snappy", "")(block + zlib.crc32(plain).to_bytes(4, "big")) == plain
