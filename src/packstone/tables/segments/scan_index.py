"""The indexes of all segments of a version, as a scan tests them.

Reading them takes longer than testing them, so both are kept: the index of each segment (a segment file is written
once, so its name is its version), and for each version of the table the indexes joined, because one test over all
row groups is quicker than one for each of a hundred segments. Segments that are big and sorted stay apart: they have a
tree over their sort keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError
from packstone.pruning.key_tree import SortedKeys, build_sorted_keys
from packstone.pruning.prune import SEARCH_COST_BLOCKLETS
from packstone.tables.segments.index_file import read_index
from packstone.tables.segments.segment_file import DataFile, SegmentFile, read_segment
from packstone.tables.segments.status_files import list_versions

if TYPE_CHECKING:
    from packstone.scan.caches import ScanCaches
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry, TableStatus

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_FILE_BYTES = 400  # what the record of a file takes in memory
# An index of fewer row groups is never searched (`pruning.prune`), so its tree need not be built.
_SEARCHED_FROM = 2 * SEARCH_COST_BLOCKLETS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentIndex:
    """One segment as it was read."""

    segment: SegmentFile
    index: pa.Table

    @property
    def nbytes(self) -> int:
        """Memory."""
        return int(self.index.nbytes) + len(self.segment.files) * _FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexPart:
    """Row groups that are tested together; ``file`` and ``segment`` number those of the version."""

    index: pa.Table
    file: Numbers
    segment: Numbers
    keys: SortedKeys | None = None
    is_sorted: bool = False  # it is, but so small that it is never searched

    @property
    def nbytes(self) -> int:
        """Memory."""
        keys = 0 if self.keys is None else self.keys.nbytes
        return int(self.index.nbytes) + self.file.nbytes + self.segment.nbytes + keys


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VersionIndex:
    """All of a version."""

    files: tuple[DataFile, ...]
    segments: int
    parts: tuple[IndexPart, ...]

    @property
    def nbytes(self) -> int:
        """Memory."""
        return sum(part.nbytes for part in self.parts) + len(self.files) * _FILE_BYTES


def read_version_index(io: FileIO, table: str, status: TableStatus, *, caches: ScanCaches) -> VersionIndex:
    """The index of a version, from the cache if it was asked for before."""

    def load() -> VersionIndex:
        return _join([_read_segment(io, table, entry, status=status, caches=caches) for entry in entries])

    entries = [entry for entry in status.live if entry.segment_file is not None]
    key = (status.table_id, status.version, status.commit)
    found: VersionIndex = caches.index.get_or_load(key, load, lambda one: one.nbytes)
    return found


def _read_segment(
    io: FileIO, table: str, entry: StatusEntry, *, status: TableStatus, caches: ScanCaches
) -> SegmentIndex:
    def load() -> SegmentIndex:
        try:
            segment = read_segment(io, table, entry)
            index = read_index(io, table, segment)
        except (FileNotFoundError, CorruptionError) as error:
            if isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError):
                raise _gone(io, table, status) from error
            raise
        return SegmentIndex(segment=segment, index=index)

    found: SegmentIndex = caches.index.get_or_load((status.table_id, entry.segment_file), load, lambda one: one.nbytes)
    return found


def _gone(io: FileIO, table: str, status: TableStatus) -> Exception:
    """Tell a version that was cleaned while it was read from one that is damaged."""
    if status.version not in list_versions(io, table):
        return InvalidInputError(
            f"Version {status.version} of {table} was cleaned while it was read; take a newer one."
        )
    return CorruptionError(
        f"{table}: a segment or index file that version {status.version} names is gone.", table=table
    )


def _join(segments: Sequence[SegmentIndex]) -> VersionIndex:
    files: list[DataFile] = []
    alone: list[IndexPart] = []
    together: dict[pa.Schema, list[IndexPart]] = {}
    for at, one in enumerate(segments):
        part = _number(one, first_file=len(files), segment=at)
        files += one.segment.files
        if part.keys is not None:
            alone.append(part)
        elif part.index.num_rows:
            together.setdefault(part.index.schema, []).append(part)
    joined = (_concatenate(parts) for parts in together.values())
    return VersionIndex(files=tuple(files), segments=len(segments), parts=(*alone, *joined))


def _number(one: SegmentIndex, *, first_file: int, segment: int) -> IndexPart:
    index, keys = one.index, None
    if index.num_rows >= _SEARCHED_FROM and one.segment.sort_columns:
        keys = build_sorted_keys(index, one.segment.sort_columns)
    file = index.column("file").to_numpy().astype(np.int64) + first_file
    return IndexPart(
        index=index,
        file=file,
        segment=np.full(len(file), segment, dtype=np.int64),
        keys=keys,
        is_sorted=bool(one.segment.sort_columns),
    )


def _concatenate(parts: Sequence[IndexPart]) -> IndexPart:
    if len(parts) == 1:
        return parts[0]
    return IndexPart(
        index=pa.concat_tables(_wanted_columns(parts)).combine_chunks(),
        file=np.concatenate([part.file for part in parts]),
        segment=np.concatenate([part.segment for part in parts]),
        is_sorted=any(part.is_sorted for part in parts),
    )


def _wanted_columns(parts: Sequence[IndexPart]) -> Iterable[pa.Table]:
    """Without the keys of first and last rows, which only a tree needs."""
    names = [name for name in parts[0].index.column_names if not name.startswith(("start.", "end.", "exact."))]
    return (part.index.select(names) for part in parts)
