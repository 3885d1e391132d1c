"""``df.write.format("packstone")``: all rows once, whatever happens to tasks, drivers and streams."""

import importlib.metadata
import json
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from patience import patient

import packstone
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.status_files import read_latest

pytestmark = pytest.mark.skipif(
    importlib.metadata.version("pyspark").startswith("3."), reason="Python data sources need Spark 4.0"
)


def rows_of(path):
    """The multiset of ids, by DuckDB from the live files."""
    paths = Table(str(path)).segments.files().paths
    if not paths:
        return Counter()
    with duckdb.connect() as connection:
        found = connection.execute("SELECT id FROM read_parquet($paths)", {"paths": list(paths)}).fetchall()
    return Counter(row[0] for row in found)


def left_over(path):
    """Data files that no segment has, and loads that are still registered."""
    files = {str(one) for one in Path(path).glob("Fact/**/*.parquet")}
    loading = [row.id for row in Table(str(path)).segments.show().rows if "Progress" in row.status]
    return sorted(files - set(Table(str(path)).segments.files().paths)), loading


def numbers(spark, first, after, parts=2):
    """Numbers with a text."""
    return spark.range(first, after, 1, parts).selectExpr("id", "concat('n', id) as name")


def write(frame, path, mode="append", **options):
    """Save through the data source."""
    frame.write.format("packstone").mode(mode).options(**options).save(str(path))


def test_append_creates_labels_and_overwrite(spark, tmp_path):
    """The first write creates the table, a label is loaded once, overwrite replaces."""
    path = tmp_path / "t"
    write(numbers(spark, 0, 10), path, sort_by="name", table_blocksize="64")
    described = packstone.open(str(path)).segments.describe()
    assert (described.sort_columns, dict(described.properties)["TABLE_BLOCKSIZE"]) == (("name",), "64")
    assert all(column.nullable for column in described.columns)
    for _ in range(2):
        write(numbers(spark, 10, 20), path, label="second")
    assert rows_of(path) == Counter(range(20))
    write(numbers(spark, 50, 60, parts=3), path, "overwrite", sort_scope="global", verify="content")
    assert rows_of(path) == Counter(range(50, 60))
    assert left_over(path)[1] == []
    (content,) = [row for row in packstone.open(str(path)).segments.show().rows if row.status == "Success"]
    assert content.rows == 10


def test_a_task_that_fails_leaves_nothing_and_one_that_is_tried_again_no_trace(spark, tmp_path):
    """Only the attempt whose message is committed counts; a write that fails is abandoned."""
    path, marks = tmp_path / "t", tmp_path / "marks"
    write(numbers(spark, 0, 10), path)
    marks.mkdir()

    def stumble(batches, *, times):
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 1:
            (marks / f"{times}-{context.attemptNumber()}").touch()
            if context.attemptNumber() < times:
                raise RuntimeError("a lost executor")

    frame = numbers(spark, 10, 30, parts=3)
    write(frame.mapInArrow(lambda batches: stumble(batches, times=1), frame.schema), path)
    assert rows_of(path) == Counter(range(30))
    assert left_over(path) == ([], [])
    with pytest.raises(Exception, match="a lost executor"):
        write(frame.mapInArrow(lambda batches: stumble(batches, times=9), frame.schema), path)
    assert rows_of(path) == Counter(range(30))
    assert left_over(path)[1] == []
    assert len(list(marks.iterdir())) == 2 + 3
    assert not packstone.open(str(path)).clean().left_alone


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"nix": "1"}, "The option nix is unknown"),
        ({"sort_by": "name"}, "has SORT_COLUMNS=id, not name"),
        ({"bad_records": "eat"}, "'eat' is not one of"),
        ({"block_mb": "x"}, "block-mb is 'x', not a number"),
    ],
)
@pytest.mark.sample(4)
def test_wrong_options(spark, tmp_path, options, part):
    """One sentence says what is wrong, and nothing is registered."""
    packstone.create(str(tmp_path / "t"), "id long, name string", sort_by=["id"])
    with pytest.raises(Exception, match=part):
        write(numbers(spark, 0, 1), tmp_path / "t", **options)
    assert left_over(tmp_path / "t") == ([], [])


@pytest.mark.slow
def test_bad_rows_and_merges_are_those_of_other_loads(spark, tmp_path):
    """Bad rows fail the load or are redirected, and AUTO_LOAD_MERGE merges after a write."""
    path = tmp_path / "t"
    table = packstone.create(
        str(path), "id int, name string", properties={"AUTO_LOAD_MERGE": "true", "COMPACTION_LEVEL_THRESHOLD": "2,0"}
    )
    frame = spark.range(0, 4, 1, 2).selectExpr("if(id = 3, 5000000000L, id) as id", "'x' as name")
    with pytest.raises(Exception, match="'5000000000' is no"):
        write(frame, path)
    assert left_over(path) == ([], [])
    write(frame, path, bad_records="redirect")
    write(frame.where("id < 3"), path)
    assert rows_of(path) == Counter([0, 1, 2] * 2)
    assert [str(row.id) for row in table.segments.show().rows if "Success" in row.status][:1] == ["1.1"]


@pytest.mark.slow
def test_sql_reads_and_writes(spark, tmp_path):
    """A catalog's table is read by its location; writes name the folder, which Spark passes only so."""
    path = str(tmp_path / "t")
    write(numbers(spark, 0, 10), path)
    numbers(spark, 10, 12).createOrReplaceTempView("more")
    try:
        spark.sql(f"CREATE TABLE by_location USING packstone LOCATION '{path}' COMMENT 'x' TBLPROPERTIES (a 'b')")
        spark.sql(f"CREATE TABLE by_options USING packstone OPTIONS (path '{path}', where 'id < 3')")
        spark.catalog.createTable("by_catalog", path=path, source="packstone")
        with pytest.raises(Exception, match=r"INSERT INTO t WITH \(path="):
            spark.sql("INSERT INTO by_location SELECT * FROM more")
        spark.sql(f"INSERT INTO by_location WITH (path='{path}', label='a') SELECT * FROM more")
        assert rows_of(path) == Counter(range(12))
        assert spark.table("by_location").count() == spark.table("by_catalog").count() == 12
        assert sorted(row.id for row in spark.table("by_options").collect()) == [0, 1, 2]
        assert spark.sql("SELECT count(*) FROM by_location a JOIN by_options b USING (id)").first()[0] == 3
        spark.sql(f"INSERT OVERWRITE by_location WITH (path='{path}') VALUES (7, 'x')")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW by_view USING packstone OPTIONS (path '{path}')")
        spark.sql("INSERT INTO by_view SELECT id, name FROM more")
        spark.sql("INSERT OVERWRITE by_view SELECT id, name FROM more WHERE id < 0")
        assert rows_of(path) == Counter([7, 10, 11])  # no rows change nothing
    finally:
        for name in ("by_location", "by_options", "by_catalog"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    assert rows_of(path) == Counter([7, 10, 11])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["columns", "saveAsTable"])
def test_an_entry_of_the_catalog_that_cannot_be_read(spark, tmp_path, how):
    """Spark does not pass its location: the error says how to make an entry that can be read, and no row is lost."""
    path = str(tmp_path / "t")
    try:
        if how == "columns":
            write(numbers(spark, 0, 10), path)
            spark.sql(f"CREATE TABLE entry (id BIGINT, name STRING) USING packstone LOCATION '{path}'")
        else:
            frame = numbers(spark, 0, 10).write.format("packstone").mode("append")
            frame.option("path", path).saveAsTable("entry")
        with pytest.raises(Exception, match=r"run DROP TABLE t, then CREATE TABLE t USING packstone LOCATION"):
            spark.sql("SELECT * FROM entry").collect()
        spark.sql("DROP TABLE entry")
        spark.sql(f"CREATE TABLE entry USING packstone LOCATION '{path}'")
        assert spark.table("entry").count() == 10
    finally:
        spark.sql("DROP TABLE IF EXISTS entry")


@pytest.fixture
def batches(tmp_path):
    """Write batches of a stream as Spark's processes do: one sends a writer to tasks, another one commits."""
    import pyarrow as pa
    from pyspark import cloudpickle
    from pyspark.sql.datasource import CaseInsensitiveDict
    from pyspark.sql.types import LongType, StructField, StructType

    from pyspark_packstone import DefaultSource

    options = CaseInsensitiveDict({"path": str(tmp_path / "t"), "checkpointLocation": str(tmp_path / "checkpoint")})
    schema = StructType([StructField("id", LongType())])

    def write(number, ids, *, fails=False):
        sent = cloudpickle.dumps(DefaultSource(options).streamWriter(schema, overwrite=False))
        rows = pa.record_batch({"id": ids})
        message = cloudpickle.loads(sent)._load.write(iter([rows]), query="q")
        committer = DefaultSource(options).streamWriter(schema, overwrite=False)
        if fails:
            committer.abort([None], number)
        else:
            committer.commit([cloudpickle.loads(cloudpickle.dumps(message))], number)

    return write


def test_a_batch_counts_once(batches, tmp_path):
    """A batch that is committed again is a no-op, one whose tasks all failed leaves nothing, and its retry counts."""
    path = tmp_path / "t"
    batches(0, [1, 2])
    batches(0, [1, 2])
    batches(1, [3], fails=True)
    assert rows_of(path) == Counter([1, 2])
    assert left_over(path) == ([], [])
    batches(1, [3])
    assert rows_of(path) == Counter([1, 2, 3])
    assert left_over(path) == ([], [])


STREAM = """
import os, sys
from pyspark.sql import SparkSession

path, source, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.readStream.schema("id long, name string").option("maxFilesPerTrigger", 1).parquet(source)
writer = frame.writeStream.format("packstone").option("checkpointLocation", checkpoint)
query = writer.trigger(availableNow=True).start(path)
query.awaitTermination()
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_stream_loads_each_batch_once(spark, program, tmp_path):
    """A batch that was committed is a no-op when Spark runs it again, as after a kill before its own commit log."""
    path, source, checkpoint = tmp_path / "t", tmp_path / "source", tmp_path / "checkpoint"
    for first in range(0, 40, 10):
        numbers(spark, first, first + 10, parts=1).write.mode("append").parquet(str(source))
    for _ in range(2):
        out, _ = program(STREAM, path, source, checkpoint).communicate(timeout=patient(120))
        assert out == "done\n"
        assert rows_of(path) == Counter(range(40))
        labels = [one.label for one in read_latest(LocalFileIO(), str(path)).labels]
        query = json.loads((checkpoint / "metadata").read_text())["id"]
        assert labels == [f"spark stream {query} batch {number}" for number in range(4)]
        newest = max(checkpoint.glob("commits/[0-9]*"), key=lambda one: int(one.name))
        for one in (newest, newest.with_name(f".{newest.name}.crc")):
            one.unlink()
    assert left_over(path) == ([], [])


BATCH = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

path, marks = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

def wait(batches):
    from pyspark import TaskContext
    number = TaskContext.get().partitionId()
    yield from batches
    Path(marks, str(number)).touch()
    while number == 1:
        time.sleep(0.1)

frame = spark.range(0, 100000, 1, 2).selectExpr("id", "cast(id as string) as name")
frame.mapInArrow(wait, frame.schema).write.format("packstone").mode("append").save(path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["python", "java"])
def test_a_driver_that_is_killed(spark, program, tmp_path, victim):
    """Its load is registered and alive until then; afterwards clean removes what it wrote, and the table works on."""
    path, marks = tmp_path / "t", tmp_path / "marks"
    write(numbers(spark, 0, 10), path)
    marks.mkdir()
    child = program(BATCH, path, marks)
    wait_for(lambda: (marks / "1").exists() and len(left_over(path)[0]) > 0)
    assert left_over(path)[1] != []
    assert any("still running" in text for text in packstone.open(str(path)).clean().left_alone)
    jvm = find_jvm(child.pid)
    os.kill(child.pid if victim == "python" else jvm, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{jvm}").exists() or "Z" in Path(f"/proc/{jvm}/stat").read_text().split()[2])
    child.kill()
    child.communicate()
    packstone.open(str(path)).recover()
    packstone.open(str(path)).clean()
    assert left_over(path) == ([], [])
    write(numbers(spark, 10, 20), path)
    assert rows_of(path) == Counter(range(20))


LOST_SHUFFLE = """
import os, sys
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession

path, marks = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

def mark(batches):
    Path(marks, f"read-{TaskContext.get().taskAttemptId()}").touch()
    yield from batches

def lose(batches):
    yield from batches
    lost = Path(marks, "lost")
    if TaskContext.get().partitionId() == 0 and not lost.exists():
        lost.touch()
        for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
            for one in Path(folder).rglob("shuffle_*"):
                one.unlink(missing_ok=True)

rows = spark.range(0, 40000, 1, 4).selectExpr("id", "cast(id as string) as name")
shuffled = rows.mapInArrow(mark, rows.schema).repartition(8, "id")
shuffled.mapInArrow(lose, rows.schema).write.format("packstone").mode("append").save(path)
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_stage_that_is_run_again_writes_its_rows_once(program, tmp_path):
    """The shuffle files are lost midway: Spark runs the stage before, and the tasks that found none, again."""
    path, marks = tmp_path / "t", tmp_path / "marks"
    marks.mkdir()
    out, _ = program(LOST_SHUFFLE, path, marks).communicate(timeout=patient(120))
    assert out == "done\n", (tmp_path / "program0.log").read_text()[-3000:]
    assert rows_of(path) == Counter(range(40_000))
    assert len(list(marks.glob("read-*"))) > 4
    assert left_over(path) == ([], [])


def wait_for(condition):
    """Wait until something is so."""
    end = time.monotonic() + patient(120)
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def find_jvm(pid):
    """The JVM that a PySpark program has started."""
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = one.read_text().rpartition(")")
        except OSError:
            continue
        if head.endswith("(java") and int(rest.split()[1]) == pid:
            return int(one.parent.name)
    raise AssertionError("no JVM")


def test_what_the_installed_spark_does_not_offer(spark, tmp_path):
    """Facts that docs/scan.md states, and why: a Spark that offers more should be used."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    path = str(tmp_path / "t")
    write(numbers(spark, 0, 10), path)
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(numbers(spark, 0, 1), path, mode)
    frame = numbers(spark, 10, 20)
    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            thread.submit(write, frame, path).result()
        thread.submit(packstone.open(path).segments.load, frame).result()
        thread.submit(lambda: spark.createDataFrame([(1,)], "x int")).result()
        thread.submit(write, numbers(spark, 20, 30), path).result()
    assert rows_of(path) == Counter(range(30))
    offered = {name.lower() for kind in (DataSource, DataSourceReader) for name in vars(kind)}
    assert not any("statistic" in name or "column" in name for name in offered)
    frames = (spark.read.format("packstone").load(path), packstone.open(path).scan().to_df(spark))
    sizes = [int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())) for frame in frames]
    assert sizes[0] == 2**63 - 1
    assert 30 * 8 <= sizes[1] < 10_000


@pytest.fixture
def ten_numbers(spark):
    """A data source that takes filters, as Spark's documentation shows it."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

    class Reader(DataSourceReader):
        numbers = range(10)

        def pushFilters(self, filters):  # noqa: N802 - Spark's name
            for one in filters:
                if isinstance(one, EqualTo):
                    self.numbers = [one.value]
                else:
                    yield one

        def partitions(self):
            return [InputPartition(tuple(self.numbers))]

        def read(self, partition):
            yield from ((number,) for number in partition.value)

    class TenNumbers(DataSource):
        def schema(self):
            return "x int"

        def reader(self, schema):
            return Reader()

    spark.dataSource.register(TenNumbers)
    return "TenNumbers"


@pytest.mark.slow
def test_filters_are_pushed_only_if_spark_keeps_them_apart(spark, hostile, ten_numbers):
    """Spark 4.3 applies a pushed filter to other scans of one ``load()``; as long as it does, we accept none."""
    from pyspark.sql.datasource import DataSourceReader

    from packstone.spark.data_source import TableReader

    hostile({"spark.sql.python.filterPushdown.enabled": "true"})
    frame = spark.read.format(ten_numbers).load()
    one, two = frame.where("x = 1"), frame.where("x = 2")
    counts = one.count(), frame.count(), one.union(two).distinct().count(), frame.join(one, "x").count()
    is_correct = counts == (1, 10, 2, 1)
    is_used = TableReader.pushFilters is not DataSourceReader.pushFilters
    assert is_used == is_correct, f"{counts}: filters can be pushed now" if is_correct else counts
