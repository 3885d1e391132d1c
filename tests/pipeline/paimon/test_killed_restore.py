"""The undoing of a Paimon compaction, killed with a real SIGKILL at every step and at any moment.

The table is as it was or undone, never half: the copies of the inputs belong to nobody until the one snapshot is
published, and their names are on record before they are there.
"""

import os
import shutil
import signal
import time

import pytest
from paimon_calls import paimon_leftovers
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake
from samples import some

from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.options import PaimonOptions

FULL = PaimonOptions(strategy="full")
KILLED = -signal.SIGKILL
TWO_DAYS = 2 * 86_400


@pytest.fixture
def lake(tmp_path):
    """Two buckets: one merged from three commits, one whose only file was moved to the top level; newer rows."""
    lake = PaimonLake(tmp_path / "lake" / "t").create()
    lake.append(dict.fromkeys(range(10), 1))
    for value in (2, 3):
        lake.append(dict.fromkeys(range(0, 10, 2), value))
    lake.run = Table(lake.table).compact(FULL).run
    lake.append({4: 9})
    return lake


def levels(lake):
    """On which levels the files of each bucket are, without the newest commit."""
    return sorted((entry.bucket, entry.file["_LEVEL"], entry.file["_ROW_COUNT"]) for entry in lake.live())


COMPACTED = [(0, 0, 1), (0, 5, 5), (1, 5, 5)]
UNDONE = [(0, 0, 1), (0, 0, 5), (0, 0, 5), (0, 0, 5), (1, 0, 5)]


def unreferenced_data(lake):
    """Data files that no snapshot names."""
    files = TableFiles(lake.path)
    named = {
        entry.file["_FILE_NAME"]
        for snapshot in files.snapshots
        for which in ("baseManifestList", "deltaManifestList")
        for entry in files.entries(snapshot[which])
    }
    return {path.name for path in lake.path.rglob("bucket-*/data-*")} - named


def check_recovers(lake, rows, where):
    """The table is whole; the next restore ends the work; leftovers of the dead run go by recorded names."""
    assert lake.rows() == rows, where
    assert lake.problems() == [], where
    was = levels(lake)
    assert was in (COMPACTED, UNDONE), where
    Table(lake.table).recover()
    report = Table(lake.table).restore(lake.run).to_json()
    assert report["status"] == ("restored" if was == COMPACTED else "nothing-to-do"), where
    assert levels(lake) == UNDONE, where
    assert Table(lake.table).restore(lake.run).to_json()["status"] == "nothing-to-do", where
    paimon_leftovers(LocalFileIO(), lake.table, now_seconds=time.time() + TWO_DAYS)
    assert unreferenced_data(lake) == set(), where
    assert lake.rows() == rows, where
    assert lake.problems() == [], where


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_killed_at_every_step(lake, children, tmp_path, moment):
    """Killed anywhere, the table is as it was or undone; the next restore knows which."""
    rows = lake.rows()
    shutil.copytree(lake.path.parent, tmp_path / "aside")
    done = children.run("paimon_restore", path=lake.table, run=lake.run)
    assert done["value"]["status"] == "restored", done
    steps = done["steps"]
    assert sum("sync_file" in step and "/bucket-" in step for step in steps) == 4
    assert any("/snapshot/snapshot-" in step for step in steps)
    published = False
    for step, name in some(enumerate(steps)):
        shutil.rmtree(lake.path.parent)
        shutil.copytree(tmp_path / "aside", lake.path.parent)
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run("paimon_restore", path=lake.table, run=lake.run, fault=fault)
        where = f"killed {moment} step {step}: {name}"
        assert done["status"] == KILLED, (where, done)
        is_publishing = "write_new" in name and "/snapshot/snapshot-" in name
        assert levels(lake) == (UNDONE if published or (is_publishing and moment == "after") else COMPACTED), where
        published |= is_publishing
        check_recovers(lake, rows, where)
    assert published


def test_a_restore_killed_at_any_moment(lake, children):
    """The same between steps: copies half written; each run on the table as the one before left it."""
    killed = 0
    for number in range(10):
        rows = lake.rows()
        pid = children.start("paimon_restore", path=lake.table, run=lake.run)
        time.sleep(number * 0.01)
        os.kill(pid, signal.SIGKILL)
        killed += children.wait(pid)["status"] == KILLED
        assert lake.rows() == rows
        assert lake.problems() == []
        assert levels(lake) in (COMPACTED, UNDONE)
    assert killed > 0
    check_recovers(lake, lake.rows(), "at the end")
