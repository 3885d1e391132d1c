"""Spark sessions in a process of their own: Connect, spark-submit, a killed driver. Clusters are in cluster/."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import patient

from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

REPO = Path(__file__).parents[2]
OPTIONS = HiveOptions(min_files=2)

CONNECT = """
import sys, threading
import packstone
from packstone import HiveOptions
from packstone.pipeline.table import Table
from packstone.pipeline.open import spark_engine
from packstone.spark.session import SparkSettings, open_spark

options = HiveOptions(min_files=2)
handle = open_spark(SparkSettings(remote="local[2]", log_path=sys.argv[2]))  # a server on this machine
assert handle.is_ours and handle.is_connect
spark = handle.spark
spark.addTag("the-callers")
outcome = packstone.open(sys.argv[1]).compact(options)  # found, not started
assert len(outcome.units) == 3, outcome
assert outcome.files_after == 3, outcome
assert packstone.open(sys.argv[1], spark=spark).compact(options).status == "nothing-to-do"
assert spark.getTags() == {"the-callers"}, spark.getTags()
assert spark.range(3).count() == 3  # still there
listening = [line.split()[1] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}") if " 0A " in line]
port = f":{15002:04X}"
assert all(address == "0100007F" + port or address.startswith("0000000000000000FFFF00000100007F")
           for address in listening if address.endswith(port)), listening
handle.stop()
print("done")
"""


@pytest.mark.connect
def test_spark_connect_gives_the_same_result(orders, program, tmp_path):
    """Through Spark Connect, on this machine only: the same files merge, tags and session of the caller stay."""
    pytest.importorskip("grpc")
    if importlib.metadata.version("pyspark").startswith("3."):
        pytest.skip("the server is a package of its own before Spark 4")
    before = orders.write().ids()
    child = program(CONNECT, orders.path, tmp_path / "logs" / "spark.log")
    out, _ = child.communicate(timeout=patient(120))
    assert out == "done\n", (tmp_path / "program0.log").read_text()[-3000:]
    assert len(orders.files()) == 3
    assert orders.ids() == before


DRIVER = """
import sys
from packstone.pipeline.table import Table
from packstone.pipeline.open import spark_engine
from packstone.spark.session import SparkSettings
from packstone import HiveOptions

engine = spark_engine(SparkSettings(master="local[2]", log_path=sys.argv[2]))
Table(sys.argv[1], engine=engine).compact(HiveOptions(min_files=2))
"""


def children_of(pid):
    """The processes below a process, with itself."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name_and_rest = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(name_and_rest[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def is_running(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_driver_leaves_the_table_intact(orders, program, tmp_path):
    """Driver and JVM are killed, the workers write on, we recover: the table is what it was, and stays so."""
    before = orders.write(partitions=2, files=6, rows=3_000, width=4_000).ids()
    content = {path: path.stat().st_mtime_ns for path in orders.files()}
    child = program(DRIVER, orders.path, tmp_path / "logs" / "spark.log")
    until = time.monotonic() + patient(60)
    while not [path for path in orders.staged() if path.suffix == ".data"]:
        assert time.monotonic() < until, (tmp_path / "program0.log").read_text()[-3000:]
        time.sleep(0.01)
    family = children_of(child.pid)
    workers = {pid for pid in family if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes() and is_daemon(pid)}
    for pid in family - workers:
        os.kill(pid, signal.SIGKILL)
    child.wait()

    Table(str(orders.path)).recover()

    assert {path: path.stat().st_mtime_ns for path in orders.files()} == content
    until = time.monotonic() + patient(60)
    while any(is_running(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert {path: path.stat().st_mtime_ns for path in orders.files()} == content
    outcome = Table(str(orders.path)).compact(OPTIONS)
    assert outcome.files_after == len(orders.files()) == 2
    assert orders.ids() == before


def is_daemon(pid):
    """Whether a process is Spark's daemon of Python workers, or one of them."""
    return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")


def test_spark_submit(orders, spark_env, tmp_path):
    """The classic job runs under spark-submit with its three arguments and prints the outcome."""
    import pyspark

    before = orders.write(partitions=1).ids()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"]
    jvm = ["--driver-java-options", os.environ.get("PACKSTONE_JVM_OPTIONS", "-Dnothing=1")]
    job = [str(REPO / "packstone_merge.py"), "file:///", str(orders.path / "dt=0"), "120M", "--format", "json"]
    done = subprocess.run(
        [str(submit), *options, *jvm, *job],
        env={**spark_env, "SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=patient(120), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert (said["status"], said["files_after"]) == ("committed", 1)
    assert orders.ids() == before


def test_the_command_starts_spark_quietly(orders, spark_env, tmp_path):
    """Without a session the command starts one: JSON on stdout, nothing on stderr, the log in its place."""
    before = orders.write(partitions=2).ids()
    command = [str(Path(sys.executable).with_name("packstone")), "compact", str(orders.path), "--format", "json"]
    done = subprocess.run(
        [*command, "--engine", "local[2]"], env=spark_env, capture_output=True, text=True, check=False,
        timeout=patient(120), cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["files_after"] == 2
    assert orders.ids() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".packstone", "orders"]
