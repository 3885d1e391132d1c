"""From names and paths to tables."""

import pytest

from packstone.errors import InvalidInputError
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.catalog import Catalog, FileSystemCatalog, find_table, is_table


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


def test_databases_and_tables_are_listed(io):
    """Only folders ``*.db`` are databases, only folders with a schema are tables."""
    catalog: Catalog = FileSystemCatalog(io, "/w")
    assert catalog.list_databases() == ("empty", "sales")
    assert catalog.list_tables("sales") == ("orders", "returns")
    assert catalog.list_tables("empty") == ()


def test_a_table_is_found_by_name(io):
    """Its path and its name are told."""
    found = FileSystemCatalog(io, "/w/").find_table("sales", "orders")
    assert (found.path, str(found)) == ("/w/sales.db/orders", "sales.orders")


@pytest.mark.parametrize(("database", "table"), [("sales", "nothing"), ("sales", "not-a-table"), ("nothing", "orders")])
def test_what_is_not_there_is_named(io, database, table):
    """One sentence says what the warehouse does not have."""
    with pytest.raises(InvalidInputError, match="/w has no"):
        FileSystemCatalog(io, "/w").find_table(database, table)


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
    """A warehouse or a database is no table."""
    assert not is_table(io, path)
    with pytest.raises(InvalidInputError, match="neither a Paimon table nor inside one"):
        find_table(io, path)


def test_a_branch_is_refused(io):
    """Its data lie with the main branch: whoever compacted it alone would not know what the others use."""
    with pytest.raises(InvalidInputError, match="is a branch of a table"):
        find_table(io, "/w/sales.db/orders/branch/branch-b/snapshot")


def test_a_missing_warehouse_is_told(io):
    """Instead of an empty list."""
    with pytest.raises(InvalidInputError, match="no folder /nowhere"):
        FileSystemCatalog(io, "/nowhere").list_databases()
