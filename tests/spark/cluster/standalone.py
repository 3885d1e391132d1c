"""A Spark standalone cluster of a master and two workers, as processes of this machine, and what is in its processes.

The workers have two addresses of the loopback, because Spark starts no copy of a task on the host of
the original. Executors run a Python of their own that has PyArrow and NumPy, and no Packstone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
from needs import check_marked
from patience import patient

REPO = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
# All that executors need beside Spark's own Python; the last three for HDFS and S3.
ON_EXECUTORS = ("numpy", "numpy.libs", "pyarrow", "fastavro", "hdfs_native", "typing_extensions.py", "obstore")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}
JVM = os.environ.get("PACKSTONE_JVM_OPTIONS") or "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def make_python(folder: Path, *, packages: tuple[str, ...] = (), whole: bool = False) -> Path:
    """An environment with some of our environment's packages, or all but the editable Packstone; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=patient(120))
    ours = Path(pyspark.__file__).parents[1]
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        if (ours / package).exists():
            (site / package).symlink_to(ours / package)
    if whole:  # a path in a .pth file is not searched for more of them, so what is editable stays away
        (site / "all.pth").write_text(f"{ours}\n")
    return folder / "bin" / "python"


def can_import(python: Path, module: str) -> bool:
    """Whether an environment has a module by itself."""
    asked = subprocess.run([str(python), "-c", f"import {module}"], env={}, capture_output=True, check=False, cwd="/")
    return asked.returncode == 0


def wait_until(question, *, seconds=90, what="what was waited for"):
    """Ask again and again until the answer is true; return it."""
    until = time.monotonic() + patient(seconds)
    while not (answer := question()):
        assert time.monotonic() < until, f"{what} did not come about"
        time.sleep(0.02)
    return answer


def family(pid: int) -> set[int]:
    """A process and all below it."""
    found, new = {pid}, [pid]
    while new:
        with contextlib.suppress(OSError):  # each thread has its own children
            for listed in Path(f"/proc/{new.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    new += [int(child) for child in listed.read_text().split()]
        found |= set(new)
    return found


def command_line(pid: int) -> str:
    """What a process was started with."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def parent(pid: int) -> int:
    """The process that started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_writing(pid: int, below: Path, *, ending: str = ".data") -> bool:
    """Whether a process holds a data file open below a folder; also one that has been removed since it was opened."""
    with contextlib.suppress(OSError):
        names = [str(link.readlink()).removesuffix(" (deleted)") for link in Path(f"/proc/{pid}/fd").iterdir()]
        return any(name.startswith(str(below)) and name.endswith(ending) for name in names)
    return False


def read_events(folder: Path, kind: str) -> list[dict[str, object]]:
    """The events of a kind that Spark itself wrote down, as far as they are on disk."""
    wanted = f'"SparkListener{kind}"'
    lines = (line for log in folder.rglob("*") if log.is_file() for line in log.read_text().splitlines())
    return [json.loads(line) for line in lines if wanted in line and line.endswith("}")]


class Cluster:
    """A master and two workers."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        check_marked("cluster")
        self.folder = folder
        outside = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
        self.env = {name: value for name, value in env.items() if name not in outside}
        self.env["SPARK_HOME"] = str(SPARK_HOME)
        self._started: list[subprocess.Popen[bytes]] = []
        needs_pandas = pyspark.__version__.startswith("3.")  # Spark's own worker does, before Spark 4
        self.python = make_python(folder / "executor-python", packages=ON_EXECUTORS, whole=needs_pandas)
        self.master = self._wait_for(self._start("Master", HOSTS[0], "--port", "0"), r"(spark://127.0.0.1:[1-9]\d*)")
        logs = [
            self._start("Worker", host, "-c", "2", "-m", "1200m", "-d", str(folder / f"work-{host}"), self.master)
            for host in HOSTS
        ]
        for log in logs:
            self._wait_for(log, "Successfully registered")

    def settings(self) -> dict[str, str]:
        """What an application on this cluster needs: small, quick to start, on this machine only."""
        return {
            "spark.driver.host": HOSTS[0],
            "spark.driver.bindAddress": HOSTS[0],
            "spark.cores.max": "2",
            "spark.executor.cores": "1",  # so that an application has an executor on each of the two workers
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JVM,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        }

    def submit(self, arguments: list[str], *, env: dict[str, str] | None = None, folder: Path | None = None):
        """``spark-submit`` on one executor; they have their own Python, the driver has ours."""
        confs = [part for key, value in self.settings().items() for part in ("--conf", f"{key}={value}")]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, "--driver-java-options", JVM]
        return subprocess.run(
            [*command, "--total-executor-cores", "1", *confs, *arguments],
            env={**self.env, **self.driver_env(), **(env or {})},
            capture_output=True, text=True, check=False, timeout=patient(300), cwd=folder or self.folder,
        )  # fmt: skip

    def executors(self) -> dict[int, set[int]]:
        """The executors that run now, each with the Python processes below it."""
        found = {}
        for worker in self._started[1:]:
            for pid in family(worker.pid):
                if "CoarseGrainedExecutorBackend" in command_line(pid) and is_running(pid):
                    found[pid] = family(pid) - {pid}
        return found

    def driver_env(self) -> dict[str, str]:
        """What a driver with our Python needs to start executors with theirs."""
        ours = {"PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        return ours | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def event_settings(self, folder: Path) -> dict[str, str]:
        """What lets Spark write down what it did; ``read_events`` reads it."""
        folder.mkdir(parents=True, exist_ok=True)
        return {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{folder}",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }

    def writers(self, below: Path, *, ending: str = ".data") -> set[int]:
        """The Python workers of executors that hold a data file open below a folder."""
        pythons = set().union(*self.executors().values())
        return {pid for pid in pythons if is_writing(pid, below, ending=ending)}

    def executor_of(self, worker: int) -> int:
        """The executor of a Python worker."""
        return next(pid for pid, pythons in self.executors().items() if worker in pythons)

    def shipped(self) -> set[str]:
        """The names of archives that executors were given."""
        return {path.name for path in self.folder.glob("work-*/app-*/*/*.zip")}

    def close(self) -> None:
        """End all processes of the cluster."""
        for child in reversed(self._started):
            everything = family(child.pid)
            child.kill()
            child.wait()
            for pid in everything - {child.pid}:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _start(self, what: str, host: str, *arguments: str) -> Path:
        log = self.folder / f"{what}-{host}.log"
        env = {**self.env, "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": JVM}
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what.lower()}.{what}"]
        with log.open("w") as out:
            self._started.append(
                subprocess.Popen(
                    [*command, *arguments, "--host", host, "--webui-port", "0"],
                    env=env, stdout=out, stderr=out, cwd=self.folder,
                )
            )  # fmt: skip
        return log

    @staticmethod
    def _wait_for(log: Path, pattern: str) -> str:
        found = wait_until(lambda: re.search(pattern, log.read_text()), what=f"{pattern} in {log}")
        return found.group()


class Driver:
    """A driver of its own on the cluster; see session_server.py."""

    def __init__(self, cluster: Cluster, log: Path, settings: dict[str, str] | None = None) -> None:
        self.log = log
        confs = {**cluster.settings(), **(settings or {}), "spark.master": cluster.master}
        confs["spark.driver.extraJavaOptions"] = JVM
        command = [sys.executable, str(Path(__file__).with_name("session_server.py")), json.dumps(confs)]
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, cwd=cluster.folder,
                env={**cluster.env, **cluster.driver_env()},
            )  # fmt: skip
        self.answer()

    def events(self, kind: str) -> list[dict[str, object]]:
        """What Spark wrote down of this driver, if it was configured to."""
        return read_events(self.log.with_name("events"), kind)

    def begin(self, path: Path, *, parallel: int) -> None:
        """Begin to compact a table."""
        self.process.stdin.write(json.dumps({"path": str(path), "parallel": parallel}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, object]:
        """Wait for the end of what was begun."""
        line = self.process.stdout.readline()
        assert line, self.log.read_text()[-3000:]
        return json.loads(line)

    def kill(self) -> None:
        """Kill the driver with its JVM, as a host that loses its power."""
        everything = family(self.process.pid)
        for pid in everything:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def close(self) -> None:
        """Let it end by itself."""
        if self.process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.process.communicate(timeout=patient(60))
