"""Avro files, SequenceFiles and RCFiles are joined by copying: other readers find the same records, in their order."""

from __future__ import annotations

import bz2
import gzip
import io as io_module
import struct
import tracemalloc
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import fastavro
import pyarrow as pa
import pytest
from block_file_model import (
    AVRO_SCHEMA,
    ESCAPE,
    SYNC,
    TEXT_CLASS,
    Shape,
    avro_file,
    rc_file,
    read_avro_file,
    read_begin,
    read_rc_file,
    read_sequence_file,
    sequence_file,
    vlong,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec, UnitStatus, Verify
from packstone.rewrite.formats import block_format as byte_source
from packstone.rewrite.formats.avro_file import write_long, write_records
from packstone.rewrite.formats.codecs import decompress_piece, decompress_up_to
from packstone.rewrite.formats.writables import check_runs
from packstone.rewrite.small_files import block_kernel
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.storage.memory import MemoryFileIO

if TYPE_CHECKING:
    from collections.abc import Callable

OWNED = Permissions(uid=0, gid=0, mode=0o644)
HARD = (SYNC, ESCAPE + SYNC, ESCAPE, SYNC[:9], b"SEQ\x06", b"", bytes(40))
cells = st.one_of(st.binary(max_size=6), st.sampled_from(HARD), st.binary(min_size=130, max_size=140))
texts = st.text(max_size=140).map(str.encode)
avro_rows = st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | cells)


@dataclass(frozen=True)
class Kind:
    """A format in one of its shapes."""

    name: str
    file_format: str
    write: Callable[..., bytes]
    read: Callable[..., list]
    rows: st.SearchStrategy
    sample: tuple


PAIRS = ((b"key", b"value"), (b"", ESCAPE + SYNC), (SYNC, b""), (b"k", b"v" * 200), (b"\0", bytes(9)), (b"x", b"y"))
WORDS = ((SYNC, b"caf\xc3\xa9"), (b"", b""), (b"k", b"v" * 200), (b"\0", bytes(9)), (b"x", b"y"), (b"", SYNC))
NUMBERS = tuple((len(value) - 3, value) for _, value in PAIRS)


def _avro(codec):
    return Kind(f"avro-{codec}", "avro", lambda rows, **way: avro_file(rows, codec=codec, **way), read_avro_file,
                avro_rows, NUMBERS)  # fmt: skip


def _hadoop(name, write, read, *, shape, values=cells, sample=PAIRS):
    file_format = "rcfile" if write is rc_file else "sequencefile"
    return Kind(name, file_format, lambda rows, **way: write(rows, replace(shape, **way)), read,
                st.tuples(cells, values), sample)  # fmt: skip


KINDS = [
    _avro("null"),
    _avro("deflate"),
    _hadoop("sequence", sequence_file, read_sequence_file, shape=Shape()),
    _hadoop("sequence-5", sequence_file, read_sequence_file, shape=Shape(version=5)),
    _hadoop("sequence-records", sequence_file, read_sequence_file, shape=Shape(codec="default")),
    _hadoop("sequence-blocks", sequence_file, read_sequence_file, shape=Shape(codec="default", blocks=True)),
    _hadoop(
        "sequence-text",
        sequence_file,
        read_sequence_file,
        shape=Shape(value_class=TEXT_CLASS),
        values=texts,
        sample=WORDS,
    ),
    _hadoop("sequence-other", sequence_file, read_sequence_file, shape=Shape(value_class="org.example.Value")),
    _hadoop("rc", rc_file, read_rc_file, shape=Shape()),
    _hadoop("rc-packed", rc_file, read_rc_file, shape=Shape(codec="default")),
    _hadoop("rc-bzip2", rc_file, read_rc_file, shape=Shape(codec="bzip2")),
    _hadoop("rc-old", rc_file, read_rc_file, shape=Shape(old=True)),
]
BY_NAME = {kind.name: kind for kind in KINDS}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


class Tampering(MemoryFileIO):
    """Somebody changes what was written before it is read again."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    def sync_file(self, path):
        """Change the file when it is finished."""
        self.replace(path, self._change(self.read_bytes(path)))


def merge(files, file_format, *, io=None, verify=Verify.CONTENT, accept_invalid_text=False):
    """Join files; the result, and the bytes of the output if there is one."""
    io = io or MemoryFileIO()
    for folder in ("/t", "/staging"):
        io.make_dirs(folder)
    for at, data in enumerate(files):
        io.replace(f"/t/f{at}", data)
    found = [io.stat(f"/t/f{at}") for at in range(len(files))]
    inputs = tuple(
        FileEntry(name=one.name, size_bytes=one.size_bytes, mtime_ns=one.mtime_ns, permissions=OWNED) for one in found
    )
    spec = UnitSpec(
        number=1, partition="", directory="/t", inputs=inputs, how=How.CONCATENATE, file_format=file_format,
        output_name="out", why="test", permissions=OWNED, verify=verify,
        accept_invalid_text=accept_invalid_text,
    )  # fmt: skip
    result = run_unit(io, spec, staging="/staging", attempt="a0")
    written = result.status is UnitStatus.WRITTEN
    return result, io.read_bytes(result.outputs[0].path) if written else b""


@pytest.fixture
def piece_bytes():
    """Let files be read in pieces of another size than a megabyte."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda size: patch.setattr(byte_source, "PIECE_BYTES", size)


@every_kind
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_other_readers_find_the_same_records(kind, data):
    """Whatever the records are, markers inside values too, in pieces of any size: all come back, in their order."""
    files = data.draw(st.lists(st.lists(kind.rows, max_size=8), min_size=1, max_size=4))
    every = data.draw(st.integers(1, 4))
    size = data.draw(st.sampled_from([1, 5, 20, 64, 1 << 20]))
    written = [kind.write(rows, sync=bytes([at] * 16), every=every) for at, rows in enumerate(files)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_source, "PIECE_BYTES", size)
        result, output = merge(written, kind.file_format)
    expected = [row for rows in files for row in rows]
    assert (result.status, result.rows_out, result.message) == (UnitStatus.WRITTEN, len(expected), "")
    assert kind.read(output) == expected


@pytest.mark.parametrize("kind", [one for one in KINDS if one.file_format != "avro"], ids=lambda kind: kind.name)
def test_readers_of_parts_find_each_record_once(kind):
    """However a merged file is cut into splits, each record is read by one reader."""
    value = SYNC if kind.name == "sequence-text" else ESCAPE + SYNC
    rows = [(f"key {at}".encode(), value * (at % 3)) for at in range(60)]
    written = [kind.write(rows[at : at + 10], sync=bytes([at] * 16)) for at in range(0, 60, 10)]
    _, output = merge(written, kind.file_format)
    for split in (37, 200, 601):
        places = [*range(0, len(output), split), len(output)]
        assert [row for start, end in pairwise(places) for row in kind.read(output, start, end)] == rows, split


def test_files_without_markers_get_one_now_and_then():
    """Small files have no marker but the header's: in the merged file one comes every 2000 bytes or so."""
    rows = [(b"k", bytes(90))] * 100
    _, output = merge([sequence_file([row]) for row in rows], "sequencefile")
    marks = output.count(ESCAPE + read_begin(output).sync)
    assert 3 <= marks <= 5
    assert read_sequence_file(output, 5000) == rows[-len(read_sequence_file(output, 5000)) :]


@every_kind
def test_files_without_records(kind):
    """Headers alone: merged with the others, and among themselves."""
    empty, full = kind.write((), sync=bytes(16)), kind.write(kind.sample)
    for files, rows in (([empty, empty], ()), ([empty, full, empty], kind.sample)):
        result, output = merge(files, kind.file_format)
        assert (result.status, result.rows_out) == (UnitStatus.WRITTEN, len(rows))
        assert tuple(kind.read(output)) == rows


@every_kind
@pytest.mark.parametrize("verify", list(Verify))
def test_a_file_cut_off_anywhere_is_blamed(kind, verify):
    """Cut at any byte, a file is blamed, unless the cut falls between records: then it is a shorter file."""
    whole = kind.write(kind.sample)
    shorter = 0
    for cut in range(1, len(whole)):
        result, output = merge([whole, whole[:cut], whole], kind.file_format, verify=verify)
        if result.status is UnitStatus.WRITTEN:
            shorter += 1
            assert kind.read(output) == [*kind.sample, *kind.read(whole[:cut]), *kind.sample], cut
        else:
            assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f1"), (cut, result)
    assert 1 <= shorter <= 2 * len(kind.sample)


@every_kind
@pytest.mark.parametrize("garbage", [b"\0", b"garbage!" * 9, b"\xff" * 40, ESCAPE + bytes(16), b"\x7f\xff\xff\xff" * 5])
def test_garbage_behind_the_end_is_blamed(kind, garbage):
    """What follows the last record is not a record: the file is blamed, and no output stays."""
    io = MemoryFileIO()
    result, _ = merge([kind.write(kind.sample), kind.write(kind.sample) + garbage], kind.file_format, io=io)
    assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f1")
    assert result.message.startswith("/t/f1 is ")
    assert not list(io.list_dir("/staging"))


@every_kind
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_file_never_ends_the_job(kind, data):
    """Bytes changed anywhere: the unit is written, or the file is blamed or left alone; it never fails otherwise."""
    whole = bytearray(kind.write(kind.sample))
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    result, _ = merge([bytes(whole), kind.write(kind.sample)], kind.file_format)
    assert result.status in (UnitStatus.WRITTEN, UnitStatus.UNREADABLE, UnitStatus.UNFAITHFUL), result
    assert result.status is not UnitStatus.UNREADABLE or result.blamed == "/t/f0"


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("avro-null", avro_file(NUMBERS, codec="deflate")),
        ("avro-null", avro_file(NUMBERS, meta={"owner": "us"})),
        ("sequence", sequence_file(PAIRS, Shape(codec="default"))),
        ("sequence", sequence_file(PAIRS, Shape(version=5))),
        ("sequence", sequence_file(PAIRS, Shape(meta=(("a", "b"),)))),
        ("sequence", sequence_file(WORDS, Shape(value_class=TEXT_CLASS))),
        ("sequence-records", sequence_file(PAIRS, Shape(codec="default", blocks=True))),
        ("rc", rc_file(PAIRS, Shape(codec="default"))),
        ("rc", rc_file([(*pair, b"c") for pair in PAIRS], Shape(columns=3))),
        ("rc", rc_file(PAIRS, Shape(old=True))),
    ],
)
def test_files_that_differ_are_never_joined(kind, other):
    """A unit whose files turn out to differ is left alone: codecs, classes, metadata, schemas are not reconciled."""
    one = BY_NAME[kind]
    result, _ = merge([one.write(one.sample), other], one.file_format)
    assert result.status is UnitStatus.UNFAITHFUL
    assert "/t/f1 has a different header" in result.message


def test_avro_files_without_a_codec_are_plain():
    """A header need not name the codec if there is none; such files are joined with those that do."""
    named = avro_file(NUMBERS)
    unnamed = named.replace(b"\x14avro.codec\x08null", b"").replace(b"Obj\x01\x04", b"Obj\x01\x02")
    assert len(unnamed) < len(named)
    result, output = merge([unnamed, named], "avro")
    assert result.status is UnitStatus.WRITTEN
    assert read_avro_file(output) == [*NUMBERS, *NUMBERS]


def test_the_users_metadata_stay():
    """What a user wrote into the header is in the merged file's."""
    _, output = merge([avro_file(NUMBERS, meta={"owner": "us"})] * 2, "avro")
    assert fastavro.reader(io_module.BytesIO(output)).metadata["owner"] == "us"
    _, output = merge([sequence_file(PAIRS, Shape(meta=(("a", "b"), ("c", ""))))] * 2, "sequencefile")
    assert read_begin(output).meta == (("a", "b"), ("c", ""))


@every_kind
def test_a_changed_output_is_found(kind):
    """An output in which a byte of data is another, or a record is lost, is a mismatch, and the evidence stays."""
    one, two = kind.write(kind.sample), kind.write(kind.sample[:4])
    for change in (
        lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
        lambda _: kind.write([*kind.sample, *kind.sample[1:4], kind.sample[0]]),
        lambda _: kind.write([*kind.sample, *kind.sample[:3]]),
        lambda data: data + b"x",
    ):
        io = Tampering(change)
        result, _ = merge([one, two], kind.file_format, io=io)
        assert result.status is UnitStatus.MISMATCH, result
        assert [found.name for found in io.list_dir("/staging")] == ["u000001-a0.data"]


@every_kind
def test_a_file_replaced_while_it_is_merged(kind):
    """Another file in the place of an input, after it was copied and before it was proved: nothing is handed on."""

    class Replacing(MemoryFileIO):
        def sync_file(self, path):
            self.replace("/t/f1", kind.write(kind.sample[:2]))

    result, _ = merge([kind.write(kind.sample)] * 2, kind.file_format, io=Replacing())
    assert result.status is UnitStatus.MISMATCH


@every_kind
def test_another_header_in_the_output_is_found(kind):
    """The records alone do not make a file: an output whose header says something else is a mismatch."""
    old, new = (b'"name": "b"', b'"name": "c"') if kind.file_format == "avro" else (b"org.", b"orG.")
    if kind.name == "rc":
        old, new = b"column.number\x012", b"column.number\x013"

    def change(data):
        assert old in data
        return data.replace(old, new)

    result, _ = merge([kind.write(kind.sample)] * 2, kind.file_format, io=Tampering(change))
    assert result.status in (UnitStatus.MISMATCH, UnitStatus.UNFAITHFUL), result


@every_kind
def test_a_marker_that_occurs_in_the_data_is_not_used(kind, piece_bytes):
    """If the marker made for a file is in its data, another one is made, even if it lies across two pieces."""
    chosen = []
    make = block_kernel.make_marker

    def watch(spec, header, *, attempt):
        chosen.append(make(spec, header, attempt=attempt) if attempt else SYNC)
        return chosen[-1]

    piece_bytes(11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_kernel, "make_marker", watch)
        result, output = merge([kind.write(kind.sample, sync=bytes(16))] * 2, kind.file_format)
    plain = ("avro-null", "sequence", "sequence-5", "sequence-text", "sequence-other", "rc", "rc-old")
    compressed = kind.name not in plain
    assert result.status is UnitStatus.WRITTEN
    assert len(chosen) == (1 if compressed and SYNC not in kind.write(kind.sample, sync=bytes(16)) else 2)
    assert tuple(kind.read(output)) == kind.sample * 2


@every_kind
def test_the_same_merge_gives_the_same_file(kind):
    """Markers come from the inputs, not from chance."""
    files = [kind.write(kind.sample), kind.write(kind.sample[:2])]
    assert merge(files, kind.file_format)[1] == merge(files, kind.file_format)[1]
    assert merge(files, kind.file_format)[1] != merge(files[::-1], kind.file_format)[1]


ZLIB, BZIP2 = b"\x78\x9c", b"BZh9"


@pytest.mark.parametrize("verify", list(Verify))
@pytest.mark.parametrize(
    ("kind", "packed"),
    [("sequence-records", ZLIB), ("sequence-blocks", ZLIB), ("rc-packed", ZLIB), ("rc-bzip2", BZIP2)],
)
def test_what_cannot_be_decompressed_is_not_copied(kind, packed, verify):
    """A part that was broken before would take a merged file with it: its file is blamed, whatever the verification."""
    one = BY_NAME[kind]
    whole = one.write(one.sample)
    places = [at for at in range(len(whole)) if whole.startswith(packed, at)]
    assert len(places) >= 3
    for at in places:
        harmed = whole[:at] + bytes(len(packed)) + whole[at + len(packed) :]
        result, _ = merge([whole, harmed, whole], one.file_format, verify=verify)
        assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f1"), at


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_blocks_that_cannot_be_decompressed_are_not_copied(codec):
    """A block that is not data of its codec is found, and its file blamed; an undamaged one is merged."""
    whole = write_records(AVRO_SCHEMA, [{"k": at, "b": b"%d" % at} for at in range(100)], codec=codec)
    assert merge([whole, whole], "avro")[0].rows_out == 200
    body = whole.index(whole[-16:]) + 16 + 4  # behind the header's marker, and two numbers of two bytes each
    result, _ = merge([whole, whole[:body] + b"\x07" * 4 + whole[body + 4 :]], "avro")
    assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f1")
    assert "cannot be decoded" in result.message


@pytest.mark.parametrize(
    "name", ["SnappyCodec", "Lz4Codec", "ZStandardCodec", "GzipCodec", "BZip2Codec", "DefaultCodec"]
)
@given(plain=st.binary(max_size=300), cut=st.integers(1, 50), data=st.data())
@settings(max_examples=60, deadline=None)
def test_pieces_of_hadoops_codecs(name, plain, cut, data):
    """What was compressed comes back; whatever else comes is refused by ValueError, and never taken for the same."""
    codec = f"org.apache.hadoop.io.compress.{name}"
    packed = pack(name, plain, cut=cut)
    assert decompress_piece(codec, packed, size_bytes=len(plain)) == plain
    assert decompress_up_to(codec, packed, most_bytes=len(plain) + 1) == plain
    for wrong in (len(plain) + 1, max(0, len(plain) - 1)):
        if wrong != len(plain):
            with pytest.raises(ValueError, match=r"bytes instead of|more than"):
                decompress_piece(codec, packed, size_bytes=wrong)
    at = data.draw(st.integers(0, max(0, len(packed) - 1)))
    harmed = packed[:at] + data.draw(st.binary(max_size=3)) + packed[at + 2 :]
    try:
        assert len(decompress_piece(codec, harmed, size_bytes=len(plain))) == len(plain)
    except ValueError:
        return


def pack(name, plain, *, cut):
    """Compress as Hadoop does: a stream, or blocks of pieces with their lengths."""
    match name:
        case "DefaultCodec":
            return zlib.compress(plain)
        case "GzipCodec":
            return gzip.compress(plain)
        case "BZip2Codec":
            return bz2.compress(plain)
        case "ZStandardCodec":
            return pa.compress(plain, codec="zstd", asbytes=True)
    library = {"SnappyCodec": "snappy", "Lz4Codec": "lz4_raw"}[name]
    pieces = [pa.compress(plain[at : at + cut], codec=library, asbytes=True) for at in range(0, len(plain), cut)]
    body = b"".join(struct.pack(">i", len(piece)) + piece for piece in pieces)
    return struct.pack(">i", len(plain)) + body


@pytest.mark.parametrize("length", [-2, 0, 2**31 - 1])
def test_wrong_lengths_of_row_groups(length):
    """A row group whose lengths contradict each other or its key is blamed before memory is allocated."""
    whole = rc_file(PAIRS, Shape())
    end = read_begin(whole).end
    for at in range(3):
        harmed = whole[: end + 4 * at] + struct.pack(">i", length) + whole[end + 4 * at + 4 :]
        result, _ = merge([harmed, whole], "rcfile")
        assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f0"), (at, result)


def test_two_markers_in_a_row_are_no_end():
    """Hadoop's reader stops there without a word; we do not copy what it would not have read."""
    whole = sequence_file(PAIRS)
    mark = ESCAPE + SYNC
    result, _ = merge([whole.replace(mark, mark + mark), whole], "sequencefile")
    assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f0")
    result, output = merge([whole + mark, whole], "sequencefile")
    assert (result.status, tuple(read_sequence_file(output))) == (UnitStatus.WRITTEN, PAIRS * 2)


@example(value=-113)
@example(value=2**63 - 1)
@given(value=st.integers(-(2**63), 2**63 - 1))
def test_numbers_of_variable_length(value):
    """Hadoop's numbers are read as they are written."""
    from block_file_model import vlong

    from packstone.rewrite.formats.writables import parse_vlong, vlong_size

    written = vlong(value)
    assert (vlong_size(written[0]), parse_vlong(written)) == (len(written), value)


HARMED = {
    "a text shorter than its value": (sequence_file, Shape(value_class=TEXT_CLASS), b"\x03abc", b"\x02abc"),
    "a text longer than its value": (sequence_file, Shape(value_class=TEXT_CLASS), b"\x03abc", b"\x04abc"),
    "a text that is not UTF-8": (sequence_file, Shape(value_class=TEXT_CLASS), b"\x03abc", b"\x03a\xe9c"),
    "bytes longer than their value": (sequence_file, Shape(), b"\0\0\0\x03abc", b"\0\0\0\x04abc"),
    "bytes of a negative length": (sequence_file, Shape(), b"\0\0\0\x03abc", b"\xff\0\0\x03abc"),
    # stored, plain, two bytes of lengths: 3 and 0
    "a column whose values are too short": (rc_file, Shape(), b"\x03\x03\x02\x03\x00", b"\x03\x03\x02\x02\x00"),
}


@pytest.mark.parametrize("name", HARMED)
def test_lengths_that_do_not_fit_are_blamed(name):
    """Lengths inside records and columns, which the lengths around them do not show, are followed; ``count`` is not."""
    write, shape, old, new = HARMED[name]
    file_format = "rcfile" if write is rc_file else "sequencefile"
    whole = write([(b"k", b"abc"), (b"l", b"")], shape)
    assert whole.count(old) == 1
    files = [whole, whole.replace(old, new), whole]
    result, _ = merge(files, file_format)
    assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f1"), result
    assert merge(files, file_format, verify=Verify.COUNT)[0].status is UnitStatus.WRITTEN


@pytest.mark.parametrize(("count", "total"), [(3, 6), (1, 2), (0, 0)])
def test_runs_of_lengths(count, total):
    """Hive writes a length once and how often it comes again; as many values as rows, and all bytes of the column."""
    data = vlong(2) + (vlong(~(count - 1)) if count > 1 else b"") if count else b""
    check_runs(data, count=count, total=total)
    for wrong in ({"count": count + 1, "total": total}, {"count": count, "total": total + 1}):
        with pytest.raises(ValueError, match=r"values instead of|add up"):
            check_runs(data, **wrong)
    with pytest.raises(ValueError, match="repeats nothing"):
        check_runs(vlong(~5), count=5, total=0)


def test_latin1_is_accepted_if_asked_for():
    """A SequenceFile of texts that are not UTF-8 is left alone with the option that merges it, and merged with it."""
    whole = sequence_file([(b"k", "é".encode("latin-1"))], Shape(value_class=TEXT_CLASS))
    result, _ = merge([whole, whole], "sequencefile")
    assert (result.status, "--set accept-invalid-text=true" in result.message) == (UnitStatus.UNREADABLE, True)
    assert merge([whole, whole], "sequencefile", accept_invalid_text=True)[0].rows_out == 2


def test_a_codec_that_cannot_be_read():
    """What cannot be decompressed cannot be checked: left alone, and merged by ``--verify count``."""
    whole = sequence_file(PAIRS, Shape(codec="lzo", blocks=True))
    result, _ = merge([whole, whole], "sequencefile")
    assert (result.status, "--verify count" in result.message) == (UnitStatus.UNFAITHFUL, True)
    result, output = merge([whole, whole], "sequencefile", verify=Verify.COUNT)
    assert (result.status, tuple(read_sequence_file(output))) == (UnitStatus.WRITTEN, PAIRS * 2)


def _avro_bomb(codec, pack, size):
    """An Avro file of one block that is all zeros: as many records as bytes."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "long"}]}
    whole = write_records(schema, [], codec=codec)
    body = pack(bytes(size))
    return whole + write_long(size) + write_long(len(body)) + body + whole[-16:]


def _zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


def _raw_deflate(data):
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return coder.compress(data) + coder.flush()


BOMBS = {
    "avro-deflate": ("avro", lambda: _avro_bomb("deflate", _raw_deflate, 300 << 20)),
    "avro-zstandard": ("avro", lambda: _avro_bomb("zstandard", _zstd, 300 << 20)),
    "avro-records": ("avro", lambda: _avro_bomb("deflate", _raw_deflate, 20 << 20)),
    "sequence-blocks": (
        "sequencefile",
        lambda: sequence_file([(b"k", bytes(300 << 20))], Shape(codec="default", blocks=True)),
    ),
    "sequence-records": ("sequencefile", lambda: sequence_file([(b"k", bytes(300 << 20))], Shape(codec="default"))),
    "rc": ("rcfile", lambda: rc_file([(b"k", bytes(300 << 20))], Shape(codec="default"))),
    "gzip": ("gzip text", lambda: gzip.compress(b"\n" * (300 << 20))),
    "zstd": ("zstd text", lambda: _zstd(b"\n" * (300 << 20))),
    "hadoop-lz4": (
        "hadoop-lz4 text",
        lambda: struct.pack(">II", 4096, 1 << 20) + b"\x1f\n\x01\x00" + b"\xff" * ((1 << 20) - 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.sample(3)
def test_bombs_are_left_alone(name):
    """A file that becomes hundreds of times its size is left alone by name, without being held as a whole."""
    file_format, make = BOMBS[name]
    bomb = make()
    assert len(bomb) < 2 << 20
    pa_before, io = pa.total_allocated_bytes(), MemoryFileIO()
    tracemalloc.start()
    try:
        result, _ = merge([bomb], file_format, io=io)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, "/t/f0"), result
    assert peak + pa.total_allocated_bytes() - pa_before < 450 << 20
