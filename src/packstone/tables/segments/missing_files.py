"""Find files of live segments that are missing or have another size, by listing folders.

This takes one listing of the segment files, one of the index files, and one of the folder of each segment; a segment
file is read only if its folder does not hold as many files and bytes as the status says. No file is inspected singly.
Several threads list folders, because on HDFS and S3 each listing waits some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, PackstoneError
from packstone.storage.fileio import EntryKind
from packstone.tables.segments.format.layout import (
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_path,
    segment_folder,
    segments_folder,
)
from packstone.tables.segments.format.segment_file import read_segment
from packstone.tables.segments.format.status_files import read_latest, read_retired
from packstone.tables.segments.leftovers import list_attempts, table_runs

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import StatusEntry, TableStatus

_THREADS: Final = 16
_FEW_SEGMENTS: Final = 32  # up to this many are listed one after another, without threads
_CHUNK: Final = 2_000  # entries that are submitted to the threads at once


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFile:
    """A file of a segment that differs from what was written; the path is relative to the table."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def find_wrong_files(
    io: FileIO, table: str, entries: Sequence[StatusEntry]
) -> Iterator[tuple[StatusEntry, tuple[WrongFile, ...]]]:
    """Yield the segments with missing or changed files, and those files; the entries are live."""
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
    """Segment files that neither the newest version nor a run names: a status file may have been lost.

    The files are listed first: a status that is read afterwards names them, or they belong to a run.
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
    """Raise CorruptionError if a finished load is missing in the newest version, or still in progress there.

    Then its status files were lost together with the hint: a commit would reuse their numbers, and the rows could not
    be recovered. A run ends after its last commit, so a load without an active run has finished. Each command that
    writes checks this once; a scan lists nothing. Only runs of suspect files are inspected, since a table may have had
    many runs.
    """
    names = sorted(_sizes(io, segments_folder(table)))
    runs = set(table_runs(io, table).list_runs())
    suspects = _find_suspects(names, read_latest(io, table))
    if suspects and runs:
        active = set(list_attempts(io, table)) & runs
        status = read_latest(io, table)  # again: a run that has ended by now has committed before this read
        suspects = [name for name in _find_suspects(suspects, status) if _attempt_of(name) not in active]
    for name in suspects:
        raise CorruptionError(
            f"{segment_file_path(table, name)} belongs to a load that has finished, but the newest status file, of "
            f"version {read_latest(io, table).version}, does not name it. Put the missing status files back from a "
            "copy; nothing is changed until then.",
            table=table,
            file=segment_file_path(table, name),
        )


def _find_suspects(names: Iterable[str], status: TableStatus) -> list[str]:
    """Segment files of loads that are not finished in a status; merges are ignored, since losing one loses no rows."""
    found, loading = [], {entry.attempt: str(entry.id) for entry in status.loading}
    for name in names:
        segment = name.partition("_")[0]
        if not name.endswith(".json") or not segment.isdigit():
            continue
        if int(segment) >= status.next_load or loading.get(_attempt_of(name)) == segment:
            found.append(name)
    return found


def _attempt_of(name: str) -> str:
    return name.removesuffix(".json").partition("_")[2]


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
        return _check_count(entry, folder, len(there))
    except PackstoneError as error:
        return (WrongFile(path=folder, why=f"cannot be compared: {error.message}"),)
    wanted = {file.path: file.size_bytes for file in files}
    return _compare(wanted, {f"{folder}/{name}": size for name, size in there.items()})


def _check_count(entry: StatusEntry, folder: str, there: int) -> tuple[WrongFile, ...]:
    """Compare only the number of files: without the segment file their names are unknown."""
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
        return {entry.name: entry.size_bytes for entry in io.list_dir(folder) if entry.kind is not EntryKind.DIRECTORY}
    except (FileNotFoundError, NotADirectoryError):
        return {}
