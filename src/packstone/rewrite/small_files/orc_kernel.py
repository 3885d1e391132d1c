"""Merge ORC files: copy stripes under a new footer, or encode rows again where stripes are tiny and it is safe."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.unit import How
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats import orc_reader, orc_tail
from packstone.rewrite.formats.orc_java_form import CorrectedSink
from packstone.rewrite.formats.orc_protobuf import BYTES, find_all, find_int, read_message, write_message
from packstone.rewrite.formats.orc_reader import BeyondArrowError, all_orc_rows
from packstone.rewrite.formats.orc_statistics import are_times_within, merge_statistics
from packstone.rewrite.formats.orc_tail import (
    MAGIC,
    OrcKind,
    OrcTail,
    Stripe,
    UnknownCodecError,
    children_of,
    kind_of,
    names_of,
    read_tail,
    read_types,
    write_tail,
)
from packstone.rewrite.formats.orc_times import FIRST_SAFE_MS, INSTANT, LAST_SAFE_MS, STEADY_ZONES, TIMESTAMP, leaves
from packstone.rewrite.proof.ordered_digest import PartsDigest, digest_batches, digest_parts
from packstone.rewrite.small_files.merge_unit import Written, check_copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.unit import Fingerprint, UnitSpec
    from packstone.rewrite.formats.orc_protobuf import Message
    from packstone.rewrite.proof.ordered_digest import Part
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Encode tiny stripes again if that loses nothing and the file does not grow; otherwise copy them."""
    tails = read_tails(io, paths)
    try:
        rewrite_orc(io, paths, output, tails=tails, checks_text=spec.checks_text)
        found = io.stat(output)
        if found is not None and found.size_bytes <= spec.input_bytes:
            return Written(how=How.REWRITE, ordered=True, checks_text=spec.checks_text)
    except CannotEncodeError:
        pass
    io.remove(output)
    stitch_orc(io, paths, output, tails=tails)
    return Written(how=How.STITCH, ordered=True, checks_text=spec.checks_text)


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Decode stripes that were copied undecoded: an input may have been damaged already."""
    if written.how is How.STITCH:
        orc_reader.check_decodes(io, paths, output, checks_text=written.checks_text)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up the row counts that the footers state."""
    return count_rows(io, paths)


def compare_copy(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> Fingerprint | None:
    """Compare copied stripes, with their rows and statistics."""
    if written.how is not How.STITCH:
        return None
    digest = PartsDigest(hashlib.sha256())
    check_copied(digest.update(_stripe_parts(io, paths)), _stripe_parts(io, [output]), output=output)
    return digest.finish()


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Digest, in order, the bytes of copied stripes or the rows that were encoded again."""
    if written.how is How.REWRITE:
        return digest_batches(read_ahead(orc_reader.all_orc_rows(io, paths)))
    return digest_parts(_stripe_parts(io, paths), hashlib.sha256())


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Compare the footers: types, user metadata, codec, stride, calendar, writer."""
    check_same_footer(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    orc_reader.read_orc_through(io, path)


# ---- merge ----
# Merge ORC files into one: copy stripes under a new footer, or encode tiny stripes again.
#
# **Copying** (``stitch_orc``) decodes no value, so none can change. A stripe holds its own index, data, dictionaries,
# bloom filters and its writer's time zone; the footer only says where it is. So copying is faithful for every type,
# including timestamps of the year 9999, char, union and interval, and runs at the speed of the disk.
#
# ::
#
#     ORC a1 a2 | footer a      ORC b1 | footer b    →    ORC a1 a2 b1 | footer: offsets moved, statistics merged
#
# **Encoding again** (``rewrite_orc``). Copied stripes keep their size: a thousand stripes stay a thousand, each with
# its own dictionaries, index and footer. The effect was measured with seven columns under zlib: one run on two cores
# that other processes kept busy (load 8 to 19), Spark as the median of three reads that differed by up to a factor of
# four, so only big differences mean something:
#
# ================================  ==================  ===================
# originals                         copied              encoded again
# ================================  ==================  ===================
# 3,000 files of 1.6 kB, 4.9 MB     1.7 s, 3.6 MB       7.2 s, 1.6 MB
# … read by PyArrow 5.8 s           0.9 s               0.1 s
# … read by Spark 6.5 s             1.7 s               1.0 s
# 500 files of 23 kB, 11.3 MB       0.3 s, 11.1 MB      2.0 s, 10.8 MB
# … read by PyArrow 0.9 s           0.5 s               0.4 s
# … read by Spark 3.0 s             1.4 s               3.4 s (one stripe, so one task)
# 20 files of 1.3 MB, 25.9 MB       0.1 s, 25.9 MB      9.1 s, 25.9 MB
# ================================  ==================  ===================
#
# So it pays for stripes of 1 kB and not for those of 22 kB; the threshold of 16 KiB is between them and was not
# measured itself. Below it, rows are encoded again if PyArrow writes back exactly what it reads; otherwise stripes
# are copied, which is always correct. PyArrow is not trusted with
#
# - timestamps in a zone with daylight saving time: it reads wall-clock times and cannot distinguish the two
#   instances of an hour that occurs twice;
# - timestamps before 1970, whose fractions writers round in two ways, or after 2262, which it cannot hold; the column's
#   statistics must show that there are none;
# - unions, bloom filters, files without a row index, decimals of unknown precision, names that are used twice, LZ4
#   (which it stores without compressing) and codecs that it does not write.
#
# PyArrow reads char and varchar as strings and drops the user's metadata and the calendar. All of these are only in
# the footer, so the footer that it wrote gets the types, metadata and calendar of the inputs, if both type trees are
# otherwise equal.
#
# **Which files may be merged** (``agreement_of``). A reader interprets a stripe by what the footer says of the whole
# file: the tree of types with their attributes (lengths of char, Spark's own types), the codec and its block size, the
# stride of the row index, the calendar, the user's metadata. They are part of the agreement, and so is the kind of
# writer: readers identify some writers by number and work around their bugs. Current writers, Java's and C++'s from
# version 6 on (2017), have no bugs that readers work around, so their files agree.


_CHUNK_BYTES: Final = 4 << 20


def read_tails(io: FileIO, paths: Sequence[str]) -> list[OrcTail]:
    """Read the tails of files to be merged; UnfaithfulError if they differ in what one file must share."""
    tails: list[OrcTail] = []
    for path in paths:
        try:
            tails.append(read_tail(io, path))
        except UnknownCodecError as error:
            raise UnfaithfulError(f"{path}: {error}") from error
        if why := why_left_alone(tails[-1]):
            raise UnfaithfulError(f"{path}: {why}")
        if agreement_of(tails[-1]) != agreement_of(tails[0]):
            raise UnfaithfulError(f"{path} has a different schema, codec or writer than the first file of its group")
    return tails


def stitch_orc(io: FileIO, paths: Sequence[str], output: str, *, tails: Sequence[OrcTail]) -> None:
    """Write the stripes of all inputs one after another, and one footer for them."""
    stripes: list[Stripe] = []
    at = len(MAGIC)
    with io.open_output(output) as sink:
        sink.write(MAGIC)
        for path, tail in zip(paths, tails, strict=True):
            for stripe in tail.stripes:
                for chunk in read_stripe(io, path, stripe):
                    sink.write(chunk)
                stripes.append(stripe.moved_to(at))
                at += stripe.size_bytes
        statistics = [one for tail in tails for one in tail.stripe_statistics]
        try:
            footer = _merge_footers(tails, stripes, content_end=at)
        except (ValueError, struct.error):
            _blame_statistics(paths, tails)
            raise
        sink.write(write_tail(_oldest(tails), footer=footer, stripe_statistics=statistics))


def read_stripe(io: FileIO, path: str, stripe: Stripe) -> Iterator[bytes]:
    """Yield the bytes of a stripe; UnreadableFileError if the file ends before the stripe does."""
    left, at = stripe.size_bytes, stripe.offset
    try:
        with io.open_input(path) as source:
            while left:
                chunk = source.read_at(min(left, _CHUNK_BYTES), at)
                if not chunk:
                    raise UnreadableFileError(f"{path} ends within a stripe.", file=path)
                left -= len(chunk)
                at += len(chunk)
                yield chunk
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error


def _stripe_parts(io: FileIO, paths: Sequence[str]) -> Iterator[Part]:
    """Yield the bytes of all stripes, in their order, with their rows and statistics."""
    for path in paths:
        tail = _reread_tail(io, path)
        for at, stripe in enumerate(tail.stripes):
            for chunk in read_stripe(io, path, stripe):
                yield chunk, 0
            stated = tail.stripe_statistics[at] if tail.stripe_statistics else b""
            yield repr((stripe.lengths, stripe.rows, stated)).encode(), stripe.rows


def count_rows(io: FileIO, paths: Sequence[str]) -> int:
    """Add up the row counts that the footers state."""
    return sum(_reread_tail(io, path).rows for path in paths)


def check_same_footer(io: FileIO, paths: Sequence[str], output: str) -> None:
    """Compare what one file must share: types, user metadata, codec, stride, calendar, writer."""
    written = _reread_tail(io, output)
    for path in paths:
        if agreement_of(_reread_tail(io, path)) != agreement_of(written):
            raise VerificationError(f"The footer written differs from that of {path}.", file=path)
    columns = len(find_all(written.footer, orc_tail.FOOTER_TYPES))
    if len(written.column_statistics) not in (0, columns):
        raise VerificationError(f"The statistics written do not cover exactly {columns} columns.", file=output)


def read_stripe_footer(io: FileIO, path: str, stripe: Stripe, *, tail: OrcTail) -> Message:
    """Read the footer of a stripe, which describes its streams."""
    index_bytes, data_bytes, footer_bytes = stripe.lengths
    try:
        with io.open_input(path) as source:
            packed = source.read_at(footer_bytes, stripe.offset + index_bytes + data_bytes)
        return read_message(tail.compression.decompress(packed))
    except (ValueError, OSError) as error:
        raise UnreadableFileError(f"{path} has a broken stripe: {one_line(error)}.", file=path) from error


def _merge_footers(tails: Sequence[OrcTail], stripes: Sequence[Stripe], *, content_end: int) -> Message:
    first = _oldest(tails)
    # Java counts the three bytes at the start as content, C++ does not.
    uncounted = first.content_end - find_int(first.footer, orc_tail.FOOTER_CONTENT_LENGTH)
    content = content_end - (uncounted if uncounted in (0, len(MAGIC)) else 0)
    rows = sum(tail.rows for tail in tails)
    own = (orc_tail.FOOTER_STRIPES, orc_tail.FOOTER_STATISTICS)
    kept = [field for field in first.footer if field[0] not in own]
    places: Message = [(orc_tail.FOOTER_STRIPES, BYTES, write_message(stripe.fields)) for stripe in stripes]
    statistics: Message = [(orc_tail.FOOTER_STATISTICS, BYTES, one) for one in _merge_column_statistics(tails)]
    return orc_tail.replace_ints(
        [*kept, *places, *statistics], {orc_tail.FOOTER_CONTENT_LENGTH: content, orc_tail.FOOTER_ROWS: rows}
    )


def _merge_column_statistics(tails: Sequence[OrcTail]) -> list[bytes]:
    """Merge the statistics column by column; none if a file has none."""
    parts = [tail.column_statistics for tail in tails]
    if len({len(one) for one in parts}) != 1:
        return []
    return [merge_statistics(column) for column in zip(*parts, strict=True)]


def _blame_statistics(paths: Sequence[str], tails: Sequence[OrcTail]) -> None:
    """Raise UnreadableFileError for the file whose statistics cannot be parsed."""
    for path, tail in zip(paths, tails, strict=True):
        try:
            for column in tail.column_statistics:
                merge_statistics((column,))
        except (ValueError, struct.error) as error:
            raise UnreadableFileError(f"{path} has broken statistics: {one_line(error)}.", file=path) from error


def _oldest(tails: Sequence[OrcTail]) -> OrcTail:
    """Return the tail of the oldest writer, which readers trust least: the merged file names that writer."""
    return min(tails, key=lambda tail: tail.writer[1])


def _reread_tail(io: FileIO, path: str) -> OrcTail:
    try:
        return read_tail(io, path)
    except UnknownCodecError as error:
        raise UnreadableFileError(f"{path}: {error}.", file=path) from error


TINY_STRIPE_BYTES: Final = 16 << 10
_STRIPE_BYTES: Final = 64 << 20
_STRUCT, _UNION, _DECIMAL = 12, 13, 14
_STRING, _VARCHAR, _CHAR = 7, 16, 17
_PRECISION, _SCALE = 5, 6
_MAX_PRECISION: Final = 38
_BLOOM_STREAMS: Final = (7, 8)
_DICTIONARY_SHARE: Final = 0.8  # write a dictionary up to this share of distinct values, as Java's writer does
_WRITTEN_CODECS: Final = {
    OrcKind.NONE: "uncompressed",
    OrcKind.ZLIB: "zlib",
    OrcKind.SNAPPY: "snappy",
    OrcKind.ZSTD: "zstd",
}


class CannotEncodeError(PackstoneError):
    """Encoding these files again does not pay or is not safe: copy their stripes."""


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
            raise CannotEncodeError("it has unions, or structs with unnamed or duplicate fields")
        if kind == _DECIMAL and not 1 <= find_int(column, _PRECISION) <= _MAX_PRECISION:
            raise CannotEncodeError("it has decimals of unknown precision")
        if kind in (TIMESTAMP, INSTANT):
            for tail in tails:
                _check_range(tail, number)
    if kind_of(types[0]) != _STRUCT:
        raise CannotEncodeError("its rows are not structs")


def _check_range(tail: OrcTail, column: int) -> None:
    """Check by the statistics, without reading, that PyArrow writes all timestamps of a column back unchanged."""
    stated = tail.column_statistics
    is_stated = column < len(stated) and are_times_within(stated[column], FIRST_SAFE_MS, LAST_SAFE_MS)
    if tail.stripes and not is_stated:
        raise CannotEncodeError("it may have timestamps before 1970 or after 2262")


def _check_stripes(io: FileIO, paths: Sequence[str], tails: Sequence[OrcTail]) -> None:
    has_wall_clock = any(kind_of(column) == TIMESTAMP for column in read_types(tails[0]))
    for path, tail in zip(paths, tails, strict=True):
        for stripe in tail.stripes:
            footer = read_stripe_footer(io, path, stripe, tail=tail)
            if any(find_int(read_message(stream), 1) in _BLOOM_STREAMS for stream in find_all(footer, 1)):
                raise CannotEncodeError("it has bloom filters")
            if has_wall_clock and not {zone.encode() for zone in STEADY_ZONES} & set(find_all(footer, 3)):
                raise CannotEncodeError("its timestamps are in a zone with daylight saving time")


def _encode(io: FileIO, paths: Sequence[str], output: str, *, like: OrcTail, checks_text: bool) -> None:
    from pyarrow import orc  # slow to import, and only for ORC

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
    """Raise CannotEncodeError for a time before 1970, which wrong statistics may have hidden."""
    for column in batch.columns:
        for leaf in leaves(column):
            if len(leaf) > leaf.null_count and pc.min(leaf.cast(pa.int64())).as_py() < 0:
                raise CannotEncodeError("it has timestamps before 1970")


def _with_footer_of(like: OrcTail, written: OrcTail) -> OrcTail:
    """Return the tail that PyArrow wrote, with the types, metadata and calendar of the inputs."""
    if [_shape(column) for column in read_types(like)] != [_shape(column) for column in read_types(written)]:
        raise CannotEncodeError("PyArrow writes a different schema")
    own = (orc_tail.FOOTER_TYPES, orc_tail.FOOTER_USER_METADATA, orc_tail.FOOTER_CALENDAR)
    footer = [field for field in written.footer if field[0] not in own]
    footer += [field for field in like.footer if field[0] in own]
    found = replace(written, footer=sorted(footer, key=lambda field: field[0]))
    if agreement_of(found) != agreement_of(like):
        raise CannotEncodeError("PyArrow writes a different kind of file")
    return found


def _shape(column: Message) -> tuple[object, ...]:
    """What both type trees must share: char and varchar are stored as strings, attributes only in the footer."""
    kind = kind_of(column)
    stored = _STRING if kind in (_VARCHAR, _CHAR) else kind
    return stored, children_of(column), names_of(column), find_int(column, _PRECISION), find_int(column, _SCALE)


_KNOWN_KINDS: Final = 18  # from boolean to timestamp with a zone
_MODERN_WRITERS: Final = (0, 1)  # Java and C++
_MODERN_VERSION: Final = 6
_ACID_KEYS: Final = (b"hive.acid.",)
_ACID_COLUMNS: Final = (b"operation", b"originalTransaction", b"bucket", b"rowId", b"currentTransaction", b"row")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcFacts:
    """What a merge needs to know of one file."""

    rows: int
    codec: str
    agreement: str = ""  # equal for files that may be merged
    left_alone: str = ""  # why it may not


def read_orc_facts(io: FileIO, path: str) -> OrcFacts:
    """Read a file's tail and return its agreement with others; UnreadableFileError if it is damaged."""
    try:
        tail = read_tail(io, path)
    except UnknownCodecError as error:
        return OrcFacts(rows=0, codec="", left_alone=str(error))
    codec = tail.compression.kind.name.lower()
    return OrcFacts(rows=tail.rows, codec=codec, agreement=agreement_of(tail), left_alone=why_left_alone(tail))


def why_left_alone(tail: OrcTail) -> str:
    """Return why a file must not be merged; empty if it may."""
    if find_all(tail.footer, orc_tail.FOOTER_ENCRYPTION) or find_int(tail.postscript, orc_tail.PS_ENCRYPTED_STATISTICS):
        return "it has encrypted columns"
    types = read_types(tail)
    names = names_of(types[0])
    keys = [b"".join(find_all(read_message(item), 1)) for item in find_all(tail.footer, orc_tail.FOOTER_USER_METADATA)]
    if names == _ACID_COLUMNS or any(key.startswith(_ACID_KEYS) for key in keys):
        return "it belongs to a transactional Hive table"
    unknown = sorted({kind for kind in map(kind_of, types) if kind > _KNOWN_KINDS})
    if unknown:
        return f"it has columns of ORC's type number {unknown[0]}, which this version does not support"
    return ""


def agreement_of(tail: OrcTail) -> str:
    """Return a short digest of everything that files must share to be merged."""
    footer, postscript = tail.footer, tail.postscript
    writer, version = tail.writer
    is_modern = writer in _MODERN_WRITERS and version >= _MODERN_VERSION
    facts = (
        find_all(footer, orc_tail.FOOTER_TYPES),
        sorted(find_all(footer, orc_tail.FOOTER_USER_METADATA)),
        find_int(footer, orc_tail.FOOTER_STRIDE),
        find_int(footer, orc_tail.FOOTER_CALENDAR),
        "modern" if is_modern else (writer, version),
        # Fields of later format versions: equal, or the files do not agree.
        [field for field in footer if field[0] > orc_tail.FOOTER_SOFTWARE],
        find_all(postscript, 4),
        tail.compression.kind.value,
        tail.compression.block_bytes,
        bool(tail.stripe_statistics) or not tail.stripes,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
