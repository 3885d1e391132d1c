"""Random tables and random filters: a DataFrame of a pruned scan has the rows that Spark SQL finds in all rows."""

import random
from collections import Counter
from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.random_scan import SCHEMA, random_filter, random_table

import packstone
from packstone.tables.segments.options import SegmentOptions

FILTERS = 16
# Rows that Spark's reader would not find, where NaN stands beside numbers.
OF_NAN = ("x > 2.5D", "x = CAST('NaN' AS DOUBLE) AND b IS NOT NULL")


def numbered(rng, first):
    """A load whose rows have numbers."""
    rows = random_table(rng, rng.choice([50, 2500]))
    return rows.append_column("row", pa.array(range(first, first + rows.num_rows)))


def frame_of(spark, rows):
    """A DataFrame of a table in memory; before Spark 4 it takes rows only."""
    is_old = spark.version.startswith("3.")
    return spark.createDataFrame(rows.to_pylist(), f"{SCHEMA}, row long") if is_old else spark.createDataFrame(rows)


@pytest.mark.slow
def test_dataframes_of_random_scans(spark, hostile, tmp_path):
    """Before and after a merge, by tasks and by the driver; something is left out, and no row is lost."""
    hostile({"spark.sql.session.timeZone": "UTC"})
    rng, loads = random.Random(14), []
    properties = {"TABLE_BLOCKLET_ROWS": "1000", "BLOOM_COLUMNS": "id,s,ts"}
    table = packstone.create(str(tmp_path / "t"), f"{SCHEMA}, row long", sort_by=["s", "id"], properties=properties)
    for _ in range(4):
        loads.append(numbered(rng, sum(one.num_rows for one in loads)))
        table.segments.load(loads[-1])
    filters = [*OF_NAN, *(random_filter(rng)[0] for _ in range(FILTERS - len(OF_NAN)))]
    # From memory, because statistics of Parquet files leave NaN out, and Spark believes them.
    whole = frame_of(spark, pa.concat_tables(loads))
    tested = whole.selectExpr("row", f"array({', '.join(f'({where})' for where in filters)}) AS truths").collect()
    expected = [Counter(row.row for row in tested if row.truths[at]) for at in range(FILTERS)]
    for driver_bytes in (0, 1 << 20):
        assert find(table, filters, spark, driver_bytes=driver_bytes) == expected
    assert sum(is_pruned(table, where) for where in filters) > FILTERS // 4
    table.compact(SegmentOptions(strategy="major"))
    for driver_bytes in (0, 1 << 20):
        assert find(table, filters, spark, driver_bytes=driver_bytes) == expected


def find(table, filters, spark, *, driver_bytes):
    """The rows that each scan finds, all of them by one job."""
    frames = [
        table.scan(["row"], where).to_df(spark, driver_bytes=driver_bytes).selectExpr(f"{at} AS at", "row")
        for at, where in enumerate(filters)
    ]
    found = [Counter() for _ in filters]
    for one in reduce(DataFrame.union, frames).collect():
        found[one.at][one.row] += 1
    return found


def is_pruned(table, where):
    """Whether some row group is left out."""
    level = table.scan(where=where).explain().pruned.levels[-1]
    return level.kept < level.total
