"""The crash matrix of loads: a real SIGKILL and a failure at every step of a load, in all its forms.

A step is a changing call of ``FileIO``. After each, a reader sees the previous rows, or all of them once the last
commit is done; every file that is there belongs to a segment or is known by name from the records of an attempt; the
next load works; and `clean` leaves nothing of the dead one.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from packstone.pipeline.table import Table
from packstone.runs.clock import system_clock
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.commit import create_table
from packstone.tables.segments.format.segment_file import read_segment_file
from packstone.tables.segments.format.status_files import read_latest, read_retired
from packstone.tables.segments.leftovers import list_attempts, read_created

IO = LocalFileIO()
KILLED = -9
BEFORE = Counter({1: 1, 2: 1})
LOADED = Counter(range(10, 90))
FORMS = {
    "unsorted": {"sort_scope": "NO_SORT", "task_bytes": 100},
    "global": {"sort_scope": "GLOBAL_SORT", "task_bytes": 100},
    "bad": {"bad_records": "REDIRECT"},
    "overwrite": {"overwrite": True},
}


class Scene:
    """A table with one segment, and files to load."""

    def __init__(self, root):
        self.root, self.aside = root / "lake", root / "aside"
        self.path = str(self.root / "t")
        self.root.mkdir()
        properties = {"SORT_COLUMNS": "id", "BAD_RECORDS_ACTION": "IGNORE"}
        create_table(IO, self.path, parse_columns("id long"), properties=properties, clock=system_clock())
        self.inputs = [str(root / "a.csv"), str(root / "b.csv")]
        (root / "first.csv").write_text("id\n1\n2\n")
        (root / "a.csv").write_text("id\n" + "\n".join(map(str, range(50, 9, -1))) + "\nbad\n")
        (root / "b.csv").write_text("id\n" + "\n".join(map(str, range(51, 90))) + "\n")
        self.first = str(root / "first.csv")

    def keep(self):
        """Remember how it is."""
        shutil.copytree(self.root, self.aside)

    def set_back(self):
        """Put the table back to how it was."""
        shutil.rmtree(self.root)
        shutil.copytree(self.aside, self.root)

    def rows(self):
        """What a reader sees."""
        found = Counter()
        for entry in read_latest(IO, self.path).live:
            for file in read_segment_file(IO, self.path, entry.segment_file).files:
                found.update(row[0] for row in duckdb.sql(f"select id from '{self.path}/{file.path}'").fetchall())
        return found

    def strangers(self):
        """Files that no segment has and no attempt recorded."""
        known = set()
        status = read_latest(IO, self.path)
        for entry in (*status.live, *read_retired(IO, self.path, status)):
            if entry.segment_file is None:
                continue
            content = read_segment_file(IO, self.path, entry.segment_file)
            known |= {file.path for file in content.files}
            known |= {f"Metadata/segments/{entry.segment_file}", f"Metadata/index/{content.index_file}"}
            known |= {f"Metadata/badrecords/{entry.id}_{entry.attempt}"}
        for attempt in list_attempts(IO, self.path):
            known |= set(read_created(IO, self.path, attempt))
        found = [str(path.relative_to(self.path)) for path in Path(self.path).rglob("*") if path.is_file()]
        other = ("Metadata/status", "Metadata/latest", "Metadata/retired", "Metadata/history", "Metadata/trash")
        return [name for name in found if not name.startswith(other) and not _is_below(name, known)]


def _is_below(name, known):
    return any(name == one or name.startswith(f"{one}/") for one in known)


@pytest.fixture
def scene(tmp_path, children):
    """A table with two rows."""
    scene = Scene(tmp_path)
    assert "error" not in children.run("load_rows", path=scene.path, inputs=[scene.first])
    assert scene.rows() == BEFORE
    scene.keep()
    return scene


@pytest.mark.parametrize(("form", "first"), [(form, at) for at, form in enumerate(FORMS)])
@pytest.mark.parametrize("action", ["kill", "fail"])
@pytest.mark.sample(4)
def test_a_load_that_dies(scene, children, form, first, action):
    """All or nothing, nothing unknown, and the next load works; of many steps, some."""
    check_steps(scene, children, FORMS[form], action=action, first=first, stride=7)


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("action", ["kill", "fail"])
def test_a_load_that_dies_at_any_step(scene, children, form, action):
    """The same at every step."""
    check_steps(scene, children, FORMS[form], action=action, first=0, stride=1)


def check_steps(scene, children, options, *, action, first, stride):
    """Let a load die at some of its steps, one after the other, and look at what is left."""
    after = LOADED if options.get("overwrite") else BEFORE + LOADED
    done = children.run("load_rows", path=scene.path, inputs=scene.inputs, **options)
    assert "error" not in done, done
    assert scene.rows() == after
    assert scene.strangers() == []
    steps = done["steps"]
    for step in range(first, len(steps), stride):
        scene.set_back()
        fault = {"step": step, "action": action, "moment": "before" if step % 2 else "after"}
        died = children.run("load_rows", path=scene.path, inputs=scene.inputs, fault=fault, **options)
        assert died["status"] == (KILLED if action == "kill" else 0)
        found = scene.rows()
        assert found in (BEFORE, after), steps[step]
        assert scene.strangers() == [], steps[step]
        if action == "fail" and "error" in died:
            assert died["error"] != "unexpected", died["message"]
            assert found == BEFORE, steps[step]
        again = children.run("load_rows", path=scene.path, inputs=[scene.first])
        assert "error" not in again, again
        assert scene.rows() == found + BEFORE


def test_a_killed_load_is_cleaned(scene, children):
    """What a killed load has written goes with the first clean, and its entry leaves the status."""
    options = FORMS["global"]
    steps = children.run("load_rows", path=scene.path, inputs=scene.inputs, **options)["steps"]
    scene.set_back()
    before = set(Path(scene.path).rglob("*.parquet"))
    last = max(at for at, step in enumerate(steps) if "/segments/" in step)
    fault = {"step": last, "action": "kill", "moment": "after"}
    assert children.run("load_rows", path=scene.path, inputs=scene.inputs, fault=fault, **options)["status"] == KILLED
    assert set(Path(scene.path).rglob("*.parquet")) > before
    assert len(read_latest(IO, scene.path).loading) == 1
    cleaned = children.run("clean_rows", path=scene.path)
    assert "error" not in cleaned, cleaned
    assert read_latest(IO, scene.path).loading == ()
    assert list_attempts(IO, scene.path) == ()
    assert set(Path(scene.path).rglob("*.parquet")) - {*Path(scene.path).rglob("trash/**/*.parquet")} == before
    assert scene.rows() == BEFORE


def test_loads_at_once(scene, children):
    """Loads in processes of their own never wait for each other, and all of them succeed."""
    started = [
        children.start("load_rows", path=scene.path, inputs=scene.inputs, **FORMS[form])
        for form in ("unsorted", "global", "bad", "global")
    ]
    done = [children.wait(pid) for pid in started]
    assert all("error" not in one for one in done), done
    assert len({one["value"]["segment"] for one in done}) == len(done)
    assert scene.rows() == BEFORE + LOADED + LOADED + LOADED + LOADED
    assert scene.strangers() == []
    assert list_attempts(IO, scene.path) == ()


# ---- loads that one process begins and another one finishes ----


def begin(scene, children, **options):
    """Begin a load whose driver is this process, and write all rows by two tasks and a failed attempt of the second."""
    load = value(children.run("begin_rows", path=scene.path, driver=os.getpid(), **options))
    ids = sorted(LOADED)
    tasks = [(0, ids[:30]), (1, ids[30:]), (1, ids[30:])]
    done = [value(children.run("write_rows", load=load, ids=part, task=task)) for task, part in tasks]
    return load, done[:2]


def value(answer):
    """What a call returned."""
    assert "error" not in answer, answer
    return answer["value"]


@pytest.mark.parametrize(("scope", "first"), [("NO_SORT", 0), ("GLOBAL_SORT", 1)])
def test_a_commit_that_dies_is_aborted(scene, children, scope, first):
    """Spark aborts a write whose commit died: visible rows stay, of others nothing does; nothing happens twice."""
    check_aborts(scene, children, scope, first=first, stride=7)


@pytest.mark.soak
@pytest.mark.parametrize("scope", ["NO_SORT", "LOCAL_SORT", "GLOBAL_SORT"])
def test_a_commit_that_dies_at_any_step_is_aborted(scene, children, scope):
    """The same at every step."""
    check_aborts(scene, children, scope, first=0, stride=1)


def check_aborts(scene, children, scope, *, first, stride):
    """Kill the process that commits at some of its steps, and let another one abort."""
    load, results = begin(scene, children, sort_scope=scope)
    assert scene.rows() == BEFORE
    scene.root.rename(scene.root.with_name("open"))
    shutil.copytree(scene.root.with_name("open"), scene.root)
    done = children.run("finish_rows", load=load, results=results)
    assert value(done)["rows"] == 80
    assert scene.rows() == BEFORE + LOADED
    check_nothing_open(scene)
    for step in range(first, len(done["steps"]), stride):
        shutil.rmtree(scene.root)
        shutil.copytree(scene.root.with_name("open"), scene.root)
        fault = {"step": step, "action": "kill", "moment": "before" if step % 2 else "after"}
        died = children.run("finish_rows", load=load, results=results, fault=fault)
        assert died["status"] == KILLED
        found = scene.rows()
        assert found in (BEFORE, BEFORE + LOADED), done["steps"][step]
        value(children.run("abandon_rows", load=load))
        assert scene.rows() == found, done["steps"][step]
        check_nothing_open(scene, done["steps"][step])
        again = children.run("finish_rows", load=load, results=results)
        assert again["error"] == "ConflictError", again
        assert scene.rows() == found


def check_nothing_open(scene, *why):
    """No load is registered, no file is unknown, no record is left but those of lost attempts."""
    assert read_latest(IO, scene.path).loading == (), why
    assert scene.strangers() == [], why
    data = {str(path) for path in Path(scene.path).glob("Fact/**/*.parquet")}
    assert data == set(Table(scene.path).segments.files().paths), why


def test_an_open_load_lives_as_long_as_its_driver(scene, children):
    """No other command takes it for dead while the driver lives; once that is dead, clean removes all of it."""
    load, results = begin(scene, children)
    assert any("is still running" in text for text in value(children.run("clean_rows", path=scene.path))["left_alone"])
    assert value(children.run("finish_rows", load=load, results=results))["rows"] == 80
    scene.set_back()
    driver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    load = value(children.run("begin_rows", path=scene.path, driver=driver.pid))
    value(children.run("write_rows", load=load, ids=[7], task=0))
    driver.kill()
    driver.communicate()
    value(children.run("clean_rows", path=scene.path))
    check_nothing_open(scene)
    assert list_attempts(IO, scene.path) == ()
    assert scene.rows() == BEFORE


def test_a_stream_has_one_open_load(scene, children):
    """A batch that begins abandons what an earlier batch of the same query and driver left, and nothing else."""
    mine, other = ({"driver": os.getpid(), "stream": name} for name in ("mine", "other"))
    lost = value(children.run("begin_rows", path=scene.path, **mine))
    value(children.run("write_rows", load=lost, ids=[7], task=0))
    value(children.run("begin_rows", path=scene.path, **other))
    load = value(children.run("begin_rows", path=scene.path, **mine))
    assert len(read_latest(IO, scene.path).loading) == 2
    done = [value(children.run("write_rows", load=load, ids=[8], task=0))]
    again = children.run("finish_rows", load=lost, results=done)
    assert again["error"] == "ConflictError", again
    assert value(children.run("finish_rows", load=load, results=done, label="q 1"))["rows"] == 1
    load = value(children.run("begin_rows", path=scene.path, **mine))
    done = [value(children.run("write_rows", load=load, ids=[8], task=0))]
    again = value(children.run("finish_rows", load=load, results=done, label="q 1"))
    assert (again["status"], scene.rows()) == ("already-loaded", BEFORE + Counter([8]))
