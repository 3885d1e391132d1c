"""Data files that were damaged at random, among good ones, through ``compact``.

Whatever happened to a file: the command ends, with one of its exit codes and no traceback; the rows of the good files
are all there; and the damaged file is as it was, or was merged, and then another reader could read it before and reads
the same rows now. Readers are not ours: fastavro, DuckDB, Python's codecs, and a model of Hadoop's files.
"""

import bz2
import gzip
import io
import json
import os
import random
import shutil
import signal
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import fastavro
import pyarrow as pa
import pytest
from block_file_model import TEXT_CLASS, Shape, rc_file, read_rc_file, read_sequence_file, sequence_file
from text_codecs import WRITERS, masked_checksum

from packstone.cli.main import run

FILES, ROWS = 6, 12
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": "bytes"},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["int", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "double"}},
        {"name": "is", "type": "boolean"},
    ],
}


@dataclass(frozen=True)
class Kind:
    """A format: how a file of numbered rows is written and read by others."""

    name: str
    ending: str
    write: object
    read: object


def avro(numbers, codec):
    """Rows by fastavro, some to a block."""
    out = io.BytesIO()
    rows = [
        {"id": n, "s": f"é{n}" if n % 3 else None, "b": b"\xff", "e": "AB"[n % 2], "list": [n, "x"], "map": {"k": 1.5}}
        for n in numbers
    ]
    rows = [{**row, "is": row["id"] > 5} for row in rows]
    fastavro.writer(out, SCHEMA, rows, codec=codec, sync_interval=200, sync_marker=bytes(range(16)))
    return out.getvalue()


def read_avro(data):
    """All rows."""
    return [repr(row) for row in fastavro.reader(io.BytesIO(data))]


def lines(numbers):
    """Rows as lines of text."""
    return b"".join(b"%d,value %d\n" % (n, n) for n in numbers)


def json_lines(numbers):
    """Rows as JSON."""
    return b"".join(json.dumps({"id": n, "s": f"é{n}"}).encode() + b"\n" for n in numbers)


def read_lines(data):
    """All lines; the newline after the last one may be missing."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def hadoop_rows(numbers):
    """Keys and values."""
    return [(b"%d" % n, f"é{n}".encode()) for n in numbers]


def unsnap(data):
    """A raw block of Snappy, which begins with its length."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    assert size < 1 << 24
    return pa.decompress(data, size, codec="snappy", asbytes=True) if size else b""


def unhadoop(unpack):
    """Hadoop's blocks, by their description."""

    def read(data):
        at, out = 0, b""
        while at < len(data):
            size, at, block = int.from_bytes(data[at : at + 4], "big"), at + 4, b""
            while len(block) < size:
                packed, at = int.from_bytes(data[at : at + 4], "big"), at + 4
                assert at + packed <= len(data)
                block += unpack(data[at : at + packed], size)
                at += packed
            assert len(block) == size
            out += block
        return out

    return read


def streamed(codec):
    """A reader of PyArrow's."""
    return lambda data: pa.CompressedInputStream(pa.BufferReader(data), codec).read()


def unframe(data):
    """Snappy's frames, by their description."""
    mark = b"\xff\x06\x00\x00sNaPpY"
    assert data.startswith(mark)
    at, out = 0, b""
    while at < len(data):
        kind, size = data[at], int.from_bytes(data[at + 1 : at + 4], "little")
        body, at = data[at + 4 : at + 4 + size], at + 4 + size
        assert at <= len(data)
        assert kind > 127 or kind < 2
        assert kind != 255 or body == mark[4:]
        if kind < 2:
            plain = body[4:] if kind else unsnap(body[4:])
            assert masked_checksum(plain) == int.from_bytes(body[:4], "little")
            out += plain
    return out


UNPACK = {
    "gzip": gzip.decompress,
    "bzip2": bz2.decompress,
    "zstd": streamed("zstd"),
    "lz4": streamed("lz4"),
    "deflate": zlib.decompress,
    "snappy": unframe,
    "hadoop-snappy": unhadoop(lambda data, _size: unsnap(data)),
    "hadoop-lz4": unhadoop(lambda data, size: pa.decompress(data, size, codec="lz4_raw", asbytes=True)),
}


def text_kind(codec):
    """Compressed text."""
    ending, pack = WRITERS[codec]
    return Kind(codec, f".csv.{ending}", lambda numbers: pack(lines(numbers)), lambda d: read_lines(UNPACK[codec](d)))


def avro_kind(codec):
    """Avro under a codec."""
    return Kind(f"avro-{codec}", ".avro", lambda numbers: avro(numbers, codec), read_avro)


def sequence(name, shape):
    """SequenceFiles."""
    return Kind(name, "", lambda numbers: sequence_file(hadoop_rows(numbers), shape), read_sequence_file)


KINDS = [
    Kind("csv", ".csv", lines, read_lines),
    Kind("json", ".json", json_lines, read_lines),
    *(text_kind(codec) for codec in WRITERS),
    *(avro_kind(codec) for codec in ("null", "deflate", "bzip2")),
    sequence("sequence", Shape(value_class=TEXT_CLASS)),
    sequence("sequence-records", Shape(value_class=TEXT_CLASS, codec="default")),
    sequence("sequence-blocks", Shape(value_class=TEXT_CLASS, codec="default", blocks=True)),
    Kind("rc", "", lambda numbers: rc_file(hadoop_rows(numbers)), read_rc_file),
    Kind("rc-packed", "", lambda numbers: rc_file(hadoop_rows(numbers), Shape(codec="bzip2")), read_rc_file),
]  # fmt: skip


def damage(data, draw):
    """Change a file as disks, networks and people do."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at, size = draw.randrange(len(data) + 1), draw.choice((1, 1, 2, 4, 16, 200))
        some = bytes(draw.choice(((0, 255, 127, 128, 10), range(256))[draw.random() < 0.7]) for _ in range(size))
        match draw.randrange(7):
            case 0 | 1:  # a bit
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
            case 2:
                data = data[:at] + some + data[at + size :]
            case 3:
                data = data[:at] + some + data[at:]
            case 4:
                data = data[:at] + data[at + size :]
            case 5:
                data = data[:at]
            case 6:
                data = data[:at] + data[max(0, at - size) :]
        data = data or b"\0"
    return data


@contextmanager
def at_most(seconds):
    """Fail if something takes longer: the command's own handler must not take the signal for its own."""

    def ring(_number, _frame):
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def compact_one(kind, seed, folder, capsys):
    """Damage one of several files, compact, and compare what others read; whether the damaged file was left alone."""
    draw = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    partition = folder / "t" / "p=1"
    partition.mkdir(parents=True)
    contents = [kind.write(range(at * ROWS, at * ROWS + ROWS)) for at in range(FILES)]
    harmed = draw.randrange(FILES)
    good = [row for at, data in enumerate(contents) if at != harmed for row in kind.read(data)]
    contents[harmed] = damage(contents[harmed], draw)
    for at, data in enumerate(contents):
        (partition / f"f{at}{kind.ending}").write_bytes(data)
    with at_most(60):
        code = run(["compact", str(folder / "t"), "--header", "0", "--set", "min-files=2", "--format", "json"])
    said = capsys.readouterr()
    assert code in (0, 1, 3), said
    assert "Traceback" not in said.err, said.err
    assert "Unexpected" not in said.err + said.out, said.err
    path = partition / f"f{harmed}{kind.ending}"
    if path.exists():
        assert path.read_bytes() == contents[harmed]
        assert sorted(map(repr, visible_rows(kind, partition, skip=path.name))) == sorted(map(repr, good))
        return True
    before = kind.read(contents[harmed])
    assert sorted(map(repr, visible_rows(kind, partition))) == sorted(map(repr, good + before))
    return False


def visible_rows(kind, partition, *, skip=""):
    """All rows of a folder."""
    return [row for path in sorted(partition.iterdir()) if path.name != skip for row in kind.read(path.read_bytes())]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.sample(4)
def test_damaged_files_among_good_ones(kind, quiet_env, tmp_path, capsys):
    """Seven kinds of damage to one of six files, in the short form."""
    left = [compact_one(kind, seed, tmp_path / "lake", capsys) for seed in range(8)]
    assert any(left) or kind.name in ("csv", "json")


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_many_damaged_files_among_good_ones(kind, quiet_env, tmp_path, capsys):
    """The same 5,000 times over all formats, or as often as PACKSTONE_FUZZ_CASES says, with other seeds each time."""
    cases = int(os.environ.get("PACKSTONE_FUZZ_CASES", "5000")) // len(KINDS) + 1
    first = random.SystemRandom().randrange(1 << 40)
    for seed in range(first, first + cases):
        try:
            compact_one(kind, seed, tmp_path / "lake", capsys)
        except BaseException as error:
            error.add_note(f"{kind.name}, seed {seed}")
            raise


def test_duckdb_reads_what_is_left(quiet_env, tmp_path, capsys):
    """A CSV file with damage that is none to a reader of lines is merged, and DuckDB reads the same lines."""
    partition = Path(tmp_path / "t" / "p=1")
    partition.mkdir(parents=True)
    for at in range(FILES):
        (partition / f"f{at}.csv").write_bytes(
            lines(range(at * ROWS, at * ROWS + ROWS)).replace(b"value 30", b"va\xc3ue")
        )
    question = f"select column0 from read_csv('{partition}/*.csv', header=false, ignore_errors=true) order by 1"
    before = duckdb.sql(question).fetchall()
    assert run(["compact", str(tmp_path / "t")]) == 0
    assert duckdb.sql(question).fetchall() == before
    capsys.readouterr()
