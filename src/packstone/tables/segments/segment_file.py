"""The segment file: which data files a segment has, in which order, sorted by what. Written once, never changed.

Files of one *run* are in sort order and do not overlap; different runs may. Without a sort there is one run, in the
order of writing. A merged segment of a sorted table has a single run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.model.codec import damaged, dump_record, load_record
from packstone.model.record_fields import Count, Name, RelativePath, RunId
from packstone.model.segment import SegmentId
from packstone.tables.segments.layout import (
    index_file_name,
    segment_file_name,
    segment_file_path,
    segment_folder,
    segments_folder,
)
from packstone.tables.segments.properties import SortScope

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file."""

    path: RelativePath  # to the table
    run: Count
    rows: Count
    size_bytes: Count

    def __str__(self) -> str:
        return f"{self.path} run {self.run} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """All about the files of one segment; ``schema`` is the DDL that they were written with."""

    id: SegmentId
    attempt: RunId
    files: tuple[DataFile, ...]
    sort_columns: tuple[str, ...]
    sort_scope: SortScope
    schema: str
    index_file: Name  # in Metadata/index
    index_digest: str = ""  # of that file; empty in segments of an older packstone
    rows: Count
    data_bytes: Count

    def __post_init__(self) -> None:
        """All names follow from the id and the attempt: a record that names other files is not believed."""
        if self.index_file != index_file_name(self.id, self.attempt):
            raise ValueError(f"{self.index_file[:100]!r} is not the name of its index file")
        folder = f"{segment_folder(self.id)}/"
        paths = {file.path for file in self.files}
        if not all(path.startswith(folder) and "/" not in path.removeprefix(folder) for path in paths):
            raise ValueError(f"a data file is not in {folder}")
        if len(paths) < len(self.files):
            raise ValueError("a data file is listed twice")
        totals = (sum(file.rows for file in self.files), sum(file.size_bytes for file in self.files))
        if totals != (self.rows, self.data_bytes):
            raise ValueError("its rows and bytes are not those of its files")

    @property
    def name(self) -> str:
        """Its name in Metadata/segments."""
        return segment_file_name(self.id, self.attempt)

    def __str__(self) -> str:
        return f"{self.id} {len(self.files)} files {self.rows} rows {self.data_bytes}B {self.sort_scope}"


def write_segment_file(io: FileIO, table: str, segment: SegmentFile) -> str:
    """Write it under a name of its own, which the status then takes up; return the name."""
    io.make_dirs(segments_folder(table))
    io.write_new(segment_file_path(table, segment.name), dump_record(segment))
    return segment.name


def read_segment(io: FileIO, table: str, entry: StatusEntry) -> SegmentFile:
    """Read the segment file of an entry of the status; CorruptionError if it is damaged or another segment's.

    Of an old version it may have been cleaned: FileNotFoundError is then the caller's to understand, so it is kept.
    """
    segment = read_segment_file(io, table, entry.segment_file or "")
    found = (segment.id, segment.attempt, segment.rows, len(segment.files))
    if found != (entry.id, entry.attempt, entry.rows, entry.files):
        path = segment_file_path(table, entry.segment_file or "")
        raise damaged(path, f"it is not what the status says of segment {entry.id}")
    return segment


def read_segment_file(io: FileIO, table: str, name: str) -> SegmentFile:
    """Read a segment file by its name; CorruptionError if it is damaged, FileNotFoundError if it is gone."""
    path = segment_file_path(table, name)
    segment = load_record(SegmentFile, io.read_bytes(path), path=path)
    if segment.name != name:
        raise damaged(path, f"it says that it is {segment.name}")
    return segment
