"""Hive's own client of its metastore, inside Spark's Java: facts of tables, and one call that moves a partition.

Spark's SQL can set a location too, but not the statistics in the same call; and Hive counts the files of a new location
itself, and forgets the number of rows, unless it is told not to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, PackstoneError, UnavailableError
from packstone.spark.hive_facts import partition_facts, table_facts
from packstone.spark.session import is_connect
from packstone.tables.hive.partition_values import unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.model.metastore import PartitionFacts, TableFacts
    from packstone.spark.session import SparkHandle

HIVE_SUPPORT: Final = ("spark.sql.catalogImplementation", "hive")
_PAGE: Final = 500
_URIS: Final = "hive.metastore.uris"
_JDBC: Final = "javax.jdo.option.ConnectionURL"
_EMBEDDED: Final = "jdbc:derby:;databaseName=metastore_db"  # Hive's default: it would make one in the current folder
_KEEP_NUMBERS: Final = {"DO_NOT_UPDATE_STATS": "true"}


class SparkHiveClient:
    """A client that connects when it is first asked."""

    def __init__(self, open_spark: Callable[[], SparkHandle], *, needs_address: bool = False) -> None:
        self._open_spark = open_spark
        self._needs_address = needs_address  # the metastore is on a server: Spark's embedded one cannot be it
        self._handle: SparkHandle | None = None
        self._client: Any = None

    @property
    def key(self) -> str:
        """Which metastore this is: the one that Spark knows."""
        return "of Spark"

    def find_table(self, database: str, name: str) -> TableFacts:
        """One table; InvalidInputError if there is none."""
        try:
            return table_facts(self._connected().getTable(database.lower(), name.lower()))
        except Exception as error:
            if "NoSuchObjectException" in _said(error):
                raise InvalidInputError(f"The metastore {self.key} has no table {database}.{name}.") from error
            raise _unavailable("read", f"{database}.{name}", error) from error

    def list_partitions(self, table: TableFacts) -> Iterator[PartitionFacts]:
        """The partitions of one table, in the order of their names; a page of their facts at a time."""
        client, at = self._connected(), (table.database, table.name)
        try:
            names = [str(name) for name in client.listPartitionNames(*at, -1)]
            for first in range(0, len(names), _PAGE):
                page = names[first : first + _PAGE]
                found = client.getPartitionsByNames(*at, self._java_list(page))
                by_values = {tuple(str(value) for value in one.getValues()): one for one in found}
                for name in page:
                    partition = by_values.get(_values_of(name))
                    if partition is not None:  # else dropped since its name was listed
                        yield partition_facts(partition, name)
        except Exception as error:
            raise _unavailable("read", table.full_name, error) from error

    def who_shares(self, table: TableFacts, location: str) -> str | None:
        """Name another table whose own folder is at, above or below a location; their partitions are not asked."""
        client, mine = self._connected(), f"{location.rstrip('/')}/"
        for database in client.getAllDatabases():
            names = [str(name) for name in client.getAllTables(database)]
            for first in range(0, len(names), _PAGE):
                for other in client.getTableObjectsByName(database, self._java_list(names[first : first + _PAGE])):
                    found = f"{other.getDbName()}.{other.getTableName()}"
                    theirs = f"{str(other.getSd().getLocation() or '').rstrip('/')}/"
                    if (
                        found != table.full_name
                        and theirs != "/"
                        and (mine.startswith(theirs) or theirs.startswith(mine))
                    ):
                        return found
        return None

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, or, without one, a table; None if there is no such thing."""
        try:
            found = self._find(table, partition)
        except Exception as error:
            if "NoSuchObjectException" in _said(error):
                return None
            raise _unavailable("read", table, error) from error
        return str(found.getSd().getLocation())

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """In one call: the partition, or the table, is there, with these statistics."""
        self._alter(table, partition, location=location, numbers=numbers)

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Correct the statistics of a partition whose files changed in place, or of a table without partitions."""
        self._alter(table, partition, location=None, numbers=numbers)

    def _find(self, table: str, partition: str) -> Any:  # noqa: ANN401 - a Java object
        database, _, name = table.partition(".")
        client = self._connected()
        return client.getPartition(database, name, partition) if partition else client.getTable(database, name)

    def _alter(self, table: str, partition: str, *, location: str | None, numbers: dict[str, int]) -> None:
        database, _, name = table.partition(".")
        client = self._connected()
        alter = client.alter_partition if partition else client.alter_table_with_environmentContext
        try:
            found = self._find(table, partition)
            if location is not None:
                _move(found.getSd(), location)
            for key, number in numbers.items():
                found.getParameters().put(key, str(number))
            alter(database, name, found, self._context())
        except Exception as error:
            raise _unavailable("changed", table, error) from error

    def close(self) -> None:
        """Let go of the client, and of the session if it is ours."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._handle is not None:
            self._handle.stop()
            self._handle = None

    def _connected(self) -> Any:  # noqa: ANN401 - a Java object
        if self._client is None:
            self._handle = self._open_spark()
            spark = self._handle.spark
            if is_connect(spark):
                raise InvalidInputError("--publish location speaks to Hive's own client, which Spark Connect has not.")
            if spark.conf.get(HIVE_SUPPORT[0], "in-memory") != "hive":
                raise InvalidInputError(
                    "The Spark session has no Hive support; give --conf spark.sql.catalogImplementation=hive, and tell "
                    "Spark where the metastore is (hive-site.xml, or spark.hadoop.hive.metastore.uris)."
                )
            hadoop = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no public way to Hive's client
            hive = spark._jvm.org.apache.hadoop.hive  # noqa: SLF001 - as above
            conf = hive.conf.HiveConf(hadoop, spark._jsc.getClass())  # noqa: SLF001 - as above
            if self._needs_address and not conf.get(_URIS, "") and str(conf.get(_JDBC, "")).startswith(_EMBEDDED):
                raise InvalidInputError(
                    "Spark knows no metastore server; put hive-site.xml into SPARK_CONF_DIR, or give "
                    "--conf spark.hadoop.hive.metastore.uris=thrift://host:9083."
                )
            try:
                self._client = hive.metastore.HiveMetaStoreClient(conf)
            except Exception as error:
                raise UnavailableError(f"Hive's metastore does not answer: {_first_line(error)}") from error
        return self._client

    def _java_list(self, values: list[str]) -> Any:  # noqa: ANN401 - a Java object
        jvm: Any = self._handle.spark._jvm if self._handle is not None else None  # noqa: SLF001 - as above
        found = jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def _context(self) -> Any:  # noqa: ANN401 - a Java object
        jvm: Any = self._handle.spark._jvm if self._handle is not None else None  # noqa: SLF001 - as above
        values = jvm.java.util.HashMap()
        for key, value in _KEEP_NUMBERS.items():
            values.put(key, value)
        return jvm.org.apache.hadoop.hive.metastore.api.EnvironmentContext(values)


def _move(storage: Any, location: str) -> None:  # noqa: ANN401 - a Java object
    """Set a location; Spark's own tables have it a second time, among the parameters of their SerDe."""
    old = storage.getLocation()
    storage.setLocation(location)
    params = storage.getSerdeInfo().getParameters()
    if params is not None and params.get("path") == old:
        params.put("path", location)


def _values_of(name: str) -> tuple[str, ...]:
    """The values in a partition's name, as Hive keeps them: a null is spelled out."""
    return tuple(unescape(part.partition("=")[2]) for part in name.split("/"))


def _unavailable(verb: str, table: str, error: Exception) -> PackstoneError:
    if isinstance(error, PackstoneError):
        return error  # it says already what is wrong
    return UnavailableError(f"The metastore's word on {table} could not be {verb}: {_first_line(error)}")


def _said(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString()) if java is not None else str(error)


def _first_line(error: Exception) -> str:
    return _said(error).splitlines()[0]
