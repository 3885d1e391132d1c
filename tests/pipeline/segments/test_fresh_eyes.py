"""What somebody found who had not built it: damage that went through, rows that vanished, inputs that count twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from segment_lake import SegmentLake, open_run, record_files

import packstone
from packstone.errors import CorruptionError, InvalidInputError, RefusedError, VerificationError
from packstone.model.outcome import Status
from packstone.model.segment import SegmentId
from packstone.rewrite.load.input_files import BLOCK_BYTES, InputOptions
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments import units
from packstone.tables.segments.clean import plan_clean
from packstone.tables.segments.format.layout import status_path
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions, SegmentStrategy

IO = LocalFileIO()
MULTILINE = LoadOptions(inputs=InputOptions(multiline=True))


@pytest.fixture
def table(tmp_path):
    """A sorted table of four loads, each of its own keys, uncompressed: a changed byte is a changed value."""
    path = tmp_path / "t"
    made = packstone.create(str(path), "id long, name string", sort_by=["id"], properties={"COMPRESSION": "none"})
    for load in range(4):
        ids = range(load * 100, load * 100 + 100)
        made.segments.load(pa.table({"id": list(ids), "name": [f"name-{one}" for one in ids]}))
    return made


def lake_of(table):
    """The same table, read by the JSON on disk."""
    return SegmentLake(table.path)


def test_a_flipped_byte_is_not_merged_as_a_value(table):
    """Pages carry checksums: what the disk has changed is reported by name, and never proved to be right."""
    path = lake_of(table).path / table.segments.files().files[1].path
    content = path.read_bytes()
    assert content.count(b"name-150") >= 1
    path.write_bytes(content.replace(b"name-150", b"nbme-150"))
    outcome = table.compact()
    assert outcome.status is Status.FAILED
    assert path.name in outcome.skipped[0].why
    assert len(table.segments.files().paths) == 4


def test_another_file_under_the_name_is_reported(table):
    """A file of another size than the segment file says is not the one that was loaded."""
    first, second = (lake_of(table).path / one.path for one in table.segments.files().files[:2])
    other = pa.table({"id": list(range(100, 200)), "name": ["other"] * 100})
    pa.parquet.write_table(other, second)
    outcome = table.compact()
    assert outcome.status is Status.FAILED
    assert f"{second} has {second.stat().st_size} bytes" in outcome.skipped[0].why
    assert first.exists()


def test_a_lost_piece_is_seen(table, monkeypatch):
    """Each piece of a merge is proved by itself; that all of them are there is proved by the rows together."""
    whole = units.files_of_merge
    monkeypatch.setattr(units, "files_of_merge", lambda work: whole(work)[1:])
    with pytest.raises(VerificationError, match="hold 400 rows, but the merged segment holds 0"):
        table.compact()
    monkeypatch.undo()
    assert [str(one.segment) for one in table.segments.files().files] == ["0", "1", "2", "3"]


def test_without_a_hint_a_gap_does_not_turn_back_the_table(table):
    """A version that somebody removed must not make an older one the newest."""
    (lake_of(table).path / "Metadata/latest").unlink()
    IO.remove(status_path(table.path, 4))
    assert table.segments.show().version == 9
    assert table.segments.load(pa.table({"id": [1], "name": ["x"]})).version == 11


def test_a_missing_or_damaged_segment_file_is_reported_by_name(table):
    """With what to do: moving it away, as of other records, would make it worse."""
    path = next((lake_of(table).path / "Metadata/segments").glob("1_*.json"))
    content = path.read_bytes()
    path.write_bytes(content[:30])
    with pytest.raises(CorruptionError, match=f"{path} is damaged: "):
        table.segments.files()
    path.unlink()
    with pytest.raises(CorruptionError, match=f"{path}, a file of segment 1, is missing; restore it"):
        table.segments.files()


def test_clean_names_the_chunk_that_is_gone(table):
    """It removes nothing, and says which file it misses."""
    for number in range(20):
        table.segments.load(pa.table({"id": [number], "name": ["x"]}))
    path = next((lake_of(table).path / "Metadata/entries").iterdir())
    path.unlink()
    command = [str(Path(sys.executable).parent / "packstone"), "clean", table.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{path} is missing" in done.stderr


def test_clean_keeps_files_of_a_live_segment_whose_segment_file_is_gone(table):
    """Its load was killed right after the commit: without the segment file its data looks like leftovers."""
    lake = lake_of(table)
    entry = lake.live()["1"]
    dead = ProcessIdentity(host="elsewhere", boot_id="b", pid=1, started_ticks=1)
    open_run(IO, table.path, process=dead, run=entry["attempt"])
    data = table.segments.files().files[1].path.removeprefix(f"{table.path}/")
    record_files(IO, table.path, entry["attempt"], data)
    (lake.path / "Metadata/segments" / entry["segment_file"]).unlink()
    plan = plan_clean(IO, table.path, now_ms=lake.status()["written_ms"] + 86_400_000)
    assert not plan.attempts
    assert any("is missing" in one and entry["attempt"] in one for one in plan.left_alone)
    assert not plan.trashed


@pytest.mark.parametrize("below", ["", "/Fact", "/Fact/Segment_0"])
def test_the_folder_of_a_table_is_not_an_input(table, tmp_path, below):
    """It holds merged and deleted rows too; its live files by name are welcome."""
    other = packstone.create(str(tmp_path / "other"), "id long, name string")
    with pytest.raises(RefusedError, match=f"{table.path} is a segment table, and not every file in it is live"):
        other.segments.load(f"{table.path}{below}")
    assert other.segments.load(list(table.segments.files().paths)).rows == 400


def test_the_folder_of_a_delta_table_is_not_an_input(table, tmp_path):
    """Nor is any other whose log names its files."""
    folder = tmp_path / "delta"
    (folder / "_delta_log").mkdir(parents=True)
    shutil.copy(table.segments.files().paths[0], folder / "part.parquet")
    with pytest.raises(RefusedError, match="delta is a Delta Lake table"):
        table.segments.load(str(folder))


def test_a_multiline_file_of_wrong_rows_is_not_empty(table, tmp_path):
    """PyArrow gives no batch for it, but it has noted the rows."""
    path = tmp_path / "wrong.csv"
    path.write_text("id,name\n1\n2,b,c\n")
    with pytest.raises(InvalidInputError, match=r"row 1: '1' has 1 fields where 2 are expected"):
        table.segments.load(str(path), options=MULTILINE)
    with pytest.raises(InvalidInputError, match="All 2 rows are bad"):
        table.segments.load(str(path), bad_records="redirect", options=MULTILINE)


def test_wrong_rows_of_a_long_multiline_file_are_all_kept_by_their_numbers(table, tmp_path):
    """Over several blocks, which PyArrow parses while the rows before them are taken."""
    path, wrong = tmp_path / "long.csv", []
    line = f'7,"{"x" * 400}\n"\n'
    count = 3 * BLOCK_BYTES // len(line)
    with path.open("w") as file:
        file.write("id,name\n")
        for row in range(1, count + 1):
            is_wrong = row % 1000 == 0 or row == count
            file.write("1,2,3\n" if is_wrong else line)
            wrong += [row] if is_wrong else []
    report = table.segments.load(str(path), bad_records="redirect", options=MULTILINE)
    assert (report.rows, report.bad_rows) == (count - len(wrong), len(wrong))
    (kept,) = (lake_of(table).path / report.bad_records).iterdir()
    assert [json.loads(one)["row"] for one in kept.read_text().splitlines()] == wrong


def test_a_named_segment_that_is_merged_already_is_reported(table):
    """Not that it does not exist."""
    table.compact()
    with pytest.raises(InvalidInputError, match=r"Segment 2 is compacted into 0\.1; name only"):
        table.plan(SegmentOptions(strategy=SegmentStrategy.CUSTOM, ids=(SegmentId.parse("0.1"), SegmentId.parse("2"))))


def test_an_unsorted_load_has_no_sorted_runs(tmp_path):
    """Its files are in the order in which the rows came."""
    plain = packstone.create(str(tmp_path / "plain"), "id long")
    assert plain.segments.load(pa.table({"id": [2, 1]})).runs == 0


def test_an_empty_map_is_not_bad_because_its_neighbour_is(tmp_path):
    """All elements of a batch may be bad; a row that has none is still right."""
    maps = pa.array([[("x", 2)], None, []], pa.map_(pa.string(), pa.int64()))
    made = packstone.create(str(tmp_path / "maps"), "id long, m map<int,long>")
    report = made.segments.load(pa.table({"id": [1, 2, 3], "m": maps}), bad_records="force")
    assert (report.rows, report.bad_rows) == (3, 1)
    rows = pa.parquet.read_table(made.segments.files().paths[0]).to_pylist()
    assert [(row["id"], row["m"]) for row in rows] == [(1, None), (2, None), (3, [])]


def test_numbers_too_small_for_a_decimal_are_bad_rows(tmp_path):
    """PyArrow takes some of them for zero, and ends the process at others."""
    good = {"1.50": "1.50", "15e-1": "1.50", "150000000000e-11": "1.50", f"0.25{'0' * 40}": "0.25", "0e-50": "0.00"}
    bad = ["1e-41", "5e-61", "1e-2000000000", "1e-99999999999999999999", f"0.{'0' * 40}5", "xe-12", "1.005e-0"]
    made = packstone.create(str(tmp_path / "numbers"), "text string, d decimal(10,2)")
    texts = [*good, *bad]
    report = made.segments.load(pa.table({"text": texts, "d": texts}), bad_records="force")
    assert report.bad_rows == len(bad)
    rows = pa.parquet.read_table(made.segments.files().paths[0]).to_pylist()
    assert {row["text"]: None if row["d"] is None else str(row["d"]) for row in rows} == good | dict.fromkeys(bad)


PAIRS = pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.int32())]))
CATEGORIES = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint32()), pa.array(["a", "b"], pa.string_view()))
HUGE = f"select {2**127 - 1}::hugeint as v"
NO_TEXT = pa.array([b"\xff", b"A"]).view(pa.string())
FOREIGN = [
    pytest.param("string", CATEGORIES, ["b", "a", None], 0, id="categories of Polars"),
    pytest.param(
        "map<string,long>",
        pa.array([[{"key": "a", "value": 1}], [{"key": None, "value": 2}], None], PAIRS),
        [[("a", 1)], None, None],
        1,
        id="a map as Polars has it",
    ),
    pytest.param("decimal(38,0)", HUGE, [None], 1, id="DuckDB's hugeint"),
    pytest.param("string", NO_TEXT, [None, "A"], 1, id="text that is none"),
    pytest.param("timestamp", pa.array([2**60, 5, -(2**60)], pa.timestamp("s")), [None, 5, None], 2, id="far seconds"),
]


@pytest.mark.parametrize(("kind", "values", "expected", "bad_rows"), FOREIGN)
def test_values_that_others_make(tmp_path, kind, values, expected, bad_rows):
    """They are taken, or they are bad rows; none is an error of PyArrow."""
    made = packstone.create(str(tmp_path / "t"), f"v {kind}, seq long")
    given = pa.table(duckdb.sql(values) if isinstance(values, str) else {"v": values})
    report = made.segments.load(given.append_column("seq", pa.array(range(given.num_rows))), bad_records="force")
    assert report.bad_rows == bad_rows
    found = [row["v"] for row in pa.parquet.read_table(made.segments.files().paths[0]).to_pylist()]
    assert [one if not hasattr(one, "timestamp") else one.timestamp() for one in found] == expected
