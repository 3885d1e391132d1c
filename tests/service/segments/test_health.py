"""What `health` tells of a segment table."""

import pytest
from segment_lake import SegmentLake

from packstone.model.segment_options import SegmentOptions
from packstone.runs.clock import now_ms
from packstone.runs.engine import InlineEngine
from packstone.runs.liveness import ProcessIdentity
from packstone.service.segment_compact import compact_segments
from packstone.service.segment_health import observe_segments
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()


@pytest.fixture
def lake(tmp_path):
    """An empty table with a sort column."""
    return SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")


def health(lake):
    """As JSON."""
    return observe_segments(IO, lake.table).to_json()


def load(lake, count, **how):
    """So many loads of ten rows."""
    for _ in range(count):
        lake.load([{"id": at, "v": "x"} for at in range(10)], **how)


def test_an_empty_table_is_well(lake):
    """Nothing to merge, nothing to warn of."""
    found = health(lake)
    assert (found["segments"], found["score"], found["hazards"]) == (0, 100, [])


def test_many_small_loads_are_told(lake):
    """Segments, their sizes and levels, and what each strategy would do about them."""
    load(lake, 5, files=2)
    found = health(lake)
    assert (found["segments"], found["files"], found["rows"]) == (5, 10, 50)
    assert (found["small_pct"], found["score"], found["ideal_segments"]) == (100, 20, 1)
    assert found["histogram"]["< 1 MB"] == 5
    assert found["planned_merges"] == {"minor": 1, "major": 1}
    assert found["levels"] == {"L0": 5}
    compact_segments(IO, lake.table, SegmentOptions(strategy="major"), engine=InlineEngine(IO))
    found = health(lake)
    assert (found["segments"], found["score"], found["levels"]) == (1, 100, {"L1": 1})
    assert found["statuses"] == {"compacted": 5, "success": 1}
    assert found["retired_bytes"] > 0
    assert found["removable_bytes"] == 0


def test_unsorted_segments_are_told(lake):
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


def test_what_can_be_cleaned_and_what_cannot_be_read(lake, monkeypatch):
    """Retired bytes past their retention, and a segment file that is gone."""
    lake.alter(SEGMENT_RETENTION_DAYS="0", MAX_QUERY_MINUTES="1")
    load(lake, 2)
    lake.delete("0")
    (lake.path / "Metadata/segments" / lake.live()["1"]["segment_file"]).unlink()
    later_ms = now_ms() + 61_000
    monkeypatch.setattr("packstone.service.segment_health.now_ms", lambda: later_ms)
    found = health(lake)
    assert found["removable_bytes"] == found["retired_bytes"] > 0
    assert {one["hazard"] for one in found["hazards"]} == {"missing-files", "unreadable", "not-cleaned"}
