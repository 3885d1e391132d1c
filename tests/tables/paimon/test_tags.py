"""What protects files: tags, branches, consumers, changelogs."""

import json

import pytest

from packstone.errors import CorruptionError
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.references import (
    list_branches,
    list_changelogs,
    list_consumers,
    list_referenced_snapshots,
    list_tags,
)


def snapshot(number, **more):
    """The JSON of a snapshot."""
    content = {"version": 3, "id": number, "schemaId": 0, "baseManifestList": f"b{number}", "deltaManifestList": "d",
               "commitUser": "u", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 0} | more  # fmt: skip
    return json.dumps(content).encode()


def table(files):
    """A table in memory with these files."""
    io = MemoryFileIO()
    for path, data in files.items():
        io.make_dirs(f"/t/{path}".rpartition("/")[0])
        io.write_new(f"/t/{path}", data)
    return io


def test_a_table_without_any_has_none():
    """Missing folders are no error."""
    io = MemoryFileIO()
    assert list_tags(io, "/t") == list_branches(io, "/t") == list_consumers(io, "/t") == list_changelogs(io, "/t") == ()


def test_tags_are_snapshots_with_a_name():
    """A tag is read with what only tags have; success files and temporary ones are none."""
    io = table(
        {
            "tag/tag-b": snapshot(2, tagCreateTime=[2024, 1, 1, 0, 0], tagTimeRetained="PT1H"),
            "tag/tag-a-1": snapshot(1),
            "tag/tag-success-file/x": b"",
            "tag/.tag-c.tmp": b"",
        }
    )
    assert [(tag.name, tag.snapshot.id) for tag in list_tags(io, "/t")] == [("a-1", 1), ("b", 2)]
    assert json.loads(list_tags(io, "/t")[1].snapshot.unknown)["tagTimeRetained"] == "PT1H"


def test_consumers_tell_their_next_snapshot():
    """The position of a streaming reader; a torn file is not a reason to let its snapshots go."""
    io = table({"consumer/consumer-c1": b'{"nextSnapshot": 7}'})
    assert [(one.name, one.next_snapshot) for one in list_consumers(io, "/t")] == [("c1", 7)]
    with pytest.raises(CorruptionError, match="/t/consumer/consumer-x is not a Paimon consumer"):
        list_consumers(table({"consumer/consumer-x": b"{}"}), "/t")


def test_changelogs_come_by_number():
    """Hints in the folder are no changelogs."""
    io = table(
        {"changelog/changelog-10": snapshot(10), "changelog/changelog-9": snapshot(9), "changelog/LATEST": b"10"}
    )
    assert [one.id for one in list_changelogs(io, "/t")] == [9, 10]


def test_everything_outside_the_main_branch_protects():
    """Tags of the table; snapshots, tags and changelogs of each branch; not the table's own snapshots."""
    io = table(
        {
            "snapshot/snapshot-1": snapshot(1),
            "tag/tag-t": snapshot(2),
            "branch/branch-b1/snapshot/snapshot-3": snapshot(3),
            "branch/branch-b1/tag/tag-x": snapshot(4),
            "branch/branch-b1/changelog/changelog-5": snapshot(5),
            "branch/branch-b2/schema/schema-0": b"{}",
        }
    )
    assert list_branches(io, "/t") == ("b1", "b2")
    assert sorted(one.id for one in list_referenced_snapshots(io, "/t")) == [2, 3, 4, 5]
