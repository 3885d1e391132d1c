"""Several processes on one table at the same time: somebody wins, the others say so, and no row is lost."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

PACKSTONE = Path(sys.executable).with_name("packstone")
GOOD_ENDS = {"committed", "conflict", "nothing-to-do"}


@pytest.mark.slow
def test_two_commands_on_one_partition(lake, quiet_env):
    """Two ``packstone compact`` at once: one commits, the other is a conflict (3) or has nothing to do (0)."""
    for round_number in range(4):
        lake.parquet("dt=1", files=40)
        ids = lake.ids()
        command = [PACKSTONE, "compact", lake.table, "--format", "json"]
        both = [subprocess.Popen(command, env=quiet_env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        answers = [(json.loads(one.communicate(timeout=patient(60))[0])["status"], one.returncode) for one in both]
        statuses = sorted(status for status, _ in answers)
        assert "committed" in statuses, (round_number, answers)
        assert set(statuses) <= GOOD_ENDS, (round_number, answers)
        assert all(code == (3 if status == "conflict" else 0) for status, code in answers), answers
        assert lake.ids() == ids
    assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"


def run_rounds(lake, children, *, rounds, processes):
    """Let several processes compact the same growing partition at slightly different moments, again and again."""
    ends = []
    for round_number in range(rounds):
        lake.parquet("dt=1", files=6, rows=3)
        ids = lake.ids()
        pids = []
        for _ in range(processes):
            pids.append(children.start("compact", path=str(lake.table), min_files=2))
            time.sleep(random.random() * 0.02)
        answers = [children.wait(pid) for pid in pids]
        statuses = [answer.get("value", answer).get("status") for answer in answers]
        assert set(statuses) <= GOOD_ENDS, (round_number, answers)
        assert lake.ids() == ids, (round_number, statuses)
        ends += statuses
    assert ends.count("committed") >= rounds * 0.9
    assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"


@pytest.mark.slow
def test_many_rounds_of_three_processes(lake, children):
    """The same without the start of the interpreter between us and the race, at many different offsets."""
    run_rounds(lake, children, rounds=25, processes=3)


@pytest.mark.soak
def test_hundreds_of_rounds(lake, children):
    """The long form."""
    run_rounds(lake, children, rounds=400, processes=4)


@pytest.mark.slow
def test_restore_against_compact(lake, children):
    """A restore and a compaction of the same partition at once: each happens whole or not at all, rows are the same."""
    for round_number in range(15):
        lake.parquet("dt=1", files=4, rows=3)
        run = Table(str(lake.table)).compact(HiveOptions(min_files=2)).run
        lake.parquet("dt=1", files=4, rows=3)
        ids = lake.ids()
        first = children.start("compact", path=str(lake.table), min_files=2)
        time.sleep(random.random() * 0.05)
        second = children.start("restore", path=str(lake.table), run=run)
        answers = [children.wait(first), children.wait(second)]
        good = {"ConflictError", "RefusedError"}
        assert all("value" in answer or answer["error"] in good for answer in answers), (round_number, answers)
        assert lake.ids() == ids, (round_number, answers)
        assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"


@pytest.mark.slow
def test_recover_and_clean_beside_compactions(lake, children):
    """Maintenance from a schedule meets living runs all the time; it never takes anything from them."""
    lake.parquet("dt=1", files=4, rows=3)
    Table(str(lake.table)).compact(HiveOptions(min_files=2, keep_days=0))
    for round_number in range(12):
        for day in (1, 2, 3):
            lake.parquet(f"dt={day}", files=4, rows=3)
        ids = lake.ids()
        path = str(lake.table)
        pids = [children.start("compact", path=path, min_files=2, keep_days=0)]
        time.sleep(random.random() * 0.05)
        pids += [children.start(call, path=path) for call in ("recover", "clean", "recover")]
        answers = [children.wait(pid) for pid in pids]
        assert all("value" in answer for answer in answers), (round_number, answers)
        # ``clean`` may hold a partition for the moment in which the compaction asks for it.
        skipped = [skip["why"] for skip in answers[0]["value"]["skipped"] if skip["kind"] != "not-needed"]
        assert all("owned by run" in why or "just claimed" in why for why in skipped), (round_number, skipped)
        assert lake.ids() == ids


class Appender:
    """Another writer: adds whole files by rename, as every careful job does, in a process of its own."""

    SCRIPT = """
import os, sys, shutil, time
source, folder = sys.argv[1], sys.argv[2]
for number, name in enumerate(sorted(os.listdir(source))):
    os.rename(os.path.join(source, name), os.path.join(folder, name))
    time.sleep(0.004)
"""

    def __init__(self, source, folder):
        command = [sys.executable, "-c", self.SCRIPT, source, folder]
        self.process = subprocess.Popen(command)

    def is_at_it(self):
        """Whether there is more to come."""
        return self.process.poll() is None


def prepare_files(folder, count):
    """Files of two rows each, whose ids go on from a million."""
    folder.mkdir(parents=True)
    for number in range(count):
        first = 1_000_000 + 2 * number
        pq.write_table(pa.table({"id": [first, first + 1], "name": ["a", "b"]}), folder / f"later-{number:05d}.parquet")
    return list(range(1_000_000, 1_000_000 + 2 * count))


def append_while_compacting(lake, children, *, files, kill):
    """Compact in a loop while another process appends; with ``kill`` half of the compactions are killed."""
    lake.parquet("dt=1", files=3)
    ids = lake.ids() + prepare_files(lake.root / "_incoming", files)
    appender = Appender(lake.root / "_incoming", lake.table / "dt=1")
    rounds = 0
    while appender.is_at_it():
        pid = children.start("compact", path=str(lake.table), min_files=2)
        if kill and rounds % 2:
            time.sleep(random.random() * 0.06)
            os.kill(pid, 9)
        answer = children.wait(pid)
        assert answer["status"] == -9 or answer["value"]["status"] in GOOD_ENDS, answer
        rounds += 1
    assert appender.process.returncode == 0
    Table(str(lake.table)).recover()
    assert lake.ids() == ids
    assert rounds > 1


def test_appends_while_compacting(lake, children):
    """Another process adds files all the time while we compact in a loop: every row is there at the end."""
    append_while_compacting(lake, children, files=300, kill=False)


def test_appends_while_compactions_are_killed(lake, children):
    """The same while every second compaction is killed at a random moment."""
    append_while_compacting(lake, children, files=300, kill=True)


@pytest.mark.soak
def test_appends_for_long(lake, children):
    """The long form of both."""
    append_while_compacting(lake, children, files=10_000, kill=True)
