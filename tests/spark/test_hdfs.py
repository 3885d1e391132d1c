"""Spark and Packstone on the same HDFS: its tasks write through ``hdfs-native``, its own Java client reads the rows."""

import pyarrow as pa
import pytest
from hdfs_cluster import HdfsCluster
from hdfs_lake import HdfsLake

from packstone import create
from packstone.query.scan.plan import group_by_host
from packstone.query.scan.request import Selection
from packstone.spark.frames import read_blocks, read_splits
from packstone.storage.stores import open_store
from packstone.tables.scan_source import open_source


@pytest.fixture
def hdfs_lake(hdfs, use_hdfs):
    """A table on HDFS, with blanks and percent signs in its path."""
    return HdfsLake(hdfs, f"{use_hdfs}/a b%3Ac/orders")


def read_ids(spark, lake):
    """The ids of all Parquet rows, by Spark's own Hadoop client, on the NameNode's own port."""
    frame = spark.read.parquet(f"{lake.cluster.direct_url}{lake.inside}/f=parquet")
    return sorted(row["id"] for row in frame.collect())


def test_the_classic_merge_on_spark(spark, hdfs, hdfs_lake, packstone, monkeypatch):
    """``merge hdfs://host:port/ /path 120M`` runs as a Spark job; Spark reads the same rows before and after."""
    monkeypatch.delenv("PACKSTONE_ENGINE")
    before = read_ids(spark, hdfs_lake)
    arguments = ("merge", f"{hdfs.url}/", f"{hdfs_lake.inside}/f=parquet", "120M")
    done = packstone(*arguments, "--engine", "spark", "--format", "json")
    assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 1), done
    assert len(hdfs_lake.names("f=parquet")) == 1
    assert read_ids(spark, hdfs_lake) == before == hdfs_lake.ids
    proved = packstone("verify", done.json["run"], hdfs_lake.address, "--measure-read", "--format", "json").json
    assert [reading["files_after"] for reading in proved["read_times"]] == [1, 1]
    assert packstone("restore", done.json["run"], hdfs_lake.address, "--yes").code == 0
    assert hdfs_lake.content() == hdfs_lake.before
    assert read_ids(spark, hdfs_lake) == before


@pytest.fixture
def three_nodes(tmp_path, monkeypatch):
    """A cluster of three DataNodes with names of their own; a file is on one of them."""
    cluster = HdfsCluster(tmp_path / "three")
    try:
        cluster.start()
        cluster.add_datanode(2)
        cluster.add_datanode(3)
        for name, value in cluster.env.items():
            monkeypatch.setenv(name, value)
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.hdfs
def test_tasks_prefer_the_hosts_of_their_blocks(spark, three_nodes, monkeypatch):
    """Every file is read by a task that prefers the one host that stores it, and the rows are those of the table.

    With a local master, tasks prefer no host: some would wait for ever for those that are not this machine.
    """
    monkeypatch.setattr("packstone.spark.frames._FEW_BYTES", -1)  # a small scan does not look for its hosts
    address = f"{three_nodes.direct_url}/lake/sales"
    table = create(address, "id long, name string")
    for at in range(24):
        table.segments.load(pa.table({"id": range(100 * at, 100 * at + 100), "name": [f"n{at}"] * 100}))
    source = open_source(open_store(address), address)
    plan = source.plan(Selection())
    assert read_blocks(spark, plan) == {}
    assert sorted(row.id for row in read_splits(spark, plan, source.io).collect()) == list(range(2400))

    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    found = read_blocks(spark, plan)
    assert {host for hosts in found.values() for host in hosts} > {"node2", "node3"}
    assert all(len(hosts) == 1 for hosts in found.values())
    # The session is local: if none of the hosts is this machine, Spark does not wait for them.
    blocks = {
        path: {host if host.startswith("node") else "node1": size for host, size in hosts.items()}
        for path, hosts in found.items()
    }
    monkeypatch.setattr("packstone.spark.frames.read_blocks", lambda *_: blocks)
    frame = read_splits(spark, plan, source.io)
    assert sorted(row.id for row in frame.collect()) == list(range(2400))
    context, rows = spark.sparkContext._jsc.sc(), frame._jdf.queryExecution().toRdd()
    preferred = [str(context.getPreferredLocs(rows, at)) for at in range(rows.getNumPartitions())]
    splits = group_by_host(plan.splits, blocks)
    assert len(preferred) == len(splits) >= 3
    for found, split in zip(preferred, splits, strict=True):
        (host,) = split.hosts
        assert host in found
        assert {host} == {one for path in split.paths for one in blocks[path]}
