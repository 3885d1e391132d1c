"""Restore: undo exactly one run, whatever arrived since, or refuse before anything is touched."""

import os
import time

import pytest
from hive_run import HiveRun

from packstone.errors import ConflictError, InvalidInputError, RefusedError
from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.plan import MAX_FILES_A_ROUND


def merge(lake, **options):
    """Merge all of the table's small files; return the run."""
    outcome = Table(str(lake.table)).compact(HiveOptions(**{"min_files": 2, **options}))
    assert outcome.status == "committed", outcome.skipped
    return outcome.run


def restore(lake, run):
    """Undo a run."""
    return Table(str(lake.table)).restore(run)


def test_the_originals_come_back_byte_for_byte(lake, tree):
    """Bytes, times, modes and owners of all partitions are as before, and no merged file is left."""
    for folder in ("dt=1", "dt=2/h=01", ""):
        lake.parquet(folder, files=3)
    before = tree(lake.table)
    run = merge(lake)
    assert tree(lake.table) != before
    report = restore(lake, run)
    assert tree(lake.table) == before
    assert (report.parts, report.files_restored, report.files_removed) == (("", "dt=1", "dt=2/h=01"), 9, 3)
    assert report.to_json()["status"] == "restored"
    assert list((lake.root / ".packstone" / "orders" / "backup").iterdir()) == []


def test_once_more_is_nothing_to_do(lake, tree):
    """A second restore of the same run changes nothing and says so."""
    lake.parquet("dt=1")
    run = merge(lake)
    restore(lake, run)
    before = tree(lake.table)
    assert restore(lake, run).to_json()["status"] == "nothing-to-do"
    assert tree(lake.table) == before


def test_files_that_arrived_since_stay(lake):
    """Newer files are neither taken for originals nor removed."""
    lake.parquet("dt=1")
    run = merge(lake)
    lake.parquet("dt=1", files=2)
    lake.parquet("dt=2", files=1)
    ids = lake.ids()
    restore(lake, run)
    assert lake.ids() == ids
    assert lake.names("dt=1") == [f"part-{number:05d}.parquet" for number in range(8)]


def test_only_the_run_that_was_named(lake):
    """Of two runs in two partitions one is undone; the other's files and backup stay."""
    lake.parquet("dt=1")
    first = merge(lake)
    lake.parquet("dt=2")
    second = merge(lake)
    restore(lake, first)
    assert len(lake.names("dt=1")) == 6
    assert lake.names("dt=2") == [f"packstone-{second}-00001m.parquet"]
    restore(lake, second)
    assert len(lake.names("dt=2")) == 6


def test_refused_if_merged_again_naming_the_run(lake, tree):
    """Outputs that a later run merged are not there to be taken out: the refusal names that run; then order helps."""
    lake.parquet("dt=1", files=3)
    start = tree(lake.table)
    first = merge(lake)
    lake.parquet("dt=1", files=3)
    second = merge(lake)
    before = tree(lake.table)
    with pytest.raises(RefusedError, match=f"merged again by run {second}; restore that run first"):
        restore(lake, first)
    assert tree(lake.table) == before
    restore(lake, second)
    restore(lake, first)
    assert {name: content for name, content in tree(lake.table).items() if name in start} == start


def test_refused_if_the_originals_were_cleaned(lake, tree):
    """Nothing is undone by halves: without originals the merged files stay."""
    lake.parquet("dt=1")
    run = merge(lake, keep_days=0)
    Table(str(lake.table)).clean()
    before = tree(lake.table)
    with pytest.raises(RefusedError, match="deleted by `clean`"):
        restore(lake, run)
    assert tree(lake.table) == before


def test_refused_if_an_original_is_gone(lake, tree):
    """One missing original among many partitions stops the restore before it begins."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    run = merge(lake)
    backup = lake.root / ".packstone" / "orders" / "backup" / run
    (backup / "dt=2" / "part-00007.parquet.kept").unlink()
    before = tree(lake.table)
    with pytest.raises(RefusedError, match="is gone; nothing was changed"):
        restore(lake, run)
    assert tree(lake.table) == before


def test_refused_if_an_output_was_changed(lake, tree):
    """A merged file that somebody wrote to holds rows that are in no original."""
    lake.parquet("dt=1")
    run = merge(lake)
    os.utime(lake.table / "dt=1" / lake.names("dt=1")[0])
    before = tree(lake.table)
    with pytest.raises(RefusedError, match="is not the file that was merged"):
        restore(lake, run)
    assert tree(lake.table) == before


def test_refused_if_an_originals_name_was_used_again(lake, tree):
    """A new file under the name of an original is not overwritten."""
    lake.parquet("dt=1")
    run = merge(lake)
    (lake.table / "dt=1" / "part-00002.parquet").write_bytes(b"new")
    before = tree(lake.table)
    with pytest.raises(RefusedError, match="was written again since"):
        restore(lake, run)
    assert tree(lake.table) == before


def test_refused_if_the_partition_was_dropped(lake):
    """A partition that is gone with its merged files is not brought back behind its owner's back."""
    lake.parquet("dt=1")
    run = merge(lake)
    for path in (lake.table / "dt=1").iterdir():
        path.unlink()
    (lake.table / "dt=1").rmdir()
    with pytest.raises(RefusedError, match="was removed; create it again"):
        restore(lake, run)
    assert not (lake.table / "dt=1").exists()


def test_several_rounds_are_undone_backwards(lake, tree, monkeypatch):
    """A run that merged a partition in rounds, later ones taking up the outputs of earlier ones, is undone as one."""
    lake.parquet("dt=1", files=9)
    before = tree(lake.table)
    monkeypatch.setattr("packstone.tables.hive.plan.MAX_FILES_A_ROUND", 3)
    assert MAX_FILES_A_ROUND == 10_000
    run = merge(lake)
    swaps = list(Table(str(lake.table)).open().journal.read_intents(run))
    assert len(swaps) > 1
    restore(lake, run)
    assert tree(lake.table) == before


def test_an_unknown_run_is_a_wrong_call(lake):
    """A typing error is reported as such."""
    lake.parquet("dt=1")
    with pytest.raises(InvalidInputError, match="There is no run"):
        restore(lake, "20190101T000000-abcdef")


def test_a_living_owner_is_not_disturbed(lake, tree):
    """While somebody merges the partition, restore is a conflict and changes nothing, in no partition."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    run = merge(lake)
    before = tree(lake.table)
    table = Table(str(lake.table))
    with HiveRun(table.open().journal, command="compact") as other:
        other.claim("dt=2")
        with pytest.raises(ConflictError, match=f"{lake.table}/dt=2 is owned by run {other.id}"):
            restore(lake, run)
    assert tree(lake.table) == before
    restore(lake, run)


def test_a_newer_summary_file_stays(lake):
    """The summary that was moved away comes back, unless somebody wrote a newer one."""
    for folder in ("dt=1", "dt=2"):
        lake.parquet(folder)
        lake.text(folder, {"_metadata": b"old"})
    run = merge(lake)
    assert "_metadata" not in lake.names("dt=1")
    lake.text("dt=2", {"_metadata": b"new"})
    restore(lake, run)
    assert (lake.table / "dt=1" / "_metadata").read_bytes() == b"old"
    assert (lake.table / "dt=2" / "_metadata").read_bytes() == b"new"


def test_a_restored_table_is_merged_again(lake):
    """After a restore the files are small files like any other."""
    lake.parquet("dt=1")
    ids = lake.ids()
    restore(lake, merge(lake))
    time.sleep(0.01)
    assert merge(lake)
    assert lake.ids() == ids


def test_the_command_asks_first(lake, packstone, tree):
    """Without a terminal and without ``--yes`` nothing is undone; with it the answer is counted."""
    lake.parquet("dt=1")
    run = merge(lake)
    before = tree(lake.table)
    assert packstone("restore", run, lake.table).code == 2
    assert tree(lake.table) == before
    done = packstone("restore", run, lake.table, "--yes", "--format", "json")
    assert (done.code, done.json["status"], done.json["files_restored"]) == (0, "restored", 6)
