"""The segment file: which data files a segment has, in which order, sorted by what. Written once, never changed.

Files of one *run* are in sort order and do not overlap; different runs may. Without a sort there is one run, in the
order of writing. A merged segment of a sorted table has a single run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError
from packstone.model.codec import dump_record, load_record
from packstone.model.segment import SegmentId
from packstone.tables.segments.layout import segment_file_name, segment_file_path, segments_folder
from packstone.tables.segments.properties import SortScope

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file."""

    path: str  # relative to the table
    run: int
    rows: int
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.path} run {self.run} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """All about the files of one segment; ``schema`` is the DDL that they were written with."""

    id: SegmentId
    attempt: str
    files: tuple[DataFile, ...]
    sort_columns: tuple[str, ...]
    sort_scope: SortScope
    schema: str
    index_file: str  # a name in Metadata/index
    rows: int
    data_bytes: int

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


def read_segment_file(io: FileIO, table: str, name: str) -> SegmentFile:
    """Read a segment file; CorruptionError if it is damaged or gone although the status names it.

    Of an old version it may have been cleaned: FileNotFoundError is then the caller's to understand, so it is kept.
    """
    path = segment_file_path(table, name)
    try:
        segment = load_record(SegmentFile, io.read_bytes(path), path=path)
    except CorruptionError as error:
        raise CorruptionError(
            f"The segment file {path} is damaged; restore it from a backup, or delete the segment.", file=path
        ) from error
    if segment.name != name:
        raise CorruptionError(f"{path} says that it is the segment file {segment.name}.", file=path)
    return segment
