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
from packstone.pipeline.query import QueryEngine, parse_select, query_table, query_tables
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
    """Rows that are loaded later are not in it; earlier versions can be requested by number and by time."""
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


def answer(table, statement):
    """The rows of an answer."""
    with query_table(table, statement).run() as (schema, batches):
        return arrow_rows(pa.Table.from_batches(list(batches), schema=schema))


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
    found = answer(table, statement)
    expected = duck.execute(asked).fetchall()
    is_ordered = "ORDER BY" in statement
    assert plain(found) == plain(expected)
    if is_ordered:
        assert [plain([row]) for row in found] == [plain([row]) for row in expected]


def test_a_limit_stops_the_scan(table):
    """No more rows than requested; none for LIMIT 0, all for one beyond any table."""
    for limit in (0, 1, 1500, 10**30):
        assert len(answer(table, f"SELECT id FROM t LIMIT {limit}")) == min(limit, ROWS)


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("DELETE FROM t", "DELETE"),
        ("SELECT 'id FROM t", "quote"),
        ("", "One statement"),
        ("SELECT id FROM t; DROP TABLE t", "One statement"),
        ("SELECT id FROM t VERSION AS OF 3", "give --version"),
        ("EXPLAIN SELECT id FROM t", "give --explain"),
        ("SHOW TABLES", "does not support SHOW"),
    ],
)
def test_other_statements_are_refused_by_name(statement, part, caplog):
    """One sentence names what is not done here, and nobody else says anything."""
    with pytest.raises(InvalidInputError, match=part):
        parse_select(statement)
    assert not caplog.records


def test_sums_do_not_overflow_on_the_way(tmp_path):
    """Longs that leave their range and come back are summed; a sum beyond a long is an error that says so."""
    made = packstone.create(str(tmp_path / "t"), "a long, d decimal(38,0)")
    big = 2**63 - 1
    made.segments.load(pa.table({"a": [big, big, -big], "d": pa.array([10**37] * 3, pa.decimal128(38, 0))}))
    assert answer(made, "SELECT sum(a), sum(d) FROM t") == [(big, 3 * 10**37)]
    with pytest.raises(InvalidInputError, match="18446744073709551614"):
        answer(made, "SELECT sum(a) FROM t WHERE a > 0")


ENGINES = {
    "SELECT id, name AS n FROM t WHERE id < 9 AND name LIKE 'n%' LIMIT 3": (QueryEngine.SCAN, ""),
    "SELECT count(*) FROM t WHERE id > 5": (QueryEngine.SCAN, ""),
    "SELECT * FROM t": (QueryEngine.SCAN, ""),
    "SELECT count(id) FROM t": (QueryEngine.DUCKDB, "count(id)"),
    "SELECT DISTINCT id FROM t": (QueryEngine.DUCKDB, "DISTINCT"),
    "SELECT id, count(*) FROM t GROUP BY id": (QueryEngine.DUCKDB, "GROUP BY"),
    "SELECT id FROM t ORDER BY id": (QueryEngine.DUCKDB, "ORDER BY"),
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id": (QueryEngine.DUCKDB, "a join"),
    "SELECT id FROM (SELECT id FROM t)": (QueryEngine.DUCKDB, "a query in FROM"),
    "WITH x AS (SELECT id FROM t) SELECT * FROM x": (QueryEngine.DUCKDB, "WITH"),
    "SELECT id FROM t UNION ALL SELECT id FROM t": (QueryEngine.DUCKDB, "UNION"),
    "SELECT id + 1 FROM t": (QueryEngine.DUCKDB, "id + 1"),
    "SELECT id FROM t LIMIT 3 OFFSET 3": (QueryEngine.DUCKDB, "OFFSET"),
}


@pytest.mark.parametrize("statement", ENGINES)
def test_who_answers(table, statement):
    """The scan itself where it can; the first construct that it does not have is named."""
    query = query_table(table, statement)
    assert (query.engine, query.why) == ENGINES[statement]


@pytest.mark.parametrize(
    "part",
    ["upper(name)", "avg(price)", "price * 2", "tags[0]", "sum(name)", "min(tags)", "cast(name AS INT)", "id <=> name"],
)
def test_what_duckdb_may_answer_differently_is_left_to_spark(table, part):
    """Where Spark must not be started, it is refused by name, and nothing is read."""
    with pytest.raises(RefusedError, match="Only Spark evaluates"):
        query_table(table, f"SELECT id, {part} FROM t", engine="inline")
    assert query_table(table, f"SELECT id, {part} FROM t", engine="local[2]").engine is QueryEngine.SPARK


PUSHED = {
    "SELECT id FROM t WHERE id < 5 AND length(name) = 2": ["id < 5"],
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id < 5 AND b.name = 'n1' AND a.id < b.id": [
        "id < 5", "name = 'n1'",
    ],
    "SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id WHERE a.id < 5 AND b.name IS NULL": ["id < 5", ""],
    "SELECT a.id FROM t a RIGHT JOIN t b ON a.id = b.id WHERE a.id < 5": ["", ""],
    "SELECT a.id FROM t a FULL JOIN t b ON a.id = b.id WHERE a.id < 5": ["", ""],
    "SELECT id FROM t WHERE id IN (SELECT max(u.id) FROM t u WHERE u.small = t.small AND u.ok)": ["", "ok = TRUE"],
    "SELECT id, count(*) FROM t WHERE ok GROUP BY id HAVING id < 5": ["ok = TRUE"],
    "SELECT id FROM t WHERE id < 5 OR length(name) = 2": [""],
}  # fmt: skip


@pytest.mark.parametrize("statement", PUSHED)
def test_an_index_answers_what_it_can(table, duck, statement):
    """Conditions on one table go into its scan, except on the optional side of an outer join; the rows stay."""
    query = query_table(table, statement)
    assert sorted(report.pruned.filter for report in query.explain()) == sorted(PUSHED[statement])
    assert plain(answer(table, statement)) == plain(duck.execute(statement).fetchall())


def test_only_the_columns_that_are_used_are_read(table):
    """A star inside needs all of them, a count of rows one."""
    names = [scan.schema.names for scan in query_table(table, "SELECT max(ID), a.small FROM t a GROUP BY small").scans]
    assert names == [["id", "small"]]
    assert len(query_table(table, "SELECT count(*) FROM t a, t b").scans[0].schema) == 1


def test_several_tables(table, tmp_path):
    """Each name opens its own table; one table has one name in `query`."""
    other = packstone.create(str(tmp_path / "o"), "id long, note string")
    other.segments.load(pa.table({"id": [1, 2], "note": ["a", "b"]}))
    statement = "SELECT t.ID, note AS Said FROM db.o JOIN t ON t.id = o.id ORDER BY 1"
    with query_tables(statement, {"db.o": other, "t": table}.__getitem__).run() as (schema, batches):
        assert schema.names == ["ID", "Said"]
        assert arrow_rows(pa.Table.from_batches(list(batches), schema=schema)) == [(1, "a"), (2, "b")]
    with pytest.raises(InvalidInputError, match="several tables: o, t"):
        query_table(table, "SELECT t.id FROM t, o")


def test_errors_of_a_scan_come_through_duckdb(tmp_path):
    """A missing file is named as by a plain scan, and DuckDB's own errors are one sentence."""
    made = make_table(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"DuckDB cannot answer the statement: .*Division by zero"):
        answer(made, "SELECT id / (id - 1) FROM t")
    for path in made.segments.files().paths[:1]:
        Path(path).unlink()
    with pytest.raises(PackstoneError, match="part-"):
        answer(made, "SELECT max(id) FROM t")


def test_duckdb_reads_nothing_but_the_scans(table, tmp_path):
    """A file, or a variable of this program, is not a table."""
    secret = tmp_path / "secret.csv"
    secret.write_text("id\n5\n")
    for source in (f"`{secret}`", "csv.`x`", f"read_csv('{secret}')", "range(5)"):
        with pytest.raises(PackstoneError):
            query_tables(f"SELECT count(*) + 1 FROM {source}", packstone.open)
