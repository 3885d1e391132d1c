"""The index of a segment: an Arrow table with one row for each row group of each file.

The columns are those of ``rewrite.block_facts``, and before them `file`, the place of the file in the segment file. It
is written once, as an Arrow IPC file, and never changed; what a newer packstone wrote in another form is refused.

A scan reads no row group that the index excludes, so a changed bit in it would lose rows without a word: the segment
file has its digest, which is compared each time it is read (0.1 ms for 100 KB), and what it says must fit the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.ordered.block_facts import part_schema, read_part
from packstone.tables.segments.column_types import parse_columns, to_arrow
from packstone.tables.segments.layout import index_file_path

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.segment_file import SegmentFile

INDEX_FORMAT_VERSION = 1
_VERSION_KEY = b"format_version"
_VERSION_DIGITS: Final = 9
_DIGEST_BYTES: Final = 16
_NEEDED: Final = {"file": pa.int32(), "row_group": pa.int32(), "rows": pa.int64(), "size_bytes": pa.int64()}


def index_schema(schema: pa.Schema, sort_columns: Sequence[str]) -> pa.Schema:
    """The columns of the index of a segment with these columns."""
    return pa.schema(
        [pa.field("file", pa.int32()), *part_schema(schema, sort_columns)],
        metadata={_VERSION_KEY: str(INDEX_FORMAT_VERSION).encode()},
    )


def join_parts(parts: Sequence[bytes], *, schema: pa.Schema, sort_columns: Sequence[str]) -> pa.Table:
    """Join the parts of all files of a segment, in the order in which the segment file lists them."""
    wanted = index_schema(schema, sort_columns)
    batches = []
    for at, part in enumerate(parts):
        batch = read_part(part)
        if batch.schema != pa.schema(list(wanted)[1:]):
            raise CorruptionError(f"The part of file {at} is not that of a file with the columns of the table.")
        file = to_column(np.full(batch.num_rows, at, dtype=np.int32))
        batches.append(pa.RecordBatch.from_arrays([file, *batch.columns], schema=wanted))
    return pa.Table.from_batches(batches, schema=wanted).combine_chunks()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIndex:
    """What the segment file records of its index file."""

    size_bytes: int
    digest: str


def write_index(io: FileIO, path: str, index: pa.Table) -> WrittenIndex:
    """Create the index file, durably and whole; FileExistsError if it exists."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, index.schema, options=options) as writer:
        writer.write_table(index)
    data = sink.getvalue().to_pybytes()
    io.write_new(path, data)
    return WrittenIndex(size_bytes=len(data), digest=_digest(data))


def read_index(io: FileIO, table: str, segment: SegmentFile) -> pa.Table:
    """Read the index of a segment; CorruptionError if it is not the one that was written, or does not fit the files."""
    path = index_file_path(table, segment.index_file)
    try:
        data = io.read_bytes(path)
    except FileNotFoundError as error:
        raise CorruptionError(f"{path}, the index of segment {segment.id}, is gone.", file=path) from error
    if segment.index_digest and _digest(data) != segment.index_digest:
        raise damaged_index(path, "its digest is not the one in the segment file")
    index = _decode(data, path=path, is_sure=bool(segment.index_digest))
    _check_fits(index, segment, path=path)
    return index


def damaged_index(path: str, why: str) -> CorruptionError:
    """The error for an index that must not be used: pruning by it would lose rows."""
    return CorruptionError(
        f"The index file {path} is damaged: {why}. Put it back from a copy; nothing was changed.", file=path
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _decode(data: bytes, *, path: str, is_sure: bool) -> pa.Table:
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            index = reader.read_all()
        if not is_sure:  # of a table that an older packstone wrote; offsets in it may lead anywhere
            index.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise damaged_index(path, "it is not the Arrow file that was written") from error
    version = (index.schema.metadata or {}).get(_VERSION_KEY, b"")
    if not version.isdigit() or len(version) > _VERSION_DIGITS:
        raise damaged_index(path, "it is an Arrow file but no index")
    if int(version) > INDEX_FORMAT_VERSION:
        raise RefusedError(f"{path} was written by a newer packstone; upgrade this one to read it.", file=path)
    return index


def _check_fits(index: pa.Table, segment: SegmentFile, *, path: str) -> None:
    """Every row group belongs to a file, and those of a file have its rows: else a scan would miss some."""
    columns = {field.name: field.type for field in index.schema}
    if len(columns) < len(index.schema) or any(columns.get(name) != kind for name, kind in _NEEDED.items()):
        raise damaged_index(path, "columns are missing, or of another type")
    try:
        wanted = index_schema(to_arrow(parse_columns(segment.schema)), segment.sort_columns)
    except (InvalidInputError, KeyError) as error:
        raise damaged_index(path, f"the columns of segment {segment.id} are unknown") from error
    if any(field.name in columns and columns[field.name] != field.type for field in wanted):
        raise damaged_index(path, "a column is of another type than that of the segment")
    if any(index.column(name).null_count for name in _NEEDED):
        raise damaged_index(path, "a row group without a place or a size")
    file, group, rows, size = (index.column(name).to_numpy() for name in _NEEDED)
    count = len(segment.files)
    if len(file) and (min(file.min(), group.min(), rows.min(), size.min()) < 0 or file.max() >= count):
        raise damaged_index(path, "a row group is in no file of the segment")
    starts = np.searchsorted(file, file)  # right only if files are in order, which the next line finds out
    if not (np.array_equal(file, np.sort(file)) and np.array_equal(group, np.arange(len(file)) - starts)):
        raise damaged_index(path, "its row groups are not those of the files, one after the other")
    found = np.bincount(file, weights=rows, minlength=count) if len(file) else np.zeros(count)
    if found.tolist() != [data.rows for data in segment.files]:
        raise damaged_index(path, "its row groups do not have the rows of the files")
