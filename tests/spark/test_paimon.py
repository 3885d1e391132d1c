"""Compaction of Paimon tables on Spark: the same tasks, split by key, with attempts that fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import packstone
from packstone.spark import engine
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

sys.path.insert(0, str(Path(__file__).parents[1]))

from paimon_lake import PaimonLake

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)


@pytest.fixture
def lake(tmp_path):
    """Two buckets of four overlapping runs, each too big for one task of the tests' size."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 2000, 4000, 6000):
        lake.append({key: key * 7919 % 65521 for key in range(first, first + 4000)})
    return lake


def test_a_bucket_is_split_over_tasks(spark, lake):
    """Pieces of one bucket are written by several tasks, do not overlap, and hold all rows; again: nothing to do."""
    rows = lake.rows()
    options = PaimonOptions(strategy=PaimonStrategy.FULL, task_bytes=20_000)
    outcome = packstone.open(lake.table, spark=spark).compact(options)
    assert outcome.status == "committed"
    assert min(len(unit.outputs) for unit in outcome.units) > 2
    assert lake.rows() == rows
    assert lake.problems() == []
    assert packstone.open(lake.table, spark=spark).compact(FULL).status == "nothing-to-do"


def test_attempts_that_are_lost_publish_nothing(spark, lake, monkeypatch):
    """What a first attempt wrote before it was lost is in no snapshot; its names are on record for `clean`."""
    plain = engine._task_function

    def make(*arguments, **options):
        run_tasks = plain(*arguments, **options)

        def run_poisoned(batches):
            from pyspark import TaskContext

            done = list(run_tasks(batches))
            if TaskContext.get().attemptNumber() == 0:
                raise ValueError("the first attempt is lost on its way back")
            yield from done

        return run_poisoned

    monkeypatch.setattr(engine, "_task_function", make)
    rows = lake.rows()
    outcome = packstone.open(lake.table, spark=spark).compact(FULL)
    assert (outcome.status, lake.rows()) == ("committed", rows)
    assert lake.problems() == []
    live = {entry.file["_FILE_NAME"] for entry in lake.live()}
    lost = {path for path in lake.path.rglob("bucket-*/*.parquet") if path.name not in live} - {
        path
        for path in lake.path.rglob("bucket-*/*.parquet")
        if path.name in {e.file["_FILE_NAME"] for e in lake.live(4)}
    }
    records = "".join(path.read_text() for path in lake.path.parent.rglob("created-*.json"))
    assert len(lost) == 2
    assert all(str(path) in records for path in lost)
