"""A file that PyArrow wrote, in the form that Java would have given it.

**Fractions of a second before 1970.** PyArrow's ORC writer (to 26.0) divides towards zero and keeps a negative
remainder: -1.5 s is stored as -1 s and -500,000,000 ns. Java stores -1 s and +500,000,000 ns (and -2 s and +1 ns for
what lies within the first millisecond of a second), and neither it nor Rust reads the other form. So the two streams of
such a column are encoded again, with the positions and the statistics that the index of the stripe states of them.

The last second before 1970 has no form: Java's own writer stores -0.5 s as 0 s and +0.5. Such rows are refused.

**Zeros in statistics.** Writers take the zero that came first, while Java's readers order -0.0 before 0.0: under a
maximum of -0.0 they skip the row with 0.0. Before a merge both were the extremes of their own files. So a smallest
value of zero is stated as -0.0 and a largest as 0.0, which hides nothing.

All other bytes are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError, VerificationError
from packstone.rewrite.orc import tail as orc_tail
from packstone.rewrite.orc.integer_runs import IntegerRuns, decode_integers, encode_integers
from packstone.rewrite.orc.protobuf import (
    BYTES,
    VARINT,
    Message,
    change_field,
    find_all,
    find_int,
    read_message,
    read_packed,
    write_message,
    write_packed,
    zigzag,
)
from packstone.rewrite.orc.statistics import merge_statistics, state_zeros
from packstone.rewrite.orc.streams import (
    FOOTER_STREAMS,
    Stream,
    StreamKind,
    StripeStreams,
    read_stream,
    read_streams,
)
from packstone.rewrite.orc.tail import OrcTail, Stripe, kind_of, read_tail, read_types, write_tail
from packstone.rewrite.orc.times import (
    BASE_SECONDS,
    MAX_UNCOUNTED_NS,
    SECOND_NS,
    leaves,
    pack_nanos,
    read_parts,
    time_columns,
    unpack_nanos,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.rewrite.orc.integer_runs import Integers
    from packstone.rewrite.orc.tail import ByteSource
    from packstone.storage.fileio import FileIO

_UNIT_NS: Final = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_COLUMN_STATISTICS: Final = 1  # of a stripe, one for each column
_TIME_STATISTICS: Final = 9
_ENTRY: Final = 1
_POSITIONS: Final = 1
_ENTRY_STATISTICS: Final = 2
_FLOATS: Final = (5, 6)  # float, double
_MILLI_NS: Final = 1_000_000
_MAX_VALUES: Final = 1 << 27  # of a stripe; a gigabyte of them is no file that anybody wrote
_CHUNK_BYTES: Final = 4 << 20


def has_early_fraction(column: pa.Array) -> bool:
    """Whether a column holds fractions of a second before 1970; UnfaithfulError if ORC has no form for one."""
    found = False
    for leaf in leaves(column):
        values = leaf.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False)
        unit_ns = _UNIT_NS[leaf.type.unit]
        early = values[(values < 0) & (values % (SECOND_NS // unit_ns) != 0)]
        last = early[
            (early > -(SECOND_NS // unit_ns)) & ((early % (SECOND_NS // unit_ns)) * unit_ns > MAX_UNCOUNTED_NS)
        ]
        if len(last):
            at = pa.scalar(int(last[0]), pa.timestamp(leaf.type.unit)).cast(pa.string())
            raise UnfaithfulError(
                f"it holds {at}, and ORC cannot store a fraction within the last second before 1970: "
                "every reader would see a time after it"
            )
        found |= bool(len(early))
    return found


def has_negative_zero(column: pa.Array) -> bool:
    """Whether a column holds -0.0, however deep."""
    kind = column.type
    if pt.is_floating(kind):
        bits = {16: "u2", 32: "u4", 64: "u8"}[kind.bit_width]
        values = column.drop_null().to_numpy(zero_copy_only=False).view(bits)
        return bool((values == values.dtype.type(1 << (kind.bit_width - 1))).any())
    if pt.is_struct(kind):
        return any(has_negative_zero(child) for child in column.flatten())
    if pt.is_map(kind):
        return has_negative_zero(column.keys) or has_negative_zero(column.items)
    return (pt.is_list(kind) or pt.is_large_list(kind)) and has_negative_zero(column.values)


def write_like_java(source: ByteSource, sink: Any, tail: OrcTail, *, first_byte: int) -> None:  # noqa: ANN401 - files
    """Copy the stripes from a byte on, and the tail; what PyArrow stored in its own way is encoded again."""
    held = [stripe.offset for stripe in tail.stripes if stripe.offset >= first_byte]
    at = min(held, default=tail.content_end)
    sink.write(source.read_at(at - first_byte, first_byte))  # the magic bytes, unless a stripe was passed on before
    stripes, statistics, corrected = [], list(tail.stripe_statistics), set()
    float_columns = {number for number, column in enumerate(read_types(tail)) if kind_of(column) in _FLOATS}
    for number, stripe in enumerate(tail.stripes):
        if stripe.offset < first_byte:
            stripes.append(stripe)
            continue
        editor = _StripeEditor(source, stripe, tail=tail)
        for column in time_columns(tail):
            values = editor.correct(column)
            if values is not None:
                corrected.add(column)
                statistics[number] = _with_column(statistics[number], column, values)
        for column in float_columns:
            editor.correct_zeros(column)
        statistics[number] = _with_zeros(statistics[number], float_columns)
        stripes.append(editor.write(sink, at))
        at += stripes[-1].size_bytes
    footer = _footer_of(tail, stripes, statistics, columns=corrected | float_columns)
    sink.write(write_tail(tail, footer=footer, stripe_statistics=statistics))


def check_fractions(io: FileIO, path: str) -> None:
    """Read the timestamps of a written file without PyArrow: none may be in a form that other readers do not know."""
    tail = read_tail(io, path)
    with io.open_input(path) as source:
        for stripe in tail.stripes:
            streams = read_streams(source, stripe, tail=tail)
            for column in time_columns(tail):
                _, nanos = read_parts(source, streams, column=column, tail=tail)
                if len(nanos) and int(nanos.min()) < 0:
                    raise VerificationError(
                        f"{path} holds a fraction of a second that only PyArrow can read.", file=path
                    )


class _StripeEditor:
    """One stripe of which some streams are exchanged."""

    def __init__(self, source: ByteSource, stripe: Stripe, *, tail: OrcTail) -> None:
        self._source, self._stripe, self._tail = source, stripe, tail
        self._streams: StripeStreams = read_streams(source, stripe, tail=tail)
        self._new: dict[tuple[int, int], bytes] = {}

    def correct(self, column: int) -> Integers | None:
        """Store a column's values as Java does; None if they are so already, else all of them, in nanoseconds."""
        seconds, stored = (self._decode(kind, column) for kind in (StreamKind.DATA, StreamKind.SECONDARY))
        nanos = unpack_nanos(stored.values)
        is_negative = nanos < 0
        if not is_negative.any():
            return None
        nanos = np.where(is_negative, nanos + SECOND_NS, nanos)
        # PyArrow's seconds are rounded towards zero, as Java's are but for the first millisecond of a second.
        is_lower = is_negative & (nanos <= MAX_UNCOUNTED_NS)
        entries, starts = self._read_index(column, seconds)
        parts = ((StreamKind.DATA, seconds.values - is_lower, True), (StreamKind.SECONDARY, pack_nanos(nanos), False))
        places = []
        for kind, values, is_signed in parts:
            content, byte_starts = encode_integers(values, is_signed=is_signed, breaks=starts)
            packed, positions = self._tail.compression.compress_with_positions(content, byte_starts)
            self._new[kind, column] = packed
            places.append(positions)
        found = (seconds.values + BASE_SECONDS - is_negative) * SECOND_NS + nanos
        if entries:
            self._write_index(column, entries, places=places, groups=np.split(found, starts[1:]))
        return found

    def correct_zeros(self, column: int) -> None:
        """State zeros in a column's row index so that no order of zeros hides one."""
        content = read_stream(self._source, self._streams.find(StreamKind.ROW_INDEX, column), tail=self._tail)
        found = change_field(content, _ENTRY, lambda entry: change_field(entry, _ENTRY_STATISTICS, state_zeros))
        if found != content:
            self._new[StreamKind.ROW_INDEX, column] = self._tail.compression.compress(found)

    def write(self, sink: Any, at: int) -> Stripe:  # noqa: ANN401 - a NativeFile
        """Write the stripe to this place of another file."""
        lengths = [0, 0]
        index_end = self._stripe.offset + self._stripe.lengths[0]
        messages = []
        for stream in self._streams.streams:
            size_bytes = self._copy(stream, sink)
            lengths[stream.offset >= index_end] += size_bytes
            messages.append(write_message(orc_tail.replace_ints(stream.fields, {3: size_bytes})))
        rest = [field for field in self._streams.footer if field[0] != FOOTER_STREAMS]
        footer = write_message([*((FOOTER_STREAMS, BYTES, one) for one in messages), *rest])
        packed = self._tail.compression.compress(footer)
        sink.write(packed)
        return self._stripe.moved_to(at).resized(lengths[0], lengths[1], len(packed))

    def _copy(self, stream: Stream, sink: Any) -> int:  # noqa: ANN401 - a NativeFile
        new = self._new.get((stream.kind, stream.column))
        if new is not None:
            sink.write(new)
            return len(new)
        for begin in range(0, stream.size_bytes, _CHUNK_BYTES):
            sink.write(self._source.read_at(min(_CHUNK_BYTES, stream.size_bytes - begin), stream.offset + begin))
        return stream.size_bytes

    def _decode(self, kind: StreamKind, column: int) -> IntegerRuns:
        content = read_stream(self._source, self._streams.find(kind, column), tail=self._tail)
        return decode_integers(content, is_signed=kind == StreamKind.DATA, max_values=_MAX_VALUES)

    def _read_index(self, column: int, seconds: IntegerRuns) -> tuple[list[Message], list[int]]:
        """The entries of a column's row index, and the number of the first value of each."""
        content = read_stream(self._source, self._streams.find(StreamKind.ROW_INDEX, column), tail=self._tail)
        entries = [read_message(entry) for entry in find_all(read_message(content), _ENTRY)]
        stream = self._streams.find(StreamKind.DATA, column)
        block_starts = self._tail.compression.block_starts(self._read(stream)) if stream else {}
        run_starts = dict(zip(seconds.byte_starts, seconds.value_starts, strict=True))
        run_starts[seconds.size_bytes] = len(seconds.values)
        width = 3 if block_starts else 2
        starts = []
        for entry in entries:
            *places, in_run = _positions(entry)[-2 * width : -width]
            at = block_starts[places[0]] + places[1] if block_starts else places[0]
            starts.append(run_starts[at] + in_run)
        return entries, starts

    def _read(self, stream: Stream) -> bytes:
        return self._source.read_at(stream.size_bytes, stream.offset)

    def _write_index(
        self, column: int, entries: list[Message], *, places: Sequence[list[list[int]]], groups: Sequence[Integers]
    ) -> None:
        found: Message = []
        for number, entry in enumerate(entries):
            new = [place for positions in places for place in positions[number]]
            kept = _positions(entry)[: -len(new)]
            statistics = [_with_range(one, groups[number]) for one in find_all(entry, _ENTRY_STATISTICS)]
            fields: Message = [(_POSITIONS, BYTES, write_packed([*kept, *new]))]
            fields += [(_ENTRY_STATISTICS, BYTES, one) for one in statistics]
            found.append((_ENTRY, BYTES, write_message(fields)))
        self._new[StreamKind.ROW_INDEX, column] = self._tail.compression.compress(write_message(found))


def _positions(entry: Message) -> list[int]:
    loose = [value for number, _, value in entry if number == _POSITIONS and isinstance(value, int)]
    return [*loose, *(place for packed in find_all(entry, _POSITIONS) for place in read_packed(packed))]


def _footer_of(tail: OrcTail, stripes: list[Stripe], statistics: Sequence[bytes], *, columns: set[int]) -> Message:
    """The footer with new places, and with new statistics of some columns."""
    own = (orc_tail.FOOTER_STRIPES, orc_tail.FOOTER_STATISTICS)
    stated = tail.column_statistics
    for column in columns:
        stated[column] = merge_statistics(
            [find_all(read_message(one), _COLUMN_STATISTICS)[column] for one in statistics]
        )
    fields: Message = [(orc_tail.FOOTER_STRIPES, BYTES, write_message(stripe.fields)) for stripe in stripes]
    fields += [(orc_tail.FOOTER_STATISTICS, BYTES, one) for one in stated]
    fields += [field for field in tail.footer if field[0] not in own]
    grown = stripes[-1].offset + stripes[-1].size_bytes - tail.content_end if stripes else 0
    length = find_int(tail.footer, orc_tail.FOOTER_CONTENT_LENGTH) + grown
    return orc_tail.replace_ints(fields, {orc_tail.FOOTER_CONTENT_LENGTH: length})


def _with_column(stated: bytes, column: int, values: Integers) -> bytes:
    """The statistics of a stripe with the range of one column replaced."""
    columns = [
        _with_range(one, values) if number == column else one
        for number, one in enumerate(find_all(read_message(stated), _COLUMN_STATISTICS))
    ]
    return write_message((_COLUMN_STATISTICS, BYTES, one) for one in columns)


def _with_zeros(stated: bytes, columns: set[int]) -> bytes:
    """The statistics of a stripe with zeros of some columns stated so that none is hidden."""
    found = find_all(read_message(stated), _COLUMN_STATISTICS)
    return write_message(
        (_COLUMN_STATISTICS, BYTES, state_zeros(one) if number in columns else one) for number, one in enumerate(found)
    )


def _with_range(stated: bytes, values: Integers) -> bytes:
    """The statistics of a column with the smallest and largest of these nanoseconds, in Java's terms."""
    kept = [field for field in read_message(stated) if field[0] != _TIME_STATISTICS]
    if not len(values):
        return write_message(kept)
    (low_ms, low_ns), (high_ms, high_ns) = (divmod(int(one), _MILLI_NS) for one in (values.min(), values.max()))
    typed: Message = [(3, VARINT, zigzag(low_ms)), (4, VARINT, zigzag(high_ms))]
    typed += [(5, VARINT, low_ns + 1)] if low_ns else []
    typed += [(6, VARINT, high_ns + 1)] if high_ns != _MILLI_NS - 1 else []
    return write_message(sorted([*kept, (_TIME_STATISTICS, BYTES, write_message(typed))]))
