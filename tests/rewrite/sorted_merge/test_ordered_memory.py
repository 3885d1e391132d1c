"""Sorting and merging need the memory they are given, however many and however wide the rows are."""

from __future__ import annotations

import subprocess
import sys

import pytest
from peak_memory import METER

pytestmark = pytest.mark.slow  # a bound on memory shows only with much more data than the bound

# A process of its own, because memory that Python once had does not go back. It makes the rows batch by batch, so that
# the rows themselves take nothing; tells by how much the peak rose, and how many megabytes of rows there were.
CHILD = (
    METER
    + """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.compute, pyarrow.parquet as pq
from packstone.rewrite.sorted_merge.block_writer import BlockWriter
from packstone.rewrite.merge_tree.spec import pack_schema
from packstone.rewrite.sorted_merge.merge import merge_ordered
from packstone.rewrite.sorted_merge.spec import BlockOutput, OrderedFile, OrderedMergeSpec
from packstone.rewrite.sorted_merge.merge import RowSorter
from packstone.rewrite.sorted_merge.verify import verify_ordered
from packstone.storage.local import LocalFileIO

what, memory_mb, total_mb, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
draw = np.random.default_rng(7)
words = pa.array([f"a word of some length, number {at}" for at in range(1000)])
keys = pa.array([f"key-{number}" for number in draw.integers(0, 10**9, 50_000)])
tags = pa.array([[f"tag {number}", None] for number in range(100)], pa.list_(pa.string()))
long_words = pa.array([bytes([65 + at]) * (1 << 20) for at in range(8)], pa.binary()).cast(pa.string())

def narrow(rows=40_000):
    return {"k": draw.integers(0, 2**40, rows)}

def numbers(rows=20_000):
    return {f"c{at}": draw.integers(0, 2**62, rows) for at in range(10)} | {"k": draw.integers(0, 1000, rows)}

def texts(rows=20_000):
    picked = keys.take(pa.array(draw.integers(0, len(keys), rows)))
    return {"k": picked, "w": words.take(pa.array(draw.integers(0, 1000, rows))), "v": draw.random(rows)}

def one_key(rows=20_000):
    return {"k": np.zeros(rows, dtype=np.int64), "v": draw.integers(0, 2**62, rows)}

def no_key(rows=20_000):
    return {"k": pa.nulls(rows, pa.int64()), "v": draw.integers(0, 2**62, rows)}

def long_values(rows=1):
    return {"k": draw.integers(0, 2**40, rows), "v": pa.array([draw.bytes(1 << 20)], pa.binary())}

def long_keys(rows=1):
    return {"k": pa.array([draw.bytes(1 << 20) for _ in range(rows)], pa.binary()), "v": np.arange(rows)}

def nested(rows=10_000):
    picked = tags.take(pa.array(draw.integers(0, 100, rows)))
    return {"k": draw.integers(0, 2**40, rows), "t": picked, "s": pa.StructArray.from_arrays([picked], ["inner"])}

def coded(rows=500):
    codes = pa.DictionaryArray.from_arrays(pa.array(draw.integers(0, 8, rows), pa.int32()), long_words)
    return {"k": draw.integers(0, 2**40, rows), "w": codes}

def batches(make):
    size = 0
    while size < total_mb << 20:
        batch = pa.record_batch(make())
        size += batch.num_rows << 20 if make is coded else batch.nbytes
        yield batch

def plain(schema):
    return pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])

io, kind = LocalFileIO(), what.removeprefix("merge ")
make = globals()[kind]
schema = plain(pa.record_batch(make()).schema)
output = BlockOutput(directory=folder, sort_columns=("k",), block_bytes=(memory_mb << 20) // 4)
runs = []
if what.startswith("merge "):
    for at, batch in enumerate(batches(make)):
        path = f"{folder}/run-{at}.parquet"
        pq.write_table(pa.Table.from_batches([batch]).cast(schema).sort_by("k"), path)
        runs.append((OrderedFile(path=path, size_bytes=Path(path).stat().st_size, rows=batch.num_rows),))
    pa.default_memory_pool().release_unused()
warm = RowSorter(schema, ["k"]); warm.add(pa.record_batch(make()).slice(0, 2)); list(warm.sorted_batches()); del warm
meter = Meter()
if runs:
    spec = OrderedMergeSpec(sections=(tuple(runs),), arrow_schema=pack_schema(schema), sort_columns=("k",),
                            output=output, memory_bytes=memory_mb << 20)
    result = merge_ordered(io, spec, name_file=lambda at: f"out-{at}.parquet")
    assert result.rows_out == result.rows_in > 0
    verify_ordered(io, spec, result.files)
else:
    rows = 0
    with RowSorter(schema, ["k"], memory_bytes=memory_mb << 20) as sorter:
        for batch in batches(make):
            sorter.add(batch)
        for batch in sorter.sorted_batches():
            rows += batch.num_rows
        assert rows == sorter.rows > 0
print(meter.risen_mb())
"""
)
SORTED = ("narrow", "numbers", "texts", "one_key", "no_key", "long_values", "long_keys", "nested", "coded")


def peak_mb(what, folder, *, memory_mb, total_mb):
    """Sort or merge N megabytes of rows; return by how many megabytes the peak of memory rose."""
    command = [sys.executable, "-c", CHILD, what, str(memory_mb), str(total_mb), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("what", SORTED)
def test_a_sort_stays_within_its_memory(tmp_path, what):
    """200 MB of rows, whatever they are, are sorted in 64 MB."""
    assert peak_mb(what, tmp_path, memory_mb=64, total_mb=200) <= 64


@pytest.mark.parametrize("what", ["merge numbers", "merge texts", "merge one_key", "merge long_values", "merge nested"])
def test_a_merge_stays_within_its_memory(tmp_path, what):
    """100 MB of rows in dozens of runs are merged and verified in 128 MB."""
    assert peak_mb(what, tmp_path, memory_mb=128, total_mb=100) <= 128


@pytest.mark.soak
@pytest.mark.parametrize("what", SORTED)
def test_a_big_sort_stays_within_its_memory(tmp_path, what):
    """2 GB of rows are sorted in 256 MB."""
    assert peak_mb(what, tmp_path, memory_mb=256, total_mb=2048) <= 256
