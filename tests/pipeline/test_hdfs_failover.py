"""A name service of two NameNodes: the active one goes in the middle of a compaction, the other takes over.

Real NameNodes that share their edits, and ``hdfs haadmin``; the address names the service only, as users write it.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hdfs_lake import HdfsLake
from hdfs_pair import HdfsPair
from patience import patient

ATTEMPTS = "dfs.client.failover.max.attempts"
PACKSTONE = Path(sys.executable).with_name("packstone")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two NameNodes, of which the first is active."""
    pair = HdfsPair(tmp_path_factory.mktemp("pair"))
    try:
        pair.start()
        pair.make_active("namenode1")
        yield pair
    finally:
        pair.stop()


@pytest.fixture
def start_compaction(pair, quiet_env):
    """Begin a compaction as users do; gives the process when its first swap is under way."""
    started = []

    def start(lake):
        command = [str(PACKSTONE), "compact", lake.address, "--set", "min-files=2", "--format", "json"]
        process = subprocess.Popen(
            command, env={**quiet_env, **pair.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        parent = lake.inside.rpartition("/")[0]
        while process.poll() is None and not any("intent.json" in name for name in names_below(pair, parent)):
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def names_below(pair, parent):
    """All paths of Packstone's own folder."""
    try:
        return [found.path for found in pair.client().list_status(f"{parent}/.packstone", recursive=True)]
    except FileNotFoundError:
        return []


def check_gone_on(pair, lake, process, packstone):
    """The run waited and committed; every row is there once, for Hadoop's own client too, and it can be undone."""
    out, err = process.communicate(timeout=patient(180))
    said = json.loads(out)
    assert (process.returncode, said["status"], said["files_after"]) == (0, "committed", 4), (said, err)
    lake.check_rows(said)
    assert packstone("recover", lake.address, "--format", "json").json["status"] == "nothing-to-do"
    printed = pair.shell("-cat", f"{lake.address}/f=text/*").split()
    assert sorted(int(word) for word in printed if word.isdigit()) == lake.ids
    assert packstone("restore", said["run"], lake.address, "--yes").code == 0
    assert lake.content() == lake.before


def test_the_active_namenode_dies(pair, start_compaction, packstone, monkeypatch):
    """It is killed, the standby is made active: the run continues with it."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(pair.conf))
    lake = HdfsLake(pair, f"{pair.url}/killed/orders", formats=("parquet", "text", "orc", "avro"), files=3)
    process = start_compaction(lake)
    pair.stop("namenode1", kill=True)
    pair.make_active("namenode2")
    check_gone_on(pair, lake, process, packstone)


def test_the_namenodes_change_places(pair, start_compaction, packstone, monkeypatch):
    """The active one becomes the standby, for a while there is none, then the other one serves: the run continues."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(pair.conf))
    if "namenode1" not in pair.running():
        pair.start("namenode1")
    active, standby = pair.by_state()
    lake = HdfsLake(pair, f"{pair.url}/changed/orders", formats=("parquet", "text", "orc", "avro"), files=3)
    process = start_compaction(lake)
    pair.switch("-transitionToStandby", active)
    pair.make_active(standby)
    check_gone_on(pair, lake, process, packstone)


def test_no_namenode_is_active(pair, packstone_process, tmp_path):
    """With two standbys a command says in one sentence that HDFS does not serve; then it works again."""
    active, _ = pair.by_state()
    lake = HdfsLake(pair, f"{pair.url}/standby/orders", files=3)
    pair.switch("-transitionToStandby", active)
    done = packstone_process("health", lake.address, env=pair.env_with(tmp_path, {ATTEMPTS: "4"}))
    assert done.code == 1, done
    assert "HDFS does not answer: none of its NameNodes is active" in done.sentence
    pair.make_active(active)
    assert packstone_process("health", lake.address, env=pair.env).code == 0
