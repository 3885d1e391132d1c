"""Compacting segment tables by Spark tasks: all types, many pieces, the same rows in order."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from segment_lake import SegmentLake

from packstone.pipeline.table import Table
from packstone.spark.engine import SparkEngine
from packstone.spark.frames import SparkFrames
from packstone.spark.session import SparkHandle
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.load import load_frame
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
SCHEMA = "id long, name string, at timestamp, price decimal(12,2), tags array<string>"
ROWS = (
    "nullif(id * 7919 % 4001, 13) as id",
    "concat('n', id % 17) as name",
    "timestamp_micros(id * 1000003) as at",
    "cast(id as decimal(12,2)) as price",
    "array(cast(id as string), null) as tags",
)


@pytest.mark.parametrize("columns", ["id", "name,at", "price", ""])
@pytest.mark.sample(4)
def test_loads_of_frames_are_merged_by_spark(spark, tmp_path, columns):
    """Eight loads become two segments; Spark's reader finds the rows that it found before, in the sort order."""
    more = {"SORT_COLUMNS": columns} if columns else {}
    lake = SegmentLake(tmp_path / "t").create(SCHEMA, TABLE_BLOCKLET_ROWS=1000, **more)
    for at in range(8):
        frame = spark.range(at * 2000, at * 2000 + 2000, 1, 2).selectExpr(*ROWS)
        load_frame(IO, lake.table, frame, frames=SparkFrames(), options=LoadOptions())
    before = sorted(map(str, spark.read.parquet(*lake.files()).collect()))
    engine = SparkEngine(SparkHandle(spark, is_ours=False), IO)
    outcome = Table(lake.table, io=IO, engine=lambda: engine).compact(SegmentOptions(task_bytes=30_000))
    assert outcome.status == "committed", outcome.skipped
    assert lake.ids() == ["0.1", "4.1"]
    assert len(outcome.units[0].outputs) > 1
    assert sorted(map(str, spark.read.parquet(*lake.files()).collect())) == before
    assert lake.problems() == []
    assert lake.open_runs() == []
