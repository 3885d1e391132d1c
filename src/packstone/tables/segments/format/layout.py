"""The paths of a segment table's files. Pure names; data files are found through the status, never by listing.

::

    <table>/Metadata/status/00000000000000000007.json    version 7, its head: the commit point
    <table>/Metadata/entries/<name>.json                 a chunk of live segments, which several versions share
    <table>/Metadata/latest                              a hint of the newest version, never trusted
    <table>/Metadata/floor/00000000000000000003          versions below 3 are removed, or about to be
    <table>/Metadata/retired/<name>.json                 a chunk of compacted and deleted segments, not yet cleaned
    <table>/Metadata/history/<name>.json                 segments that clean has removed
    <table>/Metadata/segments/0.1_<attempt>.json         the files of one segment
    <table>/Metadata/index/0.1_<attempt>.arrow           bounds and sizes of their row groups
    <table>/Metadata/deletes/0.1_<commit>-<try>.json     the deleted rows of one segment
    <table>/Metadata/badrecords/7_<attempt>/             rows that a load rejected, with reasons
    <table>/Metadata/trash/<ms>/                         files that clean has moved to the trash
    <table>/Fact/Segment_0.1/part-<task>-<n>-<attempt>-<try>.parquet

An ``attempt`` is the id of the run that wrote the file, a load or a compaction; the records of runs are in the table's
state folder (``runs/folder.py``). A run makes an id once, so id and run together are unique for ever; the id alone is
not: the id of an undone merge is used again by the next one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError
from packstone.model.segment import SegmentId
from packstone.storage.fileio import EntryKind

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

DATA_FOLDER: Final = "Fact"
METADATA_FOLDER: Final = "Metadata"
_STATUS: Final = re.compile(r"(\d{20})\.json")
_FLOOR: Final = re.compile(r"\d{20}")


def status_folder(table: str) -> str:
    """The folder of the versions; a folder that contains it is a segment table."""
    return f"{table}/{METADATA_FOLDER}/status"


def status_path(table: str, version: int) -> str:
    """The file of one version."""
    return f"{status_folder(table)}/{version:020d}.json"


def parse_status_name(name: str) -> int | None:
    """The version in the name of a status file, or None for any other name."""
    match = _STATUS.fullmatch(name)
    return int(match[1]) if match else None


def hint_path(table: str) -> str:
    """The hint of the newest version; outside the folder of versions, so that a listing finds only versions."""
    return f"{table}/{METADATA_FOLDER}/latest"


def floor_folder(table: str) -> str:
    """The folder of the files that say which versions are removed."""
    return f"{table}/{METADATA_FOLDER}/floor"


def floor_path(table: str, version: int) -> str:
    """The empty file that says that all versions below this one are removed."""
    return f"{floor_folder(table)}/{version:020d}"


def parse_floor_name(name: str) -> int | None:
    """The version in the name of such a file, or None for any other name."""
    return int(name) if _FLOOR.fullmatch(name) else None


def entries_folder(table: str) -> str:
    """The folder of the chunks of live segments."""
    return f"{table}/{METADATA_FOLDER}/entries"


def retired_folder(table: str) -> str:
    """The folder of the chunks of compacted and deleted segments."""
    return f"{table}/{METADATA_FOLDER}/retired"


def history_folder(table: str) -> str:
    """The folder of the lists of cleaned segments."""
    return f"{table}/{METADATA_FOLDER}/history"


def history_path(table: str, name: str) -> str:
    """One such list, by its name in the status."""
    return f"{history_folder(table)}/{name}"


def segments_folder(table: str) -> str:
    """The folder of segment files."""
    return f"{table}/{METADATA_FOLDER}/segments"


def segment_file_name(segment: SegmentId, attempt: str) -> str:
    """The name of the segment file that an attempt writes."""
    return f"{segment}_{attempt}.json"


def segment_file_path(table: str, name: str) -> str:
    """The path of a segment file, by its name in the status."""
    return f"{segments_folder(table)}/{name}"


def index_folder(table: str) -> str:
    """The folder of index files."""
    return f"{table}/{METADATA_FOLDER}/index"


def index_file_name(segment: SegmentId, attempt: str) -> str:
    """The name of the index file that an attempt writes."""
    return f"{segment}_{attempt}.arrow"


def index_file_path(table: str, name: str) -> str:
    """The path of an index file, by its name in the segment file."""
    return f"{index_folder(table)}/{name}"


def deletes_folder(table: str) -> str:
    """The folder of delete files."""
    return f"{table}/{METADATA_FOLDER}/deletes"


def delete_file_path(table: str, name: str) -> str:
    """The path of a delete file, by its name in the status."""
    return f"{deletes_folder(table)}/{name}"


def bad_records_folder(table: str, segment: SegmentId, attempt: str) -> str:
    """The folder of a load's bad rows."""
    return f"{table}/{METADATA_FOLDER}/badrecords/{segment}_{attempt}"


def trash_folder(table: str) -> str:
    """The folder to which clean moves files before they are removed, with one folder for each clean."""
    return f"{table}/{METADATA_FOLDER}/trash"


def segment_folder(segment: SegmentId) -> str:
    """The folder of a segment's data files, relative to the table."""
    return f"{DATA_FOLDER}/Segment_{segment}"


def data_file_name(*, task: int, number: int, attempt: str, attempt_try: int) -> str:
    """The name of a data file; attempt and try make it unique, so a retry never finds an older file of that name."""
    return f"part-{task:05d}-{number:05d}-{attempt}-{attempt_try}.parquet"


def data_file_path(table: str, relative: str) -> str:
    """The full path of a data file, from its path in the segment file."""
    return f"{table}/{relative}"


def metadata_folders(table: str) -> tuple[str, ...]:
    """The folders that creating a table makes."""
    return (
        status_folder(table),
        entries_folder(table),
        retired_folder(table),
        history_folder(table),
        segments_folder(table),
        index_folder(table),
    )


class LinkGuard:
    """Finds symbolic links among the folders between a table and its files; checks each folder once.

    Somebody may have replaced a folder by a link, to save space or maliciously. Rows are read through it, but nothing
    is removed through it: its target is not known to belong to the table.
    """

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self._links: dict[str, str | None] = {"": None}

    def find_link(self, path: str) -> str | None:
        """The first folder above a path (relative to the table) that is a link; None if there is none."""
        return self._find(path.rpartition("/")[0])

    def may_remove(self, path: str) -> bool:
        """Whether removing a path (relative to the table) affects only the table."""
        return self.find_link(path) is None

    def _find(self, folder: str) -> str | None:
        if folder not in self._links:
            above = self._find(folder.rpartition("/")[0])
            found = self._io.stat(f"{self._table}/{folder}") if above is None else None
            is_link = found is not None and found.kind is EntryKind.LINK
            self._links[folder] = folder if is_link else above
        return self._links[folder]


def linked(table: str, link: str) -> CorruptionError:
    """The error for files that are not removed, because the path goes through a link."""
    return CorruptionError(f"{table}/{link} is a symbolic link, and nothing is removed through it.", path=link)
