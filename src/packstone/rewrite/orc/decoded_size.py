"""How much memory the rows of an ORC file take when they are decoded, before anything is decoded.

A megabyte of ORC can hold terabytes: runs of integers, dictionaries and codecs shrink a repeated value to nothing, one
on top of the other. Only texts and lists have lengths, which are stored in streams of their own; the header of each run
of integers bounds its values. So an upper bound for the bytes of a row costs next to nothing, and batches are cut by
it. Where the bound is too big, the lengths themselves are decoded and added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.errors import UnreadableFileError
from packstone.model.megabytes import format_mb
from packstone.rewrite.orc.integer_runs import bound_integers, decode_integers
from packstone.rewrite.orc.streams import StreamKind, StripeStreams, read_stream, read_streams
from packstone.rewrite.orc.tail import children_of, kind_of, read_types

if TYPE_CHECKING:
    from packstone.rewrite.orc.integer_runs import Integers
    from packstone.rewrite.orc.protobuf import Message
    from packstone.rewrite.orc.tail import ByteSource, OrcTail, Stripe

BATCH_BYTES: Final = 64 << 20
MAX_BATCH_ROWS: Final = 1 << 16
_VALUE_BYTES: Final = 16  # of the widest plain value, a decimal; the offset of a text counts as such too
_TEXTS: Final = (7, 8, 16, 17)  # string, binary, varchar, char
_LISTS: Final = (10, 11)  # list, map
# A file is refused if its rows take more than both: so many bytes, and so many times its own size.
_MAX_ROW_BYTES: Final = 256 << 20
_MAX_FILE_BYTES: Final = 4 << 30
_MAX_RATIO: Final = 1000
_MAX_VALUES: Final = 1 << 27  # of a stripe; nobody writes more


def find_batch_rows(source: ByteSource, path: str, *, tail: OrcTail) -> int:
    """How many rows a batch may have; UnreadableFileError if the file is a decompression bomb."""
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
            f"{path} would take {format_mb(decoded)} MB of memory where it has {format_mb(stored)} MB, "
            f"more than {_MAX_RATIO} times as much.",
            file=path,
        )


class _StripeSizes:
    """The sizes of one stripe's values."""

    def __init__(self, source: ByteSource, stripe: Stripe, *, tail: OrcTail) -> None:
        self._source, self._stripe, self._tail = source, stripe, tail
        self._types: list[Message] = read_types(tail)
        self._streams: StripeStreams = read_streams(source, stripe, tail=tail)

    def bound_row(self, column: int = 0) -> int:
        """No value of a column takes more than so many bytes."""
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
        """The bytes of a column that has so many values, nulls among them."""
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
            raise ValueError("a text is an entry that its dictionary does not have")
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
