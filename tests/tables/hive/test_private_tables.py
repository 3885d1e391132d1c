"""What a run leaves beside a table is never more open than what it comes from."""

import os
import stat
import struct

import pytest

from packstone.pipeline.table import Table
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions


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
    Table(str(lake.table)).compact(HiveOptions())
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
    Table(str(lake.table)).compact(HiveOptions())
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
    Table(str(lake.table), io=io).compact(HiveOptions())
    assert io.folders == {0o700}
    assert io.files <= {0o600, 0o640}
    assert {mode(path) for path in folder.iterdir()} == {0o640}


def test_a_shared_table_stays_usable_by_its_group(lake):
    """A table that its group may write has such a state folder: the next run may be of another user."""
    lake.parquet("dt=1")
    os.umask(0o002)
    lake.root.chmod(0o775)
    lake.table.chmod(0o770)
    Table(str(lake.table)).compact(HiveOptions())
    state = lake.root / ".packstone" / "orders"
    assert {mode(path) for path in (state, state / "runs", state / "owners")} == {0o770}


ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
NOBODY_SPECIAL = 0xFFFFFFFF
STRANGER = 1234


def acl(*, user=None, group=0o5, mask=0o5):
    """An ACL as the kernel keeps it: the owner may do all, others nothing, and a user what is given."""
    named = [] if user is None else [(0x02, user, STRANGER)]
    entries = [(0x01, 7, NOBODY_SPECIAL), *named, (0x04, group, NOBODY_SPECIAL), (0x10, mask, NOBODY_SPECIAL)]
    whole = [*entries, (0x20, 0, NOBODY_SPECIAL)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in whole)


def acls(path):
    """The ACLs of a path, by name."""
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if name in (ACCESS, DEFAULT)}


@pytest.fixture
def acl_lake(lake):
    """A lake on a file system with ACLs."""
    lake.parquet("dt=1")
    try:
        os.setxattr(lake.table, ACCESS, acl())
        os.removexattr(lake.table, ACCESS)
    except OSError as error:
        pytest.skip(f"no ACLs on this file system: {error}")
    return lake


def names_stranger(path):
    """Whether an ACL of a path has an entry for that user."""
    return any(struct.pack("<I", STRANGER) in value for value in acls(path).values())


@pytest.mark.parametrize("is_old", [False, True])
def test_a_default_acl_of_the_folder_above_opens_nothing(acl_lake, is_old):
    """A user whom the lake's default ACL names, and the table does not, cannot enter what we keep beside the table."""
    for path in (acl_lake.table, acl_lake.table / "dt=1"):
        path.chmod(0o750)
    os.setxattr(acl_lake.root, DEFAULT, acl(user=5))
    state = acl_lake.root / ".packstone" / "orders"
    if is_old:
        state.mkdir(parents=True)  # by an earlier version, which let the entries be inherited
        assert names_stranger(state)
    outcome = Table(str(acl_lake.table)).compact(HiveOptions())
    assert outcome.status == "committed"
    assert (mode(state), ACCESS in acls(state)) == (0o750, False)
    assert list(state.rglob("*.kept"))
    if not is_old:
        assert not [path for path in (state, *state.rglob("*")) if names_stranger(path)]


def test_an_acl_of_the_table_is_that_of_its_state(acl_lake):
    """Who may enter the table by its ACL may read the records; the group, which may not, may not here either."""
    for path in (acl_lake.table, acl_lake.table / "dt=1"):
        os.setxattr(path, ACCESS, acl(user=5, group=0))
    Table(str(acl_lake.table)).compact(HiveOptions())
    state = acl_lake.root / ".packstone" / "orders"
    assert acls(state) == {ACCESS: acl(user=5, group=0), DEFAULT: acl(user=5, group=0)}
    (kept,) = {path.parent for path in state.rglob("*.kept")}
    assert acls(kept)[ACCESS] == acl(user=5, group=0)
    (record,) = state.rglob("run.json")
    assert names_stranger(record)
    assert mode(record) == 0o640


def test_a_partition_without_the_tables_acl(acl_lake):
    """A partition that is closed to a user of the table's ACL has a backup that is."""
    os.setxattr(acl_lake.table, ACCESS, acl(user=5))
    (acl_lake.table / "dt=1").chmod(0o700)
    Table(str(acl_lake.table)).compact(HiveOptions())
    (kept,) = {path.parent for path in (acl_lake.root / ".packstone").rglob("*.kept")}
    assert (mode(kept), acls(kept)) == (0o700, {})


def test_staging_inherits_no_acl(acl_lake):
    """Rows that are not published yet are for the owner alone, whatever ACL the table has."""
    os.setxattr(acl_lake.table, ACCESS, acl(user=5))
    staging = acl_lake.root / ".packstone" / "orders" / "staging"

    class Looking(Watching):
        """Notes whether a folder of staging names the user."""

        def _step(self, name, path, do, **more):
            named.extend(found for found in self.staging.glob("*/**") if names_stranger(found))
            return super()._step(name, path, do, **more)

    named: list[object] = []
    io = Looking(staging)
    Table(str(acl_lake.table), io=io).compact(HiveOptions())
    assert (io.folders, named) == ({0o700}, [])
