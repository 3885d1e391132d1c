"""Clean: recorded originals whose retention has expired go; nothing else does, ever."""

import os
import time

import pytest
from hive_run import HiveRun

from packstone.pipeline.table import Table
from packstone.tables.hive.clean import plan_clean
from packstone.tables.hive.options import HiveOptions


def merge(lake, keep_days=0.0):
    """Merge all small files; return the run."""
    return Table(str(lake.table)).compact(HiveOptions(min_files=2, keep_days=keep_days)).run


def clean(lake, **options):
    """Clean; return what was reported."""
    return Table(str(lake.table)).clean(**options)


@pytest.fixture
def backup(lake):
    """The folder of all originals."""
    return lake.root / ".packstone" / "orders" / "backup"


def kept(backup):
    """All files in the backup, by name."""
    return sorted(str(path.relative_to(backup)) for path in backup.rglob("*") if path.is_file())


def test_originals_go_and_rows_stay(lake, backup):
    """All originals of a run whose retention has expired go, and the merged rows are all there."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    ids = lake.ids()
    run = merge(lake)
    report = clean(lake)
    assert (report.files, report.runs, report.changed) == (12, (run,), ())
    assert report.to_json()["status"] == "cleaned"
    assert kept(backup) == []
    assert lake.ids() == ids
    assert clean(lake).to_json()["status"] == "nothing-to-do"


def test_only_what_is_over(lake, backup):
    """A run within its days keeps its originals, and is counted as kept."""
    lake.parquet("dt=1")
    merge(lake, keep_days=7)
    lake.parquet("dt=2")
    merge(lake)
    report = clean(lake)
    assert (report.files, report.kept_runs) == (6, 1)
    assert len(kept(backup)) == 6


def test_the_time_is_over_when_it_is_over(lake):
    """Until the second before the last day has ended nothing is planned; after it all is."""
    lake.parquet("dt=1")
    merge(lake, keep_days=3)
    journal = Table(str(lake.table)).open().journal
    now, days = time.time(), 3 * 86_400
    assert list(plan_clean(journal, now_seconds=now + days - 60)) == []
    (planned,) = plan_clean(journal, now_seconds=now + days + 60)
    assert len(planned.paths) == 6


def test_a_dry_run_removes_nothing(lake, tree):
    """It says what would go, and not a byte or a name changes, in the table or beside it."""
    lake.parquet("dt=1")
    merge(lake)
    before = tree(lake.root)
    report = clean(lake, dry_run=True)
    assert (report.files, report.to_json(dry_run=True)["status"]) == (6, "planned")
    assert tree(lake.root) == before


def test_a_changed_original_stays(lake, backup):
    """A kept file that is not the recorded one is somebody's data (a late writer held it open): it stays, by name."""
    lake.parquet("dt=1")
    run = merge(lake)
    late = backup / run / "dt=1" / "part-00003.parquet.kept"
    with late.open("ab") as file:
        file.write(b"late rows")
    report = clean(lake)
    assert report.changed == (str(late),)
    assert kept(backup) == [f"{run}/dt=1/part-00003.parquet.kept"]


def test_what_is_not_recorded_stays(lake, backup):
    """Other people's files in the backup folder are no originals of ours."""
    lake.parquet("dt=1")
    run = merge(lake)
    for name in ("notes.txt", "part-99999.parquet.kept"):
        (backup / run / "dt=1" / name).write_bytes(b"mine")
    clean(lake)
    assert kept(backup) == [f"{run}/dt=1/notes.txt", f"{run}/dt=1/part-99999.parquet.kept"]


def test_originals_of_an_undone_or_restored_run_are_not_cleaned(lake, tree):
    """After a restore the originals are live; cleaning the run again touches nothing."""
    lake.parquet("dt=1")
    run = merge(lake)
    Table(str(lake.table)).restore(run)
    before = tree(lake.table)
    assert clean(lake).to_json()["status"] == "nothing-to-do"
    assert tree(lake.table) == before


def test_summaries_go_with_the_originals(lake, backup):
    """A ``_metadata`` that was moved away with the originals is recorded, and goes with them."""
    lake.parquet("dt=1")
    lake.text("dt=1", {"_metadata": b"footers"})
    merge(lake)
    assert clean(lake).files == 7
    assert kept(backup) == []


def test_a_partition_at_work_is_left_for_the_next_time(lake, backup):
    """Somebody's claim on one partition does not keep the others' originals, and is named."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    run = merge(lake)
    table = Table(str(lake.table))
    with HiveRun(table.open().journal, command="compact") as other:
        other.claim("dt=1")
        report = clean(lake)
    assert (report.files, len(report.busy)) == (6, 1)
    assert "owned by run" in report.busy[0]
    assert kept(backup) == [f"{run}/dt=1/part-{number:05d}.parquet.kept" for number in range(6)]
    assert clean(lake).files == 6


def test_two_at_once(lake, children, backup):
    """Two processes that clean the same table at once both end well, and together remove everything once."""
    for day in range(6):
        lake.parquet(f"dt={day}", files=3)
    ids = lake.ids()
    merge(lake)
    pids = [children.start("clean", path=str(lake.table)) for _ in range(2)]
    answers = [children.wait(pid) for pid in pids]
    assert all("value" in answer for answer in answers), answers
    clean(lake)
    assert kept(backup) == []
    assert lake.ids() == ids


def test_the_command_asks_first(lake, packstone, backup):
    """Without a terminal and without ``--yes`` nothing goes; with it the number is printed."""
    lake.parquet("dt=1")
    merge(lake)
    assert packstone("clean", lake.table).code == 2
    assert len(kept(backup)) == 6
    done = packstone("clean", lake.table, "--yes", "--format", "json")
    assert (done.code, done.json["files"]) == (0, 6)
    assert os.listdir(lake.table / "dt=1")[0].startswith("packstone-")  # noqa: PTH208 - one name
