"""From a name or a path to the folder of a table.

The file-system catalog keeps ``warehouse/<database>.db/<table>``. ``Catalog`` is the seam for others: a Hive metastore
or a REST server also knows where a table stands, and who may commit to it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final, Protocol

from packstone.errors import InvalidInputError
from packstone.storage.fileio import FileIO, Kind
from packstone.tables.paimon.table_schema import list_schema_ids

_DATABASE: Final = ".db"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """Where a table stands, and what its catalog calls it; a table opened by its path alone has no catalog."""

    path: str
    database: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.name}" if self.database and self.name else self.path


class Catalog(Protocol):
    """Who knows tables by name."""

    def list_databases(self) -> tuple[str, ...]:
        """All databases, by name."""
        ...

    def list_tables(self, database: str) -> tuple[str, ...]:
        """The tables of a database, by name; InvalidInputError if there is no such database."""
        ...

    def find_table(self, database: str, table: str) -> TableLocation:
        """Find a table; InvalidInputError if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """The catalog that is nothing but folders."""

    io: FileIO
    warehouse: str

    def list_databases(self) -> tuple[str, ...]:
        """All databases, by name."""
        names = _folders(self.io, self.warehouse)
        return tuple(sorted(name.removesuffix(_DATABASE) for name in names if name.endswith(_DATABASE)))

    def list_tables(self, database: str) -> tuple[str, ...]:
        """The tables of a database, by name."""
        root = self._database(database)
        return tuple(name for name in sorted(_folders(self.io, root)) if is_table(self.io, f"{root}/{name}"))

    def find_table(self, database: str, table: str) -> TableLocation:
        """Find a table."""
        path = f"{self._database(database)}/{table}"
        if not is_table(self.io, path):
            raise InvalidInputError(f"{self.warehouse} has no table {database}.{table}.", table=f"{database}.{table}")
        return TableLocation(path=path, database=database, name=table)

    def _database(self, database: str) -> str:
        path = f"{self.warehouse.rstrip('/')}/{database}{_DATABASE}"
        entry = self.io.stat(path)
        if entry is None or entry.kind is not Kind.DIRECTORY:
            raise InvalidInputError(f"{self.warehouse} has no database {database}.", database=database)
        return path


def is_table(io: FileIO, path: str) -> bool:
    """Whether a Paimon table stands here: a schema folder with a schema in it."""
    return bool(list_schema_ids(io, path))


def find_table(io: FileIO, path: str) -> TableLocation:
    """The table at a path, or around it: a partition, a bucket or a file of a table will do.

    A branch is a table of its own in every respect but that its data lie with the main one, so its path is refused.
    """
    at = path.rstrip("/") or "/"
    while True:
        if is_table(io, at):
            return _located(at)
        parent = posixpath.dirname(at)
        if parent == at:
            raise InvalidInputError(f"{path} is neither a Paimon table nor inside one.", path=path)
        at = parent


def _located(path: str) -> TableLocation:
    if posixpath.basename(path).startswith("branch-") and posixpath.basename(posixpath.dirname(path)) == "branch":
        raise InvalidInputError(f"{path} is a branch of a table; give the table itself.", path=path)
    folder, name = posixpath.split(path)
    database = posixpath.basename(folder)
    if not database.endswith(_DATABASE) or database == _DATABASE:
        return TableLocation(path=path)
    return TableLocation(path=path, database=database.removesuffix(_DATABASE), name=name)


def _folders(io: FileIO, path: str) -> list[str]:
    try:
        return [entry.name for entry in io.list_dir(path) if entry.kind is Kind.DIRECTORY]
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInputError(f"There is no folder {path}.", path=path) from None
