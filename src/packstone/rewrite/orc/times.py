"""Timestamps of ORC files as Java's reader understands them, decoded without PyArrow.

A timestamp is two integers: seconds since 2015-01-01 in the zone of the writer, rounded towards zero as seconds since
1970, and nanoseconds, which are always counted upwards. So 1969-12-31 23:59:58.5 is stored as 23:59:59 and 0.5, and a
reader subtracts a second from what lies before 1970 and has a fraction of a millisecond or more. PyArrow's ORC reader
(to 26.0) decides that after it has moved the time to the reader's zone, Java's before: where the writer was outside
UTC, PyArrow is wrong by a second for times within the zone's offset of 1970. PyArrow's writer stores fractions before
1970 as negative nanoseconds, which no other reader expects; PyArrow reads them back.

So PyArrow's values are exchanged for those decoded here wherever they may differ: in files with a writer outside UTC,
and in files with times before 1970.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.orc.integer_runs import decode_integers
from packstone.rewrite.orc.statistics import are_times_within
from packstone.rewrite.orc.streams import StreamKind, StripeStreams, read_stream, read_streams
from packstone.rewrite.orc.tail import children_of, kind_of, names_of, read_types
from packstone.rewrite.orc.zones import check_zone, seconds_at, to_wall_clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.rewrite.orc.integer_runs import Integers
    from packstone.rewrite.orc.protobuf import Message
    from packstone.rewrite.orc.tail import ByteSource, OrcTail

TIMESTAMP, STRUCT, INSTANT = 9, 12, 18
STEADY_ZONES: Final = ("UTC", "GMT", "Etc/UTC", "Etc/GMT")
FIRST_SAFE_MS: Final = 1  # not 1970 itself: the last microseconds before it are stated as its millisecond 0
LAST_SAFE_MS: Final = 9_214_646_400_000  # the first day of 2262, the last year that 64 bits of nanoseconds reach
BASE_SECONDS: Final = 1_420_070_400  # 2015-01-01 in UTC
SECOND_NS: Final = 1_000_000_000
MAX_UNCOUNTED_NS: Final = 999_999  # up to here seconds are rounded down
_MAX_SECONDS: Final = (1 << 63) // SECOND_NS - 1
_MAX_VALUES: Final = 1 << 27  # of a stripe; a gigabyte of them is no file that anybody wrote


def time_columns(tail: OrcTail, names: Sequence[str] | None = None) -> dict[int, int]:
    """The numbers and kinds of all timestamp columns, nested ones too, below the named fields of a row."""
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


def may_differ(source: ByteSource, tail: OrcTail, columns: dict[int, int]) -> bool:
    """Whether PyArrow may read other times than Java does, or times that PyArrow alone can read."""
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
    """Exchanges the timestamps of a file's batches, which come in their order, for exact ones."""

    def __init__(self, source: ByteSource, path: str, *, tail: OrcTail, names: Sequence[str]) -> None:
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
            raise UnfaithfulError(f"{path} has several columns of one name, so its timestamps cannot be told apart")
        self._waiting = {
            column: _Waiting(self._stripes(column, kind))
            for column, kind in (columns.items() if self._is_needed else ())
        }

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its timestamps exchanged."""
        if not self._is_needed:
            return batch
        try:
            columns = [
                self._exchange(column, self._numbers[field.name])
                for field, column in zip(batch.schema, batch.columns, strict=True)
            ]
        except (ValueError, KeyError, OSError) as error:
            raise self._broken(error) from error
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def check_end(self) -> None:
        """All timestamps of the file must have been used: else a stream holds more than its rows need."""
        try:
            is_over = all(waiting.is_over() for waiting in self._waiting.values())
        except (ValueError, OSError) as error:
            raise self._broken(error) from error
        if not is_over:
            raise self._broken(ValueError("it holds more timestamps than its rows need"))

    def _stripes(self, column: int, kind: int) -> Iterator[Integers]:
        for stripe in self._tail.stripes:
            streams = read_streams(self._source, stripe, tail=self._tail)
            try:
                yield decode_times(self._source, streams, column=column, kind=kind, tail=self._tail)
            except UnfaithfulError as error:
                raise UnfaithfulError(f"{self._path}: {error.message}") from error

    def _exchange(self, array: pa.Array, number: int) -> pa.Array:
        kind = array.type
        if number in self._waiting:
            return _filled(array, self._waiting[number].take(len(array) - array.null_count))
        if not any(below in self._waiting for below in _below(self._types, [number])):
            return array
        children = children_of(self._types[number])
        if pt.is_struct(kind):
            parts = [self._exchange(part, child) for part, child in zip(array.flatten(), children, strict=True)]
            return pa.Array.from_buffers(kind, len(array), [_validity(array)], children=parts)
        if pt.is_map(kind) or pt.is_list(kind):
            offsets = array.offsets.to_numpy()
            begin, size = int(offsets[0]), int(offsets[-1] - offsets[0])
            inner = [array.keys, array.items] if pt.is_map(kind) else [array.values]
            parts = [
                self._exchange(part.slice(begin, size), child) for part, child in zip(inner, children, strict=True)
            ]
            if pt.is_map(kind):
                parts = [pa.Array.from_buffers(kind.field(0).type, size, [None], children=parts)]
            moved = pa.py_buffer((offsets - offsets[0]).astype(np.int32).tobytes())
            return pa.Array.from_buffers(kind, len(array), [_validity(array), moved], children=parts)
        raise UnfaithfulError(f"{self._path} has timestamps in a union, which are not decoded here")

    def _broken(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} has a broken stripe: {one_line(error)}.", file=self._path)


class _Waiting:
    """Values of one column that were decoded and not yet asked for."""

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

    def is_over(self) -> bool:
        return not any(len(part) for part in self._parts) and not any(len(part) for part in self._stripes)


def decode_times(source: ByteSource, streams: StripeStreams, *, column: int, kind: int, tail: OrcTail) -> Integers:
    """Nanoseconds since 1970, of a wall clock or of UTC, of all values of a column that are not null."""
    zone = None if kind == INSTANT or streams.zone in STEADY_ZONES else streams.zone or ""
    seconds, nanos = read_parts(source, streams, column=column, tail=tail)
    seconds = seconds + (BASE_SECONDS if zone is None else seconds_at(zone, 2015))
    # A negative fraction is PyArrow's own way; it is what it says.
    seconds = seconds - ((seconds < 0) & (nanos > MAX_UNCOUNTED_NS))
    if len(seconds) and (int(seconds.min()) < -_MAX_SECONDS or int(seconds.max()) > _MAX_SECONDS):
        raise UnfaithfulError("it has timestamps outside of 1677 to 2262, which is all that PyArrow can hold")
    if zone is not None:
        seconds = to_wall_clock(seconds, zone)
    return seconds * SECOND_NS + nanos


def read_parts(source: ByteSource, streams: StripeStreams, *, column: int, tail: OrcTail) -> tuple[Integers, Integers]:
    """Seconds as they are stored, and nanoseconds, of all values of a column that are not null."""
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
    """Nanoseconds: the lowest three bits say how many zeros, less one, were cut off; ValueError if out of range."""
    if len(stored) and (int(stored.min()) >> 3 <= -SECOND_NS or int(stored.max()) >> 3 >= SECOND_NS):
        raise ValueError("a fraction of a second is not below one second")
    zeros = stored & 7
    nanos = (stored >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    if len(nanos) and (int(nanos.min()) <= -SECOND_NS or int(nanos.max()) >= SECOND_NS):
        raise ValueError("a fraction of a second is not below one second")
    return nanos


def pack_nanos(nanos: Integers) -> Integers:
    """The other way: cut off two to eight zeros."""
    stored = nanos << 3
    is_open = nanos != 0
    for zeros in range(7, 0, -1):
        fits = is_open & (nanos % 10 ** (zeros + 1) == 0)
        stored = np.where(fits, (nanos // 10 ** (zeros + 1)) << 3 | zeros, stored)
        is_open &= ~fits
    return stored


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """All arrays of timestamps in a column, however deep; what lies below a null is null."""
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
