"""Decode timestamps of ORC files as Java's reader does, without PyArrow.

A timestamp is two integers: seconds since 2015-01-01 in the zone of the writer, rounded towards zero as seconds since
1970, and nanoseconds, which are always counted upwards. So 1969-12-31 23:59:58.5 is stored as 23:59:59 and 0.5, and a
reader subtracts a second from times before 1970 whose fraction is a millisecond or more. PyArrow's ORC reader (up to
26.0) decides that after it has moved the time to the reader's zone, Java's before: where the writer was outside UTC,
PyArrow is wrong by a second for times within the zone's offset of 1970. PyArrow's writer stores fractions before 1970
as negative nanoseconds, which no other reader expects; PyArrow reads them back.

So PyArrow's values are replaced by those decoded here wherever they may differ: in files with a writer outside UTC,
and in files with times before 1970.

A wall-clock time in ORC is stored relative to the zone of its writer, so its value depends on the reader's time zone
data. Times for which Java may disagree are refused. Java's data and ours were compared for all 597 zones of 2025b, at
3,300 instants each, with these results:

- zones of a fixed offset always agree, and all others agree from 1970 to 2036, except a few old names such as EET;
- before 1970 some systems keep data that IANA has merged since 2022 (Java gives Amsterdam the clocks of Brussels):
  names in ``zone1970.tab`` agree from 1900 on, others do not;
- before 1900 Java uses the current standard time; that is known where it did not change for decades;
- from 2037 on the last rule applies, except for four zones whose rules follow the moon.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import TZPATH, ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.orc_statistics import are_times_within
from packstone.rewrite.formats.orc_streams import (
    StreamKind,
    StripeStreams,
    decode_integers,
    read_stream,
    read_streams,
)
from packstone.rewrite.formats.orc_tail import children_of, kind_of, names_of, read_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.rewrite.formats.orc_protobuf import Message
    from packstone.rewrite.formats.orc_streams import Integers
    from packstone.rewrite.formats.orc_tail import OrcSource, OrcTail

TIMESTAMP, STRUCT, INSTANT = 9, 12, 18
STEADY_ZONES: Final = ("UTC", "GMT", "Etc/UTC", "Etc/GMT")
FIRST_SAFE_MS: Final = 1  # not 1970 itself: the last microseconds before it are stated as its millisecond 0
LAST_SAFE_MS: Final = 9_214_646_400_000  # the first day of 2262, the last year that 64-bit nanoseconds can hold
BASE_SECONDS: Final = 1_420_070_400  # 2015-01-01 in UTC
SECOND_NS: Final = 1_000_000_000
MAX_UNCOUNTED_NS: Final = 999_999  # up to this fraction, seconds are rounded down
_MAX_SECONDS: Final = (1 << 63) // SECOND_NS - 1
_MAX_VALUES: Final = 1 << 27  # of a stripe; no real writer stores a gigabyte of them


def time_columns(tail: OrcTail, names: Sequence[str] | None = None) -> dict[int, int]:
    """The numbers and kinds of all timestamp columns, including nested ones, below the named fields of a row."""
    types = read_types(tail)
    if kind_of(types[0]) != STRUCT:
        return {}
    roots = [
        child
        for child, name in zip(children_of(types[0]), names_of(types[0]), strict=True)
        if names is None or name.decode(errors="replace") in names
    ]
    return {
        number: kind_of(types[number])
        for number in _below(types, roots)
        if kind_of(types[number]) in (TIMESTAMP, INSTANT)
    }


def _below(types: Sequence[Message], roots: Iterable[int]) -> Iterator[int]:
    for number in roots:
        yield number
        yield from _below(types, children_of(types[number]))


def may_differ(source: OrcSource, tail: OrcTail, columns: dict[int, int]) -> bool:
    """Whether PyArrow may read other times than Java does, or times that only PyArrow can read."""
    zones: set[str | None] = set()
    if TIMESTAMP in columns.values():
        zones = {read_streams(source, stripe, tail=tail).zone for stripe in tail.stripes}.difference(STEADY_ZONES)
    for zone in zones:
        check_zone(zone or "")
    stated = tail.column_statistics
    return bool(zones) or any(
        column >= len(stated) or not are_times_within(stated[column], FIRST_SAFE_MS, LAST_SAFE_MS) for column in columns
    )


class ExactTimes:
    """Replaces the timestamps in a file's batches, which must arrive in order, by exact ones."""

    def __init__(self, source: OrcSource, path: str, *, tail: OrcTail, names: Sequence[str]) -> None:
        self._source, self._path, self._tail = source, path, tail
        self._types = read_types(tail)
        self._numbers = {
            name.decode(errors="replace"): child
            for child, name in zip(children_of(self._types[0]), names_of(self._types[0]), strict=True)
        }
        columns = time_columns(tail, names)
        try:
            self._is_needed = bool(columns) and may_differ(source, tail, columns)
        except UnfaithfulError as error:
            raise UnfaithfulError(f"{path}: {error.message}") from error
        except (ValueError, OSError) as error:
            raise self._broken(error) from error
        if self._is_needed and len(self._numbers) < len(children_of(self._types[0])):
            raise UnfaithfulError(
                f"{path} has several columns with the same name, so its timestamps cannot be distinguished"
            )
        self._waiting = {
            column: _Waiting(self._stripes(column, kind))
            for column, kind in (columns.items() if self._is_needed else ())
        }

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its timestamps replaced."""
        if not self._is_needed:
            return batch
        try:
            columns = [
                self._replace(column, self._numbers[field.name])
                for field, column in zip(batch.schema, batch.columns, strict=True)
            ]
        except (ValueError, KeyError, OSError) as error:
            raise self._broken(error) from error
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def check_end(self) -> None:
        """Check that all timestamps of the file were used; otherwise a stream holds more than its rows need."""
        try:
            is_finished = all(waiting.is_finished() for waiting in self._waiting.values())
        except (ValueError, OSError) as error:
            raise self._broken(error) from error
        if not is_finished:
            raise self._broken(ValueError("it holds more timestamps than its rows need"))

    def _stripes(self, column: int, kind: int) -> Iterator[Integers]:
        for stripe in self._tail.stripes:
            streams = read_streams(self._source, stripe, tail=self._tail)
            try:
                yield decode_times(self._source, streams, column=column, kind=kind, tail=self._tail)
            except UnfaithfulError as error:
                raise UnfaithfulError(f"{self._path}: {error.message}") from error

    def _replace(self, array: pa.Array, number: int) -> pa.Array:
        kind = array.type
        if number in self._waiting:
            return _filled(array, self._waiting[number].take(len(array) - array.null_count))
        if not any(below in self._waiting for below in _below(self._types, [number])):
            return array
        children = children_of(self._types[number])
        if pt.is_struct(kind):
            parts = [self._replace(part, child) for part, child in zip(array.flatten(), children, strict=True)]
            return pa.Array.from_buffers(kind, len(array), [_validity(array)], children=parts)
        if pt.is_map(kind) or pt.is_list(kind):
            offsets = array.offsets.to_numpy()
            begin, size = int(offsets[0]), int(offsets[-1] - offsets[0])
            inner = [array.keys, array.items] if pt.is_map(kind) else [array.values]
            parts = [self._replace(part.slice(begin, size), child) for part, child in zip(inner, children, strict=True)]
            if pt.is_map(kind):
                parts = [pa.Array.from_buffers(kind.field(0).type, size, [None], children=parts)]
            moved = pa.py_buffer((offsets - offsets[0]).astype(np.int32).tobytes())
            return pa.Array.from_buffers(kind, len(array), [_validity(array), moved], children=parts)
        raise UnfaithfulError(f"{self._path} has timestamps in a union, which Packstone does not decode")

    def _broken(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} has a broken stripe: {one_line(error)}.", file=self._path)


class _Waiting:
    """Decoded values of one column that were not yet taken."""

    def __init__(self, stripes: Iterator[Integers]) -> None:
        self._stripes = stripes
        self._parts: deque[Integers] = deque()

    def take(self, count: int) -> Integers:
        found = []
        while count:
            if not self._parts:
                part = next(self._stripes, None)
                if part is None:
                    raise ValueError("it holds fewer timestamps than its rows need")
                self._parts.append(part)
                continue
            part = self._parts.popleft()
            found.append(part[:count])
            if len(part) > count:
                self._parts.appendleft(part[count:])
            count -= len(found[-1])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def is_finished(self) -> bool:
        return not any(len(part) for part in self._parts) and not any(len(part) for part in self._stripes)


def decode_times(source: OrcSource, streams: StripeStreams, *, column: int, kind: int, tail: OrcTail) -> Integers:
    """All values of a column that are not null, in nanoseconds since 1970, in wall-clock time or UTC."""
    zone = None if kind == INSTANT or streams.zone in STEADY_ZONES else streams.zone or ""
    seconds, nanos = read_parts(source, streams, column=column, tail=tail)
    seconds = seconds + (BASE_SECONDS if zone is None else seconds_at(zone, 2015))
    # A negative fraction is PyArrow's own form; it is already the right value.
    seconds = seconds - ((seconds < 0) & (nanos > MAX_UNCOUNTED_NS))
    if len(seconds) and (int(seconds.min()) < -_MAX_SECONDS or int(seconds.max()) > _MAX_SECONDS):
        raise UnfaithfulError("it has timestamps outside of 1677 to 2262, the range that PyArrow can hold")
    if zone is not None:
        seconds = to_wall_clock(seconds, zone)
    return seconds * SECOND_NS + nanos


def read_parts(source: OrcSource, streams: StripeStreams, *, column: int, tail: OrcTail) -> tuple[Integers, Integers]:
    """Stored seconds, and nanoseconds, of all values of a column that are not null."""
    version = streams.version_of(column)
    found = []
    for stream, is_signed in ((StreamKind.DATA, True), (StreamKind.SECONDARY, False)):
        content = read_stream(source, streams.find(stream, column), tail=tail)
        runs = decode_integers(content, is_signed=is_signed, version=version, max_values=_MAX_VALUES)
        found.append(runs.values)
    seconds, stored = found
    if len(seconds) != len(stored):
        raise ValueError("a column of timestamps has more seconds than fractions, or fewer")
    return seconds, unpack_nanos(stored)


def unpack_nanos(stored: Integers) -> Integers:
    """Decode nanoseconds; the lowest three bits are the number of removed zeros minus one, or 0 for none.

    ValueError if a value is out of range.
    """
    if len(stored) and (int(stored.min()) >> 3 <= -SECOND_NS or int(stored.max()) >> 3 >= SECOND_NS):
        raise ValueError("a fraction of a second is not below one second")
    zeros = stored & 7
    nanos = (stored >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    if len(nanos) and (int(nanos.min()) <= -SECOND_NS or int(nanos.max()) >= SECOND_NS):
        raise ValueError("a fraction of a second is not below one second")
    return nanos


def pack_nanos(nanos: Integers) -> Integers:
    """Encode nanoseconds, removing two to eight trailing zeros."""
    stored = nanos << 3
    is_open = nanos != 0
    for zeros in range(7, 0, -1):
        fits = is_open & (nanos % 10 ** (zeros + 1) == 0)
        stored = np.where(fits, (nanos // 10 ** (zeros + 1)) << 3 | zeros, stored)
        is_open &= ~fits
    return stored


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """All arrays of timestamps in a column, at any depth; values below a null are null."""
    kind = array.type
    if pt.is_timestamp(kind):
        yield array
    elif pt.is_struct(kind):
        for child in array.flatten():
            yield from leaves(child)
    elif pt.is_map(kind):
        yield from leaves(_inner(array, array.keys))
        yield from leaves(_inner(array, array.items))
    elif pt.is_list(kind) or pt.is_large_list(kind):
        yield from leaves(_inner(array, array.values))


def _inner(array: pa.Array, values: pa.Array) -> pa.Array:
    begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(begin, end - begin)


def _filled(array: pa.Array, values: Integers) -> pa.Array:
    dense = np.zeros(len(array), np.int64)
    dense[array.is_valid().to_numpy(zero_copy_only=False)] = values
    return pa.Array.from_buffers(array.type, len(array), [_validity(array), pa.py_buffer(dense)])


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


# ---- zones ----

_START_OF_1900: Final = -2_208_988_800
_START_OF_1970: Final = -2 * 86_400  # two days earlier, for all time zones
_START_OF_2037: Final = 2_114_380_800
_HALF_HOUR: Final = 1_800
_STEADY_YEARS: Final = range(1995, 2026)
_MOON_ZONES: Final = ("Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron")
_FIXED_PREFIX: Final = "Etc/"


def check_zone(zone: str) -> ZoneInfo:
    """Find a zone by its name; UnfaithfulError if this machine does not know it."""
    if not zone:
        raise UnfaithfulError("it does not name the time zone of its writer, so its timestamps cannot be decoded")
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise UnfaithfulError(
            f"its writer was in the time zone {zone[:40]!r}, which this machine does not know"
        ) from None


def seconds_at(zone: str, year: int) -> int:
    """The start of a year in a zone, in seconds since 1970 in UTC."""
    return int(datetime(year, 1, 1, tzinfo=check_zone(zone)).timestamp())


def to_wall_clock(seconds: Integers, zone: str) -> Integers:
    """Wall-clock times in a zone, as seconds since 1970; UnfaithfulError where Java may disagree."""
    if not len(seconds):
        return seconds
    _check_agreed(zone, int(seconds.min()), int(seconds.max()))
    found = pc.local_timestamp(pa.array(seconds).cast(pa.timestamp("s", zone))).cast(pa.int64()).to_numpy()
    if zone.startswith(_FIXED_PREFIX):
        return found
    is_old, is_late = seconds < _START_OF_1900, seconds >= _START_OF_2037
    standard = _standard_offset(zone)
    if is_old.any() and standard is not None:
        found = np.where(is_old, seconds + standard, found)
    if is_late.any():
        found = found.copy()
        found[is_late] = seconds[is_late] + _late_offsets(seconds[is_late], zone)
    return found


def _check_agreed(zone: str, first: int, last: int) -> None:
    if zone.startswith(_FIXED_PREFIX):
        return
    is_known = zone in _zones_since_1970()
    if "/" not in zone:
        why = "is a name that systems understand differently"
    elif first < _START_OF_1970 and not is_known:
        why = "had other clocks before 1970 on some systems"
    elif first < _START_OF_1900 and _standard_offset(zone) is None:
        why = "has changed its standard time, which Java uses before 1900"
    elif last >= _START_OF_2037 and zone in _MOON_ZONES:
        why = "has no agreed rule from 2037 on"
    else:
        return
    raise UnfaithfulError(f"it has timestamps of a writer in the time zone {zone}, which {why}")


@lru_cache(maxsize=64)
def _standard_offset(zone: str) -> int | None:
    """The standard offset of a zone in seconds; None if it changed in recent decades or is ahead of summer time."""
    known = check_zone(zone)
    found = set()
    for year in _STEADY_YEARS:
        for month in (1, 7):
            at = datetime(year, month, 1, tzinfo=known)
            saved = at.dst() or timedelta()
            if saved < timedelta():
                return None
            found.add(((at.utcoffset() or timedelta()) - saved).total_seconds())
    return int(found.pop()) if len(found) == 1 else None


def _late_offsets(seconds: Integers, zone: str) -> Integers:
    known = check_zone(zone)
    halves, places = np.unique(seconds // _HALF_HOUR, return_inverse=True)
    offsets = [
        int(
            (
                datetime.fromtimestamp(half * _HALF_HOUR, UTC).astimezone(known).utcoffset() or timedelta()
            ).total_seconds()
        )
        for half in halves.tolist()
    ]
    return np.array(offsets, np.int64)[places]


@lru_cache(maxsize=1)
def _zones_since_1970() -> frozenset[str]:
    """Zones that the time zone data lists separately since 1970; empty if the list is not installed."""
    text = ""
    for folder in TZPATH:
        path = Path(folder) / "zone1970.tab"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            break
    else:
        try:
            text = (resources.files("tzdata") / "zoneinfo" / "zone1970.tab").read_text(encoding="utf-8")
        except (ModuleNotFoundError, OSError):
            return frozenset()
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return frozenset(line[2].strip() for line in lines if len(line) > 2)  # the third column
