"""Bringing a history database to the schema this Packstone needs.

Nearly always it is there already, and one small query says so; only otherwise Alembic is imported, which
takes longer than everything else a history command does.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, String, column, func, inspect, select, table

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.connect import WRITES, display_url
from packstone.history.schema import REVISIONS, VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

MIGRATIONS = Path(__file__).parent / "migrations"

LOCK_SECONDS = 50  # below the time after which connect.py takes a server for dead
_LOCK_NUMBER = 0x7061636B  # "pack"; any number that others are not likely to lock

_VERSIONS = table(VERSION_TABLE, column("version_num", String))


def migrate(engine: Engine) -> None:
    """Upgrade the database if it is older, refuse it if it is newer, leave it alone otherwise."""
    with engine.connect() as connection:
        if _needs_no_upgrade(connection):
            return
    # Looked at again under the write lock: of several processes that find no schema, one makes it.
    with engine.execution_options(**{WRITES: True}).begin() as connection, _alone(connection):
        if not _needs_no_upgrade(connection):
            _upgrade(connection)


@contextlib.contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Keep other processes from migrating the same database; SQLite's own write lock does it there."""
    server = connection.dialect.name
    if server == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_NUMBER)))
    if server not in ("mysql", "mariadb"):
        yield
        return
    # Every CREATE TABLE ends a transaction here, so the lock must be one that outlives it; names are of the server.
    name = f"packstone_schema_{connection.engine.url.database}"[:64]
    if connection.scalar(select(func.get_lock(name, LOCK_SECONDS))) != 1:
        raise UnavailableError(
            f"Another process has been upgrading {display_url(connection.engine.url)} for {LOCK_SECONDS} seconds; "
            "try again later."
        )
    try:
        yield
    finally:
        connection.execute(select(func.release_lock(name)))


def _needs_no_upgrade(connection: Connection) -> bool:
    found = _read_revision(connection)
    if found is not None and found not in REVISIONS:
        raise InvalidInputError(
            f"The history database {display_url(connection.engine.url)} was written by a newer Packstone "
            f"(schema {found}, this one knows {REVISIONS[-1]}); upgrade Packstone or name another database.",
            revision=found,
        )
    return found == REVISIONS[-1]


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(select(_VERSIONS.c.version_num))
    return found


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    with _scripts() as folder:
        # Doubled, because the option goes through configparser, where a percent sign begins a reference.
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, REVISIONS[-1])


@contextlib.contextmanager
def _scripts() -> Iterator[Path]:
    """The folder of scripts; Alembic reads real files only, so they are unpacked if Packstone runs from an archive."""
    if MIGRATIONS.is_dir():
        yield MIGRATIONS
        return
    with tempfile.TemporaryDirectory(prefix="packstone-") as folder:
        _unpack(importlib.resources.files("packstone.history") / "migrations", Path(folder))
        yield Path(folder)


def _unpack(source: Traversable, folder: Path) -> None:
    """``importlib.resources.as_file`` does that for folders from Python 3.12 on."""
    for entry in source.iterdir():
        if entry.is_dir():
            (folder / entry.name).mkdir()
            _unpack(entry, folder / entry.name)
        else:
            (folder / entry.name).write_bytes(entry.read_bytes())
