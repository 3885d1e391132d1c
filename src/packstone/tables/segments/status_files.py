"""The files of folder ``Metadata/status``: found, read, published.

Versions are numbered without gaps, created exclusively, and removed from the oldest upwards only. So:

- the newest is the highest number. A hint saves the listing: it tells a version *and its commit*, and counts only if
  that version still has that commit; then the newest is found by asking for the next numbers.
- a writer that slept so long that the number it was about to take was taken, and cleaned away, creates a file that
  nobody builds on. It finds out because the version that it built on is gone too (removal goes upwards), and takes its
  file back (`commit.py`). If it dies before that, its file stands below a gap, or its successor names another parent:
  `list_versions` leaves it out.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, InvalidInputError, UnavailableError, storage_sentence
from packstone.tables.segments.layout import (
    hint_path,
    history_path,
    parse_status_name,
    retired_path,
    status_folder,
    status_path,
)
from packstone.tables.segments.status import (
    StatusEntry,
    StatusHeader,
    TableStatus,
    damaged,
    dump_status,
    parse_entries,
    parse_header,
    parse_status,
)

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MOST_STEPS: Final = 64  # from the hint upwards; beyond, a listing is cheaper
_CLEAN_RACES: Final = 20
# With these the system says that it did nothing, so the outcome is known.
_NOT_DONE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT})


class Publish(StrEnum):
    """How an attempt to publish ended."""

    OURS = "ours"
    TAKEN = "taken"  # somebody else has the number: build on theirs and take the next
    UNKNOWN = "unknown"  # the store failed, and the number is still free: it may yet appear


def read_latest(io: FileIO, table: str) -> TableStatus:
    """The newest version; InvalidInputError if the path is no segment table."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(FileNotFoundError):  # cleaned since it was found: somebody is far ahead; look again
            return read_version(io, table, find_latest(io, table))
    raise CorruptionError(f"{table}: the newest version vanishes each time it is read.", table=table)


def read_version(io: FileIO, table: str, version: int) -> TableStatus:
    """One version; FileNotFoundError if there is none such (any more)."""
    path = status_path(table, version)
    status = parse_status(io.read_bytes(path), path=path)
    if status.version != version:
        raise damaged(path, f"it says that it is version {status.version}")
    return status


def read_kept_version(io: FileIO, table: str, version: int) -> TableStatus:
    """One version that a person asked for; InvalidInputError tells which ones there are."""
    versions = list_versions(io, table)
    with contextlib.suppress(FileNotFoundError):
        if version in versions:
            return read_version(io, table, version)
    raise InvalidInputError(f"{table} has no version {version}; it keeps {versions[0]} to {versions[-1]}.")


def read_header(io: FileIO, table: str, version: int) -> StatusHeader:
    """What tells a version, without its entries; FileNotFoundError if there is none such (any more)."""
    path = status_path(table, version)
    return parse_header(io.read_bytes(path), path=path)


def find_latest(io: FileIO, table: str) -> int:
    """The number of the newest version: upwards from the hint if that is true, else by listing."""
    hinted = _read_hint(io, table)
    if hinted is None:
        return _list_numbers(io, table)[-1]
    version, commit = hinted
    try:
        if read_header(io, table, version).commit != commit:
            return _list_numbers(io, table)[-1]
    except (FileNotFoundError, CorruptionError):
        return _list_numbers(io, table)[-1]
    for later in range(version + 1, version + 1 + _MOST_STEPS):
        if io.stat(status_path(table, later)) is None:
            return later - 1
    return _list_numbers(io, table)[-1]


def list_versions(io: FileIO, table: str) -> range:
    """The versions that can be read, which have no gaps."""
    for _ in range(_CLEAN_RACES):
        numbers = _list_numbers(io, table)
        first = numbers[-1]
        there = set(numbers)
        while first - 1 in there:
            first -= 1
        try:
            if first < numbers[-1] and read_header(io, table, first + 1).parent != read_header(io, table, first).commit:
                first += 1  # left by a writer that slept too long
        except FileNotFoundError:
            continue  # cleaned since the listing
        return range(first, numbers[-1] + 1)
    raise CorruptionError(f"{table}: its versions vanish each time they are read.", table=table)


def find_as_of(io: FileIO, table: str, moment_ms: int) -> TableStatus:
    """The newest version written at or before a moment; InvalidInputError if all that are kept are younger."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(FileNotFoundError):  # cleaned while we searched
            versions = list_versions(io, table)
            return _search(io, table, versions, moment_ms=moment_ms)
    raise CorruptionError(f"{table}: its versions vanish each time they are read.", table=table)


def read_retired(io: FileIO, table: str, status: TableStatus) -> tuple[StatusEntry, ...]:
    """Compacted and deleted segments that are not cleaned yet, in id order."""
    if status.retired_file is None:
        return ()
    return _read_list(io, retired_path(table, status.retired_file))


def read_history(io: FileIO, table: str, status: TableStatus) -> tuple[StatusEntry, ...]:
    """Segments that clean has removed, oldest clean first."""
    lists = (_read_list(io, history_path(table, name)) for name in status.history_files)
    return tuple(entry for entries in lists for entry in entries)


def publish(io: FileIO, table: str, status: TableStatus) -> Publish:
    """Try to give the status its number. UnavailableError: it is certain that it has none."""
    try:
        io.write_new(status_path(table, status.version), dump_status(status))
    except FileExistsError:
        return _who_has_it(io, table, status)  # ours, from a first try whose answer was lost; or somebody's
    except OSError as error:
        found = _who_has_it(io, table, status)  # it may have been written all the same
        if found is Publish.UNKNOWN and error.errno in _NOT_DONE:
            raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=table) from error
        return found
    return Publish.OURS


def write_hint(io: FileIO, table: str, status: TableStatus) -> None:
    """Tell readers where to begin to look; that this fails, or comes late, does no harm."""
    with contextlib.suppress(OSError):
        io.replace(hint_path(table), f"{status.version} {status.commit}\n".encode())


def _who_has_it(io: FileIO, table: str, status: TableStatus) -> Publish:
    try:
        there = read_header(io, table, status.version)
    except (OSError, CorruptionError):
        return Publish.UNKNOWN
    return Publish.OURS if there.commit == status.commit else Publish.TAKEN


def _search(io: FileIO, table: str, versions: range, *, moment_ms: int) -> TableStatus:
    """Halve the versions; their times never decrease."""

    def is_later(version: int) -> bool:
        return read_header(io, table, version).written_ms > moment_ms

    if is_later(versions[0]):
        oldest = read_header(io, table, versions[0]).written_ms
        raise InvalidInputError(
            f"{table} keeps versions {versions[0]} to {versions[-1]}, the oldest written at {oldest} (ms since 1970); "
            f"there is none of {moment_ms}.",
            oldest_ms=oldest,
        )
    return read_version(io, table, versions[_count_until(is_later, versions) - 1])


def _count_until(is_later: Callable[[int], bool], versions: range) -> int:
    low, high = 1, len(versions)
    while low < high:
        middle = (low + high) // 2
        if is_later(versions[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def _read_list(io: FileIO, path: str) -> tuple[StatusEntry, ...]:
    return parse_entries(io.read_bytes(path), path=path)


def _read_hint(io: FileIO, table: str) -> tuple[int, str] | None:
    try:
        version, commit = io.read_bytes(hint_path(table)).decode().split()
        return int(version), commit
    except (OSError, ValueError):
        return None


def _list_numbers(io: FileIO, table: str) -> list[int]:
    try:
        found = [parse_status_name(entry.name) for entry in io.list_dir(status_folder(table))]
    except (FileNotFoundError, NotADirectoryError):
        found = []
    numbers = sorted(number for number in found if number is not None)
    if not numbers:
        raise InvalidInputError(f"{table} is no segment table; make one with `packstone segments create`.", table=table)
    return numbers
