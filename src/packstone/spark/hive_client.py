"""Hive's own metastore client, inside Spark's JVM: it reads facts of tables, and moves a partition in one call.

Spark's SQL can set a location too, but not the statistics in the same call. And Hive counts the files of a new location
itself, and drops the number of rows, unless ``DO_NOT_UPDATE_STATS`` is set. The facts are the same as those that the
metastore's database gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, PackstoneError, UnavailableError
from packstone.model.metastore import PartitionFacts, StorageFacts, TableFacts
from packstone.spark.session import is_connect
from packstone.tables.hive.layout import unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packstone.spark.session import SparkHandle

HIVE_SUPPORT: Final = ("spark.sql.catalogImplementation", "hive")
_PAGE: Final = 500
_URIS: Final = "hive.metastore.uris"
_JDBC: Final = "javax.jdo.option.ConnectionURL"
_EMBEDDED: Final = "jdbc:derby:;databaseName=metastore_db"  # Hive's default, which it creates in the current folder
_KEEP_NUMBERS: Final = {"DO_NOT_UPDATE_STATS": "true"}


class SparkHiveClient:
    """A client that connects at its first use."""

    def __init__(self, open_spark: Callable[[], SparkHandle], *, needs_address: bool = False) -> None:
        self._open_spark = open_spark
        self._needs_address = needs_address  # the metastore is on a server: Spark's embedded one cannot be it
        self._handle: SparkHandle | None = None
        self._client: Any = None

    @property
    def key(self) -> str:
        """The name of this metastore in messages: the one that Spark is configured with."""
        return "of Spark"

    def find_table(self, database: str, name: str) -> TableFacts:
        """Read one table; InvalidInputError if it does not exist."""
        try:
            return table_facts(self._connected().getTable(database.lower(), name.lower()))
        except Exception as error:
            if "NoSuchObjectException" in _error_text(error):
                raise InvalidInputError(f"The metastore {self.key} has no table {database}.{name}.") from error
            raise _unavailable("read", f"{database}.{name}", error) from error

    def list_partitions(self, table: TableFacts) -> Iterator[PartitionFacts]:
        """Yield the partitions of one table, sorted by name; their facts are read a page at a time."""
        client, at = self._connected(), (table.database, table.name)
        try:
            names = [str(name) for name in client.listPartitionNames(*at, -1)]
            for first in range(0, len(names), _PAGE):
                page = names[first : first + _PAGE]
                found = client.getPartitionsByNames(*at, self._java_list(page))
                by_values = {tuple(str(value) for value in one.getValues()): one for one in found}
                for name in page:
                    partition = by_values.get(_values_of(name))
                    if partition is not None:  # otherwise it was dropped since the names were listed
                        yield partition_facts(partition, name)
        except Exception as error:
            raise _unavailable("read", table.full_name, error) from error

    def who_shares(self, table: TableFacts, location: str) -> str | None:
        """Name another table whose own folder is at, above or below a location; partitions are not checked."""
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
        """The current location of a partition, or of the table if it is empty; None if it does not exist."""
        try:
            found = self._find(table, partition)
        except Exception as error:
            if "NoSuchObjectException" in _error_text(error):
                return None
            raise _unavailable("read", table, error) from error
        return str(found.getSd().getLocation())

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """Set the location and the statistics of a partition, or of the table, in one call."""
        self._alter(table, partition, location=location, numbers=numbers)

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Correct the statistics of a partition whose files changed in place, or of a table without partitions."""
        self._alter(table, partition, location=None, numbers=numbers)

    def _find(self, table: str, partition: str) -> Any:
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
        """Close the client, and stop the session if Packstone started it."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._handle is not None:
            self._handle.stop()
            self._handle = None

    def _connected(self) -> Any:
        if self._client is None:
            self._handle = self._open_spark()
            spark = self._handle.spark
            if is_connect(spark):
                raise InvalidInputError(
                    "--publish location needs Hive's own client, which Spark Connect does not have; give a Spark "
                    "master, such as --engine yarn."
                )
            if spark.conf.get(HIVE_SUPPORT[0], "in-memory") != "hive":
                raise InvalidInputError(
                    "The Spark session has no Hive support; give --conf spark.sql.catalogImplementation=hive, and "
                    "configure the metastore (hive-site.xml, or spark.hadoop.hive.metastore.uris)."
                )
            hadoop = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no public way to Hive's client
            hive = spark._jvm.org.apache.hadoop.hive  # noqa: SLF001 - as above
            conf = hive.conf.HiveConf(hadoop, spark._jsc.getClass())  # noqa: SLF001 - as above
            if self._needs_address and not conf.get(_URIS, "") and str(conf.get(_JDBC, "")).startswith(_EMBEDDED):
                raise InvalidInputError(
                    "Spark has no metastore server configured; put hive-site.xml into SPARK_CONF_DIR, or give "
                    "--conf spark.hadoop.hive.metastore.uris=thrift://host:9083."
                )
            try:
                self._client = hive.metastore.HiveMetaStoreClient(conf)
            except Exception as error:
                raise UnavailableError(f"Hive's metastore does not answer: {_first_line(error)}") from error
        return self._client

    def _java_list(self, values: list[str]) -> Any:
        jvm: Any = self._handle.spark._jvm if self._handle is not None else None  # noqa: SLF001 - as above
        found = jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def _context(self) -> Any:
        jvm: Any = self._handle.spark._jvm if self._handle is not None else None  # noqa: SLF001 - as above
        values = jvm.java.util.HashMap()
        for key, value in _KEEP_NUMBERS.items():
            values.put(key, value)
        return jvm.org.apache.hadoop.hive.metastore.api.EnvironmentContext(values)


def _move(storage: Any, location: str) -> None:
    """Set a location; Spark's own tables have it a second time, in the parameters of their SerDe."""
    old = storage.getLocation()
    storage.setLocation(location)
    params = storage.getSerdeInfo().getParameters()
    if params is not None and params.get("path") == old:
        params.put("path", location)


def _values_of(name: str) -> tuple[str, ...]:
    """The values in a partition's name, as Hive stores them: a null has a name of its own."""
    return tuple(unescape(part.partition("=")[2]) for part in name.split("/"))


def _unavailable(verb: str, table: str, error: Exception) -> PackstoneError:
    if isinstance(error, PackstoneError):
        return error  # its message already names the cause
    return UnavailableError(f"The metastore entry of {table} could not be {verb}: {_first_line(error)}")


def _error_text(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString()) if java is not None else str(error)


def _first_line(error: Exception) -> str:
    return _error_text(error).splitlines()[0]


def table_facts(table: Any) -> TableFacts:
    """The facts of a table, from ``org.apache.hadoop.hive.metastore.api.Table``."""
    return TableFacts(
        database=str(table.getDbName()),
        name=str(table.getTableName()),
        kind=str(table.getTableType() or ""),
        storage=_storage_facts(table.getSd()),
        partition_keys=tuple(str(key.getName()) for key in _each(table.getPartitionKeys())),
        params=_params(table.getParameters()),
    )


def partition_facts(partition: Any, name: str) -> PartitionFacts:
    """The facts of a partition, from ``org.apache.hadoop.hive.metastore.api.Partition``."""
    return PartitionFacts(
        name=name, storage=_storage_facts(partition.getSd()), params=_params(partition.getParameters())
    )


def _storage_facts(storage: Any) -> StorageFacts:
    serde = storage.getSerdeInfo()
    return StorageFacts(
        location=str(storage.getLocation() or ""),
        input_format=str(storage.getInputFormat() or ""),
        serde=str(serde.getSerializationLib() or "") if serde is not None else "",
        serde_params=_params(serde.getParameters()) if serde is not None else {},
        bucket_count=max(0, int(storage.getNumBuckets())),
        bucket_columns=tuple(str(one) for one in _each(storage.getBucketCols())),
        sort_columns=tuple(str(order.getCol()) for order in _each(storage.getSortCols())),
    )


def _params(found: Any) -> dict[str, str]:
    return {} if found is None else {str(key): str(found[key] or "") for key in found}


def _each(found: Iterable[Any] | None) -> Iterator[Any]:
    return iter(found or ())
