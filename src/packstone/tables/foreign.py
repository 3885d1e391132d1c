"""Recognise tables of other programs, which must not be merged as plain files; checks the target and every ancestor.

The log of a Delta, Hudi, Iceberg, Paimon or streaming-sink table names its files; merging them without the log destroys
the table (hazards 9, 10 and 12). A marker counts even if it is empty: a writer may just have created the log.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packstone.errors import RefusedError
from packstone.storage.fileio import EntryKind
from packstone.storage.location import is_store_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packstone.storage.fileio import Entry, FileIO


# Folder in a table -> why its files are not merged as plain files.
_MARKERS: Mapping[str, str] = {
    "_delta_log": "a Delta Lake table; use OPTIMIZE in Delta Lake",
    ".hoodie": "an Apache Hudi table; use Hudi's own clustering or compaction",
    "_spark_metadata": "the output of a Spark streaming query, whose log names every file",
    "_hudi": "an Apache Hudi table; use Hudi's own clustering or compaction",
}
_ACID_FOLDER = re.compile(r"^(base_\d+|delta_\d+_\d+(_\d+)?|delete_delta_\d+_\d+(_\d+)?)(_v\d+)?$")
_ACID_WHY = "a Hive ACID (transactional) table; use ALTER TABLE … COMPACT in Hive"
_FLINK_FOLDER = re.compile(r"^(chk-\d+|savepoint-[0-9a-f]{6}-[0-9a-f]{12})$")
_FLINK_WHY = "a Flink checkpoint or savepoint"
_ARCHIVE_WHY = (
    "archived (HAR), and the archive's index names every byte of it; use ALTER TABLE … UNARCHIVE in Hive first"
)
_ICEBERG_METADATA = re.compile(r"(\.metadata\.json(\.gz)?|^version-hint\.text|^snap-.*\.avro)$")

_CARBON_METADATA = re.compile(r"^(tablestatus(_\d+)?|schema)$")  # a table without a load has its schema only
_SEGMENT_STATUS = re.compile(r"^\d{20}\.json$")


def _is_segments(io: FileIO, directory: str) -> bool:
    """Whether a folder has a status folder with a version in it."""
    return _is_folder(io, f"{directory}/Metadata/status") and holds(io, f"{directory}/Metadata/status", _SEGMENT_STATUS)


def check_mergeable(io: FileIO, path: str) -> None:
    """Raise RefusedError if the path lies in, or is, a table whose files must not be merged as plain files."""
    if ".packstone" in path.split("/"):
        raise RefusedError(f"{path} lies among packstone's own records and backups; give the table itself.", path=path)
    found = find_log(io, path)
    if found is not None:
        at, why = found
        raise RefusedError(f"{at} is {why}; packstone does not merge its files.", path=at)


def find_log(io: FileIO, path: str) -> tuple[str, str] | None:
    """Return the table at or above a path whose log or status names its files, and what it is; None: plain files."""
    for at in with_ancestors(path):
        why = find_foreign(io, at)
        if why is not None:
            return at, why
    return None


def why_not_below(io: FileIO, directory: str, entries: list[Entry]) -> str | None:
    """Say what a listed folder is if its files must not be merged as plain files; None if they are plain files."""
    folders = {entry.name for entry in entries if entry.kind is EntryKind.DIRECTORY}
    return _why_not_by_names(io, directory, folders)


def find_foreign(io: FileIO, directory: str) -> str | None:
    """Say what a folder is if its files must not be merged as plain files; None if they are plain files."""
    name = posixpath.basename(directory)
    if _ACID_FOLDER.match(name):
        return _ACID_WHY
    if _FLINK_FOLDER.match(name):
        return _FLINK_WHY
    if name.endswith(".har"):
        return _ARCHIVE_WHY
    names = (*_MARKERS, "metadata", "snapshot", "schema", "manifest", "Metadata", "taskowned", "shared")
    folders = {n for n in names if _is_folder(io, f"{directory}/{n}")}
    return _why_not_by_names(io, directory, folders)


def _why_not_by_names(io: FileIO, directory: str, folders: set[str]) -> str | None:
    for marker, why in _MARKERS.items():
        if marker in folders:
            return why
    if any(_ACID_FOLDER.match(name) for name in folders):
        return _ACID_WHY
    if any(_FLINK_FOLDER.match(name) for name in folders) or {"shared", "taskowned"} <= folders:
        return _FLINK_WHY
    if any(name.endswith(".har") for name in folders):
        return _ARCHIVE_WHY
    paimon = _why_not_paimon(folders)
    if paimon is not None:
        return paimon
    if "metadata" in folders and holds(io, f"{directory}/metadata", _ICEBERG_METADATA):
        return "an Apache Iceberg table; use Iceberg's rewrite_data_files"
    return _why_not_metadata(io, directory) if "Metadata" in folders else None


def _why_not_metadata(io: FileIO, directory: str) -> str | None:
    """Recognise our own segment tables first: one may hold a `tablestatus` exported for CarbonData's tools."""
    if _is_segments(io, directory):
        return "a segment table, whose files are named in its status; give it as a target of its own"
    if holds(io, f"{directory}/Metadata", _CARBON_METADATA):
        return "an Apache CarbonData table; use ALTER TABLE … COMPACT in CarbonData"
    if any(_is_folder(io, f"{directory}/Metadata/{own}") for own in ("status", "segments", "attempts")):
        return "a segment table that has lost its status files; restore them first"
    return None


def _why_not_paimon(folders: set[str]) -> str | None:
    if {"snapshot", "schema"} <= folders:
        return "an Apache Paimon table, whose files are named in its manifests; give it as a target of its own"
    if {"snapshot", "manifest"} <= folders:
        return "an Apache Paimon table that has lost its schema folder; restore it first"
    return None


def with_ancestors(path: str) -> Iterator[str]:
    """Yield a path and every folder above it, the nearest first."""
    at = path
    while True:
        yield at
        if not at or is_store_root(at):
            return
        at = posixpath.dirname(at)


def _is_folder(io: FileIO, path: str) -> bool:
    try:
        found = io.stat(path)
    except OSError:  # an ancestor that we may not read holds no table of ours
        return False
    return found is not None and found.kind is EntryKind.DIRECTORY


def holds(io: FileIO, directory: str, pattern: re.Pattern[str]) -> bool:
    """Whether a folder exists and has a file whose name matches."""
    try:
        return any(pattern.search(entry.name) for entry in io.list_dir(directory))
    except OSError:  # as above
        return False
