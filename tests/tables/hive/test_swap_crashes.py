"""The crash matrix: a real SIGKILL at every step of every commit, then recovery, then every row is compared.

A step is a changing call of ``FileIO``; ``FaultyFileIO`` kills before or after it. A first run without a fault counts
the steps. The child processes are forked from ``tests/fork_server.py``.
"""

import contextlib
import shutil
from itertools import product

import duckdb
import pytest
from samples import some

from packstone.errors import PackstoneError
from packstone.pipeline.table import Table
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

MERGE = {"target_bytes": 1_700, "min_files": 2}  # dt=1: four files become two; dt=2: two become one
MOMENTS = ("before", "after")
KILLED = -9


class Scene:
    """A table that can be set back to how it was, at the same path (journals hold absolute paths)."""

    def __init__(self, lake, tree, aside):
        self.lake, self.tree, self.aside = lake, tree, aside
        self.path = str(lake.table)
        lake.parquet("dt=1", files=4)
        lake.parquet("dt=2", files=2)
        for folder in ("", "dt=1"):
            lake.text(folder, {"_metadata": b"footers of all files", "_SUCCESS": b""})
        self.before = tree(lake.table)
        self.ids = lake.ids()
        self.save("start")

    def save(self, name):
        """Remember the present state."""
        shutil.copytree(self.lake.root, self.aside / name, symlinks=True)

    def set_back(self, name="start"):
        """Put a remembered state back."""
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.aside / name, self.lake.root, symlinks=True)

    def table(self, io=None):
        """Open the table."""
        return Table(self.path, io=io)

    def rows(self):
        """The ids of all rows, by DuckDB."""
        found = duckdb.sql(f"SELECT id FROM read_parquet('{self.path}/**/*.parquet') ORDER BY id").fetchall()
        return [row[0] for row in found]

    def check_mended(self, where):
        """After recovery: every row once, nothing staged, nothing pending, and a second recovery finds nothing."""
        assert self.rows() == self.ids, where
        assert not list((self.lake.root / ".packstone" / "orders" / "staging").rglob("*")), where
        assert self.table().recover().to_json()["status"] == "nothing-to-do", where

    def check_usable(self, where):
        """The table can be merged again, and restoring all runs gives the original files back, byte for byte."""
        outcome = self.table().compact(HiveOptions(**MERGE))
        assert outcome.status in ("committed", "nothing-to-do"), (where, outcome.skipped)
        assert self.rows() == self.ids, where
        assert sum(name.startswith("part-") for name in self.lake.names("dt=1")) == 0, where
        self.restore_all()
        assert self.tree(self.lake.table) == self.before, where

    def restore_all(self):
        """Undo every run, newest first."""
        journal = self.table().open().journal
        infos = [journal.runs.read_info(run) for run in journal.list_runs()]
        for info in sorted((info for info in infos if info is not None), key=lambda info: info.started_at)[::-1]:
            self.table().restore(info.run)


@pytest.fixture
def scene(lake, tree, tmp_path):
    """A table of two partitions with summary files, and all its rows known."""
    return Scene(lake, tree, tmp_path / "aside")


def fault(step, moment, action="kill"):
    """A fault as the child takes it."""
    return {"step": step, "action": action, "moment": moment}


def learn_steps(scene, children, call, *, start="start", **arguments):
    """How many steps a call has, by name; the table is set back afterwards."""
    done = children.run(call, path=scene.path, **arguments)
    assert "error" not in done, done
    scene.set_back(start)
    return done["steps"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_compaction_killed_at_every_step(scene, children, moment):
    """Whatever step a compaction is killed at, recovery loses no row, doubles none, and the originals come back."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    assert len(steps) > 40
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        done = children.run("compact", path=scene.path, fault=fault(step, moment), **MERGE)
        assert done["status"] == KILLED, where
        scene.table().recover()
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back()


@pytest.mark.parametrize("part", ["intent.json", "move", "done.json"])
def test_the_command_recovers_too(scene, children, packstone_process, part):
    """``packstone recover`` repairs a killed swap, says so, and answers 0; the next one has nothing to do."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    step = next(at for at, name in enumerate(steps) if name.startswith(part) or name.endswith(part))
    children.run("compact", path=scene.path, fault=fault(step, "after"), **MERGE)
    done = packstone_process("recover", scene.path, "--format", "json")
    assert (done.code, done.json["status"]) == (0, "recovered"), done
    scene.check_mended(part)
    scene.check_usable(part)


def test_compaction_itself_recovers_what_a_dead_one_left(scene, children):
    """Nobody need call ``recover``: the next compaction first repairs what it finds, then finishes the work."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    for step, name in enumerate(steps):
        if not name.startswith("move"):
            continue
        children.run("compact", path=scene.path, fault=fault(step, "after"), **MERGE)
        scene.check_usable(name)
        scene.set_back()


def kill_recovery(scene, children, *, swap_steps, recover_steps):
    """Kill a compaction, then its recovery, then check what a second recovery makes of it."""
    for step, moment in swap_steps:
        scene.set_back()
        children.run("compact", path=scene.path, fault=fault(step, moment), **MERGE)
        scene.save(f"swap-{step}-{moment}")
        names = learn_steps(scene, children, "recover", start=f"swap-{step}-{moment}")
        for again, second in recover_steps(names):
            where = f"killed {moment} step {step}, then {second} step {again} of recovery: {names[again]}"
            done = children.run("recover", path=scene.path, fault=fault(again, second))
            assert done["status"] == KILLED, where
            scene.table().recover()
            scene.check_mended(where)
            scene.check_usable(where)
            scene.set_back(f"swap-{step}-{moment}")


def swap_span(steps):
    """The steps between the first intent and the last mark."""
    inside = [at for at, name in enumerate(steps) if "intent.json" in name or "done.json" in name]
    return range(inside[0], inside[-1] + 1)


@pytest.mark.slow
def test_recovery_killed_at_every_step(scene, children):
    """A recovery that is killed leaves nothing that the next one cannot repair: forward, and back."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    moves = [at for at in swap_span(steps) if steps[at].startswith("move")]
    sample = [(moves[1], "before"), (moves[4], "after")]
    kill_recovery(
        scene, children, swap_steps=sample, recover_steps=lambda names: product(range(len(names)), ("after",))
    )


@pytest.mark.soak
def test_recovery_killed_at_every_step_of_every_crash(scene, children):
    """The full product: every step of the swap, then every step of its recovery, before and after."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    kill_recovery(
        scene,
        children,
        swap_steps=product(swap_span(steps), MOMENTS),
        recover_steps=lambda names: product(range(len(names)), MOMENTS),
    )


def test_rolling_back_killed_at_every_step(scene, children):
    """A swap that must be undone, because an original was changed after the crash, may be killed while it is undone."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    step = [at for at, name in enumerate(steps) if name.startswith("move")][2]
    children.run("compact", path=scene.path, fault=fault(step, "before"), **MERGE)
    changed = scene.lake.table / "dt=1" / "part-00003.parquet"
    shutil.copy(scene.lake.table / "dt=2" / "part-00004.parquet", changed)
    scene.ids = sorted([*(i for i in scene.ids if not 30 <= i < 40), *range(40, 50)])
    scene.save("changed")
    names = learn_steps(scene, children, "recover", start="changed")
    assert any("undone" in name for name in names)
    for again, second in product(range(len(names)), MOMENTS):
        where = f"{second} step {again}: {names[again]}"
        assert children.run("recover", path=scene.path, fault=fault(again, second))["status"] == KILLED, where
        scene.table().recover()
        scene.check_mended(where)
        assert scene.lake.names("dt=1")[-4:] == [f"part-{n:05d}.parquet" for n in range(4)], where
        scene.set_back("changed")


@pytest.mark.parametrize("moment", MOMENTS)
def test_restore_killed_at_every_step(scene, children, moment):
    """A restore that is killed is finished by recovery or not begun; repeating it gives the originals back."""
    run = scene.table().compact(HiveOptions(**MERGE)).run
    scene.save("merged")
    steps = learn_steps(scene, children, "restore", start="merged", run=run)
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        done = children.run("restore", path=scene.path, run=run, fault=fault(step, moment))
        assert done["status"] == KILLED, where
        scene.table().recover()
        scene.check_mended(where)
        scene.table().restore(run)
        assert scene.tree(scene.lake.table) == scene.before, where
        scene.set_back("merged")


def test_compaction_finishes_a_killed_restore(scene, children):
    """A half-done restore is not a state to merge on: the next compaction finishes it first, and no row is lost."""
    run = scene.table().compact(HiveOptions(**MERGE)).run
    scene.save("merged")
    steps = learn_steps(scene, children, "restore", start="merged", run=run)
    for step, name in enumerate(steps):
        if not name.startswith("move"):
            continue
        children.run("restore", path=scene.path, run=run, fault=fault(step, "after"))
        scene.check_usable(name)
        scene.set_back("merged")


@pytest.mark.parametrize("moment", MOMENTS)
def test_clean_killed_at_every_step(scene, children, moment):
    """A clean that is killed is finished by the next one; the merged rows are never touched."""
    run = scene.table().compact(HiveOptions(**MERGE, keep_days=0)).run
    scene.save("merged")
    merged = scene.tree(scene.lake.table)
    steps = learn_steps(scene, children, "clean", start="merged")
    backup = scene.lake.root / ".packstone" / "orders" / "backup" / run
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        done = children.run("clean", path=scene.path, fault=fault(step, moment))
        assert done["status"] == KILLED, where
        scene.table().recover()
        scene.check_mended(where)
        scene.table().clean()
        assert not [path for path in backup.rglob("*") if path.is_file()], where
        assert scene.table().clean().to_json()["status"] == "nothing-to-do", where
        assert scene.tree(scene.lake.table) == merged, where
        scene.set_back("merged")


@pytest.mark.parametrize(
    ("action", "moment"),
    [(Action.FAIL, Moment.BEFORE), (Action.FAIL, Moment.AFTER), (Action.TEAR, Moment.BEFORE)],
)
def test_storage_fails_at_every_step_of_a_compaction(scene, children, action, moment):
    """A full disk or lost mount at any step is a clean error or a failed unit; recovery repairs it in this process."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    for step, name in some(enumerate(steps)):
        if action is Action.TEAR and not name.startswith(("write_new", "replace")):
            continue  # only a write can tear
        where = f"{action} {moment} step {step}: {name}"
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=action, moment=moment))
        try:
            scene.table(io).compact(HiveOptions(**MERGE))
        except PackstoneError as error:
            assert error.message.count("\n") == 0, where  # noqa: PT017 - there may be no error
        scene.table().recover()
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back()


@pytest.mark.parametrize("moment", list(Moment))
def test_storage_fails_at_every_step_of_a_recovery(scene, children, moment):
    """A recovery that cannot write says so, holds no partition afterwards, and the next one repairs all."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    step = [at for at, name in enumerate(steps) if name.startswith("move")][4]
    children.run("compact", path=scene.path, fault=fault(step, "after"), **MERGE)
    scene.save("crashed")
    for again, name in some(enumerate(learn_steps(scene, children, "recover", start="crashed"))):
        where = f"{moment} step {again}: {name}"
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=again, action=Action.FAIL, moment=moment))
        with contextlib.suppress(PackstoneError, OSError):
            scene.table(io).recover()
        scene.table().recover()
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back("crashed")


@pytest.mark.parametrize("call", ["restore", "clean"])
def test_storage_fails_at_every_step_of_undoing(scene, children, call):
    """A restore or clean that cannot write can be repeated; rows are never lost."""
    run = scene.table().compact(HiveOptions(**MERGE, keep_days=0)).run
    arguments = {"run": run} if call == "restore" else {}
    scene.save("merged")
    for step, name in some(enumerate(learn_steps(scene, children, call, start="merged", **arguments))):
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=Action.FAIL, moment=Moment.AFTER))
        with contextlib.suppress(PackstoneError, OSError):
            getattr(scene.table(io), call)(**arguments)
        scene.table().recover()
        scene.check_mended(f"{step}: {name}")
        getattr(scene.table(), call)(**arguments)
        if call == "restore":
            assert scene.tree(scene.lake.table) == scene.before, name
        assert scene.rows() == scene.ids, name
        scene.set_back("merged")


def test_two_partitions_one_broken_run(scene, children):
    """A crash in the second partition's swap leaves the first one's as it is: done, and restorable with the run."""
    steps = learn_steps(scene, children, "compact", **MERGE)
    second = next(at for at, name in enumerate(steps) if name.startswith("move") and "dt=2" in name)
    children.run("compact", path=scene.path, fault=fault(second, "after"), **MERGE)
    report = scene.table().recover()
    assert len(report.actions) == 1
    assert "dt=2: swap finished" in report.actions[0]
    scene.check_usable("second partition")


def test_steps_are_counted_from_the_same_run(scene, children):
    """The matrix covers what it says: two counting runs take the same steps, whatever their ids are."""
    first = learn_steps(scene, children, "compact", **MERGE)
    second = learn_steps(scene, children, "compact", **MERGE)
    assert [name.split()[0] for name in first] == [name.split()[0] for name in second]
