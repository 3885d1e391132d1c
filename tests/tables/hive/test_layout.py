"""Where our own files live: beside the table, found alike by everybody, and in it only where it must be so."""

import os
import tempfile

import pytest

from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.hive.layout import TableLayout, find_layout, partition_id, split_target

NOBODY = 65_534


class MountedTable(MemoryFileIO):
    """Memory in which the table is a file system of its own."""

    def store_id(self, path):
        """Tell the two apart."""
        return "mounted" if f"{path}/".startswith("/lake/orders/") else "memory"


@pytest.mark.parametrize(
    ("path", "table", "partition"),
    [
        ("/lake/orders", "/lake/orders", ""),
        ("/lake/orders/dt=1", "/lake/orders", "dt=1"),
        ("/lake/orders/dt=1/hour=02", "/lake/orders", "dt=1/hour=02"),
        ("/lake/orders/_x=1", "/lake/orders", "_x=1"),
        ("/lake/a=1/orders", "/lake/a=1/orders", ""),
        ("/lake/orders/dt=", "/lake/orders", "dt="),
        ("/lake/orders/dt=a=b", "/lake/orders", "dt=a=b"),
        ("/lake/orders/=1", "/lake/orders/=1", ""),
        ("/dt=1", "/", "dt=1"),
        ("/", "/", ""),
    ],
)
def test_the_table_is_the_path_without_its_partitions(path, table, partition):
    """Trailing ``k=v`` folders are the partition; one in the middle of the path is part of the table's name."""
    assert split_target(path) == (table, partition)


def test_our_files_are_beside_the_table(tmp_path):
    """A table and each of its partitions have one and the same state folder, outside of the table."""
    (tmp_path / "orders" / "dt=1").mkdir(parents=True)
    table, _ = find_layout(LocalFileIO(), str(tmp_path / "orders"))
    partition, name = find_layout(LocalFileIO(), str(tmp_path / "orders" / "dt=1"))
    assert table == partition
    assert (name, table.state) == ("dt=1", str(tmp_path / ".packstone" / "orders"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_inside_the_table_where_the_parent_may_not_be_written(children, lake):
    """Without rights beside the table the state is in it, hidden from Spark; another user then finds it there too."""
    lake.parquet("dt=1")
    for path in (lake.table, *lake.table.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    lake.root.chmod(0o755)
    for above in lake.root.parents:  # of the test session, however deep it is
        if above.is_relative_to(tempfile.gettempdir()) and above.owner() == "root" and not above.stat().st_mode & 0o001:
            above.chmod(0o755)
    before = lake.ids()
    done = children.run("compact", path=str(lake.table), uid=NOBODY)
    assert done.get("value", done)["status"] == "committed", done
    assert not (lake.root / ".packstone").exists()
    assert (lake.table / ".packstone" / "orders" / "runs").is_dir()
    layout, _ = find_layout(LocalFileIO(), str(lake.table))
    assert layout.state == str(lake.table / ".packstone" / "orders")
    assert LocalFileIO().may_write(str(lake.root))
    assert lake.ids() == before


def test_inside_the_table_if_it_is_a_mount_of_its_own():
    """A rename does not leave a file system, so neither do we: even if a state folder stands beside the mount."""
    io = MountedTable()
    io.make_dirs("/lake/orders")
    io.make_dirs("/lake/.packstone/orders")
    assert find_layout(io, "/lake/orders")[0].state == "/lake/orders/.packstone/orders"


def test_a_table_at_the_root_of_a_file_system():
    """There is nothing beside ``/``."""
    io = MemoryFileIO()
    assert find_layout(io, "/")[0].state == "/.packstone/root"


def test_names_of_partitions_become_names_of_files():
    """Readable where it can be, and different for different partitions whatever is in them."""
    assert partition_id("") == "@table"
    assert partition_id("dt=2019-01-01") == "dt=2019-01-01"
    odd = ["a=1/b=2", "a=1%2Fb=2", "@table", "a=1~1", "a=ä", "a=\udcff", "a=.", "a=" + "x" * 300, "a=" + "x" * 301]
    ids = [partition_id(partition) for partition in odd]
    assert len(set(ids)) == len(odd)
    for name in ids:
        assert "/" not in name
        assert len(f"{name}~10000.intent.json".encode()) < 255


def test_paths_of_a_run():
    """All paths of a run are below the state folder, a backup elsewhere only if it was asked for."""
    layout = TableLayout(root="/lake/orders", state="/lake/.packstone/orders")
    assert layout.directory("") == "/lake/orders"
    assert layout.directory("dt=1") == "/lake/orders/dt=1"
    for path in (layout.run("r"), layout.heartbeat("r"), layout.staging("r"), layout.backup("r"), layout.owners("")):
        assert path.startswith("/lake/.packstone/orders/")
    assert layout.backup("r", backup_root="/keep") == "/keep/orders/r"
