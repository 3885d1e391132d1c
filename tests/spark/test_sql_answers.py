"""SELECT beyond a scan: DuckDB answers as Spark SQL does over the same files, or is not used."""

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from scan_cases import arrow_rows

import packstone
from packstone.errors import PackstoneError
from packstone.pipeline.query import QueryEngine, query_tables

pytest.importorskip("pyspark.sql.datasource", reason="the answers are those of Spark 4")
NAN, INF = math.nan, math.inf
SCHEMA = (
    "k int, tiny tinyint, small smallint, big long, x double, f float, d decimal(9,2), wide decimal(38,4), s string, "
    "day date, at timestamp, wall timestamp_ntz, ok boolean, raw binary"
)


def make_rows(count, seed):
    """Nulls, NaN, both zeros, infinity, the ends of integers, texts that collations order differently."""
    draw = random.Random(seed)

    def some(*values):
        return [draw.choice((None, *values)) for _ in range(count)]

    return {
        "k": [number % 7 for number in range(count)],
        "tiny": some(-128, -1, 0, 1, 127),
        "small": some(-5, 0, 300),
        "big": some(-(2**62), -7, 0, 1, 2**53 + 1),
        "x": some(NAN, -0.0, 0.0, INF, -INF, 1.5, -2.25),
        "f": some(NAN, -0.0, 0.0, 0.5, 0.1),
        "d": some(Decimal("-1.50"), Decimal("0.00"), Decimal("9999999.99")),
        "wide": some(Decimal("1.0001"), Decimal(10**33)),
        "s": some("", "a", "B", "b", "ä", "Z", "\U0001f600", "\uffff", "a%"),
        "day": some(*(pa.scalar(days, pa.date32()).as_py() for days in (-1, 0, 19000))),
        "at": some(*(pa.scalar(us, pa.timestamp("us", "UTC")).as_py() for us in (-1, 0, 10**15))),
        "wall": some(*(pa.scalar(us, pa.timestamp("us")).as_py() for us in (-1, 0, 10**15))),
        "ok": some(True, False),
        "raw": some(b"", b"\x00", b"\xff"),
    }


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Two tables of two loads, which Spark reads from their files by itself."""
    found = {}
    for name, seed in (("t", 1), ("u", 2)):
        made = packstone.create(str(tmp_path_factory.mktemp("sql") / name), SCHEMA, sort_by=["k"])
        for load in range(2):
            schema = made.scan().schema
            made.segments.load(pa.table(make_rows(40, seed * 10 + load), schema=schema))
        made.segments.to_df(spark).createOrReplaceTempView(name)
        found[name] = made
    return found


def same(value):
    """A value that can be compared: NaN as text, doubles to 12 digits; of 0.0 and -0.0 either may be the minimum."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else f"{value + 0.0:.12g}"
    return str(value)


def ask(run):
    """Rows, or that there is an error."""
    try:
        return [tuple(map(same, row)) for row in run()]
    except Exception as error:  # noqa: BLE001 - Spark's errors have many types
        return f"error: {type(error).__name__}"


def check(spark, tables, statement):
    """Compare types and rows; return who answered."""
    query = query_tables(statement, lambda name: tables[name.lower()], engine="auto")
    if query.engine is QueryEngine.SPARK:
        return query.engine

    def ours():
        with query.run() as (schema, batches):
            table = pa.Table.from_batches(list(batches), schema=schema)
        kinds.append([str(kind).replace("Etc/", "") for kind in table.schema.types])
        return arrow_rows(table)

    def theirs():
        table = spark.sql(statement).toArrow()
        kinds.append([str(kind) for kind in table.schema.types])
        return arrow_rows(table)

    kinds = []
    found, expected = ask(ours), ask(theirs)
    if isinstance(expected, str):
        # Spark refuses a comparison of bytes with a number; the filter of a scan finds no such row.
        assert isinstance(found, str) or expected == "error: AnalysisException", statement
        return query.engine
    assert not isinstance(found, str), (statement, found)
    assert kinds[0] == kinds[1], statement
    if "ORDER BY" in statement and "OVER" not in statement:
        assert found == expected, statement
    else:
        assert sorted(found) == sorted(expected), statement
    return query.engine


STATEMENTS = [
    "SELECT count(*), count(x), count(DISTINCT x), count(DISTINCT s), count(DISTINCT f) FROM t",
    "SELECT sum(tiny), sum(small), sum(d), sum(wide), avg(tiny), avg(small), min(x), max(x), min(f), max(f) FROM t",
    "SELECT min(s), max(s), min(day), max(at), min(wall), max(ok), min(raw), max(d), min(tiny) FROM t",
    "SELECT sum(big), avg(big) FROM t WHERE big < 0 AND big > -100",
    "SELECT sum(big) FROM t WHERE big < -100",
    "SELECT sum(x), avg(f) FROM t WHERE x < 5 AND x > -5 AND f < 9",
    "SELECT sum(k), min(x), count(*) FROM t WHERE k > 99",
    "SELECT s, count(*) n FROM t GROUP BY s ORDER BY s",
    "SELECT s, count(*) n FROM t GROUP BY s ORDER BY s DESC",
    "SELECT day, at, ok, raw, d, sum(k) FROM t GROUP BY day, at, ok, raw, d",
    "SELECT x, k FROM t ORDER BY x, k, f, s, d, tiny, small, big, day, at, wall, ok, raw LIMIT 30",
    "SELECT f, k FROM t ORDER BY f DESC NULLS FIRST, k LIMIT 30",
    "SELECT k, tiny + 1, tiny - small, small * tiny, big % 5, tiny % 3, -d, -tiny FROM t WHERE tiny > -128",
    "SELECT k, tiny + tiny FROM t",
    "SELECT -tiny FROM t",
    "SELECT k, k / 2, k / small FROM t WHERE small <> 0",
    "SELECT k / 0 FROM t",
    "SELECT tiny / 0 FROM t WHERE tiny IS NULL",
    "SELECT k % 0 FROM t",
    "SELECT x / f, f / 2 FROM t WHERE f <> 0",
    "SELECT k, x FROM t WHERE x > 1 AND length(s) >= 0",
    "SELECT k, x FROM t WHERE x = x AND length(s) >= 0",
    "SELECT k, s FROM t WHERE NOT (s LIKE '%b%' AND length(s) > 0)",
    "SELECT length(s) l, count(*) FROM t GROUP BY length(s)",
    "SELECT t.k, u.k, t.x FROM t JOIN u ON t.x = u.x AND t.k = u.k",
    "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k WHERE t.s = 'a' AND u.s = 'b'",
    "SELECT t.k, u.s FROM t LEFT JOIN u ON t.k = u.k AND t.d = u.d WHERE u.s IS NULL AND t.k < 3",
    "SELECT t.k, u.s FROM t RIGHT JOIN u ON t.s = u.s AND t.d = u.d WHERE t.k IS NULL",
    "SELECT t.k, u.k k2 FROM t FULL JOIN u ON t.s = u.s AND t.at = u.at WHERE t.k IS NULL OR u.k < 3",
    "SELECT count(*) FROM t, u WHERE t.day < u.day",
    "SELECT k, count(*) FROM t JOIN u USING (k) GROUP BY k",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE s = 'a') AND tiny > 0",
    "SELECT k FROM t WHERE tiny NOT IN (SELECT tiny FROM u)",
    "SELECT k, s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.s = t.s)",
    "SELECT (SELECT max(u.k) FROM u WHERE u.s = t.s) m, s FROM t",
    "SELECT DISTINCT k, s FROM t",
    "SELECT k FROM t UNION SELECT k FROM u",
    "SELECT k, s FROM t UNION ALL SELECT k, s FROM u",
    "SELECT s FROM t EXCEPT SELECT s FROM u",
    "SELECT s FROM t INTERSECT SELECT s FROM u",
    "WITH a AS (SELECT k, sum(d) total FROM t GROUP BY k) SELECT p.k, p.total FROM a p JOIN a q ON p.k = q.k + 1",
    "WITH a AS (SELECT k, sum(tiny) total FROM t GROUP BY k) SELECT sum(total), max(total) FROM a",
    "SELECT k, sum(tiny) OVER (PARTITION BY k), rank() OVER (PARTITION BY k ORDER BY s), count(*) OVER () FROM t",
    "SELECT k, dense_rank() OVER (ORDER BY x DESC) r, max(s) OVER (PARTITION BY k ORDER BY day) m FROM t",
    "SELECT k, sum(tiny) OVER (PARTITION BY k ORDER BY day) c FROM t",
    "SELECT k, CASE WHEN x > 1 THEN s WHEN ok THEN 'yes' END c, coalesce(s, 'none') FROM t",
    "SELECT k, coalesce(tiny, tiny), CASE WHEN ok THEN k ELSE 0 END FROM t",
    "SELECT count(CASE WHEN x > 1 THEN 1 END), sum(CASE WHEN ok THEN 1 ELSE 0 END) FROM t",
    "SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > 5 AND max(x) > 3 ORDER BY k",
    "SELECT K AS Name, count(*) FROM T GROUP BY k ORDER BY NAME LIMIT 3 OFFSET 2",
    "SELECT k, ok IS TRUE, s IS NULL, s <=> 'a', k BETWEEN tiny AND 5, d > 0.5, d = 0, big > 1.5, x > 0.1 FROM t",
    "SELECT max(k) + 1, count(*) * 2, sum(k) / count(*) FROM t",
    "SELECT k AS big, tiny FROM t WHERE big = 1 AND length(s) >= 0",
    "SELECT k % 2 AS k, count(*) FROM t GROUP BY k",
    "SELECT small AS k, tiny FROM t ORDER BY k, tiny",
    "WITH t AS (SELECT * FROM t WHERE k = 1) SELECT count(*), min(tiny) FROM t",
    "SELECT k, count(*) OVER (ORDER BY tiny RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) c FROM t",
    "SELECT sum(DISTINCT tiny), avg(DISTINCT small), count(DISTINCT big), sum(DISTINCT d) FROM t",
    "SELECT t.big, u.x FROM t JOIN u ON t.big = u.x",
    "SELECT k, s FROM (SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY s, d, x, day, at) n FROM t) WHERE n = 1",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_duckdb_answers_as_spark_does(spark, tables, statement):
    """The same types, the same rows, an error where Spark raises one; every statement here is DuckDB's."""
    assert check(spark, tables, statement) is QueryEngine.DUCKDB


def test_random_statements(spark, tables):
    """Whatever the list of DuckDB's constructs lets through is answered as Spark does."""
    draw = random.Random(20)
    names = [part.split()[0] for part in SCHEMA.split(", ")]

    def value(depth=2):
        if depth == 0 or draw.random() < 0.4:
            return draw.choice([*names, *names, "1", "0", "-3", "2.5", "'a'", "NULL", "TRUE", "1e0"])
        left, right = value(depth - 1), value(depth - 1)
        forms = (
            "({0} + {1})",
            "({0} * {1})",
            "({0} / {1})",
            "({0} % {1})",
            "coalesce({0}, {1})",
            "length({0})",
            "(-{0})",
        )
        return draw.choice((*forms, "CASE WHEN {0} > {1} THEN {0} ELSE {1} END")).format(left, right)

    def test():
        form = draw.choice(("{0} > {1}", "{0} = {1}", "{0} <=> {1}", "{0} <> {1}", "{0} IS NULL", "{0} IN ({1}, {1})"))
        return form.format(value(1), value(1))

    def statement():
        total = draw.choice(("sum", "min", "max", "count", "avg"))
        where = f" WHERE {test()}" + (f" AND {test()}" if draw.random() < 0.3 else "") if draw.random() < 0.6 else ""
        match draw.randrange(4):
            case 0:
                return f"SELECT k, {value()} v, {value()} w FROM t{where}"
            case 1:
                return f"SELECT {total}({value(1)}) v, {total}({draw.choice(names)}) w FROM t{where}"
            case 2:
                key = draw.choice(names)
                return f"SELECT {key} g, {total}({value(1)}) v FROM t{where} GROUP BY {key}"
            case _:
                return f"SELECT {value(1)} v FROM t{where} ORDER BY {draw.choice(names)}, k LIMIT 0"

    answered = 0
    for one in [statement() for _ in range(250)]:
        try:
            answered += check(spark, tables, one) is QueryEngine.DUCKDB
        except PackstoneError:
            continue  # refused before any engine: a literal that does not fit its column
    assert answered >= 40


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_local_times_are_of_one_zone(spark, tables, zone):
    """Whoever tests a time, a scan or Spark, takes it in the zone of the statement; answers are in UTC."""
    tests = ("at > TIMESTAMP '1970-01-01 00:00:00'", "at > '2001-09-09 01:46:40'", "hour(at) > 12")
    own = spark.conf.get("spark.sql.session.timeZone")
    for test in tests:
        for where in (test, f"{test} OR upper(s) = 'none'"):  # the second one is not for a scan
            statement = f"SELECT k, at, hour(at) h FROM t WHERE {where}"
            query = query_tables(statement, tables.__getitem__, engine="auto", timezone=zone)
            with query.run() as (schema, batches):
                found = arrow_rows(pa.Table.from_batches(list(batches), schema=schema))
            assert spark.conf.get("spark.sql.session.timeZone") == own
            spark.conf.set("spark.sql.session.timeZone", zone)
            expected = arrow_rows(spark.sql(statement).toArrow().cast(schema))
            spark.conf.set("spark.sql.session.timeZone", own)
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), where
            assert schema.field("at").type == pa.timestamp("us", "UTC")


def test_spark_answers_the_rest(spark, tables):
    """What DuckDB may answer differently goes to the session, with the same filters in the scans."""
    query = query_tables(
        "SELECT upper(s) u, avg(d) FROM t WHERE k < 3 GROUP BY upper(s)", tables.__getitem__, engine="auto"
    )
    assert (query.engine, query.why) == (QueryEngine.SPARK, "upper(s)")
    assert [report.pruned.filter for report in query.explain()] == ["k < 3"]
    with query.run() as (schema, batches):
        found = arrow_rows(pa.Table.from_batches(list(batches), schema=schema))
    expected = arrow_rows(spark.sql("SELECT upper(s) u, avg(d) FROM t WHERE k < 3 GROUP BY upper(s)").toArrow())
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert schema.names == ["u", "avg(d)"]
    assert not [one.name for one in spark.catalog.listTables() if one.name.startswith("packstone_scan")]
