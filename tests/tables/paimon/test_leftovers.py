"""Leftovers: files of dead runs, by the names they wrote down, that nobody names any more."""

import json
import os
import time
import uuid
from dataclasses import replace

import pytest
from paimon_calls import run_info
from paimon_lake import PaimonLake, options, tools

from packstone.model.codec import dump_record
from packstone.runs.folder import record_created
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.clean import find_leftovers, remove_leftovers
from packstone.tables.paimon.commit import commit_edits

IO = LocalFileIO()
DAY = 86_400


class Runs:
    """The runs of one table, and files that they made."""

    def __init__(self, lake):
        self.lake = lake
        self.folder = lake.path.parent / ".packstone/t/runs"

    def begin(self, run="r1", *, alive=False, host=None):
        """Make a run's folder; a dead one has a process that is gone."""
        process = ProcessIdentity.mine()
        if not alive:
            process = replace(process, started_ticks=process.started_ticks + 1)
        if host:
            process = replace(process, host=host, boot_id="elsewhere")
        folder = self.folder / run
        folder.mkdir(parents=True)
        (folder / "heartbeat").write_text("")
        (folder / "run.json").write_bytes(dump_record(run_info(run, self.lake.table, process)))
        return folder

    def make(self, run="r1", *names, age=2 * DAY, label=None):
        """Record files and create them, all of this age in seconds."""
        names = names or (f"bucket-0/data-{uuid.uuid4()}-0.parquet",)
        paths = [self.lake.path / name for name in names]
        label = label or str(uuid.uuid4())
        record_created(IO, str(self.folder / run), tuple(map(str, paths)), label=label)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("leftover")
        for path in (*paths, self.folder / run / f"created-{label}.json"):
            os.utime(path, (time.time() - age,) * 2)
        return paths

    def find(self, **other):
        """Look for leftovers."""
        return find_leftovers(IO, self.lake.table, runs_folder=str(self.folder), now_seconds=time.time(), **other)

    def clean(self):
        """Find and remove."""
        found = self.find()
        remove_leftovers(IO, found)
        return found


@pytest.fixture
def lake(tmp_path):
    """A table with two appends."""
    lake = PaimonLake(tmp_path / "t").create()
    lake.append({at: at for at in range(10)})
    lake.append({at: at for at in range(5, 15)})
    return lake


@pytest.fixture
def runs(lake):
    """Its runs."""
    return Runs(lake)


def test_old_files_of_dead_runs_go(runs):
    """A recorded data file and a manifest that nobody names are removed, then their record."""
    runs.begin()
    paths = runs.make("r1", f"bucket-0/data-{uuid.uuid4()}-0.parquet", f"manifest/manifest-{uuid.uuid4()}-3")
    found = runs.clean()
    assert set(found.paths) == set(map(str, paths))
    assert found.size_bytes == 16
    assert str(found) == "2 leftovers, 16B"
    assert not any(path.exists() for path in paths)
    assert [p.name for p in (runs.folder / "r1").iterdir() if p.name.startswith("created")] == []
    assert runs.find().paths == ()


def test_finding_changes_nothing(runs):
    """The dry run."""
    runs.begin()
    runs.make()
    before = runs.lake.names()
    assert len(runs.find().paths) == 1
    assert runs.lake.names() == before


def test_young_files_stay(runs):
    """Somebody may still be about to commit them."""
    runs.begin()
    (path,) = runs.make(age=DAY / 2)
    found = runs.clean()
    assert (found.paths, found.records) == ((), ())
    assert path.exists()
    assert len(runs.find(safe_age_seconds=60).paths) == 1


def test_a_young_record_stays_though_its_files_are_missing(runs):
    """A worker that outlived its driver may create them yet."""
    runs.begin()
    (path,) = runs.make(age=60)
    path.unlink()
    assert runs.clean().records == ()
    os.utime(next((runs.folder / "r1").glob("created-*")), (time.time() - 2 * DAY,) * 2)
    assert len(runs.clean().records) == 1


@pytest.mark.parametrize("beats", [True, False])
def test_a_living_run_is_left_alone(runs, beats):
    """However old its files are, and whether it keeps a heartbeat or not."""
    folder = runs.begin(alive=True)
    if not beats:
        (folder / "heartbeat").unlink()
    (path,) = runs.make(age=9 * DAY)
    found = runs.clean()
    assert path.exists()
    assert found.paths == ()
    assert "Run r1 is still running (process" in found.kept[0]


def test_a_run_that_ended_is_dead_although_its_process_lives(runs):
    """A service makes many runs; each says when it ended."""
    (runs.begin(alive=True) / "ended.json").write_text("{}")
    (path,) = runs.make()
    runs.clean()
    assert not path.exists()


def test_a_run_of_another_host_lives_as_long_as_its_heartbeat(runs):
    """Its process cannot be seen from here."""
    folder = runs.begin(host="elsewhere")
    (path,) = runs.make()
    assert runs.clean().paths == ()
    os.utime(folder / "heartbeat", (time.time() - 3600,) * 2)
    assert runs.clean().paths == (str(path),)


def test_a_run_that_does_not_say_who_it_is_is_left_alone(runs):
    """Or says it in a way that cannot be read."""
    (runs.begin() / "run.json").write_text("torn")
    (path,) = runs.make()
    assert "has no readable run.json" in runs.clean().kept[0]
    assert path.exists()


def test_published_files_stay(runs):
    """What a commit made is on record too; it is named by a snapshot, so it stays and its record goes."""
    runs.begin()
    lake = runs.lake
    edits = lake.compaction()

    def record(paths):
        record_created(IO, str(runs.folder / "r1"), paths, label=str(uuid.uuid4()))

    record(tuple(str(lake.bucket_folder(e.bucket) / e.after[0].file_name) for e in edits))
    commit_edits(IO, lake.table, edits, options=options(), **tools(record=record))
    for path in (*lake.path.rglob("*"), *runs.folder.rglob("created-*")):
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    names, rows = lake.names(), lake.rows()
    found = runs.clean()
    assert (found.paths, found.kept) == ((), ())
    assert len(found.records) == 2
    assert lake.names() == names
    assert lake.rows() == rows


@pytest.mark.parametrize("keeper", ["tag", "branch", "changelog"])
def test_files_that_only_others_name_stay(runs, keeper):
    """Tags, branches and changelogs count like snapshots."""
    runs.begin()
    lake = runs.lake
    entry = lake.live(1)[0]
    name = f"bucket-{entry.bucket}/{entry.file['_FILE_NAME']}"
    content = (lake.path / name).read_bytes()
    runs.make("r1", name)
    (lake.path / name).write_bytes(content)
    os.utime(lake.path / name, (time.time() - 2 * DAY,) * 2)
    kept = json.dumps(lake.snapshot(1))
    for number in (1, 2):
        (lake.path / f"snapshot/snapshot-{number}").unlink()
    place = {
        "tag": "tag/tag-x",
        "branch": "branch/branch-b/snapshot/snapshot-1",
        "changelog": "changelog/changelog-1",
    }[keeper]
    (lake.path / place).parent.mkdir(parents=True)
    (lake.path / place).write_text(kept)
    if keeper == "branch":
        (lake.path / "branch/branch-b/schema").mkdir()
        (lake.path / "branch/branch-b/schema/schema-0").write_text((lake.path / "schema/schema-0").read_text())
    assert runs.clean().paths == ()
    (lake.path / place).unlink()
    runs.make("r1", name)
    assert runs.find().paths == (str(lake.path / name),)


@pytest.mark.parametrize(
    "name",
    [
        "schema/schema-0",
        "snapshot/snapshot-2",
        "bucket-0/data.parquet",
        "../other/data-0e8a7351-1b67-4f0e-9674-a8589f79c8a5-0.parquet",
        "bucket-0/../../x/data-a8c04f59-c655-43d3-b567-269424ed9142-0.parquet",
    ],
)
def test_a_record_cannot_name_what_we_never_make(runs, name):
    """A damaged or forged record does not reach outside the table, nor its own files."""
    runs.begin()
    path = runs.lake.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes() if path.exists() else b"theirs"
    record_created(IO, str(runs.folder / "r1"), (str(path),), label="x")
    path.write_bytes(content)
    os.utime(path, (time.time() - 9 * DAY,) * 2)
    assert runs.clean().paths == ()
    assert path.exists()


@pytest.mark.parametrize("harm", ["tag", "list", "branch"])
def test_nothing_goes_on_doubt(runs, harm):
    """If somebody who may name a file cannot be read, all stays and the reason is reported."""
    runs.begin()
    (path,) = runs.make()
    lake = runs.lake
    if harm == "tag":
        (lake.path / "tag").mkdir()
        (lake.path / "tag/tag-x").write_text("torn")
    elif harm == "branch":
        (lake.path / "branch/strange").mkdir(parents=True)
    else:
        (lake.path / "manifest" / lake.latest()["deltaManifestList"]).write_bytes(b"torn")
    found = runs.clean()
    assert path.exists()
    assert (found.paths, found.records) == ((), ())
    assert found.kept[-1].endswith("Nothing is removed.")


def test_a_damaged_record_is_reported(runs):
    """And the other records are used."""
    runs.begin()
    (path,) = runs.make()
    (runs.folder / "r1/created-bad.json").write_text("torn")
    found = runs.clean()
    assert "created-bad.json is damaged" in found.kept[0]
    assert not path.exists()


def test_other_files_are_never_touched(runs):
    """Unreferenced files that no record names stay: they are somebody else's."""
    runs.begin()
    runs.make()
    stranger = runs.lake.path / f"bucket-0/data-{uuid.uuid4()}-0.parquet"
    stranger.write_text("theirs")
    os.utime(stranger, (time.time() - 9 * DAY,) * 2)
    runs.clean()
    assert stranger.exists()


def test_no_runs_no_leftovers(lake):
    """A table that packstone never touched."""
    assert Runs(lake).find().paths == ()
