"""The files of a Hive-style directory, partition by partition, as Spark and Hive would see them.

One partition is held in memory at a time. The listing names what it ignores (markers, hidden files, links) and
reports signs of a running writer, because a partition that is being written is left alone (hazards 1 to 4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from packstone.errors import InvalidInputError
from packstone.model.files import FileEntry
from packstone.model.metastore import FolderFacts
from packstone.runs.state_folder import STATE_FOLDER
from packstone.storage.fileio import EntryKind
from packstone.tables.foreign import why_not_below
from packstone.tables.hive.layout import KEPT_SUFFIX, own_tables_below

if TYPE_CHECKING:
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.family import FindFormat

# A writer's folder or file that changed within a day may still be written to; an older one is a leftover.
FRESH_SECONDS = 24 * 3600
SUMMARY_NAMES = ("_metadata", "_common_metadata")
_WRITER_FOLDER = re.compile(
    r"^(_temporary|\.hive-staging.*|_impala_insert_staging|\.spark-staging.*|_tmp\..*|-ext-\d+)$"
)
_WRITER_FILE = re.compile(r"(\.inprogress(\..*)?|\.pending(\..*)?|\.writing|\.tmp|\._COPYING_|\.filepart)$")
_SETTLED_SECONDS = 10  # more than the resolution of times in any store
_QUIET: WeakKeyDictionary[FileIO, dict[str, int]] = WeakKeyDictionary()  # times of folders without a sign of writing
_QUIET_OF_VALUES: dict[FileIO, dict[str, int]] = {}
_MAX_WRITER_ENTRIES = 1_000  # entries whose times are compared; a live job changes the first ones too


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """The content of one folder."""

    partition: str
    directory: str
    files: tuple[FileEntry, ...]
    ignored: tuple[str, ...]
    summaries: tuple[str, ...]
    writing: str | None
    refused: str | None
    facts: FolderFacts | None = None  # from a metastore, if one was given

    @property
    def total_bytes(self) -> int:
        """The total size of its visible data files."""
        return sum(file.size_bytes for file in self.files)

    def header_lines(self, given: int | None) -> int | None:
        """The number of header lines of its text files; a metastore's number wins over ``given``; None if unknown."""
        recorded = self.facts.header_lines if self.facts is not None else None
        return recorded if recorded or given is None else given

    def __str__(self) -> str:
        return f"{self.partition or '.'} {len(self.files)} files {self.total_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFolder:
    """A folder that a metastore records for a table; its path need not match the partition."""

    partition: str
    directory: str
    facts: FolderFacts


FolderSource = Callable[[], Iterator[NamedFolder]]  # each call starts from the beginning


def list_named(
    io: FileIO, source: FolderSource, *, now_seconds: float, find_format: FindFormat | None = None
) -> Iterator[PartitionListing]:
    """Walk the folders that a metastore names; a folder that does not exist is skipped as empty."""
    for folder in source():
        if folder.facts.refused is not None:
            yield replace(_refused(folder.partition, folder.directory, folder.facts.refused), facts=folder.facts)
            continue
        if io.stat(folder.directory) is None:
            continue
        writing = _writing_in_parents(io, folder, now_seconds=now_seconds)
        for listing in _walk(
            io, folder.directory, folder.partition, writing=writing, now_seconds=now_seconds, find_format=find_format
        ):
            yield replace(listing, facts=folder.facts)


def _writing_in_parents(io: FileIO, folder: NamedFolder, *, now_seconds: float) -> str | None:
    """Return a sign of writing above a folder that lies in its table's root: jobs keep their folder there."""
    end = f"/{folder.partition}"
    if not folder.partition or not folder.directory.endswith(end):
        return None
    return _writing_above(io, folder.directory.removesuffix(end), folder.partition, now_seconds=now_seconds)


def list_partitions(
    io: FileIO, root: str, partition: str, *, now_seconds: float, find_format: FindFormat | None = None
) -> Iterator[PartitionListing]:
    """Walk a table (or one partition of it) and yield every folder that holds data or must be refused."""
    directory = f"{root}/{partition}" if partition else root
    found = io.stat(directory)
    if found is None:
        raise InvalidInputError(f"{directory} does not exist.", path=directory)
    if found.kind is not EntryKind.DIRECTORY:
        raise InvalidInputError(
            f"{directory} is a {found.kind}; give the folder of a table or of a partition.", path=directory
        )
    writing = _writing_above(io, root, partition, now_seconds=now_seconds)
    yield from _walk(io, directory, partition, writing=writing, now_seconds=now_seconds, find_format=find_format)


def list_again(io: FileIO, root: str, before: PartitionListing, *, now_seconds: float) -> PartitionListing:
    """List one folder again, without those below it."""
    partition, directory = before.partition, before.directory
    is_inside = directory == (f"{root}/{partition}" if partition else root)
    writing = _writing_above(io, root, partition, now_seconds=now_seconds) if is_inside else None
    listing, _ = _list_folder(io, directory, partition, writing=writing, now_seconds=now_seconds)
    return replace(listing, facts=before.facts)


def count_data(io: FileIO, directory: str) -> dict[str, int]:
    """Return what Hive calls the basic statistics of a folder: the number and the size of its visible data files."""
    found = [entry for entry in io.list_dir(directory) if entry.kind is EntryKind.FILE and is_data(entry.name)]
    return {"numFiles": len(found), "totalSize": sum(entry.size_bytes for entry in found)}


def is_hidden(name: str) -> bool:
    """Whether Spark and Hive ignore this name: ``_x`` and ``.x``, but ``_x=1`` is a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _walk(
    io: FileIO,
    directory: str,
    partition: str,
    *,
    writing: str | None,
    now_seconds: float,
    find_format: FindFormat | None,
) -> Iterator[PartitionListing]:
    try:
        listing, folders = _list_folder(
            io, directory, partition, writing=writing, now_seconds=now_seconds, find_format=find_format
        )
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
            why = "it is a table of its own, and packstone keeps its records beside it; give it as a target of its own"
            yield _refused(below, f"{directory}/{name}", why)
            continue
        yield from _walk(
            io, f"{directory}/{name}", below, writing=listing.writing, now_seconds=now_seconds, find_format=find_format
        )


def _list_folder(
    io: FileIO,
    directory: str,
    partition: str,
    *,
    writing: str | None,
    now_seconds: float,
    find_format: FindFormat | None = None,
) -> tuple[PartitionListing, list[str]]:
    files: list[FileEntry] = []
    others: list[Entry] = []
    try:
        for entry in io.list_dir(directory):
            if entry.kind is EntryKind.FILE and is_data(entry.name):
                files.append(_file(entry))
            else:
                others.append(entry)
    except PermissionError:
        return _refused(partition, directory, f"{directory} cannot be listed: permission denied"), []
    refused = why_not_below(io, directory, others)
    if refused is not None:
        return _refused(partition, directory, f"it is {refused}"), []
    # Called only where a table is possible: there are many partitions, and each call lists a folder.
    if find_format is not None and any(entry.kind is EntryKind.DIRECTORY and "=" not in entry.name for entry in others):
        family = find_format(io, directory)
        if family is not None:
            return _refused(partition, directory, f"it is {family.singular}; give it as a target of its own"), []
    folders = [entry.name for entry in others if entry.kind is EntryKind.DIRECTORY and not is_hidden(entry.name)]
    used = {*folders, STATE_FOLDER}
    ignored = (entry for entry in others if entry.name not in used)
    listing = PartitionListing(
        partition=partition,
        directory=directory,
        files=tuple(sorted(files, key=lambda file: file.name)),
        ignored=tuple(sorted(_ignored_name(entry) for entry in ignored)),
        summaries=tuple(sorted(e.name for e in others if e.name in SUMMARY_NAMES and e.kind is EntryKind.FILE)),
        writing=writing or _sign_of_writing(io, directory, others, now_seconds=now_seconds),
        refused=None,
    )
    return listing, sorted(folders)


def is_data(name: str) -> bool:
    """Whether a file of this name is data: not hidden, not unfinished, and not an original kept by Packstone."""
    return not (is_hidden(name) or _WRITER_FILE.search(name) or name.endswith(KEPT_SUFFIX))


def is_of_writer(folder: str) -> bool:
    """Whether a folder of this name belongs to a writing job."""
    return _WRITER_FOLDER.match(folder) is not None


def _ignored_name(entry: Entry) -> str:
    return f"{entry.name} (symbolic link)" if entry.kind is EntryKind.LINK else entry.name


def _writing_above(io: FileIO, root: str, partition: str, *, now_seconds: float) -> str | None:
    """Return a sign of writing above a partition: a Spark job keeps its ``_temporary`` in the table's root."""
    at, above = root, []
    for folder in partition.split("/") if partition else ():
        above.append(at)
        at = f"{at}/{folder}"
    for directory in above:
        try:
            sign = _sign_of_writing_in(io, directory, now_seconds=now_seconds)
        except OSError:
            continue
        if sign is not None:
            return sign
    return None


def _sign_of_writing_in(io: FileIO, directory: str, *, now_seconds: float) -> str | None:
    """Return a sign of writing in a folder; listed only if the folder changed since it had none.

    A table's root is checked for each of its partitions, and may have thousands of entries. The time of a folder
    changes with its entries; it is trusted if it was old when the folder was listed, as two changes may share a time.
    """
    found = io.stat(directory)
    changed_ns = 0 if found is None else found.mtime_ns  # 0: object stores have no folders
    try:
        quiet = _QUIET.setdefault(io, {})
    except TypeError:  # a store that is a value, and cannot be referred to weakly
        quiet = _QUIET_OF_VALUES.setdefault(io, {})
    if changed_ns and quiet.get(directory) == changed_ns:
        return None
    entries = list(io.list_dir(directory))
    has_writer = any(_WRITER_FOLDER.match(entry.name) or _WRITER_FILE.search(entry.name) for entry in entries)
    if not has_writer and now_seconds - changed_ns / 1e9 > _SETTLED_SECONDS:
        quiet[directory] = changed_ns
    return _sign_of_writing(io, directory, entries, now_seconds=now_seconds)


def _sign_of_writing(io: FileIO, directory: str, entries: list[Entry], *, now_seconds: float) -> str | None:
    for entry in entries:
        if entry.kind is EntryKind.DIRECTORY and _WRITER_FOLDER.match(entry.name):
            newest_ns = max((e.mtime_ns for e in _below(io, f"{directory}/{entry.name}")), default=entry.mtime_ns)
            if _is_fresh(max(newest_ns, entry.mtime_ns), now_seconds):
                return f"{directory}/{entry.name} shows that a job is writing"
        elif (
            entry.kind is EntryKind.FILE and _WRITER_FILE.search(entry.name) and _is_fresh(entry.mtime_ns, now_seconds)
        ):
            return f"{directory}/{entry.name} is being written"
    return None


def _is_fresh(mtime_ns: int, now_seconds: float) -> bool:
    return now_seconds - mtime_ns / 1e9 < FRESH_SECONDS


def _below(io: FileIO, directory: str) -> Iterator[Entry]:
    waiting, seen = [directory], 0
    while waiting and seen < _MAX_WRITER_ENTRIES:
        at = waiting.pop()
        try:
            for entry in io.list_dir(at):
                seen += 1
                yield entry
                if entry.kind is EntryKind.DIRECTORY:
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


# ---- file names that other programs rely on ----

# Kafka Connect, topic+3+0000000100+0000000199.avro: it resumes the topic at the highest offset in the names.
_KAFKA = re.compile(r"^(?P<topic>.+)\+(?P<partition>\d+)\+\d+\+(?P<end>\d+)(\.[\w.]+)?$")
# Spark's buckets, part-00000-<uuid>_00003.c000.snappy.parquet: joins that rely on the number would lose rows.
_SPARK_BUCKET = re.compile(r"^part-\d{5,}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_\d{5}\.c\d{3}\b")


def newest_offsets(names: Iterable[str]) -> frozenset[str]:
    """Return the files of Kafka Connect with the highest offset of their topic and partition in this folder.

    The highest offset of the whole topic is one of them, whatever folders there are; the others cost one unmerged file
    each.
    """
    newest: dict[tuple[str, int], tuple[int, str]] = {}
    for name in names:
        found = _KAFKA.match(name)
        if found is None:
            continue
        place, offset = (found["topic"], int(found["partition"])), (int(found["end"]), name)
        newest[place] = max(offset, newest.get(place, offset))
    return frozenset(name for _, name in newest.values())


def bucket_name(names: Iterable[str]) -> str | None:
    """Return the first name that holds one of Spark's bucket numbers; None if there is none."""
    return next((name for name in names if _SPARK_BUCKET.match(name)), None)
