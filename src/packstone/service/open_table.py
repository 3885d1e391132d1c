"""``packstone.open``: from a path to the façade of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.service.hive_table import HiveTable
from packstone.spark.engine import SparkEngine
from packstone.spark.session import SparkHandle, SparkSettings, open_spark
from packstone.storage.local import LocalFileIO
from packstone.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.service.engine import Engine
    from packstone.service.progress import Progress


def open_table(
    target: str,
    *,
    spark: Any = None,  # noqa: ANN401 - a session of either kind
    progress: Progress | None = None,
) -> HiveTable:
    """Open a table or partition; ``spark=None`` takes the active session, or starts a local one when needed."""
    location = parse_location(target)
    return HiveTable(location.path, engine=spark_engine(SparkSettings(), spark=spark), progress=progress)


def spark_engine(settings: SparkSettings, *, spark: Any = None) -> Callable[[], Engine]:  # noqa: ANN401 - a session
    """Make a factory: Spark starts when the first task needs it."""

    def make() -> Engine:
        if spark is None:
            return SparkEngine(open_spark(settings), LocalFileIO())
        is_connect = "connect" in type(spark).__module__
        return SparkEngine(SparkHandle(spark, is_ours=False, is_connect=is_connect), LocalFileIO())

    return make
