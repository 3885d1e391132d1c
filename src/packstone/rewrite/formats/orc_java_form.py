"""Correct an ORC file that PyArrow writes so that it has the form that Java would have written.

**Fractions of a second before 1970.** PyArrow's ORC writer (up to 26.0) divides towards zero and keeps a negative
remainder: -1.5 s is stored as -1 s and -500,000,000 ns. Java stores -1 s and +500,000,000 ns (and -2 s and +1 ns for
times within the first millisecond of a second), and neither Java nor Rust reads PyArrow's form. So the two streams of
such a column are encoded again, together with their positions and statistics in the index of the stripe.

ORC cannot represent the last second before 1970: Java's own writer stores -0.5 s as 0 s and +0.5. Such rows are
refused.

**Zeros in statistics.** Writers state the zero that came first, while Java's readers order -0.0 before 0.0: with a
maximum of -0.0 they skip the row with 0.0. Before a merge both were the extremes of their own files. So a smallest
value of zero is stated as -0.0 and a largest as 0.0, which hides no row.

All other bytes are copied. Both corrections are rare. From the first row that needs one, ``CorrectedSink`` keeps what
PyArrow writes in a temporary file, because a stripe can be read only with the footer at the end; then it is copied to
the target with the corrections.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError, VerificationError
from packstone.rewrite.formats import orc_tail
from packstone.rewrite.formats.orc_protobuf import (
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
from packstone.rewrite.formats.orc_statistics import merge_statistics, state_zeros
from packstone.rewrite.formats.orc_streams import (
    FOOTER_STREAMS,
    IntegerRuns,
    Stream,
    StreamKind,
    StripeStreams,
    decode_integers,
    encode_integers,
    read_stream,
    read_streams,
)
from packstone.rewrite.formats.orc_tail import OrcTail, Stripe, kind_of, read_tail, read_types, tail_of, write_tail
from packstone.rewrite.formats.orc_times import (
    BASE_SECONDS,
    MAX_UNCOUNTED_NS,
    SECOND_NS,
    leaves,
    pack_nanos,
    read_parts,
    time_columns,
    unpack_nanos,
)
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import orc

    from packstone.rewrite.formats.orc_streams import Integers
    from packstone.rewrite.formats.orc_tail import OrcSource
    from packstone.storage.fileio import FileIO

_UNIT_NS: Final = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_COLUMN_STATISTICS: Final = 1  # field of a stripe's statistics, one for each column
_TIME_STATISTICS: Final = 9
_ENTRY: Final = 1
_POSITIONS: Final = 1
_ENTRY_STATISTICS: Final = 2
_FLOATS: Final = (5, 6)  # float, double
_MILLI_NS: Final = 1_000_000
_MAX_VALUES: Final = 1 << 27  # of a stripe; no real writer stores a gigabyte of them
_CHUNK_BYTES: Final = 4 << 20


def has_early_fraction(column: pa.Array) -> bool:
    """Whether a column holds fractions of a second before 1970; UnfaithfulError if ORC cannot represent one."""
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
                "every reader would see a later time"
            )
        found |= bool(len(early))
    return found


def has_negative_zero(column: pa.Array) -> bool:
    """Whether a column holds -0.0, at any depth."""
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


def write_like_java(source: OrcSource, sink: Any, tail: OrcTail, *, first_byte: int) -> None:
    """Copy the stripes from a byte on, and the tail; data in PyArrow's own form is encoded again."""
    held = [stripe.offset for stripe in tail.stripes if stripe.offset >= first_byte]
    at = min(held, default=tail.content_end)
    sink.write(source.read_at(at - first_byte, first_byte))  # the magic bytes, unless they are already written
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
    """Check the timestamps of a written file without PyArrow; VerificationError if only PyArrow can read one."""
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
    """One stripe, some of whose streams are replaced."""

    def __init__(self, source: OrcSource, stripe: Stripe, *, tail: OrcTail) -> None:
        self._source, self._stripe, self._tail = source, stripe, tail
        self._streams: StripeStreams = read_streams(source, stripe, tail=tail)
        self._new: dict[tuple[int, int], bytes] = {}

    def correct(self, column: int) -> Integers | None:
        """Store a column's values as Java does; return all of them in nanoseconds, or None if nothing changes."""
        seconds, stored = (self._decode(kind, column) for kind in (StreamKind.DATA, StreamKind.SECONDARY))
        nanos = unpack_nanos(stored.values)
        is_negative = nanos < 0
        if not is_negative.any():
            return None
        nanos = np.where(is_negative, nanos + SECOND_NS, nanos)
        # PyArrow's seconds are rounded towards zero; so are Java's, except in the first millisecond of a second.
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
        """State zeros in a column's row index so that no row is hidden, whatever a reader's order of zeros."""
        content = read_stream(self._source, self._streams.find(StreamKind.ROW_INDEX, column), tail=self._tail)
        found = change_field(content, _ENTRY, lambda entry: change_field(entry, _ENTRY_STATISTICS, state_zeros))
        if found != content:
            self._new[StreamKind.ROW_INDEX, column] = self._tail.compression.compress(found)

    def write(self, sink: Any, at: int) -> Stripe:
        """Write the stripe at this offset of another file."""
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

    def _copy(self, stream: Stream, sink: Any) -> int:
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
        """The entries of a column's row index, and the index of the first value of each."""
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
    """The footer with new offsets of stripes, and with new statistics of some columns."""
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
    """The statistics of a stripe with the zeros of some columns stated so that no row is hidden."""
    found = find_all(read_message(stated), _COLUMN_STATISTICS)
    return write_message(
        (_COLUMN_STATISTICS, BYTES, state_zeros(one) if number in columns else one) for number, one in enumerate(found)
    )


def _with_range(stated: bytes, values: Integers) -> bytes:
    """The statistics of a column with the smallest and largest of these nanoseconds, in Java's form."""
    kept = [field for field in read_message(stated) if field[0] != _TIME_STATISTICS]
    if not len(values):
        return write_message(kept)
    (low_ms, low_ns), (high_ms, high_ns) = (divmod(int(one), _MILLI_NS) for one in (values.min(), values.max()))
    typed: Message = [(3, VARINT, zigzag(low_ms)), (4, VARINT, zigzag(high_ms))]
    typed += [(5, VARINT, low_ns + 1)] if low_ns else []
    typed += [(6, VARINT, high_ns + 1)] if high_ns != _MILLI_NS - 1 else []
    return write_message(sorted([*kept, (_TIME_STATISTICS, BYTES, write_message(typed))]))


class CorrectedSink:
    """The file that PyArrow's ORC writer writes to; corrects the content where needed."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._held: IO[bytes] | None = None
        self._passed_bytes = self._size_bytes = 0
        self._failure: BaseException | None = None
        self.closed = False

    @property
    def is_corrected(self) -> bool:
        """Whether something had to be corrected."""
        return self._held is not None

    def write_rows(self, writer: orc.ORCWriter, rows: pa.Table) -> None:
        """Let PyArrow write rows; UnfaithfulError if ORC cannot store one of them."""
        found = [
            has_early_fraction(chunk) or has_negative_zero(chunk) for column in rows.columns for chunk in column.chunks
        ]
        if any(found) and self._held is None:
            # This is between two writes of rows, so a stripe begins here. The file has no name: only we read it.
            self._held = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish or abandon
            self._passed_bytes = self._size_bytes
        writer.write(rows)
        self._check()

    def finish(self, writer: orc.ORCWriter) -> None:
        """Let PyArrow write the footer, write the held bytes with the corrections, and close the file."""
        writer.close()
        self._check()
        if self._held is not None:
            write_like_java(self, self._target, tail_of(self), first_byte=self._passed_bytes)
            self._held.close()
        self._target.close()

    def abandon(self, writer: orc.ORCWriter | None) -> None:
        """Close everything and discard the content: what PyArrow still writes is dropped."""
        self._failure = self._failure or OSError("the output was abandoned")
        if writer is not None:
            writer.close()
        if self._held is not None:
            self._held.close()
        abandon_output(self._target)

    def write(self, data: bytes) -> int:
        """Accept bytes from PyArrow; keep a storage error for ``_check``, because PyArrow would crash the process."""
        if self._failure is None:
            try:
                (self._held or self._target).write(data)
            except BaseException as error:  # noqa: BLE001 - raised by _check
                self._failure = error
        self._size_bytes += len(data)
        return len(data)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def tell(self) -> int:
        """The number of bytes that PyArrow wrote."""
        return self._size_bytes

    def flush(self) -> None:
        """Nothing to do: the file is made durable when it is closed."""

    def close(self) -> None:
        """Nothing to do: PyArrow has finished, but the file is closed by ``finish``."""

    def size(self) -> int:
        """The number of bytes that PyArrow wrote."""
        return self._size_bytes

    def read_at(self, nbytes: int, offset: int, /) -> bytes:
        """Read bytes of the temporary file."""
        assert self._held is not None  # only held bytes are read
        self._held.seek(max(0, offset - self._passed_bytes))
        return self._held.read(nbytes)
