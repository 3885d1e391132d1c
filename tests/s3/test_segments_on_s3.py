"""Segment tables on S3: everything from the command line, races between processes, and a SIGKILL at steps.

``segment_lake.py``, which is not the product, reads what a table contains: PyArrow's client fetches all objects,
and JSON, PyArrow and DuckDB read them.
"""

from collections import Counter

import pytest
from compact_calls import segment_clean, segment_compact
from race_calls import ROWS
from segment_lake import SegmentLake
from store_matrix import KILLED, SegmentTables, check_segment_compaction, check_segment_load, make_local

from packstone.storage.stores import open_store


@pytest.fixture
def tables(seaweed, use_s3, tmp_path):
    """Tables on the real server."""
    return SegmentTables(seaweed, use_s3(seaweed), tmp_path)


def test_all_commands(tables, packstone, tmp_path):
    """Created, loaded from a local file and from S3, shown, queried, compacted, deleted from and cleaned, by name."""
    table = f"{tables.root}/db/t"
    (tmp_path / "in.csv").write_text("id,v\n3,c\n1,a\n2,b\n")
    words = ("segments", "create", table.replace("s3:", "s3a:"), "--schema", "id long, v string", "--sort-by", "id")
    assert packstone(*words).code == 0
    open_store(table).replace(f"{tables.root}/in.csv", b"id,v\n6,f\n5,e\n")
    for source in (tmp_path / "in.csv", f"{tables.root}/in.csv", tmp_path / "in.csv", tmp_path / "in.csv"):
        assert packstone("segments", "load", table, source).code == 0
    rows = Counter({(1, "a"): 3, (2, "b"): 3, (3, "c"): 3, (5, "e"): 1, (6, "f"): 1})
    assert tables.fetch(table).count() == rows
    done = packstone("compact", table, "--format", "json").json
    assert (done["status"], done["table"], done["verified"]) == ("committed", table, "content")
    found = tables.fetch(table)
    assert (found.count(), found.ids(), found.problems()) == (rows, ["0.1"], [])
    query = packstone("query", table, "select count(*) n, sum(id) s from t where id < 6", "--format", "json").json
    assert query["rows"] == [[10, 23]]
    assert packstone("health", table).code == packstone("plan", table).code == 0
    assert packstone("segments", "show", table).out.count("Compacted") == 4
    assert packstone("clean", table, "--yes").code == 0
    both = packstone("segments", "load", table, tmp_path / "in.csv", f"{tables.root}/in.csv")
    assert (both.code, "in one store" in both.sentence) == (2, True)


def test_a_clean_removes_what_has_expired(tables, children, seaweed):
    """Retired segments and old versions leave the bucket; a killed load's file goes to the trash, and then too."""
    table = tables.copy_of(make_local(tables.tmp_path / "t").path)
    io = open_store(table)
    assert segment_compact(io, table)["status"] == "committed"
    rows = tables.fetch(table).count()
    (tables.tmp_path / "in.csv").write_text("id,v\n1,x\n")
    load = {"path": table, "inputs": [tables.tmp_path / "in.csv"], "env": seaweed.env}
    steps = children.run("load_rows", **{**load, "path": tables.copy_of(make_local(tables.tmp_path / "u").path)})[
        "steps"
    ]
    last = max(at for at, step in enumerate(steps) if "/segments/" in step)
    fault = {"step": last, "action": "kill", "moment": "after"}
    assert children.run("load_rows", fault=fault, **load)["status"] == KILLED
    assert segment_clean(io, table, days=8)["unknown"] == []
    found = tables.fetch(table)
    assert len(list((found.path / "Metadata/trash").rglob("*.parquet"))) == 1
    segment_clean(io, table, days=20)
    found = tables.fetch(table)
    assert found.count() == rows
    assert len(found.data_on_disk()) == len(found.files()) == 1
    assert not [path for path in (found.path / "Metadata/trash").rglob("*") if path.is_file()]
    assert SegmentLake(table, io=io).open_runs() == []


def test_a_store_that_ignores_the_condition_is_refused(careless, use_s3, packstone):
    """Nothing is created on a server that overwrites: exit code 3, one sentence, and not even a probe is left."""
    table = f"{use_s3(careless)}/t"
    done = packstone("segments", "create", table, "--schema", "id long")
    assert done.code == 3
    assert "two writers could publish one version; nothing was committed." in done.sentence
    assert open_store(table).stat(table) is None


def test_two_loads_and_a_compaction_at_once(tables, children, seaweed):
    """For a few seconds, each in a process of its own: every load is there once, and all get on."""
    check_race(tables, children, seaweed, seconds=4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_loads_and_a_compaction_at_once_for_long(tables, children, seaweed):
    """For minutes."""
    check_race(tables, children, seaweed, seconds=180)


def check_race(tables, children, seaweed, *, seconds):
    """Let them run; then count, merge all, clean, and count again."""
    table = f"{tables.root}/t"
    SegmentLake(table, io=open_store(table)).create(
        SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="3,2,2", SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1
    )
    common = {"path": table, "seconds": seconds, "env": seaweed.env}
    loads = [children.start("race_loads", who=who, scope="LOCAL_SORT", **common) for who in range(2)]
    merge = children.start("race_compactions", strategy="minor", **common)
    answers = {pid: children.wait(pid) for pid in (*loads, merge)}
    assert not [answer for answer in answers.values() if "error" in answer], answers
    made = [answers[pid]["value"] for pid in loads]
    assert min(made) > 0
    expected = [
        (who * 1_000_000 + at) * ROWS + row for who, n in enumerate(made) for at in range(n) for row in range(ROWS)
    ]
    for _ in range(2):
        found = tables.fetch(table)
        assert Counter(row[0] for row in found.count().elements()) == Counter(expected)
        assert found.problems() == []
        assert segment_compact(open_store(table), table, strategy="major")["status"] in ("committed", "nothing-to-do")
        segment_clean(open_store(table), table, days=2)


def test_a_compaction_killed_at_some_steps(tables, children, seaweed):
    """Killed there, the table reads the same, a second run succeeds, and a clean leaves nothing behind."""
    check_segment_compaction(tables, children, stride=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_compaction_killed_at_every_step(tables, children, seaweed):
    """Killed anywhere."""
    check_segment_compaction(tables, children, stride=1)


def test_a_load_killed_at_some_steps(tables, children, seaweed):
    """All of it or nothing is there, the next load works, and a clean knows everything that was left."""
    check_segment_load(tables, children, stride=7)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_load_killed_at_every_step(tables, children, seaweed):
    """Killed anywhere."""
    check_segment_load(tables, children, stride=1)
