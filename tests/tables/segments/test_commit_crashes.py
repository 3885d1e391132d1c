"""The crash matrix of segment commits: a real SIGKILL, a failure and a torn write at every step of every edit.

A step is a changing call of ``FileIO``. After each, the table reads as before or as after the commit that was cut; the
next commit works; and what is left over is lists that no version names. Children are forked from
``tests/fork_server.py``.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import segment_calls
from segment_calls import segment_create, segment_delete, segment_load, segment_merge

from packstone.errors import CommitUnknownError, InvalidInputError, PackstoneError
from packstone.model.segment import SegmentId
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.status_files import (
    list_versions,
    read_head,
    read_history,
    read_latest,
    read_retired,
    read_version,
)

IO = LocalFileIO()
KILLED = -9
CALLS = {
    "segment_load": {},
    "segment_load overwrite": {"overwrite": True},
    "segment_merge": {"inputs": ["4", "5"], "output": "4.1"},
    "segment_delete": {"ids": ["4", "5"]},
    "segment_cleaned": {"ids": ["0", "1"]},
    "segment_alter": {"COMPRESSION": "none"},
}


class Scene:
    """A table with live, compacted, deleted and cleaned segments, that can be set back."""

    def __init__(self, root, *, more_loads=27, more_deletes=15):
        """By default, so that the next load or merge writes a chunk, and the next retirement another."""
        self.root, self.aside = root / "lake", root / "aside"
        self.path = str(self.root / "t")
        self.root.mkdir()
        segment_create(IO, self.path)
        for _ in range(6):
            segment_load(IO, self.path)
        segment_merge(IO, self.path, ["0", "1"], "0.1")
        segment_delete(IO, self.path, ["2", "3"])
        segment_calls.segment_cleaned(IO, self.path, ["2"])
        for _ in range(more_loads):
            segment_load(IO, self.path)
        segment_delete(IO, self.path, map(str, range(6, 6 + more_deletes)))
        shutil.copytree(self.root, self.aside)

    def set_back(self):
        """Put the table back to how it was."""
        shutil.rmtree(self.root)
        shutil.copytree(self.aside, self.root)

    def state(self, status=None):
        """What a version says, without what differs from run to run."""
        status = status or read_latest(IO, self.path)
        return (
            [str(entry) for entry in status.entries],
            [str(entry) for entry in read_retired(IO, self.path, status)],
            [str(entry) for entry in read_history(IO, self.path, status)],
            [running.inputs for running in status.running],
            status.properties,
            status.next_load,
        )

    def states(self, children, call, **arguments):
        """The steps of a call, and the states before it and after each of its commits; then the table is set back."""
        first = read_latest(IO, self.path).version
        done = children.run(call, path=self.path, **arguments)
        assert "error" not in done, done
        versions = range(first, read_latest(IO, self.path).version + 1)
        states = [self.state(read_version(IO, self.path, version)) for version in versions]
        self.set_back()
        return done["steps"], states

    def check_usable(self, where):
        """Every version is whole, lists that are named are there, and other commits get through."""
        versions = list_versions(IO, self.path)
        for version in versions:
            self.state(read_version(IO, self.path, version))
        loaded = segment_load(IO, self.path)
        segment_merge(IO, self.path, [loaded], f"{loaded}.1")
        segment_delete(IO, self.path, [f"{loaded}.1"])
        status = read_latest(IO, self.path)
        assert status.version == versions[-1] + 5, where
        assert {SegmentId.parse(loaded), SegmentId.parse(f"{loaded}.1")} <= {
            entry.id for entry in read_retired(IO, self.path, status)
        }, where

    def unnamed(self):
        """Chunks and lists that no version names."""
        heads = [read_head(IO, self.path, version) for version in list_versions(IO, self.path)]
        named = {f"entries/{one.name}" for head in heads for one in head.live.chunks}
        named |= {f"retired/{one.name}" for head in heads for one in head.retired.chunks}
        named |= {f"history/{name}" for head in heads for name in head.history_files}
        found = {
            f"{folder}/{path.name}"
            for folder in ("entries", "retired", "history")
            for path in Path(self.path, "Metadata", folder).iterdir()
            if not path.name.endswith(".torn")  # injected under its own name
        }
        return found - named


@pytest.fixture
def scene(tmp_path):
    """One for the test."""
    return Scene(tmp_path)


def published(steps):
    """How many of these steps created a version."""
    return sum(step.startswith("write_new") and "/status/" in step for step in steps)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", CALLS)
def test_killed_at_every_step(scene, children, name, moment):
    """The table is as it was before or as it is after each commit; exactly the creation of the version decides."""
    call, arguments = name.split()[0], CALLS[name]
    steps, states = scene.states(children, call, **arguments)
    assert published(steps) == len(states) - 1
    for step, text in enumerate(steps):
        where = f"killed {moment} step {step}: {text}"
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run(call, path=scene.path, fault=fault, **arguments)
        assert done["status"] == KILLED, (where, done)
        happened = published(steps[: step + (moment == "after")])
        assert scene.state() == states[happened], where
        assert len(scene.unnamed()) <= 2, where
        scene.check_usable(where)
        scene.set_back()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_create_killed_at_every_step(tmp_path, children, moment):
    """There is no table or an empty one; in the first case create works again, in the second it says so."""
    path = tmp_path / "t"
    steps = children.run("segment_create", path=path)["steps"]
    for step, text in enumerate(steps):
        where = f"killed {moment} step {step}: {text}"
        shutil.rmtree(path)
        done = children.run("segment_create", path=path, fault={"step": step, "action": "kill", "moment": moment})
        assert done["status"] == KILLED, where
        if published(steps[: step + (moment == "after")]):
            with pytest.raises(InvalidInputError, match="is a segment table already"):
                segment_create(IO, str(path))
        else:
            with pytest.raises(InvalidInputError, match="is not a segment table"):
                read_latest(IO, str(path))
            segment_create(IO, str(path))
        assert segment_load(IO, str(path)) == "0", where


@pytest.mark.parametrize(
    ("action", "moment"),
    [(Action.FAIL, Moment.BEFORE), (Action.FAIL, Moment.AFTER), (Action.TEAR, Moment.BEFORE)],
)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sample(3)
def test_storage_fails_at_every_step(scene, children, name, action, moment):
    """One failure is repaired or reported in a sentence; what was reported as not committed is not."""
    call, arguments = name.split()[0], CALLS[name]
    steps, states = scene.states(children, call, **arguments)
    for step, text in enumerate(steps):
        where = f"{action} {moment} step {step}: {text}"
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=action, moment=moment))
        try:
            getattr(segment_calls, call)(io, scene.path, **arguments)
        except PackstoneError as error:
            assert not isinstance(error, CommitUnknownError), where  # noqa: PT017 - there may be no error
            assert "\n" not in error.message, where  # noqa: PT017
            assert "Nothing was committed." in error.message, where  # noqa: PT017
            assert scene.state() == states[published(steps[:step])], where
            assert scene.unnamed() == set(), where
        else:
            assert scene.state() == states[-1], where
        scene.check_usable(where)
        scene.set_back()


def test_killed_at_any_moment(scene, children):
    """Not only between steps: loads in a loop are killed after random times, also inside a write."""
    chance = random.Random(7)
    for number in range(15):
        before = read_latest(IO, scene.path)
        pid = children.start("segment_load_loop", path=scene.path, count=50)
        time.sleep(chance.uniform(0.0, 0.1))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        children.wait(pid)
        after = read_latest(IO, scene.path)
        assert {entry.id for entry in before.live} <= {entry.id for entry in after.live}, number
        assert after.next_load - before.next_load == len(after.entries) - len(before.entries), number
    assert sum(entry.is_running for entry in read_latest(IO, scene.path).entries) <= 15
    scene.check_usable("at the end")
