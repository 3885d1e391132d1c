"""Processes of a cluster that are stopped or killed in the middle: no row is lost, none is doubled.

All of them are real: executors are JVMs, their workers are Python processes that are writing a staged file when the
signal comes. Rows are compared by DuckDB.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

import duckdb
import pyspark
import pytest
from patience import patient
from standalone import JVM, REPO, SPECULATION, Driver, is_running, is_writing, parent, wait_until

import packstone
from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

BIG = {"files": 6, "rows": 2_000, "width": 4_000}  # 48 MB a partition: half a second in which to be met


def writer(cluster, orders):
    """Wait for a Python worker that is writing a staged file."""
    return wait_until(lambda: next(iter(cluster.writers(orders.path.parent)), None), what="a task that writes")


def check_merged(orders, rows, before, *, partitions):
    """One file for each partition, the same rows, nothing staged, nothing to recover."""
    assert len(orders.files()) == partitions
    assert rows(orders.path) == before
    assert orders.staged() == []
    assert Table(str(orders.path)).recover().actions == ()


def check_ran_twice(driver, is_second):
    """Spark's own log says that a task of the last stage was begun twice, the second time so."""
    begun = driver.events("TaskStart")
    last = [event["Task Info"] for event in begun if event["Stage ID"] == begun[-1]["Stage ID"]]
    first_of = {task["Index"] for task in last if task["Attempt"] == 0}
    assert [task for task in last if is_second(task) and task["Index"] in first_of], last


def test_a_copy_overtakes_a_task_that_hangs(cluster, driver, orders, rows):
    """A worker is stopped while it writes; Spark's speculative copy on the other host ends, and is what counts."""
    orders.write(partitions=2, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=2)
    stopped = writer(cluster, orders)
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert driver.answer() == {"status": "committed", "files_after": 2}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)
    check_ran_twice(driver, lambda task: task["Speculative"])
    check_merged(orders, rows, before, partitions=2)


WRITE = """
import json, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession

path, marks, master, settings = sys.argv[1:]
builder = SparkSession.builder.master(master)
for key, value in json.loads(settings).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()

def wait(batches):
    context = TaskContext.get()
    yield from batches
    at = context.partitionId(), context.attemptNumber()
    Path(marks, f"{at[0]}-{at[1]}").touch()
    while at == (0, 0) and not Path(marks, "0-1").exists():
        time.sleep(0.1)  # until the copy has seen all rows, too

rows = spark.range(0, 40000, 1, 4).selectExpr("id", "cast(id as string) as name")
rows.mapInArrow(wait, rows.schema).write.format("packstone").mode("append").save(path)
print("done", flush=True)
spark.stop()
"""


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Python data sources need Spark 4.0")
def test_a_write_of_the_data_source_takes_one_of_two_copies(cluster, program, tmp_path):
    """A task and its speculative copy on the other host both read all their rows to write them; one file counts."""
    path, marks = tmp_path / "sales", tmp_path / "marks"
    marks.mkdir()
    # A Python data source needs Packstone where tasks run.
    ours = {"spark.pyspark.python": sys.executable, "spark.executorEnv.PYTHONPATH": str(REPO / "src")}
    settings = {**cluster.settings(), **SPECULATION, "spark.driver.extraJavaOptions": JVM, **ours}
    env = {**cluster.driver_env(), "SPARK_HOME": cluster.env["SPARK_HOME"]}
    child = program(WRITE, path, marks, cluster.master, json.dumps(settings), env=env)
    out, _ = child.communicate(timeout=patient(180))
    assert out == "done\n", (tmp_path / "program0.log").read_text()[-3000:]
    assert {"0-0", "0-1"} <= {one.name for one in marks.iterdir()}
    table = packstone.open(str(path))
    table.clean()  # Spark may have ended the other copy while it wrote
    files = list(table.segments.files().paths)
    assert duckdb.sql(f"select count(*), count(distinct id) from read_parquet({files})").fetchall() == [(40_000,) * 2]
    assert {str(one) for one in (path / "Fact").rglob("*.parquet")} == set(files)


def test_an_executor_killed_in_the_middle(cluster, driver, orders, rows):
    """An executor is killed while its worker writes; its task is done again elsewhere, its half file is never seen."""
    orders.write(partitions=2, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=2)
    lost = cluster.executor_of(writer(cluster, orders))
    os.kill(lost, signal.SIGKILL)
    assert driver.answer() == {"status": "committed", "files_after": 2}
    assert not is_running(lost)
    check_ran_twice(driver, lambda task: task["Attempt"] > 0 and not task["Speculative"])
    check_merged(orders, rows, before, partitions=2)


def test_a_python_worker_killed_in_the_middle(cluster, driver, orders, rows):
    """A Python worker is killed while it writes; its executor starts another one."""
    orders.write(partitions=1, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=1)
    os.kill(writer(cluster, orders), signal.SIGKILL)
    assert driver.answer() == {"status": "committed", "files_after": 1}
    check_merged(orders, rows, before, partitions=1)


def test_a_worker_writes_on_after_its_driver_died(cluster, orders, rows, tmp_path):
    """Driver and executor die, the table is merged by another run, and only then the old worker continues to write."""
    orders.write(partitions=1, **BIG)
    before = rows(orders.path)
    driver = Driver(cluster, tmp_path / "driver.log")
    driver.begin(orders.path, parallel=1)
    orphan = writer(cluster, orders)
    daemon, executor = parent(orphan), cluster.executor_of(orphan)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not is_running(daemon), what="the end of the daemon")
    os.kill(orphan, signal.SIGSTOP)  # not before: Linux ends stopped processes of a group that loses its parent
    os.kill(executor, signal.SIGKILL)
    driver.kill()

    outcome = Table(str(orders.path)).compact(HiveOptions(min_files=2))

    assert (outcome.status, outcome.files_after) == ("committed", 1)
    assert is_writing(orphan, orders.path.parent)
    os.kill(orphan, signal.SIGCONT)
    wait_until(lambda: not is_running(orphan), what="the end of the orphan")
    Table(str(orders.path)).recover()
    check_merged(orders, rows, before, partitions=1)
