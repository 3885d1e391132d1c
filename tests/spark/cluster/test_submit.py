"""The classic job, the command and Spark Connect on a cluster whose executors have no Packstone."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are imported by path, not as packages

from deploy_pages import submits, swapped
from patience import patient
from standalone import HOSTS, JVM, REPO, SPARK_HOME, can_import, make_python, wait_until

JOB = REPO / "packstone_merge.py"
PACKSTONE = Path(sys.executable).with_name("packstone")


def test_the_package_goes_to_executors_by_itself(cluster, orders, rows):
    """As deploy/standalone says: the driver ships its Packstone to executors that have none and cannot import one."""
    orders.write(partitions=1)
    before = rows(orders.path)
    assert can_import(cluster.python, "pyarrow")
    assert not can_import(cluster.python, "packstone") or pyspark.__version__.startswith("3.")
    names = {
        "/opt/packstone/bin/python": sys.executable,
        "/opt/executor-python/bin/python": cluster.python,
        "packstone_merge.py": JOB,
        "/mnt/lake/orders": orders.path,
        "dt=20190101": "dt=0",
    }
    done = cluster.submit(swapped(submits("standalone/README.md")[0], names))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert (said["status"], said["files_after"], len(orders.files())) == ("committed", 1, 1)
    assert rows(orders.path) == before
    assert any(name.startswith("packstone-") for name in cluster.shipped())


@pytest.fixture
def container(tmp_path):
    """A folder as YARN makes it for the driver in cluster mode: the archive and what is in it, the wheel, the job."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, cwd=REPO, capture_output=True, timeout=patient(120))
    (wheel,) = tmp_path.glob("packstone-*.whl")
    folder = tmp_path / "container"
    make_python(folder / "env", whole=True)
    shutil.copy(wheel, folder / "packstone.zip")
    shutil.copy(JOB, folder)
    with tarfile.open(folder / "packstone-env.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "env", ".")
    return folder


def test_a_wheel_and_an_environment_go_along(cluster, container, orders, rows):
    """As deploy/yarn says of --py-files: nobody has a package; a wheel and an environment are all it takes."""
    orders.write(partitions=1)
    before = rows(orders.path)
    python = container / "env" / "bin" / "python"
    assert can_import(python, "click")
    assert not can_import(python, "packstone")
    shipped = ["--archives", "packstone-env.tar.gz#env", "--py-files", "packstone.zip"]
    settings = ["--conf", "spark.pyspark.python=./env/bin/python"]
    job = ["packstone_merge.py", "file:///", f"{orders.path}/dt=0", "120M", "--format", "json"]
    env = {"PYTHONPATH": "", "PYSPARK_PYTHON": "", "PYSPARK_DRIVER_PYTHON": ""}
    env["PACKSTONE_HISTORY"] = f"sqlite:///{container}/history.db"
    done = cluster.submit([*shipped, *settings, *job], env=env, folder=container)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "packstone:" not in done.stderr  # the history was made too, by scripts that are in the archive
    assert json.loads(done.stdout)["files_after"] == len(orders.files()) == 1
    assert rows(orders.path) == before
    assert "packstone.zip" in cluster.shipped()


def test_executors_without_pyarrow_are_told_in_one_sentence(cluster, orders, tree, tmp_path):
    """The command on a cluster heeds spark.pyspark.python; what that Python lacks is named, and nothing is changed."""
    orders.write(partitions=1)
    before = tree(orders.path)
    python = make_python(tmp_path / "empty-python")
    settings = {**cluster.settings(), "spark.pyspark.python": str(python), "spark.cores.max": "1"}
    confs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [str(PACKSTONE), "compact", str(orders.path), "--engine", cluster.master, *confs]
    done = subprocess.run(
        command, env={**cluster.env, "PACKSTONE_JVM_OPTIONS": JVM, "PYTHONPATH": str(REPO / "src")},
        capture_output=True, text=True, check=False, timeout=patient(300), cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = done.stderr.splitlines()
    assert "The Python of the executors has no pyarrow; install it there" in sentence
    assert tree(orders.path) == before


@pytest.fixture
def server(cluster, tmp_path):
    """A Spark Connect server on the cluster; its Python has no Packstone either."""
    pytest.importorskip("grpc")
    if importlib.metadata.version("pyspark").startswith("3."):
        pytest.skip("the server is a package of its own before Spark 4")
    settings = {
        **cluster.settings(),
        "spark.connect.grpc.binding.address": HOSTS[0],
        "spark.connect.grpc.binding.port": "0",
        "spark.cores.max": "1",
        "spark.log.level": "INFO",
    }
    confs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, "--driver-java-options", JVM]
    server_class = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = tmp_path / "server.log"
    with log.open("w") as out:
        child = subprocess.Popen(
            [*command, *confs, *server_class], stdout=out, stderr=out, cwd=tmp_path,
            env={**cluster.env, "PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": HOSTS[0]},
        )  # fmt: skip
    port = re.compile(r"Spark Connect server started at: \S*?:([1-9]\d+)")
    try:
        found = wait_until(lambda: child.poll() is not None or port.search(log.read_text()), what="the server")
        assert not isinstance(found, bool), log.read_text()[-3000:]
        yield f"sc://{HOSTS[0]}:{found.group(1)}"
    finally:
        child.kill()
        child.wait()


@pytest.mark.connect
def test_the_package_goes_through_spark_connect(cluster, server, orders, rows):
    """Through Spark Connect the package is shipped as an artifact of the session."""
    orders.write(partitions=2)
    before = rows(orders.path)
    command = [str(PACKSTONE), "compact", str(orders.path), "--engine", server, "--format", "json"]
    done = subprocess.run(
        command, env={**cluster.env, "PYTHONPATH": str(REPO / "src")},
        capture_output=True, text=True, check=False, timeout=patient(300), cwd=cluster.folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads(done.stdout)["files_after"] == len(orders.files()) == 2
    assert rows(orders.path) == before
