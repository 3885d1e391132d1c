"""Plans of segment tables that are saved, loaded and carried out exactly: what changed since is skipped."""

import pytest
from segment_lake import SegmentLake

from packstone.errors import InvalidInputError
from packstone.model.outcome import Status
from packstone.pipeline.plan import Plan
from packstone.pipeline.table import Table
from packstone.tables.segments.options import SegmentOptions


@pytest.fixture
def lake(tmp_path):
    """Twelve loads: three merges, and one of their results."""
    made = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")
    for seed in range(12):
        made.load([{"id": at, "v": f"{seed}-{at}"} for at in range(10)])
    return made


def save(lake, tmp_path, **options):
    """Plan, save, load."""
    plan = Table(lake.table).plan(SegmentOptions(**options))
    plan.save(tmp_path / "plan.json")
    return Plan.load(tmp_path / "plan.json")


def test_a_saved_plan_is_carried_out_to_its_last_round(lake, tmp_path):
    """The later round merges what the earlier one made; what was loaded since waits."""
    plan, rows = save(lake, tmp_path), lake.count()
    assert [str(part) for part in plan.parts] == [
        "0 1 2 3: 4 files -> 1, level-1: 4 of 4",
        "4 5 6 7: 4 files -> 1, level-1: 4 of 4",
        "8 9 10 11: 4 files -> 1, level-1: 4 of 4",
        "0.1 4.1 8.1: 3 files -> 1, level-2: 3 of 3",
    ]
    for seed in range(4):
        lake.load([{"id": seed, "v": "new"}])
    outcome = Table(lake.table).compact(plan)
    assert (outcome.status, lake.ids()) == (Status.COMMITTED, ["0.2", "12", "13", "14", "15"])
    assert len(outcome.versions) == 2
    assert sum(lake.count().values()) == sum(rows.values()) + 4
    assert lake.problems() == []


def test_a_part_that_changed_is_skipped_and_so_is_what_needs_it(lake, tmp_path):
    """The others are merged."""
    plan = save(lake, tmp_path)
    lake.delete("5")
    outcome = Table(lake.table).compact(plan)
    assert outcome.status is Status.PARTIAL
    assert [unit.partition for unit in outcome.units] == ["0.1", "8.1"]
    assert [(skip.what, str(skip.kind), skip.why) for skip in outcome.skipped] == [
        ("4 5 6 7", "conflict", "segment 5 has changed since it was planned; plan again"),
        ("0.1 4.1 8.1", "conflict", "segment 4.1 has changed since it was planned; plan again"),
    ]
    assert lake.ids() == ["0.1", "4", "6", "7", "8.1"]
    assert lake.problems() == []


def test_a_plan_that_was_carried_out_changes_nothing_the_second_time(lake, tmp_path):
    """Every part is named, also that of the round that is never reached."""
    plan = save(lake, tmp_path)
    assert Table(lake.table).compact(plan).status is Status.COMMITTED
    version = lake.versions()[-1]
    again = Table(lake.table).compact(plan)
    assert (again.status, len(again.skipped), lake.versions()[-1]) == (Status.CONFLICT, 4, version)


def test_a_segment_of_the_same_id_is_not_the_one_that_was_planned(lake, tmp_path):
    """A merge that is undone and done again makes another 0.1."""
    first = Table(lake.table).compact(SegmentOptions(overrides=(("compaction_level_threshold", "4,0"),)))
    plan = save(lake, tmp_path)
    assert [part.part for part in plan.parts] == ["0.1 4.1 8.1"]
    Table(lake.table).restore(first.run)
    Table(lake.table).compact(SegmentOptions(overrides=(("compaction_level_threshold", "4,0"),)))
    assert lake.ids() == ["0.1", "4.1", "8.1"]
    outcome = Table(lake.table).compact(plan)
    assert (outcome.status, outcome.units) == (Status.CONFLICT, ())


def test_a_plan_is_for_its_table(lake, tmp_path):
    """Another table refuses it by name."""
    plan = save(lake, tmp_path)
    other = SegmentLake(tmp_path / "other").create()
    with pytest.raises(InvalidInputError, match="The plan is for"):
        Table(other.table).compact(plan)
