"""``verify RUN`` of segment tables: the same proof again, against the inputs while they exist, else the record."""

import pyarrow.parquet as pq
import pytest
from compact_calls import segment_clean
from segment_lake import SegmentLake

from packstone.errors import InvalidInputError
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
CASES = {
    "sorted": ({"SORT_COLUMNS": "id"}, {}),
    "sorted in pieces": ({"SORT_COLUMNS": "id"}, {"task_bytes": 2_000}),
    "sorted first, in pieces": ({"SORT_COLUMNS": "id", "SORT_SCOPE": "NO_SORT"}, {"task_bytes": 2_000}),
    "no order": ({}, {"task_bytes": 2_000}),
    "counted": ({"SORT_COLUMNS": "id"}, {"verify": "count"}),
}


@pytest.fixture(params=CASES)
def merged(request, tmp_path):
    """A table whose four loads are merged, and the run."""
    properties, options = CASES[request.param]
    lake = SegmentLake(tmp_path / "t").create(**properties)
    for seed in range(4):
        rows = [{"id": at * 7 % 300, "v": f"{seed}-{at}"} for at in range(300)]
        lake.load(rows, files=2, group_rows=100, scope="LOCAL_SORT" if properties and seed % 2 else None)
    outcome = Table(lake.table).compact(SegmentOptions(**options))
    assert lake.ids() == ["0.1"]
    return lake, outcome


def verify(lake, run):
    """As JSON."""
    return Table(lake.table).verify(run).to_json()


def test_a_run_is_proved_again_by_its_inputs(merged):
    """All files, with their originals; the table is as it was."""
    lake, outcome = merged
    version, files = lake.versions()[-1], len(lake.files())
    assert verify(lake, outcome.run) == {
        "format_version": 1,
        "table": lake.table,
        "run": outcome.run,
        "status": "verified",
        "files": files,
        "files_with_originals": files,
        "rows": 1200,
        "engine": {"name": "inline", "why": ""},
        "problems": [],
    }
    assert lake.versions()[-1] == version
    assert lake.open_runs() == []


def test_without_inputs_by_what_was_recorded(merged):
    """Cleaned: the files alone are compared with the record."""
    lake, outcome = merged
    segment_clean(IO, lake.table, days=8)
    found = verify(lake, outcome.run)
    assert (found["status"], found["files_with_originals"], found["rows"]) == ("verified", 0, 1200)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_rows_that_changed_are_found(merged, is_cleaned):
    """A merged file with other rows, of the same number, is a problem; with a count only, a file of fewer rows is."""
    lake, outcome = merged
    if is_cleaned:
        segment_clean(IO, lake.table, days=8)
    path = lake.files()[0]
    rows = pq.read_table(path)
    is_counted = outcome.verified == "count"
    other = rows.slice(1) if is_counted else rows.set_column(1, "v", [["other"] * rows.num_rows])
    pq.write_table(other, path)
    found = verify(lake, outcome.run)
    assert found["status"] == "failed"
    assert found["problems"][0].startswith("0 1 2 3 -> 0.1: ")


def test_a_file_that_is_gone_is_a_problem(merged):
    """It is named."""
    lake, outcome = merged
    path = lake.path / lake.files()[0]
    path.unlink()
    assert verify(lake, outcome.run)["problems"] == [f"0 1 2 3 -> 0.1: {path} is gone"]


def test_nothing_is_left_to_prove(merged):
    """Of a run that was undone, merged again, or that nobody knows."""
    lake, outcome = merged
    Table(lake.table).restore(outcome.run)
    for run, why in ((outcome.run, "has no merged files left to prove"), ("20240101T000000-abcdef", "There is no run")):
        with pytest.raises(InvalidInputError, match=why):
            verify(lake, run)
    with pytest.raises(InvalidInputError, match="is not the id of a run"):
        verify(lake, "../../x")
