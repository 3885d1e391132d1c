"""Text that may begin with a header, and JSON that is not lines: left alone until somebody says what it is."""

import gzip
import json

import duckdb
import pytest

from packstone.catalog.named_table import refuse_table
from packstone.model.files import FileFormat
from packstone.model.metastore import FolderFacts, StorageFacts, TableFacts
from packstone.tables.hive.file_facts import LineKind
from packstone.tables.hive.listing import PartitionListing
from packstone.tables.hive.text_facts import read_first_lines, why_maybe_header

HEADED = [f"id,amount\n{at},{at}.5\n{at},2\n".encode() for at in range(6)]
PLAIN = [f"{at},{at}.5\n{at},2\n".encode() for at in range(6)]

MAYBE_HEADED = {
    "all": HEADED,
    "crlf": [text.replace(b"\n", b"\r\n") for text in HEADED],
    "one without": [*HEADED[:5], PLAIN[5]],
    "one with": [*PLAIN[:5], HEADED[5]],
    "one with nothing else": [*PLAIN[:5], b"id,amount\n"],
    "only headers": [b"id,amount"] * 6,
    "quoted": [f'"id";"amount"\n"{at}";"2,5"\n'.encode() for at in range(6)],
    "pandas": [f",id\n{at},{at}\n".encode() for at in range(6)],
    "other columns in one": [*HEADED[:3], *(text.replace(b"amount", b"paid") for text in HEADED[3:])],
    "other columns in each": [text.replace(b"amount", b"paid_%c" % (65 + at)) for at, text in enumerate(HEADED)],
    "words only": [f"name,city\nx{at},y\n".encode() for at in range(6)],
    "words only, one without": [*(f"name,city\nx{at},y\n".encode() for at in range(5)), b"x5,y\n"],
    "blank lines before": [b"\n\n" + text for text in HEADED],
    "one column": [f"id\n{at}\n".encode() for at in range(6)],
    "years": [f"country,2019,2020\nx{at},1,2\n".encode() for at in range(6)],
    "a title": [f"Report of May\nid,amount\n{at},2\n".encode() for at in range(6)],
    "a long line": [b",".join(b"column_%d" % at for at in range(500)) + b"\n%d\n" % at for at in range(6)],
}
ROWS = {
    "numbers": PLAIN,
    "the same numbers": [b"0,0\n1,2\n"] * 6,
    "names and numbers": [f"x{at},{at}\ny,2\n".encode() for at in range(6)],
    "one column of words": [f"word{at}\nother\n".encode() for at in range(6)],
    "words and numbers": [b"apple\n", b"42\n", b"pear\n", b"7\n", b"plum\n"],
    "log lines": [f"2024-05-0{at} INFO started\nINFO x\n".encode() for at in range(1, 7)],
    "hive": [f"x{at}\x01\\N\x01{at}\n".encode() for at in range(6)],
    "null in the first row": [f"x{at},\\N\ny,2\n".encode() for at in range(6)],
}


def fill(lake, texts, *, ending="csv", pack=bytes):
    """Write one file for each text."""
    return lake.text("p=1", {f"f{at}.{ending}": pack(text) for at, text in enumerate(texts)})


@pytest.mark.parametrize("pack", [("csv", bytes), ("csv.gz", gzip.compress)])
@pytest.mark.parametrize("name", MAYBE_HEADED)
def test_what_may_be_a_header_is_left_alone(packstone, lake, tree, name, pack):
    """Whether all files have the line or one, and whatever its form; the reason names both options."""
    fill(lake, MAYBE_HEADED[name], ending=pack[0], pack=pack[1])
    before = tree(lake.table)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], tree(lake.table)) == (0, "nothing-to-do", before)
    assert "--header 1" in done.skipped("p=1")
    assert "--header 0" in done.skipped("p=1")


@pytest.mark.parametrize("name", ROWS)
def test_what_is_rows_is_merged(packstone, lake, name):
    """Numbers, log lines, single words and Hive's own text need no option."""
    folder = fill(lake, ROWS[name])
    assert packstone("compact", lake.table).code == 0
    (merged,) = folder.iterdir()
    assert merged.read_bytes() == b"".join(ROWS[name])


@pytest.mark.parametrize("lines", [0, 1])
def test_the_option_decides(packstone, lake, lines):
    """With ``--header 1`` DuckDB reads the same rows and types; with ``--header 0`` every line stays where it is."""
    folder = fill(lake, HEADED)
    question = f"select count(*), sum(id), any_value(typeof(id)) from read_csv('{folder}/*.csv')"
    before = duckdb.sql(question).fetchall()
    assert packstone("compact", lake.table, "--header", lines).code == 0
    (merged,) = folder.iterdir()
    if lines:
        assert duckdb.sql(question).fetchall() == before
    else:
        assert merged.read_bytes() == b"".join(HEADED)


def test_a_single_file_tells_nothing():
    """One file is not merged, so it needs no option."""
    lines = read_first_lines(HEADED[0], is_whole=True)
    assert lines[0].kind is LineKind.NAMES_OF_VALUES
    assert why_maybe_header([lines]) is None


def test_long_first_lines_are_compared_to_their_end():
    """Lines that differ only behind what is shown of them are different lines."""
    files = [read_first_lines(b"x" * 70_000 + b"%d" % at, is_whole=False) for at in range(3)]
    assert len({lines[0].text for lines in files}) == 3
    assert why_maybe_header(files) is None


NO_LINES = {
    "array": '[{"id": 1}, {"id": 2}]',
    "array with space around": "\n  [1, 2]\n\n",
    "empty array": "[]\n",
    "pretty array": json.dumps([{"id": 1}], indent=2),
    "pretty object": json.dumps({"id": 1, "x": {"y": [1]}}, indent=2),
    "pretty objects": json.dumps({"id": 1}, indent=2) + "\n" + json.dumps({"id": 2}, indent=2),
    "arrays side by side": "[1][2]\n",
    "objects side by side": '{"id": 1}{"id": 2}\n',
    "long array": json.dumps(list(range(30_000))),
    "long array over lines": json.dumps(list(range(30_000)), indent=0),
    "deep array": "[" * 20_000 + "]" * 20_000,
    "no JSON": "[1, 2\n3]\n",
    "array after blanks": " " * 70_000 + '[{"id": 1}, {"id": 2}]\n',
    "pretty object after blank lines": "\n" * 70_000 + json.dumps({"id": 1}, indent=2),
    "nothing in a megabyte": " " * 2_000_000 + '{"id": 1}\n',
    "long first line": '{"id": "' + "x" * 70_000 + '",\n"b": 1}\n',
    "long first line of an array": '[{"id": "' + "x" * 70_000 + '"},\n{"id": "1"}]\n',
    "long objects side by side": '{"id": "' + "x" * 70_000 + '"}{"id": 2}\n',
}
LINES = {
    "objects": '{"id": %d}\n{"id": 2}\n',
    "one object": '{"id": %d}',
    "the same object": '{"id": 1, "n": null}\n{"id": %d}\n',
    "arrays": "[%d, 2]\n[3]\n",
    "array, then object": '[%d]\n{"id": 2}\n',
    "long object": '{"id": %d, "x": "' + "y" * 70_000 + '"}\n',
    "long objects": '{"id": %d, "x": "' + "y" * 70_000 + '"}\n{"id": 3}\n',
    "object after blanks": "\n" * 70_000 + '{"id": %d}\n{"id": 2}\n',
    "CRLF, last line end missing": '{"id": %d}\r\n{"id": 2}',
}


@pytest.mark.parametrize("pack", [("json", bytes), ("json.gz", gzip.compress), ("", bytes)])
@pytest.mark.parametrize("name", NO_LINES)
def test_json_that_is_no_lines(packstone, lake, tree, name, pack):
    """Arrays over a whole file and documents over many lines stay as they are, compressed too."""
    lake.text("p=1", {f"f{at}.{pack[0]}".rstrip("."): pack[1](NO_LINES[name].encode()) for at in range(6)})
    before = tree(lake.table)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["units"], tree(lake.table)) == (0, [], before)
    why = done.json["skipped"][0]["why"]
    assert "JSON" in why or "a megabyte of blanks" in why


@pytest.mark.parametrize("ending", ["json", "jsonl", "ndjson"])
@pytest.mark.parametrize("name", LINES)
def test_json_lines_are_merged(packstone, lake, name, ending):
    """Objects and arrays, one on each line, are rows: DuckDB reads the same before and after."""
    folder = fill(lake, [(LINES[name].replace("%d", str(at))).encode() for at in range(6)], ending=ending)
    question = f"select * from read_json_auto('{folder}/*.{ending}', maximum_object_size=1000000)"
    before = sorted(map(str, duckdb.sql(question).fetchall()))
    assert packstone("compact", lake.table).code == 0
    assert len(list(folder.iterdir())) == 1
    assert sorted(map(str, duckdb.sql(question).fetchall())) == before


def table_facts(provider="", **options):
    """A table as a metastore describes it."""
    text = "org.apache.hadoop.mapred.TextInputFormat"
    storage = StorageFacts(location="/t", input_format=text, serde="", serde_params=options)
    params = {"spark.sql.sources.provider": provider} if provider else {}
    return TableFacts(database="d", name="t", kind="MANAGED_TABLE", storage=storage, params=params)


def test_what_a_metastore_says_of_headers():
    """Hive's number of lines, also 0, and the option of Spark's CSV tables decide; without them nothing is said."""
    assert table_facts().header_lines() is None
    assert table_facts(**{"skip.header.line.count": "0"}).header_lines() == 0
    assert table_facts(**{"skip.header.line.count": "2"}).header_lines() == 2
    assert table_facts("csv").header_lines() is None
    assert table_facts("csv", header="TRUE").header_lines() == 1
    assert table_facts("csv", Header="false").header_lines() == 0


def test_json_tables_of_whole_documents_are_refused():
    """Spark's option multiLine makes each file one document."""
    assert refuse_table(table_facts("json")) is None
    assert "one JSON document each" in refuse_table(table_facts("json", multiLine="true"))


@pytest.mark.parametrize(
    ("told", "given", "lines"), [(None, None, None), (None, 0, 0), (0, None, 0), (0, 1, 1), (2, 1, 2)]
)
def test_who_decides(told, given, lines):
    """A number of the metastore above 0 comes first, then ``--header``, then its 0."""
    listing = PartitionListing(
        partition="", directory="/t", files=(), ignored=(), summaries=(), writing=None, refused=None,
        facts=FolderFacts(name="", file_format=FileFormat.TEXT, header_lines=told),
    )  # fmt: skip
    assert listing.header_lines(given) == lines
