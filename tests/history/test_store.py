"""The history of runs, in real SQLite files, in MariaDB and in PostgreSQL."""

from __future__ import annotations

import pickle
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from patience import patient
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from packstone.errors import InvalidInputError, PackstoneError, UnavailableError
from packstone.history.connect import one_sentence, parse_url
from packstone.history.sqlite_file import default_history_url
from packstone.history.store import open_history
from packstone.model.run_record import RunRecord, UnitRecord

START = datetime(2025, 6, 1, 20, 0, 0, 123_456, tzinfo=UTC)

RUN = RunRecord(
    run="r1",
    command="compact",
    family="hive",
    table="/lake/t",
    strategy="small-files",
    status="committed",
    started_at=START,
    finished_at=START + timedelta(seconds=12),
    files_before=1000,
    files_after=5,
    bytes_before=2**40,
    bytes_after=2**40 - 7,
    rows=10_000_000_000,
    verified="content",
    seconds=12.25,
    verify_seconds=3.5,
    swap_ms=4.75,
    read_seconds_before=2.125,
    read_seconds_after=None,
    host="h",
    user="u",
    packstone_version="0.1.0",
    message="",
)
UNIT = UnitRecord(
    run="r1",
    partition="dt=2019-07-01",
    unit=0,
    how="rewrite",
    status="committed",
    why="small-files",
    inputs=200,
    outputs=1,
    bytes_before=2**33,
    bytes_after=2**33 - 1,
    rows=2_000_000_000,
    fingerprint="f" * 32,
    read_seconds_before=0.5,
    read_seconds_after=None,
    seconds=2.5,
)


@pytest.fixture
def url(tmp_path):
    """The address of a file that does not exist, in folders that do not exist."""
    return f"sqlite:///{tmp_path}/new/folder/history.db"


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def any_url(request, url):
    """The address of an empty database of each kind, one after the other."""
    return url if request.param == "sqlite" else request.getfixturevalue(request.param).fresh()


def units_of(run, count):
    """Some units of a run, each in a partition of its own."""
    return tuple(replace(UNIT, run=run, partition=f"dt={number}", unit=number) for number in range(count))


def test_recorded_run_reads_back_equal(any_url):
    """Every field of a run and of its units comes back as it was, units in order, from another connection."""
    units = units_of("r1", 12)
    with open_history(any_url) as history:
        history.record_run(RUN, units)
    with open_history(any_url) as history:
        assert history.read_run("r1") == (RUN, units)
        assert history.read_run("r2") is None


def test_replay_replaces(any_url):
    """Recording a run again, with other facts and fewer units, leaves only the last word."""
    with open_history(any_url) as history:
        history.record_run(replace(RUN, run="other"), units_of("other", 2))
        history.record_run(replace(RUN, status="failed", rows=0), units_of("r1", 5))
        for _ in range(2):
            history.record_run(RUN, units_of("r1", 3))
        assert history.read_run("r1") == (RUN, units_of("r1", 3))
        assert len(history.list_runs()) == 2
        found = history.read_run("other")
        assert found is not None
        assert len(found[1]) == 2
        history.record_run(RUN)
        assert history.read_run("r1") == (RUN, ())


def test_units_may_share_a_number(any_url):
    """Units numbered per partition are all kept: their place in the record is the key."""
    units = tuple(replace(UNIT, partition=f"dt={number}", unit=0) for number in range(3))
    with open_history(any_url) as history:
        history.record_run(RUN, units)
        assert history.read_run("r1") == (RUN, units)


def test_list_filters_and_orders(any_url):
    """Runs come newest first, and filters narrow them: exact table, status, start at or after a moment."""
    with open_history(any_url) as history:
        for number in (2, 0, 3, 1):
            started = START + timedelta(hours=number)
            run = replace(RUN, run=f"r{number}", started_at=started, table=f"/lake/{'t' if number % 2 else 'T'}")
            history.record_run(replace(run, status="failed" if number > 1 else "committed"))

        def ids(**filters):
            return [run.run for run in history.list_runs(**filters)]

        assert ids() == ["r3", "r2", "r1", "r0"]
        assert ids(limit=2) == ["r3", "r2"]
        assert ids(table="/lake/t") == ["r3", "r1"]
        assert ids(table="/lake") == []
        assert ids(status="failed") == ["r3", "r2"]
        assert ids(since=START + timedelta(hours=2)) == ["r3", "r2"]
        shanghai = timezone(timedelta(hours=8))
        assert ids(since=(START + timedelta(hours=2)).astimezone(shanghai)) == ["r3", "r2"]
        assert ids(table="/lake/t", status="failed", since=START) == ["r3"]


def test_wrong_calls_are_refused(any_url):
    """No limit below one, no time without a zone, no unit of another run, no id that would be cut."""
    with open_history(any_url) as history:
        with pytest.raises(InvalidInputError, match="limit 0"):
            history.list_runs(limit=0)
        with pytest.raises(InvalidInputError, match="time zone"):
            history.list_runs(since=datetime(2025, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidInputError, match="belongs to run 'r1', not 'r2'"):
            history.record_run(replace(RUN, run="r2"), (UNIT,))
        for run_id in ("", "x" * 65):
            with pytest.raises(InvalidInputError, match="1 to 64"):
                history.record_run(replace(RUN, run=run_id))
        assert history.list_runs() == ()


def test_times_are_kept_in_utc(url, tmp_path):
    """A time in any zone is stored as UTC, to the microsecond."""
    there = START.astimezone(timezone(timedelta(hours=8)))
    with open_history(url) as history:
        history.record_run(replace(RUN, started_at=there))
        (run,) = history.list_runs()
        assert (run.started_at, run.started_at.tzinfo) == (START, UTC)
    with sqlite3.connect(tmp_path / "new/folder/history.db") as raw:
        assert raw.execute("SELECT started_at FROM packstone_run").fetchone() == ("2025-06-01 20:00:00.123456",)
    raw.close()


def test_odd_texts_are_kept(any_url):
    """A path that is not UTF-8, a NUL, a text beyond its column: the record is kept, the text made to fit."""
    odd = replace(RUN, table="/lake/\udcff", message="x" * 5000, user="a\0b", host="é界😀")
    with open_history(any_url) as history:
        history.record_run(odd, (replace(UNIT, why="y" * 4000),))
        ((run,), found) = history.list_runs(table="/lake/\udcff"), history.read_run("r1")
    assert (run.table, run.user, run.host) == ("/lake/\\udcff", "a\\0b", "é界😀")
    assert (len(run.message), run.message[-2:]) == (4000, "x…")
    assert found is not None
    assert found[1][0].why == "y" * 4000


def test_record_is_all_or_nothing(any_url):
    """If a unit cannot be written, the run is not either, and what was recorded before stands."""
    with open_history(any_url) as history:
        history.record_run(RUN, units_of("r1", 2))
        with pytest.raises(UnavailableError):
            history.record_run(replace(RUN, status="failed"), (UNIT, replace(UNIT, rows=None)))
        assert history.read_run("r1") == (RUN, units_of("r1", 2))


def test_file_is_private(url, tmp_path):
    """The file, also its WAL companions, is readable by its owner only; readers do not wait for writers."""
    with open_history(url) as history:
        history.record_run(RUN)
        files = sorted((tmp_path / "new/folder").iterdir())
        assert [file.name for file in files] == ["history.db", "history.db-shm", "history.db-wal"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_reading_goes_on_while_somebody_writes(url, tmp_path):
    """A writer in the middle of its transaction does not stop a reader."""
    with open_history(url) as history:
        history.record_run(RUN)
        writer = sqlite3.connect(tmp_path / "new/folder/history.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM packstone_run")
        assert [run.run for run in history.list_runs()] == ["r1"]
        writer.execute("ROLLBACK")
        writer.close()


def test_recording_waits_for_the_lock(url, tmp_path):
    """A record waits for another writer instead of failing."""
    with open_history(url) as history:
        writer = sqlite3.connect(tmp_path / "new/folder/history.db", isolation_level=None, check_same_thread=False)
        writer.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.5, writer.execute, ("ROLLBACK",))
        timer.start()
        history.record_run(RUN)
        timer.join()
        writer.close()
        assert len(history.list_runs()) == 1


# A program of its own, because a spawned process cannot import this file in pytest's importlib mode.
RECORD_MANY = """
import pickle, sys
from dataclasses import replace
from packstone.history.store import open_history

url, worker = sys.argv[1], int(sys.argv[2])
run, unit = pickle.loads(bytes.fromhex(sys.argv[3]))

def record(history, record_id, count):
    units = (replace(unit, run=record_id, partition=f"dt={n}", unit=n) for n in range(count))
    history.record_run(replace(run, run=record_id, rows=worker), tuple(units))

print("ready", flush=True)
sys.stdin.readline()
with open_history(url) as history:
    for number in range(5):
        record(history, f"w{worker}-{number}", 3)
        record(history, "shared", worker + 1)
"""


def test_processes_record_at_once(any_url):
    """Processes that start together on no database at all lose no run and no unit, and double none."""
    program = [sys.executable, "-c", RECORD_MANY, any_url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    facts = pickle.dumps((RUN, UNIT)).hex()
    workers = [subprocess.Popen([*program, str(worker), facts], **pipes) for worker in range(4)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:  # all have imported and wait: now they open at the same moment
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert [(worker.communicate(timeout=patient(120))[1], worker.returncode) for worker in workers] == [("", 0)] * 4
    with open_history(any_url) as history:
        runs = history.list_runs(limit=1000)
        assert len(runs) == 21
        for run in runs:
            found = history.read_run(run.run)
            assert found is not None
            count = run.rows + 1 if run.run == "shared" else 3
            assert found[1] == units_of(run.run, count)


def test_threads_share_a_history(any_url):
    """One open history serves several threads."""
    with open_history(any_url) as history:
        threads = [
            threading.Thread(target=history.record_run, args=(replace(RUN, run=f"t{number}"),)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(history.list_runs()) == 8


def test_memory_database():
    """SQLite in memory works, for tests and demonstrations."""
    with open_history("sqlite://") as history:
        history.record_run(RUN, (UNIT,))
        assert history.read_run("r1") == (RUN, (UNIT,))


def test_default_is_in_the_data_folder(tmp_path, monkeypatch):
    """The default is a file in the user's data folder, odd characters in its path included."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a b%20?#é"))
    with open_history(default_history_url()) as history:
        history.record_run(RUN)
    assert (tmp_path / "a b%20?#é/packstone/history.db").is_file()


def test_tilde_is_the_home(tmp_path, monkeypatch):
    """A tilde in the address is the home folder, not a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    open_history("sqlite:///~/h.db").close()
    assert [file.name for file in tmp_path.iterdir()] == ["h.db"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("history.db", "not a database URL"),
        ("", "not a database URL"),
        ("mysql://me:s3cret@host:port/db", "not a database URL"),
        ("nonesuch://me:s3cret@host/db", "'nonesuch' that is not supported"),
        ("mysql+nonesuch://me:s3cret@host/db", "'mysql+nonesuch' that is not supported"),
        ("sqlite://host/db", "is not complete"),
        ("mssql+pyodbc://me:s3cret@host/db?password=s3cret", "'pyodbc', which is not installed"),
    ],
)
def test_bad_address_is_one_sentence(address, said):
    """A bad address, an unknown database and a missing driver are one sentence each, without the password."""
    with pytest.raises(InvalidInputError) as caught:
        open_history(address)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert "s3cret" not in everything_said(caught.value)


def everything_said(error):
    """All that a stack trace would print of an error and of what it came from."""
    texts = []
    while error is not None:
        texts.append(f"{error} {error.args} {getattr(error, 'facts', '')}")
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__ or error.__context__
    return "\n".join(texts)


def test_driver_that_tells_the_password_is_silenced():
    """What a driver says comes without the password, plain or quoted, and the query's secrets."""
    url = parse_url("mysql+pymysql://me:s3cret%2Fx@host/db?ssl_key=k3y")
    with pytest.raises(UnavailableError) as caught, one_sentence(url):
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("no host: s3cret/x s3cret%2Fx k3y\nmore"))
    said = "The history database mysql+pymysql://me:***@host/db cannot be used: no host: *** *** ***."
    assert caught.value.message == said
    assert "s3cret" not in everything_said(caught.value)


def test_history_prints_without_the_password(url, monkeypatch):
    """An open history prints its address, without the password."""
    with open_history(url) as history:
        assert str(history) == url
        with_password = make_url("postgresql://me:s3cret@host/db?sslpassword=s3cret")
        monkeypatch.setattr(history._engine, "url", with_password)
        assert str(history) == "postgresql://me:***@host/db"
        assert "s3cret" not in repr(history)


def test_files_that_cannot_be_used(tmp_path):
    """A folder, a file in a folder's place, a file that is not a database: one sentence each, with the path."""
    (tmp_path / "text").write_text("This is not a database, but it is long enough to look like one. " * 100)
    for name, said in (
        ("", "is a folder"),
        ("text/h.db", "cannot be created"),
        ("text", "is not a SQLite database"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            open_history(f"sqlite:///{tmp_path}/{name}")
        assert said in caught.value.message
        assert str(tmp_path) in caught.value.message
    assert (tmp_path / "text").read_text().startswith("This is not")


def test_broken_database_is_one_sentence(url, tmp_path):
    """A database with overwritten pages is an error of ours, in one sentence."""
    with open_history(url) as history:
        history.record_run(RUN)
    path = tmp_path / "new/folder/history.db"
    data = bytearray(path.read_bytes())
    data[200:] = b"\xff" * (len(data) - 200)
    path.write_bytes(data)
    with pytest.raises(PackstoneError) as caught, open_history(url) as history:
        history.list_runs()
    assert "\n" not in caught.value.message
    assert "history.db" in caught.value.message


def test_import_of_the_package_is_light():
    """Importing the folder and the records does not import SQLAlchemy: the command line starts fast."""
    code = (
        "import sys, packstone.history, packstone.model.run_record as r\n"
        "assert 'sqlalchemy' not in sys.modules and 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_records_print_in_one_line():
    """A run and a unit print themselves in one line."""
    assert str(RUN) == "r1 committed /lake/t: 1000 -> 5 files, 1.0 TB -> 1.0 TB in 12.2 s"
    assert str(UNIT) == "r1 u0 dt=2019-07-01 committed rewrite: 200 -> 1 files, 8.0 GB -> 8.0 GB"
