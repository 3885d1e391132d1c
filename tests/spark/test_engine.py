"""Merging on a Spark session that somebody else made, whatever he has set on it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

import packstone
from packstone import Budget, HiveOptions
from packstone.errors import UnavailableError
from packstone.pipeline.table import Table
from packstone.spark import engine
from packstone.spark.session import SparkSettings, open_spark

OPTIONS = HiveOptions(min_files=2)
HOSTILE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.files.maxRecordsPerFile": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "Asia/Kathmandu",
    "spark.sql.caseSensitive": "true",
}


def jobs(spark):
    """The descriptions of all jobs so far."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [listed.apply(at) for at in range(listed.size())]
    return [job.description().get() if job.description().isDefined() else "" for job in found]


def test_same_result_as_inline(spark, orders):
    """Spark and this process merge the same files into the same rows; the second run has nothing to do."""
    before = orders.write().ids()
    plan = Table(str(orders.path)).plan(OPTIONS).outcome
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert {unit.inputs for unit in outcome.units} == {unit.inputs for unit in plan.units}
    assert (outcome.files_after, len(orders.files()), outcome.rows) == (3, 3, before.total())
    assert orders.ids() == before
    assert packstone.open(str(orders.path), spark=spark).compact(OPTIONS).status == "nothing-to-do"


def test_a_session_of_the_caller_is_used_and_kept(spark, orders):
    """Given or found, also from another thread, the caller's session does the work, and afterwards is as it was."""
    orders.write(partitions=1)
    sc = spark.sparkContext
    sc.setLocalProperty("spark.job.description", "the caller's own job")
    earlier = len(jobs(spark))
    packstone.open(str(orders.path)).compact(OPTIONS)
    assert len(jobs(spark)) > earlier
    assert sc.getLocalProperty("spark.job.description") == "the caller's own job"
    sc.setLocalProperty("spark.job.description", None)

    handles = []
    thread = threading.Thread(target=lambda: handles.append(open_spark(SparkSettings(master="local[1]"))))
    thread.start()
    thread.join()
    handles[0].stop()
    assert spark.range(3).count() == 3


def test_the_job_says_what_it_does(spark, orders):
    """In Spark's pages the job carries the table and the number of files."""
    orders.write(partitions=2, files=5)
    packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert f"packstone: merge 10 files of {orders.path}" in jobs(spark)


def test_hostile_settings_change_nothing(spark, orders, hostile):
    """Settings that change what Spark writes or how it cuts its work lose and double nothing."""
    hostile(HOSTILE)
    before = orders.write(partitions=4).ids()
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert (outcome.files_after, len(orders.files())) == (4, 4)
    assert orders.ids() == before
    assert {key: spark.conf.get(key) for key in HOSTILE} == HOSTILE


def test_many_files_are_looked_into_by_spark(spark, orders):
    """Above a thousand small files footers are read in a Spark job, and the plan is the one we would make here."""
    orders.write(partitions=2, files=1, rows=3)
    for folder in sorted(orders.path.iterdir()):
        content = (folder / "0000.parquet").read_bytes()
        for at in range(1, 520):
            (folder / f"{at:04d}.parquet").write_bytes(content)
    (orders.path / "dt=0" / "0007.parquet").write_bytes(b"PAR1 broken PAR1")
    here = Table(str(orders.path)).plan(OPTIONS).outcome
    there = packstone.open(str(orders.path), spark=spark).plan(OPTIONS).outcome
    assert "packstone: inspect 1040 files" in jobs(spark)
    assert (there.units, there.skipped) == (here.units, here.skipped)
    assert sum(len(unit.inputs) for unit in there.units) == 1039


def test_one_broken_unit_does_not_end_the_job(spark, orders):
    """A file that breaks while it is read is named and left alone; everything else is merged."""
    orders.write(partitions=3, files=6)
    broken = orders.path / "dt=1" / "0003.parquet"
    content = bytearray(broken.read_bytes())
    content[4:60] = bytes(56)
    broken.write_bytes(content)
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert outcome.status == "partial"
    assert [skip.what for skip in outcome.skipped] == ["dt=1/0003.parquet"]
    assert len(orders.files()) == 4


def poison(monkeypatch, spoil):
    """Let ``spoil(context, finish)`` run every attempt on the workers in place of the plain task."""
    plain = engine._task_function

    def make(*arguments, **options):
        run_tasks = plain(*arguments, **options)

        def run_poisoned(batches):
            from pyspark import TaskContext

            yield from spoil(TaskContext.get(), lambda: list(run_tasks(batches)))

        return run_poisoned

    monkeypatch.setattr(engine, "_task_function", make)


def test_a_first_attempt_that_dies_at_the_end(spark, orders, monkeypatch):
    """Attempts that wrote everything and then failed leave files that are never published."""

    def spoil(context, finish):
        done = finish()
        if context.attemptNumber() == 0:
            raise ValueError("the first attempt is lost on its way back")
        return done

    poison(monkeypatch, spoil)
    before = orders.write(partitions=3).ids()
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert (len(outcome.units), len(orders.files())) == (3, 3)
    assert orders.ids() == before
    assert orders.staged() == []


def test_two_attempts_that_both_end(spark, orders, monkeypatch):
    """Of two copies of every task that write to the end, as speculation makes them, one is published."""
    plain = engine._task_function

    def make(*arguments, **options):
        run_tasks = plain(*arguments, **options)

        def run_twice(batches):
            for batch in batches:
                first, second = list(run_tasks([batch])), list(run_tasks([batch]))
                yield from first if batch.column(0)[0].as_py() % 2 else second

        return run_twice

    monkeypatch.setattr(engine, "_task_function", make)
    before = orders.write(partitions=4).ids()
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS, budget=Budget(parallel=4))
    assert (len(outcome.units), len(orders.files())) == (4, 4)
    assert orders.ids() == before
    assert orders.staged() == []


def test_attempts_that_all_fail_publish_nothing(spark, orders, monkeypatch):
    """When Spark gives a task up, the table is as it was, and the sentence tells why."""

    def spoil(context, finish):
        finish()
        raise ValueError("unit 7 is cursed")

    poison(monkeypatch, spoil)
    before = {path: path.read_bytes() for path in orders.write(partitions=2).files()}
    with pytest.raises(UnavailableError, match="unit 7 is cursed"):
        packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    assert {path: path.read_bytes() for path in orders.files()} == before
    monkeypatch.undo()
    assert len(packstone.open(str(orders.path), spark=spark).compact(OPTIONS).units) == 2


def writers_of(folder):
    """The processes that hold a staged file open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith(str(folder)) and target.endswith(".data"):
            found.add(int(link.parts[2]))
    return found - {os.getpid()}


def test_a_worker_killed_in_the_middle(spark, orders):
    """A Python worker killed while it writes is replaced; its half file is never seen."""
    before = orders.write(partitions=1, files=6, rows=2_000, width=4_000).ids()
    killed = []

    def kill_one():
        until = time.monotonic() + patient(60)
        while not killed and time.monotonic() < until:
            for pid in writers_of(orders.path.parent):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break

    killer = threading.Thread(target=kill_one)
    killer.start()
    outcome = packstone.open(str(orders.path), spark=spark).compact(OPTIONS)
    killer.join()
    assert len(killed) == 1
    assert (len(outcome.units), len(orders.files())) == (1, 1)
    assert orders.ids() == before


STAMPS = "timestamp'0001-01-01', timestamp'1582-10-10', timestamp'9999-12-31', timestamp'2020-02-29 12:00:00.123456'"
ROWS = f"""
    select id,
        if(id % 7 = 0, null, element_at(array({STAMPS}), cast(id % 4 as int) + 1))
            as stamp,
        element_at(array(date'0001-01-01', date'1582-10-10', date'9999-12-31'), cast(id % 3 as int) + 1) as day,
        cast('2021-03-04 05:06:07.891' as timestamp_ntz) as local,
        cast(id as decimal(9, 2)) as small, cast(id as decimal(18, 4)) as middle, cast(id as decimal(38, 10)) as big,
        cast(id as tinyint) as tiny, cast(id as float) / 0.0 as odd, double('NaN') as nan, -0.0d as zero,
        if(id % 5 = 0, '', concat('ü', id)) as text, cast(concat('x', id) as binary) as bytes,
        array(named_struct('k', id, 'm', map(concat('a', id), array(id, null)))) as deep
    from range(200)
"""
WRITES = {
    "int64": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"},
    "int64 legacy calendar": {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    },
    "int96": {"spark.sql.parquet.outputTimestampType": "INT96"},
    "int96 legacy calendar": {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    },
}


def rows_by_spark(spark, path):
    """All rows as Spark shows them, in an order."""
    frame = spark.read.parquet(str(path))
    texts = frame.selectExpr("cast(struct(*) as string) as row")
    return frame.schema, sorted(row.row for row in texts.collect())


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.sample(4)
def test_spark_reads_what_it_wrote(spark, tmp_path, hostile, write):
    """Every type in both calendars: Spark reads the same schema and rows before and after."""
    hostile(
        {
            "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
            "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
            "spark.sql.session.timeZone": "Europe/Berlin",
            "spark.sql.ansi.enabled": "false",
            **WRITES[write],
        }
    )
    table = tmp_path / "t"
    columns = spark.sql(ROWS)
    if "int96" in write:  # INT96 and INT64 in one file are left alone, see tests/rewrite/test_int96.py
        columns = columns.drop("local")
    columns.repartition(6).write.parquet(str(table))
    before = rows_by_spark(spark, table)
    notes = [pq.read_metadata(path).metadata for path in table.glob("*.parquet")]

    outcome = packstone.open(str(table), spark=spark).compact(OPTIONS)

    assert (len(outcome.units), outcome.skipped) == (1, ())
    (merged,) = table.glob("*.parquet")
    assert pq.read_metadata(merged).metadata == notes[0]
    assert rows_by_spark(spark, table) == before


def test_legacy_lists_of_spark_are_left_alone(spark, tmp_path, hostile):
    """Lists in the layout of Spark 1 and Hive are left alone when planning; the reason names the layout."""
    hostile({"spark.sql.parquet.writeLegacyFormat": "true"})
    table = tmp_path / "t"
    spark.sql("select array(id, null) as l from range(20)").repartition(4).write.parquet(str(table))
    plan = packstone.open(str(table), spark=spark).plan(OPTIONS).outcome
    assert plan.units == ()
    assert "bag" in plan.skipped[0].why


def test_legacy_decimals_of_spark_merge(spark, tmp_path, hostile):
    """Decimals as fixed bytes, which Spark's legacy format writes, come back as fixed bytes."""
    hostile({"spark.sql.parquet.writeLegacyFormat": "true"})
    table = tmp_path / "t"
    spark.sql("select cast(id as decimal(9, 2)) as d from range(20)").repartition(4).write.parquet(str(table))
    before = rows_by_spark(spark, table)
    assert len(packstone.open(str(table), spark=spark).compact(OPTIONS).units) == 1
    (merged,) = table.glob("*.parquet")
    assert pq.read_metadata(merged).schema.column(0).physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert rows_by_spark(spark, table) == before


def test_text_on_spark(spark, tmp_path):
    """CSV files with a header merge on Spark too; Spark reads the same rows."""
    table = tmp_path / "t"
    spark.range(50).repartition(5).write.option("header", True).csv(str(table))
    before = sorted(row.id for row in spark.read.option("header", True).csv(str(table)).collect())
    outcome = packstone.open(str(table), spark=spark).compact(HiveOptions(min_files=2, header_lines=1))
    assert len(outcome.units) == 1
    assert sorted(row.id for row in spark.read.option("header", True).csv(str(table)).collect()) == before


def test_other_writers_in_one_directory(spark, tmp_path):
    """Spark reads the same rows of a directory of several writers before and after."""
    import duckdb
    import polars as pl

    table = tmp_path / "t"
    table.mkdir()
    for at in range(3):
        numbers = [at * 10 + step for step in range(10)]
        frame = pa.table({"id": pa.array(numbers, pa.int64()), "s": [f"s{n}" for n in numbers]})
        pq.write_table(frame, table / f"arrow{at}.parquet")
        pl.from_arrow(frame).write_parquet(table / f"polars{at}.parquet")
        duckdb.from_arrow(frame).write_parquet(str(table / f"duckdb{at}.parquet"))
    before = rows_by_spark(spark, table)
    outcome = packstone.open(str(table), spark=spark).compact(OPTIONS)
    assert outcome.files_after == len(list(table.glob("*.parquet"))) < 9
    assert rows_by_spark(spark, table) == before
