"""The bundle, and the commands of deploy/yarn as printed, on a real YARN and an HDFS with two NameNodes.

Commands get cron's environment and nothing else. Where the tests run as root, containers run as ``nobody``: see
``yarn_cluster.py``.
"""

import io
import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests are imported by path, not as packages

from database_servers import PASSWORD
from deploy_pages import blocks
from hdfs_pair import HdfsPair
from patience import patient
from yarn_cluster import AS_NOBODY, NOBODY, SPARK_HOME, YarnCluster, why_not_as_nobody

REPO = Path(__file__).parents[2]
PAGE = "yarn/README.md"
_, MAKE, CLIENT, CLUSTER, NIGHTLY = blocks(PAGE)
PACKSTONE = str(Path(sys.executable).with_name("packstone"))
USER = pwd.getpwuid(os.geteuid()).pw_name
CRON = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": USER, "LANG": "C.UTF-8"}
MODULES = "pyarrow.parquet, numpy, fastavro, hdfs_native, packstone.cli.main, ssl, sqlite3, pandas"
PAGE_HISTORY = "mysql+pymysql://packstone@dbhost/packstone"
FILES, ROWS = 6, 500


@pytest.fixture(scope="module")
def site():
    """A folder that every user may enter, unlike those of pytest: what the machines of the cluster share."""
    folder = Path(tempfile.mkdtemp(prefix="packstone-yarn-"))
    folder.chmod(0o755)
    for name in ("packstone", "log", "conf", "home"):
        (folder / name).mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str], site: Path, **env: str) -> subprocess.CompletedProcess:
    """Run a command in cron's environment; a folder has the settings that would be in /opt/spark/conf."""
    given = {**CRON, "HOME": f"{site}/home", "SPARK_CONF_DIR": f"{site}/conf", **env}
    return subprocess.run(
        command, env=given, cwd=site / "home", capture_output=True, text=True, check=False, timeout=patient(400)
    )


def here(text: str, site: Path, **more: str) -> str:
    """A script of the page with the names of this machine; those that a test gives must be on the page."""
    names = {
        "/opt/packstone/bin": str(Path(sys.executable).parent),
        "/opt/packstone": f"{site}/packstone",
        "/opt/spark": str(SPARK_HOME),
        "/etc/hadoop/conf": f"{site}/hdfs/conf",
        "/var/log/packstone": f"{site}/log",
        "nameservice1": "lakes",
    }
    assert all(name in text for name in more), more
    for name, found in (more | names).items():
        text = text.replace(name, found)
    return text


@pytest.fixture(scope="module")
def bundle(site):
    """The bundle, made once by the command of the page; what the command says of it."""
    command = here(MAKE.splitlines()[0], site)
    assert "packstone bundle " in command
    done = run(["sh", "-c", f"{command} --format json"], site)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_bundle_runs_anywhere_as_anybody(bundle, site):
    """Unpacked in another folder, it imports all that a job needs, and nothing of it comes from this environment."""
    assert bundle["bytes"] == Path(bundle["file"]).stat().st_size
    assert {"pyarrow", "numpy", "fastavro", "hdfs-native", "packstone"} <= set(bundle["packages"])
    assert not {"pyspark", "py4j", "pytest"} & set(bundle["packages"])
    folder = site / "unpacked"
    with tarfile.open(bundle["file"]) as archive:
        archive.extractall(folder, filter="tar")
    as_node = () if why_not_as_nobody() else AS_NOBODY
    program = f"""import sys, os, {MODULES}
print(os.getuid(), *(getattr(module, "__file__", None) or sys.prefix for module in sys.modules.values()), sep="\\n")"""
    command = [*as_node, f"{folder}/bin/python", "-B", "-c", program]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False, timeout=patient(120))
    assert done.returncode == 0, done.stderr
    uid, *places = done.stdout.splitlines()
    assert len(places) > 100
    assert [place for place in places if not place.startswith(str(folder))] == []
    named = subprocess.run([*as_node, f"{folder}/bin/packstone", "--version"], env={}, capture_output=True, check=False)
    assert named.returncode == 0, named.stderr
    if why_not_as_nobody():
        pytest.skip(f"ran as this user: {why_not_as_nobody()}")
    assert int(uid) == NOBODY


def test_bundle_brings_the_job_and_the_commands(bundle, site):
    """The job beside the archive is the one of the repository; the commands are those of the page, but for names."""
    assert Path(bundle["job"]).read_text() == (REPO / "packstone_merge.py").read_text()
    for mode, page in (("client", CLIENT), ("cluster", CLUSTER)):
        ours = bundle["submit"][mode]
        assert ours.startswith(
            f"HADOOP_CONF_DIR=/etc/hadoop/conf {SPARK_HOME}/bin/spark-submit --master yarn --deploy-mode {mode} "
        )
        printed = page.replace("/opt/packstone/bin/python", sys.executable)
        settings = [part for part in ours.split() if part.startswith("spark.")]
        assert [setting for setting in settings if setting not in printed] == []
        assert f"{bundle['file']}#env" in ours
        assert bundle["job"] in ours


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bundle.zip",), "must end with .tar.gz or .tgz"),
        (("none/bundle.tar.gz",), "There is no folder"),
        (("bundle.tar.gz", "--extra", "web"), "'web' is not one of"),
    ],
)
def test_bundle_refuses(packstone, tmp_path, monkeypatch, arguments, sentence):
    """A name that YARN would not unpack, a folder that does not exist and an unknown extra are refused at once."""
    monkeypatch.chdir(tmp_path)
    done = packstone("bundle", *arguments)
    assert (done.code, list(tmp_path.rglob("*bundle*"))) == (2, [])
    assert sentence in done.sentence


@pytest.fixture(scope="module")
def hdfs(site):
    """Two NameNodes, the first of them active, and a DataNode."""
    pair = HdfsPair(site / "hdfs")
    try:
        pair.start()
        pair.make_active("namenode1")
        yield pair
    finally:
        pair.stop()


@pytest.fixture(scope="module")
def yarn(site, hdfs, bundle):
    """YARN on that HDFS; the bundle is in HDFS, where the page puts it."""
    cluster = YarnCluster(site / "yarn", hdfs.conf)
    cluster.write_defaults(site / "conf" / "spark-defaults.conf")
    for line in MAKE.splitlines()[1:]:
        program, dfs, *arguments = here(line, site).split()
        assert (program, dfs) == ("hdfs", "dfs")
        hdfs.shell(*arguments)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Orders:
    """A table, of one user, in the place of the page's."""

    def __init__(self, hdfs, site, name):
        self._hdfs, self._site, self.inside = hdfs, site, f"/data/{name}"
        self._reads = 0

    def write(self, partition, *, owner=USER):
        """Write a partition of small files, three days old, that only its owner may read; return its rows."""
        client, folder = self._hdfs.client(), f"{self.inside}/{partition}"
        client.mkdirs(folder, create_parent=True)
        for number in range(FILES):
            first = number * ROWS
            table = pa.table({"id": range(first, first + ROWS), "name": [f"{partition} {at}" for at in range(ROWS)]})
            pq.write_table(table, content := io.BytesIO())
            self._hdfs.put(f"{folder}/part-{number}.parquet", content.getvalue())
        old = int(time.time() * 1000) - 3 * 86_400_000
        for path in (*(f"{folder}/part-{number}.parquet" for number in range(FILES)), folder, self.inside):
            client.set_owner(path, owner, None)  # the group stays: only its members could give it to an output
            client.set_permission(path, 0o700)
            client.set_times(path, old, old)
        client.set_permission("/data", 0o777)
        return self.rows(partition)

    def files(self, partition):
        """The names of the partition's files."""
        found = self._hdfs.client().list_status(f"{self.inside}/{partition}")
        return sorted(each.path.rpartition("/")[2] for each in found)

    def rows(self, partition):
        """All rows of a partition, duplicates too, by DuckDB from files that the library's own client fetched."""
        self._reads += 1
        local = self._hdfs.download(f"{self.inside}/{partition}", self._site / f"{self.inside[1:]}-{self._reads}")
        files = f"read_parquet('{local}/*.parquet')"
        return duckdb.sql(f"select id, name, count(*) from {files} group by all order by all").fetchall()

    def check_merged(self, partition, before):
        """One file, and every row as it was."""
        assert len(before) == FILES * ROWS
        assert self.rows(partition) == before
        (name,) = self.files(partition)
        assert name.startswith("packstone-")


def test_client_mode(yarn, hdfs, site):
    """The driver acts as the user of the operating system, and executors, which run as another one, act as he does."""
    orders = Orders(hdfs, site, "client")
    before = orders.write("dt=20190101")
    done = run(["sh", "-c", here(CLIENT, site, **{"/data/orders": orders.inside})], site)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    said = json.loads((site / "log" / "orders.json").read_text())
    assert (said["status"], said["files_before"], said["files_after"]) == ("committed", FILES, 1)
    orders.check_merged("dt=20190101", before)
    assert (site / "home" / ".local" / "share" / "packstone" / "history.db").exists()
    assert not (site / "home" / ".local" / "state").exists()  # no log folder: the JVM was spark-submit's


@pytest.fixture
def history(request, site):
    """The address of an empty MariaDB and its password; where there is none, of a file that every user may write."""
    try:
        server = request.getfixturevalue("mariadb")
    except pytest.skip.Exception:
        (site / "history").mkdir()
        (site / "history").chmod(0o777)
        return f"sqlite:///{site}/history/history.db", ""
    return server.url(server.make("yarn_history"), password=None), PASSWORD


@pytest.mark.database
def test_cluster_mode(yarn, hdfs, site, history):
    """The driver has a HOME that it cannot write to; it acts as the user who submitted, and records the run."""
    orders = Orders(hdfs, site, "cluster")
    before = orders.write("dt=20190102", owner="etl")
    make_home(hdfs, "etl")
    url, password = history
    (site / "history-password").write_text(password)
    names = {"/data/orders": orders.inside, "/etc/packstone": str(site), PAGE_HISTORY: url}
    done = run(["sh", "-c", here(CLUSTER, site, **names)], site, HADOOP_USER_NAME="etl")
    application = yarn.applications()[0]
    assert done.returncode == 0, done.stderr[-3000:] + yarn.container_logs(application["id"])
    assert (application["user"], application["finalStatus"]) == ("etl", "SUCCEEDED")
    said = json.loads(hdfs.get("/data/cluster-merge.json"))
    assert (said["status"], said["files_after"], said.get("warnings", [])) == ("committed", 1, [])
    orders.check_merged("dt=20190102", before)
    asked = [PACKSTONE, "history", "--history", url, "--format", "json"]
    listed = run(asked, site, PACKSTONE_HISTORY_PASSWORD=password)
    assert [found["run"] for found in json.loads(listed.stdout)["runs"]] == [said["run"]]


def make_home(hdfs, user):
    """Make the folder of a user, in which Spark keeps what it sends to containers."""
    hdfs.client().mkdirs(f"/user/{user}", create_parent=True)
    hdfs.client().set_owner(f"/user/{user}", user, user)


DIES = """
import os, signal, sys
from packstone.cli.main import run
from packstone.storage.hdfs import HdfsFileIO

moved, move = [], HdfsFileIO.move

def move_some(self, source, target):
    if source.startswith(sys.argv[1].rstrip("/") + sys.argv[2]):
        moved.append(source)
    if len(moved) == 4:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    move(self, source, target)

HdfsFileIO.move = move_some
sys.exit(run(["merge", *sys.argv[1:]]))
"""


def test_driver_killed_in_the_swap(yarn, hdfs, site):
    """The driver and its JVM die on a node with some of the originals moved away; another machine brings them back.

    The container's folder and HOME are gone with the node, and the history it wrote to is unknown here: all that is
    needed lies beside the table.
    """
    orders = Orders(hdfs, site, "killed")
    before = orders.write("dt=20190102", owner="etl")
    make_home(hdfs, "etl")
    (site / "dies.py").write_text(DIES)
    names = {
        "/data/orders": orders.inside,
        "/opt/packstone/packstone_merge.py": f"{site}/dies.py",
        "--files /etc/packstone/history-password": "",
        PAGE_HISTORY: f"sqlite:///{site}/nowhere/history.db",
    }
    command = here(CLUSTER, site, **names)
    done = run(["sh", "-c", command], site, HADOOP_USER_NAME="etl")
    application = yarn.applications()[0]
    assert (done.returncode, application["finalStatus"]) == (1, "FAILED"), done.stderr[-3000:]
    left = orders.files("dt=20190102")
    assert 0 < len(left) < FILES, yarn.container_logs(application["id"])  # who reads now misses rows
    recover = [PACKSTONE, "recover", f"{hdfs.url}{orders.inside}", "--format", "json"]
    (site / "other-home").mkdir()
    env = {**hdfs.env, "HADOOP_USER_NAME": "etl", "HOME": f"{site}/other-home"}
    if can_rename_host():
        as_other_host = ["unshare", "--uts", "sh", "-c", 'echo elsewhere > /proc/sys/kernel/hostname; exec "$@"', "sh"]
        refused = run([*as_other_host, *recover], site, **env)
        assert refused.returncode == 3, refused.stdout + refused.stderr  # for all it knows, the driver may still run
        assert orders.files("dt=20190102") == left
        recover = [*as_other_host, *recover, "--take-over"]
    done = run(recover, site, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert orders.rows("dt=20190102") == before


def can_rename_host():
    """Whether a process here can have a host name of its own."""
    tried = subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def test_every_night(yarn, hdfs, site):
    """The script of the crontab, in a file, run by cron's shell: Packstone starts Spark itself, in client mode."""
    orders = Orders(hdfs, site, "nightly")
    before = orders.write("dt=20190101")
    script = site / "packstone" / "nightly.sh"
    script.write_text(here(NIGHTLY, site, **{"/data/orders": orders.inside}))
    script.chmod(0o755)
    done = run(["/bin/sh", "-c", str(script)], site)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads((site / "log" / "orders.json").read_text())["status"] == "committed"
    orders.check_merged("dt=20190101", before)
