"""What a merge reads: the files of its segments, sorted ones with their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError, RefusedError
from packstone.rewrite.ordered.ordered_spec import OrderedFile
from packstone.tables.segments.column_types import to_ddl
from packstone.tables.segments.index_file import join_parts, read_index
from packstone.tables.segments.layout import data_file_path
from packstone.tables.segments.plan_merge import (
    KeyedFile,
    MergePiece,
    keyed_files,
    needs_sorting_first,
    plan_joining,
    plan_pieces,
    plan_sorting,
)
from packstone.tables.segments.segment_file import read_segment
from packstone.tables.segments.segments_view import is_sorted_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.column_types import Column
    from packstone.tables.segments.properties import Properties
    from packstone.tables.segments.segment_file import SegmentFile
    from packstone.tables.segments.status import StatusEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInputs:
    """The files of one merge; without sort columns all of them are ``plain``, in their order."""

    keyed: tuple[KeyedFile, ...] = ()
    unsorted: tuple[OrderedFile, ...] = ()
    plain: tuple[OrderedFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """How much is read."""
        files = (*(one.file for one in self.keyed), *self.unsorted, *self.plain)
        return sum(file.size_bytes for file in files)

    def sorting(self, *, task_bytes: int) -> tuple[MergePiece, ...]:
        """What has to be sorted before it can be merged in pieces; mostly nothing."""
        if not needs_sorting_first(self.keyed, self.unsorted, task_bytes=task_bytes):
            return ()
        return plan_sorting(self.unsorted, task_bytes=task_bytes)

    def pieces(self, *, task_bytes: int) -> tuple[MergePiece, ...]:
        """The work, in the order of keys."""
        if self.plain:
            return plan_joining(self.plain, task_bytes=task_bytes)
        return plan_pieces(self.keyed, self.unsorted, task_bytes=task_bytes)

    def with_sorted(
        self, runs: Iterable[Sequence[WrittenBlockFile]], *, schema: pa.Schema, sort_columns: Sequence[str]
    ) -> MergeInputs:
        """Put sorted runs in the place of the unsorted files."""
        keyed = list(self.keyed)
        for written in runs:
            files = [OrderedFile(path=one.path, size_bytes=one.size_bytes, rows=one.rows) for one in written]
            index = join_parts([one.part for one in written], schema=schema, sort_columns=sort_columns)
            keyed += keyed_files(files, index, sort_columns)
        return MergeInputs(keyed=tuple(keyed))


def read_merge_inputs(
    io: FileIO, table: str, entries: Sequence[StatusEntry], *, columns: Sequence[Column], properties: Properties
) -> MergeInputs:
    """Read the segment and index files of segments in id order; what is missing or damaged is a CorruptionError."""
    keyed: list[KeyedFile] = []
    unsorted: list[OrderedFile] = []
    plain: list[OrderedFile] = []
    for entry in entries:
        segment = read_entry_file(io, table, entry)
        _check_schema(segment, columns)
        files = [
            OrderedFile(path=data_file_path(table, file.path), size_bytes=file.size_bytes, rows=file.rows)
            for file in segment.files
        ]
        if not properties.sort_columns:
            plain += files
        elif is_sorted_as(segment, properties):
            keyed += _read_keys(io, table, segment, files=files, properties=properties)
        else:
            unsorted += files
    return MergeInputs(keyed=tuple(keyed), unsorted=tuple(unsorted), plain=tuple(plain))


def read_entry_file(io: FileIO, table: str, entry: StatusEntry) -> SegmentFile:
    """The segment file of a live entry, which has to be there."""
    try:
        return read_segment(io, table, entry)
    except FileNotFoundError as error:
        raise CorruptionError(
            f"The segment file {entry.segment_file} of segment {entry.id} is gone; restore it from a backup, or delete "
            "the segment.",
            segment=str(entry.id),
        ) from error


def _read_keys(
    io: FileIO, table: str, segment: SegmentFile, *, files: list[OrderedFile], properties: Properties
) -> tuple[KeyedFile, ...]:
    index = read_index(io, table, segment)
    return keyed_files(files, index, properties.sort_columns)


def _check_schema(segment: SegmentFile, columns: Sequence[Column]) -> None:
    if segment.schema != to_ddl(columns):
        raise RefusedError(
            f"Segment {segment.id} was written with other columns ({segment.schema}) than the table has now, and "
            "merging it would need them to be reconciled."
        )
