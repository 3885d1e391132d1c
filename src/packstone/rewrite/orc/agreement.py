"""What ORC files must share to become one file by copying stripes, and which files must not be merged at all.

A stripe is read by what the footer says of the whole file: the tree of types with their attributes (lengths of char,
Spark's own types), the codec and its block size, the stride of the row index, the calendar, what the user put in. They
are part of the agreement, and so is the kind of writer: readers know some writers by number and mend their faults.
Writers of today, Java's and C++'s from version 6 on (2017), have none that readers mend, so their files agree.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.rewrite.orc import tail as orc_tail
from packstone.rewrite.orc.protobuf import find_all, find_int, read_message
from packstone.rewrite.orc.tail import OrcTail, UnknownCodecError, kind_of, names_of, read_tail, read_types

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_KNOWN_KINDS: Final = 18  # from boolean to timestamp with a zone
_MODERN_WRITERS: Final = (0, 1)  # Java and C++
_MODERN_VERSION: Final = 6
_ACID_KEYS: Final = (b"hive.acid.",)
_ACID_COLUMNS: Final = (b"operation", b"originalTransaction", b"bucket", b"rowId", b"currentTransaction", b"row")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcFacts:
    """One file as a merge sees it."""

    rows: int
    codec: str
    agreement: str = ""  # equal for files that may be merged
    left_alone: str = ""  # why it may not


def read_orc_facts(io: FileIO, path: str) -> OrcFacts:
    """Read a file's tail and say with which others it agrees; UnreadableFileError if it is broken."""
    try:
        tail = read_tail(io, path)
    except UnknownCodecError as error:
        return OrcFacts(rows=0, codec="", left_alone=str(error))
    codec = tail.compression.kind.name.lower()
    return OrcFacts(rows=tail.rows, codec=codec, agreement=agreement_of(tail), left_alone=why_left_alone(tail))


def why_left_alone(tail: OrcTail) -> str:
    """Say why a file must not be merged, if so."""
    if find_all(tail.footer, orc_tail.FOOTER_ENCRYPTION) or find_int(tail.postscript, orc_tail.PS_ENCRYPTED_STATISTICS):
        return "it has encrypted columns"
    types = read_types(tail)
    names = names_of(types[0])
    keys = [b"".join(find_all(read_message(item), 1)) for item in find_all(tail.footer, orc_tail.FOOTER_USER_METADATA)]
    if names == _ACID_COLUMNS or any(key.startswith(_ACID_KEYS) for key in keys):
        return "it belongs to a transactional table of Hive"
    unknown = sorted({kind for kind in map(kind_of, types) if kind > _KNOWN_KINDS})
    if unknown:
        return f"it has columns of ORC's type number {unknown[0]}, which this version does not know"
    return ""


def agreement_of(tail: OrcTail) -> str:
    """A short digest of all that files must share."""
    footer, postscript = tail.footer, tail.postscript
    writer, version = tail.writer
    is_modern = writer in _MODERN_WRITERS and version >= _MODERN_VERSION
    facts = (
        find_all(footer, orc_tail.FOOTER_TYPES),
        sorted(find_all(footer, orc_tail.FOOTER_USER_METADATA)),
        find_int(footer, orc_tail.FOOTER_STRIDE),
        find_int(footer, orc_tail.FOOTER_CALENDAR),
        "modern" if is_modern else (writer, version),
        # What a later version of the format puts here is shared, or the files do not agree.
        [field for field in footer if field[0] > orc_tail.FOOTER_SOFTWARE],
        find_all(postscript, 4),
        tail.compression.kind.value,
        tail.compression.block_bytes,
        bool(tail.stripe_statistics) or not tail.stripes,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
