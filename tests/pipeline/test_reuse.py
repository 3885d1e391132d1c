"""After a SIGKILL: what was written and proved is used by the next run, unless it is not what it should be."""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from paimon_lake import PaimonLake
from segment_lake import SegmentLake

from packstone.pipeline.table import Table
from packstone.runs.folder import RunFolders
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions
from packstone.tables.paimon.options import PaimonOptions
from packstone.tables.segments.options import SegmentOptions

KILLED = -signal.SIGKILL


class HiveCase:
    """Three partitions of four files."""

    call, arguments, options = "compact", {"min_files": 2}, HiveOptions(min_files=2)
    units = 3

    def __init__(self, folder, lake):
        for day in (1, 2, 3):
            lake.parquet(f"dt={day}", files=4, rows=50)
        self.lake, self.table, self.home = lake, str(lake.table), lake.root

    def rows(self):
        """All rows."""
        return self.lake.ids()

    def outputs(self):
        """The finished outputs of a killed run."""
        return sorted((self.home / ".packstone").rglob("*.data"))

    def change(self):
        """Give one input other rows."""
        self.lake.parquet("dt=1", files=1, rows=50)


class PaimonCase:
    """Three buckets of overlapping runs."""

    call, arguments, options = "paimon_compact", {}, PaimonOptions(strategy="full")
    units = 3

    def __init__(self, folder, _lake):
        self.home = folder / "lake"
        self.lake = PaimonLake(self.home / "t", buckets=3).create()
        for first in (0, 20, 40):
            self.lake.append(dict.fromkeys(range(first, first + 40), first))
        self.table, self._before = self.lake.table, set(self.lake.path.rglob("bucket-*/data-*"))

    def rows(self):
        """All rows."""
        assert self.lake.problems() == []
        return self.lake.rows()

    def outputs(self):
        """The finished outputs of a killed run."""
        return sorted(set(self.lake.path.rglob("bucket-*/data-*")) - self._before)

    def change(self):
        """Write to a bucket."""
        self.lake.append({0: 99})


class SegmentCase:
    """Two merges of four segments each."""

    call, arguments, options = "segment_compact", {}, SegmentOptions()
    units = 2

    def __init__(self, folder, _lake):
        self.home = folder / "lake"
        self.lake = SegmentLake(self.home / "t").create(SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="4,0")
        for seed in range(8):
            self.lake.load([{"id": at, "v": f"{seed}-{at}"} for at in range(40)])
        self.table, self._before = self.lake.table, set(self.lake.data_on_disk())

    def rows(self):
        """All rows."""
        assert self.lake.problems() == []
        return self.lake.count()

    def outputs(self):
        """The finished outputs of a killed run."""
        return sorted(self.lake.path / name for name in set(self.lake.data_on_disk()) - self._before)

    def change(self):
        """Take away one of the segments that were being merged."""
        self.lake.delete("7")


@pytest.fixture(params=[HiveCase, PaimonCase, SegmentCase], ids=["hive", "paimon", "segments"])
def case(request, tmp_path, lake):
    """A table of each family."""
    return request.param(tmp_path, lake)


def kill_after(case, children, copy, units):
    """Kill a compaction with a real SIGKILL when that many of its units are done; 0: all."""
    shutil.copytree(case.home, copy)
    steps = children.run(case.call, path=case.table, **case.arguments)["steps"]
    shutil.rmtree(case.home)
    shutil.copytree(copy, case.home)  # with the times of all files: records name them
    done = [at for at, step in enumerate(steps) if "/done-" in step]
    fault = {"step": done[units - 1], "action": "kill", "moment": "after"}
    for _ in range(5):
        assert children.run(case.call, path=case.table, fault=fault, **case.arguments)["status"] == KILLED
        finished = Counter(path.parent.parent for path in Path(case.home).rglob("done-*"))
        if max(finished.values(), default=0) == (units or len(done)):
            return
        shutil.rmtree(case.home)  # a heartbeat on a busy machine was one of the steps: once more
        shutil.copytree(copy, case.home)
    pytest.fail(f"killed five times, and never after {units or len(done)} units")


list_runs = RunFolders.list_runs


def list_by_start(folders, *, newest_first):
    """The runs in the order in which they began; ids sort only by the second."""
    return sorted(list_runs(folders), key=lambda run: folders.read_info(run).started_at, reverse=newest_first)


def check_all_merged(case, rows, outcome, reused):
    """The outcome counts what was reused, no row changed, nothing is left, and a second run has nothing to do."""
    assert (outcome.status, outcome.reused, len(outcome.units)) == ("committed", reused, case.units)
    assert case.rows() == rows
    table = Table(case.table)
    folders = RunFolders(io=LocalFileIO(), state=table.open().state)
    assert not Path(folders.staging("")).exists()
    assert all(folders.is_ended(run) for run in folders.list_runs())
    assert table.compact(case.options).status == "nothing-to-do"
    assert table.verify(outcome.run).problems == ()


@pytest.mark.parametrize("finished", ["one", "all"])
def test_finished_units_are_not_merged_again(case, children, tmp_path, finished):
    """As many as were finished are reused, and only the others are merged."""
    rows, units = case.rows(), 1 if finished == "one" else case.units
    kill_after(case, children, tmp_path / "copy", units)
    assert len(case.outputs()) >= units
    outcome = Table(case.table).compact(case.options)
    check_all_merged(case, rows, outcome, units)


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
@pytest.mark.sample(2)
def test_a_damaged_output_is_merged_again(case, children, tmp_path, damage):
    """Whatever became of a finished file, it is not published: one that cannot be used is merged again."""
    rows = case.rows()
    kill_after(case, children, tmp_path / "copy", case.units)
    broken = case.outputs()[0]
    found = broken.stat()
    data = bytearray(broken.read_bytes())
    at = len(data) // 3
    data[at] ^= 0xFF
    if damage == "gone":
        broken.unlink()
    else:
        broken.write_bytes(bytes(data[:-20] if damage == "cut" else data))
        os.utime(broken, ns=(found.st_atime_ns, found.st_mtime_ns))
    outcome = Table(case.table).compact(case.options)
    check_all_merged(case, rows, outcome, case.units - 1)


def test_a_damaged_result_is_merged_again(case, children, tmp_path):
    """A result that is not the one that was written says nothing."""
    rows = case.rows()
    kill_after(case, children, tmp_path / "copy", case.units)
    first = min(case.home.rglob("done-*"))
    first.write_bytes(first.read_bytes().replace(b'"rows_out":', b'"rows_out":1', 1))
    check_all_merged(case, rows, Table(case.table).compact(case.options), case.units - 1)


def test_what_changed_is_merged_again(case, children, tmp_path):
    """A part whose inputs changed since is planned anew; the others are still reused."""
    kill_after(case, children, tmp_path / "copy", case.units)
    case.change()
    rows = case.rows()
    outcome = Table(case.table).compact(case.options)
    assert case.rows() == rows
    assert (outcome.status, outcome.reused) == ("committed", case.units - 1)


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest-first", "newest-first"])
@pytest.mark.sample(2)
def test_killed_again_and_again(case, children, tmp_path, monkeypatch, newest_first):
    """What a run took over and a second kill left behind is used by the third, whatever the order of their ids."""
    rows = case.rows()
    kill_after(case, children, tmp_path / "copy", 1)
    kill_after(case, children, tmp_path / "second", 0)
    monkeypatch.setattr(RunFolders, "list_runs", lambda folders: list_by_start(folders, newest_first=newest_first))
    check_all_merged(case, rows, Table(case.table).compact(case.options), case.units)


def test_recover_removes_what_was_finished(case, children, tmp_path):
    """`recover` makes room: the next compaction merges all of it."""
    rows = case.rows()
    kill_after(case, children, tmp_path / "copy", case.units)
    assert any("staging files removed" in action for action in Table(case.table).recover().actions)
    check_all_merged(case, rows, Table(case.table).compact(case.options), 0)


def test_other_options_make_other_outputs(lake, children, tmp_path):
    """What was written with another codec is not used."""
    case = HiveCase(tmp_path, lake)
    kill_after(case, children, tmp_path / "copy", case.units)
    assert Table(case.table).compact(HiveOptions(min_files=2, codec="gzip")).reused == 0
