"""What one small file is: its format by its first bytes, and the line that files must share to be merged.

A name is never trusted alone, and content is never trusted against the name: a file called ``x.parquet`` that
holds text is left alone and reported.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from packstone.errors import UnreadableFileError
from packstone.model.unit import How
from packstone.rewrite.parquet_footer import one_line, read_footer_facts
from packstone.rewrite.parquet_writer import why_unfaithful

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.model.files import FileEntry
    from packstone.storage.fileio import FileIO

_HEAD_BYTES = 64 << 10
_REMEMBERED = 10_000
_UNFAITHFUL: dict[tuple[str, str], str] = {}


class FileFormat(StrEnum):
    """What a file's content is."""

    PARQUET = "parquet"
    TEXT = "text"
    ORC = "orc"
    AVRO = "avro"
    SEQUENCE_FILE = "sequencefile"
    RC_FILE = "rcfile"
    COMPRESSED = "compressed text"
    EMPTY = "empty"
    UNKNOWN = "unknown"


MERGED_BY: Mapping[FileFormat, How] = {FileFormat.PARQUET: How.REWRITE, FileFormat.TEXT: How.CONCATENATE}

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
_NO_TEXT = re.compile(rb"[\x00\x0e-\x19\x7f]")  # Hive's delimiters are \x01 to \x08, and \x1a to \x1f are in use too
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and UTF-32, whose newline is more than one byte


class Verdict(StrEnum):
    """Whether a file may take part in a merge."""

    MERGEABLE = "mergeable"
    LEFT_ALONE = "left alone"  # fine as it is, but nothing we merge
    UNREADABLE = "unreadable"  # broken: reported as such


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
    first_line: str = ""


def read_file_facts(io: FileIO, directory: str, file: FileEntry, *, codec: str) -> FileFacts:
    """Look into one file; what is wrong with it is part of the answer."""
    path = f"{directory}/{file.name}"
    try:
        return _facts(io, path, file, codec=codec)
    except UnreadableFileError as error:
        found, why = FileFormat.PARQUET, error.message
    except OSError as error:
        found, why = FileFormat.UNKNOWN, f"it cannot be read: {one_line(error)}"
    now = io.stat(path)
    if now is None or (now.size_bytes, now.mtime_ns) != (file.size_bytes, file.mtime_ns):
        why = "it changed or was removed since it was listed"  # somebody is at work there; nothing is broken
        return _not_merged(file, FileFormat.UNKNOWN, verdict=Verdict.LEFT_ALONE, why=why)
    return _not_merged(file, found, verdict=Verdict.UNREADABLE, why=why)


def _facts(io: FileIO, path: str, file: FileEntry, *, codec: str) -> FileFacts:
    if file.size_bytes == 0:
        why = "0 bytes: empty, or open for writing"
        return _not_merged(file, FileFormat.EMPTY, verdict=Verdict.LEFT_ALONE, why=why)
    with io.open_input(path) as source:
        head = source.read_at(min(_HEAD_BYTES, file.size_bytes), 0)
    ending = file.name.rpartition(".")[2].lower() if "." in file.name else ""
    named = _FORMAT_OF_ENDING.get(ending)
    found = sniff_format(head)
    if found is not named and found in _SHORT_MAGIC and named is FileFormat.TEXT and not _NO_TEXT.search(head):
        found = FileFormat.TEXT
    if (
        named is FileFormat.COMPRESSED
        and ending not in _ENDINGS_WITH_MAGIC
        and found in (FileFormat.TEXT, FileFormat.UNKNOWN)
    ):
        found = FileFormat.COMPRESSED
    if named is not None and found is not named:
        why = f"its name says {named} but its content is {found}"
        return _not_merged(file, found, verdict=Verdict.UNREADABLE, why=why)
    match found:
        case FileFormat.PARQUET:
            footer = read_footer_facts(io, path, codec=codec)
            unfaithful = _why_unfaithful(io, path, agreement=footer.agreement, codec=codec)
            if unfaithful:
                why = f"it cannot be written back identically: {unfaithful}"
                return _not_merged(file, found, verdict=Verdict.LEFT_ALONE, why=why)
            written = footer.codec if codec == "keep" else codec
            group = f"parquet schema={footer.columns} codec={written} {footer.agreement} .{ending} {file.permissions}"
            return _mergeable(file, found, group, rows=footer.rows, codec=footer.codec)
        case FileFormat.TEXT:
            return _text_facts(file, head, ending)
        case FileFormat.UNKNOWN:
            return _not_merged(file, found, verdict=Verdict.LEFT_ALONE, why="it is neither Parquet nor text")
        case _:
            return _not_merged(
                file, found, verdict=Verdict.LEFT_ALONE, why=f"{found} files are not merged by this version"
            )


def _why_unfaithful(io: FileIO, path: str, *, agreement: str, codec: str) -> str:
    """Ask once for all files that agree; the answer depends on nothing else."""
    key = (agreement, codec)
    if key not in _UNFAITHFUL:
        if len(_UNFAITHFUL) >= _REMEMBERED:
            _UNFAITHFUL.clear()
        _UNFAITHFUL[key] = why_unfaithful(io, path, codec=codec)
    return _UNFAITHFUL[key]


def sniff_format(head: bytes) -> FileFormat:
    """Name the format by magic bytes; without magic and without bytes that no text holds it is text."""
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return found
    is_text = head.startswith(_WIDE_MARKS) or not _NO_TEXT.search(head)
    return FileFormat.TEXT if is_text else FileFormat.UNKNOWN


def _text_facts(file: FileEntry, head: bytes, ending: str) -> FileFacts:
    """Text is merged unless a file is one document rather than lines."""
    if head.startswith((b"\xef\xbb\xbf", *_WIDE_MARKS)):
        why = "it begins with a byte-order mark, which would land in the middle of a merged file"
        return _not_merged(file, FileFormat.TEXT, verdict=Verdict.LEFT_ALONE, why=why)
    start = head.lstrip()[:5]
    if ending in ("xml", "html", "htm") or start.startswith((b"<?xml", b"<html", b"<!DOC")):
        return _not_merged(
            file, FileFormat.TEXT, verdict=Verdict.LEFT_ALONE, why="it is one XML or HTML document, not lines"
        )
    if start.startswith((b"{", b"[")) and ending in ("json", "") and _is_many_line_json(head):
        return _not_merged(
            file,
            FileFormat.TEXT,
            verdict=Verdict.LEFT_ALONE,
            why="it is one JSON document over many lines, not JSON lines",
        )
    first_line = head.split(b"\n", 1)[0][:200].decode("utf-8", "replace")
    return _mergeable(file, FileFormat.TEXT, f"text .{ending} {file.permissions}", first_line=first_line)


def _is_many_line_json(head: bytes) -> bool:
    line, newline, rest = head.lstrip().partition(b"\n")
    if not newline or not rest.strip():
        return False  # one line: a document and a JSON line alike
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _mergeable(
    file: FileEntry, found: FileFormat, group: str, *, rows: int = 0, codec: str = "", first_line: str = ""
) -> FileFacts:
    return FileFacts(
        name=file.name,
        file_format=found,
        verdict=Verdict.MERGEABLE,
        group=group,
        rows=rows,
        codec=codec,
        first_line=first_line,
    )


def _not_merged(file: FileEntry, found: FileFormat, *, verdict: Verdict, why: str) -> FileFacts:
    return FileFacts(name=file.name, file_format=found, verdict=verdict, why=why)
