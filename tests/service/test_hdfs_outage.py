"""The NameNode or the DataNode dies in the middle of a compaction and comes back: real processes, no row lost."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from format_files import FORMATS
from hdfs_lake import HdfsLake

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


def exists(client, parent):
    """Whether Packstone's own folder is there."""
    try:
        return client.get_file_info(f"{parent}/.packstone").isdir
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("node", "seconds"), [("namenode", 1), ("datanode", 1)])
def test_a_node_dies_and_comes_back(hdfs, use_hdfs, packstone, quiet_env, node, seconds):
    """The run waits and succeeds, or says one sentence and is mended by ``recover``; every row is there once."""
    lake = WideLake(hdfs, f"{use_hdfs}/orders")
    address = f"{hdfs.direct_url}{lake.inside}"
    command = [str(PACKSTONE), "compact", address, "--min-files", "2", "--format", "json"]
    with subprocess.Popen(command, env=quiet_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_an_intent(lake, process)
        hdfs.stop(node, kill=True)
        time.sleep(seconds)
        hdfs.start(node)
        out, err = process.communicate(timeout=180)
    said = json.loads(out)
    if process.returncode == 0:
        assert said["status"] == "committed", said
    else:
        assert said["status"] in ("failed", "partial"), (said, err)
        assert "Traceback" not in err
        assert "\tat org.apache" not in out + err  # no Java stack
    assert packstone("recover", address, "--format", "json").code == 0
    lake.check_rows(said)
    assert packstone("compact", address, "--min-files", "2", "--format", "json").code == 0
    lake.check_rows("compacted again")
    assert [len(lake.names(folder)) for folder in lake.more] == [1] * PARTITIONS
