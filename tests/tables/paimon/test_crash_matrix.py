"""The crash matrix of Paimon tables: a real SIGKILL at every step of commit, expiry and removal of leftovers.

A step is a changing call of ``FileIO``. After every kill the table is read and checked by code that is not the
product's; then the same work is done again and must succeed. Children are forked from ``tests/fork_server.py``.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import time

import pytest
from paimon_calls import paimon_commit, paimon_expire, paimon_leftovers, runs_folder
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake
from samples import some

from packstone.errors import PackstoneError
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO

MOMENTS = ("before", "after")
KILLED = -9
IO = LocalFileIO()
LATER = 2 * 86_400


class Scene:
    """A table that can be set back to how it was, at the same path."""

    def __init__(self, root):
        self.root, self.aside = root / "lake", root / "aside"
        self.lake = PaimonLake(self.root / "t").create()
        self.path = self.lake.table
        for first in (0, 5, 10, 15):
            self.lake.append(dict.fromkeys(range(first, first + 10), first))
        self.rows = self.lake.rows()
        self.save("start")

    def save(self, name):
        """Remember the present state."""
        shutil.copytree(self.root, self.aside / name)

    def set_back(self, name="start"):
        """Put a remembered state back."""
        shutil.rmtree(self.root)
        shutil.copytree(self.aside / name, self.root)

    def steps(self, children, call, *, start="start", **arguments):
        """Name the steps of a call; the table is set back afterwards."""
        done = children.run(call, path=self.path, **arguments)
        assert "error" not in done, done
        self.set_back(start)
        return done["steps"]

    def kill(self, children, call, step, moment, **arguments):
        """Do a call and kill it at a step."""
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run(call, path=self.path, fault=fault, **arguments)
        assert done["status"] == KILLED, (step, moment, done)

    def unreferenced(self):
        """Manifests and data files that no snapshot and no tag names."""
        files = TableFiles(self.lake.path)
        tags = [json.loads(path.read_text()) for path in (self.lake.path / "tag").glob("tag-*")]
        # Killed inside a write, the store itself may leave a hidden temporary file, which has no name that we gave it.
        names = {name for name in self.lake.names() if "/.new-" not in name}
        found = {name for name in names if name.startswith(("manifest/", "bucket-"))}
        for snapshot in (*files.snapshots, *tags):
            for which in ("baseManifestList", "deltaManifestList"):
                found.discard(f"manifest/{snapshot[which]}")
                for meta in files.manifests(snapshot[which]):
                    found.discard(f"manifest/{meta['_FILE_NAME']}")
                for entry in files.entries(snapshot[which]):
                    found.discard(f"bucket-{entry.bucket}/{entry.file['_FILE_NAME']}")
        return found

    def check_intact(self, where):
        """Every row is there once, every snapshot is whole."""
        assert self.lake.rows() == self.rows, where
        assert self.lake.problems() == [], where

    def check_usable(self, where, merge="minor"):
        """Another writer appends, the next compaction succeeds; what the dead left goes by its recorded names."""
        self.lake.append({1: 99})
        expected = self.rows | {(None, 1): 99}
        done = paimon_commit(IO, self.path, merge=merge)
        assert done["snapshot"] == self.lake.latest()["id"], where
        assert done["conflicts"] == [], where
        assert {entry.file["_LEVEL"] for entry in self.lake.live()} == {5}, where
        end_living_runs(self.path)
        paimon_leftovers(IO, self.path, now_seconds=time.time() + LATER)
        assert self.unreferenced() == set(), where
        assert self.lake.rows() == expected, where
        assert self.lake.problems() == [], where


def end_living_runs(path):
    """Say that this process's own run has ended."""
    from pathlib import Path

    for folder in Path(runs_folder(path)).iterdir():
        (folder / "ended.json").write_text("{}")


@pytest.fixture
def scene(tmp_path):
    """Two buckets, four overlapping commits."""
    return Scene(tmp_path)


@pytest.mark.parametrize("merge", ["minor", "full"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_commit_killed_at_every_step(scene, children, moment, merge):
    """Killed anywhere, a commit happened or it did not; rows stay, the next one succeeds, leftovers go by name."""
    steps = scene.steps(children, "paimon_commit", merge=merge)
    assert sum("/manifest/manifest-" in step for step in steps) >= 4  # merged, delta, two lists
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        scene.kill(children, "paimon_commit", step, moment, merge=merge)
        scene.check_intact(where)
        published = "/snapshot/LATEST" in name or ("/snapshot/snapshot-" in name and moment == "after")
        assert scene.lake.ids()[-1] == (5 if published else 4), where
        scene.check_usable(where, merge)
        scene.set_back()


def test_commit_killed_at_any_moment(scene, children):
    """Not only between steps: a process that commits in a loop is killed after random times, also inside a write."""
    chance = random.Random(7)
    for number in range(20):
        scene.lake.append({100 + number: number})
        scene.rows = scene.lake.rows()
        pid = children.start("paimon_commit", path=scene.path, merge=chance.choice(["minor", "full"]))
        time.sleep(chance.uniform(0.0, 0.12))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        children.wait(pid)
        scene.check_intact(number)
    scene.check_usable("at the end")


@pytest.mark.parametrize(
    ("action", "moment"),
    [(Action.FAIL, Moment.BEFORE), (Action.FAIL, Moment.AFTER), (Action.TEAR, Moment.BEFORE)],
)
def test_storage_fails_at_every_step_of_a_commit(scene, children, action, moment):
    """A full disk or a lost mount at any step is one clear sentence, or no harm at all."""
    for step, name in some(enumerate(scene.steps(children, "paimon_commit"))):
        where = f"{action} {moment} step {step}: {name}"
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=action, moment=moment))
        try:
            paimon_commit(io, scene.path)
        except PackstoneError as error:
            assert error.message.count("\n") == 0, where  # noqa: PT017 - there may be no error
        except OSError:
            assert "/runs/" in name, where  # the test's own run folder, before the commit begins
        for torn in scene.lake.path.rglob("*.torn"):
            torn.unlink()  # the injected half file has a name of its own
        scene.check_intact(where)
        scene.check_usable(where)
        scene.set_back()


@pytest.fixture
def compacted(scene):
    """The scene after a compaction, appends and a second compaction, with a tag on the second snapshot."""
    paimon_commit(IO, scene.path)
    scene.lake.append({0: 1, 1: 1})
    paimon_commit(IO, scene.path)
    scene.rows = scene.lake.rows()
    (scene.lake.path / "tag").mkdir()
    (scene.lake.path / "tag/tag-t").write_text(json.dumps(scene.lake.snapshot(2)))
    end_living_runs(scene.path)
    scene.tagged = scene.lake.snapshot(2)
    scene.tagged_rows = scene.lake.rows(2)
    scene.save("compacted")
    return scene


@pytest.mark.parametrize("moment", MOMENTS)
def test_expiry_killed_at_every_step(compacted, children, moment):
    """Killed anywhere: the tag and every retained snapshot read as before; the next run removes exactly the rest."""
    scene = compacted
    rows = {number: scene.lake.rows(number) for number in scene.lake.ids()}
    children.run("paimon_expire", path=scene.path, keep=2)
    whole = scene.lake.names()
    scene.set_back("compacted")
    steps = scene.steps(children, "paimon_expire", start="compacted", keep=2)
    assert [step.rpartition("/")[2] for step in steps[:2]] == ["EARLIEST", "LATEST"]
    assert steps[-1].endswith("/snapshot/snapshot-5")
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        scene.kill(children, "paimon_expire", step, moment, keep=2)
        check_retained(scene, rows, where)
        assert scene.lake.ids()[-1] == 7, where
        paimon_expire(IO, scene.path, keep=2)
        assert scene.lake.names() == whole, where
        check_retained(scene, rows, where)
        assert scene.lake.problems() == [], where
        scene.check_usable(where)
        scene.set_back("compacted")


def check_retained(scene, rows, where):
    """The tag and the newest two snapshots read as before."""
    for number in (6, 7):
        assert scene.lake.rows(number) == rows[number], where
    assert scene.lake.rows(snapshot=scene.tagged) == scene.tagged_rows, where


def test_an_interrupted_expiry_does_not_stop_commits(compacted, children):
    """A commit right after a killed expiry succeeds, before anybody has finished the expiry."""
    scene = compacted
    steps = scene.steps(children, "paimon_expire", start="compacted", keep=1)
    for step in (1, len(steps) // 2, len(steps) - 2):
        scene.kill(children, "paimon_expire", step, "after", keep=1)
        scene.lake.append({1: 99})
        assert paimon_commit(IO, scene.path)["conflicts"] == []
        assert scene.lake.rows() == scene.rows | {(None, 1): 99}
        scene.set_back("compacted")


@pytest.mark.parametrize("moment", MOMENTS)
def test_removal_of_leftovers_killed_at_every_step(scene, children, moment):
    """Killed anywhere, nothing that is named is touched, and the next removal finishes."""
    commits = scene.steps(children, "paimon_commit")
    step = next(at for at, name in enumerate(commits) if "/snapshot/snapshot-" in name)
    scene.kill(children, "paimon_commit", step, "before")
    assert len(scene.unreferenced()) >= 5
    scene.save("crashed")
    later = {"now_seconds": time.time() + LATER}
    steps = scene.steps(children, "paimon_leftovers", start="crashed", **later)
    assert len(steps) >= 6
    for number, name in some(enumerate(steps)):
        where = f"killed {moment} step {number}: {name}"
        scene.kill(children, "paimon_leftovers", number, moment, **later)
        scene.check_intact(where)
        paimon_leftovers(IO, scene.path, **later)
        assert scene.unreferenced() == set(), where
        scene.check_usable(where)
        scene.set_back("crashed")
