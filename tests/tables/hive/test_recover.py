"""Recover: every half-way state has one right answer, decided by what is there."""

import os
import shutil
import time

import pytest
from hive_run import HiveRun

from packstone.errors import ConflictError, UnavailableError
from packstone.pipeline.table import Table
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.storage.stores import open_store
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.recover import recover_table

MERGE = {"min_files": 2, "target_bytes": 1_700}


class Crashed:
    """A partition of four files whose merge into two was killed at a chosen place."""

    def __init__(self, lake, children):
        self.lake, self.children = lake, children
        self.path = str(lake.table)
        self.partition = lake.parquet("dt=1", files=4)
        self.ids = lake.ids()
        self.state = lake.root / ".packstone" / "orders"
        self.before = {path.name: path.read_bytes() for path in self.partition.iterdir()}

    def kill(self, name, number=0, moment="after"):
        """Kill a compaction at the step of this name (the one of this number among them)."""
        kept = shutil.copytree(self.lake.root, self.lake.root.with_name("copy"))
        steps = self.children.run("compact", path=self.path, **MERGE)["steps"]
        shutil.rmtree(self.lake.root)
        shutil.move(kept, self.lake.root)
        step = [at for at, text in enumerate(steps) if text.startswith(f"{name} ") or text.endswith(name)][number]
        fault = {"step": step, "action": "kill", "moment": moment}
        assert self.children.run("compact", path=self.path, fault=fault, **MERGE)["status"] == -9
        (self.run,) = os.listdir(self.state / "runs")  # noqa: PTH208 - names
        return self

    @property
    def backup(self):
        """Where the originals of the run are."""
        return self.state / "backup" / self.run / "dt=1"

    def recover(self, **options):
        """Recover; return the report."""
        return Table(self.path).recover(**options)

    def now(self):
        """The visible files of the partition with their bytes."""
        return {path.name: path.read_bytes() for path in self.partition.iterdir()}


@pytest.fixture
def crashed(lake, children):
    """A table to be killed in."""
    return Crashed(lake, children)


def test_nothing_to_do(lake):
    """A table that was never touched, and one that was merged properly, need no recovery and get no folder for it."""
    lake.parquet("dt=1")
    table = Table(str(lake.table))
    assert table.recover().to_json()["status"] == "nothing-to-do"
    assert not (lake.root / ".packstone").exists()
    table.compact(HiveOptions(min_files=2))
    assert table.recover().to_json()["status"] == "nothing-to-do"


@pytest.mark.parametrize(("name", "number"), [("intent.json", 0), ("move", 0), ("move", 3), ("move", 4), ("move", 5)])
def test_forward_while_all_is_there(crashed, name, number):
    """Verified outputs and unchanged originals: the swap is finished, at whatever point it stopped."""
    crashed.kill(name, number)
    assert "swap finished" in crashed.recover().actions[0]
    assert sorted(crashed.now()) == [f"packstone-{crashed.run}-{n:05d}m.parquet" for n in (1, 2)]
    assert crashed.lake.ids() == crashed.ids
    crashed.recover()
    Table(crashed.path).restore(crashed.run)
    assert crashed.now() == crashed.before


@pytest.mark.parametrize("number", [0, 3, 4])
def test_back_if_an_output_is_lost(crashed, number):
    """Without all of its outputs a swap cannot be finished: what was published is taken out, the originals return."""
    crashed.kill("move", number)
    shutil.rmtree(crashed.state / "staging")
    assert "swap undone" in crashed.recover().actions[0]
    assert crashed.now() == crashed.before


def test_back_if_an_original_changed(crashed):
    """A changed original was not merged as it is now; its new content stays, the others return."""
    crashed.kill("move", 1)
    (crashed.partition / "part-00003.parquet").write_bytes(crashed.before["part-00000.parquet"])
    assert "swap undone" in crashed.recover().actions[0]
    assert crashed.now() == {**crashed.before, "part-00003.parquet": crashed.before["part-00000.parquet"]}


def test_back_if_an_original_was_removed(crashed):
    """Rows that somebody deleted after the kill do not come back in a merged file."""
    crashed.kill("move", 1)
    (crashed.partition / "part-00003.parquet").unlink()
    crashed.recover()
    assert sorted(crashed.now()) == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]


def test_new_files_stay_in_any_case(crashed):
    """What arrived between crash and recovery is there afterwards, also under the name of a moved original."""
    crashed.kill("move", 3)
    crashed.lake.parquet("dt=1", files=1)
    shutil.copy(crashed.partition / "part-00004.parquet", crashed.partition / "part-00000.parquet")
    assert "swap finished" in crashed.recover().actions[0]
    assert crashed.lake.ids() == sorted([*crashed.ids, *range(40, 50), *range(40, 50)])


def test_a_name_taken_twice_is_a_matter_for_a_person(crashed):
    """An original that must return to a taken name is kept; the answer says which two, and other work goes on."""
    crashed.kill("move", 1)
    (crashed.partition / "part-00003.parquet").unlink()
    (crashed.partition / "part-00000.parquet").write_bytes(b"somebody's")
    crashed.lake.parquet("dt=2", files=4)
    report = crashed.recover()
    assert report.to_json()["status"] == "conflict"
    assert "part-00000.parquet and its original" in report.left[0]
    assert (crashed.backup / "part-00000.parquet.kept").exists()
    outcome = Table(crashed.path).compact(HiveOptions(**MERGE))
    assert [unit.partition for unit in outcome.units] == ["dt=2", "dt=2"]
    (crashed.partition / "part-00000.parquet").unlink()
    assert "swap undone" in crashed.recover().actions[0]
    assert sorted(crashed.now()) == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]


def test_nobody_merges_on_a_half_swap(crashed):
    """While a swap waits for a person its partition is a conflict for every compaction, not only for the next one."""
    crashed.kill("move", 1)
    (crashed.partition / "part-00003.parquet").unlink()
    (crashed.partition / "part-00000.parquet").write_bytes(crashed.before["part-00002.parquet"])
    crashed.lake.parquet("dt=1", files=4)
    for _ in range(3):
        outcome = Table(crashed.path).compact(HiveOptions(**MERGE))
        assert outcome.status == "conflict"
        assert "left half-way by run" in outcome.skipped[-1].why


def test_the_partition_was_dropped_before_anything_moved(crashed):
    """An intent whose partition and files are gone is closed; nothing is made anew."""
    crashed.kill("intent.json")
    shutil.rmtree(crashed.partition)
    assert "swap undone" in crashed.recover().actions[0]
    assert not crashed.partition.exists()
    assert crashed.recover().to_json()["status"] == "nothing-to-do"


def test_the_partition_was_dropped_half_way(crashed):
    """Its originals stay in the backup until a person decides: make the folder to have them, or remove them."""
    crashed.kill("move", 3)
    shutil.rmtree(crashed.partition)
    report = crashed.recover()
    assert "was removed before its swap was finished" in report.left[0]
    assert len(list(crashed.backup.iterdir())) == 4
    crashed.partition.mkdir()
    crashed.recover()
    assert crashed.lake.ids() == crashed.ids


def test_a_dropped_partition_given_up(crashed):
    """Who removes the kept originals of a dropped partition has closed the matter."""
    crashed.kill("move", 3)
    shutil.rmtree(crashed.partition)
    shutil.rmtree(crashed.backup)
    assert "swap undone" in crashed.recover().actions[0]
    assert crashed.recover().to_json()["status"] == "nothing-to-do"


def test_a_backup_folder_that_does_not_exist(crashed):
    """Killed before the first move, its empty backup folder tidied away by hand: the rows are all there in any case."""
    crashed.kill("intent.json")
    shutil.rmtree(crashed.state / "backup")
    crashed.recover()
    assert crashed.lake.ids() == crashed.ids
    assert crashed.recover().to_json()["status"] == "nothing-to-do"


def test_half_a_move_by_link(crashed):
    """An original, or an output, with two names (a move by link was cut) is one file, forward and back."""
    crashed.kill("move", 0)
    os.link(crashed.backup / "part-00000.parquet.kept", crashed.partition / "part-00000.parquet")
    crashed.recover()
    assert crashed.lake.ids() == crashed.ids


def test_half_a_move_by_link_of_an_output(crashed):
    """The same when an output has two names and another output is lost: it is taken out before originals return."""
    crashed.kill("move", 4)
    (published,) = crashed.partition.iterdir()
    staging = crashed.state / "staging" / crashed.run / "w0001" / "s1"
    (waiting,) = staging.glob("*.data")
    first = waiting.name.replace("u000002", "u000001")
    os.link(published, staging / first)
    waiting.unlink()
    assert "swap undone" in crashed.recover().actions[0]
    assert crashed.now() == crashed.before


def test_staging_of_a_dead_run_goes(crashed):
    """A run that was killed while it wrote leaves nothing but its staging, and that is removed."""
    crashed.kill("sync_file", 0)
    assert (crashed.state / "staging" / crashed.run).exists()
    assert "staging files removed" in crashed.recover().actions[0]
    assert not (crashed.state / "staging").exists()
    assert crashed.now() == crashed.before


def test_the_living_are_left_alone(lake, tree):
    """A run of this process that is at work keeps its staging and its partitions, whatever take_over says."""
    lake.parquet("dt=1")
    table = Table(str(lake.table))
    with HiveRun(table.open().journal, command="compact") as session:
        session.claim("dt=1")
        staging = lake.root / ".packstone" / "orders" / "staging" / session.id
        (staging / "w0001").mkdir(parents=True)
        for sure in (False, True):
            assert table.recover(take_over=sure).to_json()["status"] == "nothing-to-do"
            assert (staging / "w0001").exists()
            session.check_owned("dt=1")


def test_evidence_of_a_wrong_merge_is_kept(lake):
    """Staging that a run kept as evidence is not removed by the commands that follow."""
    lake.parquet("dt=1")
    table = Table(str(lake.table))
    with HiveRun(table.open().journal, command="compact") as session:
        staging = lake.root / ".packstone" / "orders" / "staging" / session.id
        staging.mkdir(parents=True)
        (staging / "wrong.data").write_bytes(b"wrong")
        session.keep_evidence = True
    table.recover()
    table.compact(HiveOptions(min_files=2))
    assert (staging / "wrong.data").exists()


def test_a_run_without_a_name_is_given_a_minute(lake):
    """A folder whose run was killed before it could say who it is, is removed when it is old enough."""
    lake.parquet("dt=1")
    nameless = lake.root / ".packstone" / "orders" / "runs" / "20240101T000000-abcdef"
    nameless.mkdir(parents=True)
    Table(str(lake.table)).recover()
    assert nameless.exists()
    os.utime(nameless, (time.time() - 600, time.time() - 600))
    Table(str(lake.table)).recover()
    assert not nameless.exists()


class FailingFrom(FaultyFileIO):
    """Fails at one step and at all moves that follow."""

    def __init__(self, step):
        super().__init__(LocalFileIO())
        self._from = step

    def _step(self, name, path, act, **more):
        super()._step(name, path, act, **more)
        if name == "move" and len(self.steps) > self._from:
            raise OSError(f"injected at {path}")


@pytest.mark.parametrize("is_short", [True, False])
def test_a_failed_swap_is_mended_while_its_process_lives(lake, is_short):
    """A failure of a moment is undone at once; one that stays does not lock the partition until a restart."""
    lake.parquet("dt=1", files=4)
    before = lake.ids()
    table = Table(str(lake.table))
    counting = FaultyFileIO(LocalFileIO())
    copy = shutil.copytree(lake.root, lake.root.with_name("copy"))
    Table(str(copy / "orders"), io=counting).compact(HiveOptions(**MERGE))
    step = [at for at, name in enumerate(counting.steps) if name.startswith("move")][2]
    short = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=Action.FAIL, moment=Moment.AFTER))
    outcome = Table(str(lake.table), io=short if is_short else FailingFrom(step)).compact(HiveOptions(**MERGE))
    assert outcome.status == "failed"
    if is_short:
        assert "was undone" in outcome.skipped[-1].why
        assert lake.ids() == before
        assert table.recover().actions == ()
    else:
        assert "packstone recover" in outcome.skipped[-1].why
        assert "swap finished" in table.recover().actions[0]
    assert lake.ids() == before


def test_a_run_taken_for_dead_stops(lake, monkeypatch):
    """A run on another host that slept beyond its lease finds out before it moves anything, and after."""
    lake.parquet("dt=1")
    table = Table(str(lake.table))
    with HiveRun(table.open().journal, command="compact") as sleeper:
        sleeper.claim("dt=1")
        table.open().journal.runs.fence(sleeper.id)
        with pytest.raises(ConflictError, match="taken for dead"):
            sleeper.check_owned("dt=1")


def test_a_state_folder_that_cannot_be_written(lake):
    """A full disk at the very first write is one clear error and leaves no folder."""
    lake.parquet("dt=1")
    for step in range(3):
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=Action.FAIL))
        with pytest.raises(UnavailableError, match="cannot be written"):
            Table(str(lake.table), io=io).compact(HiveOptions(min_files=2))
        assert not (lake.root / ".packstone").exists()


def test_what_a_killed_plan_left_is_removed_after_a_day(lake, packstone):
    """A plan on a store of its own leaves answers of tasks if it is killed; one of today may still be at work."""
    lake.parquet("dt=1")
    staging = lake.root / ".packstone" / "orders" / "staging"
    for name in ("plan-old", "plan-new", "kept-by-somebody"):
        (staging / name / "facts-0001").mkdir(parents=True)
    long_ago = time.time() - 2 * 86_400
    for name in ("plan-old", "kept-by-somebody"):
        os.utime(staging / name, (long_ago, long_ago))
    assert packstone("compact", lake.table).code == 0
    assert sorted(path.name for path in staging.iterdir()) == ["kept-by-somebody", "plan-new"]


@pytest.mark.parametrize("store", ["memory", "hdfs", "moto"])
def test_recover_removes_old_plans_on_every_store(request, store):
    """Without any run too: answers of a plan go a day after the last of them was written, not before."""
    io, table = _open(request, store)
    journal = Table(table, io=io).open().journal
    plans = [f"{journal.layout.state}/staging/{name}/facts-0001" for name in ("plan-killed", "kept-by-somebody")]
    for folder in plans:
        io.make_dirs(folder)
        io.replace(f"{folder}/answer-0.json", b"{}")
    Table(table, io=io).recover()
    assert [io.stat(folder) is not None for folder in plans] == [True, True]  # it may be at work
    written = io.stat(f"{plans[0]}/answer-0.json").mtime_ns / 1e9
    with HiveRun(journal, command="recover") as session:
        recover_table(journal, me=session.owner, now_seconds=written + 86_000)
        assert io.stat(plans[0]) is not None
        assert recover_table(journal, me=session.owner, now_seconds=written + 90_000) == ()
    assert [io.stat(folder) is not None for folder in plans] == [False, True]


def _open(request, store):
    """A store, and a table in it."""
    if store == "memory":
        io, table = MemoryFileIO(), "/lake/orders"
    else:
        uses_hdfs = store == "hdfs"
        server = request.getfixturevalue(store)
        root = request.getfixturevalue("use_hdfs") if uses_hdfs else request.getfixturevalue("use_s3")(server)
        io, table = open_store(root), f"{root}/orders"
    io.make_dirs(f"{table}/dt=1")
    io.replace(f"{table}/dt=1/a.csv", b"1\n")
    return io, table


def test_a_killed_plan_without_any_run(lake, packstone):
    """``recover`` looks for what plans left even if there never was a run; one of today stays."""
    lake.parquet("dt=1")
    staging = lake.root / ".packstone" / "orders" / "staging"
    for name in ("plan-old", "plan-new"):
        (staging / name).mkdir(parents=True)
    os.utime(staging / "plan-old", (1, 1))
    assert packstone("recover", lake.table, "--format", "json").json["status"] == "nothing-to-do"
    assert [path.name for path in staging.iterdir()] == ["plan-new"]
