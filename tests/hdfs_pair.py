"""Two NameNodes of one name service, which share their edits in a folder, and a DataNode; real processes.

Which of the two is active is decided by ``hdfs haadmin``, as without ZooKeeper.
"""

import shutil
import signal
import time
from pathlib import Path

from hdfs_cluster import LOG4J, UP_SECONDS, HdfsCluster, find_jars, free_ports, listens, write_settings
from patience import patient

SERVICE = "lakes"
NAMENODES = ("namenode1", "namenode2")


class HdfsPair(HdfsCluster):
    """The name service ``hdfs://lakes``."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._jars = folder, find_jars()
        self.url = self.direct_url = f"hdfs://{SERVICE}"
        self.conf = folder / "conf"
        self._client = None
        self._running = {}
        self._ports = dict(zip((*NAMENODES, "datanode"), free_ports(3), strict=True))
        self._write_pair(free_ports(4))
        self._java("namenode1", "-format", "-nonInteractive").wait(UP_SECONDS)
        shutil.copytree(folder / "name-namenode1", folder / "name-namenode2")  # both start with the same image

    def start(self, *names: str) -> None:
        """Start all, or those named; wait until they listen."""
        for name in names or self._ports:
            self._running[name] = self._java(name)
        until = time.monotonic() + UP_SECONDS
        for name in names or self._ports:
            while not listens(self._ports[name]):
                self._check_alive(name, until)

    def stop(self, *names: str, kill: bool = False) -> None:
        """Stop all, or those named."""
        for name in names or reversed(self._ports):
            process = self._running.pop(name, None)
            if process is not None:
                process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
                process.wait(patient(60))

    def make_active(self, name: str) -> None:
        """Let one serve; the other must be gone or a standby."""
        self.switch("-transitionToActive", "--forceactive", name)  # else both must answer
        until = time.monotonic() + UP_SECONDS
        while not self._takes_a_file():
            self._check_alive(name, until)

    def switch(self, *how: str) -> None:
        """``hdfs haadmin``."""
        self.java("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-ns", SERVICE, *how)

    def env_with(self, folder: Path, settings: dict[str, str]) -> dict[str, str]:
        """What a process needs to know that has settings of its own."""
        write_settings(folder / "hdfs-site.xml", {**self._client_settings, **settings})
        return {"HADOOP_CONF_DIR": str(folder)}

    def running(self) -> tuple[str, ...]:
        """Who runs."""
        return tuple(self._running)

    def by_state(self) -> tuple[str, str]:
        """The active NameNode and the other one."""
        first = self.java("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-ns", SERVICE, "-getServiceState", NAMENODES[0])
        return NAMENODES if "active" in first.split() else NAMENODES[::-1]

    def client(self):
        """A client that is not ours, but the library's own."""
        from hdfs_native import Client

        if self._client is None:
            self._client = Client(self.url, self._client_settings)
        return self._client

    def shell(self, *arguments: str) -> str:
        """``hdfs dfs``."""
        return self.java("org.apache.hadoop.fs.FsShell", *arguments)

    def _settings_of(self, name: str) -> Path:
        return self._folder / f"{name}.xml"

    def _write_pair(self, more_ports: list[int]) -> None:
        self.conf.mkdir(parents=True)
        (self.conf / "log4j.properties").write_text(LOG4J)
        addresses = {f"dfs.namenode.rpc-address.{SERVICE}.{name}": self._at(name) for name in NAMENODES}
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        shared = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(NAMENODES),
            f"dfs.client.failover.proxy.provider.{SERVICE}": provider,
            **addresses,
        }
        self._client_settings = {"fs.defaultFS": self.url, **shared}
        write_settings(self.conf / "core-site.xml", {"fs.defaultFS": self.url})
        write_settings(self.conf / "hdfs-site.xml", {**shared, "dfs.ha.fencing.methods": "shell(/bin/true)"})
        for name, port in zip(self._ports, more_ports, strict=False):
            ours = {
                "dfs.namenode.name.dir": f"file://{self._folder}/name-{name}",
                f"dfs.namenode.http-address.{SERVICE}.{name}": f"127.0.0.1:{port}",
                "dfs.ha.namenode.id": name,
            }
            own = {} if name == "datanode" else ours
            write_settings(
                self._settings_of(name), {**self._client_settings, **self._server_settings(more_ports), **own}
            )

    def _server_settings(self, ports: list[int]) -> dict[str, str]:
        return {
            "hadoop.tmp.dir": f"{self._folder}/scratch",
            "dfs.namenode.shared.edits.dir": f"file://{self._folder}/shared",
            "dfs.datanode.data.dir": f"file://{self._folder}/data",
            "dfs.replication": "1",
            "dfs.datanode.address": self._at("datanode"),
            "dfs.datanode.http.address": f"127.0.0.1:{ports[2]}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ports[3]}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.webhdfs.enabled": "false",
            "dfs.heartbeat.interval": "1",
            "dfs.ha.tail-edits.period": "1",
            "dfs.ha.standby.checkpoints": "false",
            "dfs.namenode.edits.noeditlogchannelflush": "true",  # we kill processes, not machines
        }

    def _at(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"
