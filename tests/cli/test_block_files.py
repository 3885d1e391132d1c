"""Avro files, SequenceFiles and RCFiles from the command line: every command, and what prevents a merge."""

from __future__ import annotations

import json

import pytest
from block_file_model import (
    AVRO_SCHEMA,
    Shape,
    avro_file,
    rc_file,
    read_avro_file,
    read_rc_file,
    read_sequence_file,
    sequence_file,
)
from record_files import edit_record

from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

ROWS = {
    "avro": [(at, b"value %d" % at) for at in range(60)],
    "sequencefile": [(b"", b"value %d\x01x" % at) for at in range(60)],
    "rcfile": [(b"%d" % at, b"value") for at in range(60)],
}
WRITE = {"avro": avro_file, "sequencefile": sequence_file, "rcfile": rc_file}
READ = {"avro": read_avro_file, "sequencefile": read_sequence_file, "rcfile": read_rc_file}
FORMATS = list(ROWS)
every_format = pytest.mark.parametrize("file_format", FORMATS)


def fill(lake, file_format, *, folder="dt=1", first=0):
    """Six files of ten records, named as Hive names them."""
    write, rows = WRITE[file_format], ROWS[file_format]
    contents = {f"{first + at:06d}_0": write(rows[10 * at : 10 * at + 10]) for at in range(6)}
    return lake.text(folder, contents)


def read(folder, file_format):
    """All records of the visible files, in the order of the files' names."""
    files = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    return [row for path in files for row in READ[file_format](path.read_bytes())]


def run(packstone, *arguments, code=0):
    """What a command answers."""
    done = packstone(*arguments, "--format", "json")
    assert done.code == code, done
    return done


@every_format
def test_the_whole_way(packstone, lake, tree, file_format):
    """Looked at, planned, merged, proved again, undone, merged again, cleaned; a second time nothing is to do."""
    folder = fill(lake, file_format)
    before = tree(lake.table)
    assert run(packstone, "health", lake.table).json["formats"] == {file_format: 6}
    plan = run(packstone, "plan", lake.table).json
    assert [unit["how"] for unit in plan["units"]] == ["concatenate"]
    done = run(packstone, "compact", lake.table, "--keep-days", "0").json
    assert (done["status"], done["rows"], done["files_after"], done["verified"]) == ("committed", 60, 1, "content")
    assert read(folder, file_format) == ROWS[file_format]
    assert run(packstone, "verify", done["run"], lake.table).json["status"] == "verified"
    assert run(packstone, "recover", lake.table).json["status"] == "nothing-to-do"
    run(packstone, "restore", done["run"], lake.table, "--yes")
    assert tree(lake.table) == before
    again = run(packstone, "compact", lake.table, "--keep-days", "0", "--verify", "count").json
    assert (again["rows"], again["verified"]) == (60, "count")
    run(packstone, "clean", lake.table, "--yes")
    assert read(folder, file_format) == ROWS[file_format]
    assert run(packstone, "compact", lake.table).json["status"] == "nothing-to-do"


@every_format
def test_a_file_replaced_before_the_swap(lake, file_format):
    """Another file in the place of an input, right before it would move: the partition stays as it then is."""
    folder = fill(lake, file_format)

    class Replacing(LocalFileIO):
        def write_new(self, path, data, **options):
            super().write_new(path, data, **options)
            if path.endswith(".intent.json"):
                (folder / "000002_0").write_bytes(WRITE[file_format](ROWS[file_format][:1]))

    io = Replacing()
    outcome = Table(str(lake.table), io=io, engine=lambda: InlineEngine(io)).compact(HiveOptions())
    assert (outcome.status, outcome.units) == ("conflict", ()), outcome
    assert sorted(path.name for path in folder.iterdir()) == [f"{at:06d}_0" for at in range(6)]
    assert len(read(folder, file_format)) == 51


@every_format
def test_merged_files_are_merged_again(packstone, lake, file_format):
    """Outputs join with newer files, in one output; all records are there."""
    folder = fill(lake, file_format)
    run(packstone, "compact", lake.table)
    fill(lake, file_format, first=10)
    assert run(packstone, "compact", lake.table).json["files_after"] == 1
    assert sorted(read(folder, file_format)) == sorted(ROWS[file_format] * 2)


@every_format
def test_a_broken_file_is_left_alone_and_the_rest_is_merged(packstone, lake, file_format):
    """A file that is cut off is blamed by name when it is read, one without a header when it is looked at."""
    folder = fill(lake, file_format)
    whole = WRITE[file_format](ROWS[file_format])
    within_header = {"avro": 9, "sequencefile": 78, "rcfile": 20}[file_format]
    lake.text("dt=1", {"torn": whole[:-7], "headless": whole[:within_header]})
    done = run(packstone, "compact", lake.table, code=1)
    assert (done.json["status"], done.json["rows"], done.json["files_after"]) == ("partial", 60, 3)
    assert "cut off" in done.skipped("dt=1/torn")
    assert "cut off" in done.skipped("dt=1/headless")
    assert (folder / "torn").read_bytes() == whole[:-7]
    found = run(packstone, "health", lake.table).json["hazards"]
    assert [hazard["where"] for hazard in found if hazard["hazard"] == "unreadable"] == ["dt=1/headless"]


@pytest.mark.parametrize(
    "other",
    [
        avro_file([(1, None)], codec="deflate"),
        avro_file([(1, None)], meta={"writer": "another"}),
        avro_file([(1, None)], schema=AVRO_SCHEMA | {"doc": "the same fields"}),
        avro_file([(1, None)], schema=AVRO_SCHEMA | {"fields": AVRO_SCHEMA["fields"][::-1]}),
    ],
)
def test_avro_files_that_differ_are_not_joined(packstone, lake, other):
    """Another codec, metadata or schema, be it in a comment only, makes another group; nothing is reconciled."""
    fill(lake, "avro")
    folder = lake.text("dt=1", {f"9{at}": other for at in range(5)})
    done = run(packstone, "compact", lake.table).json
    assert [len(unit["inputs"]) for unit in done["units"]] == [6, 5]
    assert sorted(len(read_avro_file(path.read_bytes())) for path in folder.iterdir()) == [5, 60]


@pytest.mark.parametrize(
    ("file_format", "shape"),
    [
        ("sequencefile", Shape(codec="default")),
        ("sequencefile", Shape(codec="default", blocks=True)),
        ("sequencefile", Shape(value_class="org.apache.hadoop.io.Text")),
        ("sequencefile", Shape(meta=(("a", "b"),))),
        ("rcfile", Shape(codec="default")),
        ("rcfile", Shape(old=True)),
        ("rcfile", Shape(meta=(("a", "b"),))),
    ],
)
def test_hadoop_files_that_differ_are_not_joined(packstone, lake, file_format, shape):
    """Another class, compression or metadata makes another group."""
    fill(lake, file_format)
    other = WRITE[file_format]([(b"k", b"v")], shape)
    folder = lake.text("dt=1", {f"9{at}": other for at in range(5)})
    done = run(packstone, "compact", lake.table).json
    assert [len(unit["inputs"]) for unit in done["units"]] == [6, 5]
    assert sorted(len(READ[file_format](path.read_bytes())) for path in folder.iterdir()) == [5, 60]


def test_rows_that_cannot_be_counted(packstone, lake):
    """The rows of an RCFile are counted in its keys: of one that is packed by an unknown codec they cannot be."""
    whole = rc_file(ROWS["rcfile"], Shape(codec="lzo"))
    folder = lake.text("", {f"{at}": whole for at in range(6)})
    done = run(packstone, "compact", lake.table)
    assert done.json["status"] == "nothing-to-do"
    assert "LzoCodec, so its rows cannot be counted" in done.skipped("3")
    assert {path.read_bytes() for path in folder.iterdir()} == {whole}


@every_format
def test_another_codec_cannot_be_had(packstone, lake, file_format):
    """Blocks are copied, so their codec stays: with ``--codec`` the files are left alone, with the reason."""
    fill(lake, file_format)
    done = run(packstone, "compact", lake.table, "--codec", "zstd")
    assert done.json["status"] == "nothing-to-do"
    assert "keep their codec (null)" in done.skipped("000003_0")


def test_a_name_that_says_something_else(packstone, lake):
    """Content is never trusted against the name: an Avro file called .csv is reported."""
    lake.text("", {f"{at}.csv": avro_file(ROWS["avro"]) for at in range(6)})
    done = run(packstone, "compact", lake.table, code=1)
    assert done.skipped("3.csv") == "its name says text but its content is avro"


def forget_formats(record):
    """The journal of a wave as it was when there were two formats."""
    for swap in record["swaps"]:
        for output in swap["outputs"] if swap["partition"] == "dt=2" else ():
            del output["file_format"]


@every_format
def test_a_journal_tells_the_format(packstone, lake, file_format):
    """The record of a swap names the format, so that anybody can prove it again; one of old names none, and can too."""
    fill(lake, file_format)
    (lake.folder("dt=2") / "a.txt").write_bytes(b"a\n")
    lake.text("dt=2", {f"{at}.txt": b"%d\n" % at for at in range(5)})
    done = run(packstone, "compact", lake.table).json
    told = {}
    for path in (lake.root / ".packstone" / "orders" / "runs" / done["run"]).glob("*.intent.json"):
        for intent in json.loads(path.read_bytes())["swaps"]:
            told[intent["partition"]] = [output["file_format"] for output in intent["outputs"]]
        edit_record(path, forget_formats)
    assert told == {"dt=1": [file_format], "dt=2": ["text"]}
    assert run(packstone, "verify", done["run"], lake.table).json["status"] == "verified"


@every_format
def test_reads_are_measured(packstone, lake, file_format):
    """``verify --measure-read`` reads originals and outputs of these formats too."""
    fill(lake, file_format)
    merged = run(packstone, "compact", lake.table).json["run"]
    done = run(packstone, "verify", merged, lake.table, "--measure-read").json
    assert [(reading["files_before"], reading["files_after"]) for reading in done["read_times"]] == [(6, 1), (6, 1)]
