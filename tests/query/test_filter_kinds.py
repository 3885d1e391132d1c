"""Every kind of filter by hand: how it is parsed, normalised, resolved, and which rows it selects."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from packstone.errors import InvalidInputError, RefusedError
from packstone.query.filter.evaluate import evaluate, select
from packstone.query.filter.expression import (
    TRUE,
    And,
    OneOf,
    Unknown,
    ValueSet,
    all_of,
    any_of,
    col,
    columns_of,
    literal,
)
from packstone.query.filter.normalise import normalise
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter, resolve

NAN, INF = float("nan"), float("inf")
ROWS = pa.record_batch({
    "id": pa.array([1, 2, 3, 4, None], pa.int64()),
    "b": pa.array([-128, 0, 1, 127, None], pa.int8()),
    "x": pa.array([-0.0, 1.5, NAN, INF, None], pa.float64()),
    "s": pa.array(["", "ab", "ä", "b", None]).dictionary_encode(),
    "y": pa.array([b"", b"\x00", b"ab", b"\xff", None]),
    "flag": pa.array([True, False, True, False, None]),
    "c": pa.array([Decimal("1.00"), Decimal("1.01"), Decimal("-1.00"), Decimal("9.99"), None], pa.decimal128(3, 2)),
    "d": pa.array([date(2024, 1, 1), date(2024, 1, 2), date(1969, 12, 31), date(2024, 2, 29), None]),
    "ts": pa.array([0, 1, 1_704_067_200_000_000, 1_704_153_600_000_000, None], pa.timestamp("us", "UTC")),
    "tn": pa.array([0, 1, 1_704_067_200_000, 1_704_153_600_000, None], pa.timestamp("ms")),
})  # fmt: skip


def truths(sql, **options):
    """T, F or ? for each row."""
    found = evaluate(resolve(parse_filter(sql), ROWS.schema, **options), ROWS).to_pylist()
    return "".join("?" if truth is None else "T" if truth else "F" for truth in found)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id = 2", "FTFF?"), ("id <> 2", "TFTT?"), ("id != 2", "TFTT?"), ("id < 2", "TFFF?"), ("2 > id", "TFFF?"),
        ("id <= 2", "TTFF?"), ("id > 2", "FFTT?"), ("id >= 2", "FTTT?"), ("2 <= id", "FTTT?"),
        ("id IN (1, 4)", "TFFT?"), ("id NOT IN (1, 4)", "FTTF?"), ("id IN (1, NULL)", "T????"),
        ("id NOT IN (1, NULL)", "F????"), ("id = NULL", "?????"), ("id <=> NULL", "FFFFT"), ("id <=> 2", "FTFFF"),
        ("id BETWEEN 2 AND 3", "FTTF?"), ("id NOT BETWEEN 2 AND 3", "TFFT?"), ("id IS NULL", "FFFFT"),
        ("id IS NOT NULL", "TTTTF"), ("TRUE", "TTTTT"), ("FALSE", "FFFFF"), ("NULL", "?????"), ("1 = 1", "TTTTT"),
        ("id = 1 AND NULL", "?FFF?"), ("id = 1 OR NULL", "T????"), ("NOT id = 1", "FTTT?"),
        ("x = CAST('NaN' AS DOUBLE)", "FFTF?"), ("x > 1e308", "FFTT?"), ("x = 0", "TFFF?"), ("x IN (0.0, 5)", "TFFF?"),
        ("x < CAST('NaN' AS DOUBLE)", "TTFT?"), ("x >= CAST('Infinity' AS DOUBLE)", "FFTT?"), ("x <> 1.5", "TFTT?"),
        ("s LIKE 'a%'", "FTFF?"), ("s NOT LIKE 'a%'", "TFTT?"), ("startswith(s, '')", "TTTT?"), ("s > 'b'", "FFTF?"),
        ("s = ''", "TFFF?"), ("s IN ('ä', 'q')", "FFTF?"), ("startswith(y, X'61')", "FFTF?"), ("y >= X'ff'", "FFFT?"),
        ("flag", "TFTF?"), ("NOT flag", "FTFT?"), ("flag IS NOT TRUE", "FTFTT"), ("flag > FALSE", "TFTF?"),
        ("c = 1", "TFFF?"), ("c < 1.005", "TFTF?"), ("c > 100", "FFFF?"), ("c = '1.01'", "FTFF?"),
        ("d = '2024-01-01'", "TFFF?"), ("d < TIMESTAMP '2024-01-01 00:00:00.000001'", "TFTF?"),
        ("ts = DATE '2024-01-01'", "FFTF?"), ("ts >= '2024-01-01T00:00:00+00:00'", "FFTT?"),
        ("tn > TIMESTAMP '1970-01-01 00:00:00.000500'", "FTTT?"),
        ("tn = TIMESTAMP '1970-01-01 00:00:00.0005'", "FFFF?"),
        ("ID = 2 AND `S` >= 'a'", "FTFF?"),
    ],
)  # fmt: skip
def test_rows(sql, expected):
    """Each filter kind says of each row what SQL says, and selects where that is TRUE."""
    assert truths(sql) == expected
    selected = select(prepare_filter(parse_filter(sql), ROWS.schema), ROWS).to_pylist()
    assert selected == [truth == "T" for truth in expected]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id = 3.5", "FALSE"), ("id < 3.5", "id <= 3"), ("id >= 3.5", "id > 3"), ("id <> 3.5", "id IS NOT NULL"),
        ("b < 300", "b IS NOT NULL"), ("b > 300", "FALSE"), ("b <= 127", "b IS NOT NULL"), ("b >= 127", "b >= 127"),
        ("b IN (1, 300, 2.5)", "b = 1"), ("c = 1.005", "FALSE"), ("c >= 1.005", "c > 1.00BD"),
        ("id = 9007199254740992D", "id >= 9007199254740992 AND id <= 9007199254740993"),
        ("d <= TIMESTAMP '2024-01-01 12:00:00'", "d <= DATE '2024-01-01'"),
        ("id > 1 AND id >= 2 AND id < 9 AND id <= 20", "id >= 2 AND id < 9"),
        ("id < 1 AND id > 2", "FALSE"), ("NOT (id >= 1 OR id <= 2)", "FALSE"), ("id >= 5 AND id <= 5", "id = 5"),
        ("id = 1 AND id = 2", "FALSE"), ("id IN (1, 2, 3) AND id > 1 AND id <> 3", "id = 2"),
        ("id = 1 OR id IN (3, 2) OR id = 1", "id IN (1, 2, 3)"), ("id < 5 OR id < 7 OR id = 6", "id < 7"),
        ("id < 5 OR id >= 3", "id IS NOT NULL"), ("id IS NULL OR id IS NOT NULL", "TRUE"),
        ("id IS NULL AND id = 1", "FALSE"), ("id IS NOT NULL AND id = 1", "id = 1"),
        ("id = NULL OR flag", "flag = TRUE"), ("s NOT IN ('a', NULL)", "FALSE"),
        ("NOT (s LIKE 'a%' AND id IS NULL)", "NOT startswith(s, 'a') OR id IS NOT NULL"),
        ("NOT upper(s) = 'A' AND flag AND flag", "(NOT (UPPER(s) = 'A')) AND flag = TRUE"),
        ("s = 5", "(s = 5)"), ("id LIKE '1%'", "(startswith(id, '1'))"),
        ("x IN (CAST('NaN' AS DOUBLE), 1) OR x = 2 OR x <> 3", "x IN (1.0D, 2.0D, CAST('nan' AS DOUBLE)) OR x <> 3.0D"),
    ],
)  # fmt: skip
def test_prepared(sql, expected):
    """Literals that do not fit become the exact bound or constant; ranges merge; contradictions are FALSE."""
    assert str(prepare_filter(parse_filter(sql), ROWS.schema)) == expected


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("id = 'x'", "column id"), ("id = '3.5'", "column id"), ("flag = 1", "column flag"), ("c = 'q'", "column c"),
        ("d = '2024-13-01'", "column d"), ("ts = 5", "column ts"), ("id IN (DATE '2024-01-01')", "column id"),
        ("nope = 1", "'nope'"), ("upper(nope) = 'X'", "'nope'"),
    ],
)  # fmt: skip
def test_literals_that_sql_would_refuse(sql, said):
    """The message names the column."""
    with pytest.raises(InvalidInputError, match=said):
        resolve(parse_filter(sql), ROWS.schema)


@pytest.mark.parametrize(
    "sql", ["", "id =", "id = 1 b", "5", "d = DATE 'x'", "id IN (SELECT 1)", "sum(id) > 1", "id = ?",
            "s = 'open", "s LIKE 'a\\\\bc%'", "id = 1; id = 2"]
)  # fmt: skip
def test_no_filters(sql):
    """What is not a filter is refused in one sentence."""
    with pytest.raises(InvalidInputError) as raised:
        parse_filter(sql)
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize(
    "sql", ["upper(s) = 'A'", "id = b", "s LIKE '%a'", "s LIKE 'a_%'", "st.f = 1", "id + 1 = 2",
            "c = CAST(1.57 AS DECIMAL(2, 1))", "s RLIKE 'a'"]
)  # fmt: skip
def test_unknown_tests_stay_text(sql):
    """They print and parse as they are, and without Spark they are refused by name."""
    node = parse_filter(sql)
    assert isinstance(node, Unknown)
    assert parse_filter(str(node)) == node
    with pytest.raises(RefusedError, match="needs Spark"):
        evaluate(node, ROWS)


def test_zones():
    """Wall times are moments in the session's zone; of an hour that comes twice they mean the first."""
    assert truths("ts < DATE '2024-01-01'", zone="Europe/Berlin") == "TTFF?"
    assert truths("ts = TIMESTAMP '2024-01-01 01:00:00'", zone="Europe/Berlin") == "FFTF?"
    assert truths("d = TIMESTAMP '2023-12-31 23:00:00Z'", zone="Europe/Berlin") == "TFFF?"
    schema = pa.schema([("tn", pa.timestamp("us"))])
    second = col("tn") < datetime(2024, 10, 27, 1, 30, tzinfo=UTC)
    assert str(resolve(second, schema, zone="Europe/Berlin")) == "tn <= TIMESTAMP_NTZ '2024-10-27 02:59:59.999999'"
    with pytest.raises(InvalidInputError, match="is not a time zone"):
        resolve(TRUE, schema, zone="Mars/Olympus")


def test_python_operators_make_what_sql_makes():
    """Both ways lead to one tree."""
    built = (col("id") >= 5) & col("s").startswith("a") | ~(col("x") == 1.5) & col("b").isin(1, None)
    assert built == parse_filter("id >= 5 AND startswith(s, 'a') OR NOT (x = 1.5D) AND b IN (1, NULL)")
    assert (5 < col("id")) == parse_filter("id > 5")  # noqa: SIM300 - the mirrored form is the point
    assert col("id").between(1, 2) == parse_filter("id BETWEEN 1 AND 2")
    assert columns_of(built) == ("id", "s", "x", "b")
    assert pickle.loads(pickle.dumps(built)) == built  # noqa: S301 - our own


def test_slips_in_python_are_errors():
    """`and` and chained comparisons would drop a half; what no column holds cannot be compared."""
    with pytest.raises(TypeError, match="join filters with &"):
        assert 1 < col("id") < 5
    for value in ([1], Decimal("NaN"), "\ud800"):
        with pytest.raises(InvalidInputError, match="cannot compare"):
            literal(value)
    with pytest.raises(InvalidInputError, match="two parts"):
        And(parts=(TRUE,))


def test_joining_nothing_or_one():
    """Of nothing AND is TRUE and OR is FALSE; an empty list holds nothing."""
    assert str(all_of(())) == "TRUE"
    assert str(any_of(())) == "FALSE"
    assert any_of([TRUE]) == TRUE
    assert normalise(col("id").isin()) == parse_filter("FALSE")
    assert resolve(~col("id").isin(), ROWS.schema) == ~parse_filter("FALSE")


def test_lists_with_nan_are_equal_and_settle():
    """NaN differs from itself to Arrow; a list with it is still the same list, or normalising would never end."""
    both = [ValueSet(array=pa.array([1.0, NAN])) for _ in range(2)]
    assert both[0] == both[1]
    assert ValueSet(array=pa.array([1.0])) != ValueSet(array=pa.array([1])) != both[0]
    node = OneOf(column="x", literals=both[0]) | (OneOf(column="x", literals=both[1]) | (~col("x").is_null()))
    assert normalise(node) == parse_filter("x IS NOT NULL")


@pytest.mark.parametrize(
    ("kind", "values"),
    [(pa.large_string(), ["a", "b", None]), (pa.string_view(), ["a", "b", None]), (pa.binary(1), [b"a", b"b", None]),
     (pa.binary_view(), [b"a", b"b", None]), (pa.float16(), [1.0, 2.0, None]), (pa.uint64(), [1, 2, None]),
     (pa.decimal256(50, 3), [Decimal(1), Decimal(2), None]),
     (pa.timestamp("ns"), [datetime.fromisoformat("1970-01-02"), None, None])]
)  # fmt: skip
def test_rarer_types(kind, values):
    """Types that Spark has not, but files may."""
    batch = pa.record_batch({"a": pa.array(values, kind)})
    wanted = parse_filter(f"a = {literal(values[0])} AND a IN ({literal(values[0])}, {literal(values[0])})")
    assert select(prepare_filter(wanted, batch.schema), batch).to_pylist() == [True, False, False]
    assert select(prepare_filter(~wanted, batch.schema), batch).to_pylist() == [False, values[1] is not None, False]


def test_later_parts_see_only_the_rows_that_are_left():
    """A long batch takes the way through few rows, and finds what the short way finds."""
    count = 4000
    batch = pa.record_batch({"id": pa.array(range(count)), "s": pa.array([f"n{at % 40}" for at in range(count)])})
    for sql in ("id < 100 AND s = 'n7'", "id >= 50 OR s = 'n7'", "id < 100 AND (s = 'n7' OR s LIKE 'n3%')"):
        node = prepare_filter(parse_filter(sql), batch.schema)
        assert select(node, batch) == evaluate(node, batch), sql
