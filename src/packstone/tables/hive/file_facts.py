"""What one small file is: its format by its first bytes, and the line that files must share to be merged.

A name is never trusted alone, and content is never trusted against the name: a file called ``x.parquet`` that
holds text is left alone and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import PackstoneError, UnreadableFileError
from packstone.model.file_format import FileFormat
from packstone.model.unit import How
from packstone.rewrite.blame_file import is_storage_failure, one_line, tell_error
from packstone.rewrite.block_files import avro_blocks, rc_file, sequence_file
from packstone.rewrite.codecs.text_codec import TextCodec, format_of
from packstone.tables.hive.block_file_facts import block_file_facts
from packstone.tables.hive.compressed_facts import compressed_facts
from packstone.tables.hive.file_verdict import HEAD_BYTES, FileFacts, LookedAt, Verdict, not_merged
from packstone.tables.hive.orc_facts import orc_facts
from packstone.tables.hive.parquet_facts import parquet_facts
from packstone.tables.hive.text_facts import NO_TEXT, WIDE_MARKS, text_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.files import FileEntry
    from packstone.storage.fileio import FileIO

_KEY_CLASS_WITHIN = 64  # the first thing in the header of a SequenceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFormat:
    """A format that is merged: in which way a plan says it is, and how its files are looked into."""

    how: How
    facts: Callable[[LookedAt], FileFacts]


_COMPRESSED = MergedFormat(how=How.CONCATENATE, facts=compressed_facts)
# A new format is a module, a row here, and one in ``rewrite/kernels/registry.py``.
MERGED_FORMATS: Mapping[FileFormat, MergedFormat] = {
    FileFormat.PARQUET: MergedFormat(how=How.REWRITE, facts=parquet_facts),
    FileFormat.TEXT: MergedFormat(how=How.CONCATENATE, facts=text_facts),
    FileFormat.ORC: MergedFormat(how=How.STITCH, facts=orc_facts),
    FileFormat.COMPRESSED: _COMPRESSED,
    **{format_of(codec): _COMPRESSED for codec in TextCodec},
    FileFormat.AVRO: MergedFormat(how=How.CONCATENATE, facts=block_file_facts(avro_blocks)),
    FileFormat.SEQUENCE_FILE: MergedFormat(how=How.CONCATENATE, facts=block_file_facts(sequence_file)),
    FileFormat.RC_FILE: MergedFormat(how=How.CONCATENATE, facts=block_file_facts(rc_file)),
}

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
    """Look into one file; what is wrong with it is part of the answer."""
    path = f"{directory}/{file.name}"
    if file.size_bytes == 0:
        why = "0 bytes: empty, or open for writing"
        return not_merged(file, FileFormat.EMPTY, verdict=Verdict.LEFT_ALONE, why=why)
    found = FileFormat.UNKNOWN
    try:
        with io.open_input(path) as source:
            head = source.read_at(min(HEAD_BYTES, file.size_bytes), 0)
        ending = file.name.rpartition(".")[2].lower() if "." in file.name else ""
        found = _format_of(head, ending)
        is_whole = len(head) >= file.size_bytes
        look = LookedAt(
            io=io, path=path, file=file, file_format=found, head=head, is_whole=is_whole, ending=ending, codec=codec
        )
        return _facts(look)
    except UnreadableFileError as error:
        why = error.message
    except OSError as error:
        if is_storage_failure(error):
            raise
        found, why = FileFormat.UNKNOWN, f"it cannot be read: {one_line(error)}"
    except PackstoneError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        why = f"{path} cannot be decoded: {tell_error(error)}."
    now = io.stat(path)
    if now is None or (now.size_bytes, now.mtime_ns) != (file.size_bytes, file.mtime_ns):
        why = "it changed or was removed since it was listed"  # somebody is at work there; nothing is broken
        return not_merged(file, FileFormat.UNKNOWN, verdict=Verdict.LEFT_ALONE, why=why)
    return not_merged(file, found, verdict=Verdict.UNREADABLE, why=why)


def _format_of(head: bytes, ending: str) -> FileFormat:
    """The format by the first bytes; the name decides only where those could be either."""
    found, named = sniff_format(head), _FORMAT_OF_ENDING.get(ending)
    if found in _SHORT_MAGIC and named in (FileFormat.TEXT, None) and not NO_TEXT.search(head):
        return FileFormat.TEXT
    has_no_magic = named is FileFormat.COMPRESSED and ending not in _ENDINGS_WITH_MAGIC
    if has_no_magic and found in (FileFormat.TEXT, FileFormat.UNKNOWN):
        return FileFormat.COMPRESSED
    return found


def _facts(look: LookedAt) -> FileFacts:
    found, named = look.file_format, _FORMAT_OF_ENDING.get(look.ending)
    if named is not None and found is not named:
        why = f"its name says {named} but its content is {found}"
        return not_merged(look.file, found, verdict=Verdict.UNREADABLE, why=why)
    if found is FileFormat.UNKNOWN:
        return look.left_alone("it is of no format that is known")
    merged = MERGED_FORMATS.get(found)
    if merged is None:
        return look.left_alone(f"{found} files are not merged by this version")
    return merged.facts(look)


def sniff_format(head: bytes) -> FileFormat:
    """Name the format by magic bytes; without magic and without bytes that no text holds it is text."""
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return FileFormat.RC_FILE if rc_file.KEY_CLASS in head[:_KEY_CLASS_WITHIN] else found
    is_text = head.startswith(WIDE_MARKS) or not NO_TEXT.search(head)
    return FileFormat.TEXT if is_text else FileFormat.UNKNOWN
