"""The files of folder ``Metadata/status``: found, read, published, removed.

Versions are numbered without gaps and created exclusively. Before clean removes any, it raises the *floor*: a file in
``Metadata/floor`` whose name says below which number nothing counts any more. The highest floor holds, so a clean that
comes late cannot lower it. From this follows all else:

- A number that is not below the floor was never removed, so it was created once: who has it is *the* version of that
  number. Whoever reads a version or publishes one looks at the floor afterwards, and only then believes it.
- Without that, a writer that slept while its number was taken and cleaned away (a suspended machine is enough) would
  create it a second time, others could build on it, and commits that were reported as done would be lost.
- The newest version is the highest number. The hint is written after the version that it names, and says where to begin
  to look: upwards from it or from the floor, whichever is higher, there are no gaps. It may lag behind, if its writer
  was killed or slow, and is not there in old copies; but a hint, or a floor, above the highest number means that the
  newest versions are lost. Then nothing is read: commits that were reported as done would be missing without a word.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, InvalidInputError, UnavailableError, storage_sentence
from packstone.model.codec import damaged, dump_record, load_record
from packstone.model.record_fields import Count
from packstone.tables.segments.layout import (
    floor_folder,
    floor_path,
    hint_path,
    history_path,
    parse_floor_name,
    parse_status_name,
    retired_path,
    status_folder,
    status_path,
)
from packstone.tables.segments.properties import parse_properties
from packstone.tables.segments.show import format_ms
from packstone.tables.segments.status import (
    StatusEntry,
    StatusHeader,
    TableStatus,
    dump_status,
    parse_entries,
    parse_header,
    parse_status,
)
from packstone.tables.segments.version_times import find_version

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MOST_STEPS: Final = 64  # from the hint upwards; beyond, a listing is cheaper
_CLEAN_RACES: Final = 20
_MOST_FLOORS: Final = 32
FIRST_VERSION: Final = 1
_DIGITS: Final = 20
# With these the system says that it did nothing, so the outcome is known.
_NOT_DONE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT})


class Publish(StrEnum):
    """How an attempt to publish ended."""

    OURS = "ours"
    TAKEN = "taken"  # somebody else has the number: build on theirs and take the next
    CLEANED = "cleaned"  # somebody had the number, and it is below the floor by now: ask the newest version who it was
    UNKNOWN = "unknown"  # the store failed, and the number is still free: it may yet appear


def read_latest(io: FileIO, table: str) -> TableStatus:
    """The newest version; InvalidInputError if the path is no segment table."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(FileNotFoundError):  # cleaned since it was found: somebody is far ahead; look again
            status = read_version(io, table, find_latest(io, table))
            if status.version >= read_floor(io, table):
                return status
    raise CorruptionError(f"{table}: the newest version vanishes each time it is read.", table=table)


def read_version(io: FileIO, table: str, version: int) -> TableStatus:
    """The file of one version; FileNotFoundError if there is none such (any more)."""
    path = status_path(table, version)
    status = parse_status(io.read_bytes(path), path=path)
    if status.version != version:
        raise damaged(path, f"it says that it is version {status.version}")
    try:
        parse_properties(status.properties, status.columns)
    except InvalidInputError as error:
        raise damaged(path, error.message.rstrip(".")) from error
    return status


def read_kept_version(io: FileIO, table: str, version: int) -> TableStatus:
    """One version that a person asked for; InvalidInputError tells which ones there are."""
    with contextlib.suppress(FileNotFoundError):
        status = read_version(io, table, version)
        if version in list_versions(io, table):
            return status
    versions = list_versions(io, table)
    raise InvalidInputError(f"{table} has no version {version}; it keeps {versions[0]} to {versions[-1]}.")


def read_header(io: FileIO, table: str, version: int) -> StatusHeader:
    """What tells a version, without its entries; FileNotFoundError if there is none such (any more)."""
    path = status_path(table, version)
    return parse_header(io.read_bytes(path), path=path)


def find_latest(io: FileIO, table: str) -> int:
    """The number of the newest version: upwards from the hint, else by listing."""
    hint = read_hint(io, table)
    start = max(hint, read_floor(io, table))
    # Without a hint the way up from the floor is long, and would end before a version that somebody has removed.
    if not hint or io.stat(status_path(table, start)) is None:
        return _list_numbers(io, table)[-1]
    for later in range(start + 1, start + 1 + _MOST_STEPS):
        if io.stat(status_path(table, later)) is None:
            return later - 1
    return _list_numbers(io, table)[-1]


def list_versions(io: FileIO, table: str) -> range:
    """The versions that can be read, which have no gaps."""
    numbers = _list_numbers(io, table)
    there = set(numbers)
    first = last = numbers[-1]
    while first - 1 in there:
        first -= 1
    return range(min(max(first, read_floor(io, table)), last), last + 1)


def find_as_of(io: FileIO, table: str, moment_ms: int) -> TableStatus:
    """The newest version written at or before a moment; InvalidInputError if all that are kept are younger."""
    for _ in range(_CLEAN_RACES):
        with contextlib.suppress(FileNotFoundError):  # cleaned while we searched
            status = _search(io, table, list_versions(io, table), moment_ms=moment_ms)
            # A file that a sleeper left has a later time than it should, so it only leads to older ones than is right.
            if status.version >= read_floor(io, table):
                return status
    raise CorruptionError(f"{table}: its versions vanish each time they are read.", table=table)


def read_floor(io: FileIO, table: str) -> int:
    """Below this number nothing counts; 1 if nothing was ever removed."""
    for _ in range(_CLEAN_RACES):
        floors = _list_numbered(io, floor_folder(table), parse_floor_name)
        # As with versions: a listing may miss one that comes while another goes.
        if not floors:
            return FIRST_VERSION
        if io.stat(floor_path(table, floors[-1])) is not None:
            return floors[-1]
    raise CorruptionError(f"{table}: its floor vanishes each time it is read.", table=table)


def raise_floor(io: FileIO, table: str, first_kept: int) -> None:
    """Say that versions below a number do not count any more, so that they may be removed, in any order.

    The version of that number must exist. Old floors go only when there are many: a listing never misses all of them.
    """
    io.make_dirs(floor_folder(table))
    with contextlib.suppress(FileExistsError):
        io.write_new(floor_path(table, first_kept), b"")
    floors = _list_numbered(io, floor_folder(table), parse_floor_name)
    if len(floors) > _MOST_FLOORS:
        for old in floors[: -_MOST_FLOORS // 2]:
            io.remove(floor_path(table, old))


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
        found = _who_has_it(io, table, status)  # ours, from a first try whose answer was lost; or somebody's
        if found is Publish.UNKNOWN and status.version < read_floor(io, table):
            return Publish.CLEANED
        return found
    except OSError as error:
        found = _who_has_it(io, table, status)  # it may have been written all the same
        if found is Publish.UNKNOWN and error.errno in _NOT_DONE:
            raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=table) from error
        return found
    return Publish.OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestVersion:
    """What the hint says; in tables of an older packstone it is the bare number."""

    version: Count


def write_hint(io: FileIO, table: str, status: TableStatus) -> None:
    """Tell readers where to begin to look; that this fails, or comes late, does no harm."""
    with contextlib.suppress(OSError):
        io.replace(hint_path(table), dump_record(LatestVersion(version=status.version)))


def _who_has_it(io: FileIO, table: str, status: TableStatus) -> Publish:
    try:
        there = read_header(io, table, status.version)
    except (OSError, CorruptionError):
        return Publish.UNKNOWN
    return Publish.OURS if there.commit == status.commit else Publish.TAKEN


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
        raise CorruptionError(
            f"{path} is gone, though a status names it; put it back from a copy. Nothing was changed.", file=path
        ) from error


def read_hint(io: FileIO, table: str) -> int:
    """A version that was the newest once; 0 if no hint can be read, RefusedError if a newer packstone wrote it."""
    with contextlib.suppress(OSError, ValueError, CorruptionError):
        data = io.read_bytes(hint_path(table))
        text = data.strip()
        if text.isdigit():
            return int(text) if len(text) <= _DIGITS else 0
        return load_record(LatestVersion, data, path=hint_path(table)).version
    return 0


def _list_numbers(io: FileIO, table: str) -> list[int]:
    """The numbers of all versions, in order; never empty.

    A listing may miss names that come and go while it runs. What it found is the newest as of its begin if that is
    there still, and not below the floor nor the hint. One without any number is believed if there is no hint either.
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
        raise InvalidInputError(f"{table} is no segment table; make one with `packstone segments create`.", table=table)
    named = max(read_hint(io, table), read_floor(io, table))
    raise CorruptionError(
        f"{status_path(table, named)} is gone: {table} had version {named}, and the newest status file that is left is "
        f"{numbers[-1]}. Put the missing status files back from a copy; nothing is read or changed until then.",
        table=table,
        file=status_path(table, named),
    )


def _list_numbered(io: FileIO, folder: str, parse: Callable[[str], int | None]) -> list[int]:
    try:
        found = [parse(entry.name) for entry in io.list_dir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(number for number in found if number is not None)
