"""Workers do what one process does, on all cores; they end with their parent, and one that dies is replaced."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from abort_on_read import DEADLY_ROWS, aborting_env
from paimon_lake import PaimonLake
from patience import patient
from pool_jobs import BROKEN, OTHERS, TRICKS, Trick

from packstone.errors import UnavailableError
from packstone.model.limits import Budget
from packstone.pipeline.table import Table
from packstone.runs import engine as engines
from packstone.runs import worker_pool
from packstone.runs.deaths import MAX_DEATHS
from packstone.runs.engine import InlineEngine
from packstone.runs.tasks import pack_units
from packstone.runs.worker_pool import WORKER_BYTES, WorkerPool, count_cores, count_workers
from packstone.storage.local import LocalFileIO

PACKSTONE = Path(sys.executable).with_name("packstone")
IO = LocalFileIO()
# Every process of a command that gets this: workers for any work, however small, and two of them on any machine.
TWO_WORKERS = """
import packstone.runs.engine as engines
import packstone.runs.tasks as tasks
import packstone.runs.worker_pool as worker_pool

engines.POOL_MIN_FILES = tasks._LEAST_TASK_BYTES = 1
worker_pool.count_workers = lambda: 2
"""


@pytest.fixture
def pool(tmp_path):
    """Two workers, and a folder for their tasks."""
    pool = WorkerPool(2)
    pool.staging = str(tmp_path)
    yield pool
    pool.close()


def run(pool, units, *, job=TRICKS, tasks=None):
    """Run units, each in a task of its own by default; return the results, and all progress that was reported."""
    reported = []
    packed = pack_units(units, context=None, parallelism=2, parallel=tasks or len(units))
    run = pool.run(job, packed, io=IO, staging=pool.staging, on_progress=lambda *done: reported.append(done))
    found = []
    for number, attempt in run:
        content = json.loads(Path(pool.staging, f"result-{number:06d}-{attempt}.json").read_text())
        found += content["units"]
    return found, reported


def is_living(pid):
    """Whether a process exists and is not a zombie."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition):
    """Wait until a condition holds; return what it says."""
    until = time.monotonic() + patient(60)
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def test_tasks_in_their_order(pool):
    """Results come in the order of the tasks, from two processes, none of which is this one; progress ends at all."""
    found, reported = run(pool, [Trick(number=at) for at in range(8)])
    assert [unit["number"] for unit in found] == list(range(8))
    pids = {unit["outputs"][0] for unit in found}
    assert 1 <= len(pids) <= 2
    assert str(os.getpid()) not in pids
    assert reported[-1] == (8, 80)
    assert reported == sorted(reported)


def test_workers_stay_for_the_next_wave(pool):
    """A second call for the same job, in another folder, starts no process."""
    first, _ = run(pool, [Trick(number=at) for at in range(4)])
    shutil.rmtree(pool.staging)
    Path(pool.staging).mkdir()
    second, _ = run(pool, [Trick(number=at) for at in range(4)])
    assert {unit["outputs"][0] for unit in second} <= {unit["outputs"][0] for unit in first}


def test_workers_stay_for_another_job(pool):
    """Tasks of another job are run by the same processes, each with the code of its own job."""
    before, _ = run(pool, [Trick(number=at) for at in range(4)])
    others, _ = run(pool, [Trick(number=at) for at in range(4)], job=OTHERS)
    after, _ = run(pool, [Trick(number=at) for at in range(4)])
    assert {unit["message"] for unit in others} == {"done by another job"}
    assert "done by another job" not in {unit["message"] for unit in after}
    pids = {unit["outputs"][0] for unit in before}
    assert {unit["outputs"][0] for unit in (*others, *after)} <= pids
    with pytest.raises(RuntimeError, match="There is no such code here"):
        run(pool, [Trick(number=0), Trick(number=1)], job=BROKEN)
    again, _ = run(pool, [Trick(number=at) for at in range(4)])
    assert not pids & {unit["outputs"][0] for unit in again}  # an error of the pool ends its workers


def test_the_fork_server_has_no_threads(pool):
    """A lock that a thread holds would stay locked in a fork; jemalloc's own thread knows forks."""
    found, _ = run(pool, [Trick(number=0), Trick(number=1)])
    for unit in found:
        assert len([name for name in unit["outputs"][1:] if name != "jemalloc_bg_thd"]) == 1


def test_a_worker_that_is_killed_costs_one_attempt(pool):
    """Its task is done by another worker; the other tasks, and the count of what is done, are as if nothing was."""
    units = [Trick(number=at, what="die once" if at in {1, 5} else "live") for at in range(8)]
    found, reported = run(pool, units, tasks=2)
    assert sorted(unit["number"] for unit in found) == list(range(8))
    assert reported[-1] == (8, 80)
    assert len({unit["message"] for unit in found}) == 2  # the names of the attempts that ended


def test_a_task_that_always_dies(pool):
    """It is given up after N attempts that each of its units was left alone before; no worker is left."""
    with pytest.raises(UnavailableError, match=f"ended {MAX_DEATHS + 2} times without a message"):
        run(pool, [Trick(number=0, what="die"), Trick(number=1)])
    assert not pool._busy


def test_an_error_outside_of_units(pool):
    """It is raised here as it was raised there, with the traceback of the process."""
    with pytest.raises(RuntimeError, match=r"(?s)In a worker process: Traceback.+There is no such code here"):
        run(pool, [Trick(number=0), Trick(number=1)], job=BROKEN)
    with pytest.raises(FileNotFoundError):
        run(pool, [Trick(number=0, what="remove the folder")])


def test_a_caller_who_stops_early(pool):
    """When the iterator is closed, the workers have ended, in the middle of what they did."""
    tasks = pack_units([Trick(number=0), Trick(number=1, what="wait")], context=None, parallelism=2, parallel=2)
    running = pool.run(TRICKS, tasks, io=IO, staging=pool.staging, on_progress=lambda *_: None)
    assert next(running)[0] == 0
    pid = wait_for(lambda: Path(pool.staging, "before-1").exists() and Path(pool.staging, "before-1").read_text())
    assert is_living(pid)
    running.close()
    assert not is_living(pid)
    found, _ = run(pool, [Trick(number=0), Trick(number=1)])  # and the pool can be used again
    assert len(found) == 2


def test_the_fork_server_is_killed(pool):
    """Its workers end with it, whatever they do; their tasks are done by the workers of another server."""
    found, _ = run(pool, [Trick(number=0, what="kill the server once"), Trick(number=1), Trick(number=2)])
    assert [unit["number"] for unit in found] == [0, 1, 2]


# ---- memory and cores ----


def test_workers_are_bounded_by_memory(tmp_path, monkeypatch):
    """One worker for each core, fewer where half of the memory of the control group holds fewer tasks; never none."""
    monkeypatch.setattr(worker_pool, "_CGROUPS", str(tmp_path))
    group = next(
        line.removeprefix("0::")
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if line.startswith("0::")
    )
    folder = Path(f"{tmp_path}{group}")
    folder.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    assert count_cores() == cores
    (folder / "memory.max").write_text("max\n")
    (folder / "cpu.max").write_text("max 100000\n")
    assert count_cores() == cores
    (folder / "memory.max").write_text(f"{2 * WORKER_BYTES}\n")
    assert count_workers() == 1
    (folder / "memory.max").write_text("1000000\n")
    assert count_workers() == 1
    (folder / "memory.max").write_text(f"{2 * 1000 * WORKER_BYTES}\n")
    (folder / "cpu.max").write_text("50000 100000\n")
    assert (count_cores(), count_workers()) == (1, 1)


# ---- whole runs ----


@pytest.fixture
def two_workers(monkeypatch):
    """The inline engine of this process uses two workers for any work."""
    # First: imported while the other one is patched, the module would keep that limit for all later tests.
    monkeypatch.setattr("packstone.tables.hive.observe.POOL_MIN_FILES", 1)
    monkeypatch.setattr(engines, "POOL_MIN_FILES", 1)
    monkeypatch.setattr("packstone.runs.tasks._LEAST_TASK_BYTES", 1)
    monkeypatch.setattr(worker_pool, "count_workers", lambda: 2)


@pytest.fixture
def pool_env(quiet_env, tmp_path):
    """The same for commands in processes of their own."""
    return aborting_env(quiet_env, tmp_path / "hook", more=TWO_WORKERS)


@pytest.fixture
def partitions(lake):
    """Eight partitions of files, one of which is broken."""
    for day in range(8):
        lake.parquet(f"dt={day}", files=6, rows=10)
    broken = lake.table / "dt=3" / "part-00020.parquet"
    broken.write_bytes(broken.read_bytes()[:-9])
    return lake


def comparable(outcome):
    """An outcome without names and times of its run."""
    content = outcome.to_json()
    units = sorted((unit["part"], unit["rows"], unit["fingerprint"]) for unit in content["units"])
    return content["status"], content["files_after"], content["rows"], units, content["skipped"]


@pytest.mark.usefixtures("two_workers")
def test_the_outcome_is_that_of_one_process(partitions, tmp_path):
    """The same partitions, rows, fingerprints and skips, and merged files of the same bytes."""
    one, two = tmp_path / "one", tmp_path / "two"
    outcomes = []
    for copy, parallel in ((one, 1), (two, None)):
        shutil.copytree(partitions.table, copy / "orders")
        table = Table(str(copy / "orders"), engine=InlineEngine)
        outcomes.append(table.compact(budget=Budget(parallel=parallel)))
    assert [str(outcome.engine) for outcome in outcomes] == ["inline", "inline: 2 processes"]
    found = [
        (comparable(outcome), sorted(path.read_bytes() for path in copy.glob("orders/dt=*/packstone-*")))
        for copy, outcome in zip((one, two), outcomes, strict=True)
    ]
    said = [json.dumps(content[0]).replace(str(copy), "") for content, copy in zip(found, (one, two), strict=True)]
    assert said[0] == said[1]
    assert found[0][1] == found[1][1]


@pytest.mark.usefixtures("two_workers")
def test_a_merge_tree(tmp_path, packstone):
    """The buckets of a merge tree go through the same workers."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    rows = lake.rows()
    done = packstone("compact", lake.path, "--strategy", "full", "--format", "json")
    assert (done.json["status"], done.json["engine"]["why"]) == ("committed", "2 processes")
    assert lake.rows() == rows


def start(lake, env, **more):
    """Begin a compaction in a process of its own, and return it when its workers have written something."""
    command = [PACKSTONE, "compact", lake.table, "--set", "min-files=2"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def descendants(pid):
    """All living processes below a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_living(entry.name):
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, below = set(), {pid}
    while below:
        below = {child for child, parent in parents.items() if parent in below} - found
        found |= below
    return found


def staged(lake):
    """What is in the staging folder."""
    return [path.name for path in (lake.root / ".packstone" / "orders" / "staging").rglob("*")]


MOMENTS = {
    "the server starts": lambda lake, below: len(below) >= 1,
    "workers start": lambda lake, below: len(below) >= 3,
    "a task has begun": lambda lake, below: any(name.startswith("begun-") for name in staged(lake)),
    "a unit is done": lambda lake, below: any(name.startswith("done-") for name in staged(lake)),
}


def wait_for_moment(process, lake, moment):
    """Wait until a run has reached this point, or has ended; return its processes."""
    below = descendants(process.pid)
    while process.poll() is None and not MOMENTS[moment](lake, below):
        below = descendants(process.pid)
    return below


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_command_is_killed(partitions, pool_env, moment):
    """SIGKILL of the command alone ends all its processes; recovery and the next run find every row."""
    (partitions.table / "dt=3" / "part-00020.parquet").unlink()
    ids = partitions.ids()
    process = start(partitions, pool_env)
    below = wait_for_moment(process, partitions, moment)
    process.kill()
    process.communicate(timeout=patient(60))
    wait_for(lambda: not any(map(is_living, below | descendants(process.pid))))
    assert partitions.ids() == ids
    Table(str(partitions.table)).recover()
    assert (partitions.ids(), staged(partitions)) == (ids, [])
    outcome = Table(str(partitions.table)).compact()
    assert (partitions.ids(), outcome.to_json()["skipped"]) == (ids, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_the_command_is_asked_to_stop(partitions, pool_env, number, to_group):
    """Ctrl-C goes to the workers too, which leave it to the command: it says one sentence and leaves no process."""
    (partitions.table / "dt=3" / "part-00020.parquet").unlink()
    ids = partitions.ids()
    process = start(partitions, pool_env, start_new_session=True)
    below = wait_for_moment(process, partitions, "a task has begun")
    (os.killpg if to_group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=patient(60))
    assert not any(map(is_living, below))
    assert (partitions.ids(), staged(partitions)) == (ids, [])
    assert Table(str(partitions.table)).recover().to_json()["status"] == "nothing-to-do"
    if process.returncode:  # else it was done before the signal came
        assert process.returncode == 128 + number
        assert err.startswith("packstone: Interrupted")
        assert len(err.splitlines()) == 1, err


def test_a_file_that_ends_a_worker(lake, packstone_process, pool_env):
    """The same run continues with a new worker, leaves the file alone by its name and signal, and merges the rest."""
    for day in range(4):
        lake.parquet(f"dt={day}", files=6, rows=10)
    rows = pa.table({"id": range(10_000, 10_000 + DEADLY_ROWS), "name": ["x"] * DEADLY_ROWS})
    pq.write_table(rows, lake.table / "dt=1" / "deadly.parquet", compression="snappy")
    before = lake.ids()
    done = packstone_process("compact", lake.table, "--format", "json", env=pool_env)
    assert (done.code, done.json["status"]) == (1, "partial")
    assert "ends the process that reads it (SIGABRT)" in done.skipped("dt=1/deadly.parquet")
    assert [len(lake.names(f"dt={day}")) for day in range(4)] == [1, 2, 1, 1]
    assert lake.ids() == before


def test_little_work_needs_no_worker(lake, packstone):
    """Below the limits nothing is started: the engine says what it always said."""
    lake.parquet("dt=1", files=6, rows=10)
    lake.parquet("dt=2", files=6, rows=10)
    assert packstone("compact", lake.table, "--format", "json").json["engine"] == {"name": "inline", "why": ""}


@pytest.mark.slow
def test_the_memory_of_workers_is_bounded(lake, pool_env):
    """No worker holds more than it is counted with, though each merges files that are bigger when decoded."""
    words = ["a long text that repeats and so takes little room in a file" * 4] * 200_000
    for day in range(2):
        for at in range(12):
            lake.folder(f"dt={day}")
            numbers = range(at * 200_000, (at + 1) * 200_000)
            table = pa.table({"id": numbers, "name": words, "more": [f"{number * 7919}" for number in numbers]})
            pq.write_table(table, lake.table / f"dt={day}" / f"{at}.parquet", compression="snappy")
    process = start(lake, pool_env)
    peaks = {}
    while process.poll() is None:
        for pid in descendants(process.pid):
            try:
                status = Path("/proc", str(pid), "status").read_text()
            except OSError:
                continue
            peak = re.search(r"VmHWM:\s+(\d+) kB", status)
            peaks[pid] = int(peak[1]) << 10 if peak else peaks.get(pid, 0)
        time.sleep(0.02)
    process.communicate(timeout=patient(60))
    assert process.returncode == 0
    assert len(peaks) == 3
    assert max(peaks.values()) <= WORKER_BYTES, peaks
