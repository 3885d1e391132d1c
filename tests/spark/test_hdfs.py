"""Spark and Packstone on the same HDFS: its tasks write through ``hdfs-native``, its own Java client reads the rows."""

import pytest
from hdfs_lake import HdfsLake


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
