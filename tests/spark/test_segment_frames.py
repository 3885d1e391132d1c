"""Segment tables as DataFrames: rows of any version, the list of segments, and loads from a DataFrame."""

import pyarrow as pa
import pytest

import packstone

SCHEMA = "id long not null, name string, at timestamp"


@pytest.fixture
def table(tmp_path, spark):
    """A table of two loads in a folder whose name Spark would take for a pattern."""
    made = packstone.create(str(tmp_path / "a[1]{b}*" / "t"), SCHEMA, sort_by=["id"])
    for first in (0, 10):
        made.segments.load(
            pa.table({"id": range(first, first + 10), "name": ["x"] * 10, "at": pa.nulls(10, pa.timestamp("us"))})
        )
    return packstone.open(made.path, spark=spark)


def test_rows_of_any_version(table, spark):
    """The newest version, an earlier one, an empty one; the schema is the table's."""
    frame = table.segments.to_df(spark)
    assert sorted(row.id for row in frame.collect()) == list(range(20))
    assert frame.dtypes == [("id", "bigint"), ("name", "string"), ("at", "timestamp")]
    assert table.segments.to_df(spark, version=3).count() == 10
    assert table.segments.to_df(version=1).count() == 0


def test_segments_as_a_dataframe(table, spark):
    """CarbonData's columns can be queried."""
    shown = table.segments.show_frame(spark).where("status = 'Success'").select("id", "rows", "mergedToId").collect()
    assert sorted(map(tuple, shown)) == [("0", 10, "NA"), ("1", 10, "NA")]


def test_a_dataframe_makes_and_fills_a_table(table, spark, tmp_path):
    """A schema of Spark makes a table, a DataFrame fills it, and the rows come back."""
    frame = spark.range(0, 100, 1, 3).selectExpr("id", "cast(id as string) as name", "array(id) as tags")
    made = packstone.create(str(tmp_path / "made"), frame.schema, sort_by=["id"], sort_scope="global")
    report = made.segments.load(frame)
    assert (report.rows, report.status) == (100, "success")
    back = packstone.open(made.path, spark=spark).segments.to_df(spark)
    assert sorted(map(tuple, back.collect())) == sorted(map(tuple, frame.collect()))


def test_names_of_any_script(spark, tmp_path):
    """Columns and fields that Spark takes in backquotes only: made from Spark's schema, filled, read in every way."""
    nested = "named_struct('日本', 2, 'a.b', array(named_struct('x y', 3)))"
    frame = spark.sql(f"SELECT 1 AS id, 'x' AS `größe`, {nested} AS s")
    table = packstone.create(str(tmp_path / "t"), frame.schema)
    table.segments.load(frame)
    expected = [row.asDict(recursive=True) for row in frame.collect()]
    for found in (
        table.segments.to_df(spark),
        table.scan(where="`größe` = 'x'").to_df(spark),
        table.scan().to_df(spark),
    ):
        assert [row.asDict(recursive=True) for row in found.collect()] == expected


@pytest.fixture
def job_groups(spark):
    """Name the jobs of a block of code; returns a function that counts those of a name."""
    context = spark.sparkContext
    before = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "0")  # a job looks up even one file
    yield lambda name: (
        context.setJobGroup(name, name),
        lambda: len(context.statusTracker().getJobIdsForGroup(name)),
    )[1]
    context.setLocalProperty("spark.jobGroup.id", None)
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", before)


def test_files_are_looked_up_once(table, spark, job_groups):
    """A second scan of the same files starts no job; one after a load has the new rows."""
    jobs = job_groups(f"first {table.path}")
    first = table.scan().to_df(spark)
    assert jobs() == 1
    jobs = job_groups(f"second {table.path}")
    again = table.scan().to_df(spark)
    assert jobs() == 0
    table.segments.load(pa.table({"id": [99], "name": ["y"], "at": pa.nulls(1, pa.timestamp("us"))}))
    counts = [frame.count() for frame in (first, again, table.scan().to_df(spark))]
    assert counts == [20, 20, 21]


def test_scans_of_the_same_files_join(table, spark):
    """Columns of two scans are distinguished although Spark looked up their files once."""
    one, other = table.scan().to_df(spark), table.scan().to_df(spark)
    joined = one.join(other, one["id"] == other["id"] + 10).select(one["id"], other["id"])
    assert sorted(map(tuple, joined.collect())) == [(number + 10, number) for number in range(10)]
