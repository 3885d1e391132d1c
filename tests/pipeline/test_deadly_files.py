"""A file that ends the process which reads it costs that file: the next run leaves it alone and merges the rest."""

import os
import signal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from abort_on_read import DEADLY_ROWS, aborting_env
from paimon_lake import PaimonLake

from packstone.rewrite.small_files.merge_unit import read_through
from packstone.runs.deaths import MAX_DEATHS, DeathWatch, find_deadly_file
from packstone.runs.tasks import Attempt, Task
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.tasks import HIVE_JOB

# The second process to merge dies too, though every file can be read alone: as if memory were short.
KILLED_IN_WRITE = """
import signal
import sys

import packstone.rewrite.small_files.parquet_kernel as kernel


def write(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)


kernel.write = write
"""


# The child that reads the suspects is killed by somebody else, as the kernel does when memory is short.
KILLED_IN_CHILD = """
if any("read_suspects" in argument for argument in sys.orig_argv):
    os.abort = lambda: os.kill(os.getpid(), {signal})
"""


@pytest.fixture
def orders(lake):
    """Two partitions; in one of them a file that ends the process which reads it."""
    first = lake.parquet("dt=1", files=6, rows=10)
    lake.parquet("dt=2", files=6, rows=10)
    rows = pa.table({"id": range(10_000, 10_000 + DEADLY_ROWS), "name": ["x"] * DEADLY_ROWS})
    pq.write_table(rows, first / "deadly.parquet", compression="snappy")
    return lake


def test_a_hive_directory_goes_on_the_next_time(orders, packstone_process, quiet_env, tmp_path):
    """The first run dies; the second names the file and its signal, merges the rest, and reads it only in a child."""
    env, before = aborting_env(quiet_env, tmp_path / "hook"), orders.ids()
    killed = packstone_process("compact", orders.table, "--engine", "inline", "--format", "json", env=env)
    assert killed.code == -signal.SIGABRT
    done = packstone_process("compact", orders.table, "--engine", "inline", "--format", "json", env=env)
    assert (done.code, done.json["status"]) == (1, "partial")
    why = done.skipped("dt=1/deadly.parquet")
    assert "ends the process that reads it (SIGABRT)" in why
    assert min(orders.names("dt=1")) == "deadly.parquet"
    assert (len(orders.names("dt=1")), len(orders.names("dt=2"))) == (2, 1)
    assert orders.ids() == before
    again = packstone_process("compact", orders.table, "--engine", "inline", "--format", "json", env=env)
    assert again.json["status"] == "nothing-to-do"


@pytest.mark.slow
def test_a_file_that_was_replaced_is_merged(orders, packstone_process, quiet_env, tmp_path):
    """The note is about the bytes: a good file under the same name is merged, and the note goes."""
    env = aborting_env(quiet_env, tmp_path / "hook")
    for _ in range(2):
        packstone_process("compact", orders.table, "--engine", "inline", "--format", "json", env=env)
    path = orders.folder("dt=1") / "deadly.parquet"
    pq.write_table(pq.read_table(path).slice(1), path, compression="snappy")
    orders.parquet("dt=1", files=6, rows=10)
    done = packstone_process("compact", orders.table, "--engine", "inline", "--format", "json", env=env)
    assert (done.code, done.json["status"]) == (0, "committed")
    assert "deadly.parquet" not in orders.names("dt=1")


def test_a_bucket_of_paimon_is_left_alone(tmp_path, packstone_process, quiet_env):
    """A bucket is compacted whole or not at all: that of the file is left alone by name, the other is compacted."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    lake.append({**dict.fromkeys(range(0, 2 * DEADLY_ROWS, 2), 9), 1: 9})
    rows = lake.rows()
    env = aborting_env(quiet_env, tmp_path / "hook")
    arguments = ("compact", lake.path, "--strategy", "full", "--engine", "inline", "--format", "json")
    assert packstone_process(*arguments, env=env).code == -signal.SIGABRT
    done = packstone_process(*arguments, env=env)
    assert (done.code, done.json["status"]) == (1, "partial")
    assert "ends the process that reads it (SIGABRT)" in done.skipped("bucket-0")
    assert lake.rows() == rows


@pytest.mark.slow
def test_a_merge_of_segments_is_left_alone(tmp_path, packstone, packstone_process, quiet_env):
    """The merge that holds the file is left alone by name; the rows are as before."""
    table = tmp_path / "sales"
    assert packstone("segments", "create", table, "--schema", "id long, name string").code == 0
    for number in range(4):
        rows = DEADLY_ROWS if number == 2 else 10
        source = tmp_path / f"load-{number}.parquet"
        pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64()), "name": ["x"] * rows}), source)
        assert packstone("segments", "load", table, source).code == 0
    env = aborting_env(quiet_env, tmp_path / "hook")
    arguments = ("compact", table, "--strategy", "minor", "--engine", "inline", "--format", "json")
    assert packstone_process(*arguments, env=env).code == -signal.SIGABRT
    done = packstone_process(*arguments, env=env)
    assert "ends the process that reads it (SIGABRT)" in str(done.json["skipped"])
    counted = packstone("query", table, "SELECT count(*) FROM t", "--format", "csv")
    assert counted.out.splitlines()[1] == str(30 + DEADLY_ROWS)


@pytest.mark.slow
def test_files_that_only_die_together_are_left_alone_after_three_deaths(lake, packstone_process, quiet_env, tmp_path):
    """Each can be read alone, and the merge dies: the fourth run leaves them alone; a week later they are tried."""
    lake.parquet("dt=1", files=6, rows=10)
    env = aborting_env(quiet_env, tmp_path / "hook", more=KILLED_IN_WRITE)
    arguments = ("compact", lake.table, "--engine", "inline", "--format", "json")
    for _ in range(MAX_DEATHS - 1):  # a run notes the death of the one before
        for _ in range(2):  # as often as one likes within an hour
            assert packstone_process(*arguments, env=env).code == -signal.SIGKILL
        age_notes(lake, days=1)
    done = packstone_process(*arguments, env=env)
    assert (done.code, done.json["status"]) == (1, "failed")
    assert f"ended {MAX_DEATHS} times without a message" in str(done.json["skipped"])
    assert len(lake.ids()) == 60
    age_notes(lake, days=8)
    done = packstone_process(*arguments)
    assert (done.code, done.json["status"], len(lake.ids())) == (0, "committed", 60)


def age_notes(lake, *, days):
    """Let the notes about deaths be older."""
    for note in (lake.root / ".packstone" / "orders" / "deaths").glob("*.json"):
        then = note.stat().st_mtime - days * 86_400
        os.utime(note, (then, then))


@pytest.mark.slow
def test_a_killed_run_costs_nothing_but_a_second_look(lake, packstone_process, quiet_env, tmp_path):
    """Files that were being read when somebody killed the command are merged by the next one; no note is left."""
    lake.parquet("dt=1", files=6, rows=10)
    env = aborting_env(quiet_env, tmp_path / "hook", more=KILLED_IN_WRITE)
    assert packstone_process("compact", lake.table, "--engine", "inline", env=env).code == -signal.SIGKILL
    done = packstone_process("compact", lake.table, "--engine", "inline", "--format", "json")
    assert (done.code, done.json["status"], len(lake.ids())) == (0, "committed", 60)
    assert not (lake.root / ".packstone" / "orders" / "deaths").exists()


def test_a_note_is_not_believed(tmp_path):
    """A note that is damaged, or that is filed under another file's name, says nothing."""
    io, staging = LocalFileIO(), tmp_path / "staging"
    staging.mkdir()
    folder = tmp_path / "deaths"
    folder.mkdir()
    (folder / "0123.json").write_bytes(b"{}")
    (folder / "4567.json").write_bytes(b"\xff")
    unit = SimpleNamespace(number=1, input_bytes=1, input_files=((str(tmp_path / "a.parquet"), "parquet"),))
    task = Task(number=0, context=None, units=(unit,), deaths=str(folder))
    watch = DeathWatch.begin(HIVE_JOB, Attempt(io=io, staging=str(staging), name="a0_0"), task)
    watch.check(unit)


def test_a_child_that_lives_blames_nobody(tmp_path):
    """Files that are merely broken are no matter of life and death: the merge itself reports them."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really PAR1")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    files = [(str(tmp_path / name), "parquet") for name in ("a.parquet", "b.parquet", "missing.parquet")]
    assert find_deadly_file(LocalFileIO(), files, read_through=read_through) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_child_that_is_killed_from_outside_proves_nothing(orders, packstone_process, quiet_env, tmp_path, name):
    """The file is not merged by this run, and not blamed: the next one, with a child that lives, merges it."""
    more = KILLED_IN_CHILD.format(signal=int(signal.Signals[name]))
    env, before = aborting_env(quiet_env, tmp_path / "hook", more=more), orders.ids()
    arguments = ("compact", orders.table, "--engine", "inline", "--format", "json")
    assert packstone_process(*arguments, env=env).code == -signal.SIGABRT
    done = packstone_process(*arguments, env=env)
    assert (done.code, done.json["status"]) == (1, "partial")
    assert f"deadly.parquet was ended by {name}, which says nothing about the file" in str(done.json["skipped"])
    assert (len(orders.names("dt=1")), len(orders.names("dt=2"))) == (7, 1)
    done = packstone_process(*arguments)
    assert (done.code, done.json["status"], orders.ids()) == (0, "committed", before)
    assert not (orders.root / ".packstone" / "orders" / "deaths").exists()


@pytest.mark.slow
def test_children_that_are_killed_count_as_deaths(orders, packstone_process, quiet_env, tmp_path):
    """A file that needs more memory than there is costs no child each night: it is left alone for a week."""
    more = KILLED_IN_CHILD.format(signal=int(signal.SIGKILL))
    env = aborting_env(quiet_env, tmp_path / "hook", more=more)
    arguments = ("compact", orders.table, "--engine", "inline", "--format", "json")
    said = []
    for _ in range(MAX_DEATHS + 2):
        said.append(packstone_process(*arguments, env=env).out)
        age_notes(orders, days=1)
    assert ["was ended by SIGKILL" in text for text in said] == [False, True, True, False, False]
    assert [f"ended {MAX_DEATHS} times" in text for text in said] == [False, False, False, True, True]


@pytest.mark.slow
def test_a_name_that_is_not_text(lake, packstone_process, quiet_env, tmp_path):
    """A death while files with bytes in their names that are not UTF-8 were read does not stop the table."""
    for path in list(lake.parquet("dt=1", files=6, rows=10).iterdir()):
        path.rename(path.with_name(os.fsdecode(b"\xff") + path.name))
    env = aborting_env(quiet_env, tmp_path / "hook", more=KILLED_IN_WRITE)
    assert packstone_process("compact", lake.table, "--engine", "inline", env=env).code == -signal.SIGKILL
    again = packstone_process("compact", lake.table, "--engine", "inline", env=env)
    assert again.code == -signal.SIGKILL
    assert list((lake.root / ".packstone" / "orders" / "deaths").iterdir())
    done = packstone_process("compact", lake.table, "--engine", "inline", "--format", "json")
    assert (done.code, done.json["status"], len(lake.ids())) == (0, "committed", 60)
