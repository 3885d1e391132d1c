"""Compacting segment tables: which segments, into what, and that no row is lost, doubled or out of order."""

import random

import pytest
from segment_lake import DAY_MS, SegmentLake, sort_rows

from packstone.errors import InvalidInputError
from packstone.model.outcome import Status
from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.options import SegmentOptions, parse_segment_ids

IO = LocalFileIO()
SORTED = {"SORT_COLUMNS": "id", "SORT_SCOPE": "LOCAL_SORT"}


@pytest.fixture
def lake(tmp_path):
    """A table that is not created yet."""
    return SegmentLake(tmp_path / "t")


def compact(lake, strategy="minor", *, ids="", **more):
    """Compact in this process."""
    options = SegmentOptions(strategy=strategy, ids=parse_segment_ids(ids) if ids else (), **more)
    return Table(lake.table, io=IO).compact(options)


def rows(count, *, seed=0, most=1000):
    """Rows with repeated and missing keys."""
    draw = random.Random(seed)
    keys = [None if draw.random() < 0.05 else draw.randrange(most) for _ in range(count)]
    return [{"id": key, "v": f"{seed}-{at}"} for at, key in enumerate(keys)]


def fill(lake, loads, *, count=50, **how):
    """N loads of rows that are all different."""
    for seed in range(loads):
        lake.load(rows(count, seed=seed), **how)


def test_minor_merges_four_loads_and_then_has_nothing_to_do(lake):
    """Four sorted loads become one sorted segment; the second command finds nothing."""
    fill(lake.create(**SORTED), 5, runs=2, files=2, group_rows=10)
    before = lake.count()
    outcome = compact(lake)
    assert (outcome.status, [unit.partition for unit in outcome.units]) == (Status.COMMITTED, ["0.1"])
    assert outcome.units[0].inputs == ("0", "1", "2", "3")
    assert outcome.units[0].rows == 200
    assert lake.ids() == ["0.1", "4"]
    assert lake.count() == before
    assert lake.problems() == []
    content = lake.segment("0.1")
    assert {file["run"] for file in content["files"]} == {0}
    assert content["sort_columns"] == ["id"]
    assert lake.read("0.1").column("id").equals(sort_rows(lake.read("0.1"), ["id"]).column("id"))
    again = compact(lake)
    assert again.status is Status.NOTHING_TO_DO
    assert "level-1" in again.skipped[0].why
    assert lake.open_runs() == []


def test_twelve_loads_become_one_segment_over_two_levels(lake):
    """Example E7: three merges side by side, then one of their results."""
    fill(lake.create(**SORTED), 12, count=20)
    before = lake.count()
    outcome = compact(lake)
    assert [unit.partition for unit in outcome.units] == ["0.1", "4.1", "8.1", "0.2"]
    assert lake.ids() == ["0.2"]
    assert lake.count() == before
    assert {one: entry["status"] for one, entry in lake.retired().items()} == {
        **{str(at): "compacted" for at in range(12)},
        "0.1": "compacted",
        "4.1": "compacted",
        "8.1": "compacted",
    }
    assert lake.retired()["5"]["merged_into"] == "4.1"
    # Two commits for each wave: one that registers, one that finishes.
    assert [lake.status(version)["operation"] for version in lake.versions()[-4:]] == ["begin-compact", "compact"] * 2


def test_a_plan_tells_all_merges_and_writes_nothing(lake):
    """The plan is what the run then does."""
    fill(lake.create(**SORTED), 12, count=5)
    versions = lake.versions()
    planned = Table(lake.table, io=IO).plan(SegmentOptions()).outcome
    assert planned.status is Status.PLANNED
    assert lake.versions() == versions
    assert [(unit.partition, unit.inputs) for unit in planned.units] == [
        (unit.partition, unit.inputs) for unit in compact(lake).units
    ]
    assert planned.files_after == 1


def test_small_tasks_cut_a_merge_by_key_range(lake):
    """Many pieces, one run: files do not overlap, their order is the order of rows, and hot keys stay together."""
    lake.create(**SORTED, TABLE_BLOCKLET_ROWS=1000)
    for seed in range(4):
        hot = [{"id": 500, "v": f"hot-{seed}-{at}"} for at in range(3000)]
        lake.load([*rows(4000, seed=seed), *hot], runs=2, group_rows=500)
    before = lake.count()
    outcome = compact(lake, task_bytes=20_000)
    assert outcome.status is Status.COMMITTED
    assert len(outcome.units[0].outputs) > 3
    assert lake.count() == before
    assert lake.problems() == []
    assert lake.read("0.1").column("id").null_count > 0


def test_unsorted_loads_are_sorted_first_and_split(lake):
    """NO_SORT loads of a table with sort columns come out as one sorted run, in one task or in several."""
    for name, size in (("one", 1 << 28), ("several", 20_000)):
        own = SegmentLake(lake.path.parent / name).create(SORT_COLUMNS="id", SORT_SCOPE="NO_SORT")
        for seed in range(4):
            scope = "NO_SORT" if seed % 2 else "LOCAL_SORT"
            own.load(rows(3000, seed=seed), scope=scope, files=3, group_rows=500)
        before = own.count()
        outcome = compact(own, task_bytes=size)
        assert outcome.status is Status.COMMITTED, outcome.skipped
        assert own.count() == before
        assert own.problems() == []
        assert own.segment("0.1")["sort_columns"] == ["id"]
        assert own.open_runs() == []
        assert not list(own.runs().parent.glob("staging/*"))


def test_without_sort_columns_files_are_joined_in_order(lake):
    """Rows are in the order in which they were loaded, segment after segment."""
    lake.create()
    fill(lake, 4, count=300, files=3)
    before = lake.read().to_pylist()
    assert compact(lake, task_bytes=4_000).status is Status.COMMITTED
    assert lake.read().to_pylist() == before
    assert lake.segment("0.1")["sort_scope"] == "NO_SORT"


def test_segments_of_an_older_order_are_sorted_anew(lake):
    """After SORT_COLUMNS changed, sorted by something else is unsorted; a single named segment is written anew."""
    lake.create(**SORTED)
    fill(lake, 1, count=200)
    lake.alter(SORT_COLUMNS="v")
    before = lake.count()
    outcome = compact(lake, "custom", ids="0")
    assert outcome.status is Status.COMMITTED
    assert lake.ids() == ["0.1"]
    assert lake.segment("0.1")["sort_columns"] == ["v"]
    assert lake.count() == before
    assert lake.problems() == []
    assert compact(lake, "custom", ids="0.1").status is Status.NOTHING_TO_DO


def test_custom_takes_what_is_named_in_id_order(lake):
    """Example E55; an unknown or deleted id refuses all."""
    fill(lake.create(**SORTED), 5)
    lake.delete("2")
    for wrong, why in (("1,2", "is marked for delete"), ("1,7", "does not exist")):
        with pytest.raises(InvalidInputError, match=why):
            compact(lake, "custom", ids=wrong)
    assert compact(lake, "custom", ids="3,1").units[0].inputs == ("1", "3")
    assert lake.ids() == ["0", "1.1", "4"]


def test_major_merges_by_size_and_marks_its_result(lake):
    """Results of a major compaction are not merged by a minor one, but by the next major one (example E50)."""
    fill(lake.create(**SORTED), 2)
    assert compact(lake, "major").units[0].partition == "0.1"
    assert lake.live()["0.1"]["is_major"] is True
    fill(lake, 2)
    assert compact(lake, "major").units[0].inputs == ("0.1", "2", "3")
    assert lake.ids() == ["0.2"]
    assert compact(lake, "major").status is Status.NOTHING_TO_DO


def test_properties_of_the_table_and_of_the_run_decide(lake):
    """Thresholds, preserve and size caps come from the table; a run may set its own."""
    fill(lake.create(**SORTED, COMPACTION_LEVEL_THRESHOLD="2,0"), 4)
    outcome = compact(lake, overrides=(("compaction_preserve_segments", "2"),))
    assert [unit.inputs for unit in outcome.units] == [("0", "1")]
    assert compact(lake).units[0].inputs == ("2", "3")
    with pytest.raises(InvalidInputError, match="COMPACTION_PRESERVE_SEGMENTS"):
        compact(lake, overrides=(("compaction_preserve_segments", "1000"),))


def test_a_merged_segment_keeps_its_newest_load_day_and_a_partial_success(lake):
    """The days rule still protects it, and readers still see that rows were bad."""
    lake.create(**SORTED)
    today = now_ms()
    for at in range(4):
        lake.load(rows(10, seed=at), now=today - (4 - at) * DAY_MS, bad_rows=int(at == 2))
    compact(lake)
    entry = lake.live()["0.1"]
    assert entry["newest_load_ms"] == today - DAY_MS
    assert entry["load_start_ms"] >= today
    assert entry["status"] == "partial-success"


def test_days_windows_keep_loads_apart(lake):
    """Loads of different days are not merged with each other, and a first small day does not starve the others."""
    lake.create(**SORTED, ALLOWED_COMPACTION_DAYS=1, COMPACTION_LEVEL_THRESHOLD="2,0")
    today = now_ms() // DAY_MS * DAY_MS
    for at, day in enumerate((5, 3, 3, 1, 1, 0)):
        lake.load(rows(10, seed=at), now=today - day * DAY_MS)
    assert [unit.inputs for unit in compact(lake).units] == [("1", "2"), ("3", "4")]
