"""Inspect one small file: its format, whether it may be merged, and with which others.

The first bytes decide the format. Name and content must agree: a file called ``x.parquet`` that holds text is left
alone and reported. Files are merged if they share one line of text, their group.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError
from packstone.model.files import FileFormat
from packstone.model.unit import How
from packstone.rewrite.blame_file import describe_error, is_storage_failure, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.model.files import FileEntry
    from packstone.rewrite.formats.block_format import BlockFormat
    from packstone.storage.fileio import FileIO

_RC_KEY_CLASS: Final = b"org.apache.hadoop.hive.ql.io.RCFile$KeyBuffer"  # of old RCFiles, which begin as SequenceFiles
_KEY_CLASS_WITHIN: Final = 64  # the first thing in the header of a SequenceFile


# The formats that are merged, with the way of merging that a plan shows. A new format is a row here, a case in
# ``_merged_facts``, and a row in ``rewrite/small_files/merge_unit.py``.
MERGED_FORMATS: Final[Mapping[FileFormat, How]] = MappingProxyType(
    {
        FileFormat.PARQUET: How.REWRITE,
        FileFormat.TEXT: How.CONCATENATE,
        FileFormat.ORC: How.STITCH,
        FileFormat.COMPRESSED: How.CONCATENATE,
        FileFormat.GZIP_TEXT: How.CONCATENATE,
        FileFormat.BZIP2_TEXT: How.CONCATENATE,
        FileFormat.ZSTD_TEXT: How.CONCATENATE,
        FileFormat.LZ4_TEXT: How.CONCATENATE,
        FileFormat.SNAPPY_TEXT: How.CONCATENATE,
        FileFormat.DEFLATE_TEXT: How.CONCATENATE,
        FileFormat.HADOOP_LZ4_TEXT: How.CONCATENATE,
        FileFormat.HADOOP_SNAPPY_TEXT: How.CONCATENATE,
        FileFormat.AVRO: How.CONCATENATE,
        FileFormat.SEQUENCE_FILE: How.CONCATENATE,
        FileFormat.RC_FILE: How.CONCATENATE,
    }
)

# The names of ``--codec`` for the codecs in the headers of block files.
_CODEC_OPTIONS: Final = {
    "snappy": "snappy",
    "zstandard": "zstd",
    "org.apache.hadoop.io.compress.SnappyCodec": "snappy",
    "org.apache.hadoop.io.compress.ZStandardCodec": "zstd",
    "org.apache.hadoop.io.compress.GzipCodec": "gzip",
}
_REMEMBERED: Final = 10_000
_UNFAITHFUL: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

_MAGIC: tuple[tuple[bytes, FileFormat], ...] = (
    (b"PAR1", FileFormat.PARQUET),
    (b"PARE", FileFormat.PARQUET),
    (b"ORC", FileFormat.ORC),
    (b"Obj\x01", FileFormat.AVRO),
    (b"SEQ", FileFormat.SEQUENCE_FILE),
    (b"RCF", FileFormat.RC_FILE),
    (b"\x1f\x8b", FileFormat.COMPRESSED),
    (b"BZh", FileFormat.COMPRESSED),
    (b"\x28\xb5\x2f\xfd", FileFormat.COMPRESSED),
    (b"\x04\x22\x4d\x18", FileFormat.COMPRESSED),
    (b"\xff\x06\x00\x00sNaPpY", FileFormat.COMPRESSED),
)
_SHORT_MAGIC = frozenset({FileFormat.ORC, FileFormat.SEQUENCE_FILE, FileFormat.RC_FILE})  # also words of text
_FORMAT_OF_ENDING: Mapping[str, FileFormat] = {
    "parquet": FileFormat.PARQUET,
    "parq": FileFormat.PARQUET,
    "orc": FileFormat.ORC,
    "avro": FileFormat.AVRO,
    "csv": FileFormat.TEXT,
    "tsv": FileFormat.TEXT,
    "txt": FileFormat.TEXT,
    "text": FileFormat.TEXT,
    "json": FileFormat.TEXT,
    "jsonl": FileFormat.TEXT,
    "ndjson": FileFormat.TEXT,
    "gz": FileFormat.COMPRESSED,
    "bz2": FileFormat.COMPRESSED,
    "zst": FileFormat.COMPRESSED,
    "lz4": FileFormat.COMPRESSED,
    "snappy": FileFormat.COMPRESSED,
    "deflate": FileFormat.COMPRESSED,
    "lzo": FileFormat.COMPRESSED,
    "lzo_deflate": FileFormat.COMPRESSED,
    "lzma": FileFormat.COMPRESSED,
    "xz": FileFormat.COMPRESSED,
    "zip": FileFormat.COMPRESSED,
}
_ENDINGS_WITH_MAGIC = frozenset({"gz", "bz2", "zst"})  # Hadoop's other codecs write blocks that begin with a length


def read_file_facts(io: FileIO, directory: str, file: FileEntry, *, codec: str) -> FileFacts:
    """Inspect one file; a problem with the file is part of the result, not an error."""
    path = f"{directory}/{file.name}"
    if file.size_bytes == 0:
        why = "0 bytes: empty, or open for writing"
        return not_merged(file, FileFormat.EMPTY, verdict=Verdict.LEFT_ALONE, why=why)
    found = FileFormat.UNKNOWN
    try:
        with io.open_input(path) as source:
            head = source.read_at(min(HEAD_BYTES, file.size_bytes), 0)
        ending = _ending_of(file.name)
        found = _format_of(head, ending)
        is_whole = len(head) >= file.size_bytes
        look = Inspection(
            io=io, path=path, file=file, file_format=found, head=head, is_whole=is_whole, ending=ending, codec=codec
        )
        return _facts(look)
    except UnreadableFileError as error:
        why = error.message
    except OSError as error:
        if is_storage_failure(error):
            raise
        found, why = FileFormat.UNKNOWN, f"it cannot be read: {_reason(error)}"
    except PackstoneError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        why = f"{path} cannot be decoded: {describe_error(error)}."
    now = io.stat(path)
    if now is None or (now.size_bytes, now.mtime_ns) != (file.size_bytes, file.mtime_ns):
        why = "it changed or was removed since it was listed"  # another writer is active; nothing is damaged
        return not_merged(file, FileFormat.UNKNOWN, verdict=Verdict.LEFT_ALONE, why=why)
    return not_merged(file, found, verdict=Verdict.UNREADABLE, why=why)


def _reason(error: OSError) -> str:
    """What happened, without number and path: PyArrow, whose errors name no file, has both in its text."""
    if error.errno is not None and error.filename is None:
        return os.strerror(error.errno).lower()
    return error.strerror or one_line(error)


def format_by_name(name: str) -> FileFormat | None:
    """The format that a file's name suggests."""
    return _FORMAT_OF_ENDING.get(_ending_of(name))


def _ending_of(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _format_of(head: bytes, ending: str) -> FileFormat:
    """Return the format by the first bytes; the name decides only where these are ambiguous."""
    found, named = sniff_format(head), _FORMAT_OF_ENDING.get(ending)
    if found in _SHORT_MAGIC and named in (FileFormat.TEXT, None) and not NO_TEXT.search(head):
        return FileFormat.TEXT
    has_no_magic = named is FileFormat.COMPRESSED and ending not in _ENDINGS_WITH_MAGIC
    if has_no_magic and found in (FileFormat.TEXT, FileFormat.UNKNOWN):
        return FileFormat.COMPRESSED
    return found


def _facts(look: Inspection) -> FileFacts:
    found, named = look.file_format, _FORMAT_OF_ENDING.get(look.ending)
    if named is not None and found is not named:
        why = f"its name says {named} but its content is {found}"
        return not_merged(look.file, found, verdict=Verdict.UNREADABLE, why=why)
    if found is FileFormat.UNKNOWN:
        return look.left_alone("its format is unknown")
    return _merged_facts(look)


def _merged_facts(look: Inspection) -> FileFacts:
    """Inspect the file by its format; the format's code is imported with the first file of its kind."""
    match look.file_format:
        case FileFormat.PARQUET:
            return _parquet_facts(look)
        case FileFormat.ORC:
            return _orc_facts(look)
        case FileFormat.TEXT:
            from packstone.tables.hive.text_facts import text_facts

            return text_facts(look)
        case FileFormat.COMPRESSED:
            from packstone.tables.hive.text_facts import compressed_facts

            return compressed_facts(look)
        case FileFormat.AVRO | FileFormat.SEQUENCE_FILE | FileFormat.RC_FILE:
            return _block_file_facts(look)
        case other:
            return look.left_alone(f"{other} files are not merged by this version")


def _parquet_facts(look: Inspection) -> FileFacts:
    """Group files by schema, codec and writer's semantics; those that cannot be written identically are left alone."""
    import pyarrow as pa

    from packstone.rewrite.formats.parquet_footer import read_footer_facts

    try:
        source = pa.BufferReader(look.head) if look.is_whole else None  # a small file is read once
        footer = read_footer_facts(look.io, look.path, codec=look.codec, source=source)
    except UnfaithfulError as error:
        return look.left_alone(error.message)
    unfaithful = _why_unfaithful(look.io, look.path, agreement=footer.agreement, codec=look.codec)
    if unfaithful:
        return look.left_alone(f"it cannot be written back identically: {unfaithful}")
    written = footer.codec if look.codec == "keep" else look.codec
    shared = f"schema={footer.columns} codec={written} {footer.agreement}"
    return look.mergeable(shared, rows=footer.rows, codec=footer.codec)


def _why_unfaithful(io: FileIO, path: str, *, agreement: str, codec: str) -> str:
    """Say why a file cannot be written back identically, neither by encoding it again nor by copying its pages."""
    why, unwritable = _find_unwritable(io, path, agreement=agreement, codec=codec)
    if not why or not unwritable:
        return why
    from packstone.rewrite.small_files.parquet_splice import plan_splice
    from packstone.rewrite.small_files.spliced_file import CannotSpliceError

    try:
        missing = set(unwritable) - set(plan_splice(io, [path]).fields)
    except CannotSpliceError as error:
        return f"{why}, and its pages cannot be copied: {error.message}"
    return why if missing else ""


def _find_unwritable(io: FileIO, path: str, *, agreement: str, codec: str) -> tuple[str, tuple[str, ...]]:
    """Say why files cannot be encoded again, and the fields for which copied pages would do.

    Cached, because only agreement and codec matter.
    """
    from packstone.rewrite.formats.parquet_writer import find_unwritable_fields, why_unfaithful

    key = (agreement, codec)
    if key not in _UNFAITHFUL:
        if len(_UNFAITHFUL) >= _REMEMBERED:
            _UNFAITHFUL.clear()
        why = why_unfaithful(io, path, codec=codec)
        _UNFAITHFUL[key] = why, find_unwritable_fields(io, path) if why and codec == "keep" else ()
    return _UNFAITHFUL[key]


def _orc_facts(look: Inspection) -> FileFacts:
    """Group files by all that a footer states about a whole file; only the tail is read."""
    from packstone.rewrite.small_files.orc_kernel import read_orc_facts

    facts = read_orc_facts(look.io, look.path)
    if facts.left_alone:
        return look.left_alone(facts.left_alone)
    if look.codec not in ("keep", facts.codec):
        return look.left_alone(f"ORC files keep their codec ({facts.codec}); merge them without --codec")
    return look.mergeable(f"codec={facts.codec} {facts.agreement}", rows=facts.rows, codec=facts.codec)


def _block_file_facts(look: Inspection) -> FileFacts:
    """Group files whose headers agree on how they are read; only the header is read."""
    from packstone.rewrite.formats import avro_blocks, rc_file, sequence_file
    from packstone.rewrite.formats.block_format import open_source

    formats: dict[FileFormat, BlockFormat] = {
        FileFormat.AVRO: avro_blocks,
        FileFormat.SEQUENCE_FILE: sequence_file,
        FileFormat.RC_FILE: rc_file,
    }
    with open_source(look.io, look.path) as source:
        header = formats[look.file_format].read_header(source)
    if header.why_not:
        return look.left_alone(header.why_not)
    if look.codec not in ("keep", _CODEC_OPTIONS.get(header.codec)):
        return look.left_alone(f"its blocks keep their codec ({header.codec}); merge it without --codec")
    agreement = hashlib.sha256(header.agreement).hexdigest()
    return look.mergeable(f"codec={header.codec} header={agreement}", codec=header.codec)


def sniff_format(head: bytes) -> FileFormat:
    """Return the format by magic bytes; without magic, it is text unless it holds bytes that no text has."""
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return FileFormat.RC_FILE if _RC_KEY_CLASS in head[:_KEY_CLASS_WITHIN] else found
    is_text = head.startswith(WIDE_MARKS) or not NO_TEXT.search(head)
    return FileFormat.TEXT if is_text else FileFormat.UNKNOWN


# ---- results of an inspection ----

HEAD_BYTES: Final = 64 << 10  # the size of the sample of a file, or of its decoded text
NO_TEXT: Final = re.compile(
    rb"[\x00\x0e-\x19\x7f]"
)  # Hive's delimiters are \x01 to \x08, and \x1a to \x1f are in use too
WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and UTF-32, whose newline is more than one byte


class Verdict(StrEnum):
    """Whether a file may be merged."""

    MERGEABLE = "mergeable"
    LEFT_ALONE = "left alone"  # valid, but not merged
    UNREADABLE = "unreadable"  # damaged: reported as such


class LineKind(StrEnum):
    """The kind of one of the first lines of a file."""

    NAMES = "names"  # every cell could name a column
    NAMES_OF_VALUES = "names of values"  # and there are values below one of them
    VALUES = "values"  # at least one cell is a number, a date, a time or a boolean
    NUMBERS = "numbers"  # all cells are numbers
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """One of the first lines of a text file that are not blank."""

    number: int  # in the file, from 1, blank lines counted
    text: str  # a long line is cut, and a digest of the whole line appended
    kind: LineKind
    cells: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to cut the lines of a file into the same number of cells."""

    delimiter: str
    columns: int
    quote: str = '"'

    def __str__(self) -> str:
        """Return its part of the group that files must share."""
        if not self.delimiter:
            return "" if self == FREE_TEXT else "ragged" if self == RAGGED else "1 column"
        return f"{self.columns} by {self.delimiter!r}" + ("" if self.quote == '"' else f" quoted by {self.quote}")


FREE_TEXT: Final = Reading("", 0)
RAGGED: Final = Reading("", -1)
ONE_COLUMN: Final = Reading("", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """The ways to cut all sampled lines of a file into the same number of cells."""

    readings: tuple[Reading, ...] = ()  # with at least two columns
    is_named: bool = False  # its name says that it is delimited
    preamble: int = 0  # the number of lines at the beginning that differ from all others, which agree
    widths: tuple[int, int] = (1, 1)  # the least and the greatest number of cells, if there is no reading
    is_blank: bool = False  # it has no lines that could differ from others

    @property
    def is_ragged(self) -> bool:
        """Whether its name says that it is delimited, but its lines do not agree."""
        return self.is_named and not self.readings and self.widths[0] != self.widths[1]

    def why_ragged(self) -> str:
        """Say in which way its lines differ."""
        if self.preamble:
            lines = "a line" if self.preamble == 1 else f"{self.preamble} lines"
            return f"a file begins with {lines} whose number of columns differs from all below"
        return f"a file has lines of {self.widths[0]} columns and of {self.widths[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file's format, whether it may be merged, and with which others."""

    name: str
    file_format: FileFormat
    verdict: Verdict
    why: str = ""
    group: str = ""
    rows: int = 0
    codec: str = ""
    first_lines: tuple[FirstLine, ...] = ()  # of text that may have a header
    shape: TextShape | None = None  # of text that may be delimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A file of a known format, to be inspected by that format's code."""

    io: FileIO
    path: str
    file: FileEntry
    file_format: FileFormat
    head: bytes  # the first 64 KiB
    is_whole: bool  # whether that is the whole file
    ending: str  # of its name, in lower case
    codec: str  # the requested codec, or ``keep``

    def mergeable(self, shared: str, *, rows: int = 0, codec: str = "") -> FileFacts:
        """Return facts that group the file by a shared text, and always by ending, owner, mode and ACL."""
        return FileFacts(
            name=self.file.name,
            file_format=self.file_format,
            verdict=Verdict.MERGEABLE,
            group=f"{self.file_format} {shared} .{self.ending} {self.io.read_permissions(self.path)}",
            rows=rows,
            codec=codec,
        )

    def left_alone(self, why: str) -> FileFacts:
        """Return facts of a valid file that is not merged."""
        return not_merged(self.file, self.file_format, verdict=Verdict.LEFT_ALONE, why=why)


def not_merged(file: FileEntry, found: FileFormat, *, verdict: Verdict, why: str) -> FileFacts:
    """Return the facts of a file that is not merged, with the reason."""
    return FileFacts(name=file.name, file_format=found, verdict=verdict, why=why)
