"""The command line on ``hdfs:`` addresses, on a real NameNode and DataNode; another client reads the rows."""

import pytest
from hdfs_lake import HdfsLake


@pytest.fixture
def hdfs_lake(hdfs, use_hdfs):
    """A table on HDFS."""
    return HdfsLake(hdfs, f"{use_hdfs}/orders")


def test_every_command_on_an_hdfs_address(hdfs_lake, packstone):
    """health, plan, compact, verify, restore, recover, clean and history work on an address as on a path."""
    at = hdfs_lake.address
    health = packstone("health", at, "--format", "json")
    assert (health.code, health.json["files"]) == (0, 12), health
    assert packstone("plan", at, "--format", "json").json["status"] == "planned"
    done = packstone("compact", at, "--format", "json")
    assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 2), done
    assert done.json["table"] == at
    hdfs_lake.check_rows()
    run = done.json["run"]
    assert packstone("verify", run, at).code == 0
    assert packstone("history", "--format", "json").json["runs"][0]["run"] == run
    assert packstone("recover", at, "--format", "json").json["status"] == "nothing-to-do"
    assert packstone("restore", run, at, "--yes").code == 0
    assert hdfs_lake.content() == hdfs_lake.before
    assert packstone("compact", at, "--keep-days", "0", "--format", "json").json["status"] == "committed"
    assert packstone("clean", at, "--yes").code == 0
    hdfs_lake.check_rows()


def test_the_classic_three_arguments(hdfs_lake, packstone, hdfs):
    """``merge hdfs://host:port/ /path 120M`` merges the partition of that file system."""
    done = packstone("merge", f"{hdfs.url}/", f"{hdfs_lake.inside}/f=parquet", "120M", "--format", "json")
    assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 1), done
    assert done.json["table"].startswith(hdfs.url)
    hdfs_lake.check_rows()
    again = packstone("merge", "hdfs:///", f"{hdfs_lake.inside}/f=parquet", "120M", "--format", "json")
    assert again.json["status"] == "nothing-to-do"


def test_a_path_that_is_not_there(packstone, use_hdfs):
    """A missing path is a wrong call, in one sentence that holds the address."""
    done = packstone("health", f"{use_hdfs}/gone")
    assert done.code == 2
    assert f"{use_hdfs}/gone" in done.sentence
