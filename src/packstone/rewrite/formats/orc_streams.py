"""Read the streams of an ORC stripe: their positions, encodings, decompressed content and decoded integers.

Integers are decoded in both versions of ORC's run-length encoding and encoded in the second, whole runs at a time with
NumPy. Version 2 has runs of up to 512 values in four forms: a repeated value, packed bits, packed bits with patches
for the outliers, and differences. This is a second implementation beside PyArrow's, so that files that PyArrow wrote
can be read by code that does not share its faults.

``find_batch_rows`` estimates how much memory the rows of a file take, before anything is decoded. A megabyte of ORC
can hold terabytes: runs of integers, dictionaries and codecs shrink a repeated value to nothing, one on top of the
other. Only texts and lists have lengths, which are stored in separate streams; the header of each run of integers
bounds its values. So an upper bound for the bytes of a row costs almost nothing, and limits the size of batches. Where
the bound is too high, the lengths themselves are decoded and summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from packstone.errors import UnreadableFileError
from packstone.model.sizes import format_mb
from packstone.rewrite.formats.orc_protobuf import (
    Message,
    find_all,
    find_int,
    read_message,
    read_varint,
    unzigzag,
    write_varint,
    zigzag,
)
from packstone.rewrite.formats.orc_tail import BLOCK_HEAD_BYTES, children_of, kind_of, read_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packstone.rewrite.formats.orc_tail import OrcSource, OrcTail, Stripe

FOOTER_STREAMS: Final = 1
FOOTER_ENCODINGS: Final = 2
FOOTER_ZONE: Final = 3
_DICTIONARY_KINDS: Final = (1, 3)
_VERSION_2_KINDS: Final = (2, 3)
_PIECE_BYTES: Final = 8 << 20
_FIRST_VERSION_KINDS: Final = (0, 1)


class StreamKind(IntEnum):
    """The content of a stream, by its number in ORC."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5
    ROW_INDEX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream of a stripe; ``fields`` is its whole entry in the footer."""

    kind: int
    column: int
    offset: int  # in the file
    size_bytes: int
    fields: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeStreams:
    """The footer of a stripe."""

    footer: Message
    streams: tuple[Stream, ...]
    zone: str | None  # the writer's time zone: wall-clock times are relative to it

    def find(self, kind: StreamKind, column: int) -> Stream | None:
        """The column's stream of this kind, or None."""
        return next((one for one in self.streams if one.kind == kind and one.column == column), None)

    def version_of(self, column: int) -> int:
        """The version of a column's integer encoding."""
        return 2 if self._encoding(column) in _VERSION_2_KINDS else 1

    def has_dictionary(self, column: int) -> bool:
        """Whether a column's values are indexes into a dictionary."""
        return self._encoding(column) in _DICTIONARY_KINDS

    def _encoding(self, column: int) -> int:
        encodings = find_all(self.footer, FOOTER_ENCODINGS)
        if column >= len(encodings):
            raise ValueError("a stripe does not state how its columns are encoded")
        kind = find_int(read_message(encodings[column]), 1)
        if kind not in (*_FIRST_VERSION_KINDS, *_VERSION_2_KINDS):
            raise ValueError(f"a column has the unknown encoding {kind}")
        return kind


def read_streams(source: OrcSource, stripe: Stripe, *, tail: OrcTail) -> StripeStreams:
    """Read the footer of a stripe; ValueError if it is broken or its streams do not fill the stripe."""
    index_bytes, data_bytes, footer_bytes = stripe.lengths
    packed = source.read_at(footer_bytes, stripe.offset + index_bytes + data_bytes)
    footer = read_message(tail.compression.decompress(packed))
    streams, at = [], stripe.offset
    for message in map(read_message, find_all(footer, FOOTER_STREAMS)):
        size_bytes = find_int(message, 3)
        streams.append(
            Stream(
                kind=find_int(message, 1), column=find_int(message, 2), offset=at, size_bytes=size_bytes, fields=message
            )
        )
        at += size_bytes
    if at != stripe.offset + index_bytes + data_bytes:
        raise ValueError("the streams of a stripe do not fill it")
    zones = find_all(footer, FOOTER_ZONE)
    return StripeStreams(footer=footer, streams=tuple(streams), zone=zones[-1].decode() if zones else None)


def read_stream(source: OrcSource, stream: Stream | None, *, tail: OrcTail) -> bytes:
    """The content of a stream; empty if the column does not have it."""
    if stream is None or not stream.size_bytes:
        return b""
    packed = source.read_at(stream.size_bytes, stream.offset)
    if len(packed) < stream.size_bytes:
        raise ValueError("the file ends within a stripe")
    return tail.compression.decompress(packed)


def check_blocks(source: OrcSource, streams: StripeStreams, *, tail: OrcTail) -> None:
    """Check the heads of all compressed blocks: none is empty, too long, or reaches beyond its stream.

    PyArrow (up to 26.0) reads the memory after an empty block as the block's content, which may crash the process. This
    check reads the streams once more, and decodes nothing.
    """
    if not tail.compression.kind:
        return
    for stream in streams.streams:
        at, end = stream.offset, stream.offset + stream.size_bytes
        piece, begin = b"", at
        while at < end:
            if at + BLOCK_HEAD_BYTES > begin + len(piece):
                piece, begin = source.read_at(min(_PIECE_BYTES, end - at), at), at
            head = int.from_bytes(piece[at - begin : at - begin + BLOCK_HEAD_BYTES], "little")
            at += BLOCK_HEAD_BYTES + (head >> 1)
            if not 0 < head >> 1 <= tail.compression.block_bytes or at > end:
                raise ValueError("a compressed block is empty, too long, or extends beyond its stream")


# ---- integer runs ----

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Unsigned: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

MAX_RUN: Final = 512
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MIN_REPEAT: Final = 3
_MAX_REPEAT: Final = 10
_BYTE_BITS: Final = 8
_LONG_BITS: Final = 64
_MASK: Final = (1 << _LONG_BITS) - 1
_LITERALS: Final = 0x80
_DIRECT: Final = 1
_DIFFERENCES: Final = 3
_SMALL_BITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRuns:
    """Decoded values, and the start of each run: its offset in bytes, and the index of its first value."""

    values: Integers
    size_bytes: int
    byte_starts: tuple[int, ...]
    value_starts: tuple[int, ...]


def decode_integers(data: bytes, *, is_signed: bool, version: int = 2, max_values: int) -> IntegerRuns:
    """Decode all runs; ValueError if the bytes are broken or hold more values than expected."""
    read = _read_run_v2 if version == 2 else _read_run_v1  # the format's version
    at, count = 0, 0
    parts: list[Integers] = []
    byte_starts, value_starts = [], []
    while at < len(data):
        byte_starts.append(at)
        value_starts.append(count)
        values, at = read(data, at, is_signed)
        if at > len(data):
            raise ValueError("the bytes end within a run of integers")
        count += len(values)
        if count > max_values:
            raise ValueError(f"a stream holds more than the {max_values} integers of its stripe")
        parts.append(values)
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return IntegerRuns(
        values=joined, size_bytes=len(data), byte_starts=tuple(byte_starts), value_starts=tuple(value_starts)
    )


def bound_integers(data: bytes, *, version: int = 2) -> int:
    """An upper bound for the values of an unsigned stream; ValueError if the stream is broken.

    It is exact except for runs of packed bits up to 4095, which are the most frequent: there the width is enough.
    Streams of lengths have a run for every few values, so this loop is written for speed.
    """
    at, most, end = 0, 0, len(data)
    try:
        while at < end:
            head = data[at]
            form = head >> 6 if version == 2 else _DIFFERENCES  # the format's version
            if form == 0:
                width_bytes = (head >> 3 & 7) + 1
                at += 1 + width_bytes
                value = int.from_bytes(data[at - width_bytes : at], "big")
            elif form == _DIRECT and _WIDTHS[head >> 1 & 31] <= _SMALL_BITS:
                width = _WIDTHS[head >> 1 & 31]
                at += 2 + (width * (((head & 1) << 8 | data[at + 1]) + 1) + 7) // _BYTE_BITS
                value = (1 << width) - 1
            elif form == _DIFFERENCES and version == 2 and not head & 0x3E and data[at + 2] < _LITERALS:
                value, at = _bound_steady(data, at)
            else:
                value, at = _bound_decoded(data, at, version)
            most = max(value, most)
    except IndexError:
        raise ValueError("the bytes end within a run of integers") from None
    if at > end or most >= 1 << 63:
        raise ValueError("the bytes end within a run of integers")
    return most


def _bound_steady(data: bytes, at: int) -> tuple[int, int]:
    """The largest value of a run of equal differences with a small first value, and the offset of the run's end."""
    first, count = data[at + 2], _run_length(data, at)
    step, at = read_varint(data, at + 3)
    last = first + unzigzag(step) * (count - 1)
    if last < 0:
        raise ValueError("a length is negative")
    return max(first, last), at


def _bound_decoded(data: bytes, at: int, version: int) -> tuple[int, int]:
    read = _read_run_v2 if version == 2 else _read_run_v1
    values, at = read(data, at, False)  # noqa: FBT003 - not signed
    if int(values.min()) < 0:
        raise ValueError("a length is negative")
    return int(values.max()), at


def encode_integers(values: Integers, *, is_signed: bool, breaks: Sequence[int] = ()) -> tuple[bytes, list[int]]:
    """Encode in version 2; return the bytes, and the offset of each break, where a new run begins."""
    stored = _zigzag_all(values) if is_signed else values.view(np.uint64)
    out = bytearray()
    starts = []
    places = [*breaks, len(stored)]
    for begin in range(0, places[0], MAX_RUN):
        out += _write_run(stored[begin : min(begin + MAX_RUN, places[0])])
    for first, last in pairwise(places):
        starts.append(len(out))
        for begin in range(first, last, MAX_RUN):
            out += _write_run(stored[begin : min(begin + MAX_RUN, last)])
    return bytes(out), starts


def _read_run_v2(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001 - the signature of all run readers
    forms: tuple[Callable[[bytes, int, bool], tuple[Integers, int]], ...] = (
        _read_repeated,
        _read_direct,
        _read_patched,
        _read_differences,
    )
    try:
        return forms[data[at] >> 6](data, at, is_signed)
    except (IndexError, OverflowError):
        raise ValueError("the bytes end within a run of integers") from None


def _read_repeated(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    width_bytes, count = (data[at] >> 3 & 7) + 1, (data[at] & 7) + _MIN_REPEAT
    value = int.from_bytes(data[at + 1 : at + 1 + width_bytes], "big")
    return np.full(count, _to_long(unzigzag(value) if is_signed else value), np.int64), at + 1 + width_bytes


def _read_direct(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    width, count = _WIDTHS[data[at] >> 1 & 31], _run_length(data, at)
    found, end = _unpack(data, at + 2, width=width, count=count)
    return _unzigzag_all(found) if is_signed else found.view(np.int64), end


def _read_patched(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: ARG001, FBT001 - always signed
    width, count = _WIDTHS[data[at] >> 1 & 31], _run_length(data, at)
    base_bytes, patch_width = (data[at + 2] >> 5) + 1, _WIDTHS[data[at + 2] & 31]
    gap_width, patch_count = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    at += 4
    base = int.from_bytes(data[at : at + base_bytes], "big")
    sign = 1 << (base_bytes * _BYTE_BITS - 1)
    base = -(base & ~sign) if base & sign else base
    found, at = _unpack(data, at + base_bytes, width=width, count=count)
    if patch_width + gap_width > _LONG_BITS:
        raise ValueError("a patch of a run of integers is too wide")
    patches, at = _unpack(data, at, width=_closest_width(patch_width + gap_width), count=patch_count)
    place = 0
    for patch in patches.tolist():
        place += patch >> patch_width
        high = (patch & ((1 << patch_width) - 1)) << width
        if high:
            found[place] |= np.uint64(high & _MASK)
    return found.view(np.int64) + np.int64(_to_long(base)), at


def _read_differences(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    code, count = data[at] >> 1 & 31, _run_length(data, at)
    base, at = read_varint(data, at + 2)
    step, at = read_varint(data, at)
    first, delta = _to_long(unzigzag(base) if is_signed else base), _to_long(unzigzag(step))
    found = np.full(count, delta, np.int64)
    found[0] = first
    if code and count > 2:  # the first two are stated by the header
        packed, at = _unpack(data, at, width=_WIDTHS[code], count=count - 2)
        found[2:] = packed.view(np.int64) if delta >= 0 else -packed.view(np.int64)
    return np.cumsum(found, dtype=np.int64), at


def _read_run_v1(data: bytes, at: int, is_signed: bool) -> tuple[Integers, int]:  # noqa: FBT001
    control = data[at]
    at += 1
    values = []
    if control < _LITERALS:
        if at >= len(data):
            raise ValueError("the bytes end within a run of integers")
        step = data[at] - 256 if data[at] >= _LITERALS else data[at]
        base, at = read_varint(data, at + 1)
        first = unzigzag(base) if is_signed else base
        values = [first + step * number for number in range(control + _MIN_REPEAT)]
    else:
        for _ in range(256 - control):
            value, at = read_varint(data, at)
            values.append(unzigzag(value) if is_signed else value)
    return np.array([_to_long(value) for value in values], np.int64), at


def _run_length(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _unpack(data: bytes, at: int, *, width: int, count: int) -> tuple[_Unsigned, int]:
    """Unpack values of a fixed number of bits each, the highest bit first; return them and the offset of their end."""
    size_bytes = (width * count + 7) // _BYTE_BITS
    if at + size_bytes > len(data):
        raise ValueError("the bytes end within a run of integers")
    packed = np.frombuffer(data, np.uint8, size_bytes, at)
    wide = np.zeros((count, _LONG_BITS), np.uint8)
    wide[:, _LONG_BITS - width :] = np.unpackbits(packed, count=width * count).reshape(count, width)
    return np.packbits(wide, axis=1).view(">u8").reshape(count).astype(np.uint64), at + size_bytes


def _write_run(stored: _Unsigned) -> bytes:
    """Encode one run of up to 512 values: a repeated value in a few bytes, otherwise packed bits."""
    count, first = len(stored), int(stored[0])
    if count >= _MIN_REPEAT and bool(np.all(stored == stored[0])):
        if count <= _MAX_REPEAT:
            width_bytes = max(1, (first.bit_length() + 7) // _BYTE_BITS)
            return bytes(((width_bytes - 1) << 3 | (count - _MIN_REPEAT),)) + first.to_bytes(width_bytes, "big")
        out = bytearray((0xC0 | (count - 1) >> 8, (count - 1) & 0xFF))
        write_varint(out, first)
        write_varint(out, zigzag(0))
        return bytes(out)
    width = _closest_width(int(stored.max()).bit_length())
    wide = np.unpackbits(stored.astype(">u8").view(np.uint8).reshape(count, 8), axis=1)
    packed = np.packbits(wide[:, _LONG_BITS - width :].reshape(-1)).tobytes()
    return bytes((0x40 | _WIDTHS.index(width) << 1 | (count - 1) >> 8, (count - 1) & 0xFF)) + packed


def _closest_width(bits: int) -> int:
    return next(width for width in _WIDTHS if width >= bits)


def _zigzag_all(values: Integers) -> _Unsigned:
    return (values << 1 ^ values >> 63).view(np.uint64)


def _unzigzag_all(values: _Unsigned) -> Integers:
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def _to_long(value: int) -> int:
    """The lowest 64 bits of a number as a signed long, as in Java."""
    value &= _MASK
    return value - (1 << _LONG_BITS) if value >> (_LONG_BITS - 1) else value


# ---- decoded size ----

BATCH_BYTES: Final = 64 << 20
MAX_BATCH_ROWS: Final = 1 << 16
_VALUE_BYTES: Final = 16  # of the widest plain value, a decimal; also counted for the offset of a text
_TEXTS: Final = (7, 8, 16, 17)  # string, binary, varchar, char
_LISTS: Final = (10, 11)  # list, map
# A file is refused if its rows exceed both limits: the bytes, and the ratio to the file's own size.
_MAX_ROW_BYTES: Final = 256 << 20
_MAX_FILE_BYTES: Final = 4 << 30
_MAX_RATIO: Final = 1000
_MAX_VALUES: Final = 1 << 27  # of a stripe; no real writer stores more


def find_batch_rows(source: OrcSource, path: str, *, tail: OrcTail) -> int:
    """The maximum number of rows of a batch; UnreadableFileError if the file is a decompression bomb."""
    file_bytes = sum(stripe.size_bytes for stripe in tail.stripes)
    most, bound = 1, 0
    for stripe in tail.stripes:
        sizes = _StripeSizes(source, stripe, tail=tail)
        row_bytes = sizes.bound_row()
        most, bound = max(most, row_bytes), bound + row_bytes * stripe.rows
        if row_bytes > max(_MAX_ROW_BYTES, _MAX_RATIO * stripe.size_bytes):
            _refuse(path, sizes.decoded_bytes(), stripe.size_bytes, limit=_MAX_ROW_BYTES)
    if bound > max(_MAX_FILE_BYTES, _MAX_RATIO * file_bytes):
        decoded = sum(_StripeSizes(source, stripe, tail=tail).decoded_bytes() for stripe in tail.stripes)
        _refuse(path, decoded, file_bytes, limit=_MAX_FILE_BYTES)
    return max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // most))


def _refuse(path: str, decoded: int, stored: int, *, limit: int) -> None:
    if decoded > max(limit, _MAX_RATIO * stored):
        raise UnreadableFileError(
            f"{path} would take {format_mb(decoded)} MB of memory but has only {format_mb(stored)} MB, "
            f"a ratio of more than {_MAX_RATIO}.",
            file=path,
        )


class _StripeSizes:
    """The sizes of one stripe's values."""

    def __init__(self, source: OrcSource, stripe: Stripe, *, tail: OrcTail) -> None:
        self._source, self._stripe, self._tail = source, stripe, tail
        self._types: list[Message] = read_types(tail)
        self._streams: StripeStreams = read_streams(source, stripe, tail=tail)

    def bound_row(self, column: int = 0) -> int:
        """An upper bound for the bytes of a value of a column."""
        kind, children = kind_of(self._types[column]), children_of(self._types[column])
        if kind in _TEXTS:
            return _VALUE_BYTES + self._bound_length(column)
        inner = sum(self.bound_row(child) for child in children)
        if kind in _LISTS:
            return _VALUE_BYTES + inner * self._bound_length(column)
        return inner if children else _VALUE_BYTES

    def decoded_bytes(self) -> int:
        """The bytes of all values."""
        return self._sum_up(0, self._stripe.rows)

    def _sum_up(self, column: int, count: int) -> int:
        """The bytes of a column with ``count`` values, including nulls."""
        kind, children = kind_of(self._types[column]), children_of(self._types[column])
        if kind in _TEXTS:
            return count * _VALUE_BYTES + self._text_bytes(column)
        if kind in _LISTS:
            inner = int(self._integers(StreamKind.LENGTH, column).sum())
            return count * _VALUE_BYTES + sum(self._sum_up(child, inner) for child in children)
        return sum(self._sum_up(child, count) for child in children) if children else count * _VALUE_BYTES

    def _text_bytes(self, column: int) -> int:
        lengths = self._integers(StreamKind.LENGTH, column)
        if not self._streams.has_dictionary(column):
            return int(lengths.sum())
        numbers = self._integers(StreamKind.DATA, column)
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= len(lengths)):
            raise ValueError("a text refers to an entry that its dictionary does not have")
        return int(lengths[numbers].sum()) if len(numbers) else 0

    def _integers(self, kind: StreamKind, column: int) -> Integers:
        content = read_stream(self._source, self._streams.find(kind, column), tail=self._tail)
        version = self._streams.version_of(column)
        return decode_integers(content, is_signed=False, version=version, max_values=_MAX_VALUES).values

    def _bound_length(self, column: int) -> int:
        stream = self._streams.find(StreamKind.LENGTH, column)
        if stream is None:
            return 0
        content = read_stream(self._source, stream, tail=self._tail)
        return bound_integers(content, version=self._streams.version_of(column))
