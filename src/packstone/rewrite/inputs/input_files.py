"""Files that users load: found, recognised, and cut into pieces of about equal size.

A piece is some row groups of a Parquet file, some stripes of an ORC file, or the lines of a text file that begin in a
range of bytes. Text that is compressed, or in which a quoted value may hold a line break, is one piece.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, UnreadableFileError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.orc.tail import tail_of
from packstone.rewrite.parquet.check_footer import check_footer
from packstone.storage.fileio import Kind

if TYPE_CHECKING:
    from packstone.storage.fileio import Entry, FileIO

_PARTITION: Final = re.compile(r"[^=/]+=[^/]*")
_WILD: Final = re.compile(r"[*?[]")
_TAIL_BYTES: Final = 4


class InputFormat(StrEnum):
    """What users' files are."""

    PARQUET = "parquet"
    ORC = "orc"
    CSV = "csv"
    JSON = "json"  # an object in each line


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
    """How files are read; all but the format is for CSV."""

    file_format: InputFormat | None = None  # None: by the file's name
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True  # else columns are those of the table, in its order
    multiline: bool = False  # quoted values may hold line breaks: the file cannot be cut
    null_text: str = ""  # what stands for null, if it is not quoted

    def __post_init__(self) -> None:
        """Refuse signs that are none."""
        for name in ("delimiter", "quote", "escape"):
            sign = getattr(self, name)
            if len(sign.encode()) > 1 or (name == "delimiter" and not sign):
                raise InvalidInputError(f"The {name} {sign!r} is not one ASCII character.", option=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFile:
    """One file as it was found."""

    path: str
    size_bytes: int
    file_format: InputFormat
    codec: str = ""  # a compression around a text file


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPiece:
    """A part of a file: row groups, stripes or bytes from ``start`` up to ``end``; -1: to the end."""

    file: LoadFile
    size_bytes: int
    start: int = 0
    end: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the file is left for others."""
        return self.start == 0 and self.end == -1


def expand_globs(io: FileIO, path: str) -> tuple[str, ...]:
    """The paths that a pattern means, in order: ``*``, ``?``, ``[a-c]`` in a name, ``**`` for folders of any depth.

    A path that exists is taken as it is, whatever its name holds. Hidden names match only a pattern that begins so.
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
    # What is below a folder that matches comes with the folder, and must not come twice.
    return tuple(sorted(one for one in found if found.isdisjoint(_folders_above(one))))


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _match(io: FileIO, folder: str, patterns: list[str]) -> Iterator[str]:
    first, *rest = patterns
    if first == "**":
        yield from _match(io, folder, rest or ["*"])
    try:
        entries = list(io.list_dir(folder or "/"))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        is_hidden = entry.name.startswith((".", "_")) and not first.startswith((".", "_"))
        if is_hidden or not (first == "**" or fnmatch.fnmatchcase(entry.name, first)):
            continue
        path = f"{folder}/{entry.name}"
        if first == "**":
            if entry.kind is Kind.DIRECTORY:
                yield from _match(io, path, patterns)
        elif not rest:
            yield path
        elif entry.kind is Kind.DIRECTORY:
            yield from _match(io, path, rest)


def find_files(
    io: FileIO,
    paths: Iterable[str],
    *,
    options: InputOptions,
    check_folder: Callable[[str, list[Entry]], None] | None = None,
) -> tuple[LoadFile, ...]:
    """Find the files of all paths; of a folder all that are not hidden, in the order of their names.

    ``check_folder`` is called with every folder on the way down and what is in it, and may raise.
    """
    roots = [path.rstrip("/") or "/" for path in paths]
    found = [file for root in roots for file in _find(io, root, options=options, check_folder=check_folder)]
    if not found:
        raise InvalidInputError("There is no file to load: the folders are empty.")
    return tuple(found)


def split_files(
    io: FileIO, files: Iterable[LoadFile], *, task_bytes: int, options: InputOptions
) -> Iterator[tuple[InputPiece, ...]]:
    """Cut big files and put small ones together, in the files' order: each group is the work of one task."""
    group: list[InputPiece] = []
    room = task_bytes
    for piece in (piece for file in files for piece in _split(io, file, task_bytes=task_bytes, options=options)):
        if group and piece.size_bytes > 2 * room:  # else it is nearer to the size asked for with the piece
            yield tuple(group)
            group, room = [], task_bytes
        group.append(piece)
        room -= piece.size_bytes
    if group:
        yield tuple(group)


def unreadable(path: str, kind: str, error: BaseException) -> UnreadableFileError:
    """The error of a file that is not what its name says."""
    return UnreadableFileError(f"{path} is no readable {kind} file: {one_line(error)}.", file=path)


def _find(
    io: FileIO, path: str, *, options: InputOptions, check_folder: Callable[[str, list[Entry]], None] | None
) -> Iterator[LoadFile]:
    entry = io.stat(path)
    if entry is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    if entry.kind is not Kind.DIRECTORY:
        yield _describe(io, path, size_bytes=entry.size_bytes, options=options)
        return
    children = sorted(io.list_dir(path), key=lambda child: child.name)
    if check_folder is not None:
        check_folder(path, children)
    for child in children:
        if child.name.startswith(("_", ".")) or not _is_data(child):
            continue
        if child.kind is Kind.DIRECTORY and _PARTITION.fullmatch(child.name):
            raise InvalidInputError(
                f"{path} is partitioned ({child.name}), and the column of a folder's name is in no file; "
                "load it as a DataFrame.",
                path=path,
            )
        yield from _find(io, f"{path}/{child.name}", options=options, check_folder=check_folder)


def _is_data(child: Entry) -> bool:
    return child.kind is Kind.DIRECTORY or child.size_bytes > 0


def _describe(io: FileIO, path: str, *, size_bytes: int, options: InputOptions) -> LoadFile:
    *_, before, last = ["", "", *path.rpartition("/")[2].lower().split(".")]
    codec = _CODECS.get(last, "")
    ending = before if codec else last
    file_format = options.file_format or _ENDINGS.get(ending) or _sniff(io, path)
    if file_format is None:
        raise InvalidInputError(f"{path}: give the format, the name does not tell it ({', '.join(InputFormat)}).")
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
    """Cut between row groups or stripes, where the parts are nearest to equal."""
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
    with blame_file(file.path, f"is no readable {file.file_format} file"), io.open_input(file.path) as source:
        if file.file_format is not InputFormat.PARQUET:
            return _stripe_bytes(source)
        check_footer(source, file.path)
        return _group_bytes(source)


def _group_bytes(source: Any) -> list[int]:  # noqa: ANN401 - a NativeFile
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    metadata = pq.read_metadata(source)
    return [_compressed_bytes(metadata.row_group(at)) for at in range(metadata.num_row_groups)] or [0]


def _compressed_bytes(group: Any) -> int:  # noqa: ANN401 - metadata of a row group
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))


def _stripe_bytes(source: Any) -> list[int]:  # noqa: ANN401 - a NativeFile
    return [stripe.size_bytes for stripe in tail_of(source).stripes] or [0]
