"""Small files of every format that is merged, written and read by libraries that are not ours."""

import gzip
import io

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from block_file_model import (
    Shape,
    avro_file,
    rc_file,
    read_avro_file,
    read_rc_file,
    read_sequence_file,
    sequence_file,
)

PACKED = Shape(codec="default", blocks=True)


def _parquet(ids):
    target = io.BytesIO()
    pq.write_table(pa.table({"id": ids}), target)
    return target.getvalue()


def _orc(ids):
    target = io.BytesIO()
    pa.orc.write_table(pa.table({"id": ids}), target, compression="zlib")
    return target.getvalue()


def _text(ids):
    return b"".join(b"%d\n" % number for number in ids)


# name -> (the ending of files, ids to bytes, bytes to ids)
FORMATS = {
    "parquet": ("parquet", _parquet, lambda data: pq.read_table(pa.BufferReader(data))["id"].to_pylist()),
    "text": ("csv", _text, lambda data: [int(line) for line in data.splitlines()]),
    "orc": ("orc", _orc, lambda data: pa.orc.read_table(pa.BufferReader(data))["id"].to_pylist()),
    "gzip": (
        "csv.gz",
        lambda ids: gzip.compress(_text(ids)),
        lambda data: [int(line) for line in gzip.decompress(data).splitlines()],
    ),
    "avro": (
        "avro",
        lambda ids: avro_file([(number, None) for number in ids], codec="deflate"),
        lambda data: [number for number, _ in read_avro_file(data)],
    ),
    "sequencefile": (
        "seq",
        lambda ids: sequence_file([(b"", b"%d" % number) for number in ids], PACKED),
        lambda data: [int(value) for _, value in read_sequence_file(data)],
    ),
    "rcfile": (
        "rc",
        lambda ids: rc_file([(b"%d" % number, b"x") for number in ids]),
        lambda data: [int(number) for number, _ in read_rc_file(data)],
    ),
}
