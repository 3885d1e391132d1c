"""What tests share: a lake to fill, and the command line run in this process or in one of its own."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for what tests share: they are imported by path, not as packages
import needs
from database_servers import database_server, mariadb, postgres  # noqa: F401 (fixtures, found by name here)
from patience import patient
from samples import EXAMPLES_PCT

# The same examples in every short run, so that one finding of luck never stops another change; new ones when soaking.
# How long one takes says nothing on a busy machine.
settings.register_profile("short", derandomize=True, deadline=None)
settings.register_profile("long", deadline=None)
settings.load_profile("long" if os.environ.get("PACKSTONE_SOAK") else "short")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background processes so: `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)

PACKSTONE = Path(sys.executable).with_name("packstone")


def pytest_addoption(parser):
    """Let ``pytest --rewrite`` write the answers in tests/testdata anew."""
    parser.addoption("--rewrite", action="store_true", help="Write the scenario files' answers anew.")


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their markers
def pytest_collection_modifyitems(config, items):
    """Mark tests by what they need, and scale their time limits."""
    needs.mark_rest_of_samples(items)
    for item in items:
        needs.mark(item)
        _set_examples(item)
        _set_limit(item, usual=float(config.getvalue("timeout") or config.getini("timeout")))
    config.all_tests = tuple(items)  # of every target, before any is deselected; for tests/test_house.py


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is one process anyway
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadscope`` a file's tests stay in one process, and all that share the Spark session in another."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSparkSession(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.partition("::")[0]
            return "tests/spark" if path.startswith("tests/spark/") else path

    return OneSparkSession(config, log)


def _set_examples(item):
    """Run only a share of the examples that a property asks for, but ten at least."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    wanted = getattr(test, "_hypothesis_internal_use_settings", None)  # Hypothesis has no public name for it
    if wanted is None or EXAMPLES_PCT == 100 or hasattr(test, "all_examples"):
        return
    test.all_examples = wanted.max_examples  # parameters share one function: scale it once
    fewer = max(wanted.max_examples * EXAMPLES_PCT // 100, min(wanted.max_examples, 10))
    test._hypothesis_internal_use_settings = settings(wanted, max_examples=fewer)


def _set_limit(item, *, usual):
    """The long form of a test may take hours on a busy machine; the limit of the short ones is not for it."""
    own = item.get_closest_marker("timeout")
    seconds = own.args[0] if own else 4 * 3600 if item.get_closest_marker("soak") else usual
    item.add_marker(pytest.mark.timeout(patient(seconds)), append=False)


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item):
    """Let only those servers start that the test is marked with."""
    needs.begin(item)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stdout says; it must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of stderr; a second one is a failure."""
        (line,) = self.err.splitlines()
        return line

    def skipped(self, what: str) -> str:
        """Why something was left alone, by the end of its name."""
        (why,) = [skip["why"] for skip in self.json["skipped"] if skip["what"].endswith(what)]
        return why


class Lake:
    """Folders of small files below one root, and what is in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = root / "orders"
        self._next = 0

    def parquet(self, folder: str = "", *, files: int = 6, rows: int = 10, codec: str = "snappy") -> Path:
        """Write Parquet files of numbers that are all different, in name order."""
        directory = self.folder(folder)
        for _ in range(files):
            first = self._next * rows
            table = pa.table({"id": range(first, first + rows), "name": [f"n{at}" for at in range(rows)]})
            with (directory / f"part-{self._next:05d}.parquet").open("wb") as file:
                pq.write_table(table, file, compression=codec)
            self._next += 1
        return directory

    def text(self, folder: str, contents: dict[str, bytes]) -> Path:
        """Write files with these bytes."""
        directory = self.folder(folder)
        for name, content in contents.items():
            (directory / name).write_bytes(content)
        return directory

    def folder(self, folder: str = "") -> Path:
        """Make a folder of the table."""
        directory = self.table / folder if folder else self.table
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def ids(self, folder: str = "") -> list[int]:
        """The ids of all visible Parquet files, by a reader that is not ours; duplicates stay."""
        found = sorted((self.table / folder).rglob("*.parquet"))
        files = (pq.ParquetFile(pa.BufferReader(path.read_bytes())) for path in found)
        return sorted(number for file in files for number in file.read()["id"].to_pylist())

    def names(self, folder: str = "") -> list[str]:
        """Everything in a folder by name, hidden or not."""
        return sorted(path.name for path in (self.table / folder).iterdir())


def tree(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder that a reader could notice: bytes, modes, owners, times, links."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(Path(root).rglob("*")):
        stat = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        when = None if path.is_dir() else stat.st_mtime_ns
        found[str(path.relative_to(root))] = (content, stat.st_mode, stat.st_uid, stat.st_gid, when)
    return found


@pytest.fixture(name="tree")
def tree_fixture():
    """Describe a folder, to compare before and after."""
    return tree


@pytest.fixture(scope="session", autouse=True)
def _own_history(tmp_path_factory):
    """No test writes to the history of the person who runs it, and none outside of tests/spark starts Spark unasked."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("history")
        patch.setenv("PACKSTONE_HISTORY", f"sqlite:///{folder}/history.db")
        patch.setenv("PACKSTONE_UNRECORDED", f"{folder}/unrecorded")
        patch.setenv("PACKSTONE_ENGINE", "inline")
        yield


@pytest.fixture
def lake(tmp_path) -> Lake:
    """An empty lake."""
    return Lake(tmp_path / "lake")


@pytest.fixture
def quiet_env(tmp_path, monkeypatch) -> dict[str, str]:
    """No Spark, and a history of the test's own."""
    ours = {
        "PACKSTONE_ENGINE": "inline",
        "PACKSTONE_HISTORY": f"sqlite:///{tmp_path}/history.db",
        "PACKSTONE_UNRECORDED": str(tmp_path / "unrecorded"),
        "PACKSTONE_LOGS": str(tmp_path / "logs"),
        "PACKSTONE_PROGRESS_SECONDS": "0",  # no lines on a machine that is so busy that a command takes half a minute
    }
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PACKSTONE_DEBUG", raising=False)
    return {**os.environ, **ours}


@pytest.fixture
def packstone(quiet_env, capsys):
    """Run the command line in this process: quick, and exact in exit code and output."""
    from packstone.cli.main import run
    from packstone.query.scan.caches import process_caches

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        process_caches.cache_clear()  # as in a process of its own
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture
def packstone_process(quiet_env):
    """Run the installed command as users do."""

    def call(*arguments: object, env: dict[str, str] | None = None, timeout: float = 120, **kwargs: Any) -> Done:
        command = [os.fsencode(str(argument)) for argument in (PACKSTONE, *arguments)]
        done = subprocess.run(
            command,
            env={**quiet_env, **(env or {})},
            capture_output=True,
            check=False,
            timeout=patient(timeout),
            **kwargs,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


class Children:
    """Calls of ``fork_server.py``, each in a process that may be killed."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("fork_server.py"))]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, call: str, *, fault: Any = None, uid: int | None = None, env: Any = None, **arguments: Any) -> int:
        """Begin a call, with ``env`` on the S3 that it describes; return the process's number."""
        log = os.environ.get("PACKSTONE_KILL_LOG")
        if log and fault is not None:  # scripts/count-kill-points
            with Path(log).open("a") as file:
                file.write(json.dumps([call, fault], default=str) + "\n")
        return self._ask({"call": call, "fault": fault, "uid": uid, "env": env, "arguments": arguments})["pid"]

    def wait(self, pid: int) -> dict[str, Any]:
        """Wait for a call: its ``status`` and, unless it was killed, ``value`` or ``error`` and ``steps``."""
        return self._ask({"wait": pid})

    def run(self, call: str, **arguments: Any) -> dict[str, Any]:
        """Begin a call and wait for it."""
        return self.wait(self.start(call, **arguments))

    def close(self) -> None:
        """End the server."""
        self._server.communicate(timeout=patient(60))

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        self._server.stdin.write(json.dumps(question, default=str) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


@pytest.fixture(scope="session")
def children():
    """Calls in processes of their own."""
    children = Children()
    yield children
    children.close()


def _serve(start, folder):
    from s3_servers import stop

    server, process = start(folder)
    try:
        yield server
    finally:
        stop(process)


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory):
    """A real S3 server."""
    from s3_servers import start_seaweed

    yield from _serve(start_seaweed, tmp_path_factory.mktemp("seaweed"))


@pytest.fixture(scope="session")
def moto(tmp_path_factory):
    """An S3 server in memory."""
    from s3_servers import start_moto

    yield from _serve(start_moto, tmp_path_factory.mktemp("moto"))


@pytest.fixture(scope="session")
def careless(tmp_path_factory):
    """An S3 server that takes no notice of the condition of a put."""
    from s3_servers import start_rclone

    yield from _serve(start_rclone, tmp_path_factory.mktemp("rclone"))


@pytest.fixture
def use_s3(monkeypatch, request):
    """Point this process at a server; answers with a path of the test's own on it."""

    def use(server):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        return f"s3://lake/{request.path.stem}/{request.node.name.replace('/', '-')}"

    return use


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """A real NameNode and DataNode."""
    from hdfs_cluster import HdfsCluster

    cluster = HdfsCluster(tmp_path_factory.mktemp("hdfs"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def use_hdfs(monkeypatch, request, hdfs):
    """Point this process at the cluster; answers with a path of the test's own on it."""
    for name, value in hdfs.env.items():
        monkeypatch.setenv(name, value)
    return f"{hdfs.url}/{request.node.nodeid.rpartition('::')[2].replace('/', '-').replace(':', '-')}"
