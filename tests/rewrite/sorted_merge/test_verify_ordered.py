"""Whatever is wrong with the outputs or with what is recorded of them is found."""

from __future__ import annotations

import dataclasses

import make_ordered as made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import KeyRange, pack_schema, pack_value
from packstone.rewrite.sorted_merge.block_facts import read_part
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.sorted_merge.merge import merge_ordered
from packstone.rewrite.sorted_merge.spec import BlockOutput, WrittenBlocks
from packstone.rewrite.sorted_merge.verify import RowDigest, verify_ordered, verify_written

TABLE = pa.table(
    {
        "k": pa.array([None, 1, 1, 2, 3, 3, 3, 9], pa.int64()),
        "s": ["a", "b", "b", None, "", "c", "x" * 300, "d"],
        "f": [0.0, -0.0, float("nan"), 1.5, None, 2.0, 3.0, 4.0],
    }
)


def write(table, *, sort_columns=("k",), name="out.parquet", io=None):
    """Write rows as an output of three rows a row group."""
    io = io or made.make_io()
    io.make_dirs(made.FOLDER)
    output = BlockOutput(directory=made.FOLDER, sort_columns=sort_columns, block_rows=3)
    writer = BlockWriter(io, output, schema=table.schema, name_file=lambda _: name)
    for batch in table.to_batches():
        writer.write(batch)
    return io, writer.close()


def make_case(table=TABLE, **options):
    """A file, and the task to merge it."""
    io = made.make_io()
    file = made.put_file(io, "in.parquet", table)
    return io, made.make_spec(TABLE, ("k",), sections=(((file,),),), **options)


def change(table, column, row, value):
    """The same rows with another value."""
    values = table.column(column).to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


@pytest.mark.parametrize(
    "wrong",
    [
        TABLE.slice(1),
        pa.concat_tables([TABLE, TABLE.slice(7)]),
        pa.concat_tables([TABLE.slice(0, 6), TABLE.slice(5, 1), TABLE.slice(7)]),
        change(TABLE, "s", 4, None),
        change(TABLE, "s", 3, ""),
        change(TABLE, "s", 6, "x" * 299 + "y"),
        change(TABLE, "f", 0, -0.0),
        change(TABLE, "f", 2, 7.0),
        change(change(TABLE, "f", 3, 2.0), "f", 5, 1.5),
        change(TABLE, "k", 1, 0),
    ],
    ids=["lost", "more", "doubled", "null", "empty", "long", "zero", "nan", "swapped", "key"],
)
def test_other_rows_are_found(wrong):
    """A row lost, doubled or changed in any value, though all is sorted and recorded as it is."""
    io, spec = make_case()
    _, files = write(wrong, io=io)
    with pytest.raises(VerificationError, match="not those of the inputs"):
        verify_ordered(io, spec, files)


def test_disorder_is_found():
    """The right rows in a wrong order, within a file and between files."""
    io, spec = make_case()
    shuffled = TABLE.take(pa.array([0, 1, 2, 4, 3, 5, 6, 7]))
    _, files = write(shuffled, io=io)
    with pytest.raises(VerificationError, match="comes before"):
        verify_ordered(io, spec, files)
    _, first = write(TABLE.slice(0, 4), io=io, name="a.parquet")
    _, second = write(TABLE.slice(4), io=io, name="b.parquet")
    verify_ordered(io, spec, (*first, *second))
    with pytest.raises(VerificationError, match="comes before"):
        verify_ordered(io, spec, (*second, *first))
    with pytest.raises(VerificationError, match="listed twice"):
        verify_ordered(io, spec, (*first, *first))


def other_value(value, kind):
    """Another value of the type."""
    if pa.types.is_boolean(kind):
        return not value
    return (value or b"") + b"!" if pa.types.is_binary(kind) else (value or 0) * 2 + 1


@pytest.mark.parametrize("column", read_part(write(TABLE)[1][0].part).schema.names)
def test_every_fact_is_checked(column):
    """Whatever is recorded wrongly of a row group is found, be it the place of its pages."""
    io, spec = make_case()
    _, (file,) = write(TABLE, io=io)
    part = read_part(file.part)
    at = part.schema.get_field_index(column)
    values = part.column(at).to_pylist()
    kind = part.schema.field(at).type
    values[1] = other_value(values[1], kind)
    changed = part.set_column(at, part.schema.field(at), pa.array(values, kind))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, changed.schema) as writer:
        writer.write_batch(changed)
    wrong = dataclasses.replace(file, part=sink.getvalue().to_pybytes())
    with pytest.raises(VerificationError, match=r"recorded|bounds"):
        verify_ordered(io, spec, (wrong,))


def test_sizes_shapes_and_orders_are_checked():
    """The size, the number of rows, the columns and the order that the footer states."""
    io, spec = make_case()
    _, (file,) = write(TABLE, io=io)
    for wrong in (dataclasses.replace(file, size_bytes=1), dataclasses.replace(file, rows=7)):
        with pytest.raises(VerificationError, match="recorded"):
            verify_ordered(io, spec, (wrong,))
    _, files = write(TABLE.select(["k", "f", "s"]), io=io)
    with pytest.raises(VerificationError, match="has the columns"):
        verify_ordered(io, spec, files)
    _, files = write(TABLE, io=io, sort_columns=())
    with pytest.raises(VerificationError, match="states an order"):
        verify_ordered(io, spec, files)


def test_rows_outside_of_the_range_are_found():
    """An output holds rows of its range only."""
    io, spec = make_case(key_range=KeyRange(lower=pack_value(pa.scalar(2, pa.int64()))))
    _, files = write(TABLE, io=io)
    with pytest.raises(VerificationError, match="outside of its range"):
        verify_ordered(io, spec, files)
    _, files = write(TABLE.slice(3), io=io)
    assert verify_ordered(io, spec, files).rows == 5


def test_a_broken_output_is_a_failed_verification():
    """A file that cannot be read is not a fault of the inputs."""
    io, spec = make_case()
    _, (file,) = write(TABLE, io=io)
    data = bytearray(io.read_bytes(file.path))
    chunk = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(1).column(0)
    data[chunk.data_page_offset : chunk.data_page_offset + 6] = b"\xff" * 6
    io.replace(file.path, bytes(data))
    with pytest.raises(VerificationError, match="output is wrong"):
        verify_ordered(io, spec, (file,))


@settings(deadline=None, max_examples=60)
@given(made.tables(), st.booleans())
def test_loads_are_verified_by_a_digest(table_and_columns, by_content):
    """Rows taken in by a digest in any batches and encodings are those of the files made of them."""
    table, sort_columns = table_and_columns
    digest = RowDigest(table.schema)
    for batch in table.to_batches(max_chunksize=3):
        coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in batch.columns]
        digest.add(pa.RecordBatch.from_arrays(coded, names=table.schema.names))
    io, files = write(made.sort_table(table, sort_columns), sort_columns=sort_columns)
    written = WrittenBlocks(
        files=files,
        arrow_schema=pack_schema(table.schema),
        sort_columns=sort_columns,
        verify=Verify.CONTENT if by_content else Verify.COUNT,
    )
    assert verify_written(io, written, digest.fingerprint).rows == table.num_rows
    if table.num_rows:
        digest.add(table.slice(0, 1).to_batches()[0])
        with pytest.raises(VerificationError, match="not those of the inputs"):
            verify_written(io, written, digest.fingerprint)


def test_count_still_sees_disorder():
    """The cheap form reads the sort columns."""
    io, spec = make_case(verify=Verify.COUNT)
    result = merge_ordered(io, spec, name_file=lambda at: f"out-{at}.parquet")
    verify_ordered(io, spec, result.files)
    _, files = write(TABLE.take(pa.array([0, 1, 2, 4, 3, 5, 6, 7])), io=io, name="x.parquet")
    with pytest.raises(VerificationError, match="comes before"):
        verify_ordered(io, spec, files)
