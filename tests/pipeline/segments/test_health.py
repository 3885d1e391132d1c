"""What `health` reports of a segment table."""

import pytest
from segment_lake import SegmentLake

from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.health import observe_segments
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()


@pytest.fixture
def lake(tmp_path):
    """An empty table with a sort column."""
    return SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")


def health(lake, *, later_ms=0):
    """As JSON, now or later."""
    return observe_segments(IO, lake.table, now_ms=now_ms() + later_ms).to_json()


def load(lake, count, **how):
    """N loads of ten rows."""
    for _ in range(count):
        lake.load([{"id": at, "v": "x"} for at in range(10)], **how)


def test_an_empty_table_is_well(lake):
    """Nothing to merge, nothing to warn of."""
    found = health(lake)
    assert (found["segments"], found["score"], found["hazards"]) == (0, 100, [])


def test_many_small_loads_are_reported(lake):
    """Segments, their sizes and levels, and what each strategy would do about them."""
    load(lake, 5, files=2)
    found = health(lake)
    assert (found["segments"], found["files"], found["rows"]) == (5, 10, 50)
    assert (found["small_pct"], found["score"], found["ideal_segments"]) == (100, 20, 1)
    assert found["histogram"]["< 1 MB"] == 5
    assert found["planned_merges"] == {"minor": 1, "major": 1}
    assert found["levels"] == {"L0": 5}
    Table(lake.table, io=IO).compact(SegmentOptions(strategy="major"))
    found = health(lake)
    assert (found["segments"], found["score"], found["levels"]) == (1, 100, {"L1": 1})
    assert found["statuses"] == {"compacted": 5, "success": 1}
    assert found["retired_bytes"] > 0
    assert found["removable_bytes"] == 0


def test_unsorted_segments_are_reported(lake):
    """Of NO_SORT loads, and of those of an older order."""
    load(lake, 2, scope="NO_SORT")
    load(lake, 1)
    assert health(lake)["unsorted_segments"] == 2
    lake.alter(SORT_COLUMNS="v")
    found = health(lake)
    assert found["unsorted_segments"] == 3
    assert [one["hazard"] for one in found["hazards"]] == ["unsorted"]


def test_who_is_at_work_and_who_died(lake):
    """A load of this process lives; one of a process that is gone is a hazard, with what to do."""
    mine = ProcessIdentity.mine()
    gone = ProcessIdentity(
        host=mine.host, boot_id=mine.boot_id, pid=2**22 + 1, started_ticks=1, pid_namespace=mine.pid_namespace
    )
    lake.begin()
    lake.begin(process=gone)
    found = health(lake)
    assert [one["alive"] for one in found["running"]] == [True, False]
    assert found["statuses"] == {"in-progress": 2}
    (hazard,) = found["hazards"]
    assert hazard["hazard"] == "dead-attempt"
    assert "packstone clean" in hazard["evidence"]
    facts = [fact.text for fact in observe_segments(IO, lake.table, now_ms=now_ms()).report().facts]
    (running,) = [fact for fact in facts if fact.startswith("running: load of 0 (")]
    assert str(mine.pid) in running


def test_a_report_says_what_it_does_not_cover(lake, monkeypatch):
    """Only the newest segment files are read; a report on all of them has no note."""
    load(lake, 3)
    assert observe_segments(IO, lake.table, now_ms=now_ms()).report().notes == ()
    monkeypatch.setattr("packstone.tables.segments.health.INSPECTED_SEGMENTS", 2)
    assert observe_segments(IO, lake.table, now_ms=now_ms()).report().notes == ("inspected 2 of 3 segments",)


def test_what_can_be_cleaned_and_what_cannot_be_read(lake):
    """Retired bytes past their retention, and a segment file that is gone."""
    lake.alter(SEGMENT_RETENTION_DAYS="0", MAX_QUERY_MINUTES="1")
    load(lake, 2)
    lake.delete("0")
    (lake.path / "Metadata/segments" / lake.live()["1"]["segment_file"]).unlink()
    found = health(lake, later_ms=61_000)
    assert found["removable_bytes"] == found["retired_bytes"] > 0
    assert {one["hazard"] for one in found["hazards"]} == {"missing-files", "unreadable", "not-cleaned"}
