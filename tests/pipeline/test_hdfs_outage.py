"""The NameNode or the DataNode dies in the middle of a compaction and comes back: real processes, no row lost."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from format_files import FORMATS
from hdfs_cluster import write_settings
from hdfs_lake import HdfsLake
from patience import patient

PACKSTONE = Path(sys.executable).with_name("packstone")
PARTITIONS = 1


class WideLake(HdfsLake):
    """As many partitions, so that a compaction takes a while; on the NameNode's own port, which dies with it."""

    def __init__(self, cluster, address):
        super().__init__(cluster, address, formats=("parquet", "text"), files=4)
        ending, write, self._read = FORMATS["parquet"]
        self.more = [f"dt={number}" for number in range(PARTITIONS)]
        for folder in self.more:
            for number in range(4):
                cluster.put(f"{self.inside}/{folder}/part-{number}.{ending}", write(self.ids[number * 10 :][:10]))

    def check_rows(self, where=""):
        """Every row of every partition is there once."""
        super().check_rows(where)
        for folder in self.more:
            contents = [self.cluster.get(f"{self.inside}/{folder}/{name}") for name in self.names(folder)]
            assert sorted(at for data in contents for at in self._read(data)) == self.ids, (where, folder)


def wait_for_an_intent(lake, process):
    """Wait until the first partition is being swapped."""
    client, parent = lake.cluster.client(), lake.inside.rpartition("/")[0]
    while process.poll() is None:
        found = client.list_status(f"{parent}/.packstone", recursive=True) if exists(client, parent) else ()
        if any(each.path.endswith("intent.json") for each in found):
            return
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def exists(client, parent):
    """Whether Packstone's own folder is there."""
    try:
        return client.get_file_info(f"{parent}/.packstone").isdir
    except FileNotFoundError:
        return False


def wait_until_readable(lake):
    """Wait until the DataNode has reported its blocks: it takes new ones before that."""
    parent, until = lake.inside.rpartition("/")[0], time.monotonic() + patient(120)
    for found in lake.cluster.client().list_status(parent, recursive=True):
        while not found.isdir and found.length and not is_readable(lake, found.path):
            assert time.monotonic() < until, found.path
            time.sleep(0.1)


def is_readable(lake, path):
    """Whether a file can be read now; one that is gone need not be."""
    try:
        lake.cluster.get(path)
    except FileNotFoundError:
        return True
    except Exception:  # noqa: BLE001 - whatever the library raises while no DataNode has the block
        return False
    return True


@pytest.fixture
def start_compaction(hdfs, use_hdfs, quiet_env):
    """Begin a compaction in a process of its own; gives lake, address and process when its first swap is under way."""
    started = []

    def start(**env):
        lake = WideLake(hdfs, f"{use_hdfs}/orders")
        address = f"{hdfs.direct_url}{lake.inside}"
        command = [str(PACKSTONE), "compact", address, "--set", "min-files=2", "--format", "json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env={**quiet_env, **env}, **pipes)
        started.append(process)
        wait_for_an_intent(lake, process)
        return lake, address, process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def check_usable(lake, address, packstone):
    """Every row is there once, and what is left to merge is merged."""
    lake.check_rows()
    assert packstone("compact", address, "--set", "min-files=2", "--format", "json").code == 0
    lake.check_rows("compacted again")
    assert [len(lake.names(folder)) for folder in lake.more] == [1] * PARTITIONS


@pytest.mark.slow
@pytest.mark.parametrize("node", ["namenode", "datanode"])
def test_a_node_dies_and_comes_back(hdfs, start_compaction, packstone, node):
    """Within the waiting time: the run continues over new connections and commits.

    How long a DataNode takes to start is the machine's affair, and records wait for one a quarter of a minute only. So
    the run sleeps during the outage, and wakes up with dead connections; for the NameNode it waits awake.
    """
    lake, address, process = start_compaction()
    if node == "datanode":
        process.send_signal(signal.SIGSTOP)
    hdfs.stop(node, kill=True)
    hdfs.start(node)
    wait_until_readable(lake)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=patient(240))
    said = json.loads(out)
    assert (process.returncode, said["status"], said["files_after"]) == (0, "committed", 3), (said, err)
    assert packstone("recover", address, "--format", "json").json["status"] == "nothing-to-do"
    check_usable(lake, address, packstone)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("node", ["namenode", "datanode"])
def test_a_node_stays_away(hdfs, start_compaction, packstone, tmp_path, node):
    """Beyond the time that is waited: the run fails in one sentence; when the node is back, ``recover`` repairs it."""
    write_settings(tmp_path / "hdfs-site.xml", {"dfs.client.failover.max.attempts": "4"})  # else minutes
    lake, address, process = start_compaction(HADOOP_CONF_DIR=str(tmp_path))
    hdfs.stop(node, kill=True)
    out, err = process.communicate(timeout=patient(600))
    hdfs.start(node)
    assert process.returncode == 1, (out, err)
    assert "HDFS" in out + err
    assert "Traceback" not in err
    assert "\tat org.apache" not in out + err  # no Java stack
    assert packstone("recover", address, "--format", "json").code == 0
    assert lake.staged() == []
    check_usable(lake, address, packstone)
