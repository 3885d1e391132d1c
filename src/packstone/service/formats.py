"""``packstone formats``: the daily job that keeps ``hive_format_type`` as the metastore is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.history.formats import FormatTable
from packstone.metastore.database import MetastoreDatabase
from packstone.metastore.location_spellings import spellings_of
from packstone.model.format_record import FormatRecord
from packstone.storage.location import is_table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.format_record import RefreshCounts, SeenFormat
    from packstone.model.metastore import PartitionFacts, TableFacts


def refresh_formats(metastore_url: str, *, history: str) -> RefreshCounts:
    """Read all tables and partitions of a metastore and bring the table of formats up to date."""
    with MetastoreDatabase(metastore_url) as metastore, FormatTable(history) as formats:
        return formats.refresh(read_formats(metastore), metastore=metastore.key, clock=lambda: datetime.now(UTC))


def read_formats(metastore: MetastoreDatabase) -> Iterator[FormatRecord]:
    """Every table, then every partition, as rows."""
    for table in metastore.list_tables():
        yield _record(metastore.key, table, None)
    for table, partition in metastore.list_all_partitions():
        yield _record(metastore.key, table, partition)


def find_formats(target: str, *, history: str) -> tuple[SeenFormat, ...]:
    """What is known of ``db.table``, ``db.table/dt=1`` or of a location."""
    name, _, partition = target.partition("/")
    with FormatTable(history) as formats:
        if is_table_name(name):
            database, _, table = name.partition(".")
            found = formats.list_formats(database=database.lower(), table=table.lower(), partition=partition)
        else:
            found = formats.find_formats(*spellings_of(target))
    if not found:
        raise InvalidInputError(f"No format of {target} is known; `packstone formats refresh` reads the metastore.")
    return found


def _record(metastore: str, table: TableFacts, partition: PartitionFacts | None) -> FormatRecord:
    storage = table.storage if partition is None else partition.storage
    return FormatRecord(
        metastore=metastore,
        database=table.database,
        table=table.name,
        partition="" if partition is None else partition.name,
        table_type=table.kind,
        file_format=table.file_format(storage).value,
        input_format=storage.input_format,
        serde=storage.serde,
        location=table.location if partition is None else storage.location,
        field_delimiter=storage.serde_params.get("field.delim", ""),
        header_lines=table.header_lines(partition) or 0,
        bucket_count=storage.bucket_count,
    )
