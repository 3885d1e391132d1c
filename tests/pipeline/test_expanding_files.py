"""Small files that hold gigabytes: they are left alone with the number, or read in bounded pieces."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from peak_memory import METER

from packstone.model.outcome import Status
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.tables.hive.options import HiveOptions

MB = 1 << 20


def lists(values: int, *, rows: int) -> pa.Array:
    """Zeros in lists: the last row has nearly all of them."""
    offsets = np.append(np.arange(rows, dtype=np.int32), np.int32(values))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.zeros(values, dtype=np.int8)))


def coded_text(entry_bytes: int, *, rows: int) -> pa.Array:
    """Short texts, then the same long one again and again."""
    codes = np.append(np.zeros(4_000, dtype=np.int32), np.ones(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["a", "x" * entry_bytes]))


def write_table(folder, column: pa.Array, **options) -> int:
    """Five harmless files, and one with the whole column; return the size of that."""
    folder.mkdir()
    for number in range(5):
        pq.write_table(pa.table({"c": column[:1]}), folder / f"f{number}.parquet", store_schema=False, **options)
    pq.write_table(pa.table({"c": column}), folder / "g.parquet", store_schema=False, compression="zstd", **options)
    return (folder / "g.parquet").stat().st_size


@pytest.mark.parametrize(
    ("column", "options", "why"),
    [
        (lambda: lists(40_000_000, rows=2), {}, "holds 305.2 MB in"),
        (lambda: lists(40_000_000, rows=10_000), {"use_dictionary": False}, "holds 305.2 MB in"),
        (lambda: pa.array(["a", "x" * 300 * MB]), {"use_dictionary": False}, "holds 300.0 MB in"),
        (lambda: coded_text(2 * MB, rows=1_000), {}, "holds 4.9 GB in"),
    ],
    ids=["list", "plain list", "text", "dictionary"],
)
@pytest.mark.sample(2)
def test_a_file_that_expands_too_much_is_left_alone(tmp_path, column, options, why):
    """The reason says how much it would be; the other files are merged, and nothing is called broken."""
    assert write_table(tmp_path / "t", column(), **options) < MB
    outcome = Table(str(tmp_path / "t"), engine=InlineEngine).compact(HiveOptions(codec="zstd"))
    assert outcome.status is Status.COMMITTED
    assert [len(unit.inputs) for unit in outcome.units] == [5]
    (skip,) = (skip for skip in outcome.skipped if skip.kind == "left-alone")
    assert "g.parquet" in str(skip)
    assert why in skip.why
    assert "too much to decode" in skip.why


PROGRAM = (
    METER
    + r"""
import sys
import pyarrow.parquet
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.tables.hive.options import HiveOptions
meter = Meter()
outcome = Table(sys.argv[1], engine=InlineEngine).compact(HiveOptions(codec="zstd"))
print(outcome.status.value, sum(len(unit.inputs) for unit in outcome.units), meter.risen_mb())
"""
)


@pytest.mark.slow
def test_long_entries_of_a_dictionary_are_decoded_in_small_batches(tmp_path):
    """800 MB in a file of some KB are merged: a batch of 65,536 rows would hold all of them at once."""
    assert write_table(tmp_path / "t", coded_text(MB, rows=800)) < MB
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")], capture_output=True, text=True, check=True
    )
    status, inputs, risen_mb = done.stdout.split()
    assert (status, int(inputs)) == ("committed", 6)
    assert int(risen_mb) < 700
