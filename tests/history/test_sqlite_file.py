"""Recording in a SQLite file without SQLAlchemy."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

from packstone.history.schema import METADATA
from packstone.history.spool import VARIABLE, PendingRecord, user_spool
from packstone.history.sqlite_file import find_file, history_key, record_run, rows_by_table
from packstone.history.store import open_history
from packstone.model.run_record import RunFacts, RunRecord, SkipRecord, UnitRecord
from packstone.runs.liveness import ProcessIdentity

START = datetime(2025, 6, 1, 20, 0, 0, tzinfo=timezone(timedelta(hours=2)))


def facts(run="r1", **changes):
    """A run with two units and a skip, and texts that no database takes as they are."""
    values = {field.name: f"{field.name}é\udcff\0" for field in fields(RunRecord) if field.type == "str"}
    numbers = {field.name: 2**40 + at for at, field in enumerate(fields(RunRecord)) if field.type == "int"}
    seconds = {field.name: 1.5 for field in fields(RunRecord) if "float" in str(field.type)}
    record = RunRecord(
        **values | numbers | seconds | {"run": run, "started_at": START, "finished_at": START, "message": "x" * 9_000}
        | {"read_seconds_after": None} | changes
    )  # fmt: skip
    units = tuple(
        UnitRecord(
            run=run, partition=f"dt={at}", unit=at, how="splice", status="committed", why="w" * 5_000, inputs=2,
            outputs=1, bytes_before=10, bytes_after=9, rows=3, fingerprint="f", read_seconds_before=0.25,
            read_seconds_after=None, seconds=0.5,
            input_names=("a.parquet", "b\udcff.parquet"), output_names=("c.parquet",),
        )
        for at in range(2)
    )  # fmt: skip
    return RunFacts(run=record, units=units, skips=(SkipRecord(run=run, what="dt=9", why="kept", kind="refused"),))


@pytest.fixture
def url(tmp_path):
    """The address of a history of this version."""
    address = f"sqlite:///{tmp_path}/history.db"
    open_history(address).close()
    return address


def rows(url):
    """All rows of all tables of a history."""
    with sqlite3.connect(find_file(url)) as database:
        return {
            table: database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall()
            for table in METADATA.tables
        }


def test_the_same_rows_as_by_sqlalchemy(tmp_path, url):
    """A history does not show which of the two wrote it: also times, long texts, a run that is replaced."""
    other = f"sqlite:///{tmp_path}/other.db"
    with open_history(other) as history:
        for one in (facts(), facts("r2"), facts(status="partial")):
            history.record_run(one.run, one.units, one.skips)
            assert record_run(url, one)
    assert rows(url) == rows(other)
    with open_history(url) as history:
        found = history.read_facts("r1")
    assert (found.run.status, found.run.started_at) == ("partial", START.astimezone(UTC))
    assert found.units[1].input_names == ("a.parquet", "b\\udcff.parquet")


def test_the_columns_are_those_of_the_schema():
    """A column that is added to the schema or renamed there is known here."""
    one = facts()
    for name, found in rows_by_table(one.run, one.units, one.skips).items():
        assert set(found[0]) == set(METADATA.tables[name].c.keys())


@pytest.mark.parametrize("what", ["missing", "empty", "newer", "no database", "a folder", "locked"])
def test_the_unusual_is_left_to_sqlalchemy(url, what, monkeypatch):
    """A file that this cannot write is not changed."""
    monkeypatch.setattr("packstone.history.sqlite_file.BUSY_TIMEOUT_SECONDS", 0)
    path = find_file(url)
    lock = sqlite3.connect(path, isolation_level=None)
    if what == "newer":
        lock.execute("UPDATE packstone_schema_version SET version_num = '9999'")
    elif what == "locked":
        lock.execute("BEGIN IMMEDIATE")
    else:
        lock.close()
        path.unlink()
        if what == "no database":
            path.write_bytes(b"x" * 5_000)
        elif what == "empty":
            path.touch()
        elif what == "a folder":
            path.mkdir()
    before = path.read_bytes() if path.is_file() else None
    assert not record_run(url, facts())
    assert (path.read_bytes() if path.is_file() else None) == before
    lock.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///~/h.db",
        "sqlite:////h.db?mode=ro",
        "sqlite:////a%20b",
        "sqlite+pysqlite:////h",
    ],
)
def test_an_address_that_is_not_plain(url):
    """An address with options, escapes, a home folder or a driver is left to SQLAlchemy, which knows their meaning."""
    assert find_file(url) is None
    assert not record_run(url, facts())


def test_a_relative_address_has_the_key_of_the_absolute_one(monkeypatch, tmp_path):
    """Records that wait for a history are found from every folder, whichever way its address was written."""
    monkeypatch.chdir(tmp_path)
    assert history_key("sqlite:///h.db") == history_key(f"sqlite:///{tmp_path}/h.db") == f"sqlite:///{Path.cwd()}/h.db"


@pytest.mark.parametrize("waiting", ["nothing", "another history's"])
def test_a_compaction_does_without_sqlalchemy(tmp_path, url, waiting, monkeypatch):
    """Importing it takes longer than merging a few files; the run is recorded, whatever waits for other histories."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "waiting"))
    if waiting != "nothing":
        user_spool().write(
            PendingRecord(
                run="20240101T000000-abcdef", history="sqlite:////other.db", command="compact", family="hive",
                table="/t", strategy="small-files", started_at=START, user="u", process=ProcessIdentity.mine(),
            )
        )  # fmt: skip
    for at in range(6):
        pq.write_table(pa.table({"id": [at]}), tmp_path / f"{at}.parquet")
    program = (
        "import sys\nfrom packstone.cli.main import run\n"
        "code = run(['compact', sys.argv[1], '--history', sys.argv[2]])\n"
        "sys.exit(code or 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), url], capture_output=True, check=False, timeout=patient(60)
    )
    assert done.returncode == 0, done.stderr
    with open_history(url) as history:
        (run,) = history.list_runs()
    assert run.status == "committed"
