"""Few rows are read at once by the process that asks; of many it keeps nothing."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from peak_memory import METER

import packstone
from packstone.errors import CorruptionError, InvalidInputError
from packstone.query.scan.read_split import read_few
from packstone.storage.local import LocalFileIO

LOADS, ROWS = 9, 1000


class SlowFiles(LocalFileIO):
    """A store that takes its time to open a file, and counts how often it did."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.opened = seconds, 0

    def open_input(self, path):
        """Open a file, after a while."""
        self.opened += 1
        time.sleep(self.seconds)
        return super().open_input(path)


@pytest.fixture
def table(tmp_path):
    """A table of several files, each with all keys."""
    made = packstone.create(str(tmp_path / "t"), "id long, name string", sort_by=["id"])
    for load in range(LOADS):
        made.segments.load(pa.table({"id": range(ROWS), "name": [f"name {load} of {at}" for at in range(ROWS)]}))
    return made


def plan_of(table, where):
    """The plan of a filter."""
    return table.scan(where=where)._plan()


def test_the_rows_of_all_files(table):
    """What is found is what a scan finds."""
    found = read_few(LocalFileIO(), plan_of(table, "id IN (3, 700)"))
    assert found.num_rows == 2 * LOADS
    expected = table.scan(where="id IN (3, 700)").to_arrow()
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert read_few(LocalFileIO(), plan_of(table, "id = 5000")).num_rows == 0


def test_more_rows_than_fit(table):
    """One byte too few, and there is nothing."""
    plan = plan_of(table, "id < 900")
    size_bytes = read_few(LocalFileIO(), plan).nbytes
    assert read_few(LocalFileIO(), plan, max_bytes=size_bytes).num_rows == 900 * LOADS
    assert read_few(LocalFileIO(), plan, max_bytes=size_bytes - 1) is None


def test_files_that_take_too_long(table):
    """After the first slow files the others are not opened."""
    store = SlowFiles(seconds=0.4)
    assert read_few(store, plan_of(table, "id = 3")) is None
    assert 0 < store.opened < LOADS


def test_a_broken_file_is_named(table):
    """As wherever it is read."""
    plan = plan_of(table, "id = 3")
    path = plan.splits[0].files[0].path
    Path(path).write_bytes(b"PAR1 this is no Parquet file at all PAR1")
    with pytest.raises(Exception, match="has a footer of") as caught:
        read_few(LocalFileIO(), plan)
    assert path in str(caught.value)


@pytest.mark.parametrize("was_read", [False, True])
def test_a_version_that_has_lost_a_file(table, was_read):
    """Version and file are named, whether its footer is known or not; the newest one cannot have been cleaned."""
    scan = table.scan(where="id = 3")
    if was_read:
        assert scan.count() == LOADS
    path = Path(table.segments.files().paths[0])
    path.unlink()
    for ask in (scan.to_arrow, scan.count):
        with pytest.raises(CorruptionError, match=rf"{path.name} is missing, but version \d+ of .*, the newest one"):
            ask()
    table.segments.alter({"MAJOR_COMPACTION_SIZE": "77"})
    for ask in (scan.to_arrow, scan.count):
        with pytest.raises(InvalidInputError, match=rf"needs .*{path.name}, which no longer exists: it was cleaned"):
            ask()


def test_a_slow_last_file_is_not_read_for_nothing(table):
    """What was found is given, however long the last file took; the clock is looked at before a file, not after."""
    store = SlowFiles(seconds=0.4)
    plan = plan_of(table, "name = 'name 3 of 7'")
    one = replace(plan, splits=(replace(plan.splits[0], files=plan.splits[0].files[:1]),))
    assert read_few(store, one) is not None


CHILD = (
    METER
    + """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.compute
from packstone.query.scan.read_split import read_few
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO

table = Table(sys.argv[1])
plan = table.scan(where=sys.argv[2])._plan()
meter = Meter()
assert read_few(LocalFileIO(), plan) is None
print(meter.risen_mb())
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["id >= 0", "id <> 5"])
@pytest.mark.parametrize("shape", ["long values", "long values in a dictionary"])
def test_rows_that_are_small_only_on_disk(tmp_path, where, shape):
    """Hundreds of megabytes of text that is stored in some kilobytes: the process takes no part of it."""
    made = packstone.create(str(tmp_path / "t"), "id long, v string", sort_by=["id"])
    if shape == "long values":
        values = [chr(65 + at % 26) * (1 << 20) + str(at) for at in range(300)]
    else:
        values = [chr(65 + at % 8) * 100_000 for at in range(4000)]
    made.segments.load(pa.table({"id": range(len(values)), "v": values}))
    done = subprocess.run([sys.executable, "-c", CHILD, made.path, where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200
