"""Tables that pypaimon made, compacted by Packstone: everybody reads the same rows, and all invariants hold."""

import json
from dataclasses import replace

import pytest
from paimon_interop.cases import (
    CASES,
    ORDERS,
    Case,
    append_files,
    composite,
    deletes,
    exact_aggregation,
    first_row,
    first_rows,
    long_key,
    orders,
    partial_update,
    partitioned,
    runs,
    sequence_field,
)

MAX_LEVEL = 5  # of tables with the default trigger
EARLY = ("--set", "num-sorted-run.compaction-trigger=3")  # so that the few runs of a test are enough


@pytest.mark.parametrize("case", CASES, ids=str)
def test_full_compaction_changes_no_row(python, prove, case):
    """All runs become one on the last level; after more appends once more; each time a second run finds nothing."""
    proof = prove(case)
    proof.compact_twice("--strategy", "full", rows=first_rows(case.commits) if case.hides_level0 else None)
    if case.keys:
        assert {file["level"] for file in proof.live()} == {max_level(case)}
        assert sum(file["deletes"] for file in proof.live()) == 0
    case.write(python, proof.table, case.later)
    proof.compact_twice("--strategy", "full", rows=first_rows(case.commits + case.later) if case.hides_level0 else None)


def max_level(case: Case) -> int:
    """The last level of a table: one more than its trigger allows runs."""
    return int(case.options.get("num-sorted-run.compaction-trigger", MAX_LEVEL))


@pytest.mark.parametrize("strategy", ["minor", "universal", "force-up-level0"])
@pytest.mark.parametrize(
    "case",
    [long_key(), partitioned(), composite(), partial_update(), exact_aggregation(), deletes(), sequence_field()],
    ids=str,
)
def test_partial_compactions_change_no_row(python, prove, case, strategy):
    """Picks that leave older runs alone keep delete markers and sequence numbers as readers need them."""
    proof = prove(case)
    proof.compact("--strategy", strategy, *EARLY)
    for commit in case.later:
        case.write(python, proof.table, (commit,))
        result = proof.packstone("compact", proof.table, "--strategy", strategy, *EARLY)
        assert result["status"] in {"committed", "nothing-to-do"}
        proof.check()
    proof.compact("--strategy", strategy, *EARLY, status="nothing-to-do")
    proof.compact_twice("--strategy", "full")


@pytest.mark.parametrize("case", [long_key(), deletes(), exact_aggregation(), sequence_field()], ids=str)
def test_runs_below_are_left_alone(python, prove, case):
    """On top of a big compacted run a few fresh small ones are merged among themselves, delete markers kept."""
    proof = prove(big(case))
    proof.compact("--strategy", "full")
    (old,) = proof.live()
    fresh = [row for row in case.later[0] if row[0] % 2]
    for round_number in range(2):
        case.write(python, proof.table, (fresh, [[row[0] + 2, *row[1:]] for row in fresh]))
        proof.compact_twice("--strategy", "force-up-level0")
        levels = {file["name"]: file["level"] for file in proof.live()}
        assert levels.pop(old["name"]) == MAX_LEVEL
        assert list(levels.values()) == [MAX_LEVEL - 1], f"round {round_number}"
    proof.compact_twice("--strategy", "full")


def big(case: Case) -> Case:
    """The case with a run before all others that makes fresh ones look small."""
    keys = [[*row, key] for key, row in enumerate(case.commits[0] * 250)]
    return replace(case, commits=([[row[-1], *row[1:-1]] for row in keys],))


def test_one_run_is_only_relabelled(prove):
    """A single file moves to the last level without being written again."""
    case = Case(name="single", fields=ORDERS, keys=("id",), options={"bucket": "1"}, commits=(runs_of_one(),))
    proof = prove(case)
    (file,) = proof.live()
    result = proof.compact_twice("--strategy", "full")
    assert [unit["how"] for unit in result["units"]] == ["upgrade"]
    assert proof.live() == [file | {"level": MAX_LEVEL}]


def runs_of_one():
    """The rows of one commit."""
    return runs(orders, count=1, keys=10, step=1)[0]


def test_a_file_that_hides_its_deletes_is_not_relabelled(prove):
    """Pypaimon records no delete markers, so every reader shows such rows; compacting drops them for good.

    Relabelled to the last level, as Java does it, they would be shown for ever.
    """
    case = deletes()
    proof = prove(replace(case, name="hidden", commits=case.commits[1:2]))
    assert [file["deletes"] for file in proof.live()] == [0]
    adds = [row for row in case.commits[1] if row[1].startswith("+")]
    proof.compact_twice("--strategy", "full", rows=sorted(adds, key=json.dumps))


def test_everything_deleted(python, prove):
    """A table whose rows are all deleted ends without files, and can be written to again."""
    case = deletes()
    gone = [[row[0], "-D", None] for row in case.commits[0]]
    proof = prove(replace(case, name="gone", commits=(case.commits[0], gone)))
    proof.compact_twice("--strategy", "full")
    assert proof.live() == []
    case.write(python, proof.table, case.commits[:2])
    proof.compact_twice("--strategy", "full")


def test_first_row_needs_a_full_compaction(python, prove):
    """Anything less would have to look keys up in the levels below; it is refused by name and changes nothing."""
    case = first_row()
    proof = prove(big(case))
    proof.compact("--strategy", "full", rows=sorted(big(case).commits[0], key=json.dumps))
    case.write(python, proof.table, case.later)
    result = proof.compact("--strategy", "force-up-level0", status="refused")
    assert "first-row" in str(result["skipped"])
    everything = big(case).commits + case.later
    proof.compact_twice("--strategy", "full", rows=first_rows(everything))


def test_only_the_chosen_partitions(prove):
    """Conditions on partitions narrow the work; the rest keeps its files."""
    proof = prove(partitioned())
    for arguments, touched in (
        (("--where", "region = 'north' AND day = 20240101"), lambda file: file["partition"] == ["north", 20240101]),
        (("--where", "region = 'a b'"), lambda file: file["partition"][0] == "a b"),
    ):
        before = {file["name"] for file in proof.live() if not touched(file)}
        proof.compact("--strategy", "full", *arguments)
        after = proof.live()
        assert before == {file["name"] for file in after if not touched(file)}, arguments
        assert {file["level"] for file in after if touched(file)} == {MAX_LEVEL}, arguments


def test_a_plan_changes_nothing(prove):
    """The plan names what compact then does."""
    proof = prove(long_key())
    history = proof.snapshots()
    plan = proof.packstone("plan", proof.table, "--strategy", "full")
    assert plan["status"] == "planned"
    assert proof.snapshots() == history
    done = proof.compact_twice("--strategy", "full")
    assert [sorted(unit["inputs"]) for unit in done["units"]] == [sorted(unit["inputs"]) for unit in plan["units"]]


def test_schema_changes_between_files(python, prove):
    """Files of four schemas: a column added, one renamed, one widened, one dropped."""
    fields = (("id", "BIGINT"), ("name", "STRING"), ("v", "INT"), ("gone", "STRING"))
    proof = prove(Case(name="evolved", fields=fields, keys=("id",), options={"bucket": "1"}))
    write = [
        ([[key, f"n{key}", key * 2, "x"] for key in range(10)], [["add_column", "extra", "DECIMAL(12, 2)"]]),
        (
            [[key, f"n{key}", key * 3, "y", f"{key}.25"] for key in range(5, 15)],
            [["rename_column", "name", "title"], ["update_column_type", "v", "BIGINT"]],
        ),
        ([[key, f"t{key}", 2**40 + key, "z", None] for key in range(8, 20)], [["drop_column", "gone"]]),
        ([[key, f"u{key}", None, "9.75"] for key in range(0, 20, 3)], []),
    ]
    for rows, changes in write:
        python.call("write", proof.table, rows=rows)
        if changes:
            python.call("alter", proof.table, changes=changes)
    proof.compact_twice("--strategy", "full")
    assert {file["schema"] for file in proof.live()} == {3}
    python.call("alter", proof.table, changes=[["add_column", "late", "STRING"]])
    python.call("write", proof.table, rows=[[key, f"w{key}", key, None, "l"] for key in range(0, 25, 2)])
    proof.compact_twice("--strategy", "full")


def test_tags_and_old_snapshots_stay_readable(python, prove):
    """Inputs are kept: a tag and every older snapshot show what they showed."""
    case = long_key()
    proof = prove(case)
    python.call("create_tag", proof.table, tag="before")
    views = [{"tag": "before"}, *({"snapshot": snapshot["id"]} for snapshot in proof.snapshots())]
    shown = [proof.readers.rows(proof.table, proof.names, **view) for view in views]
    proof.compact_twice("--strategy", "full")
    assert [proof.readers.rows(proof.table, proof.names, **view) for view in views] == shown


def test_two_writers_by_turns(python, prove):
    """Pypaimon-rust and pypaimon write to one table."""
    case = long_key()
    proof = prove(replace(case, name="by_turns", commits=()))
    for n, commit in enumerate((*case.commits, *case.later)):
        python.call("write", proof.table, rows=commit, rust=n % 2 == 0)
    proof.compact_twice("--strategy", "full")


@pytest.mark.spark
@pytest.mark.parametrize("case", [partitioned(), append_files()], ids=str)
def test_on_spark(python, prove, case):
    """The same when Spark does the work."""
    proof = prove(case)
    proof.compact("--strategy", "full", engine="spark")
    case.write(python, proof.table, case.later)
    proof.compact_twice("--strategy", "full")
