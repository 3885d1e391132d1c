"""Compactions and cleans of segment tables, killed with a real SIGKILL at every step and at any moment."""

import os
import shutil
import signal
import time

import pytest
from compact_calls import segment_clean, segment_compact, segment_recover
from segment_lake import SegmentLake
from segment_model import quick_folder

from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
KILLED = -signal.SIGKILL
CASES = {
    "sorted": ("LOCAL_SORT", {}, {}),
    "unsorted in pieces": ("NO_SORT", {"task_bytes": 1000}, {}),
    "sorted in pieces": ("LOCAL_SORT", {"task_bytes": 1000}, {}),
    "global": ("GLOBAL_SORT", {"strategy": "major"}, {}),
    "two levels": ("LOCAL_SORT", {}, {"COMPACTION_LEVEL_THRESHOLD": "2,2"}),
    "no order": ("NO_SORT", {}, {"SORT_COLUMNS": ""}),
}


def make(path, scope, *, loads=4, **properties):
    """A table with four loads of two files; half of them are sorted, if the table is."""
    lake = SegmentLake(path).create(**({"SORT_COLUMNS": "id", "SORT_SCOPE": scope} | properties))
    other = "LOCAL_SORT" if properties.get("SORT_COLUMNS", "id") else scope
    for seed in range(loads):
        rows = [{"id": (at * 7) % 30, "v": f"{seed}-{at}"} for at in range(30)]
        lake.load(rows, files=2, group_rows=10, scope=other if seed % 2 else scope)
    return lake


def check_recovers(lake, rows, where):
    """The rows are there, the next command ends the work, and a clean leaves what is live and nothing else."""
    assert lake.count() == rows, where
    assert lake.problems() == [], where
    assert segment_compact(IO, lake.table)["status"] in ("committed", "nothing-to-do"), where
    assert len(lake.ids()) == 1, where
    done = segment_clean(IO, lake.table, days=8)
    assert done["unknown"] == [], where
    segment_clean(IO, lake.table, days=20)  # the trash
    check_tidy(lake, where)
    assert lake.count() == rows, where


def check_tidy(lake, where):
    """Nothing is left but what the newest status names."""
    assert lake.problems() == [], where
    live = {os.path.relpath(file, lake.table) for file in lake.files()}
    assert set(lake.data_on_disk()) == live, where
    for folder in ("segments", "index"):
        assert len(list((lake.path / "Metadata" / folder).iterdir())) == 1, (where, folder)
    assert lake.open_runs() == [], where
    assert not list(lake.runs().parent.glob("staging/*")), where
    assert not list((lake.path / "Metadata/trash").glob("*")), where
    assert not list(lake.path.rglob(".new-*")), where
    named = {name for version in lake.versions() for name in lake.chunks(version)}
    for folder in ("entries", "retired"):
        there = (lake.path / "Metadata" / folder).iterdir()
        assert {f"{folder}/{path.name}" for path in there} <= named, where


@pytest.mark.slow
@pytest.mark.parametrize(("case", "stride"), [("sorted", 2), ("unsorted in pieces", 7)])
def test_a_compaction_killed_at_some_steps(children, case, stride):
    """Killed there, the table reads the same, a second run succeeds, and a clean leaves nothing behind."""
    check_compaction(children, case, lambda count: in_turns({*range(0, count, stride), *range(count - 5, count)}))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES)
def test_a_compaction_killed_at_every_step(children, case):
    """Killed anywhere."""
    check_compaction(children, case, at_all)


@pytest.mark.slow
def test_a_clean_killed_at_some_steps(children):
    """With a dead compaction, retired segments, old versions and trash to clean: another clean does the rest."""
    check_clean(children, lambda count: in_turns(range(0, count, 2)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_clean_killed_at_every_step(children):
    """Killed anywhere."""
    check_clean(children, at_all)


def in_turns(steps):
    """Before the first, after the next, and so on."""
    return [(step, "before" if at % 2 else "after") for at, step in enumerate(sorted(steps))]


def at_all(count):
    """Before and after each."""
    return [(step, moment) for step in range(count) for moment in ("before", "after")]


def set_back(folder):
    """Restore the table, and the records of its runs, to an earlier state."""
    shutil.rmtree(folder / "lake")
    shutil.copytree(folder / "aside", folder / "lake")


def check_compaction(children, case, pick):
    """Kill a compaction at the steps that are picked, one after the other."""
    scope, options, properties = CASES[case]
    with quick_folder() as folder:
        lake = make(folder / "lake/t", scope, **properties)
        rows = lake.count()
        shutil.copytree(folder / "lake", folder / "aside")
        steps = children.run("segment_compact", path=lake.table, **options)["steps"]
        for step, moment in pick(len(steps)):
            set_back(folder)
            fault = {"step": step, "action": "kill", "moment": moment}
            done = children.run("segment_compact", path=lake.table, fault=fault, **options)
            where = f"killed {moment} step {step}: {steps[step]}"
            assert done["status"] == KILLED, (where, done)
            check_recovers(lake, rows, where)


def check_clean(children, pick):
    """Kill a clean at the steps that are picked, one after the other."""
    with quick_folder() as folder:
        lake = make(folder / "lake/t", "LOCAL_SORT", loads=5)
        steps = children.run("segment_compact", path=shutil.copytree(lake.path, folder / "other/t"))["steps"]
        written = next(at for at, step in enumerate(steps) if "/Metadata/index/" in step)
        fault = {"step": written, "action": "kill", "moment": "after"}
        assert children.run("segment_compact", path=lake.table, fault=fault)["status"] == KILLED
        assert children.run("segment_compact", path=lake.table)["value"]["status"] == "committed"
        lake.delete("4")
        rows = lake.count()
        shutil.copytree(folder / "lake", folder / "aside")
        steps = children.run("segment_clean", path=lake.table, days=8)["steps"]
        assert any("/status/" in step for step in steps)
        for step, moment in pick(len(steps)):
            set_back(folder)
            fault = {"step": step, "action": "kill", "moment": moment}
            done = children.run("segment_clean", path=lake.table, days=8, fault=fault)
            where = f"killed {moment} step {step}: {steps[step]}"
            assert done["status"] == KILLED, (where, done)
            assert lake.count() == rows, where
            assert lake.problems() == [], where
            assert segment_clean(IO, lake.table, days=8)["unknown"] == [], where
            segment_clean(IO, lake.table, days=20)
            check_tidy(lake, where)
            assert lake.count() == rows, where


def test_a_killed_compaction_is_recovered(tmp_path, children):
    """Its registrations and its run are ended, its segments are free; what it wrote is known by name until `clean`."""
    lake = make(tmp_path / "lake/t", "LOCAL_SORT", loads=8)
    rows = lake.count()
    steps = children.run("segment_compact", path=shutil.copytree(lake.path, tmp_path / "other/t"))["steps"]
    written = next(at for at, step in enumerate(steps) if "/Metadata/index/" in step)
    fault = {"step": written, "action": "kill", "moment": "after"}
    assert children.run("segment_compact", path=lake.table, fault=fault)["status"] == KILLED
    (run,) = lake.open_runs()
    assert [one["attempt"] for one in lake.status()["running"]] == [run, run]
    done = segment_recover(IO, lake.table)
    assert (done["status"], done["left_alone"]) == ("recovered", [])
    assert done["actions"] == [
        f"run {run}, 0 1 2 3: merge into 0.1 abandoned",
        f"run {run}, 4 5 6 7: merge into 4.1 abandoned",
        f"run {run}: remaining staging files removed",
    ]
    assert lake.status()["running"] == []
    assert segment_recover(IO, lake.table)["status"] == "nothing-to-do"
    assert lake.open_runs() == [run]
    assert segment_clean(IO, lake.table)["unknown"] == []
    assert (lake.open_runs(), len(lake.data_on_disk())) == ([], 16)
    assert (lake.count(), lake.problems()) == (rows, [])


def test_a_killed_load_is_recovered(tmp_path, children):
    """It is abandoned; its id stays taken."""
    lake = make(tmp_path / "lake/t", "LOCAL_SORT", loads=1)
    (tmp_path / "in.csv").write_text("id,v\n1,x\n")
    call = {"inputs": [str(tmp_path / "in.csv")]}
    steps = children.run("load_rows", path=shutil.copytree(lake.path, tmp_path / "other/t"), **call)["steps"]
    written = next(at for at, step in enumerate(steps) if "/Metadata/index/" in step)
    fault = {"step": written, "action": "kill", "moment": "after"}
    assert children.run("load_rows", path=lake.table, fault=fault, **call)["status"] == KILLED
    (run,) = lake.open_runs()
    assert f"run {run}, 1: load abandoned" in segment_recover(IO, lake.table)["actions"]
    assert (lake.ids(), lake.status()["next_load"]) == (["0"], 2)


def test_a_compaction_killed_at_any_moment(tmp_path, children):
    """The same between steps, with files half written; on one table that also grows."""
    lake = make(tmp_path / "t", "NO_SORT", loads=2)
    killed = 0
    for number in range(8):
        lake.load([{"id": number, "v": "x"}])
        rows = lake.count()
        pid = children.start("segment_compact", path=lake.table, strategy="major", task_bytes=1000)
        time.sleep(number * 0.02)  # the first one never gets far
        os.kill(pid, signal.SIGKILL)
        killed += children.wait(pid)["status"] == KILLED
        assert lake.count() == rows
        assert lake.problems() == []
    assert killed > 0
    rows = lake.count()
    assert segment_compact(IO, lake.table, strategy="major")["status"] in ("committed", "nothing-to-do")
    assert segment_clean(IO, lake.table, days=8)["unknown"] == []
    segment_clean(IO, lake.table, days=20)
    check_tidy(lake, "at the end")
    assert lake.count() == rows


def test_processes_share_the_work(tmp_path, children):
    """Three compactions and two cleans at once: every load is merged once, no row is lost or doubled, none hangs."""
    lake = make(tmp_path / "t", "LOCAL_SORT", loads=16)
    rows = lake.count()
    pids = [children.start("segment_compact", path=lake.table) for _ in range(3)]
    pids += [children.start("segment_clean", path=lake.table, days=8) for _ in range(2)]
    answers = [children.wait(pid) for pid in pids]
    assert all(answer["status"] == 0 for answer in answers)
    assert not [answer for answer in answers if answer.get("error") == "unexpected"]
    assert lake.count() == rows
    assert lake.problems() == []
    segment_compact(IO, lake.table)
    # Four groups of four, three of them merged once more; which one waits depends on who was quicker.
    assert tuple(lake.ids()) in {("0.2", "12.1"), ("0.2", "8.1"), ("0.2", "4.1"), ("0.1", "4.2")}
    assert lake.count() == rows
