"""Spark with Hive support on a metastore in MariaDB and in PostgreSQL: tables of all formats, merged by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from metastore_lake import FORMATS, JARS, FilledMetastore
from patience import patient

PROGRAM = Path(__file__).with_name("live_session.py")
# What a file is has nothing to do with where its metastore is: on PostgreSQL three formats will do.
FORMATS_ON = {"mariadb": FORMATS, "postgres": FORMATS[:3]}
ROWS = [["2026-01-01", number, f"n{number}"] for number in range(60)]
MIXED = [[kind, number, f"n{number}"] for kind in ("orc", "parquet", "text") for number in range(60)]


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def live(request, tmp_path_factory):
    """One session that works, and on MariaDB beside it one that reads all the time; what both saw."""
    if not JARS[request.param].exists():
        pytest.skip(f"{JARS[request.param]} is not installed (scripts/ensure-databases says how)")
    root = tmp_path_factory.mktemp(f"live-{request.param}")
    server = request.getfixturevalue(request.param)
    metastore = FilledMetastore(server, root)
    marks = {name: str(root / name) for name in ("filled", "reading", "stop", "work_answer", "read_answer")}
    facts = {"kind": server.kind, "port": server.port, "database": metastore.url.rpartition("/")[2], **marks}
    facts |= {"url": metastore.url, "warehouse": str(metastore.warehouse), "formats": FORMATS_ON[server.kind]}
    facts["has_reader"] = server.kind == "mariadb"
    (root / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    if server.kind != "mariadb":
        Path(marks["reading"]).touch()  # nobody to wait for
        return finish(root, start(root, "work"), "work")
    reader = start(root, "read")
    try:
        work = finish(root, start(root, "work"), "work")
    finally:
        Path(marks["stop"]).touch()
        read = finish(root, reader, "read")
    return {**work, "reader": read}


def finish(root, process, what):
    """Wait for a program; what it answers."""
    assert process.wait(timeout=patient(400)) == 0, (root / f"{what}.log").read_text()[-3000:]
    return json.loads((root / f"{what}_answer").read_text())


def start(root, what):
    """Start the program, with its own history and what it says in a file."""
    java = Path(sys.prefix) / "java"
    env = {
        **os.environ,
        **({"JAVA_HOME": str(java)} if "JAVA_HOME" not in os.environ and java.is_dir() else {}),
        "PACKSTONE_ENGINE": "inline",  # the session is there for Hive and for reading
        "PACKSTONE_HISTORY": f"sqlite:///{root}/history.db",
        "PACKSTONE_LOGS": str(root),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(root),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (root / f"{what}.log").open("wb") as log:
        command = [sys.executable, str(PROGRAM), what, str(root / "facts.json")]
        return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, cwd=root)


def test_rows_stay(live):
    """Parquet, ORC, text, Avro, SequenceFile, RCFile, partitions of three formats, a table of Spark's own."""
    formats = [table.removeprefix("t_") for table in live["before"] if table.startswith("t_")]
    assert tuple(formats) in FORMATS_ON.values()
    for moment in ("before", "after"):
        assert live[moment] == {**{f"t_{name}": ROWS for name in formats}, "mixed": MIXED, "of_spark": ROWS}, moment
    assert live["at the end"] == {"t_parquet": ROWS}
    for table, outcome in live["merged"].items():
        partitions = 3 if table == "mixed" else 1
        assert (outcome["files_before"], outcome["files_after"]) == (6 * partitions, partitions), table
    assert [len(found) for found in live["files"].values()] == [1] * (len(formats) - 2)


def test_facts_through_spark_are_those_of_the_database(live):
    """Formats, SerDes, parameters, locations, keys, buckets and shared folders, of all tables and partitions."""
    assert live["facts"] == {"differ": [], "plan": [6, 1]}


def test_a_table_without_partitions(live):
    """It gets a new location as a whole; rows that arrived there come back with a restore."""
    total = [120, sum(range(120))]
    assert live["plain"] == [
        ["published", "versions", 1, "1", 60, sum(range(60))],
        ["again", "versions", 1, "1", *total],
        ["back", "warehouse", 12, "12", *total],
    ]


def test_a_restore_goes_back_and_a_merge_forth(live):
    """Both by name, through Hive's own client."""
    assert (live["restored"]["status"], live["again"]["status"]) == ("restored", "committed")
    assert live["restored location"].endswith("/sales.db/t_parquet/dt=2026-01-01")


def test_hazard_26_statistics_follow(live):
    """By location always, in place with ``--set statistics=true``: the metastore has the new numbers."""
    for table in ("t_parquet", "t_orc", "t_textfile"):
        numbers = live["numbers"][table]
        assert numbers["told"] == numbers["found"], table
        assert numbers["found"][0] == "1"
        assert (f"/.packstone/{table}/versions/" in numbers["location"]) == (table in ("t_parquet", "t_orc"))


@pytest.mark.parametrize("live", ["mariadb"], indirect=True)
def test_hazard_15_readers_see_neither_a_gap_nor_a_double(live):
    """Another process reads through publications and a restore, by Spark and by Hive's own input format: all rows."""
    for way, seen in live["reader"]["seen"].items():
        assert {tuple(one) for one in seen} == {(60, sum(range(60)), 60)}, way
        assert len(seen) > 2, way
    assert any("/versions/" in folder for folder in live["reader"]["folders"])
