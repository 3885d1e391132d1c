"""What Hive's own client says of tables and partitions, as our values: the facts that the database has too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.model.metastore import PartitionFacts, StorageFacts, TableFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def table_facts(table: Any) -> TableFacts:  # noqa: ANN401 - Java objects have no types
    """One table, from ``org.apache.hadoop.hive.metastore.api.Table``."""
    return TableFacts(
        database=str(table.getDbName()),
        name=str(table.getTableName()),
        kind=str(table.getTableType() or ""),
        storage=_storage_facts(table.getSd()),
        partition_keys=tuple(str(key.getName()) for key in _each(table.getPartitionKeys())),
        params=_params(table.getParameters()),
    )


def partition_facts(partition: Any, name: str) -> PartitionFacts:  # noqa: ANN401 - as above
    """One partition, from ``org.apache.hadoop.hive.metastore.api.Partition``."""
    return PartitionFacts(
        name=name, storage=_storage_facts(partition.getSd()), params=_params(partition.getParameters())
    )


def _storage_facts(storage: Any) -> StorageFacts:  # noqa: ANN401 - Java objects have no types
    serde = storage.getSerdeInfo()
    skew = storage.getSkewedInfo()
    return StorageFacts(
        location=str(storage.getLocation() or ""),
        input_format=str(storage.getInputFormat() or ""),
        serde=str(serde.getSerializationLib() or "") if serde is not None else "",
        serde_params=_params(serde.getParameters()) if serde is not None else {},
        bucket_count=max(0, int(storage.getNumBuckets())),
        bucket_columns=tuple(str(one) for one in _each(storage.getBucketCols())),
        sort_columns=tuple(str(order.getCol()) for order in _each(storage.getSortCols())),
        skewed_columns=tuple(str(one) for one in _each(skew.getSkewedColNames())) if skew is not None else (),
    )


def _params(found: Any) -> dict[str, str]:  # noqa: ANN401 - a Java map, or null
    return {} if found is None else {str(key): str(found[key] or "") for key in found}


def _each(found: Iterable[Any] | None) -> Iterator[Any]:
    return iter(found or ())
