"""The files of folder ``Metadata/status``: find, read and publish versions, and when each was written.

Versions are numbered without gaps and created exclusively. Before clean removes any, it raises the *floor*: a file in
``Metadata/floor`` whose name is a number; versions below it are invalid. The highest floor is in effect, so a late
clean cannot lower it. From this follows:

- A number that is not below the floor was never removed, so it was created once: its file is *the* version of that
  number. Code that reads or publishes a version reads the floor afterwards, and only then relies on the version.
- Otherwise, a writer that was suspended while its number was taken and cleaned (a sleeping machine is enough) would
  create the number a second time, others could build on it, and commits that were reported as done would be lost.
- The newest version is the highest number. The hint is written after the version that it names, and says where to start
  the search: upwards from the hint or from the floor, whichever is higher, there are no gaps. The hint may be out of
  date, if its writer was killed or slow, and old copies have none; but a hint or a floor above the highest number means
  that the newest versions are lost. Then nothing is read: otherwise commits that were reported as done would be
  silently missing.
"""

from __future__ import annotations

import contextlib
import errno
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, InvalidInputError, UnavailableError, storage_sentence
from packstone.model.codec import Count, check_seal, damaged, dump_record, load_record, read_seal
from packstone.query.scan.caches import LruCache
from packstone.tables.segments.format.layout import (
    entries_folder,
    floor_folder,
    floor_path,
    hint_path,
    history_path,
    parse_floor_name,
    parse_status_name,
    retired_folder,
    status_folder,
    status_path,
)
from packstone.tables.segments.format.properties import parse_properties
from packstone.tables.segments.format.status import (
    ChunkRef,
    EntryChunk,
    StatusEntry,
    StatusHead,
    StatusHeader,
    TableStatus,
    dump_status,
    join_entries,
    parse_chunk,
    parse_entries,
    parse_head,
    parse_header,
    parse_status,
)
from packstone.tables.segments.show import format_ms

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MOST_STEPS: Final = 64  # from the hint upwards; after that, a listing is cheaper
_CLEAN_RACES: Final = 20
_MOST_FLOORS: Final = 32
FIRST_VERSION: Final = 1
_DIGITS: Final = 20
# Chunks and versions that this process has read, by digest: files of one digest have the same content. An entry takes
# about 0.6 KB, three times its size in a file; the entries of a version are those of its chunks.
_CHUNKS: Final[LruCache[str, tuple[StatusEntry, ...]]] = LruCache(128 << 20)
_VERSIONS: Final[LruCache[tuple[str, str], TableStatus]] = LruCache(16 << 20)
_BYTES_IN_MEMORY: Final = 3
_NEWEST: Final[dict[str, tuple[str, int]]] = {}  # id and newest version of the tables that this process writes
_MOST_TABLES: Final = 100
_ENTRY_BYTES: Final = 600
# With these errors the system has done nothing, so the outcome is known.
_NOT_DONE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT})


class StatusPublish(StrEnum):
    """How an attempt to publish ended."""

    OURS = "ours"
    TAKEN = "taken"  # another writer has the number: build on that version and take the next
    CLEANED = "cleaned"  # the number was taken and is below the floor by now: the newest version says by which commit
    UNKNOWN = "unknown"  # the store failed, and the number is still free: the file may appear later


def read_latest(io: FileIO, table: str) -> TableStatus:
    """Read the newest version; InvalidInputError if the path is not a segment table."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(
            FileNotFoundError
        ):  # cleaned since it was found: there are newer versions; search again
            status = read_version(io, table, find_latest(io, table))
            if status.version >= read_floor(io, table):
                return status
    raise CorruptionError(f"{table}: the newest version disappears each time it is read.", table=table)


def read_version(io: FileIO, table: str, version: int) -> TableStatus:
    """Read one version; FileNotFoundError if it does not exist, or no longer."""
    path = status_path(table, version)
    data = io.read_bytes(path)

    def load() -> TableStatus:
        return _parse_version(io, table, data, version=version)

    try:
        if not _is_sound(data):
            return load()
        return _VERSIONS.get_or_load((path, read_seal(data)), load, _size_of_version)
    except FileNotFoundError as error:
        # Clean removes a version before its chunks, so if the version is still valid, the chunk is lost.
        if io.stat(path) is None or version < read_floor(io, table):
            raise
        lost = str(error.filename or error)
        raise CorruptionError(
            f"{lost} is missing, but version {version} names it; restore it from a copy. Nothing was changed.",
            file=lost,
        ) from error


def _is_sound(data: bytes) -> bool:
    """Whether the digest at the end is that of the content; if not, parsing says what is wrong."""
    try:
        return check_seal(data, path="")
    except CorruptionError:
        return False


def _parse_version(io: FileIO, table: str, data: bytes, *, version: int) -> TableStatus:
    path, folder = status_path(table, version), entries_folder(table)
    status = parse_status(data, path=path, read_chunk=lambda ref: read_chunk(io, folder, ref))
    if status.version != version:
        raise damaged(path, f"it says that it is version {status.version}")
    try:
        parse_properties(status.properties, status.columns)
    except InvalidInputError as error:
        raise damaged(path, error.message.rstrip(".")) from error
    return status


def _size_of_version(status: TableStatus) -> int:
    chunked = sum(chunk.ref.count for chunk in status.chunks)
    return 8 * len(status.entries) + _ENTRY_BYTES * (10 + max(0, len(status.entries) - chunked))


def read_chunk(io: FileIO, folder: str, ref: ChunkRef) -> tuple[StatusEntry, ...]:
    """Read a chunk, including the entries that are gone; FileNotFoundError if it is missing."""
    path = f"{folder}/{ref.name}"

    def load() -> tuple[StatusEntry, ...]:
        return parse_chunk(io.read_bytes(path), ref, path=path)

    if not ref.digest:
        return load()
    return _CHUNKS.get_or_load(ref.digest, load, lambda _: _BYTES_IN_MEMORY * ref.size_bytes)


def read_kept_version(io: FileIO, table: str, version: int) -> TableStatus:
    """Read a version that the user requested; InvalidInputError lists the existing ones."""
    with contextlib.suppress(FileNotFoundError):
        status = read_version(io, table, version)
        if version in list_versions(io, table):
            return status
    versions = list_versions(io, table)
    raise InvalidInputError(f"{table} has no version {version}; it keeps {versions[0]} to {versions[-1]}.")


def read_header(io: FileIO, table: str, version: int) -> StatusHeader:
    """Read the header of a version, without its entries; FileNotFoundError if it does not exist, or no longer."""
    path = status_path(table, version)
    return parse_header(io.read_bytes(path), path=path)


def read_head(io: FileIO, table: str, version: int) -> StatusHead:
    """Read a version without its chunks; FileNotFoundError if it does not exist, or no longer."""
    path = status_path(table, version)
    return parse_head(io.read_bytes(path), path=path)


def find_latest(io: FileIO, table: str) -> int:
    """Return the number of the newest version: search upwards from the hint, else list."""
    hint = read_hint(io, table)
    start = max(hint, read_floor(io, table))
    # Without a hint the search from the floor is long, and would stop at a version that somebody has removed.
    if not hint or io.stat(status_path(table, start)) is None:
        return _list_numbers(io, table)[-1]
    for later in range(start + 1, start + 1 + _MOST_STEPS):
        if io.stat(status_path(table, later)) is None:
            return later - 1
    return _list_numbers(io, table)[-1]


def list_versions(io: FileIO, table: str) -> range:
    """Return the versions that can be read, which have no gaps."""
    numbers = _list_numbers(io, table)
    there = set(numbers)
    first = last = numbers[-1]
    while first - 1 in there:
        first -= 1
    return range(min(max(first, read_floor(io, table)), last), last + 1)


def list_lost_versions(io: FileIO, table: str) -> list[int]:
    """Return the versions above the floor whose file is missing: those before them cannot be read any more."""
    there = _list_numbers(io, table)
    missed = sorted(set(range(there[0], there[-1])).difference(there))
    lost = [number for number in missed if io.stat(status_path(table, number)) is None]  # a listing may miss names
    floor = read_floor(io, table) if lost else 0  # read afterwards: the versions that clean removed are below it
    return [number for number in lost if number >= floor]


def find_as_of(io: FileIO, table: str, moment_ms: int) -> TableStatus:
    """Read the newest version written at or before a moment; InvalidInputError if all kept versions are newer."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(FileNotFoundError):  # cleaned while we searched
            status = _search(io, table, list_versions(io, table), moment_ms=moment_ms)
            # A file of a suspended writer has too late a time, so it can only make the result older than right.
            if status.version >= read_floor(io, table):
                return status
    raise CorruptionError(f"{table}: its versions disappear each time they are read.", table=table)


def read_floor(io: FileIO, table: str) -> int:
    """Return the number below which versions are invalid; 1 if none was ever removed."""
    for _ in range(_CLEAN_RACES):
        floors = _list_numbered(io, floor_folder(table), parse_floor_name)
        # As with versions: a listing may miss a file that appears while another is removed.
        if not floors:
            return FIRST_VERSION
        if io.stat(floor_path(table, floors[-1])) is not None:
            return floors[-1]
    raise CorruptionError(f"{table}: its floor disappears each time it is read.", table=table)


def raise_floor(io: FileIO, table: str, first_kept: int) -> None:
    """Make all versions below a number invalid, so that they may be removed, in any order.

    The version of that number must exist. Old floor files are removed only when there are many: a listing never misses
    all of them.
    """
    io.make_dirs(floor_folder(table))
    with contextlib.suppress(FileExistsError):
        io.write_new(floor_path(table, first_kept), b"")
    floors = _list_numbered(io, floor_folder(table), parse_floor_name)
    if len(floors) > _MOST_FLOORS:
        for old in floors[: -_MOST_FLOORS // 2]:
            io.remove(floor_path(table, old))


def read_retired(io: FileIO, table: str, status: TableStatus) -> tuple[StatusEntry, ...]:
    """Read the compacted and deleted segments that are not cleaned yet, in id order."""
    return join_entries(status.retired, [chunk.entries for chunk in read_retired_chunks(io, table, status)])


def read_retired_chunks(io: FileIO, table: str, status: TableStatus) -> tuple[EntryChunk, ...]:
    """Read the chunks of the retired segments; CorruptionError if one is missing."""
    folder = retired_folder(table)
    found = []
    for ref in status.retired.chunks:
        try:
            content = read_chunk(io, folder, ref)
        except FileNotFoundError as error:
            raise _lost(f"{folder}/{ref.name}") from error
        found.append(EntryChunk(ref=replace(ref, gone=()), entries=content))
    return tuple(found)


def read_history(io: FileIO, table: str, status: TableStatus) -> tuple[StatusEntry, ...]:
    """Read the segments that clean has removed, oldest clean first."""
    lists = (_read_list(io, history_path(table, name)) for name in status.history_files)
    return tuple(entry for entries in lists for entry in entries)


def publish(io: FileIO, table: str, status: TableStatus) -> StatusPublish:
    """Try to publish the status under its number; UnavailableError if it is certain that this failed."""
    path, data = status_path(table, status.version), dump_status(status)
    try:
        io.write_new(path, data)
    except FileExistsError:
        found = _read_publisher(
            io, table, status
        )  # ours, from a first try whose response was lost; or another writer's
        if found is StatusPublish.UNKNOWN and status.version < read_floor(io, table):
            return StatusPublish.CLEANED
        return found
    except OSError as error:
        found = _read_publisher(io, table, status)  # it may have been written despite the error
        if found is StatusPublish.UNKNOWN and error.errno in _NOT_DONE:
            raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=table) from error
        return found
    _VERSIONS.get_or_load((path, read_seal(data)), lambda: status, _size_of_version)
    if newest_known(table, status):
        note_newest(table, status)
    return StatusPublish.OURS


def note_newest(table: str, status: TableStatus) -> None:
    """Remember a version that this process has seen as the newest one."""
    newest = max(status.version, newest_known(table, status))
    _NEWEST.pop(table, None)
    _NEWEST[table] = status.table_id, newest
    for oldest in [*_NEWEST][:-_MOST_TABLES]:
        _NEWEST.pop(oldest, None)


def newest_known(table: str, status: TableStatus) -> int:
    """Return the newest version of the same table that was noted and not forgotten; 0 if there is none."""
    table_id, version = _NEWEST.get(table, ("", 0))
    return version if table_id == status.table_id else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestVersion:
    """The content of the hint; in tables of an older packstone it is only the number."""

    version: Count


def write_hint(io: FileIO, table: str, status: TableStatus) -> None:
    """Write where readers start to search; a failed or late write does no harm."""
    with contextlib.suppress(OSError):
        io.replace(hint_path(table), dump_record(LatestVersion(version=status.version)))


def _read_publisher(io: FileIO, table: str, status: TableStatus) -> StatusPublish:
    try:
        there = read_header(io, table, status.version)
    except (OSError, CorruptionError):
        return StatusPublish.UNKNOWN
    return StatusPublish.OURS if there.commit == status.commit else StatusPublish.TAKEN


def _search(io: FileIO, table: str, versions: range, *, moment_ms: int) -> TableStatus:
    found = find_version(versions, moment_ms, lambda version: read_header(io, table, version))
    if found is not None:
        return read_version(io, table, found)
    oldest = read_header(io, table, versions[0]).written_ms
    raise InvalidInputError(
        f"{table} keeps versions {versions[0]} to {versions[-1]}, the oldest of {format_ms(oldest)} UTC; there is "
        f"none of {format_ms(moment_ms)}.",
        oldest_ms=oldest,
    )


def _read_list(io: FileIO, path: str) -> tuple[StatusEntry, ...]:
    try:
        return parse_entries(io.read_bytes(path), path=path)
    except FileNotFoundError as error:
        raise _lost(path) from error


def _lost(path: str) -> CorruptionError:
    return CorruptionError(
        f"{path} is missing, but a status names it; restore it from a copy. Nothing was changed.", file=path
    )


def read_hint(io: FileIO, table: str) -> int:
    """Read the version in the hint; 0 if no hint can be read, RefusedError if a newer packstone wrote it."""
    with contextlib.suppress(OSError, ValueError, CorruptionError):
        return _parse_hint(io.read_bytes(hint_path(table)), path=hint_path(table))
    return 0


def check_hint(io: FileIO, table: str) -> None:
    """Raise CorruptionError if there is a hint that cannot be read: lost versions would not be noticed without it."""
    with contextlib.suppress(FileNotFoundError):  # a creation may have been killed before it
        _parse_hint(io.read_bytes(hint_path(table)), path=hint_path(table))


def _parse_hint(data: bytes, *, path: str) -> int:
    text = data.strip()
    if not text.isdigit():
        return load_record(LatestVersion, data, path=path).version
    if len(text) > _DIGITS:
        raise damaged(path, "it is not the number of a version")
    return int(text)


def _list_numbers(io: FileIO, table: str) -> list[int]:
    """List the numbers of all versions, in order; never empty.

    A listing may miss names that are created or removed while it runs. Its highest number was the newest version when
    it began if that file still exists and is not below the floor or the hint. A listing without any number is believed
    if there is no hint either.
    """
    numbers: list[int] = []
    for _ in range(_CLEAN_RACES):
        least = max(read_hint(io, table), read_floor(io, table))  # first: a later listing has at least these
        numbers = _list_numbered(io, status_folder(table), parse_status_name)
        if numbers and numbers[-1] >= least and io.stat(status_path(table, numbers[-1])) is not None:
            return numbers
        if not numbers and io.stat(hint_path(table)) is None:
            break
    if not numbers:
        raise InvalidInputError(
            f"{table} is not a segment table; make one with `packstone segments create`.", table=table
        )
    named = max(read_hint(io, table), read_floor(io, table))
    raise CorruptionError(
        f"{status_path(table, named)} is missing: {table} had version {named}, but its newest status file is "
        f"{numbers[-1]}. Restore the missing status files from a copy; nothing is read or changed until then.",
        table=table,
        file=status_path(table, named),
    )


def _list_numbered(io: FileIO, folder: str, parse: Callable[[str], int | None]) -> list[int]:
    try:
        found = [parse(entry.name) for entry in io.list_dir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(number for number in found if number is not None)


# ---- version times ----
# When versions were written, although the clocks of writers differ.
#
# A version has the time of its writer's clock, but never an earlier time than the previous version: so times are in
# order, and a slow clock does no harm. A fast clock would: after one commit from next year, all later versions would be
# from next year, and ``--as-of`` today would not find them. So a writer that finds the newest version more than ten
# minutes in its future reads the clock times of the last sixteen versions. If fewer clocks must be wrong for its own
# time to be right, it writes its own time, and ``ordered_since`` says that a new order begins there.
#
# *As of* a moment is the newest version, by number, that was written at or before it:
#
# =======  =====  =====  ======  =====  =====
# version  1      2      3       4      5
# clock    10:00  10:05  +1 y    10:07  10:09
# time     10:00  10:05  +1 y    10:07  10:09   as of 10:08: version 4;  as of 10:06: version 2
# =======  =====  =====  ======  =====  =====


_TOLERANCE_MS: Final = 600_000  # the clocks of one cluster differ by less
_WITNESSES: Final = 16

ReadHeader = Callable[[int], "StatusHeader"]  # of a version; FileNotFoundError if it is removed


def settle_time(base: TableStatus, *, now_ms: int, read_header: ReadHeader) -> tuple[int, int]:
    """Return the time of the version after ``base``, and the version since which times are in order."""
    if now_ms >= base.written_ms:
        return now_ms, base.ordered_since
    if base.written_ms - now_ms > _TOLERANCE_MS:
        clocks = _last_clocks(base, read_header)
        with_ours = 1 + _longest_order([clock for clock in clocks if clock <= now_ms])
        if with_ours >= _longest_order(clocks):
            return now_ms, base.version + 1
    return base.written_ms, base.ordered_since


def list_runs(versions: range, read_header: ReadHeader) -> Iterator[range]:
    """Split versions into runs whose times are in order, newest first; usually there is one."""
    last = versions[-1]
    while last >= versions[0]:
        first = min(max(read_header(last).ordered_since, versions[0]), last)
        yield range(first, last + 1)
        last = first - 1


def find_version(versions: range, moment_ms: int, read_header: ReadHeader) -> int | None:
    """Return the newest version written at or before a moment; None if all are newer."""
    for run in list_runs(versions, read_header):
        count = _count_until(run, moment_ms, read_header)
        if count:
            return run[count - 1]
    return None


def first_needed(versions: range, cutoff_ms: int, *, now_ms: int, read_header: ReadHeader) -> int:
    """Return the version that was the newest at the cutoff: all versions before it are certainly not needed.

    A version with a time in the future counts as written at the time of the next version without one: its writer's
    clock was fast.
    """
    ahead: int | None = None  # the first version with a time in the future, until a version after them is found
    for run in [*list_runs(versions, read_header)][::-1]:
        late = _count_until(run, cutoff_ms, read_header)
        if late == len(run):
            ahead = None
            continue
        begin = ahead if late == 0 and ahead is not None else run[late]
        if _count_until(run, now_ms, read_header) > late:
            return max(begin - 1, versions[0])
        ahead = begin
    return versions[-1] if ahead is None else max(ahead - 1, versions[0])


def _count_until(run: range, moment_ms: int, read_header: ReadHeader) -> int:
    """The number of versions of a run that were written at or before a moment."""
    return bisect_right(run, moment_ms, key=lambda version: read_header(version).written_ms)


def _last_clocks(base: TableStatus, read_header: ReadHeader) -> list[int]:
    """The clock times of the last versions, the newest last."""
    found: list[StatusHeader | TableStatus] = [base]
    with contextlib.suppress(
        FileNotFoundError, CorruptionError
    ):  # cleaned: then there are fewer clock times to compare
        for version in range(base.version - 1, max(0, base.version - _WITNESSES), -1):
            found.append(read_header(version))  # noqa: PERF401 - what came before an error stays
    return [one.written_ms if one.clock_ms is None else one.clock_ms for one in reversed(found)]


def _longest_order(clocks: list[int]) -> int:
    """The largest number of clocks that can be right together: the length of the longest non-decreasing subsequence."""
    ends: list[int] = []
    for clock in clocks:
        at = bisect_right(ends, clock)
        ends[at : at + 1] = [clock]
    return len(ends)
