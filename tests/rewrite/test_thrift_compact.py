"""The thrift codec gives back what it read, byte for byte, and never reads beyond the end."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TRUE,
    ThriftList,
    read_struct,
    write_struct,
)


def footer_of(path):
    """The bytes of a Parquet file's footer."""
    content = path.read_bytes()
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def write_with(writer, path):
    """One small file of each writer, with statistics, nesting, bloom filters and page indexes."""
    table = pa.table({"a": list(range(40)), "b": [{"c": [str(at)]} for at in range(40)], "t": [True] * 40})
    if writer == "pyarrow":
        pq.write_table(table, path, write_page_index=True, sorting_columns=[pq.SortingColumn(0)], row_group_size=9)
    elif writer == "polars":
        pl.from_arrow(table).write_parquet(path)
    else:
        duckdb.sql(f"copy (select range % 3 as x, 'y' || range as y from range(99)) to '{path}'")


@pytest.mark.parametrize("writer", ["pyarrow", "polars", "duckdb"])
def test_footers_come_back_byte_for_byte(tmp_path, writer):
    """Nothing of a footer is lost, whoever wrote it."""
    write_with(writer, tmp_path / "a.parquet")
    footer = footer_of(tmp_path / "a.parquet")
    struct, end = read_struct(footer)
    assert end == len(footer)
    assert write_struct(struct) == footer


INTEGERS = {I16: st.integers(-(2**15), 2**15 - 1), I32: st.integers(-(2**31), 2**31 - 1),
            I64: st.integers(-(2**63), 2**63 - 1)}  # fmt: skip
EIGHT_BYTES = st.binary(min_size=8, max_size=8)
SIMPLE = {**INTEGERS, I8: st.integers(0, 255), BINARY: st.binary(max_size=200), DOUBLE: EIGHT_BYTES,
          TRUE: st.booleans()}  # fmt: skip


def lists(kinds):
    """Lists of one kind each."""
    return st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.lists(kinds[kind], max_size=20).map(lambda items: ThriftList(kind, items))
    )


def structs(kinds):
    """Structs with fields in ascending order, some far apart."""
    fields = st.sampled_from(sorted(kinds)).flatmap(lambda kind: st.tuples(st.just(kind), kinds[kind]))
    return st.dictionaries(st.integers(1, 300), fields, max_size=6).map(lambda made: dict(sorted(made.items())))


PAIRS = st.lists(st.tuples(SIMPLE[BINARY], SIMPLE[I32]), max_size=3)
MAPS = PAIRS.map(lambda pairs: (BINARY << 4 | I32 if pairs else 0, pairs))
NESTED = {**SIMPLE, LIST: lists(SIMPLE), SET: lists(SIMPLE), STRUCT: structs(SIMPLE), MAP: MAPS}
DEEP = {**NESTED, LIST: lists(NESTED), STRUCT: structs(NESTED)}


@given(structs(DEEP))
def test_structs_come_back(struct):
    """What is written is read, to the last byte."""
    data = write_struct(struct)
    assert read_struct(data + b"more") == (struct, len(data))


@given(structs(DEEP), st.data())
def test_a_struct_that_ends_too_early_is_no_struct(struct, data):
    """Cut anywhere, it is refused and not read as something shorter."""
    whole = write_struct(struct)
    with pytest.raises(ValueError, match="thrift"):
        read_struct(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    """Whatever the bytes are, the answer is a struct or a ValueError."""
    try:
        _, end = read_struct(data)
    except ValueError:
        return
    assert end <= len(data)
