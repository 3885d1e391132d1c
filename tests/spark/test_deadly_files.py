"""A file that ends the Python worker which reads it: the same run leaves it alone and merges everything else."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from abort_on_read import DEADLY_ROWS, aborting_env
from patience import patient

PACKSTONE = Path(sys.executable).with_name("packstone")


def test_the_same_run_goes_on(lake, spark_env, tmp_path):
    """Local Spark does not repeat a task: the job is run again, and the file is read in a child process first."""
    for at in range(4):
        lake.parquet(f"dt={at}", files=6, rows=10)
    rows = pa.table({"id": range(10_000, 10_000 + DEADLY_ROWS), "name": ["x"] * DEADLY_ROWS})
    pq.write_table(rows, lake.folder("dt=2") / "deadly.parquet", compression="snappy")
    before = lake.ids()
    env = aborting_env(spark_env, tmp_path / "hook")
    command = [PACKSTONE, "compact", lake.table, "--engine", "spark", "--parallel", "4", "--format", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=patient(300))
    assert done.returncode == 1, done.stderr
    outcome = json.loads(done.stdout)
    (skip,) = [skip for skip in outcome["skipped"] if skip["what"] == "dt=2/deadly.parquet"]
    assert "ends the process that reads it (SIGABRT)" in skip["why"]
    assert outcome["status"] == "partial"
    assert [len(lake.names(f"dt={at}")) for at in range(4)] == [1, 1, 2, 1]
    assert lake.ids() == before
