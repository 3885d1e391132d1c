"""Scans through Spark: DataFrames and ``format("packstone")`` give the rows that Spark SQL gives, batch and stream."""

import importlib.metadata
import json
import shutil
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))  # tests are imported by path, not as packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from paimon_interop.rows import plain as paimon_plain
from patience import patient
from scan_cases import FILTERS, ROWS, arrow_rows, duck_rows, load_duck, make_table, plain

import packstone
from packstone.errors import RefusedError
from packstone.pipeline.table import Table
from packstone.spark.frames import read_splits
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.options import SegmentOptions

TESTS = Path(__file__).parents[1]
IS_OLD = importlib.metadata.version("pyspark").startswith("3.")
needs_source = pytest.mark.skipif(IS_OLD, reason="Python data sources need Spark 4.0")
PRUNES_MEMORY = "spark.sql.inMemoryColumnarStorage.partitionPruning"
FIXTURES = TESTS / "testdata" / "paimon"
# One of every kind goes through the data source too; starting Python workers takes its time.
THROUGH_SOURCE = [where for at, where in enumerate(FILTERS) if at % 3 == 0] + ["ratio > 740", "FALSE", "small IS NULL"]


@pytest.fixture(scope="module")
def table(tmp_path_factory, spark):
    """The table of all filters; no test changes it."""
    return packstone.open(make_table(tmp_path_factory.mktemp("scan") / "t").path, spark=spark)


@pytest.fixture
def small(tmp_path, spark):
    """A table of two columns and one load."""
    made = packstone.create(str(tmp_path / "t"), "id long, name string", sort_by=["id"])
    load(made, 0)
    return made


def load(table, first, count=10):
    """Rows by number."""
    table.segments.load(
        pa.table({"id": range(first, first + count), "name": [f"n{n}" for n in range(first, first + count)]})
    )


@pytest.fixture(scope="module")
def everything(table, spark):
    """All rows in Spark's memory, where nothing is pruned: statistics leave NaN out, there as in Parquet files."""
    spark.conf.set(PRUNES_MEMORY, "false")
    frame = spark.read.schema(table.segments.to_df(spark).schema).parquet(*table.segments.files().paths).cache()
    assert frame.count() == ROWS
    yield frame
    frame.unpersist()
    spark.conf.unset(PRUNES_MEMORY)


def source(spark, path, **options):
    """The data source with options."""
    return (
        spark.read.format("packstone").options(**{name.replace("_", "-"): v for name, v in options.items()}).load(path)
    )


def ids(frame):
    """The ids of a DataFrame, in order."""
    return sorted(row.id for row in frame.select("id").collect())


def rows_of(frame):
    """Rows with moments as wall times of UTC, which is the session's zone here: `collect` would take the machine's."""
    as_wall = "to_timestamp_ntz(cast({0} as string)) as {0}"
    names = [as_wall.format(name) if kind == "timestamp" else f"`{name}`" for name, kind in frame.dtypes]
    return plain(map(tuple, frame.selectExpr(*names).collect()))


@pytest.fixture
def utc(hostile):
    """A session in UTC."""
    hostile({"spark.sql.session.timeZone": "UTC"})


@pytest.mark.slow
def test_dataframes_are_what_spark_sql_and_duckdb_say(table, everything, spark, utc):
    """By tasks, by the driver, and as Arrow, for every kind of filter."""
    with duckdb.connect() as connection:
        duck = load_duck(connection, table.segments.files().paths)
        for where, in_duck in FILTERS.items():
            expected = rows_of(everything.where(where))
            scan = table.scan(where=where)
            assert rows_of(scan.to_df(spark, driver_bytes=0)) == expected, where
            assert rows_of(scan.to_df(spark)) == expected, where
            assert plain(arrow_rows(scan.to_arrow())) == expected, where
            assert plain(duck_rows(duck, in_duck or where)) == expected, where


@pytest.mark.slow
def test_dataframes_by_tasks(table, everything, spark, utc):
    """What cannot be left to Spark's reader is read by tasks, and the same comes out."""
    for where in ("id BETWEEN 995 AND 1004", "ratio > 740", "FALSE", "TRUE"):
        plan = table.scan(where=where)._plan()
        assert rows_of(read_splits(spark, plan, LocalFileIO())) == rows_of(everything.where(where)), where


def test_what_no_index_helps_with_is_left_to_spark(table, everything, spark):
    """Functions and pairs of columns are tested by Spark, also on columns that do not come out."""
    where = "upper(name) = 'N17' AND id < 500 AND length(name) > small"
    frame = table.scan(["id"], where).to_df(spark)
    assert frame.columns == ["id"]
    assert ids(frame) == ids(everything.where(where)) != []


def test_wall_times_are_of_the_session(table, everything, spark, hostile):
    """A time without a zone means the session's, in the index as in Spark; a scan may name another."""
    hostile({"spark.sql.session.timeZone": "Europe/Berlin"})
    where = "moment < TIMESTAMP '2024-03-31 03:30:00'"  # half an hour after the clocks went forward
    expected = ids(everything.where(where))
    assert ids(table.scan(where=where).to_df(spark)) == expected
    assert len(expected) == 24 * 60 + 90
    assert table.scan(where=where, timezone="Europe/Berlin").count() == len(expected)
    assert table.scan(where=where).count() == len(expected) + 120


def test_a_zone_that_is_not_the_session_s_counts_for_spark_too(table, spark, hostile):
    """Spark gets moments instead of wall times; what it alone can test of times is refused, because it would not."""
    hostile({"spark.sql.session.timeZone": "America/New_York"})
    for where in ("moment < TIMESTAMP '2024-03-30 12:00:00'", "ratio > 1 AND moment < '2024-03-30 12:00:00'"):
        scan = table.scan(["id"], where, timezone="Asia/Tokyo")
        assert ids(scan.to_df(spark)) == sorted(scan.to_arrow()["id"].to_pylist()) != []
    assert table.scan(["id"], "upper(name) = 'N1'", timezone="Asia/Tokyo").to_df(spark).count() == 9
    with pytest.raises(RefusedError, match=r"in America/New_York, not in Asia/Tokyo"):
        table.scan(["id"], "hour(moment) = 3", timezone="Asia/Tokyo").to_df(spark)


def test_wall_times_where_clocks_go_forward(table, spark, hostile):
    """Times without zone that the session's clocks leave out are compared as they stand."""
    hostile({"spark.sql.session.timeZone": "Europe/Berlin"})
    where = "ratio > -100 AND wall > TIMESTAMP_NTZ '2024-03-31 02:30:00'"
    scan = table.scan(["id"], where)
    assert ids(scan.to_df(spark)) == sorted(scan.to_arrow()["id"].to_pylist()) != []


@pytest.mark.parametrize("case", ["pk_overlapping", "java_deletes", "append_partitions", "java_evolved", "orc"])
@pytest.mark.sample(5)
def test_paimon_tables_as_dataframes(case, spark, tmp_path):
    """Merged where versions must be merged, by Spark's reader where not."""
    shutil.copytree(FIXTURES / case / "table", tmp_path / "table")
    expected = json.loads((FIXTURES / case / "expected.json").read_text())
    names = expected["columns"]
    table = Table(str(tmp_path / "table"))
    frames = [table.scan(names).to_df(spark)]
    if not IS_OLD:
        frames.append(source(spark, table.path).select(*names))
    for frame in frames:
        found = [[paimon_plain(value) for value in row] for row in frame.collect()]
        assert sorted(found, key=repr) == sorted(expected["rows"], key=repr)


@pytest.mark.slow
@needs_source
def test_the_source_gives_what_spark_sql_gives(table, everything, spark, utc):
    """The option where is a filter like any other; the types are the table's."""
    frame = source(spark, table.path)
    assert frame.dtypes == everything.dtypes
    assert rows_of(frame) == rows_of(everything)
    for where in THROUGH_SOURCE:
        assert rows_of(source(spark, table.path, where=where)) == rows_of(everything.where(where)), where


@needs_source
def test_columns_versions_and_moments(small, spark):
    """A schema of fewer columns reads fewer; versions by number and by time."""
    load(small, 10)
    few = spark.read.format("packstone").schema("name string").option("where", "id = 3").load(small.path)
    assert [tuple(row) for row in few.collect()] == [("n3",)]
    assert ids(source(spark, small.path, version="3")) == list(range(10))
    before = small.segments.versions()[1].written_ms - 1
    moment = spark.sql(f"SELECT date_format(timestamp_millis({before}), 'yyyy-MM-dd HH:mm:ss.SSSXXX')").first()[0]
    assert len(ids(source(spark, small.path, as_of=moment.replace("Z", "+00:00")))) in (0, 10)


@needs_source
def test_a_filter_never_stays_for_the_next_query(small, spark):
    """What Spark 4.3 does to sources with pushFilters: a filter of one query in force for another. Not to ours."""
    frame = source(spark, small.path)
    assert ids(frame.where("id = 1")) == [1]
    assert (frame.count(), ids(frame.where("id = 2"))) == (10, [2])
    assert ids(frame.where("id = 1").union(frame.where("id = 2"))) == [1, 2]
    assert frame.alias("a").join(frame.where("id < 3").alias("b"), "id").count() == 3
    frame.createOrReplaceTempView("by_frame")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW by_sql USING packstone OPTIONS (path '{small.path}', where 'id < 8')")
    for view, count in (("by_frame", 10), ("by_sql", 8)):
        both = f"SELECT id FROM {view} WHERE id = 1 UNION ALL SELECT id FROM {view} WHERE id = 2"
        assert ids(spark.sql(both)) == [1, 2]
        assert ids(spark.sql(f"SELECT * FROM {view} WHERE name = 'n5'")) == [5]
        assert spark.table(view).count() == count
    from pyspark.sql.datasource import DataSourceReader

    from packstone.spark.data_source import TableReader

    assert TableReader.pushFilters is DataSourceReader.pushFilters


@needs_source
@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"nix": "1"}, "The option nix is unknown"),
        ({"where": "upper(name) = 'N1'"}, "put that into .where"),
        ({"where": "nix = 1"}, "nix"),
        ({"version": "x"}, "The version x is not a number"),
        ({"version": "77"}, "no version 77"),
    ],
)
@pytest.mark.sample(5)
def test_wrong_options(small, spark, options, part):
    """One sentence says what is wrong."""
    with pytest.raises(Exception, match=part):
        source(spark, small.path, **options).collect()


@needs_source
@pytest.mark.slow
def test_wrong_schemas(small, spark):
    """A column that is not there, or has another type, is named."""
    for schema, part in (("nix long", "no column 'nix'"), ("id int", "is bigint, not int")):
        with pytest.raises(Exception, match=part):
            spark.read.format("packstone").schema(schema).load(small.path).collect()


class Stream:
    """A stream of a table into a folder of Parquet files; each run takes what is there and stops."""

    def __init__(self, spark, table, folder, **options):
        self.spark, self.table, self.folder = spark, table, str(folder)
        self.options = {name.replace("_", "-"): value for name, value in options.items()}

    def run(self):
        """Take what is there now; all ids so far."""
        frame = self.spark.readStream.format("packstone").options(**self.options).load(self.table.path)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{self.folder}/checkpoint")
        query = writer.trigger(availableNow=True).start(f"{self.folder}/rows")
        query.awaitTermination(120)
        return ids(self.spark.read.schema("id long, name string").parquet(f"{self.folder}/rows"))


@pytest.mark.slow
@needs_source
def test_a_stream_gives_every_row_once(small, spark, tmp_path):
    """Loads come, compactions and deletes give nothing, a load that was merged before anybody looked is not missed."""
    stream = Stream(spark, small, tmp_path / "out")
    assert stream.run() == list(range(10))
    load(small, 10)
    load(small, 20)
    assert stream.run() == list(range(30))
    load(small, 30)
    small.compact(SegmentOptions(strategy="major"))  # old and new rows in one segment
    load(small, 40)
    small.segments.delete(ids=["4"])
    load(small, 50)
    assert stream.run() == list(range(60))
    small.compact(SegmentOptions(strategy="major"))
    assert stream.run() == list(range(60))


@needs_source
@pytest.mark.slow
def test_streams_that_begin_later_and_filters(small, spark, tmp_path):
    """From a version on, or from the newest on; the option where works as in batches."""
    from packstone.spark.data_source import TableStreamReader

    load(small, 10)
    assert Stream(spark, small, tmp_path / "a", starting_version="3", where="id >= 12").run() == list(range(12, 20))
    schema = source(spark, small.path).schema
    reader = TableStreamReader({"path": small.path, "starting-version": "latest"}, schema)
    begin = reader.initialOffset()
    load(small, 20)
    splits = reader.partitions(begin, reader.latestOffset())
    assert sum(batch.num_rows for split in splits for batch in reader.read(split)) == 10
    assert reader.partitions(reader.latestOffset(), reader.latestOffset()) == []
    begin = reader.latestOffset()
    small.segments.load(pa.table({"id": [7], "name": ["new"]}), overwrite=True)
    splits = reader.partitions(begin, reader.latestOffset())
    assert [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()] == [
        {"id": 7, "name": "new"}
    ]


@needs_source
def test_a_stream_that_has_fallen_behind_says_so(small, spark):
    """If versions in between are cleaned, rows may be missing, so the stream stops."""
    from packstone.errors import InvalidInputError
    from packstone.spark.data_source import TableStreamReader
    from packstone.storage.local import LocalFileIO
    from packstone.tables.segments.format.status_files import raise_floor

    reader = TableStreamReader({"path": small.path}, source(spark, small.path).schema)
    begin = reader.latestOffset()
    load(small, 10)
    raise_floor(LocalFileIO(), small.path, begin["version"] + 1)
    with pytest.raises(InvalidInputError, match="begin a new stream"):
        reader.partitions(begin, reader.latestOffset())


@needs_source
def test_streams_of_paimon_tables(spark, tmp_path):
    """Appends of a table without a key come once; a table with one is refused, because its changes are updates."""
    from packstone.spark.data_source import TableStreamReader

    shutil.copytree(FIXTURES / "append_unaware" / "table", tmp_path / "append")
    expected = json.loads((FIXTURES / "append_unaware" / "expected.json").read_text())["rows"]
    path = str(tmp_path / "append")
    reader = TableStreamReader({"path": path}, source(spark, path).schema)
    last = reader.latestOffset()["version"]

    def count(after, upto):
        splits = reader.partitions({"version": after}, {"version": upto})
        return sum(batch.num_rows for split in splits for batch in reader.read(split))

    assert count(0, last) == len(expected)
    assert count(0, 1) + sum(count(number, number + 1) for number in range(1, last)) == len(expected)
    shutil.copytree(FIXTURES / "pk_overlapping" / "table", tmp_path / "keyed")
    keyed = TableStreamReader({"path": str(tmp_path / "keyed")}, source(spark, str(tmp_path / "keyed")).schema)
    with pytest.raises(RefusedError, match="primary key"):
        keyed.latestOffset()


CONNECT = """
import sys
import packstone
from packstone.spark.session import SparkSettings, open_spark

handle = open_spark(SparkSettings(remote="local[2]", log_path=sys.argv[2]))
assert handle.is_connect
spark, path = handle.spark, sys.argv[1]

def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())

frame = spark.read.format("packstone").load(path)
print(ids(frame.where("id = 1")), frame.count(), ids(frame.where("id = 1").union(frame.where("id = 2"))))
frame.createOrReplaceTempView("v")
print(ids(spark.sql("SELECT id FROM v WHERE id = 1")), spark.table("v").count())
print(ids(spark.read.format("packstone").option("where", "id < 3").load(path)))
table = packstone.open(path, spark=spark)
print(ids(table.scan(where="id < 3").to_df(spark)), ids(table.scan(["id"], "upper(name) = 'N4'").to_df(spark)))
handle.stop()
"""


@pytest.mark.connect
@needs_source
def test_spark_connect(small, program, tmp_path):
    """Through Spark Connect the same comes out, also for filters one after the other."""
    pytest.importorskip("grpc")
    child = program(CONNECT, small.path, tmp_path / "logs" / "spark.log")
    out, _ = child.communicate(timeout=patient(240))
    assert out.splitlines() == ["[1] 10 [1, 2]", "[1] 10", "[0, 1, 2]", "[0, 1, 2] [4]"], (
        tmp_path / "program0.log"
    ).read_text()[-3000:]
