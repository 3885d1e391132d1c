"""A whole compaction of a Paimon table, killed with a real SIGKILL at every step and at any moment.

The commit alone has its own matrix (tests/tables/paimon/test_crash_matrix.py); here the run's records, payloads, data
files and results are steps too.
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
    """Two buckets, three commits that overlap."""
    lake = PaimonLake(tmp_path / "lake" / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


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
    """The rows are there, the next compaction ends the work, and what the dead run left goes by recorded names."""
    assert lake.rows() == rows, where
    assert lake.problems() == [], where
    assert Table(lake.table).compact(FULL).status in ("committed", "nothing-to-do"), where
    assert {entry.file["_LEVEL"] for entry in lake.live()} == {5}, where
    paimon_leftovers(LocalFileIO(), lake.table, now_seconds=time.time() + TWO_DAYS)
    assert unreferenced_data(lake) == set(), where
    assert lake.rows() == rows, where
    assert lake.problems() == [], where


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_compaction_killed_at_every_step(lake, children, tmp_path, moment):
    """Killed anywhere, the table reads the same, a second run succeeds, and no file stays that nobody knows of."""
    rows = lake.rows()
    shutil.copytree(lake.path.parent, tmp_path / "aside")
    steps = children.run("paimon_compact", path=lake.table)["steps"]
    assert any("/bucket-" in step or "created-" in step for step in steps)
    assert any("/snapshot/snapshot-" in step for step in steps)
    for step, name in some(enumerate(steps)):
        shutil.rmtree(lake.path.parent)
        shutil.copytree(tmp_path / "aside", lake.path.parent)
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run("paimon_compact", path=lake.table, fault=fault)
        where = f"killed {moment} step {step}: {name}"
        assert done["status"] == KILLED, (where, done)
        check_recovers(lake, rows, where)


def test_a_compaction_killed_at_any_moment(lake, children):
    """The same between steps: data files half written, footers missing; ten runs on one table that also grows."""
    killed = 0
    for number in range(10):
        lake.append({number: 100 + number})
        rows = lake.rows()
        pid = children.start("paimon_compact", path=lake.table)
        time.sleep(number * 0.02)  # the first one never gets far
        os.kill(pid, signal.SIGKILL)
        killed += children.wait(pid)["status"] == KILLED
        assert lake.rows() == rows
        assert lake.problems() == []
    assert killed > 0
    check_recovers(lake, lake.rows(), "at the end")
