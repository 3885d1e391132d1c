"""Live files: adds without deletes, in waves that give the same answer."""

import json
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paimon_scene import data_file

from packstone.errors import CorruptionError
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.binary_row import encode_row
from packstone.tables.paimon.format.data_file import FileKind, ManifestEntry
from packstone.tables.paimon.format.data_type import parse_data_type
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest import UNREAD_STATS, write_manifests
from packstone.tables.paimon.format.manifest_list import write_manifest_list
from packstone.tables.paimon.format.snapshot import Snapshot, list_snapshot_ids, read_snapshot

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
PARTITION = (parse_data_type("INT"),)


def add(name, *, partition=0, bucket=0, kind=FileKind.ADD, level=0, total_buckets=2):
    """One entry."""
    return ManifestEntry(
        kind=kind,
        partition=encode_row((partition,), PARTITION),
        bucket=bucket,
        total_buckets=total_buckets,
        file=data_file(name, level=level),
    )


def delete(name, **other):
    """One entry that takes a file away."""
    return add(name, kind=FileKind.DELETE, **other)


def snapshot(io, base, delta):
    """A snapshot in memory whose manifests are lists of entries."""
    io.make_dirs("/t/manifest")
    names = (f"manifest-{number}" for number in count())
    lists = []
    for name, manifests in (("base", base), ("delta", delta)):
        metas = [
            meta
            for entries in manifests
            for meta in write_manifests(io, "/t/manifest", entries, names=names, partition_types=PARTITION)
        ]
        lists.append(write_manifest_list(io, "/t/manifest", metas, name=f"manifest-list-{name}")[0])
    return Snapshot(id=1, schema_id=0, base_manifest_list=lists[0], delta_manifest_list=lists[1], commit_user="u",
                    commit_identifier=1, commit_kind="APPEND", time_millis=0)  # fmt: skip


def live(base, delta=(), **options):
    """(partition, bucket) -> names of live files."""
    io = MemoryFileIO()
    current = snapshot(io, base, delta)
    return {
        (int.from_bytes(bucket.partition[12:16], "little"), bucket.bucket): [file.file_name for file in bucket.files]
        for bucket in read_live_files(io, "/t", current, **options)
    }


def test_deletes_cancel_adds_over_base_and_delta():
    """What a later manifest deletes is not live, whichever list it is in."""
    base = [[add("a"), add("b")], [delete("a"), add("c", bucket=1)]]
    assert live(base, [[delete("b"), add("d")]]) == {(0, 1): ["c"], (0, 0): ["d"]}


def test_an_upgrade_is_a_delete_and_an_add_of_one_name():
    """The level is part of a file's identity: after an upgrade the file is live once, on its new level."""
    io = MemoryFileIO()
    current = snapshot(io, [[add("a", level=0)]], [[delete("a", level=0), add("a", level=5)]])
    (bucket,) = read_live_files(io, "/t", current)
    assert [(file.file_name, file.level) for file in bucket.files] == [("a", 5)]


def test_the_same_name_in_two_buckets_is_two_files():
    """Partition and bucket are part of the identity."""
    base = [[add("a", bucket=0), add("a", bucket=1), add("a", partition=1)]]
    assert live(base, [[delete("a", bucket=1)]]) == {(0, 0): ["a"], (1, 0): ["a"]}


def test_a_file_may_come_back():
    """Added, deleted and added again (a rollback) is live."""
    assert live([[add("a")], [delete("a")], [add("a")]]) == {(0, 0): ["a"]}


@pytest.mark.parametrize("wave", [1, 10**6])
def test_a_dangling_delete_is_a_corruption(wave):
    """A file that is deleted but was never added means that a manifest is lost; in waves too."""
    with pytest.raises(CorruptionError, match="b is deleted but was never added"):
        live([[add("a")], [delete("b")]], wave_entries=wave)


@pytest.mark.parametrize("wave", [1, 10**6])
def test_a_double_add_is_a_corruption(wave):
    """The same file twice would double its rows."""
    with pytest.raises(CorruptionError, match="a is added twice"):
        live([[add("a")], [add("a")]], wave_entries=wave)


def test_only_wanted_buckets_come():
    """The predicate decides by partition and bucket, in one wave or many."""
    base = [[add(f"f{number}", partition=number % 3, bucket=number % 2) for number in range(12)]]
    wanted = {"wanted": lambda partition, bucket: partition[12:16] == bytes([1, 0, 0, 0]) and bucket == 1}
    assert live(base, **wanted) == live(base, wave_entries=2, **wanted) == {(1, 1): ["f1", "f7"]}


def test_manifests_that_cannot_hold_a_wanted_bucket_are_not_read():
    """A manifest that is dropped by its list's line may even be missing."""
    io = MemoryFileIO()
    current = snapshot(io, [[add("a", bucket=0)], [add("b", bucket=1)]], [])
    io.remove("/t/manifest/manifest-0")
    found = list(read_live_files(io, "/t", current, may_hold=lambda meta: meta.max_bucket == 1))
    assert [file.file_name for bucket in found for file in bucket.files] == ["b"]


def test_a_wave_reads_only_the_manifests_of_its_buckets():
    """With partitions apart in their manifests, each manifest is read twice: once for the index, once for its wave."""

    class Counting(MemoryFileIO):
        reads = 0

        def read_bytes(self, path):
            self.reads += "/manifest-" in path and "list" not in path
            return super().read_bytes(path)

    io = Counting()
    current = snapshot(io, [[add(f"{part}-{n}", partition=part) for n in range(5)] for part in range(8)], [])
    assert len(list(read_live_files(io, "/t", current, wave_entries=5))) == 8
    assert io.reads == 16


def test_lean_files_have_no_statistics():
    """Planning can do without them; everything else is there."""
    io = MemoryFileIO()
    current = snapshot(io, [[add("a")]], [])
    (full,) = read_live_files(io, "/t", current)
    (lean,) = read_live_files(io, "/t", current, lean=True)
    assert lean.files[0].value_stats is UNREAD_STATS
    assert (lean.files[0].min_key, lean.files[0].file_size) == (full.files[0].min_key, full.files[0].file_size)


@st.composite
def histories(draw):
    """Manifests of adds and deletes that are legal, and what is live at the end."""
    alive, manifests, number = set(), [], 0
    for _ in range(draw(st.integers(1, 6))):
        entries = []
        for _ in range(draw(st.integers(1, 8))):
            if alive and draw(st.booleans()):
                gone = draw(st.sampled_from(sorted(alive)))
                alive.discard(gone)
                entries.append(delete(gone[2], partition=gone[0], bucket=gone[1]))
            else:
                number += 1
                new = (draw(st.integers(0, 3)), draw(st.integers(0, 1)), f"f{number}")
                alive.add(new)
                entries.append(add(new[2], partition=new[0], bucket=new[1]))
        manifests.append(entries)
    return manifests, alive


@given(histories(), st.integers(1, 20), st.booleans())
def test_waves_of_any_size_give_the_same_files(history, wave, lean):
    """Model: a plain set; waves neither lose nor repeat a file, and a bucket comes in one piece."""
    manifests, alive = history
    found = live(manifests[:-1], manifests[-1:], wave_entries=wave, lean=lean)
    assert {(part, bucket, name) for (part, bucket), names in found.items() for name in names} == alive


@pytest.mark.parametrize("table", sorted(FIXTURES.glob("*/table")), ids=lambda path: path.parent.name)
def test_live_files_of_real_tables_exist_and_count_their_rows(table):
    """In every snapshot of a real table each live file is on disk with its size, and rows add up to the snapshot's."""
    io = LocalFileIO()
    for number in list_snapshot_ids(io, str(table)):
        current = read_snapshot(io, str(table), number)
        buckets = list(read_live_files(io, str(table), current))
        assert buckets == list(read_live_files(io, str(table), current, wave_entries=1))
        assert sum(file.row_count for bucket in buckets for file in bucket.files) == current.total_record_count
        for bucket in buckets:
            for file in bucket.files:
                (path,) = table.rglob(file.file_name)
                assert path.stat().st_size == file.file_size
    assert json.loads((table.parent / "expected.json").read_text())["rows"] is not None
