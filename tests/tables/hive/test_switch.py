"""Publishing by location: what readers see, and a real SIGKILL at every step of it."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from location_calls import FileCatalog, catalog_of, open_published
from metastore_lake import read_ids

from packstone.catalog.named_table import CheckedCatalog
from packstone.errors import RefusedError, UnavailableError
from packstone.model.limits import Filters
from packstone.pipeline.compact import Compaction
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.layout import table_of_version
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.relocate import new_location

MERGE = {"target_bytes": 1_700, "threshold_bytes": 2_000, "min_files": 2}
MOMENTS = ("before", "after")
KILLED = -9


class Scene:
    """Two partitions, one with a file that is too big to be merged, at a path that can be set back."""

    def __init__(self, lake, tree, aside):
        self.lake, self.tree, self.aside = lake, tree, aside
        self.path = str(lake.table)
        lake.parquet("dt=1", files=4)
        lake.parquet("dt=1", files=1, rows=3_000)
        lake.text("dt=1", {"_SUCCESS": b""})
        lake.parquet("dt=2", files=3)
        self.ids = lake.ids()
        places = {f"dt={day}": {"location": f"file:{lake.table}/dt={day}"} for day in (1, 2)}
        Path(f"{self.path}.catalog").write_text(json.dumps(places), encoding="utf-8")
        self.before = tree(lake.table)
        shutil.copytree(lake.root, aside)

    def set_back(self):
        """As it was at the start."""
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.aside, self.lake.root)

    def folder(self, partition):
        """Where a reader would look."""
        return Path(catalog_of(self.path).read_location("sales.orders", partition).removeprefix("file:"))

    def rows(self):
        """What a reader sees who asks the catalogue."""
        return read_ids(*(self.folder(f"dt={day}") for day in (1, 2)))

    def check_mended(self, where):
        """Every row once; nothing staged; nothing left to recover."""
        assert self.rows() == self.ids, where
        assert not list((self.lake.root / ".packstone" / "orders" / "staging").rglob("*")), where
        assert open_published(self.path).recover().to_json()["status"] == "nothing-to-do", where

    def restore_all(self):
        """Undo every run that published something, newest first."""
        journal = open_published(self.path).open().journal
        for run in reversed(journal.list_runs()):
            if any(journal.has_mark(intent, "done") for intent in journal.read_intents(run)):
                open_published(self.path).restore(run)


@pytest.fixture
def scene(lake, tree, tmp_path):
    """The scene."""
    return Scene(lake, tree, tmp_path / "aside")


def test_hazard_16_a_new_folder_whole_or_the_old_one(scene):
    """The old folder is untouched, the new one has all rows, big files and markers too, and the numbers are right."""
    outcome = open_published(scene.path).compact(HiveOptions(**MERGE))
    assert (outcome.status, outcome.reader_gap_ms) == ("committed", 0.0)
    assert scene.tree(scene.lake.table) == scene.before
    assert scene.rows() == scene.ids
    folder = scene.folder("dt=1")
    assert folder == scene.lake.root / ".packstone" / "orders" / "versions" / outcome.run / "dt=1"
    assert (folder / "_SUCCESS").exists()
    facts = catalog_of(scene.path).read()["dt=1"]
    data = [path for path in folder.iterdir() if not path.name.startswith("_")]
    assert (facts["numFiles"], facts["totalSize"]) == (len(data), sum(path.stat().st_size for path in data))
    assert open_published(scene.path).compact(HiveOptions(**MERGE)).status == "nothing-to-do"


def test_a_young_file_keeps_its_partition_where_it_is(scene):
    """A new location takes the whole partition, so one file within the least age keeps all of it out."""
    for path in scene.lake.table.rglob("*.parquet"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    os.utime(next((scene.lake.table / "dt=2").iterdir()))
    outcome = open_published(scene.path).compact(HiveOptions(**MERGE), filters=Filters(min_age_seconds=3600))
    assert {unit.partition for unit in outcome.units} == {"dt=1"}
    (skip,) = [skip for skip in outcome.skipped if skip.what == "dt=2"]
    assert (skip.kind, "a new location takes the whole partition" in skip.why) == ("filtered", True)
    assert scene.folder("dt=2") == scene.lake.table / "dt=2"
    assert scene.rows() == scene.ids


class CountingEngine(InlineEngine):
    """Remembers in which way the units of each task that it runs are done; packs them as for two workers."""

    parallelism = 2

    def __init__(self, io):
        super().__init__(io)
        self.tasks = []

    def run(self, job, tasks, **facts):
        """Remember, and run as always."""
        self.tasks += [[str(unit.how) for unit in task.units] for task in tasks]
        return super().run(job, tasks, **facts)


def test_what_stays_as_it_is_is_copied_by_tasks(scene):
    """Not by the driver, one after the other: big files are tasks of their own, and the copies are like them."""
    big = {f"big-{number}.parquet": bytes([number]) * (17 << 20) for number in range(2)}
    text = scene.lake.text("dt=2", big)
    for name in big:
        (text / name).chmod(0o640)
    engine = CountingEngine(LocalFileIO())
    outcome = open_published(scene.path, engine=engine).compact(HiveOptions(**MERGE), filters=Filters(where="dt = '2'"))
    assert (outcome.status, engine.tasks) == ("committed", [["copy", "rewrite"], ["copy"]])
    folder = scene.folder("dt=2")
    assert {name: (folder / name).read_bytes() for name in big} == big
    assert {(folder / name).stat().st_mode & 0o777 for name in big} == {0o640}


def test_a_file_that_changes_after_it_was_copied_is_copied_anew(scene, monkeypatch):
    """The copy that waits is of what the file was; what is published is what it is."""
    big = scene.lake.table / "dt=1" / "part-00004.parquet"
    run_units = Compaction._run_units

    def change(self, *args, **kwargs):
        run_units(self, *args, **kwargs)
        big.write_bytes(big.read_bytes() + b"more")

    monkeypatch.setattr(Compaction, "_run_units", change)
    open_published(scene.path).compact(HiveOptions(**MERGE), filters=Filters(where="dt = '1'"))
    assert (scene.folder("dt=1") / big.name).read_bytes() == big.read_bytes()


def kill_at(scene, children, call, *, steps, moment, check, **arguments):
    """Kill a call at each of these steps, and let ``check`` look at what is left."""
    for step, name in steps:
        where = f"killed {moment} step {step}: {name}"
        fault = {"step": step, "action": "kill", "moment": moment}
        assert children.run(call, path=scene.path, fault=fault, **arguments)["status"] == KILLED, where
        check(where)
        scene.set_back()


def check_compaction(scene, where):
    """Readers see every row once before and after recovery, and all can be undone."""
    assert scene.rows() == scene.ids, where
    open_published(scene.path).recover()
    scene.check_mended(where)
    scene.restore_all()
    assert scene.tree(scene.lake.table) == scene.before, where
    assert scene.rows() == scene.ids, where


def test_killed_at_every_step_of_a_switch(scene, children):
    """From the intents of a wave to its marks, whatever step it is killed at, nothing is lost or doubled."""
    steps = list(enumerate(children.run("location_compact", path=scene.path, **MERGE)["steps"]))
    scene.set_back()
    ends = [at for at, name in steps if name.endswith(("wave-0001.intent.json", "wave-0001.marks.json"))]
    assert len(ends) == 2
    switch = steps[ends[0] : ends[1] + 1]
    assert any("catalog" in name for _, name in switch)
    check = partial(check_compaction, scene)
    kill_at(scene, children, "location_compact", steps=switch, moment="after", check=check, **MERGE)


@pytest.mark.soak
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_every_step(scene, children, moment):
    """The same for every step of the run, before and after it; and the table can be merged again."""
    steps = list(enumerate(children.run("location_compact", path=scene.path, **MERGE)["steps"]))
    scene.set_back()

    def check(where):
        assert scene.rows() == scene.ids, where
        open_published(scene.path).recover()
        open_published(scene.path).compact(HiveOptions(**MERGE))
        check_compaction(scene, where)

    kill_at(scene, children, "location_compact", steps=steps, moment=moment, check=check, **MERGE)


@pytest.fixture
def published(scene):
    """A published table in which a file arrived since; answers with the run and the rows."""
    outcome = open_published(scene.path).compact(HiveOptions(**MERGE, keep_days=0))
    scene.lake._next = 500
    newer = scene.lake.parquet("new", files=1)
    shutil.move(next(newer.iterdir()), scene.folder("dt=1") / "newer.parquet")
    newer.rmdir()
    shutil.rmtree(scene.aside)
    shutil.copytree(scene.lake.root, scene.aside)
    return outcome.run, scene.rows()


def check_restored(scene, run, rows, where):
    """Readers see every row once, the newer ones too, before and after; the old folder is the partition's again."""
    assert scene.rows() == rows, where
    open_published(scene.path).recover()
    open_published(scene.path).restore(run)
    assert scene.rows() == rows, where
    assert scene.folder("dt=1") == scene.lake.table / "dt=1", where
    versions = scene.lake.root / ".packstone" / "orders" / "versions"
    assert read_ids(versions) == rows, where  # for those who are in the middle of reading it
    open_published(scene.path).clean()
    assert not versions.exists(), where
    assert scene.rows() == rows, where


def test_hazard_42_restore_takes_newer_files_along(scene, published):
    """What arrived in the new folder since is in the old one afterwards, with the originals."""
    run, rows = published
    report = open_published(scene.path).restore(run)
    assert (report.files_restored, report.parts) == (7, ("dt=1", "dt=2"))
    check_restored(scene, run, rows, "restored")
    assert "newer.parquet" in scene.lake.names("dt=1")


def test_a_reader_in_the_middle_of_a_restore_reads_on(scene):
    """The folder that was published stays for as many days as an old one would."""
    outcome = open_published(scene.path).compact(HiveOptions(**MERGE, keep_days=7))
    folder = scene.folder("dt=1")
    reading = {path: path.read_bytes() for path in folder.iterdir()}
    report = open_published(scene.path).restore(outcome.run)
    assert (report.files_removed, {path: path.read_bytes() for path in folder.iterdir()}) == (0, reading)
    cleaned = open_published(scene.path).clean().to_json()
    assert (cleaned["files"], cleaned["runs_still_kept"], folder.exists()) == (0, 1, True)


def test_what_was_restored_stays_where_readers_are_sent(scene, published):
    """Somebody set the location by hand to the folder that a restore left: it is not cleaned."""
    run, _ = published
    folder = scene.folder("dt=1")
    open_published(scene.path).restore(run)
    assert len(Table(scene.path).clean().to_json()["left_alone"]) == 2  # without the metastore nothing is known
    catalog_of(scene.path).set_location("sales.orders", "dt=1", location=f"file:{folder}", numbers={})
    cleaned = open_published(scene.path).clean().to_json()
    assert (cleaned["files"], cleaned["left_alone"]) == (1, [f"{folder} is the location in the metastore"])
    assert folder.exists()


def test_restore_killed_around_the_call(scene, children, published):
    """A restore that died beside the call to the metastore is finished by the next command."""
    run, rows = published
    steps = list(enumerate(children.run("location_restore", path=scene.path, run=run)["steps"]))
    scene.set_back()
    calls = [at for at, name in steps if "catalog" in name]
    chosen = [steps[at + way] for at in calls for way in (-1, 0, 1)]
    check = partial(check_restored, scene, run, rows)
    kill_at(scene, children, "location_restore", steps=chosen, moment="after", check=check, run=run)


@pytest.mark.soak
@pytest.mark.parametrize("moment", MOMENTS)
def test_restore_killed_at_every_step(scene, children, published, moment):
    """Whatever step a restore is killed at, the next command finishes it."""
    run, rows = published
    steps = list(enumerate(children.run("location_restore", path=scene.path, run=run)["steps"]))
    scene.set_back()
    check = partial(check_restored, scene, run, rows)
    kill_at(scene, children, "location_restore", steps=steps, moment=moment, check=check, run=run)


def test_keep_days(scene):
    """Old folders go when their retention has expired, and only where the metastore says that nobody reads them."""
    open_published(scene.path).compact(HiveOptions(**MERGE, keep_days=0))
    blind = Table(scene.path).clean().to_json()
    assert (blind["files"], len(blind["left_alone"])) == (0, 2)
    assert open_published(scene.path).clean(dry_run=True).to_json()["files"] == 8
    catalog = catalog_of(scene.path)
    moved = catalog.read_location("sales.orders", "dt=2")
    catalog.set_location("sales.orders", "dt=2", location=f"file:{scene.path}/dt=2", numbers={})
    cleaned = open_published(scene.path).clean().to_json()
    assert (cleaned["files"], len(cleaned["left_alone"])) == (5, 1)
    assert scene.rows() == scene.ids
    catalog.set_location("sales.orders", "dt=2", location=moved, numbers={})
    assert open_published(scene.path).clean().to_json()["files"] == 3
    assert scene.rows() == scene.ids
    assert [path.name for path in scene.lake.table.rglob("*") if path.is_file()] == ["_SUCCESS"]


def test_a_file_that_arrives_meanwhile_is_a_conflict(scene, monkeypatch):
    """A new file in the old folder would be seen by nobody: the partition stays where it is, with the new file."""
    catalog = catalog_of(scene.path)
    table = open_published(scene.path)
    set_location, before = type(catalog).set_location, scene.lake.ids("dt=1")

    def late(self, *arguments, **facts):
        set_location(self, *arguments, **facts)
        if "versions" in facts["location"] and arguments[1] == "dt=1":
            scene.lake._next = 900
            scene.lake.parquet("dt=1", files=1)

    monkeypatch.setattr(type(catalog), "set_location", late)
    outcome = table.compact(HiveOptions(**MERGE))
    assert outcome.status == "partial"
    (skip,) = [one for one in outcome.skipped if one.kind == "conflict"]
    assert "arrived during the commit" in skip.why
    assert scene.folder("dt=1") == scene.lake.table / "dt=1"
    assert catalog.read()["dt=1"]["numFiles"] == 6
    left = scene.lake.root / ".packstone" / "orders" / "versions" / outcome.run / "dt=1"
    assert read_ids(left) == before  # a reader may have been sent there for a moment
    assert scene.rows() == sorted([*scene.ids, *range(9000, 9010)])


class AwayCatalog:
    """A metastore whose server is away."""

    def read_location(self, table, partition):
        """Fail as Hive's client does."""
        raise UnavailableError("Hive's metastore does not answer.")


def test_another_metastore_is_never_changed(scene, tmp_path):
    """A Spark that knows another metastore than the one that was read: conflict, both are as before, nothing left."""
    other = FileCatalog(LocalFileIO(), str(tmp_path / "other.catalog"))
    mine = catalog_of(scene.path)
    for there in ({}, {"dt=1": {"location": "file:/elsewhere/dt=1"}, "dt=2": {"location": "file:/elsewhere/dt=2"}}):
        Path(tmp_path / "other.catalog").write_text(json.dumps(there), encoding="utf-8")
        before = mine.read()
        table = open_published(scene.path, catalog=CheckedCatalog(reader=mine, client=other))
        outcome = table.compact(HiveOptions(**MERGE))
        assert (outcome.status, mine.read(), other.read()) == ("conflict", before, there)
        assert "uses another metastore than --metastore" in outcome.skipped[-1].why
        assert not list((scene.lake.root / ".packstone" / "orders").rglob("*.parquet"))
    gone = open_published(scene.path, catalog=CheckedCatalog(reader=mine, client=AwayCatalog()))
    outcome = gone.compact(HiveOptions(**MERGE))
    assert (outcome.status, mine.read()) == ("failed", before)
    assert not list((scene.lake.root / ".packstone" / "orders").rglob("*.parquet"))
    assert outcome.skipped[-1].why == "Hive's metastore does not answer; nothing was changed."
    same = open_published(scene.path, catalog=CheckedCatalog(reader=mine, client=mine))
    assert (same.compact(HiveOptions(**MERGE)).status, scene.rows()) == ("committed", scene.ids)


def test_recovery_needs_the_metastore(scene, children):
    """By its path alone nobody can tell how far it came: it is left, and the sentence says what to run."""
    steps = children.run("location_compact", path=scene.path, **MERGE)["steps"]
    scene.set_back()
    at = next(number for number, name in enumerate(steps) if "catalog" in name)
    fault = {"step": at, "action": "kill", "moment": "after"}
    children.run("location_compact", path=scene.path, fault=fault, **MERGE)
    report = Table(scene.path, io=LocalFileIO()).recover().to_json()
    assert report["status"] == "conflict"
    assert "run `packstone recover sales.orders --metastore URL`" in report["left_alone"][0]
    assert open_published(scene.path).recover().to_json()["status"] == "recovered"
    scene.check_mended("by name")


def test_the_old_folder_by_its_path(scene):
    """Its files are what nobody reads any more: refused, with the run and the new place, until the run is undone."""
    run = open_published(scene.path).compact(HiveOptions(**MERGE)).run
    outcome = Table(scene.path).compact(HiveOptions(**MERGE))
    assert (outcome.status, len(outcome.skipped)) == ("refused", 2)
    place = f"file:{scene.folder('dt=1')}; give sales.orders by its name, with --metastore"
    assert outcome.skipped[0].why == f"run {run} published the partition at {place}"
    assert {one.name for one in Table(scene.path).health().hazards} == {"old-folder"}
    assert scene.tree(scene.lake.table) == scene.before
    open_published(scene.path).restore(run)
    assert Table(scene.path).plan(HiveOptions(**MERGE)).outcome.status == "planned"


def test_merged_again_by_location(scene):
    """A second publication begins where the first ended; the first can be undone only after the second."""
    first = open_published(scene.path).compact(HiveOptions(**MERGE)).run
    more = scene.folder("dt=1")
    scene.lake._next = 700
    for path in list(scene.lake.parquet("more", files=4).iterdir()):
        shutil.move(path, more / path.name)
    rows = scene.rows()
    second = open_published(scene.path).compact(HiveOptions(**MERGE)).run
    assert scene.rows() == rows
    with pytest.raises(RefusedError, match=f"is now at .*{second}.*; if a later run published it there"):
        open_published(scene.path).restore(first)
    open_published(scene.path).restore(second)
    assert (scene.rows(), scene.folder("dt=1")) == (rows, more)


def test_a_table_without_partitions(scene):
    """Its whole folder is left for another one, and comes back with a restore; ``clean`` leaves the folder itself."""
    path = f"{scene.path}/dt=2"
    whole = scene.lake.root / "whole"
    shutil.copytree(path, whole)
    before, place = scene.tree(whole), f"{whole}.catalog"
    Path(place).write_text(json.dumps({"": {"location": f"file:{whole}"}}), encoding="utf-8")
    outcome = open_published(str(whole)).compact(HiveOptions(**MERGE))
    found = Path(json.loads(Path(place).read_text())[""]["location"].removeprefix("file:"))
    assert found == scene.lake.root / ".packstone" / "whole" / "versions" / outcome.run / "whole"
    assert table_of_version(str(found)) == str(whole)
    assert read_ids(found) == read_ids(whole)
    open_published(str(whole)).restore(outcome.run)
    assert (scene.tree(whole), found.exists()) == (before, True)
    open_published(str(whole)).compact(HiveOptions(**MERGE, keep_days=0))
    assert open_published(str(whole)).clean().to_json()["files"] == 3
    assert list(whole.iterdir()) == []  # the table's own folder stays


@pytest.mark.parametrize(
    ("old", "path", "new", "expected"),
    [
        ("file:/lake/t/dt=1", "/lake/t/dt=1", "/lake/v/dt=1", "file:/lake/v/dt=1"),
        ("file:///lake/t/dt=1/", "/lake/t/dt=1", "/lake/v/dt=1", "file:///lake/v/dt=1"),
        ("/lake/t/dt=1", "/lake/t/dt=1", "/lake/v/dt=1", "file:/lake/v/dt=1"),
        ("s3a://b/t/dt=1", "s3://b/t/dt=1", "s3://b/v/dt=1", "s3a://b/v/dt=1"),
        ("hdfs://nn:1/t/dt=1", "hdfs://nn:1/t/dt=1", "hdfs://nn:1/v/dt=1", "hdfs://nn:1/v/dt=1"),
    ],
)
def test_locations_are_spelled_as_before(old, path, new, expected):
    """Scheme and authority stay as the metastore has them."""
    assert new_location(old, path, new) == expected
