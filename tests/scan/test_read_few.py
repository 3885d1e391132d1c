"""Few rows are read at once by the process that asks; of many it keeps nothing."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from packstone.scan.read_few import read_few
from packstone.service.segment_table import SegmentTable
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
    made = SegmentTable.create(str(tmp_path / "t"), "id long, name string", sort_by=["id"])
    for load in range(LOADS):
        made.load(pa.table({"id": range(ROWS), "name": [f"name {load} of {at}" for at in range(ROWS)]}))
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
    with pytest.raises(Exception, match="Parquet") as caught:
        read_few(LocalFileIO(), plan)
    assert path in str(caught.value)
