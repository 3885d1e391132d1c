"""Opening the database of a Hive metastore, for reading, and saying in one sentence what is wrong with it.

Its password comes from the environment or from a file, and no message shows it (history/database_secrets.py).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ProgrammingError, SQLAlchemyError

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.connect import connect_args, display_url, with_driver
from packstone.history.database_secrets import with_password, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "PACKSTONE_METASTORE"
PASSWORD = "PACKSTONE_METASTORE_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_FILE = "PACKSTONE_METASTORE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
_EXAMPLES = "mysql+pymysql://hive@host/metastore or postgresql+psycopg://hive@host/metastore"
_BACKENDS = frozenset({"mysql", "mariadb", "postgresql"})


def open_metastore_engine(text: str) -> Engine:
    """An engine that has not connected yet."""
    url = _parse(text)
    backend = url.get_backend_name()
    try:
        # Hidden parameters: an error of the driver must not carry the rows either.
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=connect_args(url))
    except NoSuchModuleError:
        raise InvalidInputError(_unknown(url)) from None
    except ImportError as error:
        raise InvalidInputError(
            f"The metastore address {display_url(url)} needs the Python package {error.name!r}, which is not "
            f"installed; `pip install 'packstone[{'postgres' if backend == 'postgresql' else 'mysql'}]'` brings it."
        ) from None
    if backend not in _BACKENDS or engine.dialect.is_async:
        raise InvalidInputError(_unknown(url))
    return engine


def metastore_key(engine: Engine) -> str:
    """Name a metastore in a way that may be written down: host, port and database."""
    url = engine.url
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or 'localhost'}{port}/{url.database or ''}"


@contextmanager
def one_sentence(engine: Engine) -> Iterator[None]:
    """Turn whatever the database says into one error of ours, without secrets."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        said = without_secrets(engine.url, cause)
        # The chain is cut: a stack trace of the cause may print the address or the parameters.
        hint = "; is this the database of a Hive metastore?" if isinstance(error, ProgrammingError) else ""
        raise UnavailableError(f"The metastore {display_url(engine.url)} cannot be read: {said}{hint or '.'}") from None


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Not repeated, because nobody can tell where its password is.
        raise InvalidInputError(
            f"The metastore address is neither a database URL nor the word spark; write for example {_EXAMPLES}."
        ) from None
    return with_password(with_driver(url), variable=PASSWORD, file_variable=PASSWORD_FILE)


def _unknown(url: URL) -> str:
    return (
        f"The metastore address {display_url(url)} names {url.drivername!r}, whose metastores are not read; "
        f"write for example {_EXAMPLES}."
    )
