"""Avro containers: every codec, raw values, and damage that is noticed."""

import io
from contextlib import suppress

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.formats.avro_file import AvroWriter, read_header, read_records, write_records

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "b", "type": "bytes"},
        {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}
RECORDS = [
    {"n": number, "t": 10**17 + number, "b": bytes([number % 256]) * 50, "l": [None, "x"]} for number in range(5000)
]
CODECS = ["zstd", "snappy", "deflate", "null", "bzip2", "xz"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_read(codec):
    """Every codec carries all records over several blocks."""
    assert list(read_records(write_records(SCHEMA, RECORDS, codec=codec), path="p")) == RECORDS


@pytest.mark.parametrize("codec", ["deflate", "null", "bzip2", "xz"])
def test_fastavro_reads_what_we_write(codec):
    """Another reader of the format reads our files, with the logical types that the schema declares."""
    records = [record | {"t": 1000} for record in RECORDS]
    found = list(fastavro.reader(io.BytesIO(write_records(SCHEMA, records, codec=codec))))
    assert [one["n"] for one in found] == [one["n"] for one in records]
    assert found[0]["t"].timestamp() == 1.0


@pytest.mark.parametrize("codec", ["deflate", "null", "bzip2", "xz"])
def test_we_read_what_fastavro_writes(codec):
    """A file of another writer is read, whatever its block size."""
    records = [record | {"t": 1000} for record in RECORDS]
    buffer = io.BytesIO()
    fastavro.writer(buffer, SCHEMA, records, codec=codec, sync_interval=500)
    assert list(read_records(buffer.getvalue(), path="p")) == records


def test_timestamps_stay_the_numbers_they_were():
    """A moment beyond the year 9999 is not an error, because no datetime is made of it."""
    far = [{"n": 1, "t": 2**62, "b": b"", "l": []}]
    assert list(read_records(write_records(SCHEMA, far, codec="null"), path="p")) == far
    assert "timestamp-millis" in read_header(write_records(SCHEMA, far, codec="null"), path="p").schema


def test_a_file_without_records_is_legal():
    """The base manifest list of a first commit is empty."""
    assert list(read_records(write_records(SCHEMA, [], codec="zstd"), path="p")) == []


def test_the_writer_knows_its_compressed_size():
    """The size grows while blocks are written, and ends at the size of the file."""
    writer = AvroWriter(SCHEMA, codec="zstd")
    sizes = [writer.size_bytes]
    for record in RECORDS:
        writer.write(record)
        sizes.append(writer.size_bytes)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 3
    assert len(writer.finish()) == writer.size_bytes


@given(st.integers(0, 10**6), st.integers(1, 255), st.sampled_from(["zstd", "snappy", "deflate", "null"]))
def test_a_changed_byte_is_noticed_or_harmless(at, flip, codec):
    """No damage makes the reader crash with anything but a CorruptionError; a wrong codec is named."""
    data = bytearray(write_records(SCHEMA, RECORDS[:200], codec=codec))
    data[at % len(data)] ^= flip
    with suppress(CorruptionError, InvalidInputError):
        list(read_records(bytes(data), path="p"))


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_cut_off_is_a_corruption(codec):
    """Wherever a file ends too early inside a block, the reader says so."""
    data = write_records(SCHEMA, RECORDS, codec=codec)
    start = read_header(data, path="p").end
    for end in {start + 1, start + 5, (start + len(data)) // 2, len(data) - 1, len(data) - 16}:
        with pytest.raises(CorruptionError):
            list(read_records(data[:end], path="p"))


@pytest.mark.parametrize("data", [b"", b"Obj", b"PAR1....", b"Obj\x01", b"Obj\x01\x00" + b"x" * 16])
def test_another_kind_of_file_is_named(data):
    """What is not an Avro file is reported with its name."""
    with pytest.raises(CorruptionError, match="some/file"):
        list(read_records(data, path="some/file"))


def test_an_unknown_codec_is_refused():
    """Neither reading nor writing guesses at a codec."""
    with pytest.raises(InvalidInputError, match="brotli"):
        AvroWriter(SCHEMA, codec="brotli")
    data = write_records(SCHEMA, [], codec="bzip2").replace(b"bzip2", b"huff2")
    with pytest.raises(InvalidInputError, match="huff2"):
        list(read_records(data, path="p"))
