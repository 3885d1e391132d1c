"""The long forms: copies that write to the end, a stage that is run again, one process killed after the other."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are imported by path, not as packages

from deploy_pages import cronjob_arguments, submits, swapped
from paimon_lake import PaimonLake
from patience import patient
from standalone import JVM, REPO, SPECULATION, read_events, wait_until

import packstone

pytestmark = pytest.mark.soak

ROUNDS = 12
SIGNALS = {"executor": signal.SIGKILL, "worker": signal.SIGKILL, "stop": signal.SIGSTOP}

HANGS = """
import json, sys, time
from pyspark.sql import SparkSession
import packstone
from packstone import Budget, HiveOptions
from packstone.spark import engine

plain = engine._task_function
marks = sys.argv[2]

def make(*arguments):
    run_tasks = plain(*arguments)

    def slow(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        done = list(run_tasks(batches))
        open(f"{marks}/{context.partitionId()}-{context.attemptNumber()}", "w").close()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(60)  # wrote everything, and then hangs: the copy overtakes it
        yield from done

    return slow

engine._task_function = make
builder = SparkSession.builder.master(sys.argv[3])
for key, value in json.loads(sys.argv[4]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
outcome = packstone.open(sys.argv[1], spark=spark).compact(HiveOptions(min_files=2), budget=Budget(parallel=4))
print(outcome.files_after)
spark.stop()
"""


def test_speculative_copies_double_nothing(cluster, orders, program, rows, tmp_path):
    """On a cluster with speculation two attempts write the same unit to its end; one of them is published."""
    orders.write(partitions=4)
    before = rows(orders.path)
    marks = tmp_path / "marks"
    marks.mkdir()
    settings = {**cluster.settings(), **SPECULATION, "spark.driver.extraJavaOptions": JVM}
    env = {**cluster.driver_env(), "SPARK_HOME": cluster.env["SPARK_HOME"]}
    child = program(HANGS, orders.path, marks, cluster.master, json.dumps(settings), env=env)
    out, _ = child.communicate(timeout=patient(300))
    assert out == "4\n", (tmp_path / "program0.log").read_text()[-3000:]
    assert {"0-0", "0-1"} <= {path.name for path in marks.iterdir()}
    assert len(orders.files()) == 4
    assert rows(orders.path) == before
    assert orders.staged() == []


OTHERS = {
    "kubernetes": (submits("kubernetes/README.md")[0], {}),
    "cronjob": (cronjob_arguments(), {"$(POD_IP)": "127.0.0.1", "spark.driver.port=7078": "spark.driver.port=0"}),
}


@pytest.mark.parametrize("where", OTHERS)
def test_the_other_commands_of_deploy(cluster, orders, rows, tmp_path, where):
    """Every other spark-submit line of deploy/ merges a table, with another master."""
    orders.write(partitions=1)
    before = rows(orders.path)
    for path in (*orders.files(), orders.path / "dt=0"):
        os.utime(path, (1, 1))  # older than a day, as the nightly job asks
    arguments, names = OTHERS[where]
    job = next(argument for argument in arguments if argument.endswith("packstone_merge.py"))
    here = {name: str(value).format(python=cluster.python) for name, value in names.items()}
    here |= {job: REPO / "packstone_merge.py", "/mnt/lake/orders": orders.path}
    here |= {"dt=20190101": "dt=0"} if where != "cronjob" else {}
    done = cluster.submit(swapped(arguments, here), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads(done.stdout)["files_after"] == len(orders.files()) == 1
    assert rows(orders.path) == before


LOAD = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
import packstone

builder = SparkSession.builder.master(sys.argv[2])
for key, value in json.loads(sys.argv[3]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
table = packstone.create(sys.argv[1], "id long, b string", sort_by=["id"])
text = expr("repeat(sha2(string(id), 512), 8) as b")
wide = spark.range(0, 60_000, 1, 8).select(expr("id * 7919 % 65521 as id"), text).repartition(8)
print(table.segments.load(wide, sort_scope="local").rows)
spark.stop()
"""


def test_a_stage_is_run_again(cluster, program, tmp_path):
    """An executor dies with its shuffle files while a load writes: Spark runs the stage before it again.

    Spark's own log says that stages and tasks ran twice; of what they wrote, one file each is in the table.
    """
    path, log = tmp_path / "sales", tmp_path / "events"
    settings = {
        **cluster.settings(),
        **cluster.event_settings(log),
        "spark.driver.extraJavaOptions": JVM,
        "spark.sql.shuffle.partitions": "4",
    }
    env = {**cluster.driver_env(), "SPARK_HOME": cluster.env["SPARK_HOME"]}
    child = program(LOAD, path, cluster.master, json.dumps(settings), env=env)
    lost = wait_until(lambda: next(iter(cluster.writers(path, ending=".parquet")), None), what="a task that writes")
    os.kill(cluster.executor_of(lost), signal.SIGKILL)
    out, _ = child.communicate(timeout=patient(300))
    assert out == "60000\n", (tmp_path / "program0.log").read_text()[-3000:]
    files = list(packstone.open(str(path)).segments.files().paths)
    counted = duckdb.sql(f"select count(*), count(distinct id) from read_parquet({files})").fetchall()
    assert counted == [(60_000, 60_000)]
    stages = Counter(event["Stage Info"]["Stage ID"] for event in read_events(log, "StageSubmitted"))
    assert max(stages.values()) > 1, stages
    assert [event for event in read_events(log, "TaskEnd") if event["Task End Reason"]["Reason"] != "Success"]
    on_disk = {str(found) for found in (path / "Fact").rglob("*.parquet")}
    assert on_disk == set(files)


FAMILIES = """
import json, sys
from pyspark.sql import SparkSession
import packstone
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

builder = SparkSession.builder.master(sys.argv[3])
for key, value in json.loads(sys.argv[4]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
tree = packstone.open(sys.argv[1], spark=spark)
found = [tree.scan(where="id >= 2000").to_df(spark, driver_bytes=0).count()]
found.append(tree.compact(PaimonOptions(strategy=PaimonStrategy.FULL, task_bytes=20_000)).status)
found.append(tree.scan(where="id >= 2000").to_df(spark, driver_bytes=0).count())
segments = packstone.create(sys.argv[2], "id long", sort_by=["id"], spark=spark)
for first in range(0, 4000, 1000):
    segments.segments.load(spark.range(first, first + 1000, 1, 2))
found.append(segments.compact().status)
found.append(segments.scan(where="id >= 2000").to_df(spark, driver_bytes=0).count())
print(json.dumps(found))
spark.stop()
"""


def test_the_other_families(cluster, program, tmp_path):
    """Scans and compactions of merge trees, loads and compactions of segments run on such executors too."""
    lake = PaimonLake(tmp_path / "tree").create()
    for first in (0, 2000, 4000, 6000):
        lake.append({key: key * 7919 % 65521 for key in range(first, first + 4000)})
    rows = lake.rows()
    settings = {**cluster.settings(), "spark.driver.extraJavaOptions": JVM}
    env = {**cluster.driver_env(), "SPARK_HOME": cluster.env["SPARK_HOME"]}
    child = program(FAMILIES, lake.table, tmp_path / "sales", cluster.master, json.dumps(settings), env=env)
    out, _ = child.communicate(timeout=patient(300))
    assert out, (tmp_path / "program0.log").read_text()[-3000:]
    assert json.loads(out) == [8_000, "committed", 8_000, "committed", 2_000]
    assert lake.rows() == rows
    assert lake.problems() == []


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_one_process_after_the_other(cluster, driver, orders, rows, seed):
    """Whatever is killed or stopped, in whatever order, once or twice a run: the rows stay the same."""
    chosen = random.Random(seed)
    orders.write(partitions=3, files=6, rows=2_000, width=4_000)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=3)
    stopped = set()
    for what in chosen.choice((("executor",), ("worker",), ("stop",), ("stop", "worker"), ("executor", "worker"))):
        victims = cluster.writers(orders.path.parent) - stopped
        until = time.monotonic() + (2 if stopped else 90)  # a second one may come too late
        while not victims and time.monotonic() < until:
            time.sleep(0.02)
            victims = cluster.writers(orders.path.parent) - stopped
        if victims:
            victim = chosen.choice(sorted(victims))
            os.kill(cluster.executor_of(victim) if what == "executor" else victim, SIGNALS[what])
            stopped.add(victim)
    assert stopped
    assert driver.answer() == {"status": "committed", "files_after": 3}
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert len(orders.files()) == 3
    assert rows(orders.path) == before
    assert orders.staged() == []
