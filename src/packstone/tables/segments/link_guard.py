"""Whether the way from a table to one of its files is free of symbolic links.

Somebody may have put a link in the place of a folder, to save space or by malice. Rows are read through it, but nothing
is removed through it: what is at its other end is not known to be ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.errors import CorruptionError
from packstone.storage.fileio import Kind

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class LinkGuard:
    """Looks at each folder once."""

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self._links: dict[str, str | None] = {"": None}

    def find_link(self, path: str) -> str | None:
        """The folder above a path (relative to the table), or above that one, that is a link; None if none is."""
        return self._find(path.rpartition("/")[0])

    def may_remove(self, path: str) -> bool:
        """Whether removing a path (relative to the table) stays in the table."""
        return self.find_link(path) is None

    def _find(self, folder: str) -> str | None:
        if folder not in self._links:
            above = self._find(folder.rpartition("/")[0])
            found = self._io.stat(f"{self._table}/{folder}") if above is None else None
            is_link = found is not None and found.kind is Kind.LINK
            self._links[folder] = folder if is_link else above
        return self._links[folder]


def linked(table: str, link: str) -> CorruptionError:
    """The error for files that are not removed."""
    return CorruptionError(f"{table}/{link} is a symbolic link, and nothing is removed through it.", path=link)
