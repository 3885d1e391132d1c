"""The crash matrix on HDFS: a real SIGKILL at the steps of every commit, then recovery, then every row is compared.

As ``test_swap_crashes.py`` does on local disks, with a real NameNode and DataNode. There is nothing to copy a state
back with, so every crash has a table of its own.
"""

from itertools import count

import pytest
from format_files import FORMATS
from hdfs_lake import HdfsLake

from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

MERGE = {"min_files": 2}
KILLED = -9


@pytest.fixture
def new_lake(hdfs, use_hdfs):
    """Make one table after the other."""
    numbers = count()

    def make(*formats):
        return HdfsLake(hdfs, f"{use_hdfs}/{next(numbers)}/orders", formats=formats or ("parquet", "text"), files=3)

    return make


@pytest.fixture
def run_child(children, hdfs):
    """Call in a process of its own, killed at a step or not."""

    def call(name, lake, *, step=None, moment="after", **arguments):
        fault = None if step is None else {"step": step, "action": "kill", "moment": moment}
        if moment == "inside":
            fault |= {"action": "kill-inside", "moment": "before"}
        return children.run(name, path=lake.address, fault=fault, env=hdfs.env, **arguments)

    return call


def learn_steps(run_child, lake, call, **arguments):
    """The steps of a call by name."""
    done = run_child(call, lake, **arguments)
    assert "error" not in done, done
    return done["steps"]


def check_mended(lake, where):
    """After recovery: every row once, nothing staged, nothing pending."""
    table = Table(lake.address)
    table.recover()
    lake.check_rows(where)
    assert lake.staged() == [], where
    assert table.recover().to_json()["status"] == "nothing-to-do", where


def check_usable(lake, where):
    """The table can be merged again, and restoring all runs gives the original files back, byte for byte."""
    table = Table(lake.address)
    outcome = table.compact(HiveOptions(**MERGE))
    assert outcome.status in ("committed", "nothing-to-do"), (where, outcome.skipped)
    lake.check_rows(where)
    infos = [table.open().journal.runs.read_info(run) for run in table.open().journal.list_runs()]
    for info in sorted((info for info in infos if info is not None), key=lambda info: info.started_at)[::-1]:
        table.restore(info.run)
    assert lake.content() == lake.before, where


def swap_steps(steps):
    """The steps between the first intent and the last mark that change what is seen."""
    inside = [at for at, name in enumerate(steps) if "intent.json" in name or "done.json" in name]
    return [at for at in range(inside[0], inside[-1] + 1) if not steps[at].startswith("sync_")]


def merged(lake, **options):
    """Merge the table in this process; returns the run."""
    outcome = Table(lake.address).compact(HiveOptions(**MERGE, **options))
    assert outcome.status == "committed", outcome.skipped
    return outcome.run


def test_compaction_killed_in_its_swaps(new_lake, run_child):
    """Whatever step of a swap a compaction is killed after, recovery loses no row, doubles none, and restores."""
    steps = learn_steps(run_child, new_lake(), "compact", **MERGE)
    inside = swap_steps(steps)
    assert sum(steps[at].startswith("move") for at in inside) == 8  # three originals out and one output in, twice
    for step in inside[::2]:
        lake, where = new_lake(), f"killed after step {step}: {steps[step]}"
        assert run_child("compact", lake, step=step, **MERGE)["status"] == KILLED, where
        check_mended(lake, where)
        if steps[step].startswith("move"):
            check_usable(lake, where)


def test_every_format_killed_in_a_swap(new_lake, run_child):
    """Every format that is merged, in one table, killed in the middle of a swap: repaired, merged again, restored."""
    steps = learn_steps(run_child, new_lake(*FORMATS), "compact", **MERGE)
    moves = [at for at in swap_steps(steps) if steps[at].startswith("move")]
    assert len(moves) == 4 * len(FORMATS)
    lake, step = new_lake(*FORMATS), moves[len(moves) // 2 + 1]
    assert run_child("compact", lake, step=step, **MERGE)["status"] == KILLED
    check_mended(lake, steps[step])
    check_usable(lake, steps[step])


def test_recovery_killed(new_lake, run_child):
    """A recovery that is killed leaves nothing that the next one cannot repair."""
    lake = new_lake("parquet")
    steps = learn_steps(run_child, lake, "compact", **MERGE)
    step = [at for at in swap_steps(steps) if steps[at].startswith("move")][1]
    lake = new_lake("parquet")
    run_child("compact", lake, step=step, **MERGE)
    names = learn_steps(run_child, lake, "recover")
    moves = [at for at, name in enumerate(names) if name.startswith("move")]
    for again in moves:
        lake, where = new_lake("parquet"), f"killed after step {again} of recovery: {names[again]}"
        run_child("compact", lake, step=step, **MERGE)
        assert run_child("recover", lake, step=again)["status"] == KILLED, where
        check_mended(lake, where)


def test_restore_killed(new_lake, run_child):
    """A restore that is killed is finished by recovery or not begun; repeating it gives the originals back."""
    lake = new_lake("text")
    steps = learn_steps(run_child, lake, "restore", run=merged(lake))
    for step in [at for at, name in enumerate(steps) if name.startswith("move")][::2]:
        lake, where = new_lake("text"), f"killed after step {step}: {steps[step]}"
        run = merged(lake)
        assert run_child("restore", lake, run=run, step=step)["status"] == KILLED, where
        check_mended(lake, where)
        Table(lake.address).restore(run)
        assert lake.content() == lake.before, where


def test_clean_killed(new_lake, run_child):
    """A clean that is killed is finished by the next one; the merged rows are never touched."""
    lake = new_lake("parquet")
    merged(lake, keep_days=0)
    steps = learn_steps(run_child, lake, "clean")
    removals = [at for at, name in enumerate(steps) if name.startswith("remove")]
    for step in (removals[0], removals[len(removals) // 2]):
        lake, where = new_lake("parquet"), f"killed after step {step}: {steps[step]}"
        merged(lake, keep_days=0)
        assert run_child("clean", lake, step=step)["status"] == KILLED, where
        check_mended(lake, where)
        Table(lake.address).clean()
        assert Table(lake.address).clean().to_json()["status"] == "nothing-to-do", where
        lake.check_rows(where)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("moment", ["inside", "after"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_every_call_killed_at_every_step(new_lake, run_child, file_format, moment):
    """The full matrix: compact, recover, restore and clean, every step, every format."""
    steps = learn_steps(run_child, new_lake(file_format), "compact", **MERGE)
    middle = [at for at in swap_steps(steps) if steps[at].startswith("move")][1]
    for call in ("compact", "recover", "restore", "clean"):
        _kill_everywhere(new_lake, run_child, call, middle=middle, file_format=file_format, moment=moment)


def _kill_everywhere(new_lake, run_child, call, *, middle, file_format, moment):
    def prepared():
        lake = new_lake(file_format)
        if call == "recover":
            run_child("compact", lake, step=middle, **MERGE)
        run = merged(lake, keep_days=0) if call in ("restore", "clean") else None
        return lake, {"compact": MERGE, "restore": {"run": run}}.get(call, {})

    lake, arguments = prepared()
    for step, name in enumerate(learn_steps(run_child, lake, call, **arguments)):
        if moment == "inside" and not _leaves_something_inside(name):
            continue
        where = f"{call} killed {moment} step {step}: {name}"
        lake, arguments = prepared()
        assert run_child(call, lake, step=step, moment=moment, **arguments)["status"] == KILLED, where
        check_mended(lake, where)
        if call != "clean":
            check_usable(lake, where)


def _leaves_something_inside(name):
    """Whether killing inside a step or before it is another case than killing after the step before it.

    Only files on their way are: a write leaves half of one under a name of its own; data files are no steps, and the
    first step after one sets its permissions.
    """
    return name.startswith(("write_new", "replace", "set_permissions"))
