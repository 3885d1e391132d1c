"""The history on real database servers: what they do differently from SQLite and from each other."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from database_servers import PASSWORD
from sqlalchemy import create_engine, text

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.schema import METADATA, PATH_CHARS
from packstone.history.sqlite_file import VERSION_TABLE, history_key
from packstone.history.store import RunFilters, open_history
from packstone.model.run_record import RunRecord, SkipRecord, UnitRecord

START = datetime(2025, 6, 1, 20, 0, 0, 123_456, tzinfo=UTC)
SECRET = "t0p/s3cret é"  # noqa: S105 - nobody's

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
)
UNIT = UnitRecord(
    run="r1",
    partition="dt=2019-07-01",
    unit=0,
    how="rewrite",
    status="committed",
    why="small-files",
    inputs=3,
    outputs=1,
    bytes_before=2**33,
    bytes_after=2**33 - 1,
    rows=2_000_000_000,
    fingerprint="f" * 32,
    read_seconds_before=0.5,
    read_seconds_after=None,
    seconds=2.5,
    input_names=("b", "a", "😀.parquet"),
    output_names=("packstone-1.parquet",),
)


@contextmanager
def raw(url):
    """The database through SQLAlchemy alone, in one transaction."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def test_migrations_make_the_tables_of_the_code(database_server):
    """On the servers too, the migrations make what the code expects, types and lengths included."""
    url = database_server.fresh()
    open_history(url).close()
    with raw(url) as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        changes = compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)

    assert changes == []


def test_migration_that_was_killed_is_done_anew(mariadb):
    """MariaDB cannot undo a CREATE TABLE: what a killed migration left is made anew, but never a table with rows."""
    url = mariadb.fresh()
    with raw(url) as connection:
        connection.execute(text("CREATE TABLE packstone_run (half INT)"))
    open_history(url).close()
    with raw(url) as connection:
        connection.execute(text(f"DELETE FROM {VERSION_TABLE}"))
        connection.execute(text("DROP TABLE packstone_skip"))
    with open_history(url) as history:
        history.record_run(RUN)
    with raw(url) as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
    with pytest.raises(UnavailableError, match="already exists"):
        open_history(url)
    with raw(url) as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM packstone_run")) == 1


def test_migration_waits_for_another(mariadb, monkeypatch):
    """Whoever finds the schema being made waits, and says so in one sentence if it takes too long."""
    monkeypatch.setattr("packstone.history.schema.LOCK_SECONDS", 1)
    url = mariadb.fresh()
    name = f"packstone_schema_{url.rpartition('/')[2]}"
    with raw(url) as connection:
        assert connection.scalar(text(f"SELECT GET_LOCK('{name}', 0)")) == 1
        with pytest.raises(UnavailableError, match="Another process has been upgrading"):
            open_history(url)
    open_history(url).close()


def test_longest_texts_of_the_widest_characters(database_server):
    """Names of 4,096 characters of four bytes are kept whole, in runs, units, files and skips."""
    longest = "😀" * PATH_CHARS
    run = replace(RUN, table=longest, message="界" * 4000, host="é" * 255, user="😀" * 255)
    unit = replace(UNIT, partition=longest, why="😀" * 4000, input_names=(longest, "A", "a"))
    skip = SkipRecord(run="r1", what=longest, why="界" * 4000, kind="failed")
    with open_history(database_server.fresh()) as history:
        history.record_run(run, (unit,), (skip,))
        facts = history.read_facts("r1")
        assert (facts.run, facts.units, facts.skips) == (run, (unit,), (skip,))
        assert history.list_runs(table=longest) == (run,)
        assert history.list_runs(table=longest[:-1]) == ()


def test_names_that_differ_in_case_or_accents_only(database_server):
    """A path is its exact characters: none is taken for another, as the usual collations of MySQL do."""
    paths = ["/lake/T", "/lake/t", "/lake/té", "/lake/te"]
    with open_history(database_server.fresh()) as history:
        for number, path in enumerate(paths):
            history.record_run(replace(RUN, run=f"r{number}", table=path))
        assert sorted(history.list_tables()) == sorted(paths)
        for path in paths:
            assert [run.table for run in history.list_runs(table=path)] == [path]


def test_time_zone_of_the_server_does_not_matter(database_server):
    """A session in another time zone writes and reads the same instants: they are kept in UTC."""
    url = database_server.fresh()
    with open_history(url) as history:
        history.record_run(RUN)
    there = (
        "init_command=SET%20time_zone='%2B08:00'"
        if database_server.kind == "mariadb"
        else "options=-ctimezone=Asia/Shanghai"
    )
    with open_history(f"{url}?{there}") as history:
        assert history.list_runs(since=START, until=START + timedelta(microseconds=1)) == (RUN,)
        history.record_run(replace(RUN, run="r2"))
    with raw(url) as connection:
        found = connection.execute(text("SELECT DISTINCT started_at FROM packstone_run")).all()
    assert found == [(START.replace(tzinfo=None),)]


def test_forgetting_runs_forgets_what_belongs_to_them(database_server):
    """Runs before a moment go with their units, files and skips, in more than one batch; the others stay."""
    url = database_server.fresh()
    with open_history(url) as history, pytest.MonkeyPatch.context() as patch:
        patch.setattr("packstone.history.store._BATCH", 2)
        for number in range(6):
            run_id = f"r{number}"
            skip = SkipRecord(run=run_id, what="x", why="y", kind="failed")
            run = replace(RUN, run=run_id, started_at=START + timedelta(days=number))
            history.record_run(run, (replace(UNIT, run=run_id),), (skip,))
        old = RunFilters(until=START + timedelta(days=5))
        assert (history.count_runs(old), history.remove_runs(old), history.count_runs(old)) == (5, 5, 0)
        assert [run.run for run in history.list_runs()] == ["r5"]
        assert history.read_facts("r5").skips != ()
    with raw(url) as connection:
        for table in (table for table in METADATA.sorted_tables if "run_id" in {column.name for column in table.c}):
            assert connection.execute(text(f"SELECT DISTINCT run_id FROM {table.name}")).all() == [("r5",)]


def test_password_from_the_environment(mariadb, monkeypatch, tmp_path):
    """The password comes from a variable or from a file, with the newline that editors add; both is a wrong call."""
    url = mariadb.url(mariadb.make("asked"), password=None)
    with pytest.raises(UnavailableError, match="Access denied"):
        open_history(url)
    monkeypatch.setenv("PACKSTONE_HISTORY_PASSWORD", PASSWORD)
    with open_history(url) as history:
        assert PASSWORD not in f"{history} {history!r} {history_key(url)}"
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", encoding="utf-8")
    monkeypatch.setenv("PACKSTONE_HISTORY_PASSWORD_FILE", str(file))
    with pytest.raises(InvalidInputError, match="both set"):
        open_history(url)
    monkeypatch.delenv("PACKSTONE_HISTORY_PASSWORD")
    open_history(url).close()
    file.unlink()
    with pytest.raises(
        InvalidInputError, match="password that PACKSTONE_HISTORY_PASSWORD_FILE names cannot be read: No"
    ):
        open_history(url)


def test_password_is_in_no_error(database_server, monkeypatch):
    """A wrong database and a wrong user are one sentence each, and nowhere in it is the password."""
    monkeypatch.setenv("PACKSTONE_HISTORY_PASSWORD", SECRET)
    for user, database in (("nobody", "none"), ("packstone", "none")):
        url = f"{database_server.driver}://{user}@127.0.0.1:{database_server.port}/{database}"
        with pytest.raises(UnavailableError) as caught:
            open_history(url)
        assert "\n" not in caught.value.message
        for form in (SECRET, "s3cret"):
            assert form not in f"{caught.value!r} {caught.value.message} {caught.value.facts}"


def test_key_of_a_history_names_it_without_secrets(monkeypatch):
    """What is written down to know a history again has neither password nor query, wherever the password is."""
    monkeypatch.setenv("PACKSTONE_HISTORY_PASSWORD", SECRET)
    plain = "mysql+pymysql://me@host/db"
    for url in (plain, "mysql+pymysql://me:s3cret@host/db", f"{plain}?password=s3cret&ssl_key=x"):
        assert history_key(url) == plain
