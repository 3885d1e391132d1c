"""Java Paimon makes and reads: tables that it wrote or compacted, Packstone compacts, and the other way round."""

import json
import shutil

import pytest
from paimon_interop.cases import first_rows
from paimon_interop.java_cases import JAVA_CASES, NANOSECONDS, compacted, deletes, evolved, key_of_type, levels, settled
from paimon_interop.proof import Proof


@pytest.fixture
def prove(java, readers, packstone, tmp_path):
    """Make a case's table with Java; the answer compacts it with Packstone and compares."""

    def make(case):
        table = case.create(java, tmp_path / "warehouse/d.db" / case.name)
        return Proof(table, readers, case.readers, packstone)

    return make


@pytest.mark.parametrize("case", JAVA_CASES, ids=str)
def test_full_compaction_of_javas_tables(java, prove, tmp_path, case):
    """Java, pypaimon and pypaimon-rust read the same after it, and again after Java wrote more.

    On a copy Java's own compaction leaves the same rows and the same number of records.
    """
    proof = prove(case)
    for steps in ((), case.later):
        case.take(java, proof.table, steps)
        copy = proof.table.with_name("copy")
        shutil.copytree(proof.table, copy)
        java.call("compact", copy, full=True)
        rows = java.call("read", copy)["rows"]
        if proof.packstone("plan", proof.table, "--strategy", "full")["status"] == "planned":
            proof.compact_twice("--strategy", "full", rows=rows if case.hides_level0 else None)
        assert proof.rows()["rows"] == rows
        assert proof.snapshots()[-1]["totalRecordCount"] == total_rows(java, copy, proof)
        shutil.rmtree(copy)


def total_rows(java, copy, proof):
    """How many records Java's compaction of the copy left."""
    return Proof(copy, proof.readers, proof.names, proof.packstone).snapshots()[-1]["totalRecordCount"]


@pytest.mark.parametrize("strategy", ["full", "minor", "universal", "force-up-level0"])
def test_nothing_is_left_to_do_after_java(prove, strategy):
    """A table that Java compacted is planned like one of our own: there is nothing to do."""
    proof = prove(settled())
    plan = proof.packstone("plan", proof.table, "--strategy", strategy)
    assert plan["status"] in {"nothing-to-do", "planned"}
    assert plan["units"] == []
    proof.compact("--strategy", strategy, status="nothing-to-do")


@pytest.mark.parametrize("case", [compacted(), levels(), deletes(), evolved()], ids=str)
def test_java_goes_on_after_packstone(java, prove, case):
    """Java's writer continues on the same table: it appends, compacts, expires; and then Packstone compacts again."""
    proof = prove(case)
    proof.compact("--strategy", "full")
    before = proof.rows()
    java.call("compact", proof.table, full=True)
    proof.check()
    assert proof.rows() == before
    case.take(java, proof.table, case.later)
    before = proof.rows()
    java.call("compact", proof.table, full=True)
    proof.check()
    assert proof.rows() == before
    proof.compact("--strategy", "full", status="nothing-to-do")


@pytest.mark.parametrize("case", [levels(), deletes(), settled()], ids=str)
def test_expiry_by_java_keeps_what_packstone_relabelled(java, prove, case):
    """Java's expiry deletes what the compaction replaced and no file that it merely moved to another level."""
    proof = prove(case)
    case.take(java, proof.table, case.later)
    proof.compact("--strategy", "full")
    before = proof.rows()
    java.call("expire", proof.table)
    assert len(proof.snapshots()) == 1
    proof.check()
    assert proof.rows() == before
    on_disk = {file.name for file in proof.table.rglob("data-*")}
    assert {file["name"] for file in proof.live()} == on_disk


def test_statistics_and_tags_are_handed_on(java, prove):
    """What ANALYZE recorded and what a tag shows outlive a compaction."""
    proof = prove(compacted())
    *_, analyzed = proof.snapshots()
    tagged = proof.readers.rows(proof.table, proof.names, tag="v1")
    proof.compact_twice("--strategy", "full")
    assert analyzed["statistics"]
    assert proof.snapshots()[-1]["statistics"] == analyzed["statistics"]
    assert proof.readers.rows(proof.table, proof.names, tag="v1") == tagged


def test_first_row_as_java_does_it(java, prove):
    """The oldest row of each key, the same that Java's compaction of a first-row table shows."""
    (case,) = [case for case in JAVA_CASES if case.hides_level0]
    proof = prove(case)
    commits = tuple(arguments["rows"] for _, arguments in case.steps)
    proof.compact_twice("--strategy", "full", rows=first_rows(commits))


@pytest.mark.parametrize("strategy", ["minor", "universal", "force-up-level0"])
def test_levels_that_java_left(java, prove, strategy):
    """Partial compactions of a table with files on several levels change no row."""
    case = levels()
    proof = prove(case)
    for step in ((), *((step,) for step in case.later)):
        case.take(java, proof.table, step)
        before = proof.rows()
        result = proof.packstone("compact", proof.table, "--strategy", strategy)
        assert result["status"] in {"committed", "nothing-to-do"}, json.dumps(result)
        proof.check()
        assert proof.rows() == before


def test_nanoseconds_before_1970(prove):
    """Java writes such times with a day too late and a negative rest; they are kept, or left alone with the reason."""
    proof = prove(key_of_type("TIMESTAMP(9)", "1969-12-31T23:59:59.999999001", "1901-01-01T00:00:00.5", *NANOSECONDS))
    before = proof.rows()
    result = proof.packstone("compact", proof.table, "--strategy", "full")
    assert result["status"] in {"committed", "refused"}, result
    proof.check()
    assert proof.rows() == before
