"""ORC files into one ORC file by decoding and encoding again: only where stripes are tiny, and only where it is safe.

Copied, a thousand stripes stay a thousand: each with dictionaries, index and footer of its own. How much that matters
was measured, with seven columns under zlib: one run on two cores that others kept busy (load 8 to 19), Spark by the
median of three reads that differed by up to a factor of four, so only big differences mean something:

================================  ==================  ===================
originals                         copied              encoded again
================================  ==================  ===================
3,000 files of 1.6 kB, 4.9 MB     1.7 s, 3.6 MB       7.2 s, 1.6 MB
… read by PyArrow 5.8 s           0.9 s               0.1 s
… read by Spark 6.5 s             1.7 s               1.0 s
500 files of 23 kB, 11.3 MB       0.3 s, 11.1 MB      2.0 s, 10.8 MB
… read by PyArrow 0.9 s           0.5 s               0.4 s
… read by Spark 3.0 s             1.4 s               3.4 s (one stripe, so one task)
20 files of 1.3 MB, 25.9 MB       0.1 s, 25.9 MB      9.1 s, 25.9 MB
================================  ==================  ===================

So it pays for stripes of 1 kB and not for those of 22 kB; 16 KiB lies between and was not tried itself. Below it,
it is done if PyArrow gives back exactly what it reads;
else stripes are copied (``orc_stitch``), which is always right. PyArrow is not trusted with

- timestamps in a zone with changing clocks: it reads wall-clock times, and an hour that happens twice is one to it;
- timestamps before 1970, whose fractions writers round in two ways, or beyond 2262, which it cannot hold; the column's
  statistics must show that there are none;
- unions, bloom filters, files without a row index, decimals of unknown precision, names that are used twice, LZ4
  (which it stores without compressing) and codecs that it does not write.

It shows char and varchar as strings and drops the user's metadata and the calendar. All of these stand in the footer
alone, so the footer it wrote gets the types, metadata and calendar of the inputs, if both trees are otherwise equal.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import PackstoneError
from packstone.rewrite.orc import tail as orc_tail
from packstone.rewrite.orc.agreement import agreement_of
from packstone.rewrite.orc.batches import all_orc_rows
from packstone.rewrite.orc.compression import OrcKind
from packstone.rewrite.orc.corrected_sink import CorrectedSink
from packstone.rewrite.orc.protobuf import find_all, find_int, read_message
from packstone.rewrite.orc.reader import BeyondArrowError
from packstone.rewrite.orc.statistics import are_times_within
from packstone.rewrite.orc.stitch import read_stripe_footer, stitch_orc
from packstone.rewrite.orc.tail import OrcTail, children_of, kind_of, names_of, read_tail, read_types
from packstone.rewrite.orc.times import FIRST_SAFE_MS, INSTANT, LAST_SAFE_MS, STEADY_ZONES, TIMESTAMP, leaves
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.rewrite.orc.protobuf import Message
    from packstone.storage.fileio import FileIO

TINY_STRIPE_BYTES: Final = 16 << 10
_STRIPE_BYTES: Final = 64 << 20
_STRUCT, _UNION, _DECIMAL = 12, 13, 14
_STRING, _VARCHAR, _CHAR = 7, 16, 17
_PRECISION, _SCALE = 5, 6
_MAX_PRECISION: Final = 38
_BLOOM_STREAMS: Final = (7, 8)
_DICTIONARY_SHARE: Final = 0.8  # a text column has a dictionary up to so many different values, as Java's writer has it
_WRITTEN_CODECS: Final = {
    OrcKind.NONE: "uncompressed",
    OrcKind.ZLIB: "zlib",
    OrcKind.SNAPPY: "snappy",
    OrcKind.ZSTD: "zstd",
}


class CannotEncodeError(PackstoneError):
    """These files are better merged by copying stripes."""


def rewrite_orc(
    io: FileIO, paths: Sequence[str], output: str, *, tails: Sequence[OrcTail], checks_text: bool = False
) -> None:
    """Encode the rows of all inputs again; CannotEncodeError if that does not pay or is not safe."""
    _check_worth(tails)
    _check_columns(tails)
    _check_stripes(io, paths, tails)
    encoded = f"{output}.encoded"
    try:
        _encode(io, paths, encoded, like=tails[0], checks_text=checks_text)
        written = _with_footer_of(tails[0], read_tail(io, encoded))
        stitch_orc(io, [encoded], output, tails=[written])
    except (BeyondArrowError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CannotEncodeError(str(error)) from error
    finally:
        io.remove(encoded)


def _check_worth(tails: Sequence[OrcTail]) -> None:
    stripes = [stripe.size_bytes for tail in tails for stripe in tail.stripes]
    if not stripes or sum(stripes) >= TINY_STRIPE_BYTES * len(stripes):
        raise CannotEncodeError("the stripes are big enough")
    if tails[0].compression.kind not in _WRITTEN_CODECS or not find_int(tails[0].footer, orc_tail.FOOTER_STRIDE):
        raise CannotEncodeError("PyArrow does not write such files")


def _check_columns(tails: Sequence[OrcTail]) -> None:
    types = read_types(tails[0])
    for number, column in enumerate(types):
        kind, names = kind_of(column), names_of(column)
        if kind == _UNION or (kind == _STRUCT and (not names or len(set(names)) < len(names))):
            raise CannotEncodeError("it has unions, or structs whose fields cannot be told apart")
        if kind == _DECIMAL and not 1 <= find_int(column, _PRECISION) <= _MAX_PRECISION:
            raise CannotEncodeError("it has decimals of unknown precision")
        if kind in (TIMESTAMP, INSTANT):
            for tail in tails:
                _check_range(tail, number)
    if kind_of(types[0]) != _STRUCT:
        raise CannotEncodeError("its rows are no structs")


def _check_range(tail: OrcTail, column: int) -> None:
    """All timestamps of a column must be such as PyArrow gives back; only statistics tell without reading."""
    stated = tail.column_statistics
    is_stated = column < len(stated) and are_times_within(stated[column], FIRST_SAFE_MS, LAST_SAFE_MS)
    if tail.stripes and not is_stated:
        raise CannotEncodeError("it may have timestamps before 1970 or beyond 2262")


def _check_stripes(io: FileIO, paths: Sequence[str], tails: Sequence[OrcTail]) -> None:
    has_wall_clock = any(kind_of(column) == TIMESTAMP for column in read_types(tails[0]))
    for path, tail in zip(paths, tails, strict=True):
        for stripe in tail.stripes:
            footer = read_stripe_footer(io, path, stripe, tail=tail)
            if any(find_int(read_message(stream), 1) in _BLOOM_STREAMS for stream in find_all(footer, 1)):
                raise CannotEncodeError("it has bloom filters")
            if has_wall_clock and not {zone.encode() for zone in STEADY_ZONES} & set(find_all(footer, 3)):
                raise CannotEncodeError("its timestamps are in a zone with changing clocks")


def _encode(io: FileIO, paths: Sequence[str], output: str, *, like: OrcTail, checks_text: bool) -> None:
    from pyarrow import orc  # noqa: PLC0415 - slow to import, and only for ORC

    batches = read_ahead(all_orc_rows(io, paths, checks_text=checks_text))
    first = next(batches, None)
    if first is None:
        raise CannotEncodeError("there are no rows")
    sink = CorrectedSink(io.open_output(output))
    writer = None
    try:
        writer = orc.ORCWriter(
            sink,
            compression=_WRITTEN_CODECS[like.compression.kind],
            compression_block_size=like.compression.block_bytes,
            row_index_stride=find_int(like.footer, orc_tail.FOOTER_STRIDE),
            stripe_size=_STRIPE_BYTES,
            dictionary_key_size_threshold=_DICTIONARY_SHARE,
        )
        for batch in chain((first,), batches):
            _check_times(batch)
            sink.write_rows(writer, pa.Table.from_batches([batch]))
        sink.finish(writer)
    except BaseException:
        sink.abandon(writer)
        raise


def _check_times(batch: pa.RecordBatch) -> None:
    """Statistics may lie: no time before 1970 is left to PyArrow's writer."""
    for column in batch.columns:
        for leaf in leaves(column):
            if len(leaf) > leaf.null_count and pc.min(leaf.cast(pa.int64())).as_py() < 0:
                raise CannotEncodeError("it has timestamps before 1970")


def _with_footer_of(like: OrcTail, written: OrcTail) -> OrcTail:
    """What PyArrow wrote under the types, metadata and calendar of the inputs."""
    if [_shape(column) for column in read_types(like)] != [_shape(column) for column in read_types(written)]:
        raise CannotEncodeError("PyArrow writes another schema")
    own = (orc_tail.FOOTER_TYPES, orc_tail.FOOTER_USER_METADATA, orc_tail.FOOTER_CALENDAR)
    footer = [field for field in written.footer if field[0] not in own]
    footer += [field for field in like.footer if field[0] in own]
    found = replace(written, footer=sorted(footer, key=lambda field: field[0]))
    if agreement_of(found) != agreement_of(like):
        raise CannotEncodeError("PyArrow writes another kind of file")
    return found


def _shape(column: Message) -> tuple[object, ...]:
    """What both trees must share: char and varchar are stored as strings, attributes only in the footer."""
    kind = kind_of(column)
    stored = _STRING if kind in (_VARCHAR, _CHAR) else kind
    return stored, children_of(column), names_of(column), find_int(column, _PRECISION), find_int(column, _SCALE)
