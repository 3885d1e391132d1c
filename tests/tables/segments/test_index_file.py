"""The index of a segment is the parts of its files, and is read back as it was written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from packstone.errors import CorruptionError, RefusedError
from packstone.rewrite.ordered.block_writer import BlockWriter
from packstone.rewrite.ordered.ordered_spec import BlockOutput
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.index_file import index_schema, join_parts, read_index, write_index

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64())), ("f", pa.float32())])
PATH = "/t/Metadata/index/0_a.arrow"


def write_part(io, first, rows):
    """Write a file of two rows a row group; return its part."""
    numbers = range(first, first + rows)
    table = pa.table(
        [pa.array(numbers), [f"text {at}" for at in numbers], [[at] for at in numbers], [None] * rows], schema=SCHEMA
    )
    output = BlockOutput(directory="/t", block_rows=2, sort_columns=("k",))
    writer = BlockWriter(io, output, schema=SCHEMA, name_file=lambda _: f"f{first}.parquet")
    for batch in table.to_batches():
        writer.write(batch)
    return writer.close()[0].part


def make_index(io):
    """The index of two files."""
    io.make_dirs("/t")
    io.make_dirs("/t/Metadata/index")
    return join_parts([write_part(io, 0, 3), write_part(io, 10, 4)], schema=SCHEMA, sort_columns=("k",))


def test_parts_are_joined_in_the_order_of_files():
    """One row for each row group, with the place of its file."""
    index = make_index(MemoryFileIO())
    assert index.schema == index_schema(SCHEMA, ("k",))
    assert index.column("file").to_pylist() == [0, 0, 1, 1]
    assert index.column("row_group").to_pylist() == [0, 1, 0, 1]
    assert index.column("rows").to_pylist() == [2, 1, 2, 2]
    assert index.column("start.k").to_pylist() == [0, 2, 10, 12]
    assert index.column("end.k").to_pylist() == [1, 2, 11, 13]
    assert index.column("max.s").to_pylist() == [b"text 1", b"text 2", b"text 11", b"text 13"]
    assert index.column("nulls.f").to_pylist() == [2, 1, 2, 2]
    assert "min.l" not in index.schema.names


def test_an_index_is_read_back_as_written():
    """Also one without any rows."""
    io = MemoryFileIO()
    for at, index in enumerate((make_index(io), join_parts([], schema=SCHEMA, sort_columns=("k",)))):
        size_bytes = write_index(io, f"{PATH}{at}", index)
        assert io.stat(f"{PATH}{at}").size_bytes == size_bytes
        assert read_index(io, f"{PATH}{at}").equals(index, check_metadata=True)
        with pytest.raises(FileExistsError):
            write_index(io, f"{PATH}{at}", index)


def test_a_part_of_another_table_is_refused():
    """Parts must have the columns that the schema asks for."""
    io = MemoryFileIO()
    io.make_dirs("/t")
    part = write_part(io, 0, 3)
    with pytest.raises(CorruptionError, match="part of file 0"):
        join_parts([part], schema=SCHEMA, sort_columns=("s",))


def test_what_is_no_index_is_told():
    """Gone, torn, another Arrow file, or one by a newer packstone."""
    io = MemoryFileIO()
    index = make_index(io)
    with pytest.raises(CorruptionError, match="is gone"):
        read_index(io, PATH)
    write_index(io, PATH, index)
    io.replace(PATH, io.read_bytes(PATH)[:-20])
    with pytest.raises(CorruptionError, match="broken"):
        read_index(io, PATH)
    for metadata, error in ((None, CorruptionError), ({b"format_version": b"2"}, RefusedError)):
        io.remove(PATH)
        write_index(io, PATH, index.replace_schema_metadata(metadata))
        with pytest.raises(error):
            read_index(io, PATH)
