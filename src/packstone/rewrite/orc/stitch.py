"""ORC files into one ORC file by copying stripes under a new footer: no value is decoded, so none can change.

A stripe holds its own index, data, dictionaries, bloom filters and its writer's time zone; the footer only says where
it lies. So this is faithful for every type, timestamps of the year 9999, char, union and interval too, and as quick as
the disk. Its limit: stripes keep their size. Only where they are tiny is encoding again better (``orc_rewrite``).

::

    ORC a1 a2 | footer a      ORC b1 | footer b    →    ORC a1 a2 b1 | footer: places moved, statistics merged
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

from packstone.errors import UnfaithfulError, UnreadableFileError, VerificationError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.orc import tail as orc_tail
from packstone.rewrite.orc.agreement import agreement_of, why_left_alone
from packstone.rewrite.orc.protobuf import BYTES, find_all, find_int, read_message, write_message
from packstone.rewrite.orc.statistics import merge_statistics
from packstone.rewrite.orc.tail import MAGIC, OrcTail, Stripe, UnknownCodecError, read_tail, write_tail
from packstone.rewrite.proof.fingerprint import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.rewrite.orc.protobuf import Message
    from packstone.storage.fileio import FileIO

_CHUNK_BYTES: Final = 4 << 20
_DIGEST_BYTES: Final = 16
_FOOTER_STREAMS: Final = 1
_STREAM_LENGTH: Final = 3


def read_tails(io: FileIO, paths: Sequence[str]) -> list[OrcTail]:
    """Read the tails of files that are to be one; UnfaithfulError if they differ in what one file must share."""
    tails: list[OrcTail] = []
    for path in paths:
        try:
            tails.append(read_tail(io, path))
        except UnknownCodecError as error:
            raise UnfaithfulError(f"{path}: {error}") from error
        if why := why_left_alone(tails[-1]):
            raise UnfaithfulError(f"{path}: {why}")
        if agreement_of(tails[-1]) != agreement_of(tails[0]):
            raise UnfaithfulError(f"{path} has another schema, codec or writer than the first file of its group")
    return tails


def stitch_orc(io: FileIO, paths: Sequence[str], output: str, *, tails: Sequence[OrcTail]) -> None:
    """Write the stripes of all inputs behind each other, and one footer for them."""
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
    """Yield the bytes of a stripe; UnreadableFileError if the file ends before it does."""
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


def digest_stripes(io: FileIO, paths: Sequence[str]) -> Fingerprint:
    """Digest the bytes of all stripes, in their order, with their rows and statistics."""
    whole, rows = hashlib.sha256(), 0
    for path in paths:
        tail = _tail_again(io, path)
        for at, stripe in enumerate(tail.stripes):
            for chunk in read_stripe(io, path, stripe):
                whole.update(chunk)
            stated = tail.stripe_statistics[at] if tail.stripe_statistics else b""
            whole.update(repr((stripe.lengths, stripe.rows, stated)).encode())
            rows += stripe.rows
    digest = whole.digest()[:_DIGEST_BYTES]
    return Fingerprint(rows=rows, lo=int.from_bytes(digest[:8], "little"), hi=int.from_bytes(digest[8:], "little"))


def count_rows(io: FileIO, paths: Sequence[str]) -> int:
    """Add up what the footers state."""
    return sum(_tail_again(io, path).rows for path in paths)


def check_same_footer(io: FileIO, paths: Sequence[str], output: str) -> None:
    """Compare what one file must share: types, what the user put in, codec, stride, calendar, writer."""
    written = _tail_again(io, output)
    for path in paths:
        if agreement_of(_tail_again(io, path)) != agreement_of(written):
            raise VerificationError(f"The footer written differs from that of {path}.", file=path)
    columns = len(find_all(written.footer, orc_tail.FOOTER_TYPES))
    if len(written.column_statistics) not in (0, columns):
        raise VerificationError(f"The statistics written are of another number of columns than {columns}.", file=output)


def check_stripe_footers(io: FileIO, path: str) -> None:
    """Read the footer of every stripe: its streams must fill the stripe exactly."""
    tail = _tail_again(io, path)
    for stripe in tail.stripes:
        footer = read_stripe_footer(io, path, stripe, tail=tail)
        index_bytes, data_bytes, _ = stripe.lengths
        streams = [find_int(read_message(one), _STREAM_LENGTH) for one in find_all(footer, _FOOTER_STREAMS)]
        if sum(streams) != index_bytes + data_bytes:
            raise UnreadableFileError(f"{path} has a stripe whose streams do not fill it.", file=path)


def read_stripe_footer(io: FileIO, path: str, stripe: Stripe, *, tail: OrcTail) -> Message:
    """Read what a stripe says of its streams."""
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
    """Merge column by column, or state nothing where a file states nothing."""
    parts = [tail.column_statistics for tail in tails]
    if len({len(one) for one in parts}) != 1:
        return []
    return [merge_statistics(column) for column in zip(*parts, strict=True)]


def _blame_statistics(paths: Sequence[str], tails: Sequence[OrcTail]) -> None:
    """Find the file whose statistics cannot be merged with any."""
    for path, tail in zip(paths, tails, strict=True):
        try:
            for column in tail.column_statistics:
                merge_statistics((column,))
        except (ValueError, struct.error) as error:
            raise UnreadableFileError(f"{path} has broken statistics: {one_line(error)}.", file=path) from error


def _oldest(tails: Sequence[OrcTail]) -> OrcTail:
    """The file whose writer a reader would trust least: the merged file goes by its name."""
    return min(tails, key=lambda tail: tail.writer[1])


def _tail_again(io: FileIO, path: str) -> OrcTail:
    try:
        return read_tail(io, path)
    except UnknownCodecError as error:
        raise UnreadableFileError(f"{path}: {error}.", file=path) from error
