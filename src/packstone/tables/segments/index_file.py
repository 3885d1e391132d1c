"""The index of a segment: an Arrow table with one row for each row group of each file.

The columns are those of ``rewrite.block_facts``, and before them `file`, the place of the file in the segment file. It
is written once, as an Arrow IPC file, and never changed; what a newer packstone wrote in another form is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, RefusedError
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.ordered.block_facts import part_schema, read_part

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

INDEX_FORMAT_VERSION = 1
_VERSION_KEY = b"format_version"


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


def write_index(io: FileIO, path: str, index: pa.Table) -> int:
    """Create the index file, durably and whole, and return its size; FileExistsError if it exists."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, index.schema, options=options) as writer:
        writer.write_table(index)
    data = sink.getvalue().to_pybytes()
    io.write_new(path, data)
    return len(data)


def read_index(io: FileIO, path: str) -> pa.Table:
    """Read an index file; CorruptionError if it cannot be one."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError as error:
        raise CorruptionError(f"{path}, the index of a segment, is gone.", file=path) from error
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            index = reader.read_all()
    except pa.ArrowException as error:
        raise CorruptionError(f"{path} is no index file, or a broken one.", file=path) from error
    version = (index.schema.metadata or {}).get(_VERSION_KEY, b"")
    if not version.isdigit():
        raise CorruptionError(f"{path} is an Arrow file but no index.", file=path)
    if int(version) > INDEX_FORMAT_VERSION:
        raise RefusedError(f"{path} was written by a newer packstone; upgrade this one to read it.", file=path)
    return index
