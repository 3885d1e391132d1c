"""Find the tables in a folder that is not a table itself: refuse such a target, or process each table (``--each``).

A target that is a plain folder is one table if one of these is true:

- it has ``k=v`` folders of its own, or it lies in a ``k=v`` folder;
- it has data files of its own, and no folder below it is certainly a table (a stray ``plan.json`` beside the tables of
  a lake does not make the lake a table);
- all its sub-folders have names that programs give to the parts of one table: dates, hours and numbers
  (``2024/05/01``), and the sub-directories that Hive writes (``HIVE_UNION_SUBDIR_1``);
- Packstone keeps records of it as one table already.

Otherwise the folders below it are tables: those of another family or format, those with ``k=v`` folders or folders of
the kind above, and those with data files. Two of them make a lake. So does a single one, unless it has only data files:
``export/data/*.parquet`` may well be one table, and the folders do not show more.

The local root and the folders of the operating system are refused: their files belong to programs.

By default, Spark and Hive do not read a sub-folder as a part of its parent unless it is ``k=v``, so the rule never
splits what they see as one table.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError, SeveralTablesError, UnavailableError
from packstone.model.sizes import plural
from packstone.storage.fileio import EntryKind
from packstone.tables.families import find_format, find_table, is_plain
from packstone.tables.foreign import why_not_below
from packstone.tables.hive.layout import find_layout, has_runs
from packstone.tables.hive.listing import is_data, is_hidden, is_of_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import Entry, FileIO

MAX_FOLDERS: Final = 1_000  # listed to find tables: instant on a local disk, about ten seconds on a slow store
_MAX_ENTRIES: Final = 1_000  # inspected in each of them; the first ones show what a folder is
_MAX_DEPTH: Final = 4  # catalog/warehouse/db.db/table
_NAMED: Final = 5  # tables in the message; the error has all
_PART_NAME: Final = re.compile(r"(?=.*\d)[\dTWQ._:+-]+|HIVE_UNION_SUBDIR_\d+|HIVE_DEFAULT_LIST_BUCKETING_DIR_NAME")
_RUN_NAME: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")  # a run's folder in the folder of `--set backup=DIR`
_SEVERAL: Final = 2
_SYSTEM_FOLDERS: Final = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"}
)
# Files that lie beside tables but are not data: a folder with only such files is not a table.
_BESIDE_TABLES: Final = (
    ".md",
    ".sql",
    ".py",
    ".sh",
    ".ipynb",
    ".yml",
    ".yaml",
    ".toml",
    ".conf",
    ".db",
    ".log",
    ".crc",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table in a lake."""

    path: str
    why_not: str = ""  # what the table is, if Packstone must not merge its files
    is_certain: bool = True  # False: plain files, which may be a part of something else

    def __str__(self) -> str:
        return f"{self.path} ({self.why_not})" if self.why_not else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The content of a folder, from its first entries."""

    has_data: bool
    has_partitions: bool
    has_parts: bool  # all its folders have names of parts
    folders: tuple[str, ...]
    entries: list[Entry]

    @property
    def is_table(self) -> bool:
        return self.has_data or self.has_partitions or self.has_parts


def check_one_table(io: FileIO, path: str) -> None:
    """Raise SeveralTablesError, which lists the tables, for a plain folder that holds tables but is not a table.

    For a folder that the user may not list, raise UnavailableError.
    """
    _check_not_system(path)
    if any("=" in folder for folder in path.split("/")):
        return
    try:
        sample = _sample(io, path)
    except PermissionError:
        raise _not_listable(path) from None
    except OSError:
        return  # listing it later raises the reason
    is_known = sample.has_partitions or sample.has_parts
    if is_known or not sample.folders or why_not_below(io, path, sample.entries) is not None:
        return
    if has_runs(io, find_layout(io, path)[0].state):
        return
    tables, is_all = _find_below(io, path)
    is_several = len(tables) >= _SEVERAL and not sample.has_data
    if not is_several and not any(table.is_certain for table in tables):
        return
    raise SeveralTablesError(
        _several_sentence(path, tables, is_all=is_all),
        path=path,
        tables=tuple(table.path for table in tables if not table.why_not),
        left_alone=tuple((table.path, table.why_not) for table in tables if table.why_not),
    )


def _several_sentence(path: str, tables: tuple[FoundTable, ...], *, is_all: bool) -> str:
    """Name the tables that can be given, and those of other programs with the reason."""
    names = [table.path.removeprefix(f"{path}/") for table in tables if not table.why_not]
    others = [f"{one.path.removeprefix(f'{path}/')} is {one.why_not}" for one in tables if one.why_not]
    found = f"{path} is not a table but holds {'' if is_all else 'at least '}"
    if not names:
        return f"{found}{plural(len(others), 'table')} of other programs: {_first(others, '; ')}."
    sentence = f"{found}{plural(len(names), 'table')}: {_first(names, ', ')}. Give one of them."
    return f"{sentence} Others are left alone: {_first(others, '; ')}." if others else sentence


def _first(names: list[str], separator: str) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{separator.join(names[:_NAMED])}{more}"


def check_listable(io: FileIO, path: str) -> None:
    """Raise UnavailableError for a folder that the user may not list: whether it is a table is then unknown."""
    try:
        next(iter(io.list_dir(path)), None)
    except PermissionError:
        raise _not_listable(path) from None


def _not_listable(path: str) -> UnavailableError:
    return UnavailableError(f"{path} cannot be listed: permission denied.", path=path)


def _check_not_system(path: str) -> None:
    """Raise InvalidInputError for the root of the local file system and for folders of the operating system."""
    if "://" in path:
        return  # the root of an HDFS can be a table
    first = posixpath.normpath(path).lstrip("/").split("/")[0]
    if not first:
        raise InvalidInputError(f"{path} is the root of the file system, not a table; give the folder of a table.")
    if first in _SYSTEM_FOLDERS:
        raise InvalidInputError(f"{path} belongs to the operating system; give the folder of a table.")


def find_tables(io: FileIO, path: str) -> tuple[FoundTable, ...]:
    """Return the tables of a lake, sorted by path, or the target if it is one itself; InvalidInputError if too many."""
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, _ = find_table(io, path)
    try:
        if is_plain(family):
            check_one_table(io, path)
    except SeveralTablesError:
        tables, is_all = _find_below(io, path)
        if not is_all:
            raise InvalidInputError(
                f"{path} has more than {MAX_FOLDERS:,} folders; give a folder below it to --each.", path=path
            ) from None
        return tables
    return (FoundTable(path=path),)


def _find_below(io: FileIO, root: str) -> tuple[tuple[FoundTable, ...], bool]:
    """Return the tables below a folder, sorted by path, and whether these are all."""
    found: list[FoundTable] = []
    waiting, listed = deque([(root, 0)]), 0
    while waiting and listed < MAX_FOLDERS:
        at, depth = waiting.popleft()
        listed += 1
        try:
            sample = _sample(io, at)
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            continue  # removed since, or not readable
        table = _table_at(io, at, sample) if at != root else None
        if table is not None:
            found.append(table)
        elif depth < _MAX_DEPTH:
            waiting += [(f"{at}/{name}", depth + 1) for name in sorted(sample.folders)]
    return tuple(sorted(found, key=lambda table: table.path)), not waiting


def _table_at(io: FileIO, directory: str, sample: _Sample) -> FoundTable | None:
    """Return a folder as a table; None if it only holds other folders, or nothing."""
    if sample.folders and find_format(io, directory) is not None:
        return FoundTable(path=directory)
    foreign = why_not_below(io, directory, sample.entries)
    if foreign is not None:
        return FoundTable(path=directory, why_not=foreign)
    return FoundTable(path=directory, is_certain=not sample.has_data) if sample.is_table else None


def _sample(io: FileIO, directory: str) -> _Sample:
    entries = list(islice(io.list_dir(directory), _MAX_ENTRIES))
    files = [entry.name for entry in entries if entry.kind is EntryKind.FILE]
    folders = tuple(_visible_folders(entries))
    return _Sample(
        has_data=any(is_data(name) and not name.endswith(_BESIDE_TABLES) for name in files),
        has_partitions=any("=" in name for name in folders),
        has_parts=bool(folders) and all(_PART_NAME.fullmatch(name) for name in folders),
        folders=folders,
        entries=entries,
    )


def _visible_folders(entries: list[Entry]) -> Iterator[str]:
    folders = (entry.name for entry in entries if entry.kind is EntryKind.DIRECTORY)
    return (name for name in folders if not (is_hidden(name) or is_of_writer(name) or _RUN_NAME.fullmatch(name)))
