"""Scans as users call them, without Spark: the rows that DuckDB finds in the same files, and what is said of them."""

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from paimon_interop.rows import plain as paimon_plain
from scan_cases import FILTERS, ROWS, arrow_rows, duck_rows, load_duck, make_table, plain, rows

import packstone
from packstone import col
from packstone.errors import InvalidInputError, PackstoneError, RefusedError
from packstone.pipeline.query import parse_statement, query_table
from packstone.pipeline.table import Table

FIXTURES = Path(__file__).parents[1] / "testdata" / "paimon"
CASES = sorted(path.name for path in FIXTURES.iterdir() if (path / "expected.json").exists())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table of all filters; no test changes it."""
    return make_table(tmp_path_factory.mktemp("scan") / "t")


@pytest.fixture(scope="module")
def duck(table):
    """A second reader of the same files."""
    with duckdb.connect() as connection:
        yield load_duck(connection, table.segments.files().paths)


def ids(scan):
    """The ids of a scan, in order."""
    return sorted(scan.to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("where", FILTERS)
def test_a_scan_is_what_duckdb_reads(table, duck, where):
    """For every kind of filter: all rows, a few columns, the count; pruned or not."""
    expected = plain(duck_rows(duck, FILTERS[where] or where))
    assert plain(arrow_rows(table.scan(where=where).to_arrow())) == expected
    few = table.scan(["price", "ID"], where).to_arrow(threads=2)
    assert few.schema.names == ["price", "id"]
    assert plain(arrow_rows(few)) == plain(duck_rows(duck, FILTERS[where] or where, "price, id"))
    assert table.scan(where=where).count() == len(expected)


def test_filters_of_python_operators(table):
    """An expression gives what its SQL gives."""
    made = (col("id") >= 10) & col("id").isin(9, 10, 11, 2501) & ~col("name").is_null()
    assert ids(table.scan(where=made)) == ids(table.scan(where=str(made))) == [10, 11, 2501]
    assert ids(table.scan(where=col("name").startswith("n29") & col("id").between(2991, 2994))) == [
        2991,
        2992,
        2993,
        2994,
    ]


def test_explain_tells_what_is_left_out(table):
    """Levels, predicates and bytes; a point lookup reads one row group of three."""
    report = table.scan(["name"], "id = 1234 AND small < 9").explain()
    levels = {level.name: (level.kept, level.total) for level in report.pruned.levels}
    assert levels == {"segments": (1, 3), "files": (1, 3), "row groups": (1, 3)}
    effects = {effect.predicate: effect.excluded for effect in report.pruned.predicates}
    assert effects == {"id = 1234": 2, "small < 9": 0}
    assert 0 < report.pruned.read_bytes < report.pruned.total_bytes / 2
    assert json.loads(json.dumps(report.to_json()))["version"] == table.segments.describe().version
    assert "row groups: 1 of 3" in str(report)
    assert table.cache_stats()["index"].hits > 0


def test_a_scan_stays_at_its_version(tmp_path):
    """What is loaded meanwhile is not in it; earlier versions can be requested by number and by time."""
    made = make_table(tmp_path / "t")
    scan = made.scan(["id"])
    made.segments.load(rows(ROWS, 10))
    assert (scan.count(), made.scan().count()) == (ROWS, ROWS + 10)
    assert scan.to_arrow().num_rows == ROWS
    first = made.scan(version=3)
    assert (first.count(), first.version) == (1000, 3)
    assert made.scan(as_of=made.segments.versions()[-1].written_ms).count() == 0
    made.compact(packstone.SegmentOptions(strategy="major"))
    assert ids(made.scan()) == list(range(ROWS + 10))
    assert scan.count() == ROWS


def test_rows_go_to_whatever_speaks_arrow(table):
    """DuckDB and PyArrow take a scan as it is; rows without columns are still counted."""
    found = table.scan(["id", "name"], "id < 10")
    assert duckdb.from_arrow(found.to_reader()).aggregate("count(*), max(id)").fetchall() == [(10, 9)]
    assert pa.table(found).num_rows == 10
    assert sum(batch.num_rows for batch in table.scan([], "id < 10").to_batches()) == 10


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"columns": ["nix"]}, "no column 'nix'"),
        ({"where": "nix = 1"}, "nix"),
        ({"where": "id = 'x'"}, "id"),
        ({"where": "id ="}, "not valid SQL"),
        ({"where": 5}, "A int is not a filter"),
        ({"version": 1, "as_of": "2026-01-01"}, "not both"),
        ({"version": 99}, "no version 99"),
    ],
)
def test_wrong_calls(table, arguments, part):
    """One sentence says what is wrong, before anything is read."""
    with pytest.raises(InvalidInputError, match=part):
        table.scan(**arguments).explain()


def test_what_only_spark_can_test_is_refused_by_name(table):
    """Without Spark nobody can evaluate a function, and rows that do not match must not come out."""
    scan = table.scan(where="upper(name) = 'N1' AND id < 100")
    assert scan.explain().unpushed
    for ask in (scan.to_arrow, scan.count):
        with pytest.raises(RefusedError, match="UPPER"):
            ask()
    with pytest.raises(InvalidInputError, match="threads"):
        scan.to_batches(threads=0)


def test_a_version_that_is_cleaned_meanwhile(tmp_path):
    """Files that are gone are named, with what to do."""
    made = make_table(tmp_path / "t")
    scan = made.scan(["id"])
    assert scan.schema.names == ["id"]
    for path in made.segments.files().paths[:1]:
        Path(path).unlink()
    with pytest.raises(PackstoneError, match="part-"):
        scan.to_arrow()


def test_a_scan_that_is_not_read_to_its_end_leaves_no_thread(table):
    """Whoever has seen enough goes; the threads go too."""
    import threading

    before = threading.active_count()
    batches = table.scan().to_batches(threads=3)
    next(batches)
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("case", CASES)
def test_paimon_tables_are_read_as_their_makers_do(case, tmp_path):
    """All rows, merged where versions must be merged; and a filter on one column gives those of them that match."""
    shutil.copytree(FIXTURES / case / "table", tmp_path / "table")
    expected = json.loads((FIXTURES / case / "expected.json").read_text())
    made = Table(str(tmp_path / "table"))
    names = expected["columns"]
    found = made.scan(names).to_arrow()
    everything = [[paimon_plain(value) for value in row] for row in arrow_rows(found)]
    assert sorted(everything, key=repr) == sorted(expected["rows"], key=repr)
    assert made.scan().count() == len(expected["rows"])
    first = names[0]
    value = found.column(first)[0].as_py() if len(found) else 1
    some = made.scan(names, col(first) == value).to_arrow()
    wanted = [row for row in everything if row[0] == paimon_plain(value)]
    assert sorted(([paimon_plain(one) for one in row] for row in arrow_rows(some)), key=repr) == sorted(
        wanted, key=repr
    )


ANSWERS = {
    "SELECT count(*), count(price), min(id), max(name), sum(id), sum(price), sum(small) FROM t WHERE id > 990": None,
    "SELECT max(ratio), min(ratio), min(moment), max(day), max(ok), min(raw) FROM t": None,
    "SELECT count(*), sum(id), min(name) FROM t WHERE id < 0": None,
    "SELECT id, ratio FROM t ORDER BY ratio DESC, id LIMIT 300": "ORDER BY ratio DESC NULLS LAST, id LIMIT 300",
    "SELECT id, name FROM t ORDER BY name, id DESC LIMIT 500": "ORDER BY name NULLS FIRST, id DESC LIMIT 500",
    "SELECT id FROM t ORDER BY single NULLS LAST, id LIMIT 2900": None,
    "SELECT id AS i, id, price FROM t WHERE id < 9 ORDER BY price DESC LIMIT 3": (
        "WHERE id < 9 ORDER BY price DESC NULLS LAST LIMIT 3"
    ),
}


@pytest.mark.parametrize("statement", ANSWERS)
def test_statements_are_answered_as_duckdb_does(table, duck, statement):
    """Totals and orders, with nulls and NaN where Spark puts them."""
    begin, _, _ = statement.partition(" FROM t")
    asked = statement if ANSWERS[statement] is None else f"{begin} FROM t {ANSWERS[statement]}"
    found = [row for batch in query_table(table, statement).to_batches() for row in arrow_rows(batch)]
    expected = duck.execute(asked).fetchall()
    is_ordered = "ORDER BY" in statement
    assert plain(found) == plain(expected)
    if is_ordered:
        assert [plain([row]) for row in found] == [plain([row]) for row in expected]


def test_a_limit_stops_the_scan(table):
    """No more rows than requested; none for LIMIT 0, all for one beyond any table."""
    for limit in (0, 1, 1500, 10**30):
        found = query_table(table, f"SELECT id FROM t LIMIT {limit}").to_batches()
        assert sum(batch.num_rows for batch in found) == min(limit, ROWS)


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT DISTINCT id FROM t", "DISTINCT"),
        ("SELECT id, count(*) FROM t GROUP BY id", "GROUP BY"),
        ("SELECT id FROM t ORDER BY id", "ORDER BY without LIMIT"),
        ("SELECT id FROM t ORDER BY id LIMIT 2000000", "LIMIT above 1,000,000"),
        ("SELECT a.id FROM t a JOIN t b ON a.id = b.id", "a join"),
        ("SELECT id FROM (SELECT 1)", "a query in FROM"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH"),
        ("SELECT 1 FROM t UNION SELECT 2 FROM t", "UNION"),
        ("SELECT id + 1 FROM t", "'id \\+ 1'"),
        ("SELECT avg(id) FROM t", "AVG"),
        ("SELECT id, count(*) FROM t", "a column together with a total"),
        ("SELECT id FROM t OFFSET 3", "OFFSET"),
        ("SELECT tags[0] FROM t", "tags"),
        ("DELETE FROM t", "DELETE"),
        ("SELECT id", "needs FROM"),
        ("SELECT 'id FROM t", "quote"),
        ("", "One statement"),
        ("SELECT id FROM t; DROP TABLE t", "One statement"),
        ("SELECT id FROM t LIMIT 1 BY id", "LIMIT 1 BY id"),
        ("SELECT id FROM t VERSION AS OF 3", "give --version"),
        ("EXPLAIN SELECT id FROM t", "give --explain"),
        ("SHOW TABLES", "does not support SHOW"),
    ],
)
def test_other_statements_are_refused_by_name(statement, part, caplog):
    """One sentence names what is not done here, and nobody else says anything."""
    with pytest.raises(InvalidInputError, match=part):
        parse_statement(statement)
    assert not caplog.records


def test_sums_do_not_overflow_on_the_way(tmp_path):
    """Longs that leave their range and come back are summed; a sum beyond a long is an error that says so."""
    made = packstone.create(str(tmp_path / "t"), "a long, d decimal(38,0)")
    big = 2**63 - 1
    made.segments.load(pa.table({"a": [big, big, -big], "d": pa.array([10**37] * 3, pa.decimal128(38, 0))}))
    (batch,) = query_table(made, "SELECT sum(a), sum(d) FROM t").to_batches()
    assert batch.to_pylist() == [{"sum(a)": big, "sum(d)": 3 * 10**37}]
    with pytest.raises(InvalidInputError, match=r"sum\(a\) is 18446744073709551614"):
        list(query_table(made, "SELECT sum(a) FROM t WHERE a > 0").to_batches())
