"""Where partitions are: asked of the metastore's database, changed by Hive's own client.

The database answers at once; the client needs a Spark that takes some ten seconds to start. So a command that only asks
(``clean``, or the recovery of a run that died before its call) starts none. Before a change both must say the same: a
Spark that knows another metastore, or none and so an empty one of its own, would change a table of the same name there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from packstone.errors import ConflictError, PackstoneError
from packstone.tables.hive.switch import UnaskedError


class LocationReader(Protocol):
    """Whoever can say where a partition is."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, or, without one, a table; None if there is no such thing."""


class ChangingClient(LocationReader, Protocol):
    """Whoever can say and change it, and correct statistics."""

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """In one call: the partition is there, with these statistics."""

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Set these numbers of a partition, or, without one, of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCatalog:
    """Asks one, changes through the other, and only if both speak of the same metastore."""

    reader: LocationReader
    client: ChangingClient

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, by the database."""
        return self.reader.read_location(table, partition)

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """In one call of the client, after a look at what it knows."""
        self._check_same(table, partition)
        self.client.set_location(table, partition, location=location, numbers=numbers)

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Correct statistics, after the same look."""
        self._check_same(table, partition)
        self.client.set_numbers(table, partition, numbers)

    def _check_same(self, table: str, partition: str) -> None:
        what = f"{table} {partition}".rstrip()
        try:
            here, there = (one.read_location(table, partition) for one in (self.reader, self.client))
        except PackstoneError as error:
            raise UnaskedError(f"{error.message.rstrip('.')}; nothing was changed.") from error
        if here == there:
            return
        seen = f"{what} is at {there}" if there is not None else f"there is no {what}"
        raise ConflictError(
            f"Spark's Hive client knows another metastore than --metastore: {seen} in it; tell Spark where the right "
            "one is (hive-site.xml in SPARK_CONF_DIR, or --conf spark.hadoop.hive.metastore.uris=…)."
        )


def checked_catalog(reader: LocationReader, client: ChangingClient) -> ChangingClient:
    """The client alone where it is what is read, too."""
    return client if reader is client else CheckedCatalog(reader=reader, client=client)
