"""The checks themselves: they find nothing wrong with the tables of others, and each of them can fail."""

import shutil
from pathlib import Path

import pytest
from paimon_interop.cases import FIXTURES
from paimon_interop.java_cases import JAVA_FIXTURES

TESTDATA = Path(__file__).resolve().parents[1] / "testdata/paimon"
FOUND_BY = [
    "again", "base", "buckets", "columns", "dangling", "deletes", "delta", "doomed", "gap", "hint", "inherited",
    "key-range", "list-size", "manifest", "manifest level", "missing", "order", "order once", "overlap", "rows",
    "schema", "sequence-range", "size", "source", "stats", "stats nulls", "total", "twice", "upgrade",
]  # fmt: skip


@pytest.mark.parametrize("case", [*FIXTURES, *JAVA_FIXTURES], ids=str)
def test_nothing_is_wrong_with_the_tables_of_others(python, case):
    """What pypaimon appended and what Java wrote and compacted passes every check."""
    assert python.call("check", TESTDATA / case.name / "table") == []


@pytest.mark.parametrize("how", FOUND_BY)
def test_every_check_can_fail(python, tmp_path, how):
    """A table that Java compacted, broken on purpose, is found broken by the check of that name."""
    table = tmp_path / "broken"
    shutil.copytree(TESTDATA / "java_settled/table", table)
    assert python.call("check", table) == []
    python.call("corrupt", table, how=how)
    found = {problem.partition(":")[0] for problem in python.call("check", table)}
    assert how.partition(" ")[0] in found
