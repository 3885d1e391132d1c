"""Addresses of stores as a new user types them: odd ones work, wrong ones get one sentence soon, and change nothing."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdfs_cluster import free_ports
from hdfs_lake import HdfsLake

from packstone.storage.stores import open_store

SCHEMA = ("--schema", "id long")


@pytest.mark.parametrize(
    ("address", "code", "says"),
    [
        ("hdfs://127.0.0.1:{free}/data", 1, "No NameNode answers at hdfs://127.0.0.1:{free} (Connection refused);"),
        ("hdfs://no-such-host.invalid:8020/data", 1, "No NameNode answers at hdfs://no-such-host.invalid:8020 ("),
        ("hdfs://nosuch/data", 2, "hdfs://nosuch names no port, and the Hadoop configuration has no name service"),
        ("hdfs://nn:port/data", 2, "hdfs://nn:port is not an HDFS address; write hdfs://HOST:PORT/PATH."),
        ("hdfs://:8020/data", 2, "hdfs://:8020 is not an HDFS address;"),
        ("hdfs:///data", 2, "set HADOOP_CONF_DIR to the folder of core-site.xml"),
    ],
)
def test_no_such_hdfs(packstone, monkeypatch, address, code, says):
    """A wrong host, a wrong port, a name service that nobody configured: one sentence, without minutes of waiting."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    free = free_ports(1)[0]
    calls = [("merge", address, "/t/dt=1", "120M"), ("health", address), ("segments", "create", address)]
    for command in calls if code != 1 else calls[:1]:
        words = [word.format(free=free) for word in command]
        done = packstone(*words, *(SCHEMA if "create" in command else ()))
        assert done.code == code, done
        assert says.format(free=free) in done.sentence


def test_another_server_on_that_port(hdfs, packstone):
    """The port of a DataNode or of a web page is not a NameNode: said soon, in one sentence."""
    for port in hdfs.other_ports():
        done = packstone("health", f"hdfs://127.0.0.1:{port}/data")
        assert done.code == 1, done
        assert f"No NameNode answers at hdfs://127.0.0.1:{port} (" in done.sentence


@pytest.mark.parametrize("name", ["a b", "größe", "p%20q%2Fr", "a+b&c", "a#b?c", "it's {x} [y] *"])
def test_names_mean_themselves_on_hdfs(hdfs, use_hdfs, packstone, name):
    """Blanks, letters of any language, percent and other signs in paths, with slashes too many: merged and undone."""
    lake = HdfsLake(hdfs, f"{use_hdfs}/{name}/orders", formats=("text",))
    done = packstone("merge", f"{hdfs.url}//", f"/{lake.inside}/f=text//", "120M", "--format", "json")
    assert (done.code, done.json["files_after"], done.json["table"]) == (0, 1, f"{lake.address}/f=text"), done
    lake.check_rows()
    assert packstone("restore", done.json["run"], f"{lake.address}/", "--yes").code == 0
    assert lake.content() == lake.before


def test_the_classic_call_with_wrong_words(hdfs, use_hdfs, packstone):
    """A partition that is not there, a size that is none: exit code 2 with the joined address, nothing made."""
    lake = HdfsLake(hdfs, f"{use_hdfs}/orders", formats=("text",))
    gone = packstone("merge", hdfs.url, f"{lake.inside}/f=none", "120M")
    assert (gone.code, gone.sentence) == (2, f"packstone: {lake.address}/f=none does not exist.")
    for size in ("0M", "12 monkeys", "-1"):
        assert packstone("merge", hdfs.url, f"{lake.inside}/f=text", "--", size).code == 2
    file = packstone("merge", hdfs.url, f"{lake.inside}/f=text/part-0.csv", "120M")
    assert (file.code, "is a file; give the folder of a table" in file.sentence) == (2, True)
    assert [each.path for each in hdfs.client().list_status(use_hdfs.removeprefix(hdfs.url))] == [lake.inside]


def test_the_root_of_an_hdfs_can_be_a_table(tmp_path, packstone, hdfs, use_hdfs):
    """Its records lie in a folder whose name HDFS takes: host and port hold a colon."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "one.parquet")
    store, folder = open_store(hdfs.url), f"{hdfs.url}/dt=1"  # without it, this is a folder of other tests' tables
    store.make_dirs(folder)
    store.write_new(f"{folder}/one.parquet", (tmp_path / "one.parquet").read_bytes())
    try:
        plan = packstone("plan", hdfs.url, "--format", "json")
        assert plan.code == 0, plan
        done = packstone("recover", hdfs.url, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "nothing-to-do"), done
    finally:
        store.remove_tree(folder)


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:{free}"}, 1, "No S3 server answers at http://127.0.0.1:{free};"),
        ({"AWS_ENDPOINT_URL": "127.0.0.1:{free}"}, 2, "AWS_ENDPOINT_URL must begin with https:// or http://"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, 2, "is set; set both or none of them."),
    ],
)
def test_no_such_s3(moto, use_s3, packstone, monkeypatch, settings, code, says):
    """A server that is not there, half a key: one sentence that names the setting."""
    address, free = use_s3(moto), free_ports(1)[0]
    for name, value in settings.items():
        monkeypatch.setenv(name, value.format(free=free))
    done = packstone("health", f"{address}/t")
    assert done.code == code, done
    assert says.format(free=free) in done.sentence


def test_no_such_bucket(moto, use_s3, packstone):
    """A bucket that is missing or left out is said so, whether one reads or writes."""
    use_s3(moto)
    assert packstone("health", "s3://no-such-bucket/t").sentence == "packstone: s3://no-such-bucket/t does not exist."
    done = packstone("segments", "create", "s3://no-such-bucket/t", *SCHEMA)
    assert (done.code, "The bucket does not exist; create it first" in done.sentence) == (1, True), done
    assert packstone("health", "s3:///t").sentence == "packstone: s3:///t names no bucket; write s3://BUCKET/PATH."


def test_names_mean_themselves_on_s3(moto, use_s3, packstone, tmp_path):
    """Blanks, percent signs and other letters in keys, with slashes too many: created, loaded, read."""
    table = f"{use_s3(moto)}/größe a b%20c+d/t"
    (tmp_path / "in.csv").write_text("id\n1\n2\n")
    assert packstone("segments", "create", f"{table}/", *SCHEMA).code == 0
    assert packstone("segments", "load", f"{table}//", tmp_path / "in.csv").code == 0
    found = packstone("query", table, "select sum(id) s from t", "--format", "json")
    assert found.json["rows"] == [[3]], found
