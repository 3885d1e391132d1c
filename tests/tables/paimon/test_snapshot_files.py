"""Snapshots and the two hints."""

import json
from pathlib import Path

import pytest

from packstone.errors import CorruptionError
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.snapshot import (
    dump_snapshot,
    find_latest_id,
    list_snapshot_ids,
    parse_snapshot,
    read_latest_snapshot,
    read_snapshot,
    snapshot_path,
    write_latest_hint,
)

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
CONTENT = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "b",
    "deltaManifestList": "d",
    "commitUser": "u",
    "commitIdentifier": 2**63 - 1,
    "commitKind": "APPEND",
    "timeMillis": 7,
    "totalRecordCount": 3,
    "deltaRecordCount": 3,
}


def table(*numbers):
    """A table in memory with these snapshots."""
    io = MemoryFileIO()
    io.make_dirs("/t/snapshot")
    for number in numbers:
        io.write_new(snapshot_path("/t", number), json.dumps(CONTENT | {"id": number}).encode())
    return io


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/table/snapshot/snapshot-*")), ids=lambda path: str(path)[-40:])
def test_real_snapshots_lose_nothing(path):
    """Reading and writing a snapshot of Java or pypaimon keeps every field and adds none; old nulls are left out."""
    data = path.read_bytes()
    expected = {name: value for name, value in json.loads(data).items() if value is not None}
    assert json.loads(dump_snapshot(parse_snapshot(data, path=str(path)))) == expected


def test_every_known_field_and_unknown_ones_are_kept():
    """Fields of a newer writer travel along; nulls are left out."""
    more = {
        "uuid": "x",
        "baseManifestListSize": 5,
        "deltaManifestListSize": 6,
        "changelogManifestList": "c",
        "changelogManifestListSize": 7,
        "indexManifest": "i",
        "writerVersion": "w",
        "changelogRecordCount": 1,
        "watermark": -5,
        "statistics": "s",
        "properties": {"k": "v"},
        "nextRowId": 9,
        "operation": "WRITE",
        "fromTheFuture": {"deep": [1, None]},
    }
    content = CONTENT | more
    assert json.loads(dump_snapshot(parse_snapshot(json.dumps(content).encode(), path="p"))) == content
    with_nulls = json.dumps(CONTENT | {"watermark": None, "properties": None}).encode()
    assert json.loads(dump_snapshot(parse_snapshot(with_nulls, path="p"))) == CONTENT


def test_a_word_of_a_newer_writer_is_not_an_error():
    """An unknown commit kind is carried as it is."""
    snapshot = parse_snapshot(json.dumps(CONTENT | {"commitKind": "VACUUM"}).encode(), path="p")
    assert snapshot.commit_kind == "VACUUM"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "p is not a Paimon snapshot"),
        (b"{}", "it has no id"),
        (b"[]", "p is not a Paimon snapshot"),
        (json.dumps(CONTENT | {"id": "1"}).encode(), "its id is '1'"),
        (json.dumps(CONTENT | {"commitUser": 5}).encode(), "its commitUser is 5"),
        (json.dumps(CONTENT | {"baseManifestList": None}).encode(), "it has no baseManifestList"),
    ],
)
def test_a_damaged_snapshot_is_named(data, why):
    """One sentence names the file and what is wrong."""
    with pytest.raises(CorruptionError, match=why):
        parse_snapshot(data, path="p")


def test_a_snapshot_must_carry_the_number_of_its_file():
    """A copied file is not a snapshot of that number."""
    io = table(1)
    io.write_new(snapshot_path("/t", 2), io.read_bytes(snapshot_path("/t", 1)))
    with pytest.raises(CorruptionError, match="says that it is snapshot 1"):
        read_snapshot(io, "/t", 2)


def test_without_a_hint_the_folder_is_listed():
    """Numbers are compared as numbers; temporary files do not count."""
    io = table(8, 9, 10)
    io.write_new("/t/snapshot/.snapshot-11.tmp", b"")
    assert list_snapshot_ids(io, "/t") == (8, 9, 10)
    assert find_latest_id(io, "/t") == 10


@pytest.mark.parametrize("hint", [b"2", b"1", b"99", b"", b"\xff?", b"two"])
def test_a_hint_is_only_a_hint(hint):
    """Whatever LATEST says, right, old, of a vanished snapshot or torn, the newest snapshot is found."""
    io = table(1, 2)
    io.write_new("/t/snapshot/LATEST", hint)
    assert read_latest_snapshot(io, "/t").id == 2


def test_a_right_hint_saves_the_listing():
    """With a right hint the folder is not listed: on an object store that is the dear part."""

    class Unlistable(MemoryFileIO):
        def list_dir(self, path):
            raise AssertionError

    io = Unlistable()
    io.make_dirs("/t/snapshot")
    io.write_new(snapshot_path("/t", 3), json.dumps(CONTENT | {"id": 3}).encode())
    write_latest_hint(io, "/t", 3)
    assert read_latest_snapshot(io, "/t").id == 3


def test_an_empty_table_has_no_snapshot():
    """Nothing committed yet is not an error."""
    assert read_latest_snapshot(MemoryFileIO(), "/t") is None


def test_a_snapshot_that_expires_while_we_look_is_looked_for_again():
    """Another process commits and expires between two calls: the next newest is taken."""

    class Expiring(MemoryFileIO):
        def read_bytes(self, path):
            if path == snapshot_path("/t", 1):
                self.remove(path)
                self.write_new(snapshot_path("/t", 2), json.dumps(CONTENT | {"id": 2}).encode())
                raise FileNotFoundError(path)
            return super().read_bytes(path)

    io = Expiring()
    io.make_dirs("/t/snapshot")
    io.write_new(snapshot_path("/t", 1), json.dumps(CONTENT).encode())
    assert read_latest_snapshot(io, "/t").id == 2
