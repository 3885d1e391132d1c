"""Loading: every row once, in the order requested, bad rows apart, and nothing left of a load that failed."""

import json
import math
import os
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.errors import ConflictError, InvalidInputError, UnavailableError, UnreadableFileError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.pipeline.table import Table as OpenTable
from packstone.rewrite.load.input_files import InputOptions
from packstone.runs.clock import system_clock
from packstone.runs.engine import InlineEngine
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.commit import commit_edit, create_table
from packstone.tables.segments.format.edits import abandon_attempt, alter_properties
from packstone.tables.segments.format.segment_file import read_index, read_segment_file
from packstone.tables.segments.format.status_files import read_latest, read_retired
from packstone.tables.segments.load import load_batches, load_files
from packstone.tables.segments.load_options import LoadOptions

IO = LocalFileIO()
SCHEMA = "id long, name string, score double, day date"


class Table:
    """A table with what tests ask of it."""

    def __init__(self, path: Path, schema=SCHEMA, **properties):
        self.path = str(path)
        create_table(IO, self.path, parse_columns(schema), properties=properties, clock=system_clock())

    def load(self, data, **options):
        """Load files if these are paths, else an Arrow stream."""
        if isinstance(data, (list, Path)):
            paths = [str(path) for path in (data if isinstance(data, list) else [data])]
            return load_files(IO, self.path, paths, options=LoadOptions(**options), engine=InlineEngine(IO))
        return load_batches(IO, self.path, data, options=LoadOptions(**options))

    @property
    def status(self):
        """The newest."""
        return read_latest(IO, self.path)

    def segment(self, number):
        """The segment file of a load."""
        return read_segment_file(IO, self.path, self.status.find(SegmentId(number)).segment_file)

    def rows(self):
        """All rows in the order of segments and their files, by DuckDB."""
        names = [file.path for entry in self.status.live for file in self.segment(entry.id.load).files]
        found = [duckdb.sql(f"select * from '{self.path}/{name}'").fetchall() for name in names]
        return [row for rows in found for row in rows]

    def files(self):
        """Everything that stands below the table, but for the status and what remembers old versions."""
        skipped = ("status", "latest", "retired")
        found = [path.relative_to(self.path) for path in Path(self.path).rglob("*") if path.is_file()]
        return sorted(str(path) for path in found if len(path.parts) < 2 or path.parts[1] not in skipped)

    def check_clean(self):
        """All files that there are belong to live segments, and no attempt is left."""
        wanted = set()
        for entry in self.status.entries:
            content = read_segment_file(IO, self.path, entry.segment_file)
            wanted |= {file.path for file in content.files}
            wanted |= {f"Metadata/segments/{entry.segment_file}", f"Metadata/index/{content.index_file}"}
        found = {name for name in self.files() if "/badrecords/" not in name}
        assert found == wanted


@pytest.fixture
def table(tmp_path):
    """A table that sorts by two columns."""
    return Table(tmp_path / "t", SORT_COLUMNS="name,id")


def make(rows, first=0):
    """Rows in no order, with nulls and odd floats."""
    ids = [(n * 7919) % rows + first for n in range(rows)]
    return pa.table(
        {
            "id": ids,
            "name": [None if n % 11 == 0 else f"n{n % 13}" for n in ids],
            "score": [math.nan if n % 5 == 0 else n / 4 for n in ids],
            "day": pa.array(ids, pa.int32()).cast(pa.date32()),
        }
    )


def key(row):
    """The order of name, id."""
    return (row[1] is not None, row[1] or "", row[0])


def write_parts(folder, parts, rows=200):
    """Parquet files, each of many row groups."""
    folder.mkdir()
    for part in range(parts):
        pq.write_table(make(rows, part * rows), folder / f"{part}.parquet", row_group_size=50)
    return folder


def same(left, right):
    """The same multiset of rows."""
    return sorted(map(repr, left)) == sorted(map(repr, right))


ALL = [tuple(row.values()) for part in range(3) for row in make(200, part * 200).to_pylist()]


@pytest.mark.parametrize("verify", ["content", "count", "none"])
@pytest.mark.parametrize(("scope", "runs"), [("NO_SORT", 0), ("local", 3), ("GLOBAL_SORT", 1)])
def test_scopes(table, tmp_path, scope, runs, verify):
    """Rows as they came; sorted within each run; or sorted over all, in files that do not overlap."""
    parts = write_parts(tmp_path / "in", 3)
    report = table.load(parts, sort_scope=scope, task_bytes=6000, verify=verify)
    assert (report.status, report.rows, report.runs, report.bad_rows) == ("success", 600, runs, 0)
    content = table.segment(0)
    assert content.rows == 600
    by_run = {}
    for file in content.files:
        by_run.setdefault(file.run, []).extend(duckdb.sql(f"select * from '{table.path}/{file.path}'").fetchall())
    assert same([row for run in by_run.values() for row in run], ALL)
    if scope == "NO_SORT":
        assert [row[0] for row in by_run[0]] == [row[0] for row in ALL]
        assert content.sort_columns == ()
    else:
        assert content.sort_columns == ("name", "id")
        assert all(run == sorted(run, key=key) for run in by_run.values())
    table.check_clean()


def test_the_index_tells_of_every_row_group(table, tmp_path):
    """One row of the index for each row group of each file, with the bounds of every column."""
    table.load(write_parts(tmp_path / "in", 2, rows=2500), sort_scope="local")
    content = table.segment(0)
    index = read_index(IO, table.path, content)
    assert sum(index["rows"].to_pylist()) == 5000
    assert set(index["file"].to_pylist()) == set(range(len(content.files)))
    assert min(index["min.id"].to_pylist()) == 0
    assert max(index["max.id"].to_pylist()) == 4999
    entry = table.status.entries[0]
    assert (entry.rows, entry.files, entry.status) == (5000, len(content.files), SegmentStatus.SUCCESS)
    assert entry.data_bytes == sum(os.stat(f"{table.path}/{file.path}").st_size for file in content.files)  # noqa: PTH116


@pytest.mark.parametrize("scope", ["none", "local", "global"])
@pytest.mark.parametrize("kind", ["table", "batch", "reader", "pandas", "polars", "duckdb"])
def test_streams(table, kind, scope):
    """Whatever has an Arrow stream is loaded in this process, as one run if it is sorted."""
    rows = make(300)
    data = {
        "table": lambda: rows,
        "batch": lambda: rows.combine_chunks().to_batches()[0],
        "reader": lambda: rows.to_reader(max_chunksize=7),
        "pandas": rows.to_pandas,
        "polars": lambda: pl.from_arrow(rows),
        "duckdb": lambda: duckdb.from_arrow(rows),
    }[kind]()
    report = table.load(data, sort_scope=scope, verify="content")
    assert (report.rows, report.runs) == (300, int(scope != "none"))
    expected = [tuple(row.values()) for row in rows.to_pylist()]
    if kind == "pandas":  # its missing number is NaN, which becomes null
        expected = [(a, b, None if math.isnan(c) else c, d) for a, b, c, d in expected]
    assert same(table.rows(), expected)
    table.check_clean()


def test_what_is_not_a_stream(table):
    """Other things are refused by the name of their type."""
    with pytest.raises(InvalidInputError, match="dict has no Arrow stream"):
        table.load({"id": [1]})
    assert len(table.status.entries) == 0


def test_overwrite(table):
    """An overwrite replaces all rows in one commit; its old segments are marked for delete."""
    table.load(make(10))
    table.load(make(10, 10))
    report = table.load(make(5, 100), overwrite=True)
    assert report.overwrite
    assert sorted(row[0] for row in table.rows()) == list(range(100, 105))
    retired = read_retired(IO, table.path, table.status)
    assert [(str(entry.id), entry.status) for entry in retired] == [
        ("0", SegmentStatus.MARKED_FOR_DELETE),
        ("1", SegmentStatus.MARKED_FOR_DELETE),
    ]


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_row(table, tmp_path, overwrite):
    """A load without rows changes nothing that a reader sees, and says so."""
    table.load(make(3))
    for data in (make(0), make(3).slice(0, 0)):
        report = table.load(data, overwrite=overwrite)
        assert (report.segment, report.status, report.rows) == (None, "empty", 0)
    (tmp_path / "a.csv").write_text("id,name\n")
    report = table.load(tmp_path / "a.csv", overwrite=overwrite)
    assert report.message == "There were no rows to load, so nothing changed."
    assert len(table.rows()) == 3
    table.check_clean()


BAD = "id,name,score,day\n1,a,1.5,2024-01-01\nx,b,2,2024-01-02\n3,c,y,2024-02-30\n4,d\n5,e,,\n"


@pytest.mark.parametrize(
    ("action", "ids", "bad", "whole"),
    [("FORCE", [1, 3, 5, None], 3, False), ("redirect", [1, 5], 3, True), ("IGNORE", [1, 5], 3, False)],
)
def test_bad_records(table, tmp_path, action, ids, bad, whole):
    """Bad rows are left out or lose their bad fields; each is kept with its reasons, and the segment says partial."""
    (tmp_path / "in.csv").write_text(BAD)
    report = table.load(tmp_path / "in.csv", bad_records=action)
    assert (report.status, report.rows, report.bad_rows) == ("partial-success", len(ids), bad)
    assert sorted((row[0] for row in table.rows()), key=lambda id_: (id_ is None, id_)) == ids
    entry = table.status.entries[0]
    assert (entry.status, entry.bad_rows) == (SegmentStatus.PARTIAL_SUCCESS, bad)
    lines = [
        json.loads(line)
        for path in sorted((Path(table.path) / report.bad_records).iterdir())
        for line in path.read_text().splitlines()
    ]
    assert sorted((line["row"], line["column"]) for line in lines) == [(2, "id"), (3, "day"), (3, "score"), (4, "")]
    assert all(line["reason"] and line["source"].endswith("in.csv") for line in lines)
    assert any("whole_row" in line for line in lines) is whole
    table.check_clean()


@pytest.mark.parametrize("task_bytes", [1 << 10, 1 << 30])
def test_bad_records_fail(table, tmp_path, task_bytes):
    """By default the first bad row ends the load, and nothing of it is left."""
    good = tmp_path / "good.csv"
    good.write_text("id\n" + "\n".join(map(str, range(1000))) + "\n")
    (tmp_path / "in.csv").write_text(BAD)
    with pytest.raises(InvalidInputError, match=r"in\.csv, row 2, column id: 'x' is not a whole number") as error:
        table.load([good, tmp_path / "in.csv"], task_bytes=task_bytes)
    assert error.value.facts["row"] == 2
    assert table.status.entries == ()
    table.check_clean()


@pytest.mark.parametrize("action", ["IGNORE", "REDIRECT"])
def test_all_rows_are_bad(table, tmp_path, action):
    """A load of which nothing would be left fails, with examples."""
    (tmp_path / "in.csv").write_text("id\nx\ny\n")
    with pytest.raises(InvalidInputError, match=r"All 2 rows are bad, so nothing was loaded: .*row 1, column id: 'x'"):
        table.load(tmp_path / "in.csv", bad_records=action)
    table.check_clean()
    assert table.files() == []


def test_not_null(tmp_path):
    """Null where none is allowed is bad, from any input."""
    table = Table(tmp_path / "t", "id long not null, name string")
    with pytest.raises(InvalidInputError, match="row 2, column id: '' is null, and the column is NOT NULL"):
        table.load(pa.table({"id": [1, None]}))
    assert table.load(pa.table({"id": [1, None]}), bad_records="FORCE").rows == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort_scope": "sideways"}, "'sideways' is not one of NO_SORT, LOCAL_SORT, GLOBAL_SORT"),
        ({"bad_records": "hide"}, "'hide' is not one of FAIL, FORCE, REDIRECT, IGNORE"),
        ({"zone": "Mars/Olympus"}, "is not a time zone"),
        ({"verify": "hope"}, "use one of content, count, none"),
        ({"block_mb": 0}, "block_mb must be larger than zero"),
        ({"block_mb": 5000}, "TABLE_BLOCKSIZE is '5000'"),
    ],
)
def test_wrong_options(table, options, message):
    """A wrong option is reported before anything begins."""
    with pytest.raises(InvalidInputError, match=message):
        table.load(make(1), **options)
    assert table.status.version == 1


def test_a_sort_needs_columns(tmp_path):
    """A table without sort columns cannot be loaded in order."""
    table = Table(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="no SORT_COLUMNS are given"):
        table.load(make(1), sort_scope="local")


def test_wrong_inputs_begin_nothing(table, tmp_path):
    """Columns that the table does not have, or no file at all, are found before the load is announced."""
    with pytest.raises(InvalidInputError, match="columns that the table does not have: colour"):
        table.load(pa.table({"colour": [1]}))
    with pytest.raises(InvalidInputError, match="does not exist"):
        table.load(tmp_path / "nowhere")
    assert table.status.version == 1


def test_a_broken_file_ends_the_load(table, tmp_path):
    """The file is named, and nothing is left."""
    parts = write_parts(tmp_path / "in", 2)
    (parts / "1.parquet").write_bytes((parts / "1.parquet").read_bytes()[:-20] + b"PAR1")
    with pytest.raises(UnreadableFileError, match=r"1\.parquet has a footer of"):
        table.load(parts)
    table.check_clean()
    assert table.files() == []


def test_text_options(table, tmp_path):
    """How a CSV is written is an option of the load."""
    (tmp_path / "a.txt").write_text("1;'x;y';NULL;2024-01-01\n")
    inputs = InputOptions(delimiter=";", quote="'", header=False, null_text="NULL")
    table.load(tmp_path / "a.txt", inputs=inputs)
    assert [row[:3] for row in table.rows()] == [(1, "x;y", None)]


def test_block_size(table):
    """Files roll at the block size, of the table or of this load."""
    rows = 60_000
    wide = pa.table({"id": range(rows), "name": [os.urandom(40).hex() for _ in range(rows)]})
    report = table.load(wide, block_mb=1)
    sizes = [file.size_bytes for file in table.segment(0).files]
    assert report.files == len(sizes) > 1
    assert max(sizes) < 2 << 20


def test_a_load_taken_for_dead(table):
    """A load whose entry somebody removed does not become visible, and cleans up after itself."""
    clock = system_clock()

    def stream():
        yield make(5).to_batches()[0]
        (entry,) = table.status.loading
        commit_edit(
            IO,
            table.path,
            lambda status: abandon_attempt(status, attempt=entry.attempt, now_ms=clock.now_ms()),
            clock=clock,
            operation="abandon",
        )

    reader = pa.RecordBatchReader.from_batches(make(1).schema, stream())
    with pytest.raises(ConflictError, match="abandoned it as dead"):
        table.load(reader)
    assert table.rows() == []
    table.check_clean()


def test_an_error_of_the_stream(table):
    """What the caller's stream raises comes through, and nothing is left."""

    def stream():
        yield make(5).to_batches()[0]
        raise RuntimeError("my database is gone")

    reader = pa.RecordBatchReader.from_batches(make(1).schema, stream())
    with pytest.raises(RuntimeError, match="my database is gone"):
        table.load(reader)
    table.check_clean()
    assert table.files() == []


def test_no_room(table, tmp_path, monkeypatch):
    """A disk without room is found before anything is written."""
    parts = write_parts(tmp_path / "in", 1)
    monkeypatch.setattr(LocalFileIO, "free_bytes", lambda *_: 100)
    with pytest.raises(UnavailableError, match="100 B are free"):
        table.load(parts)
    assert table.status.version == 1


def test_auto_merge(tmp_path):
    """A table that asks for it is merged after a load; the load stands if that fails."""
    table = Table(tmp_path / "t", SORT_COLUMNS="id", AUTO_LOAD_MERGE="true", COMPACTION_LEVEL_THRESHOLD="2,0")
    verbs = OpenTable(table.path, io=IO).segments
    assert verbs.load(make(10)).merged is not None
    report = verbs.load(make(10, 10))
    assert report.merged.status == "committed"
    assert [str(entry.id) for entry in table.status.live] == ["0.1"]
    commit_edit(
        IO,
        table.path,
        lambda status: alter_properties(status, {"AUTO_LOAD_MERGE": "false"}),
        clock=system_clock(),
        operation="alter",
    )
    assert verbs.load(make(10, 20)).merged is None


def test_time_zone(tmp_path):
    """A time without a zone is of the load's zone."""
    table = Table(tmp_path / "t", "at timestamp")
    (tmp_path / "a.csv").write_text("at\n2024-07-01 12:00:00\n")
    table.load(tmp_path / "a.csv", zone="Europe/Berlin")
    stored = pq.read_table(f"{table.path}/{table.segment(0).files[0].path}")["at"]
    assert str(stored[0].as_py()) == "2024-07-01 10:00:00+00:00"


def test_report(table):
    """The report says all of it as JSON."""
    plain = table.load(make(3)).to_json()
    assert plain["segment"] == "0"
    assert plain["rows"] == 3
    json.dumps(plain)
