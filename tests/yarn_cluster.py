"""A real ResourceManager and NodeManager on free ports of this machine, from the jars that the HDFS tests use.

Where the tests run as root, the NodeManager runs as ``nobody``: containers then have another user than the driver, no
Hadoop configuration, no Python of ours (``scripts/make-venv`` takes one from a home folder that they cannot enter) and
a HOME that they cannot write to. That is what a node of a cluster is like.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pyspark
import pytest
from hdfs_cluster import UP_SECONDS, find_jars, free_ports, write_settings
from needs import check_marked
from patience import patient

SPARK_HOME = Path(pyspark.__file__).parent
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
_SERVER = "org.apache.hadoop.yarn.server"
_CLASSES = {
    "resourcemanager": f"{_SERVER}.resourcemanager.ResourceManager",
    "nodemanager": f"{_SERVER}.nodemanager.NodeManager",
}


def why_not_as_nobody() -> str:
    """Why a process of another user cannot be started here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can start a process of another user"
    return "" if shutil.which("setpriv") else "there is no setpriv (util-linux)"


class YarnCluster:
    """A ResourceManager and a NodeManager; ``conf`` is the configuration of clients, which gets a yarn-site.xml."""

    def __init__(self, folder: Path, conf: Path) -> None:
        check_marked("yarn")
        self._folder, self.conf = folder, conf
        self._jars = find_jars()
        if not any(jar.name.startswith("bcprov-") for jar in self._jars):
            pytest.skip("no jars of YARN: Maven could not be reached when `make test-servers` fetched those of HDFS")
        self.as_node = () if why_not_as_nobody() else AS_NOBODY
        for name in ("webapps/cluster", "webapps/node", "local", "logs"):
            (folder / name).mkdir(parents=True)
        for name in ("local", "logs"):
            (folder / name).chmod(0o777)
        self._write_configuration()
        self._running: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        """Start both, and wait until the node is ready for containers."""
        self._running["resourcemanager"] = self._java("resourcemanager")
        self._running["nodemanager"] = self._java("nodemanager", *self.as_node)
        until = time.monotonic() + UP_SECONDS
        while not any(node["state"] == "RUNNING" for node in self._nodes()):
            for name, process in self._running.items():
                said = self._log(name)[-4000:]
                assert process.poll() is None, f"the {name} ended:\n{said}"
                assert time.monotonic() < until, f"the {name} is not ready:\n{said}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End both, and the containers that are left."""
        containers = _below(self._running["nodemanager"].pid) if "nodemanager" in self._running else set()
        for process in self._running.values():
            process.kill()  # a NodeManager takes its time otherwise
            process.wait(patient(60))
        for pid in containers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def application(self, name: str) -> dict:
        """What the ResourceManager knows of an application."""
        return self._ask(f"apps/{name}")["app"]

    def applications(self) -> list[dict]:
        """All applications, the newest first."""
        found = (self._ask("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda app: app["id"], reverse=True)

    def container_logs(self, application: str, name: str = "stdout") -> str:
        """What the containers of an application wrote to a log, one after the other."""
        paths = sorted((self._folder / "logs" / application).glob(f"*/{name}"))
        return "".join(path.read_text(errors="replace") for path in paths)

    def containers(self) -> dict[int, str]:
        """The processes below the NodeManager with their commands."""
        found = {}
        for pid in _below(self._running["nodemanager"].pid):
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def write_defaults(self, path: Path) -> None:
        """Write the settings that make an application small and quick to start, as ``spark-defaults.conf`` has them."""
        settings = {
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",  # else 450 MB are uploaded and unpacked for each one
            "spark.ui.enabled": "false",
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.yarn.am.memory": "512m",
            "spark.driver.extraJavaOptions": JVM,
            "spark.executor.extraJavaOptions": JVM,
            "spark.yarn.am.extraJavaOptions": JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",  # containers listen to this machine only
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.yarn.submit.waitAppCompletion": "true",
            "spark.yarn.report.interval": "200ms",
            "spark.yarn.scheduler.heartbeat.interval-ms": "300",
        }
        path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def _nodes(self) -> list[dict]:
        with contextlib.suppress(OSError):
            return (self._ask("nodes")["nodes"] or {}).get("node", [])
        return []

    def _ask(self, what: str) -> dict:
        with urllib.request.urlopen(f"http://{self._web}/ws/v1/cluster/{what}", timeout=patient(30)) as answer:
            return json.load(answer)

    def _log(self, name: str) -> str:
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _java(self, name: str, *run_as: str) -> subprocess.Popen:
        path = os.pathsep.join(map(str, (self.conf, self._folder, *self._jars)))
        logging = f"-Dlog4j.configuration=file:{self.conf}/log4j.properties"
        command = [*run_as, "java", *JVM.split(), "-Xmx256m", logging, "-cp", path, _CLASSES[name]]
        hidden = ("HADOOP_CONF_DIR", "HADOOP_USER_NAME", "PYTHONPATH")
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, env=env
            )

    def _write_configuration(self) -> None:
        at = [f"127.0.0.1:{port}" for port in free_ports(8)]
        self._web = at[4]
        manager = {
            "hostname": "127.0.0.1",
            "bind-host": "127.0.0.1",
            "address": at[0],
            "scheduler.address": at[1],
            "resource-tracker.address": at[2],
            "admin.address": at[3],
            "webapp.address": at[4],
            "nodemanagers.heartbeat-interval-ms": "100",
        }
        node = {
            "hostname": "127.0.0.1",
            "bind-host": "127.0.0.1",
            "address": at[5],
            "localizer.address": at[6],
            "webapp.address": at[7],
            "local-dirs": f"{self._folder}/local",
            "log-dirs": f"{self._folder}/logs",
            "resource.memory-mb": "6144",
            "resource.cpu-vcores": "4",
            "vmem-check-enabled": "false",
            "delete.debug-delay-sec": "600",  # keeps the logs of containers
            "disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
        }
        scheduler = "yarn.scheduler"
        write_settings(
            self.conf / "yarn-site.xml",
            {f"yarn.resourcemanager.{key}": value for key, value in manager.items()}
            | {f"yarn.nodemanager.{key}": value for key, value in node.items()}
            | {f"{scheduler}.minimum-allocation-mb": "128", f"{scheduler}.maximum-allocation-mb": "6144"},
        )
        capacity = f"{scheduler}.capacity"
        write_settings(
            self.conf / "capacity-scheduler.xml",
            {
                f"{capacity}.root.queues": "default",
                f"{capacity}.root.default.capacity": "100",
                f"{capacity}.maximum-am-resource-percent": "1.0",
            },
        )


def _below(pid: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    found, new = set(), [pid]
    while new:
        for listed in Path(f"/proc/{new.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(child) for child in listed.read_text().split()]
                new += children
                found |= set(children)
    return found
