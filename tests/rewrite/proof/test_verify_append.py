"""Files without keys are proved in the order of their rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_model import _facts

from packstone.errors import UnreadableFileError, VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import (
    AppendSpec,
    ColumnSource,
    DataFormat,
    InputFile,
    OutputSpec,
    WrittenFile,
    pack_positions,
    pack_schema,
)
from packstone.rewrite.proof.verify_merge import verify_append
from packstone.storage.memory import MemoryFileIO

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.int64())})


def table(*numbers: int) -> pa.Table:
    """A row for each number."""
    columns = [list(numbers), [f"row {n}" if n % 3 else None for n in numbers], [[n] * (n % 4) for n in numbers]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture
def io() -> MemoryFileIO:
    """An empty store."""
    store = MemoryFileIO()
    store.make_dirs("/t")
    return store


def store(io: MemoryFileIO, name: str, rows: pa.Table) -> str:
    """Write a file."""
    with io.open_output(f"/t/{name}") as sink:
        pq.write_table(rows, sink, row_group_size=4)
    return f"/t/{name}"


def make_spec(io: MemoryFileIO, verify: Verify = Verify.CONTENT) -> AppendSpec:
    """Two inputs; the second lacks a column, and one of its rows was deleted."""
    columns = tuple(ColumnSource(target=name, source=name) for name in SCHEMA.names)
    paths = [store(io, "in-0", table(*range(10))), store(io, "in-1", table(*range(10, 16)).drop_columns("c"))]
    files = [
        InputFile(path=path, file_format=DataFormat.PARQUET, size_bytes=1, rows=rows, columns=columns)
        for path, rows in zip(paths, (10, 6), strict=True)
    ]
    missing = (*columns[:2], ColumnSource(target="c", source=None))
    files[1] = replace(files[1], columns=missing, deleted=pack_positions(np.array([2])))
    output = OutputSpec(directory="/t")
    return AppendSpec(inputs=tuple(files), arrow_schema=pack_schema(SCHEMA), output=output, verify=verify)


def expected() -> pa.Table:
    """The rows that remain."""
    later = table(10, 11, 13, 14, 15)
    return pa.concat_tables(
        [table(*range(10)), later.set_column(2, SCHEMA.field(2), pa.nulls(5, SCHEMA.field(2).type))]
    )


def write(io: MemoryFileIO, name: str, rows: pa.Table) -> WrittenFile:
    """Write an output and describe it."""
    path = store(io, name, rows)
    return WrittenFile(
        path=path,
        size_bytes=io.stat(path).size_bytes,
        rows=rows.num_rows,
        first_key=(),
        last_key=(),
        min_sequence=0,
        max_sequence=0,
        delete_rows=0,
        columns=tuple(_facts(name, rows.column(name)) for name in SCHEMA.names),
    )


@pytest.mark.parametrize("mode", Verify)
def test_rows_in_their_order_are_accepted(io: MemoryFileIO, mode: Verify) -> None:
    """However they are cut into files; deleted rows are gone, missing columns are null."""
    rows = expected()
    files = (write(io, "out-0", rows.slice(0, 4)), write(io, "out-1", rows.slice(4)))
    verified = verify_append(io, make_spec(io, mode), files)
    assert verified.rows == 15
    assert verified.fingerprint_before == verified.fingerprint_after


def test_an_input_with_invalid_text_is_named(io: MemoryFileIO) -> None:
    """The file is unreadable; whoever accepts such text gets to the comparison of the rows."""
    spec = make_spec(io)
    rows = table(*range(10))
    binary = pa.array([b"gr\xfcn"] * 10, pa.binary())
    store(io, "in-0", rows.set_column(1, SCHEMA.field(1), pa.Array.from_buffers(pa.string(), 10, binary.buffers())))
    with pytest.raises(UnreadableFileError, match="/t/in-0 holds text in column b that is not valid UTF-8"):
        verify_append(io, spec, ())
    with pytest.raises(VerificationError, match="The rows written are not those"):
        verify_append(io, replace(spec, accept_invalid_text=True), ())


MUTATIONS = {
    "a row lost": lambda rows: pa.concat_tables([rows.slice(0, 3), rows.slice(4)]),
    "a row doubled": lambda rows: pa.concat_tables([rows.slice(0, 4), rows.slice(3)]),
    "the deleted row": lambda rows: pa.concat_tables([rows, table(12)]),
    "another order": lambda rows: rows.take(pa.array([1, 0, *range(2, 15)])),
    "a null filled": lambda rows: rows.set_column(1, "b", rows.column("b").fill_null("")),
    "a list changed": lambda rows: rows.set_column(2, SCHEMA.field(2), pa.array([[1]] * 15, SCHEMA.field(2).type)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_changed_rows_are_told(io: MemoryFileIO, name: str) -> None:
    """Also where the facts match the wrong rows."""
    with pytest.raises(VerificationError, match="not those of the 2 inputs"):
        verify_append(io, make_spec(io), (write(io, "out", MUTATIONS[name](expected())),))


@pytest.mark.parametrize("name", ["a row lost", "a row doubled", "the deleted row"])
def test_count_tells_the_number_of_rows(io: MemoryFileIO, name: str) -> None:
    """The cheap form reads one column."""
    with pytest.raises(VerificationError, match="not those of the 2 inputs"):
        verify_append(io, make_spec(io, Verify.COUNT), (write(io, "out", MUTATIONS[name](expected())),))


def test_wrong_facts_are_told(io: MemoryFileIO) -> None:
    """Readers trust what is recorded."""
    file = write(io, "out", expected())
    columns = (replace(file.columns[0], maximum=3), *file.columns[1:])
    with pytest.raises(VerificationError, match="largest value of a is 15, but 3"):
        verify_append(io, make_spec(io), (replace(file, columns=columns),))
    with pytest.raises(VerificationError, match="metadata say 3"):
        verify_append(io, make_spec(io), (replace(file, rows=3),))
