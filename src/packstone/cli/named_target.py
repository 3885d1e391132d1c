"""``db.table`` as a target: find the metastore, and the table in it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from packstone.cli.arguments import read_engine
from packstone.cli.family import HIVE, check_options
from packstone.cli.progress_bar import BarProgress
from packstone.errors import InvalidInputError
from packstone.storage.location import is_table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.service.named_table import Metastore, NamedTable

ADDRESS = "PACKSTONE_METASTORE"
SPARK = "spark"


def is_named(target: str, typed: dict[str, Any]) -> bool:
    """Whether a target is the name of a table of a metastore that was told."""
    typed_address = typed.get("metastore_url")
    if is_table_name(target):
        return bool(typed_address or os.environ.get(ADDRESS))
    if typed_address:
        raise InvalidInputError(f"--metastore goes with a table's name, such as sales.orders; {target} is a path.")
    return False


@contextmanager
def named_table(target: str, typed: dict[str, Any], *, history: str | None = None) -> Iterator[NamedTable]:
    """Find the table; the metastore stays open for as long as the table is used."""
    from packstone.service.hive_table import HiveTable
    from packstone.service.named_table import NamedTable

    check_options(click.get_current_context(), HIVE, target)
    engine = read_engine(typed)
    metastore = open_metastore(typed)
    try:
        yield NamedTable.find(
            target,
            metastore=metastore,
            open_target=lambda path, folders: HiveTable(
                path, engine=engine, progress=BarProgress(), history=history, folders=folders
            ),
        )
    finally:
        metastore.close()


def open_metastore(typed: dict[str, Any]) -> Metastore:
    """Open what ``--metastore`` or the environment names."""
    from packstone.metastore.database import MetastoreDatabase

    return MetastoreDatabase(metastore_address(typed.get("metastore_url")))


def metastore_address(typed: str | None) -> str:
    """What the option says, else the environment."""
    address = typed or os.environ.get(ADDRESS)
    if not address:
        raise InvalidInputError(f"Say where the metastore is with --metastore URL or in {ADDRESS}.")
    return address
