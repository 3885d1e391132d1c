"""The files of a Hive-style directory, partition by partition, as Spark and Hive would see them.

One partition is held in memory at a time. What is ignored (markers, hidden files, links) is named, and signs
that somebody is writing are reported, because a partition in motion is left alone (hazards 1 to 4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.files import FileEntry
from packstone.model.told import Told
from packstone.storage.fileio import Kind
from packstone.tables.hive.layout import KEPT_SUFFIX, own_tables_below
from packstone.tables.probe import why_not_below
from packstone.tables.state_folder import STATE_FOLDER

if TYPE_CHECKING:
    from packstone.storage.fileio import Entry, FileIO

# A writer's folder or file that changed within a day may still be written to; an older one is a left-over.
FRESH_SECONDS = 24 * 3600
SUMMARY_NAMES = ("_metadata", "_common_metadata")
_WRITER_FOLDER = re.compile(
    r"^(_temporary|\.hive-staging.*|_impala_insert_staging|\.spark-staging.*|_tmp\..*|-ext-\d+)$"
)
_WRITER_FILE = re.compile(r"(\.inprogress(\..*)?|\.pending(\..*)?|\.writing|\.tmp|\._COPYING_|\.filepart)$")
_LOOK_INTO_WRITER_FOLDER = 1_000  # entries whose times are looked at; a live job changes the first ones too


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """What one folder holds."""

    partition: str
    directory: str
    files: tuple[FileEntry, ...]
    ignored: tuple[str, ...]
    summaries: tuple[str, ...]
    writing: str | None
    refused: str | None
    told: Told | None = None  # by a metastore, if one was asked

    @property
    def total_bytes(self) -> int:
        """The bytes of its visible data files."""
        return sum(file.size_bytes for file in self.files)

    def header_lines(self, given: int | None) -> int | None:
        """How many lines at the beginning of a text file are no rows: the metastore knows best; None: nobody said."""
        told = self.told.header_lines if self.told is not None else None
        return told if told or given is None else given

    def __str__(self) -> str:
        return f"{self.partition or '.'} {len(self.files)} files {self.total_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFolder:
    """A folder of a table by what its metastore says; its path need not be that of the partition."""

    partition: str
    directory: str
    told: Told


FolderSource = Callable[[], Iterator[NamedFolder]]  # each call starts anew


def list_named(io: FileIO, source: FolderSource, *, now_seconds: float) -> Iterator[PartitionListing]:
    """Walk the folders that a metastore names; one that does not exist holds nothing."""
    for folder in source():
        if folder.told.refused is not None:
            yield replace(_refused(folder.partition, folder.directory, folder.told.refused), told=folder.told)
            continue
        if io.stat(folder.directory) is None:
            continue
        writing = _writing_in_parents(io, folder, now_seconds=now_seconds)
        for listing in _walk(io, folder.directory, folder.partition, writing=writing, now_seconds=now_seconds):
            yield replace(listing, told=folder.told)


def _writing_in_parents(io: FileIO, folder: NamedFolder, *, now_seconds: float) -> str | None:
    """A job that writes partitions keeps its folder in the table's root, if that is where this one lies."""
    end = f"/{folder.partition}"
    if not folder.partition or not folder.directory.endswith(end):
        return None
    return _writing_above(io, folder.directory.removesuffix(end), folder.partition, now_seconds=now_seconds)


def list_partitions(io: FileIO, root: str, partition: str, *, now_seconds: float) -> Iterator[PartitionListing]:
    """Walk a table (or one partition of it) and yield every folder that holds data or must be refused."""
    directory = f"{root}/{partition}" if partition else root
    found = io.stat(directory)
    if found is None:
        raise InvalidInputError(f"{directory} does not exist.", path=directory)
    if found.kind is not Kind.DIRECTORY:
        raise InvalidInputError(
            f"{directory} is a {found.kind}; give the folder of a table or of a partition.", path=directory
        )
    writing = _writing_above(io, root, partition, now_seconds=now_seconds)
    yield from _walk(io, directory, partition, writing=writing, now_seconds=now_seconds)


def list_again(io: FileIO, root: str, before: PartitionListing, *, now_seconds: float) -> PartitionListing:
    """List one folder anew, alone, without those below it."""
    partition, directory = before.partition, before.directory
    is_inside = directory == (f"{root}/{partition}" if partition else root)
    writing = _writing_above(io, root, partition, now_seconds=now_seconds) if is_inside else None
    listing, _ = _list_folder(io, directory, partition, writing=writing, now_seconds=now_seconds)
    return replace(listing, told=before.told)


def count_data(io: FileIO, directory: str) -> dict[str, int]:
    """What Hive calls the basic statistics of a folder: its visible data files, and their bytes."""
    found = [entry for entry in io.list_dir(directory) if entry.kind is Kind.FILE and is_data(entry.name)]
    return {"numFiles": len(found), "totalSize": sum(entry.size_bytes for entry in found)}


def is_hidden(name: str) -> bool:
    """Whether Spark and Hive pass over this name: ``_x`` and ``.x``, but ``_x=1`` is a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _walk(
    io: FileIO, directory: str, partition: str, *, writing: str | None, now_seconds: float
) -> Iterator[PartitionListing]:
    try:
        listing, folders = _list_folder(io, directory, partition, writing=writing, now_seconds=now_seconds)
    except FileNotFoundError:
        return  # dropped since its parent was listed
    if listing.files or listing.refused:
        yield listing
    if listing.refused:
        return
    own_tables = own_tables_below(io, directory) if folders else frozenset()
    for name in folders:
        below = f"{partition}/{name}" if partition else name
        if name in own_tables:
            why = "it is a table of its own, packstone keeps its records beside it; give it as a target by itself"
            yield _refused(below, f"{directory}/{name}", why)
            continue
        yield from _walk(io, f"{directory}/{name}", below, writing=listing.writing, now_seconds=now_seconds)


def _list_folder(
    io: FileIO, directory: str, partition: str, *, writing: str | None, now_seconds: float
) -> tuple[PartitionListing, list[str]]:
    files: list[FileEntry] = []
    others: list[Entry] = []
    try:
        for entry in io.list_dir(directory):
            if entry.kind is Kind.FILE and is_data(entry.name):
                files.append(_file(entry))
            else:
                others.append(entry)
    except PermissionError:
        return _refused(partition, directory, f"{directory} may not be listed: no permission"), []
    refused = why_not_below(io, directory, others)
    if refused is not None:
        return _refused(partition, directory, f"it is {refused}"), []
    folders = [entry.name for entry in others if entry.kind is Kind.DIRECTORY and not is_hidden(entry.name)]
    seen = {*folders, STATE_FOLDER}
    passed_over = (entry for entry in others if entry.name not in seen)
    listing = PartitionListing(
        partition=partition,
        directory=directory,
        files=tuple(sorted(files, key=lambda file: file.name)),
        ignored=tuple(sorted(_ignored_name(entry) for entry in passed_over)),
        summaries=tuple(sorted(e.name for e in others if e.name in SUMMARY_NAMES and e.kind is Kind.FILE)),
        writing=writing or _sign_of_writing(io, directory, others, now_seconds=now_seconds),
        refused=None,
    )
    return listing, sorted(folders)


def is_data(name: str) -> bool:
    """Whether a file of this name is data: not hidden, finished, and no original that a run of ours keeps."""
    return not (is_hidden(name) or _WRITER_FILE.search(name) or name.endswith(KEPT_SUFFIX))


def _ignored_name(entry: Entry) -> str:
    return f"{entry.name} (symbolic link)" if entry.kind is Kind.LINK else entry.name


def _writing_above(io: FileIO, root: str, partition: str, *, now_seconds: float) -> str | None:
    """A Spark job that writes a partition keeps its ``_temporary`` in the table's root."""
    at, above = root, []
    for folder in partition.split("/") if partition else ():
        above.append(at)
        at = f"{at}/{folder}"
    for directory in above:
        try:
            sign = _sign_of_writing(io, directory, list(io.list_dir(directory)), now_seconds=now_seconds)
        except OSError:
            continue
        if sign is not None:
            return sign
    return None


def _sign_of_writing(io: FileIO, directory: str, entries: list[Entry], *, now_seconds: float) -> str | None:
    for entry in entries:
        if entry.kind is Kind.DIRECTORY and _WRITER_FOLDER.match(entry.name):
            newest_ns = max((e.mtime_ns for e in _below(io, f"{directory}/{entry.name}")), default=entry.mtime_ns)
            if _is_fresh(max(newest_ns, entry.mtime_ns), now_seconds):
                return f"{directory}/{entry.name} shows that a job is writing"
        elif entry.kind is Kind.FILE and _WRITER_FILE.search(entry.name) and _is_fresh(entry.mtime_ns, now_seconds):
            return f"{directory}/{entry.name} is being written"
    return None


def _is_fresh(mtime_ns: int, now_seconds: float) -> bool:
    return now_seconds - mtime_ns / 1e9 < FRESH_SECONDS


def _below(io: FileIO, directory: str) -> Iterator[Entry]:
    waiting, seen = [directory], 0
    while waiting and seen < _LOOK_INTO_WRITER_FOLDER:
        at = waiting.pop()
        try:
            for entry in io.list_dir(at):
                seen += 1
                yield entry
                if entry.kind is Kind.DIRECTORY:
                    waiting.append(f"{at}/{entry.name}")
        except OSError:
            continue


def _refused(partition: str, directory: str, why: str) -> PartitionListing:
    return PartitionListing(
        partition=partition,
        directory=directory,
        files=(),
        ignored=(),
        summaries=(),
        writing=None,
        refused=why,
    )


def _file(entry: Entry) -> FileEntry:
    return FileEntry(
        name=entry.name, size_bytes=entry.size_bytes, mtime_ns=entry.mtime_ns, permissions=entry.permissions
    )
