"""``db.table`` as a target: find the metastore, and the table in it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from packstone.cli.arguments import read_engine, read_spark_settings
from packstone.cli.family import HIVE, check_options
from packstone.cli.progress_bar import BarProgress
from packstone.errors import InvalidInputError
from packstone.storage.location import is_table_name
from packstone.tables.hive.switch import ByLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.runs.engine import Engine
    from packstone.service.hive_table import HiveTable
    from packstone.service.location_catalog import ChangingClient
    from packstone.service.named_table import Metastore, NamedTable

ADDRESS = "PACKSTONE_METASTORE"
LOCATION = "location"
SPARK = "spark"


def is_named(target: str, typed: dict[str, Any]) -> bool:
    """Whether a target is the name of a table of a metastore that was told."""
    typed_address = typed.get("metastore_url")
    if is_table_name(target):
        return bool(typed_address or os.environ.get(ADDRESS))
    if typed_address:
        raise InvalidInputError(f"--metastore goes with a table's name, such as sales.orders; {target} is a path.")
    return False


def check_in_place(target: str, typed: dict[str, Any]) -> None:
    """A path has no location to change, and no table to tell of."""
    given = ["--publish location"] if typed["publish"] == LOCATION else []
    given += [f"--{name.replace('_', '-')}" for name in ("statistics", "after_publish") if typed[name]]
    if given:
        raise InvalidInputError(f"{given[0]} goes with a table's name and --metastore; {target} is a path.")


@contextmanager
def named_table(target: str, typed: dict[str, Any], *, history: str | None = None) -> Iterator[NamedTable]:
    """Find the table; the metastore stays open for as long as the table is used."""
    from packstone.service.hive_table import HiveTable
    from packstone.service.named_table import NamedTable

    check_options(click.get_current_context(), HIVE, target)
    by_location = typed.get("publish") == LOCATION
    engine = read_engine(typed)
    with _opened(typed) as (metastore, catalog):
        publish = ByLocation(table=target.lower(), catalog=catalog) if by_location else None
        yield NamedTable.find(
            target,
            metastore=metastore,
            open_target=lambda path, folders: HiveTable(
                path, engine=engine, progress=BarProgress(), history=history, folders=folders, publish=publish
            ),
            by_location=by_location,
            statistics=catalog,
        )


@contextmanager
def named_home(
    target: str, typed: dict[str, Any], *, history: str | None = None, engine: Callable[[], Engine] | None = None
) -> Iterator[HiveTable]:
    """The folder of a table by its name, to mend, undo and clean what runs did, locations too."""
    from packstone.service.hive_table import HiveTable
    from packstone.service.named_table import NamedTable

    with _opened(typed) as (metastore, catalog):
        yield NamedTable.home(
            target,
            metastore=metastore,
            open_target=lambda path, folders: HiveTable(
                path, history=history, engine=engine, folders=folders, catalog=catalog
            ),
        )


@contextmanager
def hive_table(
    target: str, typed: dict[str, Any], *, history: str | None = None, engine: Callable[[], Engine] | None = None
) -> Iterator[HiveTable]:
    """A Hive directory by its path, or by its table's name."""
    from packstone.service.hive_table import HiveTable
    from packstone.storage.location import parse_location

    if is_named(target, typed):
        with named_home(target, typed, history=history, engine=engine) as table:
            yield table
    else:
        yield HiveTable(parse_location(target).path, history=history, engine=engine)


@contextmanager
def catalog_if_told(typed: dict[str, Any]) -> Iterator[ChangingClient | None]:
    """Where tables are, if there is a metastore, for commands on many tables that may not need it."""
    if not typed.get("metastore_url") and not os.environ.get(ADDRESS):
        yield None
        return
    with _opened(typed) as (_, catalog):
        yield catalog


@contextmanager
def _opened(typed: dict[str, Any]) -> Iterator[tuple[Metastore, ChangingClient]]:
    """The metastore for reading, and what changes it by Hive's own client, which starts Spark only when it is asked."""
    from packstone.service.location_catalog import checked_catalog
    from packstone.spark.hive_client import HIVE_SUPPORT, SparkHiveClient
    from packstone.spark.session import open_spark

    settings = read_spark_settings(typed)
    with_hive = replace(settings, conf=(HIVE_SUPPORT, *settings.conf))
    address = metastore_address(typed.get("metastore_url"))
    client = SparkHiveClient(lambda: open_spark(with_hive), needs_address=address != SPARK)
    metastore = client if address == SPARK else open_metastore(address)
    try:
        yield metastore, checked_catalog(metastore, client)
    finally:
        client.close()
        metastore.close()


def open_metastore(address: str) -> Metastore:
    """Open a metastore's database."""
    from packstone.metastore.database import MetastoreDatabase

    return MetastoreDatabase(address)


def metastore_address(typed: str | None) -> str:
    """What the option says, else the environment."""
    address = typed or os.environ.get(ADDRESS)
    if not address:
        raise InvalidInputError(f"Say where the metastore is with --metastore URL or in {ADDRESS}.")
    return address
