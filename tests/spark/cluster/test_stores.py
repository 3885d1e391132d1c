"""Stores from executors without Packstone, Hadoop configuration or keys: all of it travels with the tasks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are imported by path, not as packages

from hdfs_lake import HdfsLake
from patience import patient
from standalone import JVM, REPO, can_import
from store_matrix import PaimonTables, SegmentTables, make_local

pytestmark = pytest.mark.soak

BOTH = """
import json, sys
from pyspark.sql import SparkSession
import packstone
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

builder = SparkSession.builder.master(sys.argv[3])
for key, value in json.loads(sys.argv[4]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()

def who(batches):
    import os
    import pyarrow as pa
    keys = ("AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "HADOOP_CONF_DIR")
    own = [name for name in keys if name in os.environ]
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"own": [json.dumps(own)]})

def json_of(frame):
    return sorted({name for row in frame.collect() for name in json.loads(row.own)})

found = [json_of(spark.range(0, 2, 1, 2).mapInArrow(who, "own string"))]
tree = packstone.open(sys.argv[1], spark=spark)
found.append(tree.compact(PaimonOptions(strategy=PaimonStrategy.FULL, single_writer=True)).status)
found.append(packstone.open(sys.argv[2], spark=spark).compact().status)
print(json.dumps(found))
spark.stop()
"""


def test_a_merge_on_hdfs(cluster, hdfs, use_hdfs):
    """The classic job merges a partition of every format on HDFS; its tasks ran on the executors."""
    assert not can_import(cluster.python, "packstone") or pyspark.__version__.startswith("3.")
    lake = HdfsLake(hdfs, f"{use_hdfs}/orders", formats=("parquet", "text", "orc", "avro"))
    job = [str(REPO / "packstone_merge.py"), f"{hdfs.url}/", lake.inside, "120M", "--format", "json"]
    done = cluster.submit(job)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert (said["status"], said["files_before"], said["files_after"]) == ("committed", 24, 4)
    lake.check_rows()
    assert lake.staged() == []
    assert any(name.startswith("packstone-") for name in cluster.shipped())


@pytest.mark.parametrize("store", ["s3", "hdfs"])
def test_the_other_families(cluster, program, tmp_path, request, store):
    """A merge tree and a segment table are compacted on a store whose keys only the driver has."""
    server, root = _open(store, request)
    tree, segments = PaimonTables(server, f"{root}/p", tmp_path / "p"), SegmentTables(server, f"{root}/s", tmp_path)
    local = make_local(tmp_path / "sales")
    tables = tree.copy(), segments.copy_of(local.path)
    settings = {**cluster.settings(), "spark.driver.extraJavaOptions": JVM}
    env = {**cluster.driver_env(), "SPARK_HOME": cluster.env["SPARK_HOME"], **server.env}
    child = program(BOTH, *tables, cluster.master, json.dumps(settings), env=env)
    out, _ = child.communicate(timeout=patient(300))
    assert out, (tmp_path / "program0.log").read_text()[-3000:]
    assert json.loads(out) == [[], "committed", "committed"]
    assert {entry.file["_LEVEL"] for entry in tree.check(tables[0]).live()} == {5}
    found = segments.fetch(tables[1])
    assert (found.count(), found.ids(), found.problems()) == (Counter(local.count()), ["0.1"], [])


def _open(store, request):
    if store == "hdfs":
        return request.getfixturevalue("hdfs"), request.getfixturevalue("use_hdfs")
    server = request.getfixturevalue("seaweed")
    return server, request.getfixturevalue("use_s3")(server)
