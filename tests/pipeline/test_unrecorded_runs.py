"""Runs whose record could not be written: kept, and recorded once by a later command."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import database_servers
import pytest
from database_servers import PASSWORD
from patience import patient
from record_files import edit_record

PACKSTONE = Path(sys.executable).with_name("packstone")

# A command that is killed when it has committed: before it is known what there is to record, at the first word to the
# database, or when the database knows and the kept record is about to be removed.
KILLED = """
import os, signal, sys
import packstone.pipeline.record as record
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "facts-unknown":
    record.RecordedRun.record = die
elif sys.argv[1] == "facts-known":
    record.Recorder.record = die  # its facts are kept by then
else:
    record.Recorder.forget = die
from packstone.cli.main import main
main(sys.argv[2:])
"""


class RestartedServer:
    """A database server that a test may stop and start again with its data."""

    def __init__(self, kind, folder):
        self._server = getattr(database_servers, f"start_{kind}")(folder)
        self._kind, self._folder = kind, folder
        self.url = self._server.fresh().replace(f":{PASSWORD}@", "@")

    def stop(self):
        """End it in order: it does not wait for its disk, so that killing it would lose what it has."""
        self._server.process.send_signal(signal.SIGTERM if self._kind == "mariadb" else signal.SIGINT)
        self._server.process.wait(timeout=patient(60))

    def start(self):
        """The same server on the same port with the same data."""
        log = self._folder / "again.log"
        user = None
        if self._kind == "postgres" and os.getuid() == 0:
            user = database_servers._other_user()
        command = [word for word in self._server.process.args if not word.startswith("--init-file")]
        self._server.process = database_servers._start(command, log=log, user=user)
        database_servers._started(self._server, log)


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def server(request):
    """A server of this module's own."""
    folder = Path(tempfile.mkdtemp(prefix="packstone-db-"))
    server = RestartedServer(request.param, folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def unrecorded(tmp_path, lake):
    """What is kept for later: the files of the user's folder and of the table's."""

    def names():
        folders = (tmp_path / "unrecorded", lake.root / ".packstone" / "orders" / "unrecorded")
        return [sorted(path.name for path in folder.iterdir()) if folder.exists() else [] for folder in folders]

    return names


def test_server_that_is_gone_meanwhile(server, packstone, lake, unrecorded, monkeypatch, tree):
    """Stopped in the middle: the run ends well, the record waits, and the next command writes it, once."""
    monkeypatch.setenv("PACKSTONE_HISTORY", server.url)
    monkeypatch.setenv("PACKSTONE_HISTORY_PASSWORD", PASSWORD)
    first = packstone("compact", lake.parquet("dt=1"), "--format", "json").json
    server.stop()
    done = packstone("compact", lake.parquet("dt=2"), "--format", "json")
    run = done.json["run"]
    assert (done.code, done.json["status"], lake.ids()) == (0, "committed", list(range(120)))
    assert "The next command that reaches the database records it." in done.sentence
    assert PASSWORD not in done.out + done.err
    assert unrecorded() == [[f"{run}.json"], [f"{run}.json"]]
    kept = [path.read_text() for path in lake.root.rglob(f"unrecorded/{run}.json")]
    assert PASSWORD not in "".join(kept)
    assert packstone("restore", run, lake.table, "--yes").code == 0
    failed = packstone("history")
    assert (failed.code, PASSWORD in failed.err) == (1, False)
    server.start()
    for _ in range(2):
        runs = packstone("history", "--format", "json").json["runs"]
        facts = [(one["run"], one["status"], one["files_before"], one["files_after"]) for one in runs]
        assert facts == [(run, "restored", 6, 1), (first["run"], "committed", 6, 1)]
    # From another machine: the user's folder is not there, and what lies beside the table is recorded by a writing run.
    assert unrecorded()[0] == []
    assert unrecorded()[1] == [f"{run}.json", f"{run}.restored.json"]
    third = packstone("compact", lake.parquet("dt=3"), "--format", "json").json
    assert unrecorded() == [[], []]
    runs = packstone("history", "--format", "json").json["runs"]
    assert [(one["run"], one["status"]) for one in runs] == [
        (third["run"], "committed"),
        (run, "restored"),
        (first["run"], "committed"),
    ]


def kill(when, lake, env):
    """Run a command that is killed there; return what it left in the user's folder."""
    command = [sys.executable, "-c", KILLED, when, "compact", lake.table, "--format", "json"]
    done = subprocess.run(command, env=env, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    (left,) = Path(env["PACKSTONE_UNRECORDED"]).iterdir()
    return json.loads(left.read_bytes())


@pytest.mark.parametrize(
    ("kind", "when"), [("mariadb", "facts-unknown"), ("postgres", "facts-known"), ("mariadb", "recorded")]
)
def test_killed_between_commit_and_record(kind, when, request, packstone, quiet_env, lake, unrecorded, monkeypatch):
    """SIGKILL after the commit: the next commands, two at once, record the run from what is left of it, once."""
    env = {"PACKSTONE_HISTORY": request.getfixturevalue(kind).fresh()}
    monkeypatch.setenv("PACKSTONE_HISTORY", env["PACKSTONE_HISTORY"])
    lake.parquet("dt=1")
    lake.parquet("dt=2", files=8)
    left = kill(when, lake, quiet_env | env)
    assert (left["facts"] is None) is (when == "facts-unknown")
    assert len(lake.names("dt=1")) == 1
    at_once = [subprocess.Popen([PACKSTONE, "history"], env=quiet_env | env, stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[0].count(left["run"].encode()) for process in at_once] == [1, 1]
    for _ in range(2):
        (run,) = packstone("history", "--format", "json").json["runs"]
        assert (run["run"], run["files_before"], run["files_after"], run["rows"]) == (left["run"], 14, 2, 140)
        assert run["status"] == ("partial" if when == "facts-unknown" else "committed")
        assert run["read_seconds_before"] > 0
    lake.parquet("dt=3")
    assert packstone("compact", lake.table).code == 0
    assert len(packstone("history", "--format", "json").json["runs"]) == 2
    assert unrecorded() == [[], []]


def test_killed_before_it_published(packstone, quiet_env, lake):
    """A run that was killed before it published anything is a failure in the history; one that lives is none yet."""
    lake.parquet("dt=1", files=400, rows=2)
    process = subprocess.Popen([PACKSTONE, "compact", lake.table], env=quiet_env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + patient(60)
    while not (lake.root / ".packstone" / "orders" / "runs").exists() and time.monotonic() < until:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGSTOP)
    assert packstone("history", "--format", "json").json["runs"] == []
    process.kill()
    process.wait()
    (run,) = packstone("history", "--format", "json").json["runs"]
    assert (run["status"], run["message"]) == ("failed", "The run was killed before it published anything.")


def test_each_history_gets_its_own_runs(packstone, lake, tmp_path, unrecorded, monkeypatch):
    """What waits for one database is not written to another."""
    elsewhere = "mysql+pymysql://me@127.0.0.1:1/gone?connect_timeout=1"
    done = packstone("compact", lake.parquet("dt=1"), "--history", elsewhere, "--format", "json")
    assert (done.code, unrecorded()[0]) == (0, [f"{done.json['run']}.json"])
    assert packstone("history", "--format", "json").json["runs"] == []
    lake.parquet("dt=2")
    assert packstone("compact", lake.table).code == 0
    assert len(packstone("history", "--format", "json").json["runs"]) == 1
    assert unrecorded()[0] == [f"{done.json['run']}.json"]


def test_folder_that_cannot_be_written(packstone, tmp_path, lake, monkeypatch):
    """Where nothing can be kept, the run continues, and the record beside the table is enough."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("PACKSTONE_UNRECORDED", str(tmp_path / "file" / "folder"))
    gone = "mysql+pymysql://me@127.0.0.1:1/gone?connect_timeout=1"
    done = packstone("compact", lake.parquet("dt=1"), "--history", gone, "--format", "json")
    assert (done.code, done.json["status"]) == (0, "committed")
    assert len(list(lake.root.rglob("unrecorded/*.json"))) == 1


def test_damaged_entry_is_left_alone(packstone, tmp_path, lake):
    """A file that cannot be read does not block anybody, and is not removed."""
    (tmp_path / "unrecorded").mkdir()
    (tmp_path / "unrecorded" / "x.json").write_text("{")
    assert packstone("compact", lake.parquet("dt=1")).code == 0
    assert len(packstone("history", "--format", "json").json["runs"]) == 1
    assert (tmp_path / "unrecorded" / "x.json").exists()


def test_killed_on_another_machine(packstone, quiet_env, lake, unrecorded, tmp_path):
    """A run of another machine is recorded from the journal as soon as somebody has found it dead."""
    lake.parquet("dt=1")
    kill("facts-unknown", lake, quiet_env)
    shutil.rmtree(tmp_path / "unrecorded")
    for path in (*lake.root.rglob("unrecorded/*.json"), *lake.root.rglob("run.json")):
        edit_record(path, lambda record: record["process"].update(host="far-away"))
    assert packstone("history", "--format", "json").json["runs"] == []
    lake.parquet("dt=2")
    assert packstone("compact", lake.table, "--take-over").code == 0
    runs = packstone("history", "--format", "json").json["runs"]
    assert [(run["status"], run["host"]) for run in runs[1:]] == [("partial", "far-away")]
    assert unrecorded() == [[], []]


@pytest.mark.parametrize("family", ["paimon", "segments"])
def test_other_families_wait_in_the_users_folder(packstone, tmp_path, family, monkeypatch, mariadb):
    """A compaction of a Paimon or a segment table whose history is away is recorded later, with all its facts."""
    table = tmp_path / "table"
    if family == "paimon":
        shutil.copytree(Path(__file__).parents[2] / "examples" / "paimon" / "orders", table)
    else:
        (tmp_path / "rows.csv").write_text("id,name\n1,a\n2,b\n")
        packstone("segments", "create", table, "--schema", "id long, name string", "--sort-by", "id")
        for _ in range(4):
            assert packstone("segments", "load", table, tmp_path / "rows.csv").code == 0
    name = mariadb.make(f"later_{family}")
    mariadb.run(f"drop database {name}")
    done = packstone("compact", table, "--history", mariadb.url(name), "--format", "json")
    assert (done.json["status"], len(list((tmp_path / "unrecorded").iterdir()))) == ("committed", 1)
    mariadb.make(name)
    (run,) = packstone("history", "--history", mariadb.url(name), "--format", "json").json["runs"]
    for key in ("run", "family", "files_before", "files_after", "rows", "status"):
        assert run[key] == done.json[key]
    assert not (tmp_path / "unrecorded").exists()
