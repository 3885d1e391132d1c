"""Tables that pypaimon and Java made are compacted, and everything their makers promised still holds.

Expected rows were read by their makers. Here the merged files are read as they are (a table of one run needs no merge),
by PyArrow and fastavro, and the invariants are checked by code that is not the product's.
"""

import json
import shutil
from pathlib import Path

import pytest
from paimon_interop.invariants import live_entries, problems_of
from paimon_interop.rows import plain
from paimon_interop.table_files import TableFiles, read_data

from packstone.pipeline.table import Table
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
CASES = sorted(path.name for path in FIXTURES.iterdir() if (path / "expected.json").exists())


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A copy of one table, and the rows that its maker reads from it."""
    shutil.copytree(FIXTURES / request.param / "table", tmp_path / "table")
    return tmp_path / "table", json.loads((FIXTURES / request.param / "expected.json").read_text())


def raw_rows(path, columns):
    """The rows of all live files, unmerged, in the words of the expected ones."""
    table = TableFiles(path)
    rows = []
    for entry in live_entries(table):
        held = read_data(table.data_path(entry))
        rows += [[plain(value) for value in row] for row in zip(*(held[name] for name in columns), strict=True)]
    return sorted(rows, key=repr)


@pytest.mark.sample(3)
def test_a_full_compaction_leaves_exactly_the_merged_rows(case):
    """After it every bucket is one run whose raw rows are what the maker's merge read gives; again: nothing to do."""
    path, expected = case
    outcome = Table(str(path)).compact(PaimonOptions(strategy=PaimonStrategy.FULL))
    assert outcome.status in ("committed", "nothing-to-do"), outcome
    assert problems_of(path) == []
    rows = expected.get("rows_after_full", expected["rows"])  # first-row tables hide level 0 from their readers
    assert raw_rows(path, expected["columns"]) == sorted(rows, key=repr)
    assert outcome.verified == ("content" if outcome.units else "none")
    again = Table(str(path)).compact(PaimonOptions(strategy=PaimonStrategy.FULL))
    assert (again.status, again.units) == ("nothing-to-do", ())


@pytest.mark.sample(3)
def test_minor_rounds_reach_a_fixed_point(case):
    """With a low trigger the table's own strategy picks, and a second run has nothing left to do."""
    path, _ = case
    options = PaimonOptions(overrides=(("num-sorted-run.compaction-trigger", "2"),))
    outcome = Table(str(path)).compact(options)
    refused = [skip.why for skip in outcome.skipped if skip.kind == "refused"]
    assert outcome.status in ("committed", "nothing-to-do") or refused, outcome
    assert problems_of(path) == []
    assert Table(str(path)).compact(options).units == ()


@pytest.mark.sample(4)
def test_a_plan_changes_nothing_and_says_what_compact_does(case):
    """Planned inputs are the inputs of the first round; not a byte of the table changes."""
    path, _ = case
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    table = Table(str(path))
    planned = table.plan(PaimonOptions(strategy=PaimonStrategy.FULL)).outcome
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    done = table.compact(PaimonOptions(strategy=PaimonStrategy.FULL))
    assert [unit.inputs for unit in planned.units] == [unit.inputs for unit in done.units][: len(planned.units)]
