"""Deletion vectors and index manifests."""

import struct
import zlib
from pathlib import Path

import pytest

from packstone.errors import CorruptionError
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.data_file import EMPTY_ROW, FileKind
from packstone.tables.paimon.format.deletion_vectors import (
    index_file_path,
    read_deletion_entries,
    read_deletion_vectors,
)
from packstone.tables.paimon.format.manifest_list import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    GlobalIndex,
    IndexEntry,
    read_index_manifest,
    write_index_manifest,
)
from packstone.tables.paimon.format.snapshot import Snapshot

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"

# Serialised by CRoaring (pyroaring), which is not ours.
SOME = bytes.fromhex("3a300000010000000000030010000000000001000500ffff")  # 0, 1, 5, 65535
SOME_64 = bytes.fromhex(
    "0200000000000000000000003a3000000100000000000000100000000100020000003a3000000100000000000000100000000700"
)

MAGIC = (1581511376).to_bytes(4, "big")


def vector(bitmap, magic=MAGIC):
    """One vector as it is in an index file."""
    body = magic + bitmap
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def index_file(*vectors):
    """An index file in memory, and where its vectors stand."""
    io, data, ranges = MemoryFileIO(), b"\x01", []
    for number, one in enumerate(vectors):
        ranges.append(DeletionVectorRange(data_file=f"f{number}", offset=len(data), length=len(one) - 8))
        data += one
    io.make_dirs("/t/index")
    io.write_new("/t/index/i", data)
    return io, ranges


def test_each_data_file_gets_its_positions():
    """Vectors of both kinds are found by their ranges."""
    sixty_four = vector(SOME_64, (1681511377).to_bytes(4, "little"))
    io, ranges = index_file(vector(SOME), sixty_four)
    found = read_deletion_vectors(io, "/t/index/i", ranges)
    assert {name: positions.tolist() for name, positions in found.items()} == {
        "f0": [0, 1, 5, 65535],
        "f1": [1, 2**33 + 7],
    }


def test_a_flipped_bit_is_noticed():
    """The checksum of each vector is checked: a wrong position would bring a deleted row back."""
    good = vector(SOME)
    io, ranges = index_file(good[:-6] + bytes([good[-6] ^ 1]) + good[-5:])
    with pytest.raises(CorruptionError, match="the vector of f0 is damaged"):
        read_deletion_vectors(io, "/t/index/i", ranges)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda io, ranges: io.replace("/t/index/i", b"\x02"), "does not begin with version 1"),
        (lambda io, ranges: io.replace("/t/index/i", b"\x01\x00"), "ends inside the vector of f0"),
        (lambda io, ranges: io.remove("/t/index/i"), "is missing"),
        (lambda io, ranges: io.replace("/t/index/i", b"\x01" + vector(b"x", b"none")), "unknown kind"),
    ],
)
def test_damage_is_named(change, why):
    """One sentence names the index file and what is wrong."""
    io, ranges = index_file(vector(SOME))
    change(io, ranges)
    with pytest.raises(CorruptionError, match=why):
        read_deletion_vectors(io, "/t/index/i", ranges)


def test_a_wrong_cardinality_is_a_corruption():
    """The manifest and the vector must agree on how many rows are deleted."""
    io, _ = index_file(vector(SOME))
    wrong = [DeletionVectorRange(data_file="f0", offset=1, length=1, cardinality=3)]
    with pytest.raises(CorruptionError, match="has 4 rows, not 3"):
        read_deletion_vectors(io, "/t/index/i", wrong)


def entry(name, *, index_type=DELETION_VECTORS, **other):
    """One line of an index manifest."""
    return IndexEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=1, index_type=index_type, file_name=name,
                      file_size=5, row_count=2, **other)  # fmt: skip


def test_index_manifests_come_back_whole():
    """Ranges, external paths and global indexes are carried along."""
    ranges = (DeletionVectorRange(data_file="a", offset=1, length=2, cardinality=3),
              DeletionVectorRange(data_file="b", offset=9, length=2))  # fmt: skip
    index = GlobalIndex(row_range_start=1, row_range_end=2, index_field_id=3, extra_field_ids=(4,), index_meta=b"m")
    entries = (
        entry("dv", ranges=ranges),
        entry("hash", index_type=HASH),
        entry("global", index_type="BTREE", external_path="s3://x", global_index=index),
        entry("empty", ranges=()),
    )
    io = MemoryFileIO()
    io.make_dirs("/m")
    name, size = write_index_manifest(io, "/m", entries, name="index-manifest-0")
    assert read_index_manifest(io, f"/m/{name}") == entries
    assert io.stat("/m/index-manifest-0").size_bytes == size


def test_only_deletion_vectors_are_taken_from_an_index_manifest():
    """Hash indexes of dynamic buckets are in the same file."""
    io = MemoryFileIO()
    io.make_dirs("/t/manifest")
    ranges = (DeletionVectorRange(data_file="a", offset=1, length=2, cardinality=3),
              DeletionVectorRange(data_file="b", offset=9, length=2))  # fmt: skip
    entries = [entry("dv", ranges=ranges), entry("hash", index_type=HASH)]
    write_index_manifest(io, "/t/manifest", entries, name="im")
    current = Snapshot(id=1, schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="u",
                       commit_identifier=1, commit_kind="APPEND", time_millis=0, index_manifest="im")  # fmt: skip
    (found,) = read_deletion_entries(io, "/t", current)
    assert found.file_name == "dv"
    assert [(item.data_file, item.cardinality) for item in found.ranges] == [("a", 3), ("b", None)]
    assert index_file_path("/t", found) == "/t/index/dv"
    assert index_file_path("/t", found, bucket_folder="/t/bucket-1") == "/t/bucket-1/dv"
    assert index_file_path("/t", entry("x", external_path="s3://x")) == "s3://x"


def test_index_manifests_of_java_are_read():
    """A dynamic-bucket table of Java has hash indexes, whose files are on disk."""
    paths = sorted(FIXTURES.glob("java_dynamic_bucket/table/manifest/index-manifest-*"))
    assert paths
    for path in paths:
        for found in read_index_manifest(LocalFileIO(), str(path)):
            assert (found.index_type, found.kind) == (HASH, FileKind.ADD)
            assert (path.parents[1] / "index" / found.file_name).stat().st_size == found.file_size


def test_a_missing_index_manifest_is_a_corruption():
    """Without it deleted rows would come back."""
    with pytest.raises(CorruptionError, match="/m/x is missing"):
        read_index_manifest(MemoryFileIO(), "/m/x")
