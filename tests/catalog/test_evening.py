"""A scripted evening on a warehouse of Hive tables: ``examples/evening.sh`` with MariaDB and with PostgreSQL."""

import signal
from datetime import UTC, datetime, timedelta

import pytest
from evening_lake import DATABASE, FILES, KILLED, KINDS, REFUSED, Evening, Warehouse, hours
from grafana_queries import expand, read_dashboard, run_query
from metastore_lake import JARS, FilledMetastore

OLD = ("--min-age", "1d", "--keep-days", "0")
# What a file is has nothing to do with whose evening it is: a few kinds will do, the long form has all.
SHORT = {"mariadb": ("parquet", "orc", "mixed", "headed"), "postgres": ("parquet", "orc", "mixed")}
LONG = 50
PANELS = {panel["title"]: panel["targets"][0]["rawSql"] for panel in read_dashboard()["panels"]}


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def evening(request, tmp_path_factory):
    """The warehouse of the short form."""
    kinds = SHORT[request.param]
    yield from serve(request, tmp_path_factory, kinds=kinds)


def serve(request, tmp_path_factory, *, kinds):
    """A warehouse on one of the two servers; its metastore's schema was made by Hive."""
    if not JARS[request.param].exists():
        pytest.skip(f"{JARS[request.param]} is not installed (scripts/ensure-databases says how)")
    root = tmp_path_factory.mktemp(f"evening-{request.param}")
    server = request.getfixturevalue(request.param)
    metastore = FilledMetastore(server, root)
    # On PostgreSQL the run that is killed publishes by location, through Hive's own client alone.
    warehouse = Warehouse(root, kinds, first_by_location=0 if server.kind == "postgres" else 1)
    evening = Evening(server, warehouse, database=metastore.url.rpartition("/")[2])
    try:
        evening.ask("make")
        evening.warehouse.make_old()
        yield evening
    finally:
        evening.close()


def ask_dashboard(evening, title):
    """What a panel of the dashboard shows of the last hours."""
    from sqlalchemy import create_engine

    now = datetime.now(UTC)
    times = {"since": now - timedelta(hours=9), "until": now + timedelta(hours=1)}
    engine = create_engine(evening.history)
    try:
        with engine.connect() as connection:
            return run_query(connection, expand(PANELS[title], evening.server.kind, **times))
    finally:
        engine.dispose()


def check_evening(evening):
    """The whole scenario."""
    tables = evening.warehouse.tables
    before, lay = evening.ask("read"), evening.lying()
    assert before["spark"] == before["hive"]
    assert all(files == FILES for parts in lay.values() for files, _ in parts.values())
    check_closed(evening)
    killed = evening.run(*OLD, "--between", hours(-1, 6), kill=KILLED)
    assert killed.returncode == -signal.SIGKILL
    check_next(evening)
    assert evening.ask("read") == before
    lies = evening.lying()
    for table in tables:
        merged = {f"dt={day}": 1 for day in evening.warehouse.days_of(table)} | {f"dt={evening.warehouse.today}": FILES}
        assert {name: files for name, (files, _) in lies[table].items()} == merged, table
    check_records(evening, lay, lies)


def check_closed(evening):
    """Outside the quiet hours nothing is done, whatever there is to do."""
    state, table = evening.warehouse.state(), list(evening.warehouse.tables)[1]
    done = evening.run(*OLD, "--between", hours(2, 4), tables=[table])
    assert (done.returncode, done.stdout.count("left alone: ")) == (0, 1), (done.stdout, done.stderr)
    assert "The current time is outside --between " in evening.said(table)["skipped"][0]["why"]
    assert evening.warehouse.state() == state


def check_next(evening):
    """The next evening repairs the table whose run was killed, and merges all but what is refused, each by its name."""
    done = evening.run(*OLD, "--between", hours(-1, 6))
    assert (done.returncode, done.stdout.count("failed: ")) == (0, 0), (done.stdout, done.stderr)
    assert evening.said(KILLED)["recovered"]
    for table, why in REFUSED.items():
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"left alone: {DATABASE}.{table}:")]
        assert why in line
    for table in evening.warehouse.tables:
        assert evening.said(table)["status"] == ("committed" if table != KILLED else status_of_killed(evening)), table
    left = evening.warehouse.folder(evening.warehouse.by_location[0]) / "dt=2026-10-01"
    assert not list(left.glob("part-*"))  # cleaned, for nobody reads the old folder any more


def status_of_killed(evening):
    """In place, all swaps of the wave were recorded when the run was killed: their repair leaves nothing to merge."""
    return "committed" if KILLED in evening.warehouse.by_location else "nothing-to-do"


def check_records(evening, lay, lies):
    """What the history and the dashboard show is what really lies there; the formats are known."""
    gone = [sum(one[at] for parts in lay.values() for one in parts.values()) for at in (0, 1)]
    left = [sum(one[at] for parts in lies.values() for one in parts.values()) for at in (0, 1)]
    ((before, after),) = [row.values() for row in ask_dashboard(evening, "Files")]
    assert before - after == gone[0] - left[0]
    assert ask_dashboard(evening, "Bytes saved") == [{"bytes_saved": gone[1] - left[1]}]
    assert ask_dashboard(evening, "Failures") == [{"failures": 1}]  # the one that was killed
    runs = evening.packstone("history", "--limit", "1000")["runs"]
    done = [run for run in runs if run["status"] in ("committed", "partial")]
    assert len(done) == len(evening.warehouse.tables) + (status_of_killed(evening) == "committed"), done
    mixed = next(name for name, kind in evening.warehouse.tables.items() if kind == "mixed")
    formats = evening.packstone("formats", "list", f"{DATABASE}.{mixed}")
    assert {one["file_format"] for one in formats["formats"] if one["partition"]} == {"text", "parquet", "orc"}


def test_an_evening(evening):
    """Quiet hours, a SIGKILL, the next evening, rows by Spark and by Hive, formats, history, cleaning, dashboard."""
    check_evening(evening)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_an_evening_of_fifty_tables(kind, request, tmp_path_factory):
    """The same with fifty tables; one evening more has nothing to do."""
    request.param = kind
    merged = LONG - len(REFUSED) - 1
    kinds = tuple(KINDS[at % len(KINDS)] for at in range(merged))
    for evening in serve(request, tmp_path_factory, kinds=kinds):
        check_evening(evening)
        state = evening.warehouse.state()
        assert evening.run(*OLD, "--between", hours(-1, 6)).returncode == 0
        assert {evening.said(table)["status"] for table in evening.warehouse.tables} == {"nothing-to-do"}
        assert evening.warehouse.state() == state


@pytest.mark.soak
def test_a_table_on_hdfs(hdfs, request, tmp_path_factory):
    """Published by location, undone and published again: Spark and Hive read all rows at every stage."""
    request.param = "mariadb"
    for evening in serve(request, tmp_path_factory, kinds=()):
        check_on_hdfs(evening, hdfs)


def check_on_hdfs(evening, hdfs):
    """A table whose folder is on HDFS, by name."""
    table = f"{DATABASE}.on_hdfs"
    before = evening.ask(f"make-at on_hdfs {hdfs.direct_url}/lake/on_hdfs")
    assert before["spark"] == before["hive"]
    run = evening.packstone("compact", table, "--publish", "location")
    assert (run["status"], run["files_before"], run["files_after"]) == ("committed", 2 * FILES, 2)
    assert evening.ask("read-one on_hdfs") == before
    versions = f"/lake/.packstone/on_hdfs/versions/{run['run']}"
    assert len(list(hdfs.client().list_status(f"{versions}/dt=2026-10-01"))) == 1
    assert evening.packstone("restore", run["run"], table, "--yes")["status"] == "restored"
    assert evening.ask("read-one on_hdfs") == before
    again = evening.packstone("compact", table, "--publish", "location", "--keep-days", "0")
    assert evening.packstone("clean", table, "--yes")["files"] == 2 * FILES
    assert (again["status"], evening.ask("read-one on_hdfs")) == ("committed", before)
