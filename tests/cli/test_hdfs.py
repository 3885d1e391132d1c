"""The command line on ``hdfs:`` addresses, on a real NameNode and DataNode; another client reads the rows."""

import io as bytes_io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


class HdfsLake:
    """A table of two partitions on the cluster: Parquet and text."""

    def __init__(self, cluster, address):
        self.cluster, self.address = cluster, address
        self.inside = address.removeprefix(cluster.url)
        for number in range(6):
            table = pa.table({"id": range(number * 10, number * 10 + 10)})
            target = bytes_io.BytesIO()
            pq.write_table(table, target)
            cluster.put(f"{self.inside}/dt=1/part-{number}.parquet", target.getvalue())
            cluster.put(f"{self.inside}/dt=2/part-{number}.csv", b"".join(b"%d\n" % at for at in range(number, 60, 6)))

    def names(self, folder):
        """The names in a folder."""
        found = self.cluster.client().list_status(f"{self.inside}/{folder}")
        return sorted(each.path.rpartition("/")[2] for each in found)

    def ids(self, folder):
        """The ids of all rows of a partition, duplicates too."""
        contents = [self.cluster.get(f"{self.inside}/{folder}/{name}") for name in self.names(folder)]
        if folder == "dt=2":
            return sorted(int(line) for content in contents for line in content.splitlines())
        files = [pq.ParquetFile(pa.BufferReader(content)) for content in contents]
        return sorted(number for file in files for number in file.read()["id"].to_pylist())

    def check_rows(self):
        """Every row is there once."""
        assert (self.ids("dt=1"), self.ids("dt=2")) == (list(range(60)), list(range(60)))


@pytest.fixture
def hdfs_lake(hdfs, use_hdfs):
    """A table on HDFS."""
    return HdfsLake(hdfs, f"{use_hdfs}/orders")


def test_every_command_on_an_hdfs_address(hdfs_lake, packstone):
    """health, plan, compact, verify, restore, recover, clean and history work on an address as on a path."""
    at = hdfs_lake.address
    before = {folder: hdfs_lake.names(folder) for folder in ("dt=1", "dt=2")}
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
    assert {folder: hdfs_lake.names(folder) for folder in ("dt=1", "dt=2")} == before
    assert packstone("compact", at, "--keep-days", "0", "--format", "json").json["status"] == "committed"
    assert packstone("clean", at, "--yes").code == 0
    hdfs_lake.check_rows()


def test_the_classic_three_arguments(hdfs_lake, packstone, hdfs):
    """``merge hdfs://host:port/ /path 120M`` merges the partition of that file system."""
    done = packstone("merge", f"{hdfs.url}/", f"{hdfs_lake.inside}/dt=1", "120M", "--format", "json")
    assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 1), done
    assert done.json["table"].startswith(hdfs.url)
    hdfs_lake.check_rows()
    again = packstone("merge", "hdfs:///", f"{hdfs_lake.inside}/dt=1", "120M", "--format", "json")
    assert again.json["status"] == "nothing-to-do"


def test_a_path_that_is_not_there(packstone, use_hdfs):
    """A missing path is a wrong call, in one sentence that holds the address."""
    done = packstone("health", f"{use_hdfs}/gone")
    assert done.code == 2
    assert f"{use_hdfs}/gone" in done.sentence
