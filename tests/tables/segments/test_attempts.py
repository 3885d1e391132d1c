"""The runs of a table: who is dead, which recorded paths are believed, what is forgotten; and names in the layout."""

from dataclasses import replace

import pytest
from segment_lake import open_run, record_files

from packstone.errors import CorruptionError, RefusedError
from packstone.model.segment import SegmentId
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.format import layout
from packstone.tables.segments.leftovers import (
    close_attempt,
    is_dead,
    list_attempts,
    read_attempt,
    read_created,
    table_runs,
)

IO = LocalFileIO()
LEASE_MS = LEASE_SECONDS * 1000


def test_a_run_reads_back_and_is_forgotten():
    """Its record and all paths that it wrote down, in order and once each."""
    io = MemoryFileIO()
    assert list_attempts(io, "/l/t") == ()
    open_run(io, "/l/t", run="a", command="compact")
    record_files(io, "/l/t", "a", "Fact/Segment_0.1/x.parquet", "Metadata/index/0.1_a.arrow")
    record_files(io, "/l/t", "a", "Fact/Segment_0.1/x.parquet", "Fact/Segment_0.1/y.parquet", label="2")
    assert str(read_attempt(io, "/l/t", "a")) == f"compact a ({ProcessIdentity.mine()})"
    assert read_created(io, "/l/t", "a") == (
        "Fact/Segment_0.1/x.parquet",
        "Metadata/index/0.1_a.arrow",
        "Fact/Segment_0.1/y.parquet",
    )
    with pytest.raises(FileExistsError):
        record_files(io, "/l/t", "a", label="2")
    assert list_attempts(io, "/l/t") == ("a",)
    close_attempt(io, "/l/t", "a")
    assert list_attempts(io, "/l/t") == ()
    assert read_created(io, "/l/t", "a") == ()


def test_what_a_run_published_is_not_forgotten_with_its_files():
    """`verify` and `restore` read it weeks later; a run that has ended and left no file is not matter for clean."""
    io = MemoryFileIO()
    folders = table_runs(io, "/l/t")
    open_run(io, "/l/t", run="a")
    record_files(io, "/l/t", "a", "Fact/Segment_0/x")
    io.replace(f"{folders.folder('a')}/units-0001.json", b"{}")
    folders.end("a")
    assert list_attempts(io, "/l/t") == ("a",)
    close_attempt(io, "/l/t", "a")
    assert list_attempts(io, "/l/t") == ()
    assert (folders.has_waves("a"), folders.is_ended("a"), read_created(io, "/l/t", "a")) == (True, True, ())
    assert folders.read_info("a").fenced


def test_recorded_paths_outside_the_table_are_not_believed():
    """A record that names a file where runs create none is damaged, and nothing that it names is removed."""
    bad = ["/../x", "Fact", "other/x", "Fact//x", "", "Fact/x", "Metadata/x", "Metadata/status/x", "Metadata/runs/x"]
    bad += ["/etc/passwd", "Fact/../../x", "Fact/./x", "Metadata/../x", "Fact/Segment_0/../x"]
    for path in bad:
        io = MemoryFileIO()
        open_run(io, "/l/t", run="a")
        record_files(io, "/l/t", "a", "Fact/Segment_0/x", label="0")
        assert read_created(io, "/l/t", "a") == ("Fact/Segment_0/x",)
        record_files(io, "/l/t", "a", path, "Fact/Segment_0/x")
        with pytest.raises(CorruptionError, match=r"created-1\.json is damaged"):
            read_created(io, "/l/t", "a")


def test_recorded_paths_of_another_table_are_not_believed():
    """The folder of runs may have come with a table that was moved, or copied."""
    io = MemoryFileIO()
    open_run(io, "/l/t", run="a")
    folder = table_runs(io, "/l/t").folder("a")
    content = b'{"format_version":1,"paths":["/l/tt/Fact/Segment_0/x"]}'
    io.replace(f"{folder}/created-1.json", content)
    with pytest.raises(CorruptionError, match="is not in the table"):
        read_created(io, "/l/t", "a")


def test_a_process_of_this_host_is_looked_at(tmp_path, children):
    """Alive while it runs, whatever its heartbeat; dead when it is gone, at once."""
    table = str(tmp_path / "t")
    open_run(IO, table, run="a")
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=10**15)
    gone = ProcessIdentity(**children.run("identity")["value"])
    open_run(IO, table, run="b", process=gone)
    assert is_dead(IO, table, "b", started_ms=0, now_ms=0)


def test_a_process_of_another_host_has_a_lease(tmp_path):
    """Its heartbeat counts; without one it has ended."""
    table = str(tmp_path / "t")
    open_run(IO, table, run="a", process=replace(ProcessIdentity.mine(), host="elsewhere"))
    heartbeat = table_runs(IO, table).heartbeat("a")
    now_ms = IO.stat(heartbeat).mtime_ns // 1_000_000
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS)
    assert is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS + 60_000)
    assert is_dead(IO, table, "a", started_ms=0, now_ms=now_ms, take_over=True)
    IO.replace(heartbeat, b"")
    assert not is_dead(IO, table, "a", started_ms=0, now_ms=now_ms + LEASE_MS)
    IO.remove(heartbeat)
    assert is_dead(IO, table, "a", started_ms=now_ms, now_ms=now_ms)


@pytest.mark.parametrize("content", [None, b"{"])
def test_a_registration_of_a_run_that_does_not_say_who_it_is_has_a_lease(content):
    """Without a folder, as in a copy of a table, or with a torn record; one of a newer packstone is refused."""
    io = MemoryFileIO()
    if content is not None:
        open_run(io, "/l/t", run="a")
        io.replace(f"{table_runs(io, '/l/t').folder('a')}/run.json", content)
    start = 10**13  # after any heartbeat
    assert not is_dead(io, "/l/t", "a", started_ms=start, now_ms=start + LEASE_MS)
    assert is_dead(io, "/l/t", "a", started_ms=start, now_ms=start + 1 + LEASE_MS)
    open_run(io, "/l/t", run="newer")
    io.replace(f"{table_runs(io, '/l/t').folder('newer')}/run.json", b'{"format_version":99}')
    with pytest.raises(RefusedError, match="newer packstone"):
        is_dead(io, "/l/t", "newer", started_ms=1000, now_ms=10**15)


def test_names():
    """Every file's name shows what it is, and a version's name sorts as its number."""
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
