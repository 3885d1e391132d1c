"""Spark on S3: the store travels with the tasks, so workers need no settings of their own."""

import pytest
from patience import patient

import packstone


@pytest.fixture
def table(spark, seaweed, use_s3):
    """A table on the real server, filled by Spark, which was started before the keys were in the environment."""
    path = f"{use_s3(seaweed)}/t"
    packstone.create(path, "id long, v string", sort_by=["id"], sort_scope="global")
    opened = packstone.open(path, spark=spark, history=None)
    for first in (0, 100, 200, 300):
        frame = spark.range(first, first + 100, 1, 3).selectExpr("id", "cast(id as string) as v")
        assert opened.segments.load(frame).rows == 100
    return opened


def test_loads_merges_and_reads_by_tasks(table, spark):
    """Loaded from a DataFrame, compacted and read as a DataFrame, whole and through a filter, by Spark's workers."""
    assert table.compact().status == "committed"
    assert sorted(map(tuple, table.segments.to_df(spark).collect())) == [(at, str(at)) for at in range(400)]
    found = table.scan(columns=["id"], where="id >= 395").to_df(spark, driver_bytes=0).collect()
    assert sorted(row.id for row in found) == list(range(395, 400))
    assert table.scan(where="id >= 395").count() == 5


@pytest.mark.soak
def test_the_data_source_reads_s3(table, program, seaweed):
    """`format("packstone")` reads too (Spark 4), where the session was started with the settings in its environment."""
    source = """
        import sys
        from pyspark.sql import SparkSession
        import packstone
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        found = spark.read.format("packstone").option("where", "id < 3").load(sys.argv[1])
        print(sorted(row.id for row in found.collect()))
    """
    out, _ = program(source, table.path, env=seaweed.env).communicate(timeout=patient(120))
    assert out.strip() == "[0, 1, 2]"
