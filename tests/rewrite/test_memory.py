"""A unit needs the memory of a row group or two, however many and however wide its files are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from block_file_model import avro_file, rc_file, sequence_file
from peak_memory import METER

pytestmark = pytest.mark.slow  # a bound on memory shows only with much more data than the bound

# A process of its own, because memory that Python once had does not go back; tells by how much the peak rose.
CHILD = (
    METER
    + """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.compute, pyarrow.parquet, numpy
from packstone import HiveOptions, Table
from packstone.model.unit import Verify
from packstone.runs.interrupts import interruptible
table = Table(sys.argv[1])
meter = Meter()
verify = Verify(sys.argv[2])
outcome = table.compact(HiveOptions(min_files=2, target_bytes=1 << 40, threshold_bytes=1 << 40, verify=verify))
assert len(outcome.units) == 1, outcome
print(meter.risen_mb())
"""
)


def peak_mb(folder, *, verify="content"):
    """Merge all files of a folder into one; return by how many megabytes the peak of memory rose."""
    command = [sys.executable, "-c", CHILD, str(folder), verify]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def decoded_mb(folder):
    """How big the rows are in memory."""
    return sum(pq.read_table(path, partitioning=None).nbytes for path in folder.iterdir()) >> 20


def write_numbers(folder, *, files, rows):
    """Ten columns of random numbers."""
    draw = np.random.default_rng(7)
    for at in range(files):
        columns = {f"c{column}": draw.integers(0, 2**62, rows) for column in range(10)}
        pq.write_table(pa.table(columns), folder / f"{at:04d}.parquet")


def write_numbers_to_copy(folder, *, files, rows):
    """The same without dictionaries, so that pages are copied, but for one column of words."""
    draw = np.random.default_rng(7)
    words = pa.array([f"a word of some length, number {at}" for at in range(100)])
    for at in range(files):
        columns = {f"c{column}": draw.integers(0, 2**62, rows) for column in range(10)}
        columns["word"] = words.take(pa.array(draw.integers(0, 100, rows)))
        pq.write_table(pa.table(columns), folder / f"{at:04d}.parquet", use_dictionary=["word"])


def write_big_row_groups_to_copy(folder, *, files, rows):
    """Row groups of a hundred megabytes, without dictionaries."""
    draw = np.random.default_rng(7)
    for at in range(files):
        columns = {f"c{column}": draw.integers(0, 2**62, rows) for column in range(10)}
        pq.write_table(pa.table(columns), folder / f"{at:04d}.parquet", use_dictionary=False)


def write_repeated(folder, *, files, rows):
    """Twenty columns of long texts that repeat: a few kilobytes on disk, a hundred times that in memory."""
    texts = [f"{letter}" * 1000 for letter in "abcdef"]
    table = pa.table({f"c{column}": [texts[(row + column) % 6] for row in range(rows)] for column in range(20)})
    for at in range(files):
        pq.write_table(table, folder / f"{at:04d}.parquet")


def write_big_values(folder, *, files, rows):
    """Values of two megabytes each."""
    draw = np.random.default_rng(7)
    for at in range(files):
        values = [draw.bytes(2 << 20) for _ in range(rows)]
        pq.write_table(pa.table({"b": values}), folder / f"{at:04d}.parquet", compression="none")


@pytest.mark.parametrize(
    ("write", "files", "rows"),
    [
        (write_numbers, 40, 100_000),
        (write_numbers_to_copy, 30, 100_000),
        (write_big_row_groups_to_copy, 3, 1_300_000),
        (write_repeated, 6, 3_000),
        (write_big_values, 30, 6),
    ],
    ids=["numbers", "numbers to copy", "big row groups to copy", "repeated texts", "big values"],
)
def test_memory_is_bounded(tmp_path, write, files, rows):
    """More than 300 MB of rows are merged and verified with less than 400 MB."""
    folder = tmp_path / "t"
    folder.mkdir()
    write(folder, files=files, rows=rows)
    assert decoded_mb(folder) > 300
    assert peak_mb(folder) < 400


def write_giant_records(folder, *, files):
    """SequenceFiles of one record of a hundred megabytes each."""
    for at in range(files):
        (folder / f"{at}").write_bytes(sequence_file([(b"k", bytes(100 << 20))]))


def write_giant_blocks(folder, *, files):
    """Avro files of one block of a hundred megabytes each."""
    for at in range(files):
        (folder / f"{at}").write_bytes(avro_file([(at, bytes(100 << 20))]))


def write_giant_row_groups(folder, *, files):
    """RCFiles of one row group of a hundred megabytes each."""
    for at in range(files):
        (folder / f"{at}").write_bytes(rc_file([(b"k", bytes(100 << 20))]))


@pytest.mark.parametrize("write", [write_giant_records, write_giant_blocks, write_giant_row_groups])
def test_copying_takes_no_memory(tmp_path, write):
    """Records, blocks and row groups of any size are copied in pieces of a megabyte; to be checked, one is held."""
    folder = tmp_path / "t"
    folder.mkdir()
    write(folder, files=2)
    assert peak_mb(folder, verify="count") < 60
    for path in folder.iterdir():
        path.unlink()
    write(folder, files=2)
    assert peak_mb(folder) < 400


@pytest.mark.soak
@pytest.mark.parametrize(
    ("write", "files", "rows"),
    [
        (write_numbers, 260, 100_000),
        (write_numbers_to_copy, 180, 100_000),
        (write_big_row_groups_to_copy, 20, 1_300_000),
        (write_repeated, 20, 6_000),
        (write_big_values, 170, 6),
    ],
    ids=["numbers", "numbers to copy", "big row groups to copy", "repeated texts", "big values"],
)
def test_memory_does_not_grow_with_the_unit(tmp_path, write, files, rows):
    """Two gigabytes of rows need no more than 300 MB do."""
    folder = tmp_path / "t"
    folder.mkdir()
    write(folder, files=files, rows=rows)
    assert decoded_mb(folder) > 1900
    assert peak_mb(folder) < 400
