"""Open the history database, and report its errors in one sentence without secrets.

A URL may contain a password, and a driver's message may repeat the URL. So no text of a driver or of SQLAlchemy reaches
the user directly: messages are built here, from the URL without its password and query, and from the first line of the
driver's message with every secret of the URL removed.

Every user of the machine can see the arguments of a process, so a password can also be given in an environment variable
or in a file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from packstone.errors import InvalidInputError, PackstoneError, UnavailableError
from packstone.history.sqlite_file import BUSY_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

# The execution option that makes a SQLite transaction take the write lock when it begins.
WRITES = "packstone_writes"

# A server that does not answer must not delay the end of a run; the record is kept and written later.
CONNECT_SECONDS = 10
ANSWER_SECONDS = 60

PASSWORD = "PACKSTONE_HISTORY_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_FILE = "PACKSTONE_HISTORY_PASSWORD_FILE"  # noqa: S105 - the name of a variable

_EXAMPLES = "sqlite:////home/me/history.db or mysql+pymysql://me@host/packstone"


def parse_url(text: str) -> URL:
    """Parse a database URL; the error does not repeat it, because it is unknown which part of it is a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInputError(f"The history address is not a database URL; write for example {_EXAMPLES}.") from None
    if url.get_backend_name() == "sqlite" and url.database and url.database.startswith("~/"):
        # Only shells expand a tilde, and only at the start of a word; without this, a folder "~" is created.
        return url.set(database=str(Path(url.database).expanduser()))
    url = with_driver(url)
    return with_password(url, variable=PASSWORD, file_variable=PASSWORD_FILE) if is_server(url) else url


def with_driver(url: URL) -> URL:
    """Add the driver that we install if a URL names none; SQLAlchemy's default for MySQL is a different one."""
    return url.set(drivername=f"{url.drivername}+pymysql") if url.drivername in ("mysql", "mariadb") else url


def is_server(url: URL) -> bool:
    """Whether the database is a server, not a file."""
    return url.get_backend_name() != "sqlite"


def database_key(text: str) -> str:
    """Return an identity of a history that is safe to store: its address without password and query."""
    url = parse_url(text)
    database = url.database if is_server(url) or not url.database else str(Path(url.database).absolute())
    named = URL.create(url.drivername, username=url.username, host=url.host, port=url.port, database=database)
    return named.render_as_string()


def check_address(text: str) -> None:
    """Raise InvalidInputError if the address can never work; called before hours of work, not after."""
    _load_driver(parse_url(text)).dispose()


def display_url(url: URL) -> str:
    """Return the address for messages, without password and query, which may contain passwords too."""
    return url.set(query={}).render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """Return an engine that has not connected yet; for SQLite, create the file and its folders."""
    engine = _load_driver(url)
    if engine.dialect.is_async:
        raise InvalidInputError(f"The history address {display_url(url)} names an asynchronous driver; use another.")
    if engine.dialect.name == "sqlite":
        _create_sqlite_file(url)
        _set_up_sqlite(engine)
    return engine


class OpenDatabase:
    """A database that is closed at the end of a ``with`` block."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        """Close all connections; the object cannot be used afterwards."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@contextmanager
def one_sentence(url: URL) -> Iterator[None]:
    """Turn any database error into one of our errors with one sentence, without secrets."""
    try:
        yield
    except SQLAlchemyError as error:
        # `from None`: a stack trace of the cause may print the address or the parameters.
        raise _translated(url, error) from None


def connect_args(url: URL) -> dict[str, Any]:
    """Return the timeouts under the names that each driver uses; values in the URL take precedence."""
    limits = {
        "sqlite": {"timeout": BUSY_TIMEOUT_SECONDS},
        "pymysql": {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
        },
        "psycopg": {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": ANSWER_SECONDS * 1000},
    }
    # The driver named in the URL, or SQLAlchemy's default.
    driver = url.drivername.partition("+")[2] or {"sqlite": "sqlite", "postgresql": "psycopg"}.get(url.drivername, "")
    known = limits.get(driver if is_server(url) else "sqlite", {})
    return {name: value for name, value in known.items() if name not in url.query}


def _load_driver(url: URL) -> Engine:
    # Parameters are hidden, because an error of the driver must not contain rows either.
    options: dict[str, Any] = {"hide_parameters": True, "pool_pre_ping": is_server(url)}
    if url.get_backend_name() in ("mysql", "mariadb"):
        # MySQL's default locks the gaps next to deleted rows: two processes that record different runs would block
        # each other.
        options["isolation_level"] = "READ COMMITTED"
    try:
        return create_engine(url, connect_args=connect_args(url), **options)
    except NoSuchModuleError:
        raise InvalidInputError(
            f"The history address {display_url(url)} names a database or driver {url.drivername!r} "
            f"that is not supported; write for example {_EXAMPLES}."
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
    """Create the file with mode 0600: SQLite would use the umask, and paths and user names are private."""
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return
    path = Path(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # SQLite gives its -wal and -shm files the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        # The user must fix an existing folder or a permission; a full disk may resolve itself.
        needs_fix = isinstance(error, FileExistsError | NotADirectoryError | PermissionError)
        kind = InvalidInputError if needs_fix else UnavailableError
        raise kind(f"The history database {display_url(url)} cannot be created: {error.strerror}.") from error
    if path.is_dir():
        raise InvalidInputError(f"The history database {display_url(url)} is a folder; name a file in it.")


def _set_up_sqlite(engine: Engine) -> None:
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)


def _on_sqlite_connect(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # Python's module decides from the statement whether to begin a transaction, and does not for DDL. With None we
    # begin transactions ourselves, so that a migration is applied completely or not at all.
    connection.isolation_level = None
    # WAL lets readers continue while another process records. It is a persistent property of the file. If it cannot be
    # set (the file is locked, or on a network drive), the default mode is slower but equally correct. If the file is
    # not a database, the first query reports it.
    with suppress(sqlite3.Error), closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA journal_mode=WAL")


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that reads and then writes cannot wait for the lock: what it read may be outdated, so SQLite fails
    # it at once, whatever the timeout. Only a transaction that takes the lock first can wait for it.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _translated(url: URL, error: SQLAlchemyError) -> PackstoneError:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return InvalidInputError(f"The file {display_url(url)} is not a SQLite database; name another file.")
    return UnavailableError(f"The history database {display_url(url)} cannot be used: {without_secrets(url, cause)}.")


def with_password(url: URL, *, variable: str, file_variable: str) -> URL:
    """Add the password from one variable, or from the file that the other names, unless the URL has one."""
    if url.password is not None or "password" in url.query:
        return url
    file = os.environ.get(file_variable)
    if file is None:
        password = os.environ.get(variable)
        return url if password is None else url.set(password=password)
    if variable in os.environ:
        raise InvalidInputError(f"{variable} and {file_variable} are both set; unset one of them.")
    try:
        # Editors end the last line with a newline; a password that ends with one can be given in the variable.
        return url.set(password=Path(file).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInputError(f"The file {file} that {file_variable} names cannot be read: {why}.") from None


def without_secrets(url: URL, cause: BaseException) -> str:
    """Return the first line of a driver's message, with every secret of the URL removed."""
    message = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
    for secret in _secrets(url):
        message = message.replace(secret, "***")
    return message


def _secrets(url: URL) -> tuple[str, ...]:
    plain = [str(url.password)] if url.password else []
    for value in url.query.values():
        plain.extend([value] if isinstance(value, str) else value)
    spelled = {form for text in plain if text for form in (text, quote(text, safe=""), quote_plus(text))}
    # Longest first: replacing a short secret inside a longer one would leave the rest of the longer one visible.
    return tuple(sorted(spelled, key=len, reverse=True))
