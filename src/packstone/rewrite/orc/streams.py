"""The streams of one stripe: where each lies, how its column is encoded, and its content without compression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from packstone.rewrite.orc.compression import BLOCK_HEAD_BYTES
from packstone.rewrite.orc.protobuf import Message, find_all, find_int, read_message

if TYPE_CHECKING:
    from packstone.rewrite.orc.tail import ByteSource, OrcTail, Stripe

FOOTER_STREAMS: Final = 1
FOOTER_ENCODINGS: Final = 2
FOOTER_ZONE: Final = 3
_DICTIONARY_KINDS: Final = (1, 3)
_VERSION_2_KINDS: Final = (2, 3)
_PIECE_BYTES: Final = 8 << 20
_FIRST_VERSION_KINDS: Final = (0, 1)


class StreamKind(IntEnum):
    """What a stream holds, by its number in ORC."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5
    ROW_INDEX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream of a stripe; ``fields`` is all that the footer says of it."""

    kind: int
    column: int
    offset: int  # in the file
    size_bytes: int
    fields: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeStreams:
    """What the footer of a stripe says."""

    footer: Message
    streams: tuple[Stream, ...]
    zone: str | None  # of the writer: wall-clock times are relative to it

    def find(self, kind: StreamKind, column: int) -> Stream | None:
        """The stream of a column, if it has one of this kind."""
        return next((one for one in self.streams if one.kind == kind and one.column == column), None)

    def version_of(self, column: int) -> int:
        """The version of the integers of a column."""
        return 2 if self._encoding(column) in _VERSION_2_KINDS else 1

    def has_dictionary(self, column: int) -> bool:
        """Whether a column's values are numbers of entries of a dictionary."""
        return self._encoding(column) in _DICTIONARY_KINDS

    def _encoding(self, column: int) -> int:
        encodings = find_all(self.footer, FOOTER_ENCODINGS)
        if column >= len(encodings):
            raise ValueError("a stripe does not say how its columns are encoded")
        kind = find_int(read_message(encodings[column]), 1)
        if kind not in (*_FIRST_VERSION_KINDS, *_VERSION_2_KINDS):
            raise ValueError(f"a column is encoded in way {kind}, which is unknown")
        return kind


def read_streams(source: ByteSource, stripe: Stripe, *, tail: OrcTail) -> StripeStreams:
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


def read_stream(source: ByteSource, stream: Stream | None, *, tail: OrcTail) -> bytes:
    """The content of a stream; nothing of one that a column does not have."""
    if stream is None or not stream.size_bytes:
        return b""
    packed = source.read_at(stream.size_bytes, stream.offset)
    if len(packed) < stream.size_bytes:
        raise ValueError("the file ends within a stripe")
    return tail.compression.decompress(packed)


def check_blocks(source: ByteSource, streams: StripeStreams, *, tail: OrcTail) -> None:
    """Check the heads of all compressed blocks: none is empty, too long, or reaches beyond its stream.

    PyArrow (to 26.0) takes what lies behind an empty block in memory for its content, which may end the process. This
    reads the streams once more, and decodes nothing.
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
                raise ValueError("a compressed block is empty, too long, or ends behind its stream")
