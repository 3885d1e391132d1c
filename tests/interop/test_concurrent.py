"""Packstone compacts in a loop while pypaimon appends from two other processes."""

import json
import time

import pytest
from paimon_interop.cases import Case
from paimon_interop.client import Worker
from paimon_interop.proof import Proof

FIELDS = (("id", "BIGINT"), ("name", "STRING"), ("v", "INT"))
WRITERS = 2
# Writers that never rest commit some forty times a second and starve everybody, each other too: in such a run one of
# two pypaimons got 26 commits in and the other 819.
PAUSE_SECONDS = 0.1


def append_and_compact(proof, *, seconds, exclusive):
    """Let writers append for this long while we compact; return the keys reported as committed, and our results."""
    writers = [Worker() for _ in range(WRITERS)]
    results = []
    try:
        for writer in writers:
            writer.call("snapshots", proof.table)  # it has started; that takes long on a busy machine
        for number, writer in enumerate(writers):
            # Each has keys of its own, so that a lost commit is a missing row.
            request = {"first": number, "step": WRITERS, "seconds": seconds, "pause": PAUSE_SECONDS}
            writer.send("append_loop", proof.table, exclusive=exclusive, **request)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            results.append(proof.packstone("compact", proof.table, "--strategy", ("minor", "full")[len(results) % 2]))
        told = [writer.answer() for writer in writers]
    finally:
        for writer in writers:
            writer.close()
    return told, results


def check_progress(told, results):
    """Everybody got something done."""
    assert all(len(answer["done"]) >= 3 for answer in told), told
    statuses = [result["status"] for result in results]
    assert statuses.count("committed") >= 2, statuses
    assert set(statuses) <= {"committed", "partial", "nothing-to-do", "conflict"}, json.dumps(results[-1], indent=2)


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(20, id="short"), pytest.param(300, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
)
@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "append"])
def test_no_row_and_no_snapshot_is_lost(python, readers, packstone, tmp_path, keys, seconds):
    """Every row that pypaimon reported as committed exists, numbers have no gap, and everybody makes progress.

    Pypaimon publishes by a link here: its own rename may replace a snapshot that another process published.
    """
    case = Case(name="busy", fields=FIELDS, keys=keys, options={"bucket": "1" if keys else "-1"})
    proof = Proof(case.create(python, tmp_path / "warehouse/d.db/busy"), readers, case.readers, packstone)
    case.write(python, proof.table, ([[-1, "first", 0]],))
    told, results = append_and_compact(proof, seconds=seconds, exclusive=True)
    proof.check()
    check_progress(told, results)
    wanted = sorted(key for answer in told for key in answer["done"])
    found = sorted(row[0] for row in proof.rows()["rows"] if row[0] >= 0)
    failed = sum(answer["failed"] for answer in told)
    assert set(wanted) <= set(found), "rows are lost"
    assert len(found) == len(set(found)), "rows are doubled"
    # A commit that pypaimon gave up may be in anyway, when only its last step failed.
    assert len(set(found) - set(wanted)) <= failed
    case.write(python, proof.table, tuple([[-key, "last", key]] for key in range(1, 7)))
    proof.compact_twice("--strategy", "full")


def test_pypaimons_own_publish(python, readers, packstone, tmp_path, record_property, capsys):
    """The same with pypaimon's own rename: what it loses by it is reported, and fails nothing of ours."""
    case = Case(name="busy", fields=FIELDS, keys=("id",), options={"bucket": "1"})
    proof = Proof(case.create(python, tmp_path / "warehouse/d.db/busy"), readers, ("pypaimon",), packstone)
    case.write(python, proof.table, ([[-1, "first", 0]],))
    told, _ = append_and_compact(proof, seconds=8, exclusive=False)
    wanted = {key for answer in told for key in answer["done"]}
    lost = wanted - {row[0] for row in proof.rows()["rows"]}
    with capsys.disabled():
        print(f"\npypaimon's own publish: {len(wanted)} commits reported, {len(lost)} lost, {len(told)} writers")  # noqa: T201
