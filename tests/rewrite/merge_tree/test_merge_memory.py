"""A merge needs the memory it is given, however big its runs are and however many."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from peak_memory import METER

from packstone.rewrite.merge_tree.merge import share_memory
from packstone.rewrite.merge_tree.spec import ColumnSource, DataFormat, InputFile
from packstone.storage.local import LocalFileIO

pytestmark = pytest.mark.slow  # a bound on memory shows only with much more data than the bound

# A process of its own, because memory that Python once had does not go back; tells by how much the peak rose.
CHILD = (
    METER
    + """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.compute, pyarrow.parquet as pq, numpy
from packstone.rewrite.merge_tree.spec import *
from packstone.rewrite.merge_tree.merge import run_merge
from packstone.storage.local import LocalFileIO
folder, memory_mb, expected = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
paths = sorted(folder.glob("run-*.parquet"))
schema = pq.read_schema(paths[0]).remove_metadata()
columns = tuple(ColumnSource(target=name, source=name) for name in schema.names)
runs = tuple(
    (InputFile(path=str(p), file_format=DataFormat.PARQUET, size_bytes=p.stat().st_size,
               rows=pq.read_metadata(p).num_rows, columns=columns),)
    for p in paths
)
spec = MergeSpec(sections=(runs,), arrow_schema=pack_schema(schema), key_columns=("_KEY_k",), drop_deletes=True,
                 output=OutputSpec(directory=str(folder)), memory_bytes=memory_mb << 20)
meter = Meter()
result = run_merge(LocalFileIO(), spec, name_file=lambda at: f"out-{at}.parquet")
assert result.rows_out == expected, result.rows_out
print(meter.risen_mb())
"""
)


def peak_mb(folder, memory_mb, expected):
    """Merge all runs of a folder; return by how many megabytes the peak of memory rose."""
    command = [sys.executable, "-c", CHILD, str(folder), str(memory_mb), str(expected)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def write_runs(folder, *, runs, rows, columns, value_bytes=0, row_group_rows=1 << 20):
    """Runs whose keys overlap: run r holds the keys that r divides, so to say; returns the number of keys."""
    draw = np.random.default_rng(5)
    keys_of_all = set()
    for run in range(runs):
        keys = np.unique(draw.integers(0, rows * 3, rows))
        keys_of_all |= set(keys.tolist())
        count = len(keys)
        values = {f"v{at}": draw.integers(0, 2**62, count) for at in range(columns)}
        if value_bytes:
            values["blob"] = pa.array([draw.bytes(value_bytes) for _ in range(count)], pa.binary())
        table = pa.table(
            {
                "_KEY_k": keys,
                "_SEQUENCE_NUMBER": np.arange(count) + run * rows,
                "_VALUE_KIND": np.zeros(count, dtype=np.int8),
                "k": keys,
                **values,
            }
        )
        pq.write_table(table, folder / f"run-{run:02d}.parquet", compression="snappy", row_group_size=row_group_rows)
    return len(keys_of_all)


def decoded_mb(folder):
    """How big the rows are in memory."""
    return sum(pq.read_table(path).nbytes for path in folder.glob("run-*")) >> 20


@pytest.mark.parametrize(
    "shape",
    [
        {"runs": 8, "rows": 400_000, "columns": 10},
        {"runs": 30, "rows": 20_000, "columns": 40},
        {"runs": 5, "rows": 60, "columns": 1, "value_bytes": 1 << 20, "row_group_rows": 20},
    ],
    ids=["long runs", "many wide runs", "big values"],
)
def test_memory_is_held(tmp_path, shape):
    """Hundreds of megabytes of rows are merged with the 256 MB that the spec allows."""
    keys = write_runs(tmp_path, **shape)
    assert decoded_mb(tmp_path) > 150
    assert peak_mb(tmp_path, 256, keys) < 256


@pytest.mark.soak
def test_memory_does_not_grow_with_the_bucket(tmp_path):
    """Two gigabytes of rows need no more than 256 MB."""
    keys = write_runs(tmp_path, runs=10, rows=2_300_000, columns=10)
    assert decoded_mb(tmp_path) > 1900
    assert peak_mb(tmp_path, 256, keys) < 256


def test_runs_that_do_not_fit_side_by_side_go_to_disk(tmp_path):
    """With little memory runs are spilled, with enough none is; the rows are the same."""
    keys = write_runs(tmp_path, runs=6, rows=100_000, columns=10)
    paths = sorted(tmp_path.glob("run-*.parquet"))
    names = pq.read_schema(paths[0]).names
    columns = tuple(ColumnSource(target=name, source=name) for name in names)
    section = [
        [InputFile(path=str(p), file_format=DataFormat.PARQUET, size_bytes=1, rows=1, columns=columns)] for p in paths
    ]
    io = LocalFileIO()
    assert not share_memory(io, section, 512 << 20).spilled_runs
    assert len(share_memory(io, section, 64 << 20).spilled_runs) > 1
    assert peak_mb(tmp_path, 64, keys) < 128
