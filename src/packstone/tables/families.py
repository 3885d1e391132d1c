"""All families, one row each; a new family is a folder, a row here, and a line in the import contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.tables.foreign import find_foreign, with_ancestors
from packstone.tables.hive.family import HIVE
from packstone.tables.paimon.family import PAIMON
from packstone.tables.segments.family import SEGMENTS

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import Family

FAMILIES: tuple[Family, ...] = (PAIMON, SEGMENTS, HIVE)


def find_table(io: FileIO, path: str) -> tuple[Family, str]:
    """Return the family of a target and the path of its table: the nearest table at or above the target.

    The last family is that of plain folders: it gets the target itself, if no table of another family contains it.
    """
    for at in with_ancestors(path):
        family = find_format(io, at)
        if family is not None:
            return family, at
        if find_foreign(io, at) is not None:
            break  # another program's table: opening it refuses it
    return FAMILIES[-1], path


def find_format(io: FileIO, path: str) -> Family | None:
    """Return the family whose table is at this path itself; None for plain folders."""
    return next((family for family in FAMILIES[:-1] if family.find(io, path)), None)


def is_plain(family: Family) -> bool:
    """Whether a family is that of plain folders, the last one."""
    return family is FAMILIES[-1]


def find_family(name: str) -> Family | None:
    """Return a family by its name; None if it is unknown, because a newer packstone wrote the name."""
    return next((family for family in FAMILIES if family.name == name), None)
