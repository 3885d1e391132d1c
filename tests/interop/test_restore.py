"""A compaction that was undone: pypaimon, pypaimon-rust and Java Paimon read the previous rows, and go on writing.

The last tests show why the inputs come back as copies: with their own names readers or Java's expiry would lose them.
"""

import json
from dataclasses import replace

import pytest
from paimon_interop.cases import CASES, runs
from paimon_interop.client import WorkerError
from paimon_interop.java_cases import JAVA_CASES, JavaCase, compacted, deletes, evolved, levels, writes
from paimon_interop.proof import Proof

from packstone.pipeline.table import Table
from packstone.runs.clock import new_uuid, system_clock
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import CommitOptions, commit_edits
from packstone.tables.paimon.conflicts import Edit
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.snapshot import read_latest_snapshot, read_snapshot
from packstone.tables.paimon.options import PaimonOptions

FULL = PaimonOptions(strategy="full", overrides=(("compaction.min.file-num", "2"),))
IO = LocalFileIO()


@pytest.fixture
def prove_java(java, readers, packstone, tmp_path):
    """Make a case's table with Java."""

    def make(case):
        table = case.create(java, tmp_path / "warehouse/d.db" / case.name)
        return Proof(table, readers, case.readers, packstone)

    return make


def compact_and_restore(proof):
    """Compact and undo: everybody reads the previous rows, and every file is back on its level."""
    before, files = proof.rows(), placed(proof)
    table = Table(str(proof.table))
    outcome = table.compact(FULL)
    if outcome.status == "nothing-to-do":
        return outcome
    assert outcome.status == "committed", outcome
    proof.check()
    report = table.restore(outcome.run)
    assert report.to_json()["status"] == "restored"
    proof.check()
    assert proof.rows() == before
    assert placed(proof) == files
    assert table.restore(outcome.run).to_json()["status"] == "nothing-to-do"
    return outcome


def placed(proof):
    """The live files without their names."""
    return sorted(json.dumps({**file, "name": ""}, sort_keys=True) for file in proof.live())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pypaimons_tables(python, prove, case):
    """Undone once, written to by pypaimon, and undone again."""
    proof = prove(case)
    assert compact_and_restore(proof).status == "committed"
    case.write(python, proof.table, case.later)
    compact_and_restore(proof)


@pytest.mark.parametrize("case", JAVA_CASES, ids=str)
def test_javas_tables_and_its_expiry(java, prove_java, case):
    """Java expires all snapshots but the one of the restore: the same rows, and on disk only what is live."""
    proof = prove_java(case)
    case.take(java, proof.table, case.later)
    outcome = compact_and_restore(proof)
    before, tags = proof.rows(), list(proof.table.glob("tag/tag-*"))
    java.call("expire", proof.table)
    assert len(proof.snapshots()) == 1
    proof.check()
    assert proof.rows() == before
    if not tags and outcome.status == "committed":
        assert {file["name"] for file in proof.live()} == {file.name for file in proof.table.rglob("data-*")}


@pytest.mark.parametrize("case", [compacted(), levels(), deletes(), evolved()], ids=str)
def test_java_goes_on_after_a_restore(java, prove_java, case):
    """It compacts the copies as if they had always been there, writes, expires; then Packstone compacts again."""
    proof = prove_java(case)
    compact_and_restore(proof)
    before = proof.rows()
    java.call("compact", proof.table, full=True)
    proof.check()
    assert proof.rows() == before
    case.take(java, proof.table, case.later)
    before = proof.rows()
    compact_and_restore(proof)
    java.call("expire", proof.table)
    assert proof.rows() == before
    assert Table(str(proof.table)).compact(FULL).status in {"committed", "nothing-to-do"}
    proof.check()
    assert proof.rows() == before


# ---- what would happen without copies --------------------------------------------------------------------------------


def apart() -> JavaCase:
    """Two commits whose keys do not overlap: small neighbours, which a compaction joins into one file."""
    commits = runs(lambda key, n: [key, f"name {key}", n], count=2, keys=10, step=100)
    return JavaCase(name="apart", steps=writes(commits))


def put_back(proof, level):
    """Commit the inverse of the last compaction with the inputs themselves; return the error if that fails."""
    table = str(proof.table)
    latest = read_latest_snapshot(IO, table)
    (now,) = read_live_files(IO, table, latest)
    (then,) = read_live_files(IO, table, read_snapshot(IO, table, latest.id - 1))
    edit = Edit(
        partition=now.partition,
        bucket=now.bucket,
        total_buckets=now.total_buckets,
        before=now.files,
        after=tuple(replace(file, level=level) for file in then.files),
    )
    options = CommitOptions(user="packstone-test", writer_version="test")
    commit_edits(
        IO,
        table,
        (edit,),
        options=options,
        clock=replace(system_clock(), new_id=new_uuid),
        record=lambda _paths: None,
    )


def test_inputs_on_their_own_level_would_vanish(prove_java):
    """Readers match ADD and DELETE of one identity in no order: every row is lost at once, for every reader."""
    proof = prove_java(apart())
    before = proof.rows()
    Table(str(proof.table)).compact(FULL)
    put_back(proof, level=0)
    assert len(before["rows"]) == 20
    assert proof.rows()["rows"] == []


def test_inputs_on_another_level_would_be_removed_by_expiry(java, prove_java):
    """Java's expiry removes what the compaction's delta deletes, though a later snapshot consists of it."""
    proof = prove_java(apart())
    before = proof.rows()
    Table(str(proof.table)).compact(FULL)
    put_back(proof, level=3)
    assert proof.rows() == before
    java.call("expire", proof.table)
    live = {file["name"] for file in proof.live()}
    assert len(live) == 2
    assert not live & {file.name for file in proof.table.rglob("data-*")}
    with pytest.raises(WorkerError, match=r"(?i)not.*(exist|found)"):
        java.call("read", proof.table)
