"""``restore RUN`` of segment tables: inputs are live again, merged segments retired, in one commit of the status."""

import json
import shutil
import signal

import pytest
from compact_calls import segment_clean, segment_compact, segment_restore
from segment_lake import SegmentLake
from segment_model import quick_folder

import packstone
from packstone.errors import InvalidInputError, RefusedError
from packstone.model.outcome import Status
from packstone.pipeline.table import Table
from packstone.query.scan.request import Selection
from packstone.storage.local import LocalFileIO
from packstone.tables.scan_source import find_added
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
KILLED = -signal.SIGKILL


@pytest.fixture
def lake(tmp_path):
    """Six loads; by twos they become three segments, and those one."""
    return make(tmp_path / "t")


def make(path):
    """A table whose merges have two levels."""
    made = SegmentLake(path).create(SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="2,3")
    for seed in range(6):
        made.load([{"id": at, "v": f"{seed}-{at}"} for at in range(20)], files=2, bad_rows=int(seed == 3))
    return made


def compact(lake, **options):
    """Merge, and name the run."""
    outcome = Table(lake.table).compact(SegmentOptions(**options))
    assert outcome.status is Status.COMMITTED, outcome
    return outcome.run


def restore(lake, run):
    """As JSON."""
    return Table(lake.table).restore(run).to_json()


def added(lake, after, upto):
    """The rows that a stream returns of some versions."""
    sources = find_added(IO, lake.table, after=after, upto=upto)
    return [sum(split.rows for split in source.plan(Selection()).splits) for source in sources]


def test_a_stream_does_not_return_the_inputs_of_an_undone_merge_again(lake):
    """Their rows were added by the loads; only later loads add rows."""
    first = lake.versions()[-1]
    run = compact(lake)
    merged = lake.versions()[-1]
    restore(lake, run)
    undone = lake.versions()[-1]
    assert (added(lake, merged, undone), added(lake, first, undone)) == ([], [])
    lake.load([{"id": at} for at in range(7)])
    restore(lake, compact(lake))
    last = lake.versions()[-1]
    assert (added(lake, merged, last), added(lake, undone, last)) == ([7], [7])
    assert added(lake, 1, last) == [*[20] * 6, 7]


def statuses(lake):
    """The live segments."""
    return {one: entry["status"] for one, entry in lake.live().items()}


def test_all_rounds_are_undone_in_one_commit(lake):
    """The loads are as they were, with the one that left rows out; the merged files stay for earlier versions."""
    before, rows = lake.live(), lake.count()
    run = compact(lake)
    assert lake.ids() == ["0.2"]
    version = lake.versions()[-1]
    done = restore(lake, run)
    assert (done["status"], done["files_restored"], done["files_removed"]) == ("restored", 12, 1)
    assert done["parts"] == ["0.1 2.1 4.1", "4 5", "2 3", "0 1"]
    assert lake.versions()[-1] == version + 1
    assert lake.status()["operation"] == "restore"
    assert lake.live() == before
    assert (lake.count(), lake.problems(), lake.open_runs()) == (rows, [], [])
    assert {one: entry["status"] for one, entry in lake.retired().items()} == dict.fromkeys(
        ("0.1", "0.2", "2.1", "4.1"), "marked-for-delete"
    )
    assert lake.count(version=version) == rows


def test_the_second_time_there_is_nothing_to_do(lake):
    """Also after what was undone is merged again, deleted or cleaned."""
    run = compact(lake)
    restore(lake, run)
    version = lake.versions()[-1]
    assert restore(lake, run)["status"] == "nothing-to-do"
    assert lake.versions()[-1] == version
    again = compact(lake)
    assert restore(lake, run)["status"] == "nothing-to-do"
    assert lake.ids() == ["0.2"]
    segment_clean(IO, lake.table, days=8)
    assert restore(lake, run)["status"] == "nothing-to-do"
    with pytest.raises(RefusedError, match="has been cleaned, so the merge cannot be undone"):
        restore(lake, again)


def test_what_came_since_stays(lake):
    """A load after the run is none of its business."""
    run = compact(lake)
    lake.load([{"id": 1, "v": "late"}])
    rows = lake.count()
    restore(lake, run)
    assert lake.ids() == ["0", "1", "2", "3", "4", "5", "6"]
    assert lake.count() == rows


def test_undone_merged_again_and_cleaned(lake):
    """The ids come again, and nothing confuses the two: files, lists, history, unknown files, versions."""
    rows = lake.count()
    first = compact(lake)
    restore(lake, first)
    between = lake.versions()[-1]
    second = compact(lake)
    assert lake.ids() == ["0.2"]
    assert len(list((lake.path / "Metadata/segments").glob("0.2_*"))) == 2
    shown = Table(lake.table).segments.show().rows
    assert [(row.id, row.status) for row in shown if row.id == "0.2"] == [
        ("0.2", "Partial Success"),
        ("0.2", "Marked for Delete"),
    ]
    assert Table(lake.table).clean(dry_run=True).unknown.paths == []
    assert Table(lake.table).health().hazards == []
    assert Table(lake.table).verify(second).problems == ()
    assert lake.count(version=between) == rows
    done = segment_clean(IO, lake.table, days=8)
    assert sorted(done["segments"]) == sorted(
        ["0", "1", "2", "3", "4", "5", "0.1", "2.1", "4.1", "0.1", "2.1", "4.1", "0.2"]
    )
    assert done["unknown"] == []
    assert (lake.count(), lake.problems(), lake.retired()) == (rows, [], {})
    assert all(second in path for path in lake.files())
    assert sorted(lake.data_on_disk()) == sorted(str(file).removeprefix(f"{lake.table}/") for file in lake.files())
    history = Table(lake.table).segments.show(history=True).rows
    assert [(row.id, row.status, row.is_cleaned) for row in history if row.id.startswith("0.")] == [
        ("0.2", "Partial Success", False),
        ("0.2", "Marked for Delete", True),
        ("0.1", "Marked for Delete", True),
        ("0.1", "Compacted", True),
    ]
    exported = json.loads(Table(lake.table).segments.export().text)
    assert len({one["loadName"] for one in exported}) == len(exported)


def test_a_clean_between_does_not_take_the_second(lake):
    """The retired 0.1 goes by its own names while the new 0.1 is live."""
    first = compact(lake, overrides=(("compaction_level_threshold", "2,0"),))
    restore(lake, first)
    segment_clean(IO, lake.table, days=8)
    compact(lake, overrides=(("compaction_level_threshold", "2,0"),))
    assert lake.ids() == ["0.1", "2.1", "4.1"]
    assert lake.problems() == []
    assert sum(lake.count().values()) == 120


def test_what_cannot_be_undone(lake):
    """One sentence each, and nothing is changed."""
    run = compact(lake, overrides=(("compaction_level_threshold", "2,0"),))
    later = compact(lake)
    version = lake.versions()[-1]
    with pytest.raises(RefusedError, match=r"Segment 4\.1 is compacted into 0\.2, so the merge that made it cannot"):
        restore(lake, run)
    with pytest.raises(InvalidInputError, match="There is no run"):
        restore(lake, "20240101T000000-abcdef")
    with pytest.raises(InvalidInputError, match="is not the id of a run"):
        restore(lake, "../../../x")
    assert lake.versions()[-1] == version
    assert restore(lake, later)["parts"] == ["0.1 2.1 4.1"]
    assert statuses(lake) == {"0.1": "success", "2.1": "partial-success", "4.1": "success"}
    lake.delete("2.1")
    with pytest.raises(RefusedError, match=r"Segment 2\.1 is marked for delete"):
        restore(lake, run)
    assert lake.ids() == ["0.1", "4.1"]


def test_inputs_that_are_gone_or_cleaned_are_not_made_live(lake):
    """Neither those that clean removed nor those that somebody else did."""
    run = compact(lake)
    name = lake.retired()["3"]["segment_file"]
    path = lake.path / "Metadata/segments" / name
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(RefusedError, match=f"Segment 3 cannot be made live again: .*/{name} is gone"):
        restore(lake, run)
    path.write_bytes(content)
    segment_clean(IO, lake.table, days=8)
    with pytest.raises(RefusedError, match="has been cleaned, so the merge cannot be undone; nothing was changed"):
        restore(lake, run)
    assert lake.ids() == ["0.2"]


def test_a_clean_that_is_about_to_remove_the_inputs_is_not_overtaken(lake, monkeypatch):
    """Whoever commits first has it: marked inputs are not revived, and revived ones keep their files."""
    from packstone.tables.segments import clean as module

    run, rows = compact(lake), lake.count()
    own, found = module._remove_segment, []

    def remove(io, table, segment, **how):
        if not found:
            with pytest.raises(RefusedError) as caught:
                restore(lake, run)
            found.append(caught.value.message)
        own(io, table, segment, **how)

    monkeypatch.setattr(module, "_remove_segment", remove)
    segment_clean(IO, lake.table, days=8)
    assert "has been cleaned" in found[0]
    assert (lake.ids(), lake.count()) == (["0.2"], rows)


def test_a_restore_while_a_clean_plans_keeps_the_files(lake, monkeypatch):
    """The clean has planned to remove the inputs; they are live before it marks them, so it leaves them alone."""
    from packstone.tables.segments import table as module

    run, rows = compact(lake), lake.count()
    own = module.remove_expired

    def restored_first(io, plan, **how):
        assert len(plan.segments) == 9
        assert restore(lake, run)["status"] == "restored"
        own(io, plan, **how)

    monkeypatch.setattr(module, "remove_expired", restored_first)
    segment_clean(IO, lake.table, days=8)
    assert (len(lake.ids()), lake.count(), lake.problems()) == (6, rows, [])


def test_other_tables_say_that_they_have_no_segments(tmp_path):
    """By their family."""
    shutil.copytree("tests/testdata/paimon/pk_overlapping/table", tmp_path / "p")
    with pytest.raises(InvalidInputError, match="is a Paimon table, not a segment table"):
        _ = packstone.open(str(tmp_path / "p")).segments


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_killed_at_every_step(children, moment):
    """All of it or nothing; the next restore does the rest, the next compaction merges again, a clean is complete."""
    with quick_folder() as folder:
        lake = make(folder / "lake/t")
        rows, run = lake.count(), compact(lake)
        shutil.copytree(folder / "lake", folder / "aside")
        steps = children.run("segment_restore", path=lake.table, run=run)["steps"]
        seen = set()
        for step, text in enumerate(steps):
            shutil.rmtree(folder / "lake")
            shutil.copytree(folder / "aside", folder / "lake")
            fault, where = {"step": step, "action": "kill", "moment": moment}, f"killed {moment} step {step}: {text}"
            assert children.run("segment_restore", path=lake.table, run=run, fault=fault)["status"] == KILLED, where
            assert lake.ids() in (["0.2"], ["0", "1", "2", "3", "4", "5"]), where
            seen.add(len(lake.ids()))
            assert (lake.count(), lake.problems()) == (rows, []), where
            assert segment_restore(IO, lake.table, run)["status"] in ("restored", "nothing-to-do"), where
            assert len(lake.ids()) == 6, where
            assert segment_compact(IO, lake.table)["status"] == "committed", where
            assert segment_clean(IO, lake.table, days=8)["unknown"] == [], where
            assert (lake.count(), lake.problems(), lake.ids()) == (rows, [], ["0.2"]), where
            assert lake.open_runs() == [], where
            assert len(lake.data_on_disk()) == 1, where
        assert seen == {1, 6}
