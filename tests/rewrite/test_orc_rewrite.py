"""Tiny stripes are encoded again only where nothing is lost by it; all else is copied, and the rows are the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from orc_files import add_field, change_footer, change_type, orc_table, read_orc_files, write_orc_files
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.rewrite.small_files.orc_kernel import TINY_STRIPE_BYTES, read_orc_facts
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
EPOCH_2300 = 10_413_792_000


def write_tables(folder: Path, table: pa.Table, **options) -> Path:
    """Three files of the same rows."""
    folder.mkdir()
    for at in range(3):
        orc.write_table(table, folder / f"{at}.orc", **{"compression": "zlib", **options})
    return folder


def compact(folder: Path) -> str:
    """Merge a folder to one file; name the way."""
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    (unit,) = outcome.units
    assert (outcome.skipped, len(list(folder.iterdir()))) == ((), 1)
    return unit.how


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd"])
def test_tiny_stripes_become_one(tmp_path, codec):
    """The rows keep their order and types, under the same codec, block size and stride."""
    folder = write_orc_files(
        tmp_path / "t", rows=30, compression=codec, compression_block_size=1 << 17, row_index_stride=2_000
    )
    rows, before = read_orc_files(folder), read_orc_facts(IO, str(folder / "000.orc"))
    assert compact(folder) == "rewrite"
    (path,) = folder.iterdir()
    assert orc.read_table(path).equals(rows)
    merged = orc.ORCFile(path)
    assert (merged.nstripes, merged.compression, merged.compression_size, merged.row_index_stride) == (
        1, codec.upper(), 1 << 17, 2_000,
    )  # fmt: skip
    assert read_orc_facts(IO, str(path)).agreement == before.agreement


def test_stripes_that_are_big_enough(tmp_path):
    """From 16 KiB on average stripes are copied."""
    folder = write_orc_files(tmp_path / "t", files=3, rows=2_000)
    assert min(path.stat().st_size for path in folder.iterdir()) > TINY_STRIPE_BYTES
    assert compact(folder) == "stitch"


def test_what_stands_in_the_footer_alone(tmp_path):
    """Char lengths, the user's metadata, the calendar and attributes of types are those of the inputs."""
    schema = pa.schema(
        [pa.field("c", pa.string()), pa.field("n", pa.int64(), metadata={"spark.sql.catalyst.type": "timestamp_ntz"})]
    )
    folder = write_tables(tmp_path / "t", pa.table({"c": ["ab  ", "cd  "], "n": [1, 2]}, schema=schema))
    for path in folder.iterdir():
        change_footer(path, change_type(1, kind=17, length=4))
        change_footer(path, add_field(5, b"\x0a\x05owner\x12\x02us"))
        change_footer(path, lambda footer: [*(field for field in footer if field[0] != 11), (11, 0, 2)])
    before = read_orc_facts(IO, str(folder / "0.orc"))
    assert compact(folder) == "rewrite"
    (path,) = folder.iterdir()
    assert read_orc_facts(IO, str(path)).agreement == before.agreement
    assert orc.ORCFile(path).metadata == {b"owner": b"us"}
    assert orc.ORCFile(path).schema.field("n").metadata == {b"spark.sql.catalyst.type": b"timestamp_ntz"}
    assert orc.read_table(path)["c"].to_pylist() == ["ab  ", "cd  "] * 3


def union() -> pa.Array:
    """Numbers and texts in one column."""
    return pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2], pa.int64()), pa.array(["a", "b"])])


COPIED = {
    "a time before 1970": (pa.table({"at": pa.array([-1, 5], pa.timestamp("us"))}), {}),
    "an instant before 1970": (pa.table({"at": pa.array([-1, 5], pa.timestamp("us", "UTC"))}), {}),
    "a time in a list": (pa.table({"at": pa.array([[-1], [5]], pa.list_(pa.timestamp("us")))}), {}),
    "a time beyond 2262": (pa.table({"at": pa.array([0, EPOCH_2300], pa.timestamp("s"))}), {}),
    "bloom filters": (pa.table({"id": [1, 2]}), {"bloom_filter_columns": [1]}),
    "lz4": (pa.table({"id": [1, 2]}), {"compression": "lz4"}),
    "a union": (pa.table({"u": union()}), {}),
    "a name used twice": (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), {}),
}


@pytest.mark.parametrize("what", COPIED)
def test_what_is_copied(tmp_path, what):
    """What PyArrow might not give back is copied: the stripes are in the merged file byte for byte."""
    table, options = COPIED[what]
    folder = write_tables(tmp_path / "t", table, **options)
    one = (folder / "0.orc").read_bytes()
    stripe = one[3 : orc.ORCFile(folder / "0.orc").content_length]
    assert compact(folder) == "stitch"
    (path,) = folder.iterdir()
    assert path.read_bytes().count(stripe) == 3
    assert orc.ORCFile(path).nrows == 3 * table.num_rows


def test_zones_with_changing_clocks(tmp_path):
    """Times written in a zone with summer time are copied: 2:30 may have happened twice."""
    folder = write_orc_files(tmp_path / "t", files=3, rows=20, compression="uncompressed")
    assert compact(folder) == "rewrite"
    folder = write_orc_files(tmp_path / "u", files=3, rows=20, compression="uncompressed")
    for path in folder.iterdir():
        content = path.read_bytes()
        assert content.count(b"\x1a\x03GMT") == 1
        path.write_bytes(content.replace(b"\x1a\x03GMT", b"\x1a\x03CET"))
    assert compact(folder) == "stitch"


def test_newer_files_of_java_join_outputs(tmp_path):
    """An output of PyArrow's and newer files of a Java writer are one group: nights do not pile up outputs."""

    def write_by_java(night):
        for at in range(5):
            path = folder / f"{night}{at}.orc"
            orc.write_table(orc_table((night * 5 + at) * 10, 10), path, compression="zlib")
            change_footer(path, lambda footer: [field if field[0] != 9 else (9, 0, 0) for field in footer])

    folder = tmp_path / "t"
    folder.mkdir()
    for night in range(3):
        write_by_java(night)
        Table(str(folder)).compact(HiveOptions())
        assert len(list(folder.iterdir())) == 1
    assert sorted(read_orc_files(folder)["id"].to_pylist()) == list(range(150))
