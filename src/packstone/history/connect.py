"""Opening the history database, and saying in one sentence what is wrong with it.

A URL carries a password, so no text of a driver or of SQLAlchemy reaches the user unseen: messages are
made here, from the URL without its password and query, and from the first line of what the driver said
with every secret of the URL taken out (history/database_secrets.py).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from packstone.errors import InvalidInputError, PackstoneError, UnavailableError
from packstone.history.database_secrets import with_password, without_secrets

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

# Longer than our transactions by orders of magnitude: whoever waits this long waits for a stuck process.
BUSY_TIMEOUT_SECONDS = 30

# The execution option that makes a SQLite transaction take the write lock when it begins.
WRITES = "packstone_writes"

# A server that does not answer must not hold up the end of a run; its record is kept and written later.
CONNECT_SECONDS = 10
ANSWER_SECONDS = 60

PASSWORD = "PACKSTONE_HISTORY_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_FILE = "PACKSTONE_HISTORY_PASSWORD_FILE"  # noqa: S105 - the name of a variable

_EXAMPLES = "sqlite:////home/me/history.db or mysql+pymysql://me@host/packstone"


def parse_url(text: str) -> URL:
    """Read a database URL; a bad one is not repeated, because nobody can tell where its password is."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInputError(f"The history address is not a database URL; write for example {_EXAMPLES}.") from None
    if url.get_backend_name() == "sqlite" and url.database and url.database.startswith("~/"):
        # Only shells expand a tilde, and only at the start of a word; without this, a folder "~" appears.
        return url.set(database=str(Path(url.database).expanduser()))
    url = with_driver(url)
    return with_password(url, variable=PASSWORD, file_variable=PASSWORD_FILE) if is_server(url) else url


def with_driver(url: URL) -> URL:
    """Name the driver that we bring where an address names none: SQLAlchemy's own choice for MySQL is another."""
    return url.set(drivername=f"{url.drivername}+pymysql") if url.drivername in ("mysql", "mariadb") else url


def is_server(url: URL) -> bool:
    """Whether a database server is asked, and not a file."""
    return url.get_backend_name() != "sqlite"


def history_key(text: str) -> str:
    """Name a history in a way that may be written down: its address without password and query."""
    url = parse_url(text)
    database = url.database if is_server(url) or not url.database else str(Path(url.database).absolute())
    named = URL.create(url.drivername, username=url.username, host=url.host, port=url.port, database=database)
    return named.render_as_string()


def check_url(text: str) -> None:
    """Raise InvalidInputError if the address can never work: asked before hours of work, not after."""
    _load_driver(parse_url(text)).dispose()


def display_url(url: URL) -> str:
    """Return the address as messages show it: no password, and no query, where passwords also hide."""
    return url.set(query={}).render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """Return an engine that has not connected yet; for SQLite the file and its folders exist afterwards."""
    engine = _load_driver(url)
    if engine.dialect.is_async:
        raise InvalidInputError(f"The history address {display_url(url)} names an asynchronous driver; use another.")
    if engine.dialect.name == "sqlite":
        _create_sqlite_file(url)
        _set_up_sqlite(engine)
    return engine


@contextmanager
def one_sentence(url: URL) -> Iterator[None]:
    """Turn whatever the database says into one error of ours, without secrets."""
    try:
        yield
    except SQLAlchemyError as error:
        # The chain is cut: a stack trace of the cause may print the address or the parameters.
        raise _translated(url, error) from None


def connect_args(url: URL) -> dict[str, Any]:
    """Limits for waiting, in each driver's own words; what the address says goes first."""
    limits = {
        "sqlite": {"timeout": BUSY_TIMEOUT_SECONDS},
        "pymysql": {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
        },
        "psycopg": {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": ANSWER_SECONDS * 1000},
    }
    # What a driver is called in the address; an address that names none gets SQLAlchemy's own choice.
    driver = url.drivername.partition("+")[2] or {"sqlite": "sqlite", "postgresql": "psycopg"}.get(url.drivername, "")
    known = limits.get(driver if is_server(url) else "sqlite", {})
    return {name: value for name, value in known.items() if name not in url.query}


def _load_driver(url: URL) -> Engine:
    # Hidden parameters: an error of the driver must not carry the rows either.
    options: dict[str, Any] = {"hide_parameters": True, "pool_pre_ping": is_server(url)}
    if url.get_backend_name() in ("mysql", "mariadb"):
        # MySQL's default locks the gaps beside what is deleted: two that record different runs would block each other.
        options["isolation_level"] = "READ COMMITTED"
    try:
        return create_engine(url, connect_args=connect_args(url), **options)
    except NoSuchModuleError:
        raise InvalidInputError(
            f"The history address {display_url(url)} names a database or driver {url.drivername!r} "
            f"that is not known; write for example {_EXAMPLES}."
        ) from None
    except ImportError as error:
        raise InvalidInputError(
            f"The history address {display_url(url)} needs the Python package {error.name!r}, "
            "which is not installed; install it or name another driver."
        ) from None
    except (ArgumentError, TypeError, ValueError):
        raise InvalidInputError(
            f"The history address {display_url(url)} is not complete; write for example {_EXAMPLES}."
        ) from None


def _create_sqlite_file(url: URL) -> None:
    """Make the file with mode 0600: SQLite would use the umask, and paths and user names are private."""
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return
    path = Path(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # SQLite gives the -wal and -shm files beside it the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        # What a person must mend (a folder in the way, a permission) against what may mend itself (no room).
        needs_fix = isinstance(error, FileExistsError | NotADirectoryError | PermissionError)
        kind = InvalidInputError if needs_fix else UnavailableError
        raise kind(f"The history database {display_url(url)} cannot be created: {error.strerror}.") from error
    if path.is_dir():
        raise InvalidInputError(f"The history database {display_url(url)} is a folder; name a file in it.")


def _set_up_sqlite(engine: Engine) -> None:
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)


def _on_sqlite_connect(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # Python's module begins transactions by guessing from the statement, and not for DDL; with None it leaves
    # that to us, which makes a migration all or nothing.
    connection.isolation_level = None
    # WAL lets readers go on while somebody records. It is a property of the file, kept once set; where it
    # cannot be set (somebody is busy in the file, a network drive), the old way is slower but as correct.
    # If the file is no database at all, the first query says so.
    with suppress(sqlite3.Error), closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA journal_mode=WAL")


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that reads and then wants to write cannot wait for the lock: what it read may be outdated,
    # so SQLite fails it at once, whatever the timeout. Asking for the lock first is the only way to queue.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _translated(url: URL, error: SQLAlchemyError) -> PackstoneError:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return InvalidInputError(f"The file {display_url(url)} is not a SQLite database; name another file.")
    return UnavailableError(f"The history database {display_url(url)} cannot be used: {without_secrets(url, cause)}.")
