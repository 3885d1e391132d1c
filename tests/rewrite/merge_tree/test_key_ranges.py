"""A share of a file's keys is read by page: exactly its rows, whatever the pages are like, and little else."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_runs import FOLDER, make_io, write_parquet

from packstone.errors import CorruptionError
from packstone.rewrite.data_files import parquet_rows
from packstone.rewrite.data_files.parquet_rows import open_paged
from packstone.rewrite.data_files.rows import RowFilter, read_rows
from packstone.rewrite.merge_tree.cursor import KeyBounds
from packstone.rewrite.merge_tree.spec import ColumnSource, DataFormat, InputFile, pack_positions
from packstone.rewrite.proof.merged_view import read_coded

ROWS = 5000


def make_table(key="long", rows=ROWS):
    """Rows in the order of their keys; the columns have pages of all sorts."""
    numbers = np.arange(rows) * 3
    keys = {"long": pa.array(numbers), "text": pa.array([f"k{n:09d}" for n in numbers])}[key]
    return pa.table(
        {
            "k": keys,
            "mirror": keys,
            "kind": pa.array(numbers % 2, pa.int8()),
            "name": pa.array([f"name {n % 7}" for n in numbers]),  # stays a dictionary
            "token": pa.array([f"token {n * 7919}" for n in numbers]),  # gives its dictionary up
            "maybe": pa.array([None if n % 4 == 0 else n / 7 for n in numbers], pa.float64()),
            "at": pa.array(numbers, pa.timestamp("us", "Europe/Berlin")),
            "flag": pa.array(numbers % 3 == 0),
        }
    )


def write(io, table, **options):
    """Write with small pages, so that there are many; return how the file is described."""
    settings = {"data_page_size": 2000, "write_batch_size": 64, "dictionary_pagesize_limit": 4000, **options}
    write_parquet(io, f"{FOLDER}/f.parquet", table, **settings)
    columns = tuple(ColumnSource(target=name, source=name) for name in table.schema.names)
    return InputFile(
        path=f"{FOLDER}/f.parquet",
        file_format=DataFormat.PARQUET,
        size_bytes=len(io.read_bytes(f"{FOLDER}/f.parquet")),
        rows=table.num_rows,
        columns=columns,
    )


def bounds_of(table, lower, upper):
    """Keys from the lower up to, without it, the upper."""
    kind = table.schema.field("k").type
    return KeyBounds(
        column="k",
        lower=None if lower is None else pa.scalar(lower, kind),
        upper=None if upper is None else pa.scalar(upper, kind),
    )


def read(io, file, table, bounds, **options):
    """All rows of a share, in one table."""
    keep = RowFilter(bounds=bounds)
    batches = list(read_rows(io, file, table.schema, batch_bytes=20_000, keep=keep, **options))
    return pa.Table.from_batches(batches, schema=table.schema)


@pytest.mark.parametrize("key", ["long", "text"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"data_page_version": "2.0", "compression": "zstd"},
        {"use_dictionary": False, "write_page_checksum": True},
        {"row_group_size": 1300},
        {"write_page_index": True, "column_encoding": {"at": "DELTA_BINARY_PACKED"}, "use_dictionary": False},
    ],
)
def test_shares_have_every_row_once(key, options):
    """Cut at keys that exist or not, below all or above all: the shares put together are the file."""
    io, table = make_io(), make_table(key)
    file = write(io, table, **options)
    cuts = [-5, 0, 1, 2997, 2998, 7777, 14_997, 20_000]
    cuts = cuts if key == "long" else [f"k{max(0, cut):09d}" for cut in cuts]
    shares = [read(io, file, table, bounds_of(table, a, b)) for a, b in pairwise([None, *cuts, None])]
    assert pa.concat_tables(shares).equals(table)
    keys = table["k"].to_pylist()
    assert shares[4]["k"].to_pylist() == [k for k in keys if cuts[3] <= k < cuts[4]]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_rows_of_a_group_can_be_read(data):
    """What is read by page is a slice of what is read whole."""
    io, table = make_io(), make_table(rows=800)
    file = write(
        io, table, data_page_size=data.draw(st.integers(1, 5000)), write_batch_size=data.draw(st.integers(1, 99))
    )
    source = io.open_input(file.path)
    names = data.draw(st.lists(st.sampled_from(table.schema.names), min_size=1, unique=True))
    parquet = pq.ParquetFile(source)
    paged = open_paged(source, parquet, path="f", group=0, columns=names, options={})
    first = data.draw(st.integers(0, 799))
    last = data.draw(st.integers(first, 800))
    batches = list(paged.batches(names, (first, last), batch_rows=data.draw(st.integers(1, 500))))
    found = pa.Table.from_batches(batches, schema=table.select(names).schema)
    assert found.equals(table.select(names).slice(first, last - first))


def test_only_the_pages_of_the_share_are_read(monkeypatch):
    """A tenth of the keys costs little more than a tenth of the bytes."""
    io, table = make_io(), make_table(rows=10 * ROWS)
    file = write(io, table, use_dictionary=False, compression="none")
    read_bytes = 0

    def count(*arguments, **options):
        paged = open_paged(*arguments, **options)
        original = paged.source

        class Counting:
            def read_at(self, size, at):
                nonlocal read_bytes
                read_bytes += size
                return original.read_at(size, at)

        return dataclasses.replace(paged, source=Counting())

    monkeypatch.setattr(parquet_rows, "open_paged", count)
    assert read(io, file, table, bounds_of(table, 120_000, 135_000)).num_rows == ROWS
    assert 0 < read_bytes < file.size_bytes / 5


def test_deleted_positions_count_from_the_beginning_of_the_file():
    """Positions of a deletion vector mean the same rows, wherever reading begins."""
    io, table = make_io(), make_table()
    file = dataclasses.replace(
        write(io, table, row_group_size=2000), deleted=pack_positions(np.array([2100, 2101, 4999]))
    )
    found = read(io, file, table, bounds_of(table, 6000, None))
    kept = [at for at in range(2000, 5000) if at not in {2100, 2101, 4999}]
    assert found.equals(table.take(kept))


def test_nested_columns_are_read_from_the_beginning():
    """Rows of lists are no fixed number of values, so nothing is read by page; the rows are still right."""
    io, table = make_io(), make_table()
    table = table.append_column("list", pa.array([[n] * (n % 4) for n in range(ROWS)]))
    file = write(io, table)
    assert read(io, file, table, bounds_of(table, 300, 900)).equals(table.slice(100, 200))


def test_a_row_in_nobodys_share_is_found():
    """A file that is not sorted would lose the rows that lie among those of another share; it is named instead."""
    io, table = make_io(), make_table()
    order = np.arange(ROWS)
    order[1000:1500], order[4000:4500] = order[4000:4500].copy(), order[1000:1500].copy()
    file = write(io, table.take(order))
    shares = [bounds_of(table, lower, upper) for lower, upper in pairwise([None, 3000, 7500, 12_000, None])]
    with pytest.raises(CorruptionError, match="not sorted") as caught:
        _ = [read(io, file, table, share) for share in shares]
    assert caught.value.facts["file"] == file.path


def test_codes_stay_codes_in_a_share():
    """Verification reads repeating strings as dictionary codes, of a share too."""
    io, table = make_io(), make_table()
    file = write(io, table, dictionary_pagesize_limit=1 << 20, data_page_size=500)
    keep = RowFilter(bounds=bounds_of(table, 3000, 12_000))
    batches = list(read_coded(io, file, table.schema, codable={"name"}, batch_bytes=20_000, keep=keep))
    assert all(pa.types.is_dictionary(batch.column("name").type) for batch in batches)
    names = [name for batch in batches for name in batch.column("name").to_pylist()]
    assert names == table["name"].slice(1000, 3000).to_pylist()


def test_a_page_that_cannot_be_read_is_named():
    """A broken page within the share is the file's fault."""
    io, table = make_io(), make_table()
    file = write(io, table, use_dictionary=False, compression="zstd")
    data = bytearray(io.read_bytes(file.path))
    chunk = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0).column(4)
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[middle : middle + 2000] = bytes(2000)
    io.replace(file.path, bytes(data))
    with pytest.raises(CorruptionError) as caught:
        read(io, file, table, bounds_of(table, 300, 14_000))
    assert caught.value.facts["file"] == file.path
