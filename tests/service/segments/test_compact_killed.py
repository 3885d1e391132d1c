"""Compactions and cleans of segment tables, killed with a real SIGKILL at every step and at any moment."""

import os
import random
import shutil
import signal
import time

import pytest
from compact_calls import segment_clean, segment_compact
from segment_lake import SegmentLake

from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
KILLED = -signal.SIGKILL
CASES = {
    "sorted": ("LOCAL_SORT", {}),
    "unsorted in pieces": ("NO_SORT", {"task_bytes": 1000}),
}


def make(path, scope, *, loads=4):
    """A table with four loads of two files; half of them are sorted."""
    lake = SegmentLake(path).create(SORT_COLUMNS="id", SORT_SCOPE=scope)
    for seed in range(loads):
        rows = [{"id": (at * 7) % 30, "v": f"{seed}-{at}"} for at in range(30)]
        lake.load(rows, files=2, group_rows=10, scope="LOCAL_SORT" if seed % 2 else scope)
    return lake


def check_recovers(lake, rows, where):
    """The rows are there, the next command ends the work, and a clean leaves what is live and nothing else."""
    assert lake.count() == rows, where
    assert lake.problems() == [], where
    assert segment_compact(IO, lake.table)["status"] in ("committed", "nothing-to-do"), where
    assert lake.ids() == ["0.1"], where
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
    for folder, wanted in (("attempts", 0), ("segments", 1), ("index", 1)):
        assert len(list((lake.path / "Metadata" / folder).iterdir())) == wanted, (where, folder)
    assert not list((lake.path / "Metadata/trash").glob("*")), where
    assert not list(lake.path.rglob(".new-*")), where
    named = {lake.status(version)["retired_file"] for version in lake.versions()}
    assert {path.name for path in (lake.path / "Metadata/retired").iterdir()} <= named, where


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_compaction_killed_at_every_step(tmp_path, children, case, moment):
    """Killed anywhere, the table reads the same, a second run succeeds, and a clean leaves nothing behind."""
    scope, options = CASES[case]
    lake = make(tmp_path / "t", scope)
    rows = lake.count()
    shutil.copytree(lake.path, tmp_path / "aside")
    steps = children.run("segment_compact", path=lake.table, **options)["steps"]
    for step, name in enumerate(steps):
        shutil.rmtree(lake.path)
        shutil.copytree(tmp_path / "aside", lake.path)
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run("segment_compact", path=lake.table, fault=fault, **options)
        where = f"killed {moment} step {step}: {name}"
        assert done["status"] == KILLED, (where, done)
        check_recovers(lake, rows, where)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_clean_killed_at_every_step(tmp_path, children, moment):
    """With a dead compaction, retired segments, old versions and trash to clean: another clean does the rest."""
    lake = make(tmp_path / "t", "LOCAL_SORT", loads=5)
    fault = {"step": 9, "action": "kill", "moment": "after"}
    assert children.run("segment_compact", path=lake.table, fault=fault)["status"] == KILLED
    assert children.run("segment_compact", path=lake.table)["value"]["status"] == "committed"
    lake.delete("4")
    rows = lake.count()
    shutil.copytree(lake.path, tmp_path / "aside")
    steps = children.run("segment_clean", path=lake.table, days=8)["steps"]
    assert any("/status/" in step for step in steps)
    for step, name in enumerate(steps):
        shutil.rmtree(lake.path)
        shutil.copytree(tmp_path / "aside", lake.path)
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run("segment_clean", path=lake.table, days=8, fault=fault)
        where = f"killed {moment} step {step}: {name}"
        assert done["status"] == KILLED, (where, done)
        assert lake.count() == rows, where
        assert lake.problems() == [], where
        assert segment_clean(IO, lake.table, days=8)["unknown"] == [], where
        segment_clean(IO, lake.table, days=20)
        check_tidy(lake, where)
        assert lake.count() == rows, where


def test_a_compaction_killed_at_any_moment(tmp_path, children):
    """The same between steps, with files half written; on one table that also grows."""
    lake = make(tmp_path / "t", "NO_SORT", loads=2)
    killed = 0
    for number in range(8):
        lake.load([{"id": number, "v": "x"}])
        rows = lake.count()
        pid = children.start("segment_compact", path=lake.table, strategy="major", task_bytes=1000)
        time.sleep(random.random() * 0.3)
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
    assert lake.ids() == ["0.2", "12.1"]
    assert lake.count() == rows
