"""Power cuts: whatever was not synced may be lost in any order, and recovery still finds every row once.

``PowerCutFileIO`` knows after each step of a command which names and bytes are durable. The tests put several of the
states that a cut may leave into the place of the table: nothing that was not synced is there, all of it, or a random
part. The command runs in a process of its own, which is dead when recovery looks for it.
"""

import pickle
import random
import shutil
from collections import Counter

import duckdb
import pytest
from samples import some

from packstone.pipeline.table import Table
from packstone.storage.faulty import PowerCutFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

MERGE = {"target_bytes": 1_700, "min_files": 2}  # dt=1: four files become two; dt=2: two become one
CHOICES = {"nothing": lambda _: 0, "all": lambda count: count - 1}
CHOICES |= {f"random {seed}": random.Random(seed).randrange for seed in range(3)}


class Disk:
    """A lake on a disk whose power fails."""

    def __init__(self, lake, tree, aside):
        self.lake, self.tree, self.aside = lake, tree, aside
        self.path, self.root, self.vault = str(lake.table), str(lake.root), str(aside / "vault")
        for partition, files in (("dt=1", 4), ("dt=2", 2), ("dt=3", 2)):
            lake.parquet(partition, files=files)
        for folder in ("", "dt=1"):
            lake.text(folder, {"_metadata": b"footers of all files", "_SUCCESS": b""})
        self.before, self.ids = tree(lake.table), lake.ids()
        (aside / "vault").mkdir(parents=True)

    def run(self, children, command, **arguments):
        """Run a command, and return the states of the disk after its steps."""
        states = self.aside / "states"
        arguments |= {"path": self.path, "root": self.root, "vault": self.vault, "states": str(states)}
        done = children.run("with_power_cuts", command=command, **arguments)
        assert "error" not in done, done
        return pickle.loads(states.read_bytes())  # noqa: S301 - our own

    def cut(self, state, how):
        """Cut the power after a step."""
        state.cut(self.vault, self.root, choose=CHOICES[how])
        return f"{how} of what was not synced is there after: {state.after}"

    def rows(self):
        """The ids that a reader finds, with the times each is found."""
        files = [str(path) for path in self.lake.table.glob("dt=*/*.parquet")]
        found = duckdb.sql(f"SELECT id FROM read_parquet({files})").fetchall() if files else []
        return Counter(row[0] for row in found)

    def check_recovered(self, where):
        """After recovery every row is there once, and a second recovery has nothing to do."""
        left = Table(self.path).recover()
        assert left.to_json()["status"] in ("recovered", "nothing-to-do"), (where, left)
        assert self.rows() == Counter(self.ids), where
        assert Table(self.path).recover().to_json()["status"] == "nothing-to-do", where

    def restore_all(self):
        """Undo every run, newest first."""
        journal = Table(self.path).open().journal
        infos = [journal.runs.read_info(run) for run in journal.list_runs()]
        for info in sorted((info for info in infos if info is not None), key=lambda info: info.started_at)[::-1]:
            Table(self.path).restore(info.run)


@pytest.fixture
def disk(lake, tree, tmp_path):
    """A table of three partitions with summary files."""
    return Disk(lake, tree, tmp_path / "aside")


@pytest.mark.parametrize("how", CHOICES)
def test_a_power_cut_at_every_step_of_a_compaction(disk, children, how):
    """No reader finds a row twice, even before recovery; then every row is there, and the table can be used."""
    states = disk.run(children, "compact", **MERGE)
    assert len(states) > 40
    for number, state in some(enumerate(states)):
        where = disk.cut(state, how)
        assert max(disk.rows().values(), default=1) == 1, where
        disk.check_recovered(where)
        if number % 5 == 0:
            outcome = Table(disk.path).compact(HiveOptions(**MERGE))
            assert outcome.status in ("committed", "nothing-to-do"), (where, outcome.skipped)
            assert disk.rows() == Counter(disk.ids), where
            disk.restore_all()
            assert disk.tree(disk.lake.table) == disk.before, where


@pytest.mark.parametrize("how", CHOICES)
def test_a_power_cut_after_the_last_step(disk, children, how):
    """A run that has ended stays ended: its partitions are merged, no mark is lost, and it can be undone."""
    state = disk.run(children, "compact", **MERGE)[-1]
    disk.cut(state, how)
    assert Table(disk.path).recover().to_json()["status"] == "nothing-to-do"
    assert disk.rows() == Counter(disk.ids)
    assert not list(disk.lake.table.rglob("part-*"))
    disk.restore_all()
    assert disk.tree(disk.lake.table) == disk.before


@pytest.mark.parametrize("how", CHOICES)
def test_a_power_cut_at_every_step_of_a_restore(disk, children, how):
    """A restore that a power cut stopped is finished by recovery, or was not begun."""
    run = Table(disk.path).compact(HiveOptions(**MERGE)).run
    for state in some(disk.run(children, "restore", run=run)):
        where = disk.cut(state, how)
        disk.check_recovered(where)
        Table(disk.path).restore(run)
        assert disk.tree(disk.lake.table) == disk.before, where


def test_a_partition_that_is_merged_again_after_a_cut_run(disk, children):
    """The marks of a wave are durable before its partitions are free: a later run may merge its outputs."""
    released = "owners/dt=1/"
    states = disk.run(children, "compact", **MERGE)
    after = [state for state in states if state.after.startswith("replace ") and released in state.after]
    disk.cut(after[-1], "all")
    disk.lake.parquet("dt=1", files=3)
    ids = disk.lake.ids()
    merged = Table(disk.path).compact(HiveOptions(min_files=2))
    assert merged.status == "committed"
    Table(disk.path).recover()
    assert disk.rows() == Counter(ids)


# ---- the model itself ----


@pytest.fixture
def bare(tmp_path):
    """A store with one durable file, and the function that cuts its power: it returns what is left."""
    (tmp_path / "disk" / "a").mkdir(parents=True)
    (tmp_path / "disk" / "a" / "old").write_bytes(b"old")
    (tmp_path / "vault").mkdir()
    io = PowerCutFileIO(root=str(tmp_path / "disk"), vault=str(tmp_path / "vault"))

    def cut(choose):
        io.states[-1].cut(str(tmp_path / "vault"), str(tmp_path / "disk"), choose=choose)
        found = (path for path in (tmp_path / "disk").rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / "disk")): path.read_bytes() for path in found}

    return io, str(tmp_path / "disk"), cut


def nothing(_count):
    """Nothing that was not synced is left."""
    return 0


def everything(count):
    """All changes of names are left, and of files that were not synced only zeros."""
    return count - 1


def test_what_is_not_synced_is_lost(bare):
    """A file needs its bytes and its name synced; a record that is not durable may be gone or of zeros."""
    io, root, cut = bare
    with io.open_output(f"{root}/a/new") as file:
        file.write(b"new")
    io.replace(f"{root}/a/record", b"1", durable=False)
    io.write_new(f"{root}/a/durable", b"2")
    names = {"a/old": b"old", "a/durable": b"2"}  # the durable write synced the folder, so all names are durable
    assert cut(nothing) == names | {"a/new": b"new", "a/record": b"1"}
    assert cut(everything) == names | {"a/new": bytes(3), "a/record": bytes(1)}


@pytest.mark.parametrize("synced", ["", "from", "to"])
def test_a_move_loses_no_file(bare, synced):
    """Without a sync the file has its old name; with one of its new folder both; with one of its old folder the new."""
    io, root, cut = bare
    io.make_dirs(f"{root}/b")
    io.move(f"{root}/a/old", f"{root}/b/new")
    if synced:
        io.sync_dir(f"{root}/{'a' if synced == 'from' else 'b'}")
    left = {"": {"a/old"}, "from": {"b/new"}, "to": {"a/old", "b/new"}}
    assert set(cut(nothing)) == left[synced]


def test_a_folder_that_is_not_durable_takes_its_files_along(bare):
    """Who moves a file into a new folder must have synced the folder that contains it."""
    io, root, cut = bare
    io.make_dirs(f"{root}/b", durable=False)
    io.move(f"{root}/a/old", f"{root}/b/new")
    io.sync_dir(f"{root}/a")
    assert cut(nothing) == {}


def test_removed_files_may_come_back(bare):
    """A removal is a change of a name like any other."""
    io, root, cut = bare
    io.remove(f"{root}/a/old")
    assert cut(nothing) == {"a/old": b"old"}
    shutil.rmtree(root)
    LocalFileIO().make_dirs(root)
    assert cut(everything) == {}
