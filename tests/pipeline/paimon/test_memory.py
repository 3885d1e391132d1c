"""A task holds what it is given, however big its bucket is: the long forms, on runs as the benchmark makes them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
# Processes of their own: memory that Python once had does not go back.
MAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import merge_tree, paimon_contenders
folder = Path(sys.argv[2])
merge_tree.make_runs(folder / "runs", "long", runs=10, rows=int(sys.argv[3]))
paimon_contenders.make_table(folder / "runs", folder / "table", keys=["id"])
"""
COMPACT = """
import json, sys
import pyarrow.parquet
import packstone.tables.paimon.tasks
from packstone.tables.paimon.options import PaimonOptions
from packstone.pipeline.table import Table
def peak_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
idle = peak_mb()
options = PaimonOptions(strategy="full", memory_bytes=int(sys.argv[2]) << 20, task_bytes=1 << 50)
outcome = Table(sys.argv[1]).compact(options)
print(json.dumps([outcome.status, outcome.verified, outcome.bytes_before, peak_mb() - idle]))
"""


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("rows", "bucket_mb", "memory_mb", "limit_mb"), [(3_200_000, 900, 192, 256), (16_500_000, 4_700, 768, 1024)]
)
def test_a_bucket_is_compacted_in_less_memory_than_it_has(tmp_path, rows, bucket_mb, memory_mb, limit_mb):
    """One task merges, proves and commits a bucket of 1 GB in 256 MB, and one of 5 GB in 1 GB, above an idle worker."""
    subprocess.run([sys.executable, "-c", MAKE, str(BENCH), str(tmp_path), str(rows)], check=True)
    command = [sys.executable, "-c", COMPACT, str(tmp_path / "table"), str(memory_mb)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    status, verified, size_bytes, used_mb = json.loads(done.stdout)
    assert (status, verified) == ("committed", "content")
    assert size_bytes > bucket_mb << 20
    assert used_mb <= limit_mb
