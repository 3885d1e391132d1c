"""Conflicts: somebody changes the partition between our reading and our swap. Exit code 3, and all is as it was.

The other one acts at a chosen step of our own run: a store that wraps the real one calls him there. So every moment
between two steps can be tried, and each test is the same every time.
"""

import os
import shutil

import pytest

from packstone.errors import ConflictError
from packstone.pipeline.table import Table
from packstone.runs.liveness import ProcessIdentity
from packstone.runs.owner import Owner, claim
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

MERGE = HiveOptions(min_files=2)


class SomebodyElse(FaultyFileIO):
    """The local files, on which somebody acts right before one of our steps."""

    def __init__(self, step, act):
        super().__init__(LocalFileIO())
        self._when, self._act = step, act

    def _step(self, name, path, act, *, torn=None):
        if f"{name} {path}".startswith(self._when) or path.endswith(self._when):
            self._when = ("never",)
            self._act()
        super()._step(name, path, act, torn=torn)


def merge(lake, step, act):
    """Merge, with somebody acting before the given step."""
    return Table(str(lake.table), io=SomebodyElse(step, act)).compact(MERGE)


@pytest.fixture
def partition(lake):
    """A partition of six files."""
    return lake.parquet("dt=1")


CHANGES = {
    "changed": lambda path, rows: path.write_bytes(rows),
    "touched": lambda path, _: os.utime(path),
    "removed": lambda path, _: path.unlink(),
    "renamed": lambda path, _: path.rename(path.with_name("other.parquet")),
    "replaced": lambda path, _: shutil.move(shutil.copy(path, path.with_name(".new")), path),
}
# Before the intent, before the first move, between two moves, right before the file's own move.
STEPS = {"intent": ".intent.json", "first move": "move", "its own move": "part-00003.parquet"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", STEPS)
def test_an_input_changes_before_the_swap(lake, partition, change, step):
    """Whatever happens to an input after it was read, and however late: conflict, and only that change is there."""
    path = partition / "part-00003.parquet"
    other_rows = (partition / "part-00001.parquet").read_bytes()
    outcome = merge(lake, STEPS[step], lambda: CHANGES[change](path, other_rows))
    assert (outcome.status, outcome.status.exit_code) == ("conflict", 3), outcome.skipped
    names = {f"part-{number:05d}.parquet" for number in range(6)}
    if change in ("removed", "renamed"):
        names -= {path.name}
    if change == "renamed":
        names |= {"other.parquet"}
    assert set(lake.names("dt=1")) == names
    again = Table(str(lake.table)).compact(MERGE)
    assert again.status == "committed", again.skipped


def test_the_command_says_conflict(lake, partition, packstone, monkeypatch):
    """On the command line: exit code 3, status ``conflict``, and the file is named."""
    victim = partition / "part-00003.parquet"
    store = SomebodyElse(".intent.json", lambda: os.utime(victim))
    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: store)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], done.json["run"]) == (3, "conflict", None)
    assert str(victim) in done.skipped("dt=1")


def test_a_new_file_under_a_moved_inputs_name(lake, partition):
    """A file written under the name of an original that is already in the backup is new: the rows of both are there."""
    ids = lake.ids()
    name = "part-00000.parquet"
    content = (partition / name).read_bytes()

    def write_again():
        (partition / name).write_bytes(content)

    outcome = merge(lake, "part-00004.parquet", write_again)
    assert outcome.status == "committed"
    assert lake.ids() == sorted([*ids, *range(10)])
    assert name in lake.names("dt=1")


def test_a_new_file_under_a_moved_inputs_name_and_a_conflict(lake, partition):
    """If the swap must then be undone, the original has no place to return to: it is kept, and reported to a person."""
    content = (partition / "part-00000.parquet").read_bytes()

    def write_again_and_remove():
        (partition / "part-00000.parquet").write_bytes(content[:-1])
        (partition / "part-00005.parquet").unlink()

    outcome = merge(lake, "part-00004.parquet", write_again_and_remove)
    assert outcome.status == "failed"
    assert "part-00000.parquet and its original" in outcome.skipped[-1].why
    (partition / "part-00000.parquet").unlink()
    assert "swap undone" in Table(str(lake.table)).recover().actions[0]
    assert lake.ids() == list(range(50))


@pytest.mark.parametrize("folder", ["", "dt=1"])
def test_a_job_begins_to_write_before_the_swap(lake, partition, tree, folder):
    """A ``_temporary`` that appears while we merge, in the partition or in the root, is a conflict."""
    before = tree(partition)
    outcome = merge(lake, "sync_file", (lake.table / folder / "_temporary").mkdir)
    assert outcome.status == "conflict"
    (lake.table / folder / "_temporary").rmdir()
    assert tree(partition) == before


def test_the_folder_becomes_a_delta_table_meanwhile(lake, partition, tree):
    """A log that appears before the swap means that these files are not ours to move any more."""
    outcome = merge(lake, "sync_file", (partition / "_delta_log").mkdir)
    assert outcome.status == "conflict"
    assert "Delta Lake" in outcome.skipped[-1].why
    assert len(lake.names("dt=1")) == 7


def test_the_partition_is_dropped_meanwhile(lake, partition):
    """A partition that vanishes before the swap is a conflict, and is not made anew."""
    outcome = merge(lake, "sync_file", lambda: shutil.rmtree(partition))
    assert outcome.status == "conflict"
    assert not partition.exists()
    assert Table(str(lake.table)).recover().left == ()


@pytest.mark.parametrize("change", CHANGES)
def test_an_input_changes_between_writing_and_proving(lake, partition, change):
    """The output is verified against other rows than it was written from: a conflict, not an alarm of a wrong merge."""
    other_rows = (partition / "part-00001.parquet").read_bytes()
    path = partition / "part-00003.parquet"
    outcome = merge(lake, "set_permissions", lambda: CHANGES[change](path, other_rows))
    assert (outcome.status, outcome.status.exit_code) == ("conflict", 3), outcome.skipped
    assert Table(str(lake.table)).compact(MERGE).status == "committed"


def test_one_conflict_among_many_partitions(lake, partition):
    """A conflict in one partition skips that one only: the others are merged, the answer is ``partial``."""
    lake.parquet("dt=2")
    lake.parquet("dt=3")
    ids = lake.ids()
    outcome = merge(lake, ".intent.json", lambda: os.utime(partition / "part-00002.parquet"))
    assert (outcome.status, outcome.status.exit_code) == ("partial", 1)
    assert [unit.partition for unit in outcome.units] == ["dt=2", "dt=3"]
    assert (lake.ids(), len(lake.names("dt=1"))) == (ids, 6)


def other_owner(table):
    """An owner on another host whom nobody here can see."""
    process = ProcessIdentity(host="elsewhere", boot_id="b", pid=1, started_ticks=1)
    return Owner(run="20990101T000000-abcdef", process=process, heartbeat_path=f"{table.open().layout.state}/heartbeat")


@pytest.mark.parametrize("step", ["sync_file", ".intent.json", "move"])
def test_taken_over_while_alive(lake, partition, tree, step):
    """Another host takes the partition over (it believes us dead): we stop before the first file is moved."""
    table = Table(str(lake.table))
    before = tree(partition)

    def take_over():
        owners = table.open().layout.owners("dt=1")
        number = int(os.listdir(owners)[0][:6])  # noqa: PTH208 - one name
        LocalFileIO().write_new(f"{owners}/{number + 1:06d}.json", _record(other_owner(table)))

    outcome = merge(lake, step, take_over)
    if step == "move":  # it came too late to be seen before the moves: then the new owner finds the journal
        assert outcome.status in ("conflict", "committed")
        table.recover(take_over=True)
        assert lake.ids() == list(range(60))
        return
    assert outcome.status == "conflict"
    assert "taken over" in outcome.skipped[-1].why
    assert tree(partition) == before
    table.recover(take_over=True)
    assert lake.ids() == list(range(60))


def _record(owner):
    from packstone.model.codec import dump_record

    return dump_record(owner)


def test_taken_for_dead_while_alive(lake, partition, tree):
    """A run whose journal was closed by another host while it slept notices after its intent, and moves nothing."""
    table = Table(str(lake.table))
    before = tree(partition)

    def fence():
        (run,) = table.open().journal.list_runs()
        table.open().journal.runs.fence(run)

    outcome = merge(lake, ".intent.json", fence)
    assert outcome.status == "conflict"
    assert "taken for dead" in outcome.skipped[-1].why
    assert tree(partition) == before
    table.recover()
    assert lake.ids() == list(range(60))
    assert table.compact(MERGE).status in ("committed", "nothing-to-do")


def test_staging_is_lost_before_the_swap(lake, partition, tree):
    """Originals are not moved for outputs that are gone."""
    table = Table(str(lake.table))
    before = tree(partition)
    outcome = merge(lake, ".intent.json", lambda: shutil.rmtree(f"{table.open().layout.state}/staging"))
    assert outcome.status == "conflict"
    assert tree(partition) == before


def test_an_owner_dies_between_our_recovery_and_our_claim(lake, children, tree):
    """Alive when we looked for half swaps, dead in the middle of one when we claim: a conflict, never a merge on it."""
    lake.parquet("dt=1")
    ids = lake.ids()

    def somebody_begins_and_dies():
        steps = {"step": 22, "action": "kill", "moment": "after"}
        assert children.run("compact", path=str(lake.table), fault=steps, min_files=2)["status"] == -9
        assert len([name for name in lake.names("dt=1") if name.startswith("part-")]) < 6

    outcome = merge(lake, "owners/dt=1", somebody_begins_and_dies)
    assert outcome.status == "conflict"
    assert "left half-way by run" in outcome.skipped[-1].why
    Table(str(lake.table)).recover()
    assert lake.ids() == ids


def test_a_partition_on_another_file_system(lake, partition, tree):
    """A partition that is a mount of its own cannot be swapped by renames: refused, before anything is written."""

    class Mounted(LocalFileIO):
        def store_id(self, path):
            return "mounted" if path.startswith(str(partition)) else "here"

    before = tree(lake.table)
    outcome = Table(str(lake.table), io=Mounted()).compact(MERGE)
    assert (outcome.status, "another file system" in outcome.skipped[-1].why) == ("refused", True)
    assert tree(lake.table) == before


def test_a_claim_on_a_claim_is_a_conflict(lake, partition):
    """The command's answer while another host works there: exit code 3, nothing changed; ``--take-over`` continues."""
    table = Table(str(lake.table))
    io = LocalFileIO()
    io.make_dirs(table.open().layout.state)
    io.replace(f"{table.open().layout.state}/heartbeat", b"")
    claim(io, table.open().layout.owners("dt=1"), other_owner(table), what="dt=1", now_seconds=0)
    with pytest.raises(ConflictError):
        claim(
            io,
            table.open().layout.owners("dt=1"),
            other_owner(table).__class__(run="mine", process=ProcessIdentity.mine(), heartbeat_path=""),
            what="dt=1",
            now_seconds=0,
        )
    assert table.compact(MERGE).status == "conflict"
    assert table.compact(MERGE, take_over=True).status == "committed"
