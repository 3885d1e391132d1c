"""Files that live segments should have and that are gone, or have another size: found by listing folders.

One listing of the segment files, one of the index files, and one for the folder of each segment; a segment file is read
only if its folder does not hold as many files and bytes as the status says. No file is looked at for itself. Listings
are done by some threads, because on HDFS and S3 each takes milliseconds of waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, PackstoneError
from packstone.storage.fileio import Kind
from packstone.tables.segments.attempts import list_attempts
from packstone.tables.segments.layout import (
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_path,
    segment_folder,
    segments_folder,
)
from packstone.tables.segments.segment_file import read_segment
from packstone.tables.segments.status_files import read_latest, read_retired

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry

_THREADS: Final = 16
_FEW_SEGMENTS: Final = 32  # so few are listed one after the other
_CHUNK: Final = 2_000  # entries that are handed to the threads at once


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFile:
    """A file of a segment that is not as it was written; the path is relative to the table."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def find_wrong_files(
    io: FileIO, table: str, entries: Sequence[StatusEntry]
) -> Iterator[tuple[StatusEntry, tuple[WrongFile, ...]]]:
    """The segments of which something is missing, and what; the entries are live."""
    segments, indexes = _sizes(io, segments_folder(table)), _sizes(io, index_folder(table))

    def check(entry: StatusEntry) -> tuple[WrongFile, ...]:
        own = segment_file_path("", entry.segment_file or "").removeprefix("/")
        found = _compare({own: None}, {own: segments.get(entry.segment_file or "")})
        index = index_file_name(entry.id, entry.attempt)
        path = index_file_path("", index).removeprefix("/")
        found += _compare({path: entry.index_bytes}, {path: indexes.get(index)})
        return (*found, *_check_data(io, table, entry))

    for begin in range(0, len(entries), _CHUNK):
        some = entries[begin : begin + _CHUNK]
        for entry, wrong in zip(some, _map(check, some), strict=True):
            if wrong:
                yield entry, wrong


def find_unnamed_segments(io: FileIO, table: str) -> tuple[str, ...]:
    """Segment files that neither the newest version nor an attempt knows: a status file may have been lost.

    What is listed first is known to a status that is read afterwards, or belongs to an attempt.
    """
    there = _sizes(io, segments_folder(table))
    attempts = set(list_attempts(io, table))
    status = read_latest(io, table)
    known = {entry.segment_file for entry in (*status.entries, *read_retired(io, table, status))}
    return tuple(
        name
        for name in sorted(there)
        if name.endswith(".json") and name not in known and name.removesuffix(".json").partition("_")[2] not in attempts
    )


def check_no_lost_load(io: FileIO, table: str) -> None:
    """CorruptionError if a segment file belongs to a load that the newest version does not know, or has at work.

    Its status files were lost together with the hint: a commit would take their numbers, and the rows could not come
    back. An attempt is closed after its last commit, so a load without an attempt has finished. Asked once by each
    command that writes; a scan lists nothing.
    """
    names = sorted(_sizes(io, segments_folder(table)))
    attempts = set(list_attempts(io, table))
    status = read_latest(io, table)
    for name in names:
        segment, _, attempt = name.removesuffix(".json").partition("_")
        if attempt in attempts or not name.endswith(".json") or not segment.isdigit():
            continue  # the loss of a merge loses no row: its inputs are live
        loading = status.find_load(attempt)
        if int(segment) >= status.next_load or (loading is not None and str(loading.id) == segment):
            raise CorruptionError(
                f"{segment_file_path(table, name)} belongs to a load that has finished, and the newest status file, of "
                f"version {status.version}, does not name it. Put the missing status files back from a copy; nothing "
                "is changed until then.",
                table=table,
                file=segment_file_path(table, name),
            )


def _map(
    check: Callable[[StatusEntry], tuple[WrongFile, ...]], some: Sequence[StatusEntry]
) -> list[tuple[WrongFile, ...]]:
    if len(some) <= _FEW_SEGMENTS:
        return [check(entry) for entry in some]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(check, some))


def _check_data(io: FileIO, table: str, entry: StatusEntry) -> tuple[WrongFile, ...]:
    folder = segment_folder(entry.id)
    there = _sizes(io, f"{table}/{folder}")
    if (len(there), sum(there.values())) == (entry.files, entry.data_bytes):
        return ()
    try:
        files = read_segment(io, table, entry).files
    except FileNotFoundError:
        return _short(entry, folder, len(there))
    except PackstoneError as error:
        return (WrongFile(path=folder, why=f"cannot be compared: {error.message}"),)
    wanted = {file.path: file.size_bytes for file in files}
    return _compare(wanted, {f"{folder}/{name}": size for name, size in there.items()})


def _short(entry: StatusEntry, folder: str, there: int) -> tuple[WrongFile, ...]:
    """Without the segment file nobody knows the names; but too few are too few."""
    if there >= entry.files:
        return ()
    return (WrongFile(path=folder, why=f"holds {there} of {entry.files} files"),)


def _compare(wanted: Mapping[str, int | None], there: Mapping[str, int | None]) -> tuple[WrongFile, ...]:
    found = []
    for path, size in wanted.items():
        got = there.get(path)
        if got is None:
            found.append(WrongFile(path=path, why="is gone"))
        elif size is not None and got != size:
            found.append(WrongFile(path=path, why=f"has {got:,} bytes instead of {size:,}"))
    return tuple(found)


def _sizes(io: FileIO, folder: str) -> dict[str, int]:
    try:
        return {entry.name: entry.size_bytes for entry in io.list_dir(folder) if entry.kind is not Kind.DIRECTORY}
    except (FileNotFoundError, NotADirectoryError):
        return {}
