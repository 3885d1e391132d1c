"""Find the files that users load, detect their formats, and cut them into pieces of about equal size.

A piece is some row groups of a Parquet file, some stripes of an ORC file, or the lines of a text file that begin in a
range of bytes, so that several tasks can share a file. Text that is compressed, or in which a quoted value may hold a
line break, is one piece. Text is read in blocks of whole lines.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from packstone.errors import InvalidInputError, UnreadableFileError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats.orc_tail import tail_of
from packstone.rewrite.formats.parquet_checks import check_footer
from packstone.storage.fileio import EntryKind, list_entries

if TYPE_CHECKING:
    from packstone.storage.fileio import Entry, FileIO

_PARTITION: Final = re.compile(r"[^=/]+=[^/]*")
_WILD: Final = re.compile(r"[*?[]")
_TAIL_BYTES: Final = 4


class InputFormat(StrEnum):
    """The formats of input files."""

    PARQUET = "parquet"
    ORC = "orc"
    CSV = "csv"
    JSON = "json"  # JSON lines: one object in each line


_ENDINGS: Final = {
    "parquet": InputFormat.PARQUET,
    "pq": InputFormat.PARQUET,
    "orc": InputFormat.ORC,
    "csv": InputFormat.CSV,
    "tsv": InputFormat.CSV,
    "txt": InputFormat.CSV,
    "json": InputFormat.JSON,
    "jsonl": InputFormat.JSON,
    "ndjson": InputFormat.JSON,
}
_CODECS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How files are read; all options but the format are for CSV."""

    file_format: InputFormat | None = None  # None: detect it from the file's name
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True  # False: the columns are those of the table, in its order
    multiline: bool = False  # quoted values may hold line breaks: the file cannot be cut
    null_text: str = ""  # unquoted text that means null

    def __post_init__(self) -> None:
        """Refuse delimiters, quotes and escapes that are not one ASCII character."""
        for name in ("delimiter", "quote", "escape"):
            sign = getattr(self, name)
            if len(sign.encode()) > 1 or (name == "delimiter" and not sign):
                raise InvalidInputError(f"The {name} {sign!r} is not one ASCII character.", option=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFile:
    """One input file."""

    path: str
    size_bytes: int
    file_format: InputFormat
    codec: str = ""  # the compression of a text file


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPiece:
    """A part of a file: row groups, stripes or bytes from ``start`` up to ``end``; -1: to the end."""

    file: LoadFile
    size_bytes: int
    start: int = 0
    end: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether the piece is the whole file."""
        return self.start == 0 and self.end == -1


def expand_globs(io: FileIO, path: str) -> tuple[str, ...]:
    """The paths that match a pattern, sorted: ``*``, ``?``, ``[a-c]`` in a name, ``**`` for folders of any depth.

    A path that exists is used literally, even if its name has wildcards. Hidden names match only a pattern that also
    begins with a dot or underscore.
    """
    root, _, rest = path.rpartition("/")
    while _WILD.search(root):
        root, _, more = root.rpartition("/")
        rest = f"{more}/{rest}"
    if not _WILD.search(rest) or io.stat(path) is not None:
        return (path,)
    found = set(_match(io, root, rest.split("/")))
    if not found:
        raise InvalidInputError(f"{path} matches no file; nothing was loaded.", path=path)
    # A matching folder includes everything below it, so paths below it must not be listed again.
    return tuple(sorted(one for one in found if found.isdisjoint(_folders_above(one))))


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _match(io: FileIO, folder: str, patterns: list[str]) -> Iterator[str]:
    first, *rest = patterns
    if first == "**":
        yield from _match(io, folder, rest or ["*"])
    for entry in list_entries(io, folder or "/"):
        is_hidden = entry.name.startswith((".", "_")) and not first.startswith((".", "_"))
        if is_hidden or not (first == "**" or fnmatch.fnmatchcase(entry.name, first)):
            continue
        path = f"{folder}/{entry.name}"
        if first == "**":
            if entry.kind is EntryKind.DIRECTORY:
                yield from _match(io, path, patterns)
        elif not rest:
            yield path
        elif entry.kind is EntryKind.DIRECTORY:
            yield from _match(io, path, rest)


def find_files(
    io: FileIO,
    paths: Iterable[str],
    *,
    options: InputOptions,
    check_folder: Callable[[str, list[Entry]], None] | None = None,
) -> tuple[LoadFile, ...]:
    """Find the files of all paths; of a folder all that are not hidden, in the order of their names.

    ``check_folder`` is called with every visited folder and its entries, and may raise.
    """
    roots = [path.rstrip("/") or "/" for path in paths]
    found = [file for root in roots for file in _find(io, root, options=options, check_folder=check_folder)]
    if not found:
        raise InvalidInputError("There is no file to load: the given folders are empty.")
    return tuple(found)


def split_files(
    io: FileIO, files: Iterable[LoadFile], *, task_bytes: int, options: InputOptions
) -> Iterator[tuple[InputPiece, ...]]:
    """Cut big files and group small ones, in the files' order; each group is the input of one task."""
    group: list[InputPiece] = []
    room = task_bytes
    for piece in (piece for file in files for piece in _split(io, file, task_bytes=task_bytes, options=options)):
        if group and piece.size_bytes > 2 * room:  # otherwise the group is nearer to task_bytes with the piece
            yield tuple(group)
            group, room = [], task_bytes
        group.append(piece)
        room -= piece.size_bytes
    if group:
        yield tuple(group)


def unreadable(path: str, kind: str, error: BaseException) -> UnreadableFileError:
    """The error for a file that cannot be read in its format."""
    return UnreadableFileError(f"{path} is not a readable {kind} file: {one_line(error)}.", file=path)


def _find(
    io: FileIO, path: str, *, options: InputOptions, check_folder: Callable[[str, list[Entry]], None] | None
) -> Iterator[LoadFile]:
    entry = io.stat(path)
    if entry is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    if entry.kind is not EntryKind.DIRECTORY:
        yield _describe(io, path, size_bytes=entry.size_bytes, options=options)
        return
    children = sorted(io.list_dir(path), key=lambda child: child.name)
    if check_folder is not None:
        check_folder(path, children)
    for child in children:
        if child.name.startswith(("_", ".")) or not _is_data(child):
            continue
        if child.kind is EntryKind.DIRECTORY and _PARTITION.fullmatch(child.name):
            raise InvalidInputError(
                f"{path} is partitioned ({child.name}): the files do not contain the column of the folder's name; "
                "load it as a DataFrame.",
                path=path,
            )
        yield from _find(io, f"{path}/{child.name}", options=options, check_folder=check_folder)


def _is_data(child: Entry) -> bool:
    return child.kind is EntryKind.DIRECTORY or child.size_bytes > 0


def _describe(io: FileIO, path: str, *, size_bytes: int, options: InputOptions) -> LoadFile:
    *_, before, last = ["", "", *path.rpartition("/")[2].lower().split(".")]
    codec = _CODECS.get(last, "")
    ending = before if codec else last
    file_format = options.file_format or _ENDINGS.get(ending) or _sniff(io, path)
    if file_format is None:
        raise InvalidInputError(
            f"The format of {path} cannot be detected from its name; specify it ({', '.join(InputFormat)})."
        )
    return LoadFile(path=path, size_bytes=size_bytes, file_format=file_format, codec=codec)


def _sniff(io: FileIO, path: str) -> InputFormat | None:
    with io.open_input(path) as file:
        head = file.read(_TAIL_BYTES)
    if head == b"PAR1":
        return InputFormat.PARQUET
    return InputFormat.ORC if head[:3] == b"ORC" else None


def _split(io: FileIO, file: LoadFile, *, task_bytes: int, options: InputOptions) -> Iterator[InputPiece]:
    is_text = file.file_format in (InputFormat.CSV, InputFormat.JSON)
    in_lines = not (file.codec or (file.file_format is InputFormat.CSV and options.multiline))
    if file.size_bytes <= task_bytes or (is_text and not in_lines):
        yield InputPiece(file=file, size_bytes=file.size_bytes)
    elif is_text:
        count = -(-file.size_bytes // task_bytes)
        cuts = [file.size_bytes * at // count for at in range(count)]
        for start, end in zip(cuts, [*cuts[1:], -1], strict=True):
            size_bytes = (file.size_bytes if end == -1 else end) - start
            yield InputPiece(file=file, size_bytes=size_bytes, start=start, end=end)
    else:
        yield from _split_units(file, _unit_bytes(io, file), task_bytes)


def _split_units(file: LoadFile, sizes: Sequence[int], task_bytes: int) -> Iterator[InputPiece]:
    """Cut between row groups or stripes, so that the parts are as equal as possible."""
    count, total = max(1, -(-sum(sizes) // task_bytes)), sum(sizes)
    start, done, part = 0, 0, 0
    for at, size_bytes in enumerate(sizes):
        done += size_bytes
        is_last = at == len(sizes) - 1
        if is_last or done * count >= total * (part + 1):
            end = -1 if is_last else at + 1
            yield InputPiece(file=file, size_bytes=sum(sizes[start : at + 1]), start=start, end=end)
            start, part = at + 1, max(part + 1, done * count // max(1, total))


def _unit_bytes(io: FileIO, file: LoadFile) -> list[int]:
    with blame_file(file.path, f"is not a readable {file.file_format} file"), io.open_input(file.path) as source:
        if file.file_format is not InputFormat.PARQUET:
            return _stripe_bytes(source)
        check_footer(source, file.path)
        return _group_bytes(source)


def _group_bytes(source: Any) -> list[int]:
    import pyarrow.parquet as pq  # slow to import

    metadata = pq.read_metadata(source)
    return [_compressed_bytes(metadata.row_group(at)) for at in range(metadata.num_row_groups)] or [0]


def _compressed_bytes(group: Any) -> int:
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))


def _stripe_bytes(source: Any) -> list[int]:
    return [stripe.size_bytes for stripe in tail_of(source).stripes] or [0]


BLOCK_BYTES: Final = 4 << 20
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = b"\n"


@contextmanager
def open_text(io: FileIO, file: LoadFile) -> Iterator[Any]:
    """Open a text file, decompressing it if necessary."""
    with io.open_input(file.path) as raw:
        if not file.codec:
            yield raw
            return
        with pa.CompressedInputStream(raw, file.codec) as plain:
            yield plain


def read_blocks(io: FileIO, piece: InputPiece) -> Iterator[bytes]:
    """Yield the lines that begin in the piece, in blocks of whole lines; the last line may lack its line break."""
    with open_text(io, piece.file) as file:
        at = _skip_to_line(file, piece.start)
        rest, end = b"", piece.end
        while end == -1 or at < end:
            data = file.read(BLOCK_BYTES)
            block = rest + data
            if not data:
                if block:
                    yield _without_mark(block, at)
                return
            cut = block.rfind(_NEWLINE) + 1
            if end != -1 and at + len(block) >= end:
                cut = block.find(_NEWLINE, max(0, end - 1 - at)) + 1
            if cut:
                yield _without_mark(block[:cut], at)
            rest = block[cut:]
            at += cut
            if end != -1 and at >= end:
                return


def _without_mark(block: bytes, at: int) -> bytes:
    """Remove the UTF-8 byte order mark that some programs write at the start of a file."""
    return block.removeprefix(_BOM) if at == 0 else block


def first_line(io: FileIO, file: LoadFile) -> bytes:
    """The first line of a file, without its line break."""
    with open_text(io, file) as text:
        line = b""
        while _NEWLINE not in line:
            data = text.read(1 << 16)
            if not data:
                break
            line += data
    return line.partition(_NEWLINE)[0].removeprefix(_BOM).rstrip(b"\r")


def lines_before(io: FileIO, piece: InputPiece) -> Callable[[], int] | None:
    """A function that counts the lines before a piece, once; only the message about a bad row needs the number."""
    if piece.start == 0:
        return None

    @cache
    def count() -> int:
        with open_text(io, piece.file) as file:
            start, found = _skip_to_line(file, piece.start), 0
            file.seek(0)
            while start > 0:
                data = file.read(min(start, BLOCK_BYTES))
                found += data.count(_NEWLINE)
                start -= len(data)
        return found

    return count


def _skip_to_line(file: Any, start: int) -> int:
    """Seek to the first line that begins at ``start`` or later, and return its offset."""
    if start == 0:
        return 0
    file.seek(start - 1)  # if a line break is there, the line begins exactly at ``start``
    at = start - 1
    while data := file.read(1 << 16):
        found = data.find(_NEWLINE)
        if found >= 0:
            file.seek(at + found + 1)
            return at + found + 1
        at += len(data)
    return at
