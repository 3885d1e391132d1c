"""Loads, compactions, cleans and readers at once, each a process of its own: nothing is lost, doubled or in the way."""

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from compact_calls import segment_clean, segment_compact
from patience import patient
from race_calls import ROWS
from segment_lake import SegmentLake
from segment_model import quick_folder

from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
FORMS = {
    "sorted": {"SORT_COLUMNS": "id", "COMPACTION_LEVEL_THRESHOLD": "3,2,2"},
    "unsorted": {"COMPACTION_LEVEL_THRESHOLD": "3,2,2"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(2)
def test_two_compactions_and_three_loads(children, form):
    """For a few seconds, with a cleaner and a reader beside them."""
    check_race(children, form, seconds=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", FORMS)
def test_two_compactions_and_three_loads_for_long(children, form):
    """For minutes."""
    check_race(children, form, seconds=240)


def check_race(children, form, *, seconds):
    """Let them run; then every load is there once, everybody has got on, and a clean leaves what is live."""
    with quick_folder() as folder:
        lake = SegmentLake(folder / "t").create(
            **FORMS[form], SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1, TRASH_RETENTION_DAYS=0
        )
        scopes = ("NO_SORT", "LOCAL_SORT", "GLOBAL_SORT") if "SORT_COLUMNS" in FORMS[form] else ("NO_SORT",) * 3
        common = {"path": lake.table, "seconds": seconds}
        loads = [children.start("race_loads", who=who, scope=scope, **common) for who, scope in enumerate(scopes)]
        merges = [children.start("race_compactions", strategy="minor", **common) for _ in range(2)]
        others = [children.start("race_cleans", **common), children.start("race_reads", **common)]
        answers = {pid: children.wait(pid) for pid in (*loads, *merges, *others)}
        assert not [answer for answer in answers.values() if "error" in answer], answers
        made = [answers[pid]["value"] for pid in loads]
        assert min(made) > 0, "a load never got through"
        assert min(answers[pid]["value"]["merged"] for pid in merges) > 0, answers
        assert answers[others[0]]["value"] > 0, "nothing was cleaned"
        assert answers[others[1]]["value"]["reads"] > 0, answers
        check_rows(lake, made)
        assert segment_compact(IO, lake.table, strategy="major")["status"] == "committed"
        check_rows(lake, made)
        segment_clean(IO, lake.table, days=2)
        segment_clean(IO, lake.table, days=2)
        assert len(lake.data_on_disk()) == len(lake.files())
        assert lake.open_runs() == []
        check_rows(lake, made)


def check_rows(lake, made):
    """Every row of every load, once."""
    expected = [
        (who * 1_000_000 + at) * ROWS + row for who, n in enumerate(made) for at in range(n) for row in range(ROWS)
    ]
    assert Counter(row[0] for row in lake.count().elements()) == Counter(expected)
    assert lake.problems() == []


def test_histories_of_killed_processes(children):
    """Loads, deletes, compactions, restores and cleans, again and again ended by SIGKILL."""
    live_and_die(children, seed=1, kills=3, most=12)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_histories_of_killed_processes(children, seed):
    """The long form."""
    live_and_die(children, seed=seed, kills=40, most=60)


def live_and_die(children, *, seed, kills, most):
    """After each kill the table has what was done; the last thing was done wholly or not at all."""
    rng, there, shown, killed = random.Random(seed), set(), {}, 0
    with quick_folder() as folder:
        lake = SegmentLake(folder / "t").create(
            SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="2,2", SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1
        )
        for life in range(kills):
            log = folder / f"log-{life}"
            pid = children.start("live_through", path=lake.table, seed=seed * 100 + life, log=str(log), most=most)
            # Killed in the middle of something: some lines later, and then any moment within it.
            wait_for_lines(log, rng.randrange(2, 2 * most), pid)
            time.sleep(rng.random() * 0.05)
            os.kill(pid, signal.SIGKILL)
            answer = children.wait(pid)
            assert "error" not in answer, answer
            killed += answer["status"] == -signal.SIGKILL
            there = settle(there, log, found=loads_of(lake))
            check_versions(lake, shown)
        assert killed > 0
        Table(lake.table).recover()
        segment_clean(IO, lake.table, days=2)
        assert loads_of(lake) == there
        check_versions(lake, shown)


def wait_for_lines(log, count, pid):
    """Until the log has so many lines, or its writer has ended."""
    end = time.monotonic() + patient(60)
    while time.monotonic() < end:
        lines = log.read_bytes().count(b"\n") if log.exists() else 0
        if lines >= count or Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.002)
    raise AssertionError(f"{log} has only {lines} of {count} lines")


def settle(there, log, *, found):
    """The loads that must be in the table now; of what had not ended, both outcomes are right."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for at, (what, numbers) in enumerate(lines):
        after = there
        if what == "load":
            after = there | set(numbers)
        elif what == "overwrite":
            after = set(numbers)
        elif what == "delete":
            after = there - set(numbers)
        has_ended = at + 1 < len(lines)
        there = after if has_ended or found == after else there
    assert found == there, (lines[-1], sorted(found ^ there))
    return there


def loads_of(lake, version=None):
    """The loads that DuckDB finds in the files of a version, each with all its rows, once."""
    rows = lake.count(version)
    assert set(rows.values()) <= {1}, "a row is there twice"
    loads = Counter(row[0] // ROWS for row in rows)
    assert set(loads.values()) <= {ROWS}, "a part of a load is there"
    return set(loads)


def check_versions(lake, shown):
    """The newest version is sound, and each kept one shows, to the product too, what it has always shown."""
    table, floors = Table(lake.table), [int(one.name) for one in (lake.path / "Metadata/floor").glob("*")]
    kept = [version for version in lake.versions() if version >= max(floors, default=1)]
    for version in {*kept[-6:], *random.Random(kept[-1]).sample(kept, min(4, len(kept)))}:
        found = loads_of(lake, version)
        assert shown.setdefault(version, found) == found, f"version {version} shows other rows than it did"
        ids = table.scan(["id"], version=version).to_arrow().column("id").to_pylist()
        assert sorted(ids) == sorted(number * ROWS + at for number in found for at in range(ROWS))
    report = table.check(deep=True)
    assert report.damage == ()
    assert report.rows == len(loads_of(lake)) * ROWS
