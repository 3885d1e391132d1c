"""Turn command-line arguments into values: TARGET into an open table, options into filters, budget and engine.

TARGET is a path, an address, or the name of a table of a metastore.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packstone.cli.family import check_options, read_settings
from packstone.errors import InvalidInputError
from packstone.model.limits import Budget, Filters
from packstone.model.sizes import parse_bytes, parse_duration
from packstone.model.times import TimeWindow
from packstone.storage.location import is_table_name, parse_location
from packstone.tables.families import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.cli.output import BarProgress
    from packstone.pipeline.table import Table
    from packstone.runs.engine import Engine
    from packstone.spark.session import SparkSettings

ADDRESS = "PACKSTONE_METASTORE"
LOCATION = "location"


def is_named(target: str, typed: dict[str, Any]) -> bool:
    """Whether a target is the name of a table of the configured metastore."""
    typed_address = typed.get("metastore_url")
    if is_table_name(target):
        return bool(typed_address or os.environ.get(ADDRESS))
    if typed_address:
        raise InvalidInputError(f"--metastore needs a table's name, such as sales.orders; {target} is a path.")
    return False


@contextmanager
def open_target(
    target: str,
    typed: dict[str, Any],
    *,
    history: str | None = None,
    shows_progress: bool = False,
    only_plain: bool = False,
    to_merge: bool = True,
) -> Iterator[Table]:
    """Open the table and refuse options of other families; a metastore stays open as long as the table is used."""
    from packstone.cli.output import BarProgress

    progress = BarProgress(what=target) if shows_progress else None  # first, so that it shows while modules load
    try:
        with _open(target, typed, progress, history=history, to_merge=to_merge) as table:
            if only_plain and not is_plain(table.family_row):
                what = f"{table.path} is {table.family_row.singular}; use `packstone compact {table.path}`."
                raise InvalidInputError(what, path=table.path)
            if not typed.get("each"):  # a folder may hold tables of several families; each uses its own options
                check_options(table.family_row, target)
            yield table
    finally:
        if progress is not None:
            progress.close()


def _open(
    target: str, typed: dict[str, Any], progress: BarProgress | None, *, history: str | None, to_merge: bool
) -> Table:
    from packstone.pipeline.open import open_named
    from packstone.pipeline.table import Table

    facts: dict[str, Any] = {"engine": read_engine(typed) if "engine" in typed else None, "history": history}
    if progress is not None:
        facts["progress"] = progress
    if is_named(target, typed):
        return open_named(
            target,
            metastore_address(typed.get("metastore_url")),
            settings=read_spark_settings(typed),
            by_location=typed.get("publish") == LOCATION,
            to_merge=to_merge,
            **facts,
        )
    return Table(parse_location(target).path, **facts)


def check_in_place(target: str, typed: dict[str, Any]) -> None:
    """Refuse ``--publish location`` and ``--after-publish`` for a path: both need a table of a metastore."""
    if is_named(target, typed):
        return
    given = ["--publish location"] if typed.get("publish") == LOCATION else []
    given += ["--after-publish"] if typed.get("after_publish") else []
    if given:
        raise InvalidInputError(f"{given[0]} needs a table's name and --metastore; {target} is a path.")


def metastore_address(typed: str | None) -> str:
    """Return the value of ``--metastore``, or else of the environment variable."""
    address = typed or os.environ.get(ADDRESS)
    if not address:
        raise InvalidInputError(f"No metastore is configured; give --metastore URL or set {ADDRESS}.")
    return address


def find_target(run: str, target: str | None, history_url: str | None) -> str:
    """Return the table of a run: the argument, or else what the history has recorded."""
    if target is not None:
        return target
    from packstone.pipeline.record import history_address, open_current_history

    with open_current_history(history_address(history_url)) as history:
        found = history.read_run(run)
    if found is None:
        raise InvalidInputError(f"The history has no run {run}; give its table as the second argument.")
    return found[0].table


def read_options(table: Table, typed: dict[str, Any], *, verb: str = "compact") -> Any:
    """Build the options of a table's family from a command's parameters."""
    family = table.family_row
    kind = family.load_options()
    given = read_settings(family, table.path, typed)
    if typed.get("strategy"):
        return kind.parse(given, verb=verb, strategy=family.check_strategy(typed["strategy"]))
    return kind.parse(given, verb=verb)


def read_filters(typed: dict[str, Any]) -> Filters:
    """Build the filters from a command's parameters."""
    min_age = typed.get("min_age")
    between = typed.get("between")
    return Filters(
        where=typed.get("where"),
        min_age_seconds=parse_duration(min_age).total_seconds() if min_age is not None else 0.0,
        exclude=tuple(typed.get("exclude") or ()),
        window=TimeWindow.parse(between) if between is not None else None,
    )


def read_budget(typed: dict[str, Any]) -> Budget:
    """Build the budget from a command's parameters."""
    max_bytes, max_time = typed.get("max_bytes"), typed.get("max_time")
    return Budget(
        max_bytes=parse_bytes(max_bytes) if max_bytes is not None else None,
        max_seconds=parse_duration(max_time).total_seconds() if max_time is not None else None,
        parallel=typed.get("parallel"),
    )


def read_engine(typed: dict[str, Any]) -> Callable[[], Engine]:
    """Return a factory of the engine; Spark itself starts when the first task needs it."""
    from packstone.pipeline.open import choose_engine

    return choose_engine(typed.get("engine"), lambda: read_spark_settings(typed))


def read_spark_settings(typed: dict[str, Any]) -> SparkSettings:
    """Build the settings of the Spark session from ``--engine`` and ``--conf``."""
    from packstone.pipeline.open import engine_settings

    conf = []
    for pair in typed.get("spark_conf") or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(f"--conf {pair} is not KEY=VALUE.")
        conf.append((key, value))
    return engine_settings(typed.get("engine"), conf=tuple(conf), log_path=spark_log_path())


def spark_log_path() -> str:
    """Return the file for Spark's own logs."""
    import platformdirs

    folder = os.environ.get("PACKSTONE_LOGS") or platformdirs.user_log_dir("packstone", appauthor=False)
    return f"{folder}/spark.log"
