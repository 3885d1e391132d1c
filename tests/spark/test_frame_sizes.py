"""Spark plans joins by the sizes that DataFrames report: those of scans are about right."""

import random

import pyarrow as pa
import pytest
from pyspark.sql.functions import col

import packstone

ROWS = 400_000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of ids and texts, of which a filter that Spark's reader does not get selects everything."""
    table = packstone.create(str(tmp_path_factory.mktemp("sizes") / "t"), "id long, name string")
    names = [f"name-{at % 1000}" for at in range(ROWS)]
    table.segments.load(pa.table({"id": range(ROWS), "name": names}))
    return table


def reported_bytes(frame):
    """The size of a DataFrame by Spark's own estimate."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def test_a_scan_by_tasks_reports_its_rows(spark, table):
    """It said 8 bytes for each split, so a join with it failed: not enough memory to broadcast."""
    frame = table.scan(where="id >= 0").to_df(spark, driver_bytes=0)
    assert ROWS * 8 < reported_bytes(frame) < ROWS * 200
    assert frame.count() == ROWS
    other = spark.range(20 * ROWS).withColumnRenamed("id", "other")
    joined = frame.join(other, frame.id == other.other)
    assert "BroadcastHashJoin" not in joined._jdf.queryExecution().sparkPlan().toString()
    assert joined.count() == ROWS


def test_a_small_scan_is_still_broadcast(spark, table):
    """A few rows by tasks report a few rows, and Spark broadcasts them."""
    frame = table.scan(where="id < 100").to_df(spark, driver_bytes=0)
    other = spark.range(ROWS).withColumnRenamed("id", "other")
    joined = other.join(frame, frame.id == other.other)
    assert "BroadcastHashJoin" in joined._jdf.queryExecution().sparkPlan().toString()
    assert joined.count() == 100


@pytest.mark.parametrize("kind", ["random", "alike"])
def test_long_texts_report_their_length(spark, tmp_path, kind):
    """20 bytes a text made 12 MB look like 280 KB, and Spark broadcast them; the same for 30 MB in a small file."""
    rng, count = random.Random(3), 10_000 if kind == "random" else 1_500
    texts = [rng.randbytes(600).hex() if kind == "random" else f"{at}{'y' * 20_000}" for at in range(count)]
    table = packstone.create(str(tmp_path / "t"), "id long, s string, tags array<string>", sort_by=["id"])
    table.segments.load(pa.table({"id": range(count), "s": texts, "tags": [["a"]] * count}))
    frame = table.scan(where="id >= 0").to_df(spark, driver_bytes=0)
    assert reported_bytes(frame) > 0.9 * sum(map(len, texts))
    assert 8 * count <= reported_bytes(table.scan(["id"], "id >= 0").to_df(spark, driver_bytes=0)) < 50 * count
    joined = spark.range(20 * ROWS).withColumnRenamed("id", "other").join(frame, frame.id == col("other"))
    assert "BroadcastHashJoin" not in joined._jdf.queryExecution().sparkPlan().toString()
    assert frame.count() == count


@pytest.mark.parametrize("driver_bytes", [0, 1 << 20])
@pytest.mark.parametrize("where", ["id = -5", "id = 77 AND name = 'nobody'"])
def test_a_scan_without_rows_is_known_to_be_empty(spark, table, where, driver_bytes):
    """Spark assumed 8 EiB, and sorted both sides of a join with it."""
    frame = table.scan(where=where).to_df(spark, driver_bytes=driver_bytes)
    assert frame.schema == table.scan().to_df(spark).schema
    assert reported_bytes(frame) < 100_000_000
    other = spark.range(ROWS).withColumnRenamed("id", "other")
    plan = other.join(frame, frame.id == other.other)._jdf.queryExecution().sparkPlan().toString()
    assert "SortMergeJoin" not in plan
    assert frame.collect() == []
