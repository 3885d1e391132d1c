"""Loads of segment tables, killed with a real SIGKILL at their steps, and then cleaned: all or nothing, nothing stays.

``test_load_crashes.py`` checks what is in the table after the kill; here is what the next load and `clean` do with it.
"""

import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from compact_calls import segment_clean
from segment_lake import SegmentLake
from segment_model import quick_folder

from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
KILLED = -signal.SIGKILL
FIRST, NEW = Counter(range(10)), Counter(range(100, 160))
FORMS = {
    "insert": {"sort_scope": "LOCAL_SORT", "task_bytes": 100},
    "insert, global sort": {"sort_scope": "GLOBAL_SORT", "task_bytes": 100},
    "overwrite": {"overwrite": True, "sort_scope": "NO_SORT", "task_bytes": 100},
    "overwrite, global sort": {"overwrite": True, "sort_scope": "GLOBAL_SORT", "task_bytes": 100},
    "insert and merge": {},
}


class Scene:
    """A table with one segment, its copy, and files to load."""

    def __init__(self, root, *, merges):
        self.lake, self._aside = SegmentLake(root / "t"), root / "aside"
        levels = {"COMPACTION_LEVEL_THRESHOLD": "2,0", "AUTO_LOAD_MERGE": "true"} if merges else {}
        self.lake.create("id long", SORT_COLUMNS="id", **levels)
        self.lake.load([{"id": number} for number in FIRST])
        self.inputs = [
            self._write(root / name, numbers) for name, numbers in (("a", range(130, 99, -1)), ("b", range(131, 160)))
        ]
        self.one = [self._write(root / "one", [7])]
        shutil.copytree(self.lake.path, self._aside)

    @staticmethod
    def _write(path: Path, numbers):
        path = path.with_suffix(".csv")
        path.write_text("\n".join(["id", *map(str, numbers)]) + "\n")
        return str(path)

    def set_back(self):
        """As it was before the load."""
        for folder in (self.lake.path, self.lake.path.parent / ".packstone"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._aside, self.lake.path)

    def rows(self):
        """What DuckDB finds."""
        return Counter(row[0] for row in self.lake.count().elements())


def check_killed(children, form, pick):
    """Kill a load at the steps that ``pick`` chooses, before or after each; look, load again, clean."""
    options = FORMS[form]
    after = NEW if options.get("overwrite") else FIRST + NEW
    with quick_folder() as root:
        scene = Scene(root, merges="merge" in form)
        done = children.run("load_rows", path=scene.lake.table, inputs=scene.inputs, **options)
        assert "error" not in done, done
        assert scene.rows() == after
        seen = set()
        for step, moment in pick(len(done["steps"])):
            scene.set_back()
            fault = {"step": step, "action": "kill", "moment": moment}
            died = children.run("load_rows", path=scene.lake.table, inputs=scene.inputs, fault=fault, **options)
            where = f"killed {moment} step {step}: {done['steps'][step]}"
            assert died["status"] == KILLED, where
            found = scene.rows()
            assert found in (FIRST, after), where
            seen.add(found == after)
            check_recovers(children, scene, found, where)
        assert seen == {True, False}, "it was always killed on one side of its commit"


def check_recovers(children, scene, found, where):
    """A clean removes all at once, for its owner is seen to be dead; the next load works; later nothing is left."""
    lake = scene.lake
    assert lake.problems() == [], where
    assert segment_clean(IO, lake.table)["unknown"] == [], where
    assert scene.rows() == found, where
    assert not list(lake.runs().glob("*/created-*")), where
    assert not list(lake.runs().parent.glob("staging/*")), where
    named = {Path(file).name for file in lake.files()} | {Path(one).name for one in retired_files(lake)}
    assert {Path(file).name for file in lake.data_on_disk()} == named, where
    again = children.run("load_rows", path=lake.table, inputs=scene.one)
    assert "error" not in again, (where, again)
    assert scene.rows() == found + Counter([7]), where
    for days in (8, 20, 40):
        assert segment_clean(IO, lake.table, days=days)["unknown"] == [], where
    assert scene.rows() == found + Counter([7]), where
    assert lake.problems() == [], where
    check_tidy(lake, where)


def check_tidy(lake, where):
    """Nothing is left but what the newest version names."""
    assert {str(lake.path / one) for one in lake.data_on_disk()} == set(lake.files()), where
    for folder, count in (("segments", len(lake.ids())), ("index", len(lake.ids())), ("trash", 0)):
        found = lake.path / "Metadata" / folder
        assert len(list(found.iterdir()) if found.exists() else ()) == count, (where, folder)
    assert lake.open_runs() == [], where
    assert not list(lake.path.rglob(".new-*")), where
    assert lake.status()["running"] == [], where
    assert len(lake.live()) == len(lake.status()["entries"]), where


def retired_files(lake):
    """The data files of retired segments that are not cleaned yet."""
    for entry in lake.retired().values():
        if entry["segment_file"]:
            content = json.loads((lake.path / "Metadata/segments" / entry["segment_file"]).read_bytes())
            yield from (file["path"] for file in content["files"])


@pytest.mark.parametrize(("form", "offset"), [(form, at) for at, form in enumerate(FORMS)])
@pytest.mark.sample(5)
def test_a_load_killed_at_some_steps(children, form, offset):
    """Every fifth step and the last ones, in turns before and after."""

    def pick(count):
        steps = {*range(offset, count, 5), *range(count - 4, count)}
        return [(step, "before" if at % 2 else "after") for at, step in enumerate(sorted(steps))]

    check_killed(children, form, pick)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", FORMS)
def test_a_load_killed_at_every_step(children, form):
    """All of them, before and after."""
    check_killed(
        children, form, lambda count: [(step, moment) for step in range(count) for moment in ("before", "after")]
    )
