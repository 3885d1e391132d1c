"""Files below ``Fact/`` that no segment and no attempt at work names: told, never removed.

Whoever put them there may need them: a copy of a table without its attempts has such files, and so has a folder that
somebody used for something else. A segment's file is read only if its folder holds more files than it should.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError
from packstone.storage.fileio import Kind
from packstone.tables.segments.attempts import list_attempts, read_created
from packstone.tables.segments.dead_attempts import files_of
from packstone.tables.segments.layout import DATA_FOLDER, segment_folder
from packstone.tables.segments.status_files import read_latest, read_retired

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.segments.status import StatusEntry

_NAMED: Final = 1_000  # unknown files that are named; beyond, they are counted


@dataclass(slots=True)
class UnknownFiles:
    """How many there are, and the first by name."""

    count: int = 0
    size_bytes: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, path: str, found: Entry) -> None:
        """Count one more."""
        self.count += 1
        self.size_bytes += found.size_bytes
        if len(self.paths) < _NAMED:
            self.paths.append(path)


def find_unknown(io: FileIO, table: str, entries: Iterable[StatusEntry]) -> UnknownFiles:
    """Look through ``Fact/``; ``entries`` are all segments that are live or retired.

    Others are at work meanwhile. A file is recorded before it exists, and its record goes only after a status has named
    it, or after the file is gone. So whatever was found is looked for again in the records, then in the newest status.
    """
    found = _find_unnamed(io, table, {segment_folder(entry.id): entry for entry in entries})
    unknown = UnknownFiles()
    if not found:
        return unknown
    recorded = {path for attempt in list_attempts(io, table) for path in _created(io, table, attempt)}
    status = read_latest(io, table)
    by_folder = {segment_folder(entry.id): entry for entry in (*status.entries, *read_retired(io, table, status))}
    for folder, files in groupby(found.items(), key=lambda one: posixpath.dirname(one[0])):
        entry = by_folder.get(folder)
        known = recorded if entry is None else recorded.union(_files_of(io, table, entry))
        for path, file in files:
            if path not in known and io.stat(f"{table}/{path}") is not None:
                unknown.add(path, file)
    return unknown


def _find_unnamed(io: FileIO, table: str, by_folder: Mapping[str, StatusEntry]) -> dict[str, Entry]:
    """Files that no segment of these has, by their paths, folder by folder; files at work are among them."""
    found: dict[str, Entry] = {}
    for folder in _list(io, f"{table}/{DATA_FOLDER}"):
        path = f"{DATA_FOLDER}/{folder.name}"
        if folder.kind is not Kind.DIRECTORY:
            found[path] = folder
            continue
        files = _list(io, f"{table}/{path}")
        entry = by_folder.get(path)
        if entry is not None and len(files) == entry.files:
            continue
        known = frozenset() if entry is None else frozenset(_files_of(io, table, entry))
        found.update({f"{path}/{file.name}": file for file in files if f"{path}/{file.name}" not in known})
    return found


def _files_of(io: FileIO, table: str, entry: StatusEntry) -> tuple[str, ...]:
    try:
        return files_of(io, table, entry)
    except PackstoneError:
        return ()


def _created(io: FileIO, table: str, attempt: str) -> tuple[str, ...]:
    try:
        return read_created(io, table, attempt)
    except (OSError, PackstoneError):
        return ()


def _list(io: FileIO, folder: str) -> list[Entry]:
    try:
        return sorted(io.list_dir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
