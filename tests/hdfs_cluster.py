"""A real NameNode and a real DataNode on free ports of this machine, started once for those tests that ask.

``make test-servers`` brings their jars (``scripts/fetch-hdfs-jars``). Both can be stopped, killed and started in the
middle.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from needs import check_marked
from patience import patient

UP_SECONDS = patient(120)
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xshare:auto")
# What Hadoop 2.7 (from PyPI, where there is no Maven) needs on a Java of today.
_OLD_JVM = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)
LOG4J = """log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}


class HdfsCluster:
    """One NameNode and one DataNode in a temporary folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder, self._jars = folder, find_jars()
        ports = free_ports(5)
        self.port, self._data_port = ports[0], ports[1]
        self._web_port = ports[2]
        self.direct_url = f"hdfs://127.0.0.1:{self.port}"
        self.proxy = NameNodeProxy(self.port)
        self.url = self.proxy.url  # what tests use
        self.conf = folder / "conf"
        self._client = None
        self._running: dict[str, subprocess.Popen] = {}
        self._write_configuration(ports, settings)
        self._java("namenode", "-format", "-nonInteractive").wait(UP_SECONDS)

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to know to use it."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def other_ports(self) -> tuple[int, int]:
        """Where servers listen that are no NameNode: the DataNode, and the NameNode's web pages."""
        return self._data_port, self._web_port

    def start(self, *names: str) -> None:
        """Start both, or those named, and wait until they serve."""
        for name in names or ("namenode", "datanode"):
            self._running[name] = self._java(name)
        self.wait_ready()

    def stop(self, *names: str, kill: bool = False) -> None:
        """Stop both, or those named; ``kill`` gives them no chance to say so."""
        if not names:
            self.proxy.close()
        for name in names or sorted(self._running):
            process = self._running.pop(name, None)
            if process is not None:
                process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
                process.wait(patient(60))

    def signal(self, name: str, number: int) -> None:
        """Send a signal to one of them, such as SIGSTOP: its connections stay open, and nobody answers."""
        self._running[name].send_signal(number)

    def wait_ready(self) -> None:
        """Wait until the NameNode is out of safe mode and knows a DataNode, as far as they run."""
        until = time.monotonic() + UP_SECONDS
        ports = {"namenode": self.port, "datanode": self._data_port}
        for name in self._running.keys() & ports.keys():
            while not listens(ports[name]):
                self._check_alive(name, until)
        if len(self._running) >= len(_CLASSES):
            while not self._takes_a_file():
                self._check_alive("datanode", until)

    def client(self):
        """A client that is not ours, but the library's own."""
        from hdfs_native import Client

        if self._client is None:
            self._client = Client(self.url, {"fs.defaultFS": self.url})
        return self._client

    def add_datanode(self, number: int) -> None:
        """Start another DataNode, whose host is named ``node<number>``, and wait until the NameNode knows it."""
        name, ports = f"datanode{number}", free_ports(3)
        settings = {
            "fs.defaultFS": self.direct_url,
            "dfs.datanode.data.dir": f"file://{self._folder}/data{number}",
            "dfs.datanode.hostname": f"node{number}",
            "dfs.datanode.address": f"127.0.0.1:{ports[0]}",
            "dfs.datanode.http.address": f"127.0.0.1:{ports[1]}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ports[2]}",
            "dfs.heartbeat.interval": "1",
        }
        write_settings(self._folder / f"{name}.xml", settings)
        self._running[name] = self._java(name)
        until = time.monotonic() + UP_SECONDS
        while f"node{number}" not in self.admin("-report"):
            self._check_alive(name, until)

    def put(self, path: str, content: bytes) -> None:
        """Write a file, by that client."""
        from hdfs_native import WriteOptions

        with self.client().create(path, WriteOptions(overwrite=True)) as file:
            file.write(content)

    def get(self, path: str) -> bytes:
        """Read a file, by that client."""
        return self.client().read(path).read()

    def upload(self, folder: Path, inside: str) -> None:
        """Copy a local folder, by that client."""
        self.client().mkdirs(inside, create_parent=True)
        for path in sorted(Path(folder).rglob("*")):
            target = f"{inside}/{path.relative_to(folder)}"
            if path.is_dir():
                self.client().mkdirs(target, create_parent=True)
            else:
                self.put(target, path.read_bytes())

    def download(self, inside: str, folder: Path) -> Path:
        """Copy a folder of the cluster to a local one, by that client."""
        folder.mkdir(parents=True)
        for found in self.client().list_status(inside, recursive=True):
            target = folder / found.path.removeprefix(f"{inside}/")
            if found.isdir:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.get(found.path))
        return folder

    def send(self, folder: Path, address: str) -> str:
        """Copy a local folder to an address; answers with it."""
        self.upload(folder, address.removeprefix(self.url))
        return address

    def fetch(self, address: str, folder: Path) -> Path:
        """Copy all that is below an address to a local folder."""
        return self.download(address.removeprefix(self.url), folder)

    def java(self, *arguments: str) -> str:
        """Run a command of Hadoop's own Java client, as ``hdfs`` does; returns what it prints."""
        command = [*self._command(self.conf), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patient(120), check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def admin(self, *arguments: str) -> str:
        """``hdfs dfsadmin``."""
        return self.java("org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", self.direct_url, *arguments)

    def shell(self, *arguments: str) -> str:
        """``hdfs dfs``."""
        return self.java("org.apache.hadoop.fs.FsShell", "-fs", self.direct_url, *arguments)

    def log(self, name: str) -> str:
        """What one of them wrote."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _takes_a_file(self) -> bool:
        try:
            self.put("/.ready", b"yes")
        except (OSError, RuntimeError):
            return False
        return True

    def _check_alive(self, name: str, until: float) -> None:
        assert self._running[name].poll() is None, f"the {name} ended:\n{self.log(name)[-4000:]}"
        assert time.monotonic() < until, f"the {name} does not serve:\n{self.log(name)[-4000:]}"
        time.sleep(0.1)

    def _java(self, name: str, *arguments: str) -> subprocess.Popen:
        command = [*self._command(), _CLASSES[name.rstrip("123")], "-conf", str(self._settings_of(name)), *arguments]
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder)

    def _settings_of(self, name: str) -> Path:
        own = self._folder / f"{name}.xml"
        return own if own.exists() else self._folder / "servers.xml"

    def _command(self, *more_paths: Path) -> list[str]:
        is_old = any(jar.name.startswith("hadoop-hdfs-2") for jar in self._jars)
        path = os.pathsep.join(map(str, (*self._jars, *more_paths, *((self._jars[0].parent,) if is_old else ()))))
        more = _OLD_JVM if is_old else ()
        return ["java", *_JVM, *more, f"-Dlog4j.configuration=file:{self.conf}/log4j.properties", "-cp", path]

    def _write_configuration(self, ports: list[int], settings: dict[str, str]) -> None:
        self.conf.mkdir(parents=True)
        (self.conf / "log4j.properties").write_text(LOG4J)
        ours = {
            "fs.defaultFS": self.direct_url,
            "hadoop.tmp.dir": f"{self._folder}/scratch",
            "dfs.namenode.name.dir": f"file://{self._folder}/name",
            "dfs.datanode.data.dir": f"file://{self._folder}/data",
            "dfs.replication": "1",
            "dfs.namenode.http-address": f"127.0.0.1:{ports[2]}",
            "dfs.datanode.address": f"127.0.0.1:{ports[1]}",
            "dfs.datanode.http.address": f"127.0.0.1:{ports[3]}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ports[4]}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.acls.enabled": "true",
            "dfs.webhdfs.enabled": "false",
            "dfs.namenode.fs-limits.min-block-size": "1024",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.edits.noeditlogchannelflush": "true",  # we kill processes, not machines
            **settings,
        }
        write_settings(self._folder / "servers.xml", ours)
        write_settings(self.conf / "core-site.xml", {"fs.defaultFS": self.url})
        (self.conf / "hdfs-site.xml").write_text("<configuration/>\n")  # Hadoop's shell insists on it


def write_settings(path: Path, settings: dict[str, str]) -> None:
    """Write a file as Hadoop reads them."""
    items = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in settings.items())
    path.write_text(f"<configuration>\n{items}</configuration>\n")


def find_jars() -> list[Path]:
    """The jars of the servers; without them the test is skipped."""
    check_marked("hdfs")
    venv = os.environ.get("PACKSTONE_SERVERS_VENV") or Path(sys.prefix).resolve().parent / ".venv-servers"
    folder = Path(venv) / "hdfs-jars"
    reason = folder / "why-not.txt"
    jars = sorted(folder.glob("*.jar"))
    if not jars or reason.exists():
        pytest.skip(
            reason.read_text().strip() if reason.exists() else f"no NameNode in {folder}; run `make test-servers`"
        )
    if shutil.which("java") is None:
        pytest.skip("there is no Java for a NameNode")
    return jars


def free_ports(count: int) -> list[int]:
    """Ports that nobody has."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class NameNodeProxy:
    """A proxy of the NameNode that can let a call through but lose its answer with the connection.

    Or it loses the question, as a NameNode that dies, and for a while hangs up on whoever calls.

    A call that closes a file and comes before the DataNode's report of the file is answered with no, and the library
    waits half a second before it asks again. With several replicas that is rare; with one it is every file. So the
    proxy asks again by itself, at once.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"hdfs://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lose_answer_of = self.lose_question_of = b""  # of the next call that holds these bytes
        self.lost = 0
        self._deaf_until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if time.monotonic() < self._deaf_until:
                client.close()
                continue
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = _Line(client, server)
            for work in (self._ask, self._answer):
                threading.Thread(target=work, args=(line,), daemon=True).start()

    def _ask(self, line: "_Line") -> None:
        with line.client, line.server:
            while data := _received(line.client):
                if self.lose_question_of and self.lose_question_of in data:
                    self.lose_question_of, self._deaf_until = b"", time.monotonic() + _DEAF_SECONDS
                    self.lost += 1
                    return
                if self.lose_answer_of and self.lose_answer_of in data:
                    self.lose_answer_of = b""
                    line.losing.set()
                line.closing = data if _is_one_frame(data) and b"\x08complete\x12" in data else b""
                if not line.send(data):
                    return

    def _answer(self, line: "_Line") -> None:
        while data := _received(line.server):
            if line.losing.is_set():
                self.lost += 1
                break
            if line.closing and _is_one_frame(data) and data.endswith(_NO):
                time.sleep(_AGAIN_SECONDS)
                if line.send(line.closing):
                    continue
            try:
                line.client.sendall(data)
            except OSError:
                break
        with contextlib.suppress(OSError):
            line.client.shutdown(socket.SHUT_RDWR)


_NO = b"\x02\x08\x00"  # a message of two bytes: its first field is false
_AGAIN_SECONDS = 0.003
_DEAF_SECONDS = 1


class _Line:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.losing = threading.Event()
        self.closing = b""  # the last call, if it closes a file
        self._sending = threading.Lock()

    def send(self, data: bytes) -> bool:
        """Send a call to the NameNode; False if nobody is there."""
        try:
            with self._sending:
                self.server.sendall(data)
        except OSError:
            return False
        return True


def _is_one_frame(data: bytes) -> bool:
    return int.from_bytes(data[:4], "big") == len(data) - 4


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""
