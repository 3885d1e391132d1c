"""Spark's own reader and writer: a merge changes neither what its filters find nor how it reads INT96."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from float_files import FILTERS, draw_files, merge_files, new_mistakes
from footer_edit import set_created_by

from packstone import HiveOptions, Table

SCHEMA = "id long, x double, f float, s struct<a: double, b: float>, l array<double>"


def found_by_spark(spark, folder, filters, *, pushdown):
    """The ids that each filter finds, in one job."""
    spark.conf.set("spark.sql.parquet.filterPushdown", str(pushdown).lower())
    rows = spark.read.schema(SCHEMA).parquet(str(folder))
    asked = None
    for at, one in enumerate(filters):
        part = rows.where(one.to_sql()).selectExpr(f"{at} as filter", "id")
        asked = part if asked is None else asked.union(part)
    found = [set() for _ in filters]
    for at, number in asked.collect():
        found[at].add(number)
    return found


def write_by_spark(spark, folder):
    """Let Spark write each of the files again."""
    for path in sorted(folder.iterdir()):
        written = folder.parent / "written"
        spark.read.schema(SCHEMA).parquet(str(path)).coalesce(1).write.parquet(str(written))
        (part,) = written.glob("*.parquet")
        part.rename(path)
        shutil.rmtree(written)


def check_seed(spark, folder, seed, *, filters):
    """Ask some filters before and after the merge, and without any statistics."""
    before, after = folder / "before", folder / "after"
    dice = draw_files(seed, before, half=False)
    if dice.random() < 0.5:
        write_by_spark(spark, before)
    merge_files(before, after)
    asked = dice.sample(FILTERS, filters)
    right = found_by_spark(spark, before, asked, pushdown=False)
    was = found_by_spark(spark, before, asked, pushdown=True)
    now = found_by_spark(spark, after, asked, pushdown=True)
    for at, one in enumerate(asked):
        assert not new_mistakes(was[at], now[at], right[at]), (seed, one.to_sql())


@pytest.mark.slow
def test_spark_finds_what_it_found(spark, hostile, tmp_path):
    """Spark judges no row wrongly by a filter that it judged rightly before the merge, whoever wrote the files."""
    hostile({"spark.sql.parquet.filterPushdown": "true"})  # put back afterwards
    for seed in range(4):
        check_seed(spark, tmp_path / str(seed), seed, filters=17)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_spark_finds_what_it_found_in_many_files(spark, hostile, tmp_path, part):
    """The long form: 100 directories, 51 filters each."""
    hostile({"spark.sql.parquet.filterPushdown": "true"})
    for seed in range(5000 + part * 10, 5010 + part * 10):
        check_seed(spark, tmp_path / str(seed), seed, filters=51)
        shutil.rmtree(tmp_path / str(seed))


@pytest.mark.parametrize("name", ["parquet-mr version 1.10.1", "impala version 2.9.0"])
def test_int96_is_the_same_time(spark, hostile, tmp_path, name):
    """Spark converts INT96 of all writers but parquet-mr to its zone: after a merge it shows the same times."""
    hostile({"spark.sql.session.timeZone": "America/New_York", "spark.sql.parquet.int96TimestampConversion": "true"})
    folder = tmp_path / "t"
    folder.mkdir()
    for at in range(4):
        noon = pa.array([dt.datetime(2023, 11, 14, 12, at, tzinfo=dt.UTC)]).cast(pa.timestamp("us"))
        path = folder / f"{at}.parquet"
        pq.write_table(pa.table({"ts": noon}), path, use_deprecated_int96_timestamps=True, store_schema=False)
        set_created_by(path, name)
    shown = "select date_format(ts, 'HH:mm') from parquet.`{}` order by 1"
    before = spark.sql(shown.format(folder)).collect()
    Table(str(folder)).compact(HiveOptions(min_files=2))
    assert len(list(folder.iterdir())) == 1
    assert spark.sql(shown.format(folder)).collect() == before


@pytest.mark.slow
def test_lz4_of_spark(spark, tmp_path):
    """Spark's lz4 is Hadoop's, which PyArrow reads and does not write: left alone with the reason, or changed."""
    folder = tmp_path / "t"
    rows = spark.range(0, 400_000, 1, 4).selectExpr("id", "sha2(cast(id as string), 256) as text")
    rows.write.option("compression", "lz4").parquet(str(folder))
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert outcome.units == ()
    assert sum("Hadoop's LZ4" in skip.why for skip in outcome.skipped) == len(list(folder.glob("*.parquet")))
    Table(str(folder)).compact(HiveOptions(min_files=2, codec="zstd"))
    assert len(list(folder.glob("*.parquet"))) == 1
    assert spark.read.parquet(str(folder)).exceptAll(rows).count() == 0
    assert spark.read.parquet(str(folder)).count() == 400_000
