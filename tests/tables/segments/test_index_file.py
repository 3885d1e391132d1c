"""The index of a segment is the parts of its files, and is read back as it was written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from packstone.errors import CorruptionError, RefusedError
from packstone.model.segment import SegmentId
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.spec import BlockOutput
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.format.properties import SortScope
from packstone.tables.segments.format.segment_file import (
    DataFile,
    SegmentFile,
    index_schema,
    join_parts,
    read_index,
    write_index,
)

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


def segment_of(*, digest="", rows=(3, 4), schema="k long, s string, l array<long>, f float"):
    """The segment that such an index belongs to."""
    files = tuple(
        DataFile(path=f"Fact/Segment_0/f{at}.parquet", run=0, rows=count, size_bytes=9) for at, count in enumerate(rows)
    )
    return SegmentFile(
        id=SegmentId(0),
        attempt="a",
        files=files,
        sort_columns=("k",),
        sort_scope=SortScope.GLOBAL_SORT,
        schema=schema,
        index_file="0_a.arrow",
        index_digest=digest,
        rows=sum(rows),
        data_bytes=9 * len(rows),
    )


def test_an_index_is_read_back_as_written():
    """Also one without any rows; the segment file has its digest."""
    io = MemoryFileIO()
    for index, rows in ((make_index(io), (3, 4)), (join_parts([], schema=SCHEMA, sort_columns=("k",)), ())):
        written = write_index(io, PATH, index)
        assert io.stat(PATH).size_bytes == written.size_bytes
        for digest in (written.digest, ""):  # an older packstone wrote none
            assert read_index(io, "/t", segment_of(digest=digest, rows=rows)).equals(index, check_metadata=True)
        with pytest.raises(FileExistsError):
            write_index(io, PATH, index)
        io.remove(PATH)


def test_a_part_of_another_table_is_refused():
    """Parts must have the columns that the schema asks for."""
    io = MemoryFileIO()
    io.make_dirs("/t")
    part = write_part(io, 0, 3)
    with pytest.raises(CorruptionError, match="part of file 0"):
        join_parts([part], schema=SCHEMA, sort_columns=("s",))


def test_what_is_not_an_index_is_reported():
    """Gone, torn, another Arrow file, or one by a newer packstone."""
    io = MemoryFileIO()
    index = make_index(io)
    with pytest.raises(CorruptionError, match="is missing"):
        read_index(io, "/t", segment_of())
    write_index(io, PATH, index)
    io.replace(PATH, io.read_bytes(PATH)[:-20])
    with pytest.raises(CorruptionError, match="damaged"):
        read_index(io, "/t", segment_of())
    for metadata, error in ((None, CorruptionError), ({b"format_version": b"2"}, RefusedError)):
        io.remove(PATH)
        write_index(io, PATH, index.replace_schema_metadata(metadata))
        with pytest.raises(error):
            read_index(io, "/t", segment_of())


def test_every_changed_bit_is_noticed():
    """One bit that differs, anywhere in the file, and the index is not used."""
    io = MemoryFileIO()
    digest = write_index(io, PATH, make_index(io)).digest
    whole = io.read_bytes(PATH)
    for at in range(len(whole)):
        io.replace(PATH, whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with pytest.raises(CorruptionError, match="digest"):
            read_index(io, "/t", segment_of(digest=digest))


def test_without_a_digest_a_changed_bit_is_not_a_bare_error():
    """An index of an older packstone that no longer decodes, or does not fit its files, is damaged."""
    io = MemoryFileIO()
    write_index(io, PATH, make_index(io))
    whole, found = io.read_bytes(PATH), 0
    for at in range(len(whole)):
        io.replace(PATH, whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            read_index(io, "/t", segment_of())
        except (CorruptionError, RefusedError):
            found += 1
    assert found > len(whole) // 4


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.slice(1),
        lambda index: pa.concat_tables([index, index]),
        lambda index: index.drop_columns(["rows"]),
        lambda index: index.set_column(0, "file", pa.array([0, 0, 1, 2], pa.int32())),
        lambda index: index.set_column(0, "file", pa.array([0, 0, 1, -1], pa.int32())),
        lambda index: index.set_column(0, "file", pa.array([0, 0, 1, None], pa.int32())),
        lambda index: index.set_column(0, "file", pa.array([0, 0, 1, 1], pa.int64())),
        lambda index: index.set_column(index.schema.get_field_index("min.k"), "min.k", pa.array(["a"] * 4)),
        lambda index: index.append_column("rows", index.column("rows")),
        lambda index: index.set_column(1, "row_group", pa.array([0, 1, 0, 7], pa.int32())),
        lambda index: index.set_column(1, "row_group", pa.array([0, 0, 0, 1], pa.int32())),
        lambda index: index.take([2, 3, 0, 1]),
    ],
)
def test_an_index_that_does_not_fit_its_files_is_damaged(change):
    """Of another segment, or with row groups that are missing, twice or in no file."""
    io = MemoryFileIO()
    changed = change(make_index(io)).replace_schema_metadata({b"format_version": b"1"})
    digest = write_index(io, PATH, changed).digest
    with pytest.raises(CorruptionError, match="damaged"):
        read_index(io, "/t", segment_of(digest=digest))
