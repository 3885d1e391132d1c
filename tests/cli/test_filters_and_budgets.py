"""Which partitions and files a command takes, when, how many of them, and where the originals go."""

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from packstone.model.limits import Budget
from packstone.pipeline.table import Table


def age(path: Path, *, hours: float) -> None:
    """Make a file look unchanged for this long."""
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def merged(done) -> list[str]:
    """The partitions with a unit, planned or done."""
    return sorted({unit["part"] for unit in done.json["units"]})


def other_device(path: Path) -> Path | None:
    """A folder on another file system than this one, if the machine has one."""
    for candidate in ("/dev/shm", "/run", "/var/tmp", str(Path.home())):  # noqa: S108 - looked at, not trusted
        found = Path(candidate)
        if found.is_dir() and os.access(found, os.W_OK) and found.stat().st_dev != path.stat().st_dev:
            return found
    return None


class TestWhere:
    """``--where`` on partition columns."""

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ("dt < '2019-07-02'", ["dt=2019-07-01/hour=1", "dt=2019-07-01/hour=10"]),
            ("hour = 10", ["dt=2019-07-01/hour=10", "dt=2019-07-02/hour=10"]),
            ("hour < 9 and dt >= date '2019-07-02'", ["dt=2019-07-02/hour=1"]),
            (
                "dt in ('2019-07-02') or hour > 9",
                ["dt=2019-07-01/hour=10", "dt=2019-07-02/hour=1", "dt=2019-07-02/hour=10"],
            ),
            ("dt is null", []),
        ],
    )
    def test_selects_partitions(self, packstone, lake, where, expected):
        """Exactly the partitions for which the condition holds are planned; the others are named as filtered."""
        for dt in ("2019-07-01", "2019-07-02"):
            for hour in ("1", "10"):
                lake.parquet(f"dt={dt}/hour={hour}", files=5)
        done = packstone("plan", lake.table, "--where", where, "--format", "json")
        assert done.code == 0
        assert merged(done) == expected
        assert {skip["why"] for skip in done.json["skipped"]} == {"does not match --where"}
        assert len(done.json["skipped"]) == 4 - len(expected)

    def test_null_partition(self, packstone, lake):
        """``__HIVE_DEFAULT_PARTITION__`` is NULL."""
        lake.parquet("dt=__HIVE_DEFAULT_PARTITION__")
        lake.parquet("dt=1")
        done = packstone("plan", lake.table, "--where", "dt is null", "--format", "json")
        assert merged(done) == ["dt=__HIVE_DEFAULT_PARTITION__"]

    def test_folders_without_the_column_are_left_out(self, packstone, lake):
        """In a table of many depths, folders that lack the column are filtered, not an error."""
        lake.parquet("dt=1")
        lake.parquet()
        lake.parquet("archive")
        done = packstone("compact", lake.table, "--where", "dt = '1'", "--format", "json")
        assert (done.code, merged(done)) == (0, ["dt=1"])
        assert {skip["why"] for skip in done.json["skipped"]} == {"has no partition column that --where names"}

    def test_unknown_column_tells_the_known_ones(self, packstone, lake):
        """A slip in the name is reported with the columns that there are."""
        lake.parquet("dt=1/hour=2")
        lake.parquet()
        done = packstone("compact", lake.table, "--where", "day = '1'")
        assert done.code == 2
        assert done.sentence.endswith("there are: dt, hour.")

    def test_bad_sql_is_reported_for_an_empty_table_too(self, packstone, lake):
        """No partition is needed to see that a condition is none."""
        lake.folder()
        assert packstone("plan", lake.table, "--where", "dt <").code == 2
        assert packstone("plan", lake.table, "--where", "dt < '1'").code == 0

    def test_target_is_one_partition(self, packstone, lake):
        """The columns of the target's own path count."""
        lake.parquet("dt=1/hour=2")
        done = packstone("plan", lake.table / "dt=1", "--where", "dt = '1' and hour = 2", "--format", "json")
        assert merged(done) == ["dt=1/hour=2"]


class TestAge:
    """``--min-age`` compares the times of files."""

    def test_partitions_of_young_files(self, packstone, lake):
        """A partition whose files are all young is left out, in one line; old ones are merged."""
        old = lake.parquet("dt=1")
        lake.parquet("dt=2")
        for path in old.iterdir():
            age(path, hours=48)
        done = packstone("compact", lake.table, "--min-age", "1d", "--format", "json")
        assert (done.code, merged(done)) == (0, ["dt=1"])
        (line,) = [skip["why"] for skip in done.json["skipped"] if skip["kind"] == "filtered"]
        assert line == "its 6 small files are younger than --min-age"

    def test_min_age(self, packstone, lake):
        """A fresh file is left where it is; the older ones beside it are merged."""
        folder = lake.parquet("dt=1", files=7)
        fresh = max(folder.iterdir())
        for path in folder.iterdir():
            if path != fresh:
                age(path, hours=2)
        done = packstone("compact", lake.table, "--min-age", "1h", "--format", "json")
        assert len(done.json["units"][0]["inputs"]) == 6
        assert done.skipped(fresh.name) == "younger than --min-age"
        assert fresh.exists()

    def test_without_min_age_the_future_is_not_a_reason(self, packstone, lake):
        """Files dated ahead of this machine's clock are merged; with ``--min-age`` they count as young."""
        folder = lake.parquet("dt=1")
        for path in folder.iterdir():
            age(path, hours=-24 * 365)
        done = packstone("plan", lake.table, "--min-age", "1s", "--format", "json")
        assert merged(done) == []
        assert "its 6 small files are younger than --min-age" in [skip["why"] for skip in done.json["skipped"]]
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, merged(done), done.json["files_after"]) == (0, ["dt=1"], 1)


class TestExclude:
    """``--exclude`` by the name of a partition or of a file."""

    def test_partitions(self, packstone, lake):
        """A glob matches the whole path of a partition or any folder of it."""
        for partition in ("dt=1/hour=1", "dt=1/hour=2", "dt=2/hour=1"):
            lake.parquet(partition, files=5)
        for glob, left in [
            ("dt=1", ["dt=2/hour=1"]),
            ("hour=2", ["dt=1/hour=1", "dt=2/hour=1"]),
            ("dt=*/hour=1", ["dt=1/hour=2"]),
        ]:
            done = packstone("plan", lake.table, "--exclude", glob, "--format", "json")
            assert merged(done) == left, glob
            assert "excluded by --exclude" in {skip["why"] for skip in done.json["skipped"]}

    def test_files_and_several_globs(self, packstone, lake):
        """Files of the name stay; the option may be repeated."""
        folder = lake.parquet("dt=1", files=8)
        lake.parquet("dt=2")
        done = packstone("compact", lake.table, "--exclude", "*-00003*", "--exclude", "dt=2", "--format", "json")
        assert (merged(done), len(done.json["units"][0]["inputs"])) == (["dt=1"], 7)
        assert (folder / "part-00003.parquet").exists()
        assert len(lake.names("dt=2")) == 6


class TestWindow:
    """``--between``, with the zone that it names."""

    def window(self, *, hours_from_now: float) -> str:
        """Two hours around now, moved by this many hours, by the clock of UTC."""
        middle = datetime.now(UTC) + timedelta(hours=hours_from_now)
        return f"{middle - timedelta(hours=1):%H:%M}-{middle + timedelta(hours=1):%H:%M}"

    def test_inside(self, packstone, lake):
        """Inside the window it works as ever."""
        lake.parquet()
        assert packstone("compact", lake.table, "--between", self.window(hours_from_now=0)).code == 0
        assert len(lake.names()) == 1

    def test_outside(self, packstone, lake, tree):
        """Outside it refuses with the window, exit code 3, and nothing is touched."""
        lake.parquet()
        before = tree(lake.root)
        window = self.window(hours_from_now=6)
        done = packstone("compact", lake.table, "--between", window, "--format", "json")
        assert (done.code, done.json["status"]) == (3, "refused")
        sentence = f"The current time is outside --between {window} UTC; nothing new was started."
        assert (done.skipped("orders"), done.json["message"]) == (sentence, sentence)
        assert packstone("compact", lake.table, "--between", window).out.count("current time") == 1
        assert tree(lake.root) == before

    def test_timezone_moves_the_window(self, packstone, lake):
        """The same hours in another zone are other hours."""
        lake.parquet()
        window = self.window(hours_from_now=0)
        assert packstone("compact", lake.table, "--between", f"{window} Asia/Shanghai").code == 3
        window = self.window(hours_from_now=8)
        assert packstone("compact", lake.table, "--between", f"{window} Asia/Shanghai").code == 0


class TestBudget:
    """What does not fit is left for the next run, and named; that is not a failure."""

    def test_max_files(self, packstone, lake):
        """Units that would go over the number are left; the next run takes them."""
        for day in range(3):
            lake.parquet(f"dt={day}")
        outcome = Table(str(lake.table)).compact(budget=Budget(max_files=13))
        assert (outcome.status, [unit.partition for unit in outcome.units]) == ("committed", ["dt=0", "dt=1"])
        assert [(skip.what, skip.why) for skip in outcome.skipped] == [("dt=2", "over the budget of 13 files")]
        assert merged(packstone("compact", lake.table, "--format", "json")) == ["dt=2"]

    def test_max_bytes(self, packstone, lake):
        """The same by bytes read."""
        for day in range(3):
            lake.parquet(f"dt={day}")
        one = sum(path.stat().st_size for path in (lake.table / "dt=0").iterdir())
        done = packstone("compact", lake.table, "--max-bytes", str(2 * one + 100), "--format", "json")
        assert (done.code, len(merged(done))) == (0, 2)
        assert re.match("over the budget of --max-bytes", done.json["skipped"][0]["why"])
        assert done.json["cost"]["read_bytes"] <= 2 * one + 100

    def test_max_time(self, packstone, lake, tree):
        """With no time at all nothing is begun."""
        lake.parquet("dt=1")
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--max-time", "0", "--format", "json")
        assert (done.code, done.json["status"]) == (0, "nothing-to-do")
        assert done.skipped("dt=1") == "over the budget of --max-time 0.0 s"
        assert tree(lake.table) == before
        assert packstone("compact", lake.table, "--max-time", "10m").code == 0
        assert len(lake.names("dt=1")) == 1

    def test_parallel(self, packstone, lake):
        """However many at once, the result is the same."""
        for day in range(5):
            lake.parquet(f"dt={day}")
        done = packstone("compact", lake.table, "--parallel", "2", "--format", "json")
        assert (done.code, done.json["files_after"]) == (0, 5)
        assert lake.ids() == list(range(300))


class TestBackup:
    """Where originals go and how long they stay."""

    def test_backup_folder(self, packstone, lake, tree, tmp_path):
        """Originals go to the named folder by table, run and partition, and come back from there."""
        lake.parquet("dt=1")
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--set", f"backup={tmp_path / 'kept' / 'here'}", "--format", "json")
        kept = tmp_path / "kept" / "here" / "orders" / done.json["run"] / "dt=1"
        assert len(list(kept.glob("*.kept"))) == 6
        assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
        assert tree(lake.table) == before

    def test_backups_are_never_merged(self, packstone, lake, tree, tmp_path):
        """A folder above a backup folder is compacted without the originals that are kept there."""
        lake.text("dt=1", {f"{at}.txt": b"%d\n" % at for at in range(6)})
        assert packstone("compact", lake.table, "--set", f"backup={tmp_path / 'above' / 'kept'}").code == 0
        (tmp_path / "above" / "new").mkdir()
        for at in range(6):
            (tmp_path / "above" / "new" / f"{at}.txt").write_bytes(b"%d\n" % at)
        before = tree(tmp_path / "above" / "kept")
        done = packstone("compact", tmp_path / "above", "--format", "json")
        assert (done.code, merged(done)) == (0, ["new"]), done.out
        assert tree(tmp_path / "above" / "kept") == before

    @pytest.mark.parametrize("where", ["orders", "orders/dt=2", "orders/.old", "."])
    def test_inside_the_table(self, packstone, lake, tree, where):
        """Readers would find originals inside the table: refused, also where the table's name leads back into it."""
        lake.parquet("dt=1")
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--set", f"backup={lake.root / where}")
        assert done.code == 3
        assert "inside the table" in done.sentence
        assert tree(lake.table) == before

    def test_through_a_link_into_the_table(self, packstone, lake, tmp_path):
        """A link does not hide where it leads."""
        lake.parquet("dt=1")
        (tmp_path / "link").symlink_to(lake.table)
        assert packstone("compact", lake.table, "--set", f"backup={tmp_path / 'link'}").code == 3

    def test_on_another_file_system(self, packstone, lake, tree, tmp_path):
        """Originals are moved, not copied, so the backup must be on the table's own file system."""
        lake.parquet("dt=1")
        elsewhere = other_device(tmp_path)
        if elsewhere is None:
            pytest.skip("this machine has one writable file system only")
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--set", f"backup={elsewhere / 'packstone-test'}")
        assert done.code == 3
        assert "another file system" in done.sentence
        assert tree(lake.table) == before
        assert not (elsewhere / "packstone-test").exists()

    def test_keep_days(self, packstone, lake):
        """``clean`` removes what is over its time and nothing else; then there is no way back."""
        lake.parquet("dt=1")
        lake.parquet("dt=2")
        over = packstone("compact", lake.table / "dt=1", "--keep-days", "0", "--format", "json").json["run"]
        still = packstone("compact", lake.table / "dt=2", "--keep-days", "3", "--format", "json").json["run"]
        backup = lake.root / ".packstone" / "orders" / "backup"
        dry = packstone("clean", lake.table, "--dry-run", "--format", "json")
        assert (dry.code, dry.json["status"], dry.json["runs"], dry.json["files"]) == (0, "planned", [over], 6)
        assert len(list((backup / over / "dt=1").iterdir())) == 6
        done = packstone("clean", lake.table, "--yes", "--format", "json")
        assert (done.code, done.json["status"], done.json["runs_still_kept"]) == (0, "cleaned", 1)
        assert list((backup / still / "dt=2").iterdir())
        assert not (backup / over / "dt=1").exists()
        assert packstone("restore", over, lake.table, "--yes").code == 3
        assert packstone("restore", still, lake.table, "--yes").code == 0
        assert packstone("clean", lake.table, "--yes", "--format", "json").json["status"] == "nothing-to-do"

    def test_clean_leaves_what_is_not_what_was_recorded(self, packstone, lake):
        """A kept file that was changed, and one that we never put there, both stay."""
        lake.parquet("dt=1")
        run = packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]
        kept = lake.root / ".packstone" / "orders" / "backup" / run / "dt=1"
        (kept / "part-00002.parquet.kept").write_bytes(b"changed")
        (kept / "stranger.kept").write_bytes(b"not ours")
        done = packstone("clean", lake.table, "--yes", "--format", "json")
        assert [Path(path).name for path in done.json["left_alone"]] == ["part-00002.parquet.kept"]
        assert sorted(path.name for path in kept.iterdir()) == ["part-00002.parquet.kept", "stranger.kept"]


class TestMergeOptions:
    """What the merged files are like."""

    def test_codec(self, packstone, lake):
        """``--codec zstd`` changes the codec and nothing else; ``keep`` keeps it."""
        folder = lake.parquet("dt=1")
        ids = lake.ids()
        assert packstone("compact", lake.table, "--codec", "zstd").code == 0
        (path,) = folder.iterdir()
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
        assert lake.ids() == ids

    def test_codec_joins_groups(self, packstone, lake):
        """Kept codecs are groups of their own; with one codec requested, they are not a reason to keep files apart."""
        lake.parquet("dt=1", files=3, codec="snappy")
        lake.parquet("dt=1", files=3, codec="gzip")
        assert len(packstone("plan", lake.table, "--format", "json").json["units"]) == 2
        done = packstone("compact", lake.table, "--codec", "gzip", "--format", "json")
        assert (done.code, len(done.json["units"]), len(lake.names("dt=1"))) == (0, 1, 1)
        (path,) = (lake.table / "dt=1").iterdir()
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "GZIP"

    def test_threshold_and_block_size(self, packstone, lake):
        """Files at or above the threshold are not read; outputs are about the block size."""
        lake.parquet("dt=1", files=12, rows=1000)
        big = lake.parquet("dt=1", files=1, rows=20_000)
        size = (big / "part-00000.parquet").stat().st_size
        done = packstone(
            "compact", lake.table, "--set", f"threshold={2 * size}", "--target-size", 4 * size, "--format", "json"
        )
        assert done.code == 0
        assert [len(unit["inputs"]) for unit in done.json["units"]] == [4, 4, 4]
        assert "part-00012.parquet" in lake.names("dt=1")
        assert len(lake.names("dt=1")) == 4

    def test_adjacent_files_stay_adjacent(self, packstone, lake):
        """Outputs hold runs of files in name order, and rows in that order."""
        folder = lake.parquet("dt=1", files=12, rows=1000)
        size = (folder / "part-00000.parquet").stat().st_size
        done = packstone("compact", folder, "--block-size", str(4 * size), "--format", "json")
        inputs = [name for unit in done.json["units"] for name in unit["inputs"]]
        assert inputs == sorted(inputs)
        for unit in done.json["units"]:
            ids = pq.read_table(folder / unit["outputs"][0], partitioning=None)["id"].to_pylist()
            assert ids == sorted(ids)

    def test_verify_count(self, packstone, lake):
        """The cheap proof is recorded as such, and can be repeated."""
        lake.parquet("dt=1")
        done = packstone("compact", lake.table, "--verify", "count", "--format", "json")
        assert (done.json["verified"], done.json["rows"]) == ("count", 60)
        again = packstone("verify", done.json["run"], lake.table, "--format", "json")
        assert (again.code, again.json["status"]) == (0, "verified")

    def test_min_files(self, packstone, lake):
        """Two files are enough if the option says so; with one fewer there is nothing to do."""
        lake.parquet("dt=1", files=2)
        assert packstone("plan", lake.table, "--format", "json").json["status"] == "nothing-to-do"
        assert (
            packstone("plan", lake.table, "--set", "min-files=3", "--format", "json").json["status"] == "nothing-to-do"
        )
        assert packstone("compact", lake.table, "--set", "min-files=2", "--format", "json").json["files_after"] == 1

    def test_classic_three_arguments(self, packstone, lake):
        """``merge FS PARTITION BLOCKSIZE`` is the same job as ``compact``."""
        lake.parquet("dt=1")
        done = packstone("merge", "file:///", lake.table / "dt=1", "120M", "--format", "json")
        assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 1)


class TestHeader:
    """``--header N`` and what happens without it."""

    HEADER = b"id,name\n"

    def files(self, count: int) -> dict[str, bytes]:
        """Files that begin with a header."""
        return {f"f{at}.csv": self.HEADER + b"%d,x\n" % at for at in range(count)}

    def test_equal_headers_are_kept_once(self, packstone, lake):
        """One header, then the lines of all files."""
        folder = lake.text("", self.files(6))
        done = packstone("compact", lake.table, "--header", "1", "--format", "json")
        assert (done.code, done.json["rows"]) == (0, 6)
        (path,) = folder.iterdir()
        assert path.read_bytes() == self.HEADER + b"".join(b"%d,x\n" % at for at in range(6))
        assert packstone("verify", done.json["run"], lake.table).code == 0

    def test_two_header_lines_without_a_last_newline(self, packstone, lake):
        """A header of two lines, and a file that is nothing but a header without its newline."""
        head = b"# made by x\nid,name"
        contents = {f"f{at}.csv": head + b"\n%d,x" % at for at in range(5)}
        folder = lake.text("", {"a.csv": head, **contents})
        done = packstone("compact", lake.table, "--header", "2", "--format", "json")
        assert (done.code, done.json["rows"]) == (0, 5)
        (path,) = folder.iterdir()
        assert path.read_bytes() == head + b"\n" + b"".join(b"%d,x\n" % at for at in range(5))

    def test_different_headers_are_left_alone(self, packstone, lake, tree):
        """One other header, and the files are not merged: nobody could tell whose columns the lines have."""
        lake.text("", {**self.files(6), "g.csv": b"name,id\nx,1\n"})
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--header", "1", "--format", "json")
        assert (done.code, done.json["status"]) == (0, "nothing-to-do")
        assert "different header" in done.out
        assert tree(lake.table) == before

    def test_never_guessed(self, packstone, lake):
        """Without the option such files are left alone, and ``health`` says why; with 0 every line is a row."""
        folder = lake.text("", self.files(6))
        hazards = packstone("health", lake.table, "--format", "json").json["hazards"]
        (warning,) = [hazard for hazard in hazards if hazard["hazard"] == "header-line"]
        assert "--header 1" in warning["evidence"]
        left = packstone("compact", lake.table, "--format", "json")
        assert (left.code, left.json["status"], len(list(folder.iterdir()))) == (0, "nothing-to-do", 6)
        assert left.skipped("orders") == warning["evidence"]
        done = packstone("compact", lake.table, "--header", "0", "--format", "json")
        assert done.json["rows"] == 12
        (path,) = folder.iterdir()
        assert path.read_bytes().count(self.HEADER) == 6


class TestNested:
    """Partitions below partitions, and folders that are none."""

    def test_nested_partitions(self, packstone, lake):
        """Each folder is merged for itself; nothing moves between folders."""
        for partition in ("y=1/m=1/d=1", "y=1/m=1/d=2", "y=2/m=3/d=4"):
            lake.parquet(partition)
        before = {partition: lake.ids(partition) for partition in ("y=1/m=1/d=1", "y=1/m=1/d=2", "y=2/m=3/d=4")}
        done = packstone("compact", lake.table / "y=1", "--format", "json")
        assert merged(done) == ["y=1/m=1/d=1", "y=1/m=1/d=2"]
        done = packstone("compact", lake.table, "--format", "json")
        assert merged(done) == ["y=2/m=3/d=4"]
        assert {partition: lake.ids(partition) for partition in before} == before

    def test_folders_that_are_no_partitions(self, packstone, lake, tree):
        """Plain folders are leaves like any other, and files at several depths stay at theirs."""
        for folder in ("", "2019/07/01", "2019/07", "dt=1/extra"):
            lake.parquet(folder)
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--format", "json")
        assert merged(done) == ["", "2019/07", "2019/07/01", "dt=1/extra"]
        for folder in ("", "2019/07/01", "2019/07", "dt=1/extra"):
            assert len([path for path in (lake.table / folder).iterdir() if path.is_file()]) == 1
        assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
        assert tree(lake.table) == before

    def test_a_plain_subfolder_as_target(self, packstone, lake):
        """A folder without ``k=v`` is a table of its own, with its journal beside it."""
        lake.parquet("2019/07/01")
        done = packstone("compact", lake.table / "2019", "--format", "json")
        assert (done.code, merged(done)) == (0, ["07/01"])
        assert (lake.table / ".packstone" / "2019").is_dir()


class TestConvergence:
    """A second run plans nothing, and the number of files stays bounded for ever."""

    def test_second_run_plans_nothing(self, packstone, lake):
        """Whatever is left is named, and is left again."""
        lake.parquet("dt=1", files=7, codec="snappy")
        lake.parquet("dt=1", files=5, codec="gzip")
        lake.parquet("dt=2", files=4)
        lake.text("dt=1", {f"{at}.txt": b"x\n" for at in range(3)})
        assert packstone("compact", lake.table).code == 0
        done = packstone("plan", lake.table, "--format", "json")
        assert (done.json["status"], done.json["units"]) == ("nothing-to-do", [])
        assert packstone("compact", lake.table, "--format", "json").json["status"] == "nothing-to-do"

    def test_outputs_are_taken_again_only_with_enough_newer_files(self, packstone, lake):
        """Four newer files: nothing. Five: all six become one."""
        lake.parquet("dt=1")
        packstone("compact", lake.table)
        lake.parquet("dt=1", files=4)
        assert packstone("plan", lake.table, "--format", "json").json["units"] == []
        lake.parquet("dt=1", files=1)
        (unit,) = packstone("plan", lake.table, "--format", "json").json["units"]
        assert len(unit["inputs"]) == 6

    def test_a_copied_name_is_not_a_proof(self, packstone, lake):
        """A file called like an output of ours, which no journal records, is a file like any other."""
        folder = lake.parquet("dt=1", files=5)
        for number, path in enumerate(sorted(folder.iterdir())):
            path.rename(folder / f"packstone-20190101T000000-abcdef-{number:05d}m.parquet")
        assert packstone("compact", lake.table, "--format", "json").json["files_after"] == 1

    def test_appending_and_compacting_for_many_rounds(self, packstone, lake):
        """Thirty rounds of three new files and a compaction: never more than a handful of files, every row once."""
        most = 0
        for _ in range(30):
            lake.parquet("dt=1", files=3, rows=2)
            assert packstone("compact", lake.table).code == 0
            most = max(most, len(lake.names("dt=1")))
        assert most <= 6
        assert lake.ids() == list(range(180))

    def test_rounds_with_a_small_block_size(self, packstone, lake):
        """Files that have reached their size are not touched again: their number grows with the data only."""
        lake.parquet("dt=1", files=6, rows=500)
        block = 3 * (lake.table / "dt=1" / "part-00000.parquet").stat().st_size
        for _ in range(12):
            lake.parquet("dt=1", files=6, rows=500)
            assert packstone("compact", lake.table, "--block-size", str(block)).code == 0
        total = sum(path.stat().st_size for path in (lake.table / "dt=1").iterdir())
        assert len(lake.names("dt=1")) <= 2 * total / block + 6
        assert packstone("plan", lake.table, "--block-size", str(block), "--format", "json").json["units"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
class TestOwnership:
    """Owner, group and mode are part of a file."""

    def test_outputs_are_like_their_inputs(self, packstone, lake):
        """The merged file has the owner, group and mode of its inputs, whoever runs the merge."""
        folder = lake.parquet("dt=1")
        for path in folder.iterdir():
            os.chown(path, 1234, 2345)
            path.chmod(0o640)
        assert packstone("compact", lake.table).code == 0
        (path,) = folder.iterdir()
        stat = path.stat()
        assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (1234, 2345, 0o640)

    def test_inputs_that_differ_are_groups_of_their_own(self, packstone, lake, tree):
        """A private file is never merged into a public one; a restore brings all back as they were."""
        folder = lake.parquet("dt=1", files=15)
        for number, path in enumerate(sorted(folder.iterdir())):
            path.chmod(0o600 if number % 3 == 0 else 0o644)
            if number % 3 == 1:
                os.chown(path, 1234, -1)
        before = tree(folder)
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, len(done.json["units"])) == (0, 3)
        found = sorted((path.stat().st_uid, path.stat().st_mode & 0o7777) for path in folder.iterdir())
        assert found == [(0, 0o600), (0, 0o644), (1234, 0o644)]
        assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
        assert tree(folder) == before

    def test_an_owner_that_cannot_be_kept(self, quiet_env, lake, tmp_path):
        """Somebody else's files, which we may read and move but not own: left alone with the reason."""
        folder = lake.parquet("dt=1")
        lake.parquet("warm")
        for path in (tmp_path, lake.root, lake.table, *lake.table.rglob("*")):
            os.chown(path, 65534, 65534)
        for path in folder.iterdir():
            os.chown(path, 1234, 1234)
        parents = [path for path in tmp_path.parents if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001]
        for path in parents:
            path.chmod(path.stat().st_mode | 0o111)
        program = (
            "import os, sys\n"
            "from packstone.cli.main import run\n"
            "os.umask(0)\n"
            "run(['compact', sys.argv[1] + '/warm'])\n"
            "os.chmod(sys.argv[2], 0o666); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(run(['compact', sys.argv[1] + '/dt=1']))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(lake.table), str(tmp_path / "history.db")],
            env=quiet_env,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 3, done.stderr
        assert b"this user cannot give the merged file to that one" in b" ".join(done.stdout.split())
        assert len(lake.names("dt=1")) == 6
