"""The delete file, which lists the deleted rows of one segment by their positions in its data files.

A data file is never changed. Rows are deleted by a new version whose entry names a delete file: a Roaring bitmap for
each data file that has deleted rows, with the number of rows of each. The delete file contains all deleted rows of its
segment, so a segment has at most one, and each delete replaces it; older versions name the older ones. Like every
record it has a format version and a digest, and it must agree with the entry and the segment file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError
from packstone.model.codec import Count, Name, RelativePath, damaged, dump_record, load_record
from packstone.model.segment import SegmentId
from packstone.rewrite.formats.roaring import Positions, decode_roaring, encode_roaring
from packstone.tables.segments.format.layout import delete_file_path, deletes_folder

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.segment_file import SegmentFile
    from packstone.tables.segments.format.status import StatusEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """The deleted rows of one data file."""

    path: RelativePath  # of the data file, to the table
    rows: Count
    bitmap: bytes  # their positions, as a 32-bit Roaring bitmap

    def __str__(self) -> str:
        return f"{self.path} {self.rows} deleted rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """The deleted rows of one segment."""

    name: Name  # its own, in Metadata/deletes
    id: SegmentId
    segment_file: Name
    files: tuple[DeletedRows, ...]
    rows: Count

    def __post_init__(self) -> None:
        """Check the totals, and that no data file is listed twice."""
        if sum(file.rows for file in self.files) != self.rows or not all(file.rows for file in self.files):
            raise ValueError("its rows are not those of its files")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("a data file is listed twice")

    def __str__(self) -> str:
        return f"{self.id} {self.rows} deleted rows in {len(self.files)} files"


def make_delete_file(segment: SegmentFile, positions: Mapping[str, Positions], *, name: str) -> DeleteFile:
    """Return the delete file of a segment; ``positions`` are ascending, by the path of the data file."""
    found = tuple(
        DeletedRows(path=file.path, rows=len(positions[file.path]), bitmap=encode_roaring(positions[file.path]))
        for file in segment.files
        if file.path in positions and len(positions[file.path])
    )
    return DeleteFile(
        name=name, id=segment.id, segment_file=segment.name, files=found, rows=sum(one.rows for one in found)
    )


def write_delete_file(io: FileIO, table: str, content: DeleteFile) -> None:
    """Write a delete file under its unique name, for the status to refer to."""
    io.make_dirs(deletes_folder(table))
    io.write_new(delete_file_path(table, content.name), dump_record(content))


def read_deletes(io: FileIO, table: str, entry: StatusEntry, *, segment: SegmentFile) -> Mapping[str, Positions]:
    """Return the deleted positions of an entry's data files, ascending, by path; empty if no row is deleted.

    CorruptionError if the file is damaged, or does not agree with the entry and its segment file. For an old version,
    clean may have removed it: the caller must interpret a FileNotFoundError, so it is passed on.
    """
    if entry.delete_file is None:
        return {}
    content = read_delete_file(io, table, entry.delete_file)
    path = delete_file_path(table, entry.delete_file)
    if (content.segment_file, content.rows) != (entry.segment_file, entry.deleted_rows):
        raise damaged(path, f"it is not what the status says of segment {entry.id}")
    return positions_of(content, segment, path=path)


def read_delete_file(io: FileIO, table: str, name: str) -> DeleteFile:
    """Read a delete file by its name; CorruptionError if it is damaged, FileNotFoundError if it is missing."""
    path = delete_file_path(table, name)
    content = load_record(DeleteFile, io.read_bytes(path), path=path)
    if content.name != name:
        raise damaged(path, f"it says that it is {content.name}")
    return content


def positions_of(content: DeleteFile, segment: SegmentFile, *, path: str) -> Mapping[str, Positions]:
    """Return the positions by data file; CorruptionError unless these rows exist in the segment."""
    rows = {file.path: file.rows for file in segment.files}
    found = {}
    for one in content.files:
        try:
            positions, used = decode_roaring(one.bitmap)
        except CorruptionError as error:
            raise damaged(path, f"the bitmap of {posixpath.basename(one.path)} cannot be read") from error
        is_ascending = bool((positions[1:] > positions[:-1]).all())
        if used != len(one.bitmap) or len(positions) != one.rows or not is_ascending:
            raise damaged(path, f"the bitmap of {posixpath.basename(one.path)} does not have its rows")
        if positions[-1] >= rows.get(one.path, 0):
            raise damaged(path, f"segment {segment.id} does not have these rows of {posixpath.basename(one.path)}")
        found[one.path] = positions
    return found
