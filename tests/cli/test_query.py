"""`packstone query`: rows in three formats, what is skipped, and one sentence for what is not done."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for scan_cases: tests are imported by path, not as packages

from scan_cases import make_table

import packstone as library

FIXTURES = Path(__file__).parents[1] / "testdata" / "paimon"
FACTS = (
    "id long, name string, price decimal(5,2), at timestamp, x double, raw binary, tags array<string>, m map<int,int>"
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table of all filters; no test changes it."""
    return make_table(tmp_path_factory.mktemp("query") / "t").path


@pytest.fixture
def odd(tmp_path):
    """Values that are easily printed wrongly."""
    made = library.create(str(tmp_path / "odd"), FACTS, sort_by=["id"])
    made.segments.load(
        pa.table(
            {
                "id": [1, 2, 3],
                "name": ['a,"b"\n', "", None],
                "price": pa.array(["1.50", None, "0.00"]).cast(pa.decimal128(5, 2)),
                "at": pa.array([0, None, 1_500_000], pa.timestamp("us", "UTC")),
                "x": [float("nan"), float("-inf"), 0.1],
                "raw": [b"\x00\xff", b"", None],
                "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
                "m": pa.array([[(1, 2)], [], None], pa.map_(pa.int32(), pa.int32())),
            }
        )
    )
    return made.path


def test_a_table_of_rows(packstone, table):
    """Names, rows, how many; numbers to the right, null as null."""
    done = packstone("query", table, "SELECT id, small, name FROM t WHERE id IN (7, 1500) ORDER BY id LIMIT 5")
    assert [line.split() for line in done.out.splitlines()] == [
        ["id", "small", "name"], ["7", "null", "n0"], ["1500", "0", "n150"], ["2", "rows,", "by", "DuckDB"],
    ]  # fmt: skip
    many = packstone("query", table, "SELECT id FROM t")
    assert many.out.splitlines()[-1].startswith("the first 100 rows; give LIMIT")
    assert len(many.out.splitlines()) == 102


def test_csv_comes_back_as_it_was(packstone, odd):
    """Quotes, line breaks, null and empty text apart."""
    done = packstone("query", odd, "SELECT * FROM t ORDER BY id LIMIT 3", "--format", "csv")
    assert done.out.splitlines()[0] == "id,name,price,at,x,raw,tags,m"
    rows = list(csv.reader(io.StringIO(done.out)))
    assert [row[1] for row in rows[1:]] == ['a,"b"\n', "", ""]
    assert rows[1][2:] == ["1.50", "1970-01-01T00:00:00+00:00", "NaN", "\\x00FF", '["a", null]', "[[1, 2]]"]
    assert done.out.splitlines()[-2:] == [
        '2,"",,,-Infinity,\\x,[],[]',
        "3,,0.00,1970-01-01T00:00:01.500000+00:00,0.1,,,",
    ]


def test_json(packstone, odd):
    """One object; a row is an array in the order of the columns; no rows is an answer too."""
    statement = "SELECT id, price AS p, at, x, raw, tags, m FROM t WHERE id < 3 ORDER BY id LIMIT 9"
    found = packstone("query", odd, statement, "--format", "json").json
    assert (found["format_version"], found["table"], found["family"], found["version"]) == (1, odd, "segments", 3)
    assert found["columns"][:3] == [
        {"name": "id", "type": "long"}, {"name": "p", "type": "decimal(5,2)"}, {"name": "at", "type": "timestamp"},
    ]  # fmt: skip
    assert found["rows"] == [
        [1, "1.50", "1970-01-01T00:00:00+00:00", "NaN", "00FF", ["a", None], [[1, 2]]],
        [2, None, None, "-Infinity", "", [], []],
    ]
    assert found["row_count"] == 2
    assert packstone("query", odd, "SELECT id FROM t WHERE id > 5", "--format", "json").json["rows"] == []


def test_totals(packstone, table):
    """One row."""
    done = packstone("query", table, "SELECT count(*), sum(id) AS s FROM t WHERE id < 10", "--format", "csv")
    assert done.out.splitlines() == ["count(*),s", "10,45"]


def test_earlier_versions(packstone, table):
    """By number and by time."""
    for options, count in ((("--version", 3), 1000), (("--as-of", "2999-01-01"), 3000)):
        done = packstone("query", table, "SELECT count(*) FROM t", "--format", "csv", *options)
        assert done.out.splitlines()[1] == str(count)
    assert "either" in packstone("query", table, "SELECT id FROM t", "--version", 1, "--as-of", "2999-01-01").sentence


def test_explain(packstone, table):
    """What would be read at each level, what each part of the filter does, bytes; no row is read."""
    statement = "SELECT name FROM t WHERE id = 1234 AND small < 9"
    done = packstone("query", table, statement, "--explain")
    words = [line.split() for line in done.out.splitlines()]
    assert ["filter", "id", "=", "1234", "AND", "small", "<", "9"] in words
    assert [line[:3] for line in words if line[0] in ("segments", "files")] == [
        ["segments", "1", "3"],
        ["files", "1", "3"],
    ]
    assert ["id", "=", "1234", "2", "row", "groups"] in words
    found = packstone("query", table, statement, "--explain", "--format", "json").json
    assert found["levels"][-1] | {"how": ""} == {"name": "row groups", "total": 3, "kept": 1, "how": ""}
    assert found["read_bytes"] < found["total_bytes"]
    assert set(found["caches"]) >= {"index", "footer"}
    assert "CSV" in packstone("query", table, statement, "--explain", "--format", "csv").sentence
    chosen = packstone(
        "query", table, "SELECT upper(name) FROM t", "--explain", "--engine", "spark", "--format", "json"
    )
    assert chosen.json["engine"] == "spark"


def test_paimon_tables(packstone, tmp_path):
    """Rows are merged; a version is the number of a snapshot."""
    shutil.copytree(FIXTURES / "pk_overlapping" / "table", tmp_path / "t")
    expected = json.loads((FIXTURES / "pk_overlapping" / "expected.json").read_text())
    done = packstone("query", tmp_path / "t", "SELECT count(*) FROM t", "--format", "csv")
    assert done.out.splitlines()[1] == str(len(expected["rows"]))
    assert "snapshot" in packstone("query", tmp_path / "t", "SELECT * FROM t", "--explain").out


@pytest.mark.parametrize(
    ("statement", "code", "part"),
    [
        ("SELECT nix FROM t", 2, "no column 'nix'"),
        ("SELECT id FROM t WHERE id = 'x'", 2, "id"),
        ("SELECT id FROM t WHERE upper(name) = 'N1'", 3, "upper"),
        ("SELECT sum(name) FROM t", 3, "Only Spark evaluates sum(name)"),
        ("SELECT count(id, name) FROM t", 3, "Only Spark evaluates count(id, name)"),
        ("SELECT a.x FROM t AS a (x, y, z) WHERE x = 1", 2, "does not support names of columns after a"),
        ("SELECT min(tags) FROM t", 3, "Only Spark evaluates min(tags)"),
        ("SELECT id FROM t ORDER BY tags LIMIT 1", 3, "Only Spark evaluates tags"),
        ("SELECT id FROM t VERSION AS OF 3", 2, "give --version"),
        ("DELETE FROM t", 2, "does not support DELETE"),
        ("SELECT id FROM t FOR UPDATE", 2, "does not support FOR UPDATE"),
        ("SELECT nix.id FROM t", 2, "there is no table 'nix' in FROM"),
        ("SELECT id FROM t AS a WHERE t.id = 1", 2, "there is no table 't' in FROM"),
        ("SELECT name.id FROM t", 2, "there is no table 'name' in FROM"),
        ("SELECT t.nix FROM t", 2, "no column 'nix'"),
    ],
)
def test_one_sentence_for_what_is_not_done(packstone, table, statement, code, part):
    """Nothing on stdout, the reason on stderr."""
    done = packstone("query", table, statement)
    assert (done.code, done.out) == (code, "")
    assert part in done.sentence


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("SELECT (SELECT max(id) FROM t) - (SELECT max(id) FROM t) AS m", 0),
        ("SELECT EXISTS(SELECT 1 FROM t) AS m", True),
        ("SELECT 1 AS m WHERE EXISTS(SELECT 1 FROM t)", 1),
    ],
)
def test_tables_in_subqueries_only(packstone, table, statement, answer):
    """A SELECT without FROM was an unexpected KeyError."""
    assert packstone("query", table, statement, "--format", "json").json["rows"] == [[answer]]


def test_a_zone_that_does_not_exist(packstone, table):
    """It is an error also if the statement has no local time."""
    done = packstone("query", table, "SELECT count(*) FROM t", "--timezone", "Mars/Olympus")
    assert (done.code, done.out) == (2, "")
    assert "'Mars/Olympus' is not a time zone" in done.sentence


def test_only_tables(packstone, lake):
    """A directory of files has no index."""
    lake.parquet()
    assert "is a Hive directory; read it with Spark" in packstone("query", lake.table, "SELECT 1 FROM t").sentence
    assert "does not exist" in packstone("query", lake.root / "nix", "SELECT id FROM t").sentence


def test_bytes_in_csv_are_loaded_as_they_were(packstone, tmp_path):
    """What `query` prints, `load` reads: every byte, nothing, null, and bytes that look like their own notation."""
    values = [bytes(range(256)), b"", None, b"\\x41", b"plain", b"\\x", b'"a",\n']
    made = library.create(str(tmp_path / "a"), "id long, raw binary", sort_by=["id"])
    made.segments.load(pa.table({"id": range(len(values)), "raw": pa.array(values, pa.binary())}))
    done = packstone("query", tmp_path / "a", "SELECT * FROM t", "--format", "csv")
    (tmp_path / "out.csv").write_text(done.out)
    again = library.create(str(tmp_path / "b"), "id long, raw binary", sort_by=["id"])
    again.segments.load(str(tmp_path / "out.csv"))
    assert again.scan().to_arrow().column("raw").to_pylist() == values


def test_text_for_bytes_is_its_utf8_unless_it_is_marked(tmp_path):
    r"""`\x` and hexadecimal digits are bytes; without the mark it is text; with the mark and no digits it is bad."""
    table = library.create(str(tmp_path / "t"), "id long, raw binary")
    (tmp_path / "a.csv").write_text("id,raw\n1,é\n2,\\x00fF\n3,4142\n")
    table.segments.load(str(tmp_path / "a.csv"))
    assert table.scan().to_arrow().column("raw").to_pylist() == ["é".encode(), b"\x00\xff", b"4142"]
    (tmp_path / "b.csv").write_text("id,raw\n1,\\x0g\n")
    with pytest.raises(library.errors.InvalidInputError, match="hexadecimal"):
        table.segments.load(str(tmp_path / "b.csv"))
