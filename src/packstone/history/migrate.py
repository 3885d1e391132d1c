"""Bringing a history database to the schema this Packstone needs.

Nearly always it is there already, and one small query says so; only otherwise Alembic is imported, which
takes longer than everything else a history command does.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, String, column, inspect, select, table

from packstone.errors import InvalidInputError
from packstone.history.connect import WRITES, display_url
from packstone.history.schema import REVISIONS, VERSION_TABLE

MIGRATIONS = Path(__file__).parent / "migrations"

_VERSIONS = table(VERSION_TABLE, column("version_num", String))


def migrate(engine: Engine) -> None:
    """Upgrade the database if it is older, refuse it if it is newer, leave it alone otherwise."""
    with engine.connect() as connection:
        if _needs_no_upgrade(connection):
            return
    # Looked at again under the write lock: of several processes that find no schema, one makes it.
    with engine.execution_options(**{WRITES: True}).begin() as connection:
        if not _needs_no_upgrade(connection):
            _upgrade(connection)


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
    # Doubled, because the option goes through configparser, where a percent sign begins a reference.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, REVISIONS[-1])
