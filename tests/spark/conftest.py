"""One Spark session for all tests of a process, and programs that start one of their own."""

import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REPO = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    """Everything here starts Spark."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(autouse=True)
def _usual_engine(monkeypatch):
    """Here the default decides where the work runs, as for a user."""
    monkeypatch.delenv("PACKSTONE_ENGINE", raising=False)


@pytest.fixture(scope="session")
def spark_env(tmp_path_factory) -> dict[str, str]:
    """An environment in which Spark needs nothing from outside this machine."""
    scratch = tmp_path_factory.mktemp("spark")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PACKSTONE_ENGINE"))}
    java = Path(sys.prefix) / "java"
    return {
        **kept,
        **({"JAVA_HOME": str(java)} if "JAVA_HOME" not in kept and java.is_dir() else {}),
        "PACKSTONE_HISTORY": f"sqlite:///{scratch}/history.db",
        "PACKSTONE_LOGS": str(scratch / "logs"),
        "PACKSTONE_PROGRESS_SECONDS": "0",  # no lines on a machine that is so busy that a command takes half a minute
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def spark(spark_env, tmp_path_factory):
    """The one session of this process, made as a user makes one; a task may fail twice."""
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ.update(spark_env)
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.driver.extraJavaOptions", os.environ.get("PACKSTONE_JVM_OPTIONS", ""))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def hostile(spark):
    """Set what a user's session may have set, and put it back."""
    changed = {}

    def set_all(settings):
        for key, value in settings.items():
            changed.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield set_all
    for key, value in changed.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@pytest.fixture
def program(spark_env, tmp_path):
    """Start a Python program of its own with arguments; it may be killed."""
    started = []

    def start(source, *arguments, env=None):
        path = tmp_path / f"program{len(started)}.py"
        path.write_text(textwrap.dedent(source))
        log = (tmp_path / f"program{len(started)}.log").open("w")
        command = [sys.executable, str(path), *map(str, arguments)]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path, env={**spark_env, **(env or {})}
        )
        log.close()
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        if child.stdout.closed:  # by the test
            child.wait()
        else:
            child.communicate()


class Orders:
    """A partitioned table of small Parquet files with rows that are all different."""

    def __init__(self, root: Path) -> None:
        self.path = root / "orders"

    def write(self, *, partitions=3, files=6, rows=100, width=10):
        """Fill the table; a bigger width makes bigger files."""
        for partition in range(partitions):
            folder = self.path / f"dt={partition}"
            folder.mkdir(parents=True, exist_ok=True)
            for at in range(files):
                first = (partition * files + at) * rows
                texts = [os.urandom(width) for _ in range(rows)]
                pq.write_table(pa.table({"id": range(first, first + rows), "b": texts}), folder / f"{at:04d}.parquet")
        return self

    def ids(self):
        """The multiset of ids in all visible files, by PyArrow."""
        found = [pq.read_table(path, columns=["id"], partitioning=None)["id"] for path in self.files()]
        return Counter(number for column in found for number in column.to_pylist())

    def files(self):
        """All files below the table, hidden or not."""
        return sorted(path for path in self.path.rglob("*") if path.is_file())

    def staged(self):
        """What lies in staging folders."""
        return [path for path in self.path.parent.glob(".packstone/orders/staging/**/*") if path.is_file()]


@pytest.fixture
def orders(tmp_path) -> Orders:
    """An empty table."""
    return Orders(tmp_path)
