"""What a fresh pair of eyes found: each a way to lose, double or falsely prove rows, closed."""

from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.errors import RefusedError
from packstone.pipeline.table import Table


def merged(lake, folder):
    """The one merged file of a folder."""
    (path,) = [path for path in (lake.table / folder).iterdir() if path.name.startswith("packstone-")]
    return path


def run_of(packstone, lake, *extra):
    """Compact the lake's table; return the run's id."""
    done = packstone("compact", lake.table, "--format", "json", *extra)
    assert done.json["status"] == "committed"
    return done.json["run"]


def test_a_table_in_a_table_is_left_alone(packstone, lake):
    """A folder above a known table does not merge that table's files: its journal would not see it."""
    lake.parquet("dt=1")
    run_of(packstone, lake)
    lake.parquet("dt=1")
    before = lake.ids()
    assert "holds 1 table: orders." in packstone("compact", lake.root).err
    (lake.root / "dt=1").mkdir()  # a partition of its own makes it one table
    done = packstone("compact", lake.root, "--format", "json")
    assert (done.code, done.json["status"]) == (3, "refused")
    assert "a table of its own" in done.skipped("orders")
    assert lake.ids() == before


def test_a_folder_of_a_known_table_is_refused(packstone, lake):
    """What lies in a known table is reached through it alone, so that one owner and one journal cover it."""
    lake.parquet("2024")
    run_of(packstone, lake)
    lake.parquet("2024")
    done = packstone("compact", lake.table / "2024")
    assert done.code == 3
    assert "keeps records of as one table" in done.sentence


def test_our_own_records_are_no_table(packstone, lake):
    """A target inside .packstone is refused by name."""
    lake.parquet("dt=1")
    run_of(packstone, lake)
    done = packstone("compact", lake.root / ".packstone" / "orders" / "backup")
    assert done.code == 3
    assert "own records and backups" in done.sentence


@pytest.mark.parametrize("harm", ["remove", "truncate"])
def test_clean_keeps_originals_whose_merged_file_is_not_right(packstone, lake, harm):
    """Originals beyond their time stay if the merged file is gone or changed: they may be all there is."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    ids = lake.ids()
    run = run_of(packstone, lake, "--keep-days", "0")
    victim = merged(lake, "dt=1")
    victim.unlink() if harm == "remove" else os.truncate(victim, 100)
    done = packstone("clean", lake.table, "--yes", "--format", "json")
    assert done.code == 0
    assert done.json["files"] == 6
    assert str(victim) in done.json["left_alone"]
    victim.unlink(missing_ok=True)
    assert packstone("restore", run, lake.table / "dt=1", "--yes").code == 0
    assert lake.ids() == ids


def test_restore_of_one_partition(packstone, lake):
    """With a partition as its target, restore undoes the run there and nowhere else."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    run = run_of(packstone, lake)
    assert packstone("restore", run, lake.table / "dt=2", "--yes").code == 0
    assert (len(lake.names("dt=1")), len(lake.names("dt=2"))) == (1, 6)
    history = packstone("history", "--format", "json").json["runs"]
    assert [r["status"] for r in history if r["run"] == run] == ["committed"]
    assert packstone("restore", run, lake.table, "--yes").code == 0
    assert len(lake.names("dt=1")) == 6
    history = packstone("history", "--format", "json").json["runs"]
    assert [r["status"] for r in history if r["run"] == run] == ["restored"]


def test_verify_sees_that_a_merged_file_is_gone(packstone, lake):
    """A merged file that nobody of ours took is a problem, not a shorter proof."""
    lake.parquet("dt=1")
    lake.parquet("dt=2")
    run = run_of(packstone, lake)
    victim = merged(lake, "dt=2")
    victim.unlink()
    done = packstone("verify", run, lake.table, "--format", "json")
    assert (done.code, done.json["status"]) == (1, "failed")
    assert str(victim) in done.json["problems"][0]
    merged(lake, "dt=1").unlink()
    assert packstone("verify", run, lake.table).code == 1


def test_verify_after_a_count_compares_with_the_originals(packstone, lake):
    """A run verified by count is proved by content as long as its originals are kept."""
    lake.parquet("dt=1")
    run = run_of(packstone, lake, "--verify", "count")
    assert packstone("verify", run, lake.table).code == 0
    path = merged(lake, "dt=1")
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "id", pa.array([7] * table.num_rows, table.schema.field(0).type)), path)
    assert packstone("verify", run, lake.table).code == 1


def test_a_common_first_line_is_reported(packstone, lake):
    """Text files that all begin with one line are left alone, in the plan and by the run."""
    folder = lake.folder("dt=1")
    for i in range(6):
        (folder / f"p{i}.csv").write_text(f"id,name\n{i},x\n")
    for command in ("plan", "compact"):
        done = packstone(command, lake.table, "--format", "json")
        assert (done.code, done.json["units"]) == (0, [])
        assert "--header 1" in done.skipped("dt=1")


def test_records_inside_the_table_are_reported(packstone, lake):
    """Where our records have to lie in the table, plan and compact say which readers may stumble over them."""
    lake.parquet("dt=1")
    (lake.table / ".packstone" / "orders").mkdir(parents=True)
    for command in ("plan", "compact"):
        assert "lie inside the table" in packstone(command, lake.table, "--format", "json").json["warnings"][0]


def test_health_tells_of_an_unfinished_swap(packstone, lake):
    """While originals lie in the backup of a swap that stopped, health says so."""
    lake.parquet("dt=1")
    run = run_of(packstone, lake)
    records = lake.root / ".packstone" / "orders" / "runs" / run
    (records / "wave-0001.marks.json").unlink()
    (records / "ended.json").unlink()
    (hazard,) = packstone("health", lake.table, "--format", "json").json["hazards"]
    assert hazard["hazard"] == "unfinished-swap"
    assert run in hazard["evidence"]


def test_of_two_nested_runs_that_begin_at_once_one_is_refused(lake, tmp_path):
    """A run asks for tables around it again once its own records can be seen."""
    lake.parquet("2024")
    inner = Table(str(lake.table / "2024"))
    outer = tmp_path / "lake" / ".packstone" / "orders" / "runs" / "r"
    outer.mkdir(parents=True)
    with pytest.raises(RefusedError, match="as one table"):
        inner.compact()
    shutil.rmtree(outer)
