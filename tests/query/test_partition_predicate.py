"""Conditions on partition columns."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import date

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.query.filter.partition_filter import parse_partition_filter

COLUMNS = ("dt", "hour", "Region")


def selected(sql, **values):
    """Tell whether the condition selects our usual partition, changed by ``values``."""
    return parse_partition_filter(sql, COLUMNS).matches({"dt": "2019-07-01", "hour": "09", "Region": "eu"} | values)


@pytest.mark.parametrize(
    "sql",
    [
        "dt = '2019-07-01'",
        "dt == '2019-07-01'",
        'dt = "2019-07-01"',
        "`dt` = '2019-07-01'",
        "dt <> '2019-07-02'",
        "dt != '2019-07-02'",
        "dt < '2019-07-02' and dt >= '2019-06-30'",
        "'2019-07-02' > dt",
        "hour = 9",
        "hour = 9.0",
        "hour > -1 and hour < 10",
        "hour > '0' and not hour > '1'",
        "5 < hour",
        "hour in (7, 8, 9)",
        "hour in ('09')",
        "hour not in (1, 2)",
        "hour between 8 and 10",
        "hour not between 10 and 12",
        "dt between '2019-07' and '2019-08'",
        "dt = date '2019-07-01'",
        "dt > DATE '2018-12-31'",
        "dt like '2019-07-%'",
        "dt like '____-__-01'",
        "dt not like '2018%'",
        "DT LIKE '2019%' AND REGION = 'eu'",
        "region is not null",
        "not region is null",
        "(region = 'us' or hour = 9) and true",
        "not (region = 'us' or false)",
        "hour = (9)",
        "region = 'eu' -- only there",
        "dt <=> '2019-07-01'",
        "startswith(dt, '2019') and 1 = 1",
    ],
)
def test_supported_forms_match(sql):
    """Each supported form selects the partition it describes."""
    assert selected(sql)
    assert not selected(f"NOT ({sql}\n)")


@pytest.mark.parametrize(
    "sql",
    [
        "region = 'eu'",
        "region <> 'eu'",
        "not region = 'eu'",
        "region in ('eu', null)",
        "region not in ('eu')",
        "region like '%'",
        "region not like '%'",
        "region between 'a' and 'z'",
        "region not between 'a' and 'b'",
        "region = null",
        "region <> null",
        "dt not in ('x', null)",
        "dt < null",
        "dt like null",
        "null",
        "not null",
        "region > 5",
        "region = date '2019-07-01'",
        "region = 'eu' and dt = '2019-07-01'",
        "region = 'eu' or false",
    ],
)
def test_unknown_does_not_select(sql):
    """A comparison with NULL is unknown, with or without NOT, and unknown does not select."""
    assert not selected(sql, Region=None)
    assert not selected(f"NOT ({sql})", Region=None)


def test_unknown_in_larger_conditions():
    """TRUE wins over unknown in OR, FALSE wins in AND, and IS NULL is never unknown."""
    assert selected("region = 'eu' or hour = 9", Region=None)
    assert selected("not (region = 'eu' and hour = 8)", Region=None)
    assert selected("dt in ('2019-07-01', null)", Region=None)
    assert selected("region is null", Region=None)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        (r"region like 'a\_b'", "a_b"),
        (r"region like 'a\%b'", "a%b"),
        ("region like 'a!_%' escape '!'", "a_b"),
        ("region like '_!_b' escape '!'", "a_b"),
        (r"region like '_\\b' escape '!'", "a\\b"),
        (r"region = 'it\'s'", "it's"),
        ("region like 'a.c'", "a.c"),
        ("region like 'a%c'", "a\nc"),
        ("region like '_'", "界"),
        ("region > 'z'", "ä"),
        ("region = ''", ""),
    ],
)
def test_text_is_taken_as_it_is(sql, value):
    """Wildcards can be escaped, nothing else in a pattern is special, text is compared by code point."""
    assert selected(sql, Region=value)
    assert not selected(sql, Region="axb")


@pytest.mark.parametrize(
    ("sql", "value", "what"),
    [
        ("hour < 5", "tmp", "a number"),
        ("hour <> 5", "", "a number"),
        ("hour in (5, 6)", "nan", "a number"),
        ("hour = 5", "1e5", "a number"),
        ("hour = 5", "\uff15", "a number"),
        ("hour between 1 and 2", "1 ", "a number"),
        ("hour = date '2019-07-01'", "20190701", "YYYY-MM-DD"),
        ("hour = date '2019-07-01'", "2019-02-30", "YYYY-MM-DD"),
        ("false and hour = 5", "tmp", "a number"),
        ("true or hour = 5", "tmp", "a number"),
        ("hour in ('tmp', 5)", "tmp", "a number"),
    ],
)
def test_value_that_does_not_fit_is_an_error(sql, value, what):
    """A value that is not a number (not a day) is an error that names it, wherever the comparison is."""
    with pytest.raises(InvalidInputError) as caught:
        selected(sql, hour=value)
    assert f"hour={value} " in caught.value.message
    assert what in caught.value.message


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("lower(dt) = 'x'", "LOWER(dt)"),
        ("dt = current_date()", "CURRENT_DATE"),
        ("hour + 1 = 2", "hour + 1"),
        ("hour = 1 + 1", "1 + 1"),
        ("hour in (select 1)", "SELECT 1"),
        ("exists (select 1)", "SELECT 1"),
        ("hour in ()", "IN"),
        ("cast(hour as int) = 1", "CAST(hour AS INT)"),
        ("dt = cast('2019-07-01' as timestamp)", "TIMESTAMP_NTZ '2019-07-01"),
        ("dt = timestamp '2019-07-01'", "TIMESTAMP_NTZ '2019-07-01"),
        ("case when hour = 1 then true end", "CASE"),
        ("dt rlike 'x'", "RLIKE"),
        ("dt ilike 'x'", "ILIKE"),
        ("dt like any ('x', 'y')", "ANY"),
        ("dt like 5", "5"),
        ("dt is true", "dt = TRUE"),
        ("dt = true", "TRUE"),
        ("dt = hour", "hour"),
        ("dt", "a test such as"),
        ("'x'", "a test such as"),
        ("t.dt = 'x'", "t.dt"),
        ("(dt, hour) in (('x', 1))", "(dt, hour)"),
        ("hour between symmetric 2 and 1", "BETWEEN"),
        ("hour = 1e3", "1e3"),
        ("hour = 0x10", "X'10'"),
        ("dt = ?", "?"),
        ("dt = 'it' 's'", "two adjacent strings"),
        ("dt = x'41'", "41"),
    ],
)
def test_unsupported_sql_is_refused_by_name(sql, named):
    """What is outside the supported forms is refused, and the message names the construct."""
    with pytest.raises(InvalidInputError) as caught:
        parse_partition_filter(sql, COLUMNS)
    assert repr(sql) in caught.value.message
    assert named in caught.value.message
    assert repr(caught.value.facts["construct"]) in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "  ",
        "dt =",
        "dt = 'x' and",
        "dt = 'x",
        "dt = 'x'; drop table t",
        "select 1",
        "dt ==== 'x'",
        ")",
        "(dt = 'x'",
        "dt = 'x' group by dt",
        "dt = 'x' or or hour = 1",
        "dt in ('x'",
        "dt xor hour",
        "dt = `x",
    ],
)
def test_broken_sql_is_one_sentence(sql):
    """What does not parse as one condition is one sentence on one line, not the parser's report."""
    with pytest.raises(InvalidInputError) as caught:
        parse_partition_filter(sql, COLUMNS)
    assert "not valid SQL" in caught.value.message
    assert "\n" not in caught.value.message


def test_unknown_column_lists_the_partition_columns():
    """A name that is not a partition column is answered with those that are."""
    for sql in ("day = 'x'", "day is null", "dt = day", "'x' = day"):
        with pytest.raises(InvalidInputError, match=r"'day'.*dt, hour, Region"):
            parse_partition_filter(sql, COLUMNS)
    with pytest.raises(InvalidInputError, match="not partitioned"):
        parse_partition_filter("dt = 'x'", ())


def test_bad_date_and_bad_pattern_are_refused():
    """A date that is not a day and a stray backslash in a pattern are refused."""
    for sql in ("dt = date '2019-13-01'", "dt = date '20190701'"):
        with pytest.raises(InvalidInputError, match="is not a day"):
            parse_partition_filter(sql, COLUMNS)
    with pytest.raises(InvalidInputError, match="is not followed by % or _"):
        parse_partition_filter(r"dt like 'x\\y'", COLUMNS)


def test_partition_without_the_column_is_refused():
    """A partition that lacks a column of the condition is an error, not a NULL."""
    with pytest.raises(InvalidInputError, match="no value for the column 'hour'"):
        parse_partition_filter("hour = 1", COLUMNS).matches({"dt": "x"})


def test_deep_nesting_is_refused_and_long_chains_are_not():
    """Ten thousand parentheses are one sentence; a thousand alternatives are a normal condition."""
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        parse_partition_filter("(" * 10_000 + "dt = 'x'" + ")" * 10_000, COLUMNS)
    days = [f"dt = '{day}'" for day in range(1000)]
    assert parse_partition_filter(" or ".join(days), COLUMNS).matches({"dt": "999"})


def test_predicate_prints_and_travels():
    """A predicate prints as it was written, and survives pickling to a process without the parser."""
    predicate = parse_partition_filter("dt like '2019%' and hour < 5 or region in ('eu', null)", COLUMNS)
    assert str(predicate) == "dt like '2019%' and hour < 5 or region in ('eu', null)"
    code = (
        "import pickle, sys\n"
        f"p = pickle.loads({pickle.dumps(predicate)!r})\n"
        "assert p.matches({'dt': '2019-01-01', 'hour': '4', 'region': None})\n"
        "assert 'sqlglot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The same WHERE in DuckDB. Columns s and t hold any text, n numbers and d days, as text in the partition
# values; DuckDB sees n and d through a view with types, because it takes types from columns, not literals.

TEXTS = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "A", "%", "a_b", "09", "9", "é", "界"]),
    st.text("ab%_.é", max_size=3),
)
NUMBERS = st.sampled_from(["0", "00", "7", "07", "9", "10", "-3", "9.5", "9.50", "+2", "100"])
DAYS = st.dates(min_value=date(2019, 6, 28), max_value=date(2019, 7, 3))


def literal_of(column):
    """Literals of the column's kind."""
    if column in ("s", "t"):
        return TEXTS.map(lambda text: f"'{text}'")
    if column == "n":
        return st.sampled_from(["0", "7", "9", "-3", "9.5", "9.25", "10", "100"])
    return DAYS.map(lambda day: f"DATE '{day}'")


@st.composite
def comparisons(draw):
    """One test of one column."""
    column = draw(st.sampled_from(["s", "t", "n", "d"]))
    literals = st.one_of(literal_of(column), literal_of(column), literal_of(column), st.just("NULL"))
    negation = draw(st.sampled_from(["", "NOT "]))
    form = draw(st.sampled_from(["op", "op", "mirror", "in", "between", "null"] + ["like"] * (column in ("s", "t"))))
    name = draw(st.sampled_from([column, column.upper()]))
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    match form:
        case "op":
            return f"{name} {operator} {draw(literals)}"
        case "mirror":
            return f"{draw(literals)} {operator} {name}"
        case "in":
            return f"{name} {negation}IN ({', '.join(draw(st.lists(literals, min_size=1, max_size=4)))})"
        case "between":
            return f"{name} {negation}BETWEEN {draw(literals)} AND {draw(literals)}"
        case "like":
            return f"{name} {negation}LIKE {draw(literals)}"
    return f"{name} IS {negation}NULL"


CONDITIONS = st.recursive(
    st.one_of(comparisons(), comparisons(), comparisons(), st.sampled_from(["TRUE", "FALSE"])),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("{} AND {}".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=6,
)
PARTITIONS = st.lists(
    st.tuples(st.none() | TEXTS, st.none() | TEXTS, st.none() | NUMBERS, st.none() | DAYS.map(str)),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def database():
    """DuckDB with the partition values as text, and a view that gives them types."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE p (i INT, s VARCHAR, t VARCHAR, n VARCHAR, d VARCHAR)")
        connection.execute(
            "CREATE VIEW v AS SELECT i, s, t, CAST(n AS DECIMAL(18, 4)) AS n, CAST(d AS DATE) AS d FROM p"
        )
        yield connection


@settings(max_examples=300, deadline=None)
@given(sql=CONDITIONS, partitions=PARTITIONS)
def test_selects_what_duckdb_selects(database, sql, partitions):
    """Any condition over any partition values selects exactly the rows that DuckDB selects."""
    database.execute("DELETE FROM p")
    database.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?)", [(i, *row) for i, row in enumerate(partitions)])
    expected = {i for (i,) in database.execute(f"SELECT i FROM v WHERE {sql}").fetchall()}
    predicate = parse_partition_filter(sql, ("s", "t", "n", "d"))
    got = {i for i, row in enumerate(partitions) if predicate.matches(dict(zip("stnd", row, strict=True)))}
    assert got == expected
