"""The tables of the history as this Packstone reads and writes them, and their migration to this version.

Only the migrations *create* the tables; a test compares the two. These rules make one schema, and the same SQL in
dashboards, work on SQLite, MySQL, MariaDB and PostgreSQL:

- No name needs quotes. ``table``, ``rows``, ``partition`` and ``user`` are reserved words in some of them, hence
  ``table_path``, ``row_count``, ``partition_name``, ``user_name``; the keys of the columns are the fields of the
  records.
- Every string has a length (MySQL requires it), and together they stay below MySQL's 65,535 bytes per row.
- Times are UTC without a zone: MySQL has no other type that goes beyond 2038, and Grafana expects them so.
- Indexes contain short columns only. A path may be longer than any index entry (MySQL 3,072 bytes, PostgreSQL 2,704),
  and a scan back in time finds the newest runs of one table quickly enough.
- Units are numbered by their position in the record, because ``unit`` counts per run in some families and per partition
  in others.

Alembic is imported only if the database needs an upgrade: usually one small query shows that it does not, and importing
Alembic takes longer than everything else that a history command does.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Dialect,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    column,
    func,
    inspect,
    select,
    table,
)

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.connect import WRITES, display_url, make_engine, one_sentence, parse_url
from packstone.history.sqlite_file import FILE_TABLE, REVISIONS, RUN_TABLE, SKIP_TABLE, UNIT_TABLE, VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

RUN_ID_CHARS = 64
WORD_CHARS = 64
NAME_CHARS = 255
PATH_CHARS = 4096
TEXT_CHARS = 4000


class UtcDateTime(TypeDecorator[datetime]):
    """A datetime with a zone in Python, the same instant in UTC without a zone in the database."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC and drop the zone."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Add the zone UTC."""
        return None if value is None else value.replace(tzinfo=UTC)


METADATA = MetaData()

RUNS = Table(
    RUN_TABLE,
    METADATA,
    Column("run_id", String(RUN_ID_CHARS), primary_key=True, key="run"),
    Column("command", String(WORD_CHARS), nullable=False),
    Column("family", String(WORD_CHARS), nullable=False),
    Column("table_path", String(PATH_CHARS), nullable=False, key="table"),
    Column("strategy", String(WORD_CHARS), nullable=False),
    Column("status", String(WORD_CHARS), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, nullable=False),
    Column("files_before", BigInteger, nullable=False),
    Column("files_after", BigInteger, nullable=False),
    Column("bytes_before", BigInteger, nullable=False),
    Column("bytes_after", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False, key="rows"),
    Column("verified", String(WORD_CHARS), nullable=False),
    Column("seconds", Double, nullable=False),
    Column("verify_seconds", Double, nullable=False),
    Column("swap_ms", Double, nullable=False),
    Column("read_seconds_before", Double),
    Column("read_seconds_after", Double),
    Column("host", String(NAME_CHARS), nullable=False),
    Column("user_name", String(NAME_CHARS), nullable=False, key="user"),
    Column("packstone_version", String(WORD_CHARS), nullable=False),
    Column("message", String(TEXT_CHARS), nullable=False),
    Index("packstone_run_started", "started_at"),
    Index("packstone_run_status", "status", "started_at"),
)

UNITS = Table(
    UNIT_TABLE,
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("partition_name", String(PATH_CHARS), nullable=False, key="partition"),
    Column("unit_number", Integer, nullable=False, key="unit"),
    Column("how", String(WORD_CHARS), nullable=False),
    Column("status", String(WORD_CHARS), nullable=False),
    Column("why", String(TEXT_CHARS), nullable=False),
    Column("input_files", BigInteger, nullable=False, key="inputs"),
    Column("output_files", BigInteger, nullable=False, key="outputs"),
    Column("bytes_before", BigInteger, nullable=False),
    Column("bytes_after", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False, key="rows"),
    Column("fingerprint", String(NAME_CHARS), nullable=False),
    Column("read_seconds_before", Double),
    Column("read_seconds_after", Double),
    Column("seconds", Double, nullable=False),
)

# The names of a unit's files: ``side`` is input or output.
FILES = Table(
    FILE_TABLE,
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("unit_position", Integer, primary_key=True, autoincrement=False),
    Column("side", String(WORD_CHARS), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("file_name", String(PATH_CHARS), nullable=False, key="name"),
)

# What a run skipped, and why.
SKIPS = Table(
    SKIP_TABLE,
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("what", String(PATH_CHARS), nullable=False),
    Column("why", String(TEXT_CHARS), nullable=False),
    Column("kind", String(WORD_CHARS), nullable=False),
)

FORMATS = Table(
    "hive_format_type",
    METADATA,
    Column("format_key", String(64), primary_key=True, key="key"),
    Column("metastore", String(NAME_CHARS), nullable=False),
    Column("db_name", String(NAME_CHARS), nullable=False, key="database"),
    Column("table_name", String(NAME_CHARS), nullable=False, key="table"),
    Column("partition_name", String(1024), nullable=False, key="partition"),
    Column("table_type", String(WORD_CHARS), nullable=False),
    Column("format_type", String(WORD_CHARS), nullable=False, key="file_format"),
    Column("input_format", String(1024), nullable=False),
    Column("serde", String(1024), nullable=False),
    Column("location", String(PATH_CHARS), nullable=False),
    Column("location_key", String(64), nullable=False),
    Column("field_delimiter", String(WORD_CHARS), nullable=False),
    Column("header_lines", Integer, nullable=False),
    Column("bucket_count", Integer, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Index("hive_format_type_table", "database", "table"),
    Index("hive_format_type_location", "location_key"),
)


# ---- migration ----

MIGRATIONS = Path(__file__).parent / "migrations"

LOCK_SECONDS = 50  # less than ANSWER_SECONDS of connect.py, after which a server counts as dead
_LOCK_NUMBER = 0x7061636B  # "pack"; any number that other programs are unlikely to lock

_VERSIONS = table(VERSION_TABLE, column("version_num", String))


def open_migrated(url: str) -> Engine:
    """Open the database at ``url``, creating or upgrading its tables as needed."""
    parsed = parse_url(url)
    engine = make_engine(parsed)
    try:
        with one_sentence(parsed):
            migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def migrate(engine: Engine) -> None:
    """Upgrade the database if it is older; refuse it if it is newer."""
    with engine.connect() as connection:
        if _needs_no_upgrade(connection):
            return
    # Checked again under the write lock: if several processes find no schema, one creates it.
    with engine.execution_options(**{WRITES: True}).begin() as connection, _alone(connection):
        if not _needs_no_upgrade(connection):
            _upgrade(connection)


@contextlib.contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Prevent other processes from migrating the same database; in SQLite, the write lock does so already."""
    server = connection.dialect.name
    if server == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_NUMBER)))
    if server not in ("mysql", "mariadb"):
        yield
        return
    # In MySQL, every CREATE TABLE ends the transaction, so the lock must outlive it. Lock names are global in a server.
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
    from alembic import command
    from alembic.config import Config

    config = Config()
    with _scripts() as folder:
        # Doubled, because configparser reads the option and treats a percent sign as the start of a reference.
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, REVISIONS[-1])


@contextlib.contextmanager
def _scripts() -> Iterator[Path]:
    """Yield the folder of scripts; if Packstone runs from an archive, unpack it, because Alembic needs real files."""
    if MIGRATIONS.is_dir():
        yield MIGRATIONS
        return
    with tempfile.TemporaryDirectory(prefix="packstone-") as folder:
        _unpack(importlib.resources.files("packstone.history") / "migrations", Path(folder))
        yield Path(folder)


def _unpack(source: Traversable, folder: Path) -> None:
    """Copy a folder of a package; from Python 3.12 on, ``importlib.resources.as_file`` does this."""
    for entry in source.iterdir():
        if entry.is_dir():
            (folder / entry.name).mkdir()
            _unpack(entry, folder / entry.name)
        else:
            (folder / entry.name).write_bytes(entry.read_bytes())
