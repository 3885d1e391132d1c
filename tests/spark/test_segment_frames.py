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
