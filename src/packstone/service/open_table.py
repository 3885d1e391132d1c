"""``packstone.open``: from a path to the façade of its family."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError
from packstone.runs.engine import InlineEngine
from packstone.service.hive_table import HiveTable
from packstone.service.paimon_table import PaimonTable
from packstone.service.record import history_address
from packstone.service.segment_table import SegmentTable
from packstone.spark.engine import SparkEngine
from packstone.spark.session import SparkHandle, SparkSettings, open_spark
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.probe import Family, find_family

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress

DEFAULT_HISTORY = "default"


def open_table(
    target: str,
    *,
    spark: Any = None,  # noqa: ANN401 - a session of either kind
    progress: Progress | None = None,
    history: str | None = DEFAULT_HISTORY,
) -> HiveTable | PaimonTable | SegmentTable:
    """Open a table or partition.

    ``spark=None`` takes the active session, or starts a local one when work needs it (``PACKSTONE_ENGINE=inline``
    works without). Runs are recorded in ``history``: a database URL, the user's own by default, None for nowhere.
    """
    location = parse_location(target)
    address = history_address() if history == DEFAULT_HISTORY else history
    engine = choose_engine(SparkSettings(), spark=spark)
    io = open_store(location.path)
    family = find_family(io, location.path)
    if family is Family.PAIMON:
        return PaimonTable(location.path, engine=engine, io=io, progress=progress, history=address)
    if family is Family.SEGMENTS:
        return SegmentTable(location.path, engine=engine, io=io, progress=progress, history=address)
    return HiveTable(location.path, engine=engine, io=io, progress=progress, history=address)


def choose_engine(
    settings: SparkSettings,
    *,
    name: str | None = None,
    spark: Any = None,  # noqa: ANN401 - a session of either kind
) -> Callable[[], Engine]:
    """Make the factory of an engine: the name given, else ``PACKSTONE_ENGINE``, else Spark."""
    chosen = name or ("spark" if spark is not None else os.environ.get("PACKSTONE_ENGINE") or "spark")
    if chosen == "inline":
        return InlineEngine
    if chosen != "spark":
        raise InvalidInputError(f"The engine {chosen} is unknown; use spark or inline.")
    return spark_engine(settings, spark=spark)


def spark_engine(settings: SparkSettings, *, spark: Any = None) -> Callable[[], Engine]:  # noqa: ANN401 - a session
    """Make a factory: Spark starts when the first task needs it."""

    def make() -> Engine:
        if spark is None:
            return SparkEngine(open_spark(settings))
        is_connect = "connect" in type(spark).__module__
        return SparkEngine(SparkHandle(spark, is_ours=False, is_connect=is_connect))

    return make
