"""Few rows that a filter leaves are read by the driver and handed to Spark: the same values as tasks give, no job."""

import importlib.metadata
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import packstone
from packstone.errors import CorruptionError, InvalidInputError

pytestmark = pytest.mark.skipif(
    importlib.metadata.version("pyspark").startswith("3."), reason="before Spark 4 it takes no Arrow table"
)
SCHEMA = (
    "id long, b boolean, i1 byte, i2 short, i4 int, f float, d double, t string, raw binary, day date, "
    "moment timestamp, wall timestamp_ntz, c decimal(38,18), small decimal(5,2)"
)


def wall(*parts):
    """A time on the wall of no place."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


VALUES = [
    (True, -128, -(2**15), -(2**31), 1.5, -0.0, "", b"", date(1, 1, 1), wall(1, 1, 1), "-0.1"),
    (False, 127, 2**15 - 1, 2**31 - 1, float("nan"), float("inf"), "日本\0", b"\xff\0", date(9999, 12, 31),
     wall(9999, 12, 31, 23, 59, 59, 999999), "9"),
    (None,) * 11,
    (True, 0, 0, 0, float("-inf"), 5e-324, "x" * 5000, b"a" * 5000, date(1582, 10, 10),
     wall(1883, 11, 18, 12, 3, 58), "1"),
    (True, 1, 1, 1, 0.1, 0.1, "'", b"'", date(2024, 3, 31), wall(2024, 3, 31, 2, 30), "2"),
]  # fmt: skip


@pytest.fixture
def table(tmp_path, spark):
    """Extreme values of every flat type; hours that clocks leave out, and dates before calendars agreed."""
    made = packstone.create(str(tmp_path / "t"), SCHEMA, sort_by=["id"])
    rows = []
    for at, (b, i1, i2, i4, f, d, t, raw, day, wall, c) in enumerate(VALUES):
        moment = None if wall is None else wall.replace(tzinfo=UTC)
        number = None if c is None else Decimal(c)
        rows.append((at, b, i1, i2, i4, f, d, t, raw, day, moment, wall, number, number))
    names = [part.split()[0] for part in SCHEMA.replace("(38,18)", "").replace("(5,2)", "").split(", ")]
    kinds = [
        pa.int64(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(38, 18), pa.decimal128(5, 2),
    ]  # fmt: skip
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    made.segments.load(pa.Table.from_arrays(columns, names))
    return packstone.open(made.path, spark=spark)


def as_text(frame):
    """Every value as Spark writes it, floats and bytes by their bits."""
    names = [
        f"hex({name})" if kind == "binary" else f"hex(cast(cast({name} as double) as string))"
        if kind in ("float", "double") else f"cast({name} as string)"
        for name, kind in frame.dtypes
    ]  # fmt: skip
    return sorted(map(tuple, frame.selectExpr(*names).collect()), key=str)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_every_type(table, spark, hostile, zone):
    """Types and values are those that tasks give, and that Spark reads by itself."""
    hostile({"spark.sql.session.timeZone": zone})
    scan = table.scan(where="id >= 0")
    here, by_tasks = scan.to_df(spark), scan.to_df(spark, driver_bytes=0)
    assert here.isLocal()
    assert not by_tasks.isLocal()
    assert here.dtypes == by_tasks.dtypes
    assert as_text(here) == as_text(by_tasks) == as_text(table.segments.to_df(spark))
    assert here.count() == len(VALUES)


def test_no_job_is_started(table, spark):
    """Rows that came with the plan are collected without any."""
    context = spark.sparkContext
    context.setJobGroup("few", "few rows")
    frame = table.scan(["id"], "id = 3").to_df(spark)
    assert [row.id for row in frame.collect()] == [3]
    assert list(context.statusTracker().getJobIdsForGroup("few")) == []
    assert table.scan(["id"], "id = 3").to_df(spark, driver_bytes=0).count() == 1
    assert list(context.statusTracker().getJobIdsForGroup("few")) != []  # a job of this thread would have been seen
    context.setLocalProperty("spark.jobGroup.id", None)


def test_a_limit_of_bytes(table, spark):
    """Above it tasks read; the rows are the same."""
    scan = table.scan(["id", "t"], "id > 1")
    assert scan.to_df(spark, driver_bytes=100_000).isLocal()
    few = scan.to_df(spark, driver_bytes=1000)
    assert not few.isLocal()
    assert as_text(few) == as_text(scan.to_df(spark))


@pytest.mark.parametrize("limit", ["0", "-1", "1"])
def test_any_size_of_batches(table, spark, hostile, limit):
    """Spark takes zero and less for no limit; PySpark cannot make a DataFrame of Arrow then, so tasks read."""
    hostile({"spark.sql.execution.arrow.maxRecordsPerBatch": limit})
    frame = table.scan(["id"], "id > 1").to_df(spark)
    assert frame.isLocal() == (limit == "1")
    assert sorted(row.id for row in frame.collect()) == [2, 3, 4]


def test_a_limit_below_zero(table, spark):
    """Refused before anything is read."""
    with pytest.raises(InvalidInputError, match=r"driver_bytes is -1; give 0"):
        table.scan(["id"], "id > 1").to_df(spark, driver_bytes=-1)


def test_without_a_filter_the_driver_reads_nothing(table, spark):
    """Whoever asks for everything wants a job."""
    assert not table.scan().to_df(spark).isLocal()


def test_what_only_spark_can_test(table, spark):
    """Spark tests the rest on what the driver found; columns of the test alone do not come out."""
    frame = table.scan(["id"], "id < 4 AND length(t) > 100").to_df(spark)
    assert frame.columns == ["id"]
    assert [row.id for row in frame.collect()] == [3]


def test_a_file_that_is_gone(table, spark):
    """It is named with the version that needs it."""
    scan = table.scan(where="id >= 0")
    path = Path(table.segments.files().paths[0])
    path.unlink()
    with pytest.raises(CorruptionError, match=rf"{path.name} is missing, but version 3 of .* names it"):
        scan.to_df(spark)
