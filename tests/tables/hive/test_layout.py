"""Where our own files live: beside the table, found alike by everybody, and in it only where it must be so."""

import os
import tempfile

import pytest

from packstone.errors import RefusedError
from packstone.model.codec import dump_record
from packstone.runs.folder import RunInfo
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.hive.layout import (
    TableLayout,
    check_not_nested,
    find_layout,
    own_tables_below,
    partition_id,
    split_target,
)

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
    """All paths of a run are below the state folder, a backup elsewhere only if it was requested."""
    layout = TableLayout(root="/lake/orders", state="/lake/.packstone/orders")
    assert layout.directory("") == "/lake/orders"
    assert layout.directory("dt=1") == "/lake/orders/dt=1"
    for path in (layout.run("r"), layout.heartbeat("r"), layout.staging("r"), layout.backup("r"), layout.owners("")):
        assert path.startswith("/lake/.packstone/orders/")
    assert layout.backup("r", backup_root="/keep") == "/keep/orders/r"


def test_a_table_called_as_its_parent(packstone, tmp_path):
    """``sales/sales`` and ``sales`` are two tables with two state folders, in whichever order they are merged."""
    inner = text_files(tmp_path / "sales" / "sales" / "p=1")
    outer = text_files(tmp_path / "sales" / "p=2024")
    tables = [tmp_path / "sales" / "sales", tmp_path / "sales"]
    for table in tables:
        assert packstone("compact", table).code == 0
    assert [len(list(folder.iterdir())) for folder in (inner, outer)] == [1, 1]
    assert (tmp_path / "sales" / ".packstone" / "sales" / "runs").is_dir()
    assert (tmp_path / ".packstone" / "sales" / "runs").is_dir()
    assert "a table of its own" in packstone("plan", tables[1], "--format", "json").skipped("sales")
    refused = packstone("compact", tables[0])
    assert (refused.code, f"give {tables[1]} itself" in refused.sentence) == (3, True)


def test_state_in_the_root_is_not_that_of_a_table_of_the_same_name():
    """Records that name the table itself make ``sales/.packstone/sales`` its own: nothing below it is another table."""
    io = MemoryFileIO()
    io.make_dirs("/lake/sales/sales/p=1")
    record_run(io, "/lake/sales/.packstone/sales", table="/lake/sales")
    assert find_layout(io, "/lake/sales")[0].state == "/lake/sales/.packstone/sales"
    assert own_tables_below(io, "/lake/sales") == frozenset()
    with pytest.raises(RefusedError, match="give /lake/sales itself"):
        check_not_nested(io, find_layout(io, "/lake/sales/sales")[0])


def test_a_mount_whose_state_folder_another_table_has():
    """A table that could only use the state folder of a table of the same name below it is refused, with its name."""
    io = MountedTable()
    io.make_dirs("/lake/orders/orders/p=1")
    record_run(io, "/lake/orders/.packstone/orders", table="/lake/orders/orders")
    check_not_nested(io, find_layout(io, "/lake/orders/orders")[0])
    with pytest.raises(RefusedError, match="holds the records of the table /lake/orders/orders"):
        check_not_nested(io, find_layout(io, "/lake/orders")[0])


def test_a_folder_above_without_runs_holds_nothing_back():
    """Once all runs of a table are forgotten, a folder in it may be a table of its own."""
    io = MemoryFileIO()
    io.make_dirs("/lake/orders/2024")
    io.make_dirs("/lake/.packstone/orders/runs")
    check_not_nested(io, find_layout(io, "/lake/orders/2024")[0])
    record_run(io, "/lake/.packstone/orders", table="/lake/orders")
    with pytest.raises(RefusedError, match="give /lake/orders itself"):
        check_not_nested(io, find_layout(io, "/lake/orders/2024")[0])


def text_files(folder):
    """Write six small files; return their folder."""
    folder.mkdir(parents=True)
    for at in range(6):
        (folder / f"f{at}.csv").write_text("".join(f"{at},{row}\n" for row in range(10)))
    return folder


def record_run(io, state, *, table):
    """Leave the record of one run."""
    info = RunInfo(run="r", command="compact", table=table, process=ProcessIdentity.mine(), started_at="2026-01-01")
    io.make_dirs(f"{state}/runs/r")
    io.replace(f"{state}/runs/r/run.json", dump_record(info))
