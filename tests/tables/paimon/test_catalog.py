"""From names and paths to tables."""

import pytest

from packstone.errors import InvalidInputError
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.store import find_table, is_table


@pytest.fixture(name="io")
def warehouse():
    """A warehouse with tables, an empty database and folders that are neither."""
    io = MemoryFileIO()
    for table in (
        "/w/sales.db/orders",
        "/w/sales.db/returns",
        "/elsewhere/plain",
        "/w/sales.db/orders/branch/branch-b",
    ):
        io.make_dirs(f"{table}/schema")
        io.write_new(f"{table}/schema/schema-0", b"{}")
    for folder in (
        "/w/empty.db",
        "/w/not-a-database",
        "/w/sales.db/not-a-table/schema",
        "/w/sales.db/orders/dt=1/bucket-0",
    ):
        io.make_dirs(folder)
    return io


@pytest.mark.parametrize(
    "path",
    [
        "/w/sales.db/orders",
        "/w/sales.db/orders/",
        "/w/sales.db/orders/dt=1",
        "/w/sales.db/orders/dt=1/bucket-0/data-1.parquet",
        "/w/sales.db/orders/snapshot",
    ],
)
def test_any_path_inside_a_table_finds_it(io, path):
    """A partition, a bucket, a file or a folder of metadata leads to the table, whether it exists or not."""
    assert str(find_table(io, path)) == "sales.orders"


def test_a_table_outside_a_warehouse_has_only_its_path(io):
    """Nothing is made up."""
    assert str(find_table(io, "/elsewhere/plain/bucket-0")) == "/elsewhere/plain"


@pytest.mark.parametrize("path", ["/", "/w", "/w/sales.db", "/w/sales.db/not-a-table"])
def test_a_path_outside_every_table_is_refused(io, path):
    """A warehouse or a database is not a table."""
    assert not is_table(io, path)
    with pytest.raises(InvalidInputError, match="neither a Paimon table nor inside one"):
        find_table(io, path)


def test_a_branch_is_refused(io):
    """Its data lie with the main branch: whoever compacted it alone would not know what the others use."""
    with pytest.raises(InvalidInputError, match="is a branch of a table"):
        find_table(io, "/w/sales.db/orders/branch/branch-b/snapshot")
