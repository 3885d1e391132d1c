"""SequenceFiles and RCFiles written and read from their descriptions alone, byte by byte; and Avro files by fastavro.

Nothing here is shared with the kernels. Readers are as Hadoop's: they also begin in the middle of a file, at the first
marker behind a given place.
"""

from __future__ import annotations

import bz2
import io
import struct
import zlib
from dataclasses import dataclass
from itertools import groupby

import fastavro

SYNC = bytes(range(100, 116))
ESCAPE = b"\xff\xff\xff\xff"
CODEC_CLASSES = {
    "default": "org.apache.hadoop.io.compress.DefaultCodec",
    "bzip2": "org.apache.hadoop.io.compress.BZip2Codec",
    "lzo": "com.hadoop.compression.lzo.LzoCodec",
}
PACK = {"default": zlib.compress, "bzip2": bz2.compress, "lzo": lambda data: b"lzo" + data}
BYTES_CLASS, TEXT_CLASS = "org.apache.hadoop.io.BytesWritable", "org.apache.hadoop.io.Text"
UNPACK = {"default": zlib.decompress, "bzip2": bz2.decompress, "lzo": lambda data: data[3:]}


def vlong(number):
    """Hadoop's number of variable length."""
    if -112 <= number <= 127:
        return struct.pack(">b", number)
    rest = ~number if number < 0 else number
    size = (rest.bit_length() + 7) // 8
    return struct.pack(">b", (-120 if number < 0 else -112) - size) + rest.to_bytes(size, "big")


def text(value):
    """Hadoop's text."""
    return vlong(len(value.encode())) + value.encode()


def metadata(pairs):
    """Hadoop's metadata."""
    return struct.pack(">i", len(pairs)) + b"".join(text(key) + text(value) for key, value in pairs.items())


@dataclass(frozen=True)
class Shape:
    """How a SequenceFile or RCFile is written."""

    codec: str = ""
    blocks: bool = False
    version: int = 6
    meta: tuple[tuple[str, str], ...] = ()
    key_class: str = BYTES_CLASS
    value_class: str = BYTES_CLASS
    sync: bytes = SYNC
    every: int = 3  # records or rows between markers, and in a block or row group
    old: bool = False  # an RCFile with the header of a SequenceFile
    columns: int = 2


PLAIN = Shape()


def wrap(value, name):
    """A value as its class writes it; classes that are not Hadoop's write it as it is."""
    lengths = {BYTES_CLASS: struct.pack(">i", len(value)), TEXT_CLASS: vlong(len(value))}
    return lengths.get(name, b"") + value


def unwrap(value, name):
    """The same the other way; the length must be true."""
    reader = _Reader(value)
    if name in (BYTES_CLASS, TEXT_CLASS):
        value = reader.take(reader.int() if name == BYTES_CLASS else reader.vlong())
        assert reader.ends(), "something behind the value"
    return value


def sequence_file(records, shape=PLAIN):
    """Records (key, value) as a file."""
    out = b"SEQ" + bytes([shape.version]) + text(shape.key_class) + text(shape.value_class)
    out += bytes([bool(shape.codec), shape.blocks])
    out += text(CODEC_CLASSES[shape.codec]) if shape.codec else b""
    out += metadata(dict(shape.meta)) if shape.version > 5 else b""
    out += shape.sync
    records = [(wrap(key, shape.key_class), wrap(value, shape.value_class)) for key, value in records]
    for first in range(0, len(records), shape.every):
        some = records[first : first + shape.every]
        if shape.blocks:
            out += ESCAPE + shape.sync + vlong(len(some))
            keys, values = zip(*some, strict=True)
            for part in (map(vlong, map(len, keys)), keys, map(vlong, map(len, values)), values):
                packed = PACK[shape.codec](b"".join(part))
                out += vlong(len(packed)) + packed
            continue
        out += ESCAPE + shape.sync if first else b""
        for key, value in some:
            stored = PACK[shape.codec](value) if shape.codec else value
            out += struct.pack(">ii", len(key) + len(stored), len(key)) + key + stored
    return out


class _Reader:
    """A cursor over bytes."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, size):
        taken = self.data[self.at : self.at + size]
        assert size >= 0
        assert len(taken) == size, "cut off"
        self.at += size
        return taken

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def vlong(self):
        (first,) = struct.unpack(">b", self.take(1))
        if first >= -112:
            return first
        if first >= -120:
            return int.from_bytes(self.take(-112 - first), "big")
        return ~int.from_bytes(self.take(-120 - first), "big")

    def text(self):
        return self.take(self.vlong()).decode()

    def ends(self):
        return self.at >= len(self.data)


@dataclass(frozen=True)
class Begin:
    """A header as it was read."""

    codec: str
    blocks: bool
    sync: bytes
    end: int
    meta: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]


def read_begin(data):
    """The header of a SequenceFile or an RCFile."""
    reader = _Reader(data)
    magic, version = reader.take(3), reader.take(1)[0]
    classes = [reader.text(), reader.text()] if magic == b"SEQ" else []
    packed = reader.take(1) == b"\1"
    blocks = bool(classes) and reader.take(1) == b"\1"
    names = {name: short for short, name in CODEC_CLASSES.items()}
    codec = names[reader.text()] if packed else ""
    pairs = [(reader.text(), reader.text()) for _ in range(reader.int())] if version != 5 else []
    sync = reader.take(16)
    return Begin(codec=codec, blocks=blocks, sync=sync, end=reader.at, meta=tuple(pairs), classes=tuple(classes))


def _seek(data, begin, start):
    """Where a reader begins that is given this position: at the first marker from there on."""
    if start <= begin.end:
        return begin.end
    found = data.find(begin.sync, start + 4)
    return len(data) if found < 0 else found - 4


def _at_mark(reader, begin):
    if reader.data[reader.at : reader.at + 4] != ESCAPE:
        return False
    reader.take(4)
    assert reader.take(16) == begin.sync, "not the marker"
    return True


def read_sequence_file(data, start=0, end=None):
    """The records between two places: from the first marker behind the one to the first behind the other."""
    begin, end = read_begin(data), len(data) if end is None else end
    reader, found = _Reader(data, _seek(data, begin, start)), []
    if reader.at >= end:
        return []
    while not reader.ends():
        here = reader.at
        if _at_mark(reader, begin):
            if here >= end or reader.ends():
                break
        elif begin.blocks:
            raise AssertionError("no marker before a block")
        if begin.blocks:
            count = reader.vlong()
            parts = [_Reader(UNPACK[begin.codec](reader.take(reader.vlong()))) for _ in range(4)]
            keys = [parts[1].take(parts[0].vlong()) for _ in range(count)]
            found += zip(keys, [parts[3].take(parts[2].vlong()) for _ in range(count)], strict=True)
            continue
        size, key_size = reader.int(), reader.int()
        key, stored = reader.take(key_size), reader.take(size - key_size)
        found.append((key, UNPACK[begin.codec](stored) if begin.codec else stored))
    return [tuple(map(unwrap, pair, begin.classes)) for pair in found]


def runs(numbers):
    """Lengths as Hive writes them: one, then how often it comes again."""
    out = b""
    for number, same in groupby(numbers):
        times = len(list(same))
        out += vlong(number) + (vlong(~(times - 1)) if times > 1 else b"")
    return out


def _read_runs(reader):
    """The lengths one after the other."""
    found = []
    while not reader.ends():
        number = reader.vlong()
        found += [found[-1]] * ~number if number < 0 else [number]
    return found


def rc_file(rows, shape=PLAIN):
    """Rows (tuples of bytes) as a file."""
    out = b"RCF\x01"
    if shape.old:
        names = ("KeyBuffer", "ValueBuffer")
        out = b"SEQ\x06" + b"".join(text(f"org.apache.hadoop.hive.ql.io.RCFile${name}") for name in names)
    out += bytes([bool(shape.codec)]) + (b"\0" if shape.old else b"")
    out += text(CODEC_CLASSES[shape.codec]) if shape.codec else b""
    out += metadata({"hive.io.rcfile.column.number": str(shape.columns), **dict(shape.meta)}) + shape.sync
    for number, first in enumerate(range(0, len(rows), shape.every)):
        some = rows[first : first + shape.every]
        key, body = vlong(len(some)), b""
        for column in zip(*some, strict=True):
            plain, lengths = b"".join(column), runs(map(len, column))
            stored = PACK[shape.codec](plain) if shape.codec else plain
            key += vlong(len(stored)) + vlong(len(plain)) + vlong(len(lengths)) + lengths
            body += stored
        packed = PACK[shape.codec](key) if shape.codec else key
        out += ESCAPE + shape.sync if number % 2 else b""
        out += struct.pack(">iii", len(key) + len(body), len(key), len(packed)) + packed + body
    return out


def read_rc_file(data, start=0, end=None):
    """The rows between two places, as above."""
    begin, end = read_begin(data), len(data) if end is None else end
    unpack = UNPACK[begin.codec] if begin.codec else bytes
    reader, found = _Reader(data, _seek(data, begin, start)), []
    if reader.at >= end:
        return []
    while not reader.ends():
        here = reader.at
        if _at_mark(reader, begin) and (here >= end or reader.ends()):
            break
        size, key_size, packed_size = reader.int(), reader.int(), reader.int()
        key = _Reader(unpack(reader.take(packed_size)))
        assert len(key.data) == key_size
        body, columns = _Reader(reader.take(size - key_size)), []
        count = key.vlong()
        while not key.ends():
            stored_size, plain_size = key.vlong(), key.vlong()
            lengths = _read_runs(_Reader(key.take(key.vlong())))
            assert len(lengths) == count
            plain = _Reader(unpack(body.take(stored_size)))
            assert len(plain.data) == plain_size
            columns.append([plain.take(length) for length in lengths])
            assert plain.ends()
        assert body.ends()
        found += zip(*columns, strict=True)
    return found


AVRO_SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "k", "type": "long"}, {"name": "b", "type": ["null", "bytes"]}],
}


def avro_file(records, *, codec="null", sync=SYNC, every=3, schema=None, meta=None):
    """Records (number, bytes or None) as a file, some to a block."""
    out = io.BytesIO()
    plain = [{"k": number, "b": value} for number, value in records]
    writer = fastavro.write.Writer(
        out, schema or AVRO_SCHEMA, codec=codec, sync_marker=sync, metadata=meta, sync_interval=1 << 30
    )
    for at, record in enumerate(plain):
        writer.write(record)
        if at % every == every - 1:
            writer.dump()
    writer.flush()
    return out.getvalue()


def read_avro_file(data):
    """All records."""
    return [(record["k"], record["b"]) for record in fastavro.reader(io.BytesIO(data))]
