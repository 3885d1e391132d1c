"""Tables that somebody damaged, linked elsewhere or left half-way: what is reported; nothing outside is touched."""

import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from segment_lake import SegmentLake, open_run, record_files

import packstone
from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.codec import seal
from packstone.model.segment import SegmentId
from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import begin_compaction
from packstone.tables.segments.format.layout import segment_file_name
from packstone.tables.segments.health import observe_segments
from packstone.tables.segments.leftovers import list_attempts, read_created
from packstone.tables.segments.load import LoadSession
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
DEAD = replace(ProcessIdentity.mine(), pid=2**22 + 1, started_ticks=1)


@pytest.fixture
def lake(tmp_path):
    """A table of five loads, of which the first is deleted, and nothing is kept for long."""
    made = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id", SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1)
    for load in range(5):
        made.load([{"id": 10 * load + at, "v": "x"} for at in range(10)], files=2)
    made.delete("0")
    return made


@pytest.fixture
def outside(tmp_path):
    """Files beside the table that nobody may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("precious")
    return folder


def clean(lake, monkeypatch):
    """Clean as if the retention of everything were over."""
    later = now_ms() + 3_600_000
    monkeypatch.setattr("packstone.tables.segments.table.now_ms", lambda: later)
    return Table(lake.table, io=IO).clean(dry_run=False).to_json(dry_run=False)


def hazards(lake):
    """What `health` warns of, by name."""
    return {one.name: one for one in observe_segments(IO, lake.table, now_ms=now_ms()).hazards}


def change_record(path, **changes):
    """Change a record and seal it again, as somebody would who knows how."""
    plain = json.loads(path.read_bytes())
    plain.pop("digest")
    path.write_bytes(seal(json.dumps({**plain, **changes}, separators=(",", ":")).encode()))


@pytest.mark.parametrize("what", ["Fact/Segment_2/*.parquet", "Metadata/index/2_*", "Metadata/segments/2_*"])
def test_health_names_files_that_are_gone(lake, what):
    """Data, index and segment files, found by listing; a whole table has no such hazard."""
    assert "missing-files" not in hazards(lake)
    (first, *_) = sorted(lake.path.glob(what))
    first.unlink()
    found = hazards(lake)["missing-files"]
    assert found.where == "2"
    assert f"{first.relative_to(lake.path)} is gone" in found.evidence
    report = observe_segments(IO, lake.table, now_ms=now_ms()).to_json()
    assert (report["segments_listed"], report["damaged_segments"]) == (4, 1)


@pytest.mark.parametrize("what", ["Fact/Segment_3/*.parquet", "Metadata/index/3_*"])
def test_health_names_files_of_another_size(lake, what):
    """A file that was cut off is named with both sizes."""
    (first, *_) = sorted(lake.path.glob(what))
    size = first.stat().st_size
    first.write_bytes(first.read_bytes()[:-1])
    assert f"has {size - 1:,} bytes instead of {size:,}" in hazards(lake)["missing-files"].evidence


def test_health_lists_folders_and_looks_at_no_file(lake, monkeypatch):
    """What it costs grows with the number of segments, not of files."""
    looked = []
    monkeypatch.setattr(LocalFileIO, "stat", lambda self, path: looked.append(path), raising=True)
    monkeypatch.setattr("packstone.tables.segments.damage.read_segment", lambda *_: pytest.fail("read a segment file"))
    from packstone.tables.segments.damage import find_wrong_files
    from packstone.tables.segments.format.status import parse_status

    path = max((lake.path / "Metadata/status").glob("*.json"))
    status = parse_status(path.read_bytes(), path=str(path))
    assert not list(find_wrong_files(IO, lake.table, status.live))
    assert not looked


def test_health_of_many_segments_uses_threads_and_finds_the_same(tmp_path):
    """Above some number of segments folders are listed by threads; each that lost its files is named."""
    made = SegmentLake(tmp_path / "t").create()
    for load in range(40):
        made.load([{"id": load, "v": "x"}])
    for load in (0, 7, 39):
        shutil.rmtree(made.path / f"Fact/Segment_{load}")
    report = observe_segments(IO, made.table, now_ms=now_ms()).to_json()
    assert report["damaged_segments"] == 3
    assert [one["where"] for one in report["hazards"] if one["hazard"] == "missing-files"] == ["39", "7", "0"]


def test_health_names_segments_that_no_version_has(lake):
    """If the newest status files and the hint are lost, the segment files of their loads are left."""
    assert "unnamed-segments" not in hazards(lake)
    lake.load([{"id": 99, "v": "x"}])
    begin_dead_compaction(lake)
    assert "unnamed-segments" not in hazards(lake)
    for path in sorted((lake.path / "Metadata/status").glob("*.json"))[-2:]:
        path.unlink()
    (lake.path / "Metadata/latest").unlink()
    assert "such as 5_" in hazards(lake)["unnamed-segments"].evidence


def begin_dead_compaction(lake):
    """A compaction whose process was killed, as the status has it."""
    attempt, inputs = "dead0000dead0000", (SegmentId(1), SegmentId(2))
    open_run(IO, lake.table, process=DEAD, command="compact", run=attempt)
    commit_edit(
        IO,
        lake.table,
        lambda status: begin_compaction(
            status, attempt=attempt, inputs=inputs, output=SegmentId(1, 1), now_ms=now_ms()
        ),
        clock=system_clock(),
        operation="compact",
    )


def test_a_dead_compaction_does_not_stand_in_the_way_of_a_plan(lake):
    """`plan` and `health` say what `compact` will do, and write nothing; nobody has to wait for a dead process."""
    begin_dead_compaction(lake)
    before = lake.versions()
    plan = Table(lake.table, io=IO).plan(SegmentOptions(strategy="minor")).outcome
    assert [unit.inputs for unit in plan.units] == [("1", "2", "3", "4")]
    assert not any("being merged" in skip.why for skip in plan.skipped)
    assert observe_segments(IO, lake.table, now_ms=now_ms()).planned["minor"] == 1
    assert lake.versions() == before
    done = Table(lake.table, io=IO).compact(SegmentOptions(strategy="minor"))
    assert [unit.inputs for unit in done.units] == [unit.inputs for unit in plan.units]


@pytest.mark.parametrize(
    "changes",
    [
        {"index_file": "../../../outside/secret.txt"},
        {"files": [{"path": "../outside/secret.txt", "run": 0, "rows": 10, "size_bytes": 8}], "data_bytes": 8},
        {"files": [{"path": "Fact/Segment_1/x.parquet", "run": 0, "rows": 10, "size_bytes": 8}], "data_bytes": 8},
    ],
)
def test_clean_removes_nothing_that_a_hostile_segment_file_names(lake, outside, monkeypatch, changes):
    """Not outside the table, nor of another segment: the segment is left alone, and the record is named."""
    (record,) = (lake.path / "Metadata/segments").glob("0_*")
    change_record(record, **changes)
    report = clean(lake, monkeypatch)
    assert (outside / "secret.txt").read_text() == "precious"
    assert any(str(record) in sentence and "left alone" in sentence for sentence in report["left_alone"])
    assert (lake.path / "Fact/Segment_0").exists()


def test_clean_removes_nothing_that_a_hostile_run_names(lake, outside, monkeypatch):
    """A recorded path outside the folders in which attempts create files is not believed."""
    attempt = open_run(IO, lake.table, process=DEAD, run="dead0000dead0000")
    record_files(IO, lake.table, attempt, f"Fact/Segment_9/{attempt}.parquet")
    (record,) = (lake.runs() / attempt).glob("created-*")
    for path in (
        f"../outside/secret.txt{attempt}", f"/etc/{attempt}", f"Fact/../../outside/{attempt}", f"Metadata/{attempt}",
        f"Metadata/status/{attempt}", attempt, "", f"Fact/Segment_1/../{attempt}",
    ):  # fmt: skip
        change_record(record, paths=[path if path.startswith("/etc") else f"{lake.table}/{path}"])
        with pytest.raises(CorruptionError, match="is damaged"):
            read_created(IO, lake.table, attempt)
    report = clean(lake, monkeypatch)
    assert any(str(record) in sentence and "left alone" in sentence for sentence in report["left_alone"])
    assert record.exists()
    assert (outside / "secret.txt").exists()


def test_a_run_that_leads_out_of_the_table_is_damage(lake, outside, monkeypatch):
    """Its folder would be removed whole."""
    begin_dead_compaction(lake)
    path = max((lake.path / "Metadata/status").glob("*.json"))
    plain = json.loads(path.read_bytes())
    (running,) = plain["running"]
    change_record(path, running=[{**running, "attempt": "../../../outside"}])
    with pytest.raises(CorruptionError, match="not the id of a run"):
        clean(lake, monkeypatch)
    assert (outside / "secret.txt").exists()


@pytest.mark.parametrize("folder", ["Fact", "Metadata/index", "Metadata/segments", "Metadata/status"])
def test_clean_refuses_a_table_whose_folders_are_links(lake, outside, monkeypatch, folder):
    """Rows are read through them; nothing is removed through them."""
    moved = outside / "moved"
    shutil.move(lake.path / folder, moved)
    (lake.path / folder).symlink_to(moved)
    before = sorted(path.relative_to(outside) for path in outside.rglob("*"))
    with pytest.raises(RefusedError, match="is a symbolic link"):
        clean(lake, monkeypatch)
    assert sorted(path.relative_to(outside) for path in outside.rglob("*")) == before


def test_clean_leaves_a_segment_alone_whose_folder_is_a_link(lake, outside, monkeypatch):
    """It is named, and the rest is cleaned."""
    lake.delete("1")
    moved = outside / "Segment_0"
    shutil.move(lake.path / "Fact/Segment_0", moved)
    (lake.path / "Fact/Segment_0").symlink_to(moved)
    report = clean(lake, monkeypatch)
    assert len(list(moved.iterdir())) == 2
    assert [one["id"] for one in report["segments"]] == ["1"]
    assert any("Segment_0 is a symbolic link" in sentence for sentence in report["left_alone"])


def test_a_run_whose_folder_is_a_link_is_none(lake, outside, monkeypatch):
    """What it leads to stays as it is."""
    lake.runs().mkdir(parents=True)
    (lake.runs() / "abcd").symlink_to(outside)
    assert list_attempts(IO, lake.table) == ()
    clean(lake, monkeypatch)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("folder", ["runs", "staging"])
def test_nothing_is_done_with_records_behind_a_link(lake, outside, monkeypatch, folder):
    """The folder of all runs may hold what somebody else needs."""
    lake.runs().mkdir(parents=True)
    lake.runs().rmdir()
    (lake.runs().parent / folder).symlink_to(outside)
    with pytest.raises(RefusedError, match="is a link and not a folder"):
        clean(lake, monkeypatch)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("record", ["run.json", "created-1.json"])
def test_records_of_a_newer_packstone_are_refused(lake, monkeypatch, record):
    """Also a pending one: clean refuses before anything is changed."""
    begin_dead_compaction(lake)
    attempt = lake.runs() / "dead0000dead0000"
    record_files(IO, lake.table, attempt.name, f"Fact/Segment_1.1/{attempt.name}.parquet")
    path = attempt / record
    path.write_bytes(path.read_bytes().replace(b'"format_version":2', b'"format_version":9'))
    before = sorted(lake.path.rglob("*"))
    with pytest.raises(RefusedError, match="newer packstone"):
        clean(lake, monkeypatch)
    if record == "run.json":
        with pytest.raises(RefusedError, match="newer packstone"):
            Table(lake.table, io=IO).compact(SegmentOptions(strategy="minor"))
    assert sorted(lake.path.rglob("*")) == before


TABLES = {
    "Delta": ["_delta_log/00000000000000000000.json"],
    "Iceberg": ["metadata/v1.metadata.json", "data/x.parquet"],
    "Hudi": [".hoodie/hoodie.properties"],
    "Paimon": ["snapshot/snapshot-1", "schema/schema-0"],
    "CarbonData": ["Metadata/tablestatus"],
    "Spark streaming": ["_spark_metadata/0"],
    "Hive ACID": ["delta_0000001_0000001/bucket_00000"],
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("depth", ["", "below/", "two/folders/"])
def test_a_folder_that_contains_a_table_is_not_an_input(tmp_path, kind, depth):
    """At any depth: such a table also holds files whose rows are deleted; a pattern does not lead around that."""
    table = packstone.create(str(tmp_path / "t"), "id long")
    folder = tmp_path / "in" / depth
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "in" / "a.parquet")
    pq.write_table(pa.table({"id": [2]}), folder / "b.parquet")
    for name in TABLES[kind]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    patterns = [folder / "*.parquet"] if kind != "Hive ACID" else []  # there the folders are the table, not files
    for path in (tmp_path / "in", *patterns, tmp_path / "i*", tmp_path / "in/**"):
        with pytest.raises(RefusedError, match="not every file in it is live"):
            table.segments.load(str(path))
    assert table.segments.load([str(folder / "b.parquet")]).rows == 1


def test_patterns_are_inputs(tmp_path):
    """`*`, `?`, `[…]` and `**`; hidden names are left out, a file whose name looks like a pattern is taken by name."""
    table = packstone.create(str(tmp_path / "t"), "id long")
    folder = tmp_path / "in"
    for at, name in enumerate(["a1.csv", "a2.csv", "b1.csv", "sub/a3.csv", "sub/deep/a4.csv", ".a9.csv", "a[1].csv"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"id\n{at}\n")
    for pattern, rows in [
        ("a?.csv", 2), ("*.csv", 4), ("[ab]1.csv", 2), ("**/a?.csv", 4), ("*/a3.csv", 1), ("s*", 2), ("a[1].csv", 1),
        ("**", 6), (".a*", 1),
    ]:  # fmt: skip
        assert table.segments.load(str(folder / pattern), overwrite=True).rows == rows, pattern
    with pytest.raises(InvalidInputError, match=r"z\*\.csv matches no file"):
        table.segments.load(str(folder / "z*.csv"))


def test_a_column_without_a_name_is_refused(tmp_path):
    """When a table is made, and when rows are loaded."""
    unnamed = pa.schema([("id", pa.int64()), ("", pa.string())])
    with pytest.raises(InvalidInputError, match="has no name"):
        packstone.create(str(tmp_path / "x"), unnamed)
    with pytest.raises(InvalidInputError, match="name"):
        packstone.create(str(tmp_path / "x"), "id long, `` string")
    with pytest.raises(InvalidInputError, match="has no name"):
        packstone.create(str(tmp_path / "x"), pa.schema([("s", pa.struct([("", pa.int64())]))]))
    assert not (tmp_path / "x").exists()
    table = packstone.create(str(tmp_path / "t"), "id long, v string")
    (tmp_path / "a.csv").write_text("id,\n1,a\n")
    for data in (str(tmp_path / "a.csv"), pa.table([[1], ["a"]], schema=unnamed)):
        with pytest.raises(InvalidInputError, match="has no name"):
            table.segments.load(data)


@pytest.mark.parametrize("lost", [1, 2])
def test_status_files_lost_together_with_the_hint(tmp_path, packstone, lost):
    """A load that only its segment file names stops every command that writes, until its status is put back."""
    table, source = tmp_path / "sales", tmp_path / "in.csv"
    source.write_text("id\n1\n2\n")
    assert packstone("segments", "create", table, "--schema", "id long").code == 0
    for _ in range(3):
        assert packstone("segments", "load", table, source).code == 0
    saved = shutil.copytree(table, tmp_path / "saved")
    for path in sorted((table / "Metadata" / "status").iterdir())[-lost:]:
        path.unlink()
    (table / "Metadata" / "latest").unlink()
    left = sorted(path for path in table.rglob("*") if path.is_file())
    commands = (
        ("segments", "load", table, source),
        ("segments", "delete", table, "--ids", "0", "--yes"),
        ("segments", "alter", table, "--property", "MAJOR_COMPACTION_SIZE=512"),
        ("compact", table),
    )
    for command in commands:
        done = packstone(*command)
        assert (done.code, "belongs to a load that has finished" in done.err) == (1, True), (command, done)
        assert sorted(path for path in table.rglob("*") if path.is_file()) == left, command
    with pytest.raises(CorruptionError, match="belongs to a load that has finished"):
        Table(str(table), io=IO).clean()
    assert "segment files are in no version" in str(packstone("health", table, "--format", "json").json)
    shutil.copytree(saved / "Metadata" / "status", table / "Metadata" / "status", dirs_exist_ok=True)
    assert packstone("segments", "load", table, source).code == 0
    counted = packstone("query", table, "SELECT count(*) FROM t", "--format", "csv")
    assert counted.out.splitlines()[1] == "8"


def test_a_load_at_work_is_not_a_lost_one(tmp_path, packstone):
    """A segment file whose load has a run, be it alive or killed, explains itself."""
    table, source = tmp_path / "sales", tmp_path / "in.csv"
    source.write_text("id\n1\n2\n")
    assert packstone("segments", "create", table, "--schema", "id long").code == 0
    with LoadSession(IO, str(table)) as load:
        segment = load.begin(overwrite=False)
        name = segment_file_name(segment, load.attempt)
        (table / "Metadata" / "segments" / name).write_text("{}")
        assert packstone("segments", "load", table, source).code == 0
    (table / "Metadata" / "segments" / name).unlink(missing_ok=True)
    assert packstone("compact", table).code == 0
