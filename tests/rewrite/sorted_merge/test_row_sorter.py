"""A sorter gives back every row in order, spills what does not fit, and leaves nothing behind."""

from __future__ import annotations

import tempfile

import make_ordered as made
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.rewrite.sorted_merge.merge import RowSorter


@pytest.fixture
def spills(tmp_path, monkeypatch):
    """The folder in which sorters keep what does not fit into memory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def sort(table, sort_columns, *, memory_bytes, batch_rows=7):
    """Sort by the sorter; a few rows at a time."""
    with RowSorter(table.schema, sort_columns, memory_bytes=memory_bytes) as sorter:
        for batch in table.to_batches(max_chunksize=batch_rows):
            sorter.add(batch)
        return pa.Table.from_batches(list(sorter.sorted_batches()), schema=table.schema)


@settings(deadline=None, max_examples=80)
@given(made.tables(max_rows=60), st.sampled_from([1, 2000, 20_000, 1 << 26]))
def test_rows_come_out_in_order(table_and_columns, memory_bytes):
    """Of any types, and however little memory there is."""
    table, sort_columns = table_and_columns
    found = sort(table, sort_columns, memory_bytes=memory_bytes)
    assert found.schema == table.schema
    assert made.is_sorted(found, sort_columns)
    assert made.count_rows(found) == made.count_rows(table)


def test_equal_rows_stay_as_they_came():
    """In memory the sort is stable."""
    table = pa.table({"k": [2, 1, 2, 1, 2], "v": [0, 1, 2, 3, 4]})
    assert sort(table, ["k"], memory_bytes=1 << 26).column("v").to_pylist() == [1, 3, 0, 2, 4]


def test_polars_sorts_alike(spills):
    """Two hundred thousand rows by a long and a timestamp, in 4 MB, as Polars sorts them; the folder is empty then."""
    draw = np.random.default_rng(5)
    count = 200_000
    table = pa.table(
        {
            "id": pa.array(draw.integers(-(2**62), 2**62, count) >> draw.integers(0, 60, count)),
            "ts": pa.array(draw.integers(-(10**15), 10**15, count)).cast(pa.timestamp("us", "UTC")),
            "v": draw.random(count),
        }
    )
    found = sort(table, ["id", "ts"], memory_bytes=4 << 20, batch_rows=5000)
    other = pl.from_arrow(table).sort("id", "ts", maintain_order=True).to_arrow().cast(table.schema)
    assert found.select(["id", "ts"]).equals(other.select(["id", "ts"]))
    assert list(spills.iterdir()) == []


def test_words_longer_than_a_number_are_settled():
    """Keys whose differences lie behind the bits that are sorted first come out right."""
    draw = np.random.default_rng(6)
    keys = (draw.integers(0, 4, 50_000) << 62) + draw.integers(0, 3, 50_000)
    table = pa.table({"a": keys, "b": draw.integers(-(2**63), 2**63 - 1, 50_000)})
    found = sort(table, ["a", "b"], memory_bytes=1 << 26, batch_rows=10_000)
    assert found.equals(table.sort_by([("a", "ascending"), ("b", "ascending")]))


def test_many_runs_are_merged_before_they_are_too_many(spills):
    """Hundreds of runs never lie on disk, nor are read, side by side."""
    table = pa.table({"k": pa.array(range(20_000, 0, -1), pa.int64())})
    most = 0
    with RowSorter(table.schema, ["k"], memory_bytes=256 << 10) as sorter:
        for batch in table.to_batches(max_chunksize=50):
            sorter.add(batch)
            most = max(most, len(list(spills.iterdir())))
        found = pa.Table.from_batches(list(sorter.sorted_batches()))
    assert found.column("k").to_pylist() == list(range(1, 20_001))
    assert 1 < most < 10


def test_a_sorter_that_is_left_leaves_nothing(spills):
    """Closed early, or by an error in the middle of its rows, it removes its files."""
    batch = pa.record_batch({"k": pa.array(range(10_000), pa.int64())})
    for drawn in (0, 1):
        with RowSorter(batch.schema, ["k"], memory_bytes=1 << 16) as sorter:
            sorter.add(batch)
            sorter.add(batch)
            assert list(spills.iterdir())
            rows = sorter.sorted_batches()
            for _ in range(drawn):
                next(rows)
            rows.close()
        assert list(spills.iterdir()) == []


def test_encoded_batches_are_taken():
    """Dictionaries, views and large strings become what the schema asks for."""
    schema = pa.schema([("k", pa.string()), ("b", pa.binary()), ("l", pa.list_(pa.string()))])
    coded = pa.array(["b", None, "a"]).dictionary_encode()
    for texts in (coded, coded.cast(pa.large_string()), pa.array(["b", None, "a"], pa.string_view())):
        lists = pa.array([["x"], None, []], pa.large_list(pa.large_string()))
        batch = pa.record_batch([texts, pa.array([b"1", b"2", None], pa.large_binary()), lists], names=schema.names)
        with RowSorter(schema, ["k"], memory_bytes=1 << 20) as sorter:
            sorter.add(batch)
            found = pa.Table.from_batches(list(sorter.sorted_batches()))
        assert found.schema == schema
        assert found.to_pylist() == [
            {"k": None, "b": b"2", "l": None},
            {"k": "a", "b": None, "l": []},
            {"k": "b", "b": b"1", "l": ["x"]},
        ]


def test_other_types_are_refused():
    """Nothing is cast behind the back of the caller."""
    schema = pa.schema([("k", pa.int64())])
    sorter = RowSorter(schema, ["k"])
    for values in (pa.array([1], pa.int32()), pa.array(["1"]), pa.array([[1]])):
        with pytest.raises(InvalidInputError, match="Column k is"):
            sorter.add(pa.record_batch([values], names=["k"]))
    with pytest.raises(InvalidInputError, match="no column k"):
        sorter.add(pa.record_batch([pa.array([1])], names=["x"]))
    with pytest.raises(InvalidInputError, match="no column to sort by"):
        RowSorter(schema, [])
