"""``packstone clean --all``: backups whose retention has expired, of all tables that the history knows."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from location_calls import catalog_of, open_published
from patience import patient

from packstone.pipeline.maintain import clean_all, clean_one
from packstone.tables.hive.options import HiveOptions

PACKSTONE = Path(sys.executable).with_name("packstone")


@pytest.fixture
def tables(packstone, lake):
    """Five merged tables: four whose retention has expired, one whose has not."""
    found = []
    for number in range(5):
        lake.table = lake.root / f"t{number}"
        lake.parquet("dt=1")
        lake.parquet("dt=2", files=7)
        keep = "7" if number == 4 else "0"
        assert packstone("compact", lake.table / "dt=1", "--keep-days", keep).code == 0
        assert packstone("compact", lake.table, "--keep-days", keep).code == 0
        found.append(lake.table)
    return found


def originals(lake):
    """The kept files of all tables."""
    return sorted((lake.root / ".packstone").rglob("*.kept"))


def test_all_tables_by_recorded_names(tables, lake, packstone, tree):
    """A dry run changes nothing; without a terminal --yes is wanted; then only what has expired goes."""
    strangers = [lake.root / ".packstone" / "t0" / "backup" / "mine.kept", lake.table / "mine.parquet"]
    for stranger in strangers:
        stranger.write_text("mine")
    before = tree(lake.root)
    planned = packstone("clean", "--all", "--dry-run", "--format", "json").json
    assert (planned["status"], planned["files"], len(planned["tables"])) == ("planned", 4 * 13, 5)
    asked = packstone("clean", "--all")
    assert (asked.code, "give --yes" in asked.sentence) == (2, True)
    assert tree(lake.root) == before
    done = packstone("clean", "--all", "--yes", "--format", "json").json
    assert (done["status"], done["files"], done["bytes"]) == ("cleaned", 52, planned["bytes"])
    assert len(originals(lake)) == 13 + 1
    assert all(stranger.exists() for stranger in strangers)
    again = packstone("clean", "--all", "--yes")
    assert (again.code, again.out.splitlines()[0]) == (0, "Nothing to clean.")


def test_tables_that_are_gone_or_out_of_reach(tables, lake, packstone):
    """They are reported, the others are cleaned, and the exit code is 1 only if a table could not be reached."""
    shutil.rmtree(tables[0])
    done = packstone("clean", "--all", "--yes", "--format", "json")
    assert (done.code, done.json["gone"], done.json["files"]) == (0, [str(tables[0])], 39)
    for table in (tables[1], lake.root / "t5"):
        lake.table = table
        lake.parquet("dt=9")
        assert packstone("compact", lake.table, "--keep-days", "0").code == 0
    records = (lake.root / ".packstone" / "t1" / "runs").rglob("wave-*.intent.json")
    record = max(records, key=lambda path: path.stat().st_mtime_ns)  # ids of one second are not in order
    record.write_text("{")
    done = packstone("clean", "--all", "--yes", "--format", "json")
    assert (done.code, done.json["status"], done.json["files"]) == (1, "partial", 6)
    ((table, why),) = [(one["table"], one["why"]) for one in done.json["failed"]]
    assert (table, str(record) in why) == (str(tables[1]), True)
    assert "not cleaned: " in packstone("clean", "--all", "--yes").out


@pytest.mark.slow
def test_two_at_once(tables, lake, quiet_env):
    """Two processes side by side: together they remove each original once, and neither fails."""
    command = [PACKSTONE, "clean", "--all", "--yes", "--format", "json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": quiet_env}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    answers = [process.communicate(timeout=patient(120)) for process in both]
    assert [(process.returncode, answer[1]) for process, answer in zip(both, answers, strict=True)] == [(0, b"")] * 2
    reports = [json.loads(out) for out, _ in answers]
    left_for_later = any(table["busy"] for report in reports for table in report["tables"])
    removed = sum(report["files"] for report in reports)
    assert removed <= 52
    assert left_for_later or (removed, len(originals(lake))) == (52, 13)
    last = subprocess.run(command, env=quiet_env, check=True, capture_output=True)
    assert (removed + json.loads(last.stdout)["files"], len(originals(lake))) == (52, 13)


def test_published_by_location(lake):
    """Old folders of partitions that were published by location stay until a catalogue says where the rows are."""
    lake.parquet("dt=1")
    places = {"dt=1": {"location": f"file:{lake.table}/dt=1"}}
    Path(f"{lake.table}.catalog").write_text(json.dumps(places), encoding="utf-8")
    open_published(str(lake.table)).compact(HiveOptions(keep_days=0))
    blind = clean_all([str(lake.table)], lambda path: clean_one(path, None, dry_run=False), dry_run=False)
    assert (blind.files, len(blind.tables[0][1].changed), len(lake.names("dt=1"))) == (0, 1, 6)
    catalog = catalog_of(str(lake.table))
    seen = clean_all([str(lake.table)], lambda path: clean_one(path, catalog, dry_run=False), dry_run=False)
    assert seen.files == 6
    assert not (lake.table / "dt=1").exists()


@pytest.mark.parametrize(
    "words", [(), ("--all", "somewhere"), ("somewhere", "--history", "sqlite://"), ("--all", "--retain-max", "3")]
)
def test_wrong_calls(words, packstone):
    """Either a target or --all; --history belongs to --all, and what is of Paimon's does not."""
    done = packstone("clean", *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)


def test_conf_reaches_the_session_of_the_metastore(packstone):
    """--conf is read with --all too: a pair that is none is refused, as it is with a TARGET by name."""
    done = packstone("clean", "--all", "--conf", "spark.x")
    assert (done.code, done.sentence) == (2, "packstone: --conf spark.x is not KEY=VALUE.")
