"""Paimon tables on S3: only for a single writer, by conditional puts; races of our own, and a SIGKILL at steps.

Tables are made by ``paimon_lake.py`` and, fetched by PyArrow's own client, read by it again; it is not the product.
"""

import shutil

import pytest
from paimon_lake import PaimonLake
from store_matrix import PaimonTables, check_paimon_killed

from packstone.errors import RefusedError
from packstone.pipeline.table import Table
from packstone.storage.stores import open_store
from packstone.tables.paimon.options import PaimonOptions


@pytest.fixture
def tables(seaweed, use_s3, tmp_path):
    """A table of four commits, on the real server."""
    return PaimonTables(seaweed, use_s3(seaweed), tmp_path)


def test_all_commands_for_a_single_writer(tables, packstone):
    """Looked at, planned, compacted, queried, expired: the rows stay, and level 0 is empty."""
    table = tables.copy()
    assert packstone("health", table).code == 0
    assert packstone("plan", table, "--strategy", "full", "--format", "json").json["status"] == "planned"
    done = packstone("compact", table, "--strategy", "full", "--set", "single-writer=true", "--format", "json").json
    assert (done["status"], done["verified"]) == ("committed", "content")
    found = tables.check(table)
    assert {entry.file["_LEVEL"] for entry in found.live()} == {5}
    count = packstone("query", table, "select count(*) n from t", "--format", "json").json["rows"]
    assert count == [[len(tables.rows)]]
    words = ("clean", table, "--expire-snapshots", "--retain-min", "1", "--older-than", "0s", "--yes")
    assert packstone(*words, "--set", "single-writer=true").code == 0
    assert tables.check(table).ids() == [5]
    state = f"{table.rpartition('/')[0]}/.packstone/t"
    assert open_store(table).stat(f"{state}/staging") is None


@pytest.mark.parametrize("command", ["compact", "clean"])
def test_without_a_word_nothing_is_changed(tables, packstone, command):
    """Others may publish by a put that overwrites, so somebody has to say that there are none: exit code 3."""
    table = tables.copy()
    done = packstone(command, table, *(("--yes",) if command == "clean" else ()))
    assert done.code == 3
    assert "is on an object store, where other writers publish snapshots by a put that overwrites" in done.sentence
    assert done.sentence.endswith("give --set single-writer=true.")
    found = tables.check(table)
    assert found.names() == tables.local.names()
    assert packstone("clean", table, "--dry-run").code == 0


def test_the_word_is_for_paimon_tables(lake, packstone):
    """A Hive directory has owners and needs no such word."""
    lake.parquet()
    for command in ("compact", "clean"):
        done = packstone(command, lake.table, "--set", "single-writer=true")
        assert (done.code, "single-writer is for Paimon tables" in done.sentence) == (2, True)


def test_on_a_local_disk_the_word_changes_nothing(tables, packstone):
    """It may be given, and it is not needed."""
    copy = tables.tmp_path / "copy"
    shutil.copytree(tables.local.path, copy)
    assert packstone("compact", copy, "--strategy", "full", "--set", "single-writer=true").code == 0
    assert PaimonLake(copy).rows() == tables.rows


def test_a_store_that_ignores_the_condition_is_refused(tables, careless, use_s3, packstone):
    """Not even a single writer may commit there: two runs of its own would overwrite each other."""
    table = f"{use_s3(careless)}/t"
    for name in tables.local.names():  # PyArrow's client does not get a file into this server
        open_store(table).replace(f"{table}/{name}", (tables.local.path / name).read_bytes())
    done = packstone("compact", table, "--strategy", "full", "--set", "single-writer=true")
    assert done.code == 3
    assert "two writers could publish one snapshot; nothing was committed." in done.sentence
    found = PaimonLake(careless.fetch(table, tables.tmp_path / "fetched"))
    assert found.names() == tables.local.names()


def test_compactions_at_once(tables, children, seaweed):
    """Two runs of one writer, in processes of their own: each snapshot is one's, and the rows stay."""
    table = tables.copy()
    call = {"path": table, "single_writer": True, "env": seaweed.env}
    pids = [children.start("paimon_compact", **call) for _ in range(3)]
    answers = [children.wait(pid) for pid in pids]
    assert all("error" not in one or one["error"] == "ConflictError" for one in answers), answers
    published = [one for answer in answers for one in answer.get("value", {}).get("snapshots", ())]
    found = tables.check(table)
    assert found.ids() == [1, 2, 3, 4, *sorted(published)]
    assert {entry.file["_LEVEL"] for entry in found.live()} == {5}


def test_the_table_itself_asks_too(tables):
    """Through the API the same holds."""
    table = Table(tables.copy())
    with pytest.raises(RefusedError, match="--set single-writer=true"):
        table.compact()
    with pytest.raises(RefusedError, match="--set single-writer=true"):
        table.clean()
    assert table.clean(dry_run=True).files == 0


def test_a_run_is_proved_and_undone(tables):
    """Copies are objects of their own; without the word nothing is copied."""
    path = tables.copy()
    table, alone = Table(path), PaimonOptions(strategy="full", single_writer=True)
    outcome = table.compact(alone)
    assert table.verify(outcome.run).to_json()["status"] == "verified"
    names = tables.check(path).names()
    with pytest.raises(RefusedError, match="--set single-writer=true"):
        table.restore(outcome.run)
    assert tables.check(path).names() == names
    assert table.restore(outcome.run, alone).to_json()["status"] == "restored"
    found = tables.check(path)
    assert {entry.file["_LEVEL"] for entry in found.live()} == {0}
    assert found.problems() == []


def test_a_compaction_killed_at_some_steps(tables, children, seaweed):
    """The rows stay, another run ends the work, and what was left is known by name."""
    check_paimon_killed(tables, children, stride=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_compaction_killed_at_every_step(tables, children, seaweed):
    """Killed anywhere."""
    check_paimon_killed(tables, children, stride=1)
