"""Whole commands, killed or asked to stop at any moment: no row is lost, and what is left behind is repaired."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from patience import patient

from packstone.pipeline.table import Table
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

PACKSTONE = Path(sys.executable).with_name("packstone")


def start_compact(lake, env):
    """Begin ``packstone compact`` and wait until its run has begun."""
    runs = lake.root / ".packstone" / "orders" / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    command = [PACKSTONE, "compact", lake.table, "--set", "min-files=2"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + patient(30)
    while process.poll() is None and time.monotonic() < until:
        if runs.exists() and set(runs.iterdir()) - before:
            break
        time.sleep(0.001)
    return process


def end(process):
    """Wait; return exit code, stdout and stderr."""
    out, err = process.communicate(timeout=patient(60))
    return process.returncode, out, err


def staged(lake):
    """What is left in the staging folder."""
    return list((lake.root / ".packstone" / "orders" / "staging").rglob("*"))


def kill_commands(lake, env, *, times):
    """Kill the command again and again on one table that keeps growing."""
    killed = 0
    for round_number in range(times):
        lake.parquet(f"dt={round_number % 3}", files=8, rows=5)
        process = start_compact(lake, env)
        time.sleep(random.random() * 0.12)
        process.kill()
        killed += end(process)[0] == -signal.SIGKILL
    ids = list(range(times * 8 * 5))
    report = Table(str(lake.table)).recover()
    assert report.left == ()
    assert (lake.ids(), staged(lake)) == (ids, [])
    return killed


@pytest.mark.slow
def test_killed_a_dozen_times(lake, quiet_env):
    """SIGKILL at a random moment, twelve times on the same table: after one recovery all rows are there, once."""
    assert kill_commands(lake, quiet_env, times=12) > 0


@pytest.mark.soak
def test_killed_hundreds_of_times(lake, quiet_env):
    """The long form."""
    kill_commands(lake, quiet_env, times=400)


def test_killed_in_quick_succession(lake, children):
    """The same with forked processes, so that the kill falls anywhere in the run and not in the interpreter's start."""
    killed = 0
    for round_number in range(60):
        lake.parquet(f"dt={round_number % 3}", files=4, rows=3)
        pid = children.start("compact", path=str(lake.table), min_files=2)
        time.sleep(round_number % 5 * 0.014)  # every fifth never gets far
        os.kill(pid, signal.SIGKILL)
        killed += children.wait(pid)["status"] == -signal.SIGKILL
    Table(str(lake.table)).recover()
    assert (lake.ids(), staged(lake)) == (list(range(60 * 4 * 3)), [])
    assert killed > 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop(lake, quiet_env, number):
    """SIGTERM and Ctrl-C: exit code 143 or 130, one sentence on stderr, nothing staged, no swap half done."""
    stopped, tries = 0, 0
    while stopped < 2 and tries < 20:  # on a busy machine the signal often comes too late
        tries += 1
        lake.parquet("dt=1", files=60)
        ids = lake.ids()
        process = start_compact(lake, quiet_env)
        time.sleep(random.random() * 0.08)
        process.send_signal(number)
        code, out, err = end(process)
        assert lake.ids() == ids
        assert staged(lake) == []
        assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"
        if code == 0:  # it was done before the signal came
            continue
        assert code == 128 + number, (out, err)
        assert err.startswith("packstone: Interrupted"), (out, err)
        assert len(err.splitlines()) == 1, err
        stopped += 1
    assert stopped > 0


@pytest.mark.parametrize(("restored", "says"), [(1, "1 of 3 partitions is restored, the others are still"), (3, "")])
def test_a_restore_that_is_asked_to_stop(lake, packstone, monkeypatch, restored, says):
    """It says how many partitions are restored, and continues when it is run again, until all are."""
    for day in (1, 2, 3):
        lake.parquet(f"dt={day}", files=4)
    ids = lake.ids()
    run = packstone("compact", lake.table, "--set", "min-files=2", "--format", "json").json["run"]

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            super()._step(name, path, act, torn=torn)
            if path.endswith(f"dt={restored}~1.restoring.json"):
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("packstone.pipeline.table.open_store", lambda _: Stop(LocalFileIO()))
        done = packstone("restore", run, lake.table, "--yes")
    assert (done.code, says in done.err) == (130 if says else 0, True), done
    assert [len(lake.names(f"dt={day}")) for day in (1, 2, 3)] == [4 if day <= restored else 1 for day in (1, 2, 3)]
    assert lake.ids() == ids
    assert packstone("restore", run, lake.table, "--yes").code == 0
    assert [len(lake.names(f"dt={day}")) for day in (1, 2, 3)] == [4, 4, 4]
    assert lake.ids() == ids


class Signalling(FaultyFileIO):
    """The local files, with a signal to ourselves right before one step."""

    def __init__(self, step):
        super().__init__(LocalFileIO())
        self._when, self.at = step, ""

    def _step(self, name, path, act, *, torn=None):
        if len(self.steps) == self._when and not self.at:
            self.at = f"{name} {path}"
            signal.raise_signal(signal.SIGTERM)
        super()._step(name, path, act, torn=torn)


def test_asked_to_stop_at_every_step(lake, packstone, monkeypatch, tree):
    """Before the first move the table is untouched, from then on the swap is finished; never anything between."""
    step, codes = 0, []
    while True:
        store = Signalling(step)
        lake.parquet("dt=1", files=4, rows=3)
        lake.parquet("dt=2", files=4, rows=3)
        ids, before = lake.ids(), tree(lake.table)
        with monkeypatch.context() as patch:
            patch.setattr("packstone.pipeline.table.open_store", lambda _, store=store: store)
            done = packstone("compact", lake.table, "--set", "min-files=2")
        where = (step, store.at, done)
        assert lake.ids() == ids, where
        assert staged(lake) == [], where
        assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do", where
        if not store.at:
            break
        # At the very end, when all is published, there is nothing left to stop.
        everything = all(name.startswith("packstone-") for day in ("dt=1", "dt=2") for name in lake.names(day))
        assert done.code == (0 if everything and "interrupted" not in done.out else 143), where
        moved = any(name.startswith("move") for name in store.steps)
        assert (tree(lake.table) != before) is moved, where
        codes.append(done.code)
        shutil.rmtree(lake.root)
        step += 1
    assert codes.count(143) > 20


def test_a_signal_during_a_conflict_is_not_forgotten(lake, packstone, monkeypatch):
    """A signal that comes while a swap ends in a conflict still ends the command, with what is written published."""
    lake.parquet("dt=1", files=4)
    lake.parquet("dt=2", files=4)

    class Both(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if path.endswith("wave-0001.intent.json"):
                os.utime(lake.table / "dt=1" / "part-00002.parquet")
                signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    store = Both(LocalFileIO())
    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: store)
    done = packstone("compact", lake.table, "--set", "min-files=2")
    assert done.code == 143
    # The first is in conflict; the second was written and proved in the same wave, so it is published.
    assert (len(lake.names("dt=1")), len(lake.names("dt=2"))) == (4, 1)
    assert "1 of 2 partitions is published" in done.err


@pytest.mark.parametrize(("signals", "published"), [(1, 3), (2, 1)])
def test_a_second_signal_begins_no_further_partition(lake, packstone, monkeypatch, signals, published):
    """One signal during a commit publishes all that is written; after a second one, only the swap that has begun."""
    for partition in ("dt=1", "dt=2", "dt=3"):
        lake.parquet(partition, files=4)
    ids = lake.ids()

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if name == "move" and path.endswith("dt=1/part-00002.parquet"):
                for _ in range(signals):
                    signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    store = Stop(LocalFileIO())
    with monkeypatch.context() as patch:
        patch.setattr("packstone.pipeline.table.open_store", lambda _: store)
        done = packstone("compact", lake.table, "--set", "min-files=2", "--format", "json")
    assert (done.code, len(done.json["units"])) == (143, published)
    assert [len(lake.names(f"dt={day}")) for day in (1, 2, 3)] == [1 if day <= published else 4 for day in (1, 2, 3)]
    assert packstone("recover", lake.table, "--format", "json").json["status"] == "nothing-to-do"
    assert lake.ids() == ids
    assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
    assert [len(lake.names(f"dt={day}")) for day in (1, 2, 3)] == [4, 4, 4]


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_notebook_is_interrupted_during_a_swap(lake, thread):
    """Ctrl-C in a program that knows nothing of our handlers: the swap is finished first, then it is interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
    lake.parquet("dt=1", files=4)
    ids = lake.ids()

    class CtrlC(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            super()._step(name, path, act, torn=torn)
            if name == "move" and thread == "main":
                signal.raise_signal(signal.SIGINT)

    table = Table(str(lake.table), io=CtrlC(LocalFileIO()))
    if thread == "main":
        with pytest.raises(KeyboardInterrupt):
            table.compact(HiveOptions(min_files=2))
    else:
        worker = threading.Thread(target=table.compact, args=(HiveOptions(min_files=2),))
        worker.start()
        worker.join()
    assert lake.ids() == ids
    assert all(name.startswith("packstone-") for name in lake.names("dt=1"))
    assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_swap_torn_by_an_error_that_nobody_expects(lake):
    """Any other exception in the middle of a swap leaves what recovery needs; the next command repairs it."""
    lake.parquet("dt=1", files=4)
    ids = lake.ids()

    class Torn(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            super()._step(name, path, act, torn=torn)
            if path.endswith("part-00002.parquet"):
                raise MemoryError

    with pytest.raises(MemoryError):
        Table(str(lake.table), io=Torn(LocalFileIO())).compact(HiveOptions(min_files=2))
    assert len(lake.ids()) < len(ids)
    assert Table(str(lake.table)).compact(HiveOptions(min_files=2)).recovered
    assert lake.ids() == ids


def test_a_committed_run_that_is_stopped_is_recorded(lake, packstone, monkeypatch):
    """A signal in the middle of the only swap: it is published, so the history knows the run."""
    lake.parquet("dt=1", files=4)

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if path.endswith("part-00002.parquet"):
                signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: Stop(LocalFileIO()))
    done = packstone("compact", lake.table, "--set", "min-files=2", "--format", "json")
    assert (done.code, done.json["status"], len(done.json["units"])) == (143, "partial", 1)
    assert done.json["interrupted"] == "SIGTERM"
    assert done.json["run"] in packstone("history").out
