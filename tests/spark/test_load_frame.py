"""Loading Spark DataFrames: all rows once, whatever Spark does with its tasks."""

import importlib.metadata
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from patience import patient

from packstone.errors import InvalidInputError, UnavailableError
from packstone.runs.clock import system_clock
from packstone.spark.engine import SparkEngine
from packstone.spark.frames import SparkFrames
from packstone.spark.session import SparkHandle
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.commit import create_table
from packstone.tables.segments.format.segment_file import read_segment_file
from packstone.tables.segments.format.status_files import read_latest
from packstone.tables.segments.leftovers import list_attempts
from packstone.tables.segments.load import load_files, load_frame
from packstone.tables.segments.load_options import LoadOptions

IO = LocalFileIO()
SCHEMA = "id long, name string, at timestamp, price decimal(12,2), tags array<string>, props map<string,int>"


class Table:
    """A table with what tests ask of it."""

    def __init__(self, path, schema=SCHEMA, **properties):
        self.path = str(path)
        create_table(IO, self.path, parse_columns(schema), properties=properties, clock=system_clock())

    def load(self, frame, **options):
        """Load a frame."""
        return load_frame(IO, self.path, frame, frames=SparkFrames(), options=LoadOptions(**options))

    def contents(self):
        """The segment files."""
        return [read_segment_file(IO, self.path, entry.segment_file) for entry in read_latest(IO, self.path).live]

    def read(self, file):
        """The rows of one file."""
        return pq.ParquetFile(f"{self.path}/{file.path}").read()

    def ids(self):
        """The multiset of ids."""
        found = [self.read(file)["id"].to_pylist() for content in self.contents() for file in content.files]
        return Counter(number for column in found for number in column)

    def left(self):
        """Data files that no segment has."""
        known = {file.path for content in self.contents() for file in content.files}
        found = {str(path.relative_to(self.path)) for path in Path(self.path).rglob("*.parquet")}
        return found - known


@pytest.fixture
def table(tmp_path):
    """A table that sorts by name and id."""
    return Table(tmp_path / "t", SORT_COLUMNS="name,id")


def frame_of(spark, rows=1000, parts=4):
    """Rows of many types, in no order."""
    return spark.range(0, rows, 1, parts).selectExpr(
        f"id * 7919 % {rows} as id",
        "if(id % 10 = 0, null, concat('n', id % 7)) as name",
        "timestamp_micros(id * 1000003) as at",
        "cast(id / 4 as decimal(12,2)) as price",
        "array(cast(id as string), null) as tags",
        "map('a', cast(id as int)) as props",
    )


@pytest.mark.parametrize(("scope", "runs"), [("NO_SORT", 0), ("LOCAL_SORT", 4), ("GLOBAL_SORT", 1)])
@pytest.mark.sample(3)
def test_scopes(spark, table, scope, runs):
    """One task a partition; in global order the files do not overlap."""
    report = table.load(frame_of(spark), sort_scope=scope, verify="content")
    assert (report.rows, report.runs, report.status) == (1000, runs, "success")
    assert table.ids() == Counter(range(1000))
    assert table.left() == set()
    (content,) = table.contents()
    keys = {}
    for file in content.files:
        rows = table.read(file)
        found = zip(rows["name"].to_pylist(), rows["id"].to_pylist(), strict=True)
        keys.setdefault(file.run, []).extend((name is not None, name or "", number) for name, number in found)
    if scope != "NO_SORT":
        assert all(run == sorted(run) for run in keys.values())
    assert list_attempts(IO, table.path) == ()


def test_values_are_those_that_spark_has(spark, table):
    """What Spark reads from the files is what was in the frame."""
    frame = frame_of(spark)
    table.load(frame)
    paths = [f"{table.path}/{file.path}" for content in table.contents() for file in content.files]
    again = spark.read.parquet(*paths)
    columns = ["id", "name", "at", "price", "tags", "props['a'] as a"]
    left, right = frame.selectExpr(*columns), again.selectExpr(*columns)
    assert left.exceptAll(right).count() == 0
    assert left.count() == right.count()


def test_partitions_without_rows(spark, table):
    """Empty partitions write nothing; a frame without rows changes nothing."""
    report = table.load(frame_of(spark, rows=3, parts=8))
    assert (report.rows, report.files) == (3, 3)
    assert table.load(frame_of(spark, rows=10).where("id < 0")).status == "empty"
    assert table.left() == set()


def test_bad_records(spark, tmp_path):
    """Values that do not fit are bad rows, with the partition that they are of."""
    table = Table(tmp_path / "t", "id int not null, name string")
    frame = spark.range(0, 10, 1, 2).selectExpr("if(id = 7, 5000000000L, id) as id", "cast(id as string) as name")
    with pytest.raises(InvalidInputError, match=r"partition 1 of the DataFrame, row 3, column id: '5000000000' is no"):
        table.load(frame)
    assert table.left() == set()
    assert table.load(frame, bad_records="REDIRECT").bad_rows == 1
    with pytest.raises(InvalidInputError, match="columns that the table does not have: x"):
        table.load(frame.selectExpr("id as x"))


@pytest.mark.slow
def test_a_task_that_is_tried_again(spark, table, tmp_path):
    """A task that fails on its first try leaves nothing of it in the table."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def stumble(batches):
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        yield from batches
        if part == 1 and not (marks / "1").exists():
            (marks / "1").touch()
            raise RuntimeError("a lost executor")

    frame = frame_of(spark).mapInArrow(stumble, frame_of(spark).schema)
    report = table.load(frame)
    assert report.rows == 1000
    assert (marks / "1").exists()
    assert table.ids() == Counter(range(1000))
    assert table.left() == set()


@pytest.mark.slow
def test_a_job_that_fails(spark, table):
    """A frame that cannot be computed ends the load; its entry and its files are gone."""

    def fail(batches):
        yield from batches
        raise RuntimeError("no luck at all")

    with pytest.raises(UnavailableError, match="no luck at all"):
        table.load(frame_of(spark).mapInArrow(fail, frame_of(spark).schema))
    assert read_latest(IO, table.path).entries == ()
    assert table.left() == set()


@pytest.mark.parametrize("scope", ["LOCAL_SORT", "GLOBAL_SORT"])
@pytest.mark.sample(2)
def test_files_by_spark(spark, table, tmp_path, scope):
    """Files are loaded by Spark tasks too."""
    frame_of(spark).write.parquet(str(tmp_path / "in"))
    engine = SparkEngine(SparkHandle(spark, is_ours=False), IO)
    options = LoadOptions(sort_scope=scope, task_bytes=10_000)
    report = load_files(IO, table.path, [str(tmp_path / "in")], options=options, engine=engine)
    assert report.rows == 1000
    assert table.ids() == Counter(range(1000))
    assert table.left() == set()


CONNECT = """
import sys
from packstone.spark.frames import SparkFrames
from packstone.spark.session import SparkSettings, open_spark
from packstone.tables.segments.load import load_frame
from packstone.tables.segments.load_options import LoadOptions
from packstone.storage.local import LocalFileIO

handle = open_spark(SparkSettings(remote="local[2]", log_path=sys.argv[2]))
assert handle.is_connect
frame = handle.spark.range(0, 1000, 1, 3).selectExpr("id", "concat('n', id % 7) as name")
for scope in ("LOCAL_SORT", "GLOBAL_SORT"):
    report = load_frame(LocalFileIO(), sys.argv[1], frame, frames=SparkFrames(), options=LoadOptions(sort_scope=scope))
    print(report.rows, report.runs)
handle.stop()
"""


@pytest.mark.connect
def test_spark_connect(table, program, tmp_path):
    """Through Spark Connect the same comes out."""
    pytest.importorskip("grpc")
    if importlib.metadata.version("pyspark").startswith("3."):
        pytest.skip("the server is a package of its own before Spark 4")
    child = program(CONNECT, table.path, tmp_path / "logs" / "spark.log")
    out, _ = child.communicate(timeout=patient(180))
    assert out == "1000 3\n1000 1\n", (tmp_path / "program0.log").read_text()[-3000:]
    assert table.ids() == Counter(dict.fromkeys(range(1000), 2))
