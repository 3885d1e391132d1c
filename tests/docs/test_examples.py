"""The scripts in examples/ run as they stand."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import patient

from packstone.cli.tour import DemoLake, make_lake

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def demo(tmp_path) -> DemoLake:
    """The lake of the tour."""
    return make_lake(tmp_path / "lake")


def run(environment: dict[str, str], script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run one example as a user would."""
    command = [sys.executable, EXAMPLES / script, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=patient(60))


def test_quickstart_merges_proves_and_takes_back(demo, quiet_env):
    """The Python API goes the whole round, and the table ends as it began."""
    names = sorted(path.name for path in demo.table.rglob("*.parquet"))
    done = run(quiet_env, "quickstart.py", demo.table, "--inline")
    assert done.returncode == 0, done.stderr
    assert "405 files, 9 would be enough: score 2" in done.stdout
    assert "committed: 372 -> 8 files" in done.stdout  # the partitions of the plan only
    assert "0 problems" in done.stdout
    assert sorted(path.name for path in demo.table.rglob("*.parquet")) == names


def test_quickstart_needs_a_table(quiet_env):
    """Without a table it says how it is called."""
    done = run(quiet_env, "quickstart.py")
    assert (done.returncode, done.stderr) == (1, "usage: python examples/quickstart.py TABLE [--inline]\n")


@pytest.mark.slow
def test_nightly_takes_the_worst_table_first_and_keeps_to_its_budget(demo, tmp_path, quiet_env):
    """Of two tables the one with more superfluous files is merged first, and the budget is for both."""
    better = make_lake(tmp_path / "other").table
    for folder in ("dt=2024-05-02", "dt=2024-05-03", "dt=2024-05-07"):
        for path in (better / folder).iterdir():
            path.unlink()
    done = run(quiet_env, "nightly.py", "--inline", "--min-age-seconds", 0, "--max-bytes", "5M", better, demo.table)
    first, second = map(json.loads, done.stdout.splitlines())
    assert [first["table"], second["table"]] == [str(demo.table), str(better)]
    assert first["status"] == "partial"
    assert done.returncode == 1
    assert first["bytes_read"] + second["bytes_read"] <= 5 << 20
    assert second["files"][1] < second["files"][0]


@pytest.mark.slow
def test_paimon_nightly_compacts_and_expires(tmp_path, quiet_env):
    """One snapshot is published, old ones go, and a second night has nothing to do."""
    table = shutil.copytree(EXAMPLES / "paimon/orders", tmp_path / "orders")
    first, second = (
        json.loads(run(quiet_env, "paimon_nightly.py", "--inline", "--keep", 5, table).stdout) for _ in range(2)
    )
    assert (first["status"], first["files"], first["snapshots"]) == ("committed", [32, 10], [18])
    assert first["expired"] == list(range(1, 14))
    assert first["freed_bytes"] > 0
    assert (second["status"], second["snapshots"], second["expired"]) == ("nothing-to-do", [], [])


@pytest.mark.slow
def test_segments_daily_loads_merges_and_cleans(demo, tmp_path, quiet_env):
    """The first day makes the table; on the fourth, four segments become one; the rows of all days are there."""
    table = tmp_path / "sales"
    words = ("segments_daily.py", "--inline", "--sort-by", "country", table)
    days = []
    for day in (2, 3, 4, 5):
        done = run(quiet_env, *words, demo.table / f"dt=2024-05-0{day}")
        assert done.returncode == 0, done.stdout + done.stderr
        days.append(json.loads(done.stdout))
    assert [day["segment"] for day in days] == ["0", "1", "2", "3"]
    assert [day["segments"] for day in days[2:]] == [["2", "1", "0"], ["0.1"]]
    assert days[-1]["merged"] == {"0.1": ["0", "1", "2", "3"]}
    done = run(quiet_env, *words, demo.table / "dt=2024-05-07")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "failed")
    folder = tmp_path / "today"  # the job of every day loads the same folder
    for day, (load, rows) in ((2, ("success", True)), (2, ("already-loaded", False)), (3, ("success", True))):
        shutil.copytree(demo.table / f"dt=2024-05-0{day}", folder, dirs_exist_ok=True, copy_function=shutil.copy2)
        found = json.loads(run(quiet_env, *words, folder).stdout)
        assert (found["load"], found["rows"] > 0) == (load, rows)


def test_the_classic_job_takes_three_arguments(demo, quiet_env):
    """`packstone_merge.py FS PARTITION BLOCKSIZE` is `packstone merge`."""
    partition = demo.table / "dt=2024-05-02"
    done = run(quiet_env, "../packstone_merge.py", "file:///", partition, "120M", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files_after"] == 1
    assert len(list(partition.iterdir())) == 1
