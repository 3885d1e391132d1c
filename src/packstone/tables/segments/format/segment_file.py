"""The segment file, which lists a segment's data files, and its index file. Both are written once, never changed.

Files of one *run* are in sort order and do not overlap; different runs may. Without a sort there is one run, in the
order of writing. A merged segment of a sorted table has a single run.

The index is an Arrow IPC file with one row for each row group of each data file. Its columns are `file`, the position
of the file in the segment file, and those of ``rewrite.block_facts``. A format of a newer packstone is refused. A scan
reads no row group that the index excludes, so a changed bit in it would silently lose rows: the segment file has its
digest, which is checked at each read (0.1 ms for 100 KB), and the index must agree with the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.codec import Count, Name, RelativePath, RunId, damaged, dump_record, load_record
from packstone.model.segment import SegmentId
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.sorted_merge.block_facts import part_schema, read_part
from packstone.tables.segments.format.columns import parse_columns, to_arrow
from packstone.tables.segments.format.layout import (
    index_file_name,
    index_file_path,
    segment_file_name,
    segment_file_path,
    segment_folder,
    segments_folder,
)
from packstone.tables.segments.format.properties import SortScope

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import StatusEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file."""

    path: RelativePath  # to the table
    run: Count
    rows: Count
    size_bytes: Count
    bloom_crc: Count = 0  # of its bloom filters; 0 if it has none, or an older packstone wrote it
    page_index_crc: Count = 0  # of its page indexes, if there is a digest of the footer
    footer_digest: str = ""  # empty in files of an older packstone

    def __str__(self) -> str:
        return f"{self.path} run {self.run} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """The files of one segment; ``schema`` is the DDL that they were written with."""

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
        """Check the names, which follow from the id and the attempt: a record that names other files is refused."""
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
    """Write a segment file under its unique name, for the status to refer to; return the name."""
    io.make_dirs(segments_folder(table))
    io.write_new(segment_file_path(table, segment.name), dump_record(segment))
    return segment.name


def read_segment(io: FileIO, table: str, entry: StatusEntry) -> SegmentFile:
    """Read the segment file of an entry of the status; CorruptionError if it is damaged or another segment's.

    For an old version, clean may have removed it: the caller must interpret a FileNotFoundError, so it is passed on.
    """
    segment = read_segment_file(io, table, entry.segment_file or "")
    found = (segment.id, segment.attempt, segment.rows, len(segment.files))
    if found != (entry.id, entry.attempt, entry.rows, entry.files):
        path = segment_file_path(table, entry.segment_file or "")
        raise damaged(path, f"it is not what the status says of segment {entry.id}")
    return segment


def read_segment_file(io: FileIO, table: str, name: str) -> SegmentFile:
    """Read a segment file by its name; CorruptionError if it is damaged, FileNotFoundError if it is missing."""
    path = segment_file_path(table, name)
    segment = load_record(SegmentFile, io.read_bytes(path), path=path)
    if segment.name != name:
        raise damaged(path, f"it says that it is {segment.name}")
    return segment


# ---- index file ----


INDEX_FORMAT_VERSION = 1
_VERSION_KEY = b"format_version"
_VERSION_DIGITS: Final = 9
_DIGEST_BYTES: Final = 16
_IN_THIS_THREAD: Final = pa.ipc.IpcReadOptions(use_threads=False)  # most indexes are small, and there may be thousands
_NEEDED: Final = {"file": pa.int32(), "row_group": pa.int32(), "rows": pa.int64(), "size_bytes": pa.int64()}


def index_schema(schema: pa.Schema, sort_columns: Sequence[str]) -> pa.Schema:
    """The columns of the index of a segment with these columns."""
    return pa.schema(
        [pa.field("file", pa.int32()), *part_schema(schema, sort_columns)],
        metadata={_VERSION_KEY: str(INDEX_FORMAT_VERSION).encode()},
    )


@lru_cache(maxsize=64)  # nearly all segments of a table have the same
def _wanted_schema(ddl: str, sort_columns: tuple[str, ...]) -> pa.Schema:
    return index_schema(to_arrow(parse_columns(ddl)), sort_columns)


def join_parts(parts: Sequence[bytes], *, schema: pa.Schema, sort_columns: Sequence[str]) -> pa.Table:
    """Join the parts of all files of a segment, in the order in which the segment file lists them."""
    wanted = index_schema(schema, sort_columns)
    batches = []
    for at, part in enumerate(parts):
        batch = read_part(part)
        if batch.schema != pa.schema(list(wanted)[1:]):
            raise CorruptionError(f"The index part of file {at} does not have the columns of the table.")
        file = to_column(np.full(batch.num_rows, at, dtype=np.int32))
        batches.append(pa.RecordBatch.from_arrays([file, *batch.columns], schema=wanted))
    return pa.Table.from_batches(batches, schema=wanted).combine_chunks()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIndex:
    """The facts about an index file that the segment file records."""

    size_bytes: int
    digest: str


def write_index(io: FileIO, path: str, index: pa.Table) -> WrittenIndex:
    """Create the index file, durably and atomically; FileExistsError if it exists."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, index.schema, options=options) as writer:
        writer.write_table(index)
    data = sink.getvalue().to_pybytes()
    io.write_new(path, data)
    return WrittenIndex(size_bytes=len(data), digest=_digest(data))


def read_index(io: FileIO, table: str, segment: SegmentFile) -> pa.Table:
    """Read the index of a segment; CorruptionError if it is not what was written, or does not match the files."""
    path = index_file_path(table, segment.index_file)
    try:
        data = io.read_bytes(path)
    except FileNotFoundError as error:
        raise CorruptionError(f"{path}, the index of segment {segment.id}, is missing.", file=path) from error
    if segment.index_digest and _digest(data) != segment.index_digest:
        raise damaged_index(path, "its digest is not the one in the segment file")
    index = _decode(data, path=path, is_sure=bool(segment.index_digest))
    _check_fits(index, segment, path=path)
    return index


def damaged_index(path: str, why: str) -> CorruptionError:
    """The error for an index that must not be used: pruning by it would lose rows."""
    return CorruptionError(
        f"The index file {path} is damaged: {why}. Restore it from a copy; nothing was changed.", file=path
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _decode(data: bytes, *, path: str, is_sure: bool) -> pa.Table:
    try:
        with pa.ipc.open_file(pa.py_buffer(data), options=_IN_THIS_THREAD) as reader:
            index = reader.read_all()
        if not is_sure:  # written by an older packstone, without a digest: its offsets may be invalid
            index.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise damaged_index(path, "it is not the Arrow file that was written") from error
    version = (index.schema.metadata or {}).get(_VERSION_KEY, b"")
    if not version.isdigit() or len(version) > _VERSION_DIGITS:
        raise damaged_index(path, "it is an Arrow file but not an index")
    if int(version) > INDEX_FORMAT_VERSION:
        raise RefusedError(f"{path} was written by a newer packstone; upgrade this one to read it.", file=path)
    return index


def _check_fits(index: pa.Table, segment: SegmentFile, *, path: str) -> None:
    """Check that every row group belongs to a file, and that the row counts match: else a scan would miss rows."""
    columns = {field.name: field.type for field in index.schema}
    if len(columns) < len(index.schema) or any(columns.get(name) != kind for name, kind in _NEEDED.items()):
        raise damaged_index(path, "columns are missing, or of another type")
    try:
        wanted = _wanted_schema(segment.schema, segment.sort_columns)
    except (InvalidInputError, KeyError) as error:
        raise damaged_index(path, f"the columns of segment {segment.id} are unknown") from error
    if any(field.name in columns and columns[field.name] != field.type for field in wanted):
        raise damaged_index(path, "a column is of another type than that of the segment")
    if any(index.column(name).null_count for name in _NEEDED):
        raise damaged_index(path, "a row group has no position or no size")
    file, group, rows, size = (index.column(name).to_numpy() for name in _NEEDED)
    count = len(segment.files)
    if len(file) and (min(file.min(), group.min(), rows.min(), size.min()) < 0 or file.max() >= count):
        raise damaged_index(path, "a row group is in no file of the segment")
    starts = np.searchsorted(file, file)  # correct only if files are in order, which the next line checks
    if not (np.array_equal(file, np.sort(file)) and np.array_equal(group, np.arange(len(file)) - starts)):
        raise damaged_index(path, "its row groups are not those of the files, in order")
    found = np.bincount(file, weights=rows, minlength=count) if len(file) else np.zeros(count)
    if found.tolist() != [data.rows for data in segment.files]:
        raise damaged_index(path, "its row groups do not have the rows of the files")
