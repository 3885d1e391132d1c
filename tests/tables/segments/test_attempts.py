"""Attempts at work: what they write down, who is dead, which recorded paths are believed; and names in the layout."""

from dataclasses import replace

import pytest

from packstone.errors import CorruptionError, RefusedError
from packstone.model.segment import SegmentId
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments import layout
from packstone.tables.segments.attempts import (
    AttemptKind,
    AttemptRecord,
    close_attempt,
    is_dead,
    list_attempts,
    open_attempt,
    read_attempt,
    read_created,
    record_created,
)

IO = LocalFileIO()
LEASE_MS = LEASE_SECONDS * 1000


def record(attempt="a", process=None, started_ms=0):
    """A compaction of two segments by this process, unless said."""
    return AttemptRecord(
        attempt=attempt,
        kind=AttemptKind.COMPACTION,
        process=process or ProcessIdentity.mine(),
        started_ms=started_ms,
        inputs=(SegmentId(0), SegmentId(1, 2)),
    )


def test_an_attempt_reads_back_and_is_forgotten():
    """Its record and all paths that it wrote down, in order and once each."""
    io = MemoryFileIO()
    assert list_attempts(io, "/t") == ()
    open_attempt(io, "/t", record())
    record_created(io, "/t", "a", paths=["Fact/Segment_0.1/x.parquet", "Metadata/index/0.1_a.arrow"], label="1")
    record_created(io, "/t", "a", paths=["Fact/Segment_0.1/x.parquet", "Fact/Segment_0.1/y.parquet"], label="2")
    assert read_attempt(io, "/t", "a") == record()
    assert read_created(io, "/t", "a") == (
        "Fact/Segment_0.1/x.parquet",
        "Metadata/index/0.1_a.arrow",
        "Fact/Segment_0.1/y.parquet",
    )
    with pytest.raises(FileExistsError):
        record_created(io, "/t", "a", paths=[], label="2")
    assert list_attempts(io, "/t") == ("a",)
    close_attempt(io, "/t", "a")
    assert list_attempts(io, "/t") == ()
    assert read_created(io, "/t", "a") == ()


def test_recorded_paths_outside_the_table_are_not_believed():
    """A record that names a file where attempts create none is damaged, and nothing that it names is removed."""
    bad = ["/etc/passwd", "Fact/../../x", "Fact", "other/x", "Fact//x", "Fact/./x", "", "Metadata/../x", "Fact/x"]
    for path in bad:
        io = MemoryFileIO()
        open_attempt(io, "/t", record())
        record_created(io, "/t", "a", paths=["Fact/Segment_0/x"], label="0")
        assert read_created(io, "/t", "a") == ("Fact/Segment_0/x",)
        record_created(io, "/t", "a", paths=[path, "Fact/Segment_0/x"], label="1")
        with pytest.raises(CorruptionError, match=r"created-1\.json is damaged"):
            read_created(io, "/t", "a")


def test_a_process_of_this_host_is_looked_at(tmp_path, children):
    """Alive while it runs, whatever its heartbeat; dead when it is gone, at once."""
    table = str(tmp_path)
    open_attempt(IO, table, record())
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=10**15)
    gone = ProcessIdentity(**children.run("identity")["value"])
    open_attempt(IO, table, record("b", process=gone))
    assert is_dead(IO, table, "b", started_ms=0, now_ms=0)


def test_a_process_of_another_host_has_a_lease(tmp_path):
    """Its heartbeat counts; without one, its start."""
    table = str(tmp_path)
    other = replace(ProcessIdentity.mine(), host="elsewhere")
    open_attempt(IO, table, record(process=other))
    now_ms = IO.stat(layout.heartbeat_path(table, "a")).mtime_ns // 1_000_000
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS)
    assert is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS + 60_000)
    IO.replace(layout.heartbeat_path(table, "a"), b"")
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS)
    IO.remove(layout.heartbeat_path(table, "a"))
    assert is_dead(IO, table, "a", started_ms=0, now_ms=LEASE_MS + 1)


@pytest.mark.parametrize("content", [None, b"{"])
def test_an_attempt_that_does_not_say_who_it_is_has_a_lease_from_its_start(content):
    """No record, or a torn one; one of a newer packstone is refused, for nobody here knows what it says."""
    io = MemoryFileIO()
    if content is not None:
        open_attempt(io, "/t", record())
        io.replace(layout.attempt_path("/t", "a"), content)
    assert not is_dead(io, "/t", "a", started_ms=1000, now_ms=1000 + LEASE_MS)
    assert is_dead(io, "/t", "a", started_ms=1000, now_ms=1001 + LEASE_MS)
    open_attempt(io, "/t", record("newer"))
    io.replace(layout.attempt_path("/t", "newer"), b'{"format_version":99}')
    with pytest.raises(RefusedError, match="newer packstone"):
        is_dead(io, "/t", "newer", started_ms=1000, now_ms=10**15)


def test_names():
    """Every file's name tells what it is, and a version's name sorts as its number."""
    assert layout.status_path("/t", 7) == "/t/Metadata/status/00000000000000000007.json"
    assert layout.parse_status_name("00000000000000000007.json") == 7
    assert layout.parse_status_name("7.json") is None
    assert layout.floor_path("/t", 7) == "/t/Metadata/floor/00000000000000000007"
    assert layout.parse_floor_name("00000000000000000007") == 7
    assert layout.parse_floor_name(".new-x") is None
    assert (
        layout.segment_file_path("/t", layout.segment_file_name(SegmentId(0, 1), "a"))
        == "/t/Metadata/segments/0.1_a.json"
    )
    assert layout.index_file_path("/t", layout.index_file_name(SegmentId(3), "a")) == "/t/Metadata/index/3_a.arrow"
    assert layout.bad_records_folder("/t", SegmentId(3), "a") == "/t/Metadata/badrecords/3_a"
    assert layout.trash_folder("/t") == "/t/Metadata/trash"
    name = layout.data_file_name(task=1, number=2, attempt="a", attempt_try=0)
    assert layout.data_file_path("/t", f"{layout.segment_folder(SegmentId(0, 1))}/{name}") == (
        "/t/Fact/Segment_0.1/part-00001-00002-a-0.parquet"
    )
