"""Spark plans joins by the sizes that DataFrames report: those of scans are about right."""

import pyarrow as pa
import pytest

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
