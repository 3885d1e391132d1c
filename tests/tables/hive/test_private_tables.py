"""What a run leaves beside a table is never more open than what it comes from."""

import os
import stat

import pytest

from packstone.model.merge_options import MergeOptions
from packstone.service.hive_table import HiveTable
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO


def mode(path):
    """The permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def reachable_by_others(path, top):
    """Whether somebody else may read it, by its own mode and those of all folders up to the top."""
    above = [folder for folder in path.parents if folder.is_relative_to(top)]
    return bool(mode(path) & 0o004) and all(mode(folder) & 0o001 for folder in above)


@pytest.fixture(autouse=True)
def usual_umask():
    """The umask of most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("private", ["", "country=DE", "country=DE/dt=1"])
def test_kept_originals_are_as_private_as_they_were(lake, private):
    """A closed folder anywhere above a file closes its backup too; other partitions stay as they were."""
    lake.parquet("country=DE/dt=1")
    lake.parquet("country=FR/dt=1")
    (lake.table / private).chmod(0o700)
    HiveTable(str(lake.table)).compact(MergeOptions())
    state = lake.root / ".packstone" / "orders"
    kept = {path for path in state.rglob("*.kept") if not private or private in str(path.relative_to(state))}
    assert kept
    assert not any(reachable_by_others(path, lake.root) for path in kept)
    others = set(state.rglob("*.kept")) - kept
    assert all(reachable_by_others(path, lake.root) for path in others)


def test_records_of_a_private_table(lake):
    """Names of files and partitions are private too, also in a state folder that an earlier version left open."""
    lake.parquet("dt=1")
    lake.table.chmod(0o700)
    state = lake.root / ".packstone" / "orders"
    state.mkdir(parents=True)
    HiveTable(str(lake.table)).compact(MergeOptions())
    assert mode(state) == 0o700
    assert not [path for path in state.rglob("*") if path.is_file() and reachable_by_others(path, lake.root)]


class Watching(FaultyFileIO):
    """Notes the modes of all that is in the staging folder at each step."""

    def __init__(self, staging):
        super().__init__(LocalFileIO())
        self.staging, self.files, self.folders = staging, set(), set()

    def _step(self, name, path, do, **more):
        for found in self.staging.rglob("*"):
            if found.is_file() and found.suffix == ".data":
                self.files.add(mode(found))
            elif found.is_dir():
                self.folders.add(mode(found))
        return super()._step(name, path, do, **more)


def test_staged_rows_are_read_by_nobody_else(lake):
    """From the moment a staged file exists until it has the mode of its inputs, only its owner may enter its folder."""
    folder = lake.parquet("dt=1")
    for path in folder.iterdir():
        path.chmod(0o640)
    io = Watching(lake.root / ".packstone" / "orders" / "staging")
    HiveTable(str(lake.table), io=io).compact(MergeOptions())
    assert io.folders == {0o700}
    assert io.files <= {0o600, 0o640}
    assert {mode(path) for path in folder.iterdir()} == {0o640}


def test_a_shared_table_stays_usable_by_its_group(lake):
    """A table that its group may write has such a state folder: the next run may be of another user."""
    lake.parquet("dt=1")
    os.umask(0o002)
    lake.root.chmod(0o775)
    lake.table.chmod(0o770)
    HiveTable(str(lake.table)).compact(MergeOptions())
    state = lake.root / ".packstone" / "orders"
    assert {mode(path) for path in (state, state / "runs", state / "owners")} == {0o770}
