"""Cleaning segment tables: what goes, what stays, and that nothing live is ever hit."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from segment_lake import DAY_MS, SegmentLake, record_files

from packstone.errors import ConflictError, CorruptionError
from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.storage.fileio import incomplete_path
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.clean import plan_clean, remove_expired
from packstone.tables.segments.format.edits import SegmentFacts, finish_load
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
NO_WAIT = {"SEGMENT_RETENTION_DAYS": 0, "MAX_QUERY_MINUTES": 1}
GONE = ProcessIdentity(
    **{**{f: getattr(ProcessIdentity.mine(), f) for f in ProcessIdentity.__slots__}, "pid": 2**22 + 1}
)
ELSEWHERE = ProcessIdentity(host="elsewhere", boot_id="b", pid=1, started_ticks=1)


@pytest.fixture
def lake(tmp_path):
    """A table with four loads of two files."""
    made = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")
    for seed in range(4):
        made.load([{"id": at, "v": f"{seed}-{at}"} for at in range(20)], files=2)
    return made


def compact(lake):
    """Merge all four."""
    return Table(lake.table, io=IO).compact(SegmentOptions())


def clean(lake, *, dry_run=False):
    """Clean now."""
    return Table(lake.table, io=IO).clean(dry_run=dry_run).to_json(dry_run=dry_run)


def clean_later(lake, *, days, dry_run=False):
    """Clean as if this many days had gone by."""
    moment = now_ms() + int(days * DAY_MS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("packstone.tables.segments.table.now_ms", lambda: moment)
        return Table(lake.table, io=IO).clean(dry_run=dry_run)


def all_files(lake):
    """Every file of the table with its content."""
    return {str(path): path.read_bytes() for path in lake.path.rglob("*") if path.is_file()}


def dead_load(lake, *, process=GONE):
    """A load that wrote a file and died."""
    attempt, segment = lake.begin(process=process)
    path = f"Fact/Segment_{segment}/part-00000-00000-{attempt}-0.parquet"
    record_files(IO, lake.table, attempt, path)
    (lake.path / path).parent.mkdir(parents=True)
    (lake.path / path).write_bytes(b"x" * 1000)
    return attempt, segment, path


def test_a_fresh_table_has_nothing_to_clean(lake):
    """Live segments stay, and so do versions within their retention."""
    before = all_files(lake)
    assert clean(lake)["status"] == "nothing-to-do"
    assert all_files(lake) == before


def test_retired_segments_go_after_their_retention(lake):
    """Six days after the merge all stays, eight days after it the inputs go and the history names them."""
    compact(lake)
    rows = lake.count()
    inputs = [file for file in lake.data_on_disk() if "Segment_0.1" not in file]
    assert not clean_later(lake, days=6.9).segments
    assert set(inputs) < set(lake.data_on_disk())
    plan = clean_later(lake, days=7.1)
    assert [str(one.id) for one in plan.segments] == ["0", "1", "2", "3"]
    assert plan.bytes > 0
    assert lake.data_on_disk() == [str(Path(file).relative_to(lake.path)) for file in lake.files()]
    assert lake.count() == rows
    assert lake.problems() == []
    assert lake.retired() == {}
    (name,) = lake.status()["history_files"]
    history = json.loads((lake.path / "Metadata/history" / name).read_bytes())["entries"]
    assert history["load"] == [0, 1, 2, 3]
    assert sorted(path.name for path in (lake.path / "Fact").iterdir()) == ["Segment_0.1"]
    again = clean_later(lake, days=7.2)
    assert not again.segments


def test_retention_of_no_days_still_lets_queries_end(lake):
    """SEGMENT_RETENTION_DAYS 0 keeps what a query of MAX_QUERY_MINUTES may read."""
    lake.alter(SEGMENT_RETENTION_DAYS="0")
    compact(lake)
    assert not clean_later(lake, days=0.9 / 24).segments
    assert len(clean_later(lake, days=1.1 / 24).segments) == 4


def test_old_versions_go_and_those_that_time_travel_needs_stay(lake):
    """What was the newest at the cutoff stays readable, with all its segments."""
    compact(lake)
    versions = lake.versions()
    plan = clean_later(lake, days=7.1)
    assert list(plan.versions) == versions[:-1]
    # Two more: one that marks the segments before a file goes, one that moves them to the history.
    assert lake.versions() == [versions[-1], versions[-1] + 1, versions[-1] + 2]
    lake.load([{"id": 1, "v": "new"}])
    lake.delete("0.1")
    kept = lake.versions()
    plan = clean_later(lake, days=3)
    assert not plan.versions
    assert sum(lake.count(version=kept[-2]).values()) == 81


def test_a_dry_run_changes_nothing_and_tells_the_same(lake, monkeypatch):
    """Byte for byte, and the list and the sizes are those of the real run."""
    lake.alter(**{name: str(value) for name, value in NO_WAIT.items()})
    compact(lake)
    dead_load(lake)
    later_ms = now_ms() + 61_000
    monkeypatch.setattr("packstone.tables.segments.table.now_ms", lambda: later_ms)
    before = all_files(lake)
    dry = clean(lake, dry_run=True)
    assert all_files(lake) == before
    real = clean(lake)
    assert dry["status"] == "planned"
    assert real["status"] == "cleaned"
    assert {k: v for k, v in dry.items() if k != "status"} == {k: v for k, v in real.items() if k != "status"}
    assert [one["id"] for one in real["segments"]] == ["0", "1", "2", "3"]


def test_a_dead_load_is_given_up_and_its_file_goes_to_the_trash(lake):
    """Its entry leaves the status, its file is moved, and after the trash's retention it is gone."""
    attempt, segment, path = dead_load(lake)
    report = clean(lake)
    assert [one["attempt"] for one in report["attempts"]] == [attempt]
    assert report["moved_to_trash_bytes"] == 1000
    assert report["bytes"] == 0
    assert not (lake.path / path).exists()
    (kept,) = (lake.path / "Metadata/trash").rglob("*.parquet")
    assert kept.read_bytes() == b"x" * 1000
    assert lake.retired()[str(segment)]["status"] == "marked-for-delete"
    assert all(entry["status"] == "success" for entry in lake.status()["entries"])
    assert not list(lake.runs().parent.glob("*"))
    assert clean_later(lake, days=7.1).trash[0].size_bytes == 1000
    assert not kept.exists()


def test_without_trash_a_dead_loads_file_goes_at_once(lake):
    """TRASH_RETENTION_DAYS 0 frees the space now."""
    lake.alter(TRASH_RETENTION_DAYS="0")
    _, _, path = dead_load(lake)
    assert clean(lake)["bytes"] == 1000
    assert not (lake.path / path).exists()
    assert not (lake.path / "Metadata/trash").exists()


def test_a_load_at_work_is_left_alone(lake):
    """Of this process, and of another host within its lease; after the lease that one is dead."""
    attempt, _ = lake.begin()
    _, _, path = dead_load(lake, process=ELSEWHERE)
    report = clean(lake)
    assert not report["attempts"]
    assert len(report["left_alone"]) == 2
    assert not report["unknown_count"]
    (remote,) = [run for run in lake.open_runs() if run != attempt]
    old = time.time() - LEASE_SECONDS - 10
    os.utime(lake.runs() / remote / "heartbeat", (old, old))
    assert [one["attempt"] for one in clean(lake)["attempts"]] == [remote]
    assert not (lake.path / path).exists()


def test_a_load_that_wakes_up_after_it_was_cleaned_cannot_commit(lake):
    """Its registration is gone, so its commit is a conflict and nothing half removed becomes visible."""
    attempt, _, _ = dead_load(lake)
    clean(lake)
    facts = SegmentFacts(segment_file="x.json", rows=1, files=1, data_bytes=1, index_bytes=1)
    with pytest.raises(ConflictError, match="abandoned it as dead"):
        lake._commit(lambda one: finish_load(one, facts, attempt=attempt, now_ms=now_ms()), "load")


def test_of_an_attempt_that_committed_and_died_only_lost_files_go(lake):
    """Killed between its commit and the end of its folder: the segment's files are live, a lost try's are not."""
    entry = lake.live()["2"]
    attempt = entry["attempt"]
    lost = f"Fact/Segment_2/part-00009-00000-{attempt}-77.parquet"
    (lake.path / lost).write_bytes(b"lost")
    made = [str(Path(file).relative_to(lake.path)) for file in lake.files("2")]
    own = [f"Metadata/segments/{entry['segment_file']}", f"Metadata/index/2_{attempt}.arrow"]
    folder = lake.runs() / attempt
    folder.mkdir(parents=True)
    record_files(IO, lake.table, attempt, *made, *own, lost)
    old = time.time() - LEASE_SECONDS - 10
    os.utime(folder, (old, old))
    report = clean(lake)
    assert report["moved_to_trash_files"] == 1
    assert not (lake.path / lost).exists()
    assert lake.problems() == []
    assert not folder.exists()


def test_records_cannot_name_what_is_not_the_runs(lake):
    """A garbled record that names a live file of another segment, or something outside, removes nothing."""
    outside = lake.path.parent / "mine.parquet"
    outside.write_bytes(b"mine")
    attempt, _ = lake.begin(process=GONE)
    live = str(Path(lake.files("1")[0]).relative_to(lake.path))
    record_files(IO, lake.table, attempt, live, f"../mine.parquet?{attempt}", "Fact")
    clean(lake)
    assert lake.problems() == []
    assert outside.exists()


def test_a_copy_without_its_runs_loses_nothing(lake):
    """Live segments stay; a load that was running when it was copied is abandoned, its file reported, not removed."""
    _, _, path = dead_load(lake)
    copy = SegmentLake(lake.path.parent / "copy")
    shutil.copytree(lake.path, copy.path)
    plan = clean_later(copy, days=0.1)
    assert [one.is_registered for one in plan.attempts] == [True]
    assert copy.count() == lake.count()
    assert copy.problems() == []
    assert (copy.path / path).exists()
    assert clean(copy)["unknown_files"] == [path]


@pytest.mark.parametrize("which", ["latest", "kept"])
@pytest.mark.parametrize("damage", ["torn", "empty"])
def test_an_unreadable_status_stops_everything(lake, which, damage):
    """Nothing goes, whether the newest version is damaged or an older one that time travel may need."""
    lake.alter(**{name: str(value) for name, value in NO_WAIT.items()})
    compact(lake)
    dead_load(lake)
    lake.alter(SEGMENT_RETENTION_DAYS="7")
    number = lake.versions()[-1 if which == "latest" else -3]
    path = lake.path / f"Metadata/status/{number:020d}.json"
    path.write_bytes(path.read_bytes()[:-20] if damage == "torn" else b"")
    before = all_files(lake)
    with pytest.raises(CorruptionError, match="damaged"):
        clean(lake)
    assert all_files(lake) == before


def test_unknown_files_are_reported_and_stay(lake):
    """In a segment's folder, in a folder of its own, and beside the folders."""
    names = ["Fact/Segment_1/mine.parquet", "Fact/other/a.txt", "Fact/b.txt"]
    for name in names:
        (lake.path / name).parent.mkdir(exist_ok=True)
        (lake.path / name).write_bytes(b"12345")
    report = clean(lake)
    assert sorted(report["unknown_files"]) == sorted(names)
    assert report["unknown_bytes"] == 15
    assert all((lake.path / name).exists() for name in names)


def test_loads_at_work_are_no_unknown_files(lake):
    """Nor those that begin and commit while ``Fact/`` is looked through."""

    class Busy(LocalFileIO):
        """A load comes in while the folders of data are listed."""

        def list_dir(self, path):
            found = list(super().list_dir(path))
            if path.endswith("/Fact/Segment_1") and not done:
                done.append(lake.load([{"id": 1, "v": "new"}]))
            return iter(found)

    done = []
    (lake.path / "Fact/Segment_4").mkdir()  # where it will write
    plan = plan_clean(Busy(), lake.table, now_ms=now_ms())
    assert done == ["4"]
    assert plan.unknown.paths == []


def test_a_damaged_segment_file_keeps_its_segment(lake):
    """Its data files are not known, so none is removed; those of the others are."""
    compact(lake)
    name = lake.retired()["1"]["segment_file"]
    (lake.path / "Metadata/segments" / name).write_bytes(b"{")
    plan = clean_later(lake, days=8)
    assert [str(one.id) for one in plan.segments] == ["0", "2", "3"]
    assert "Segment 1 is left alone" in plan.left_alone[0]
    assert "1" in lake.retired()


def test_what_killed_commits_left_goes_after_a_day(lake):
    """Lists that no version names and halves of files; young ones stay, a commit may be about to name them."""
    names = ["Metadata/retired/0123456789abcdef-0.json", "Metadata/history/0123456789abcdef-0.json"]
    names += ["Metadata/entries/0123456789abcdef-0.json", incomplete_path("Metadata/status/1.json")]
    names += ["Metadata/retired/notes.txt"]
    for name in names:
        (lake.path / name).write_bytes(b"{}")
    assert not clean_later(lake, days=0.9).metadata
    assert sorted(file.path for file in clean_later(lake, days=1.1).metadata) == sorted(names[:4])
    assert (lake.path / names[4]).exists()
    assert lake.problems() == []


def test_a_clean_that_is_killed_is_finished_by_the_next(lake):
    """Files may be half removed: the retired list is the record of what is to do."""
    compact(lake)
    names = lake.retired()["2"]["segment_file"]
    content = json.loads((lake.path / "Metadata/segments" / names).read_bytes())
    (lake.path / content["files"][0]["path"]).unlink()
    shutil.rmtree(lake.path / "Fact/Segment_3")
    (lake.path / "Metadata/segments" / lake.retired()["3"]["segment_file"]).unlink()
    assert len(clean_later(lake, days=8).segments) == 4
    assert lake.retired() == {}
    assert sorted(path.name for path in (lake.path / "Fact").iterdir()) == ["Segment_0.1"]


def test_two_cleans_with_one_plan_do_it_once(lake):
    """The second one finds all gone and commits nothing."""
    compact(lake)
    first = plan_clean(IO, lake.table, now_ms=now_ms() + 8 * DAY_MS)
    second = plan_clean(IO, lake.table, now_ms=now_ms() + 8 * DAY_MS)
    remove_expired(IO, first, clock=system_clock())
    versions = lake.versions()
    remove_expired(IO, second, clock=system_clock())
    assert lake.versions() == versions
    assert lake.problems() == []
