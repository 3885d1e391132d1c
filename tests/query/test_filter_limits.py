"""Filters and conditions of any size: answered in a time that grows with their length, or refused with a number."""

import random
import re
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.query.filter.evaluate import select
from packstone.query.filter.expression import Not, col
from packstone.query.filter.parse_filter import parse_filter, parse_like
from packstone.query.filter.partition_filter import parse_partition_filter
from packstone.query.filter.resolve import prepare_filter

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(38, 0))])


@settings(max_examples=500, deadline=None)
@given(text=st.text("ab\n", max_size=12), pattern=st.text("ab%_", max_size=8))
def test_like_is_what_a_regular_expression_says(text, pattern):
    """Following all ways at once finds what trying them one by one finds."""
    regex = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    assert parse_like(pattern).matches(text) == (re.fullmatch(regex, text, re.DOTALL) is not None)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["%a" * 12 + "%b", "%a" * 2000 + "b", "_%" * 3000 + "b", "%" * 9000 + "b"])
def test_like_does_not_try_every_division(pattern):
    """Many wildcards on a long value end at once."""
    predicate = parse_partition_filter(f"p like '{pattern}'", ("p",))
    assert not predicate.matches({"p": "a" * 5000})
    assert predicate.matches({"p": "a" * 5000 + "b"})


def test_escaped_wildcards_are_plain():
    """A backslash takes the meaning from a wildcard; before anything else it is refused, and so is a long pattern."""
    assert parse_partition_filter(r"p like '50\\%'", ("p",)).matches({"p": "50%"})
    assert not parse_partition_filter(r"p like '50\\%'", ("p",)).matches({"p": "500"})
    with pytest.raises(InvalidInputError, match="10,001 characters"):
        parse_partition_filter(f"p like '{'_' * 10_001}'", ("p",))


FORMS = {
    "equal": " OR ".join(f"id = {at}" for at in range(4_000)),
    "differ": " AND ".join(f"id <> {at}" for at in range(4_000)),
    "lists": " OR ".join(f"id IN ({at}, {at + 1})" for at in range(20_000)),
    "not in": " AND ".join(f"id NOT IN ({at}, {at + 1})" for at in range(4_000)),
    "prefixes": " OR ".join(f"s LIKE 'a{at}%'" for at in range(4_000)),
    "one list": f"id IN ({', '.join(map(str, range(100_000)))})",
}


@pytest.mark.slow
@pytest.mark.timeout(120)  # by the square of their number, the lists would take ten minutes
@pytest.mark.parametrize("name", FORMS)
def test_thousands_of_conditions_are_answered(name):
    """Parsing, preparing and testing grow with the number of conditions, not with its square."""
    prepared = prepare_filter(parse_filter(FORMS[name]), SCHEMA)
    rows = pa.RecordBatch.from_pydict({"id": [5, -5], "s": ["a5", "b"], "d": [1, 2]}, schema=SCHEMA)
    wanted = [False, True] if name in {"differ", "not in"} else [True, False]
    assert select(prepared, rows).to_pylist() == wanted
    predicate = parse_partition_filter(FORMS[name], ("id", "s"))
    assert [predicate.matches({"id": "5", "s": "a5"}), predicate.matches({"id": "-5", "s": "b"})] == wanted


@pytest.mark.slow
def test_more_tests_than_the_limit_are_refused_with_their_number():
    """What does not become a list has a limit, and the sentence names both numbers."""
    pairs = " OR ".join(f"(id > {at} AND s = 'x{at}')" for at in range(10_001))
    with pytest.raises(InvalidInputError, match=r"20,002 tests; at most 20,000"):
        prepare_filter(parse_filter(pairs), SCHEMA)
    with pytest.raises(InvalidInputError, match=r"20,002 tests; at most 20,000"):
        parse_partition_filter(pairs, ("id", "s"))


@pytest.mark.parametrize("parse", [parse_filter, lambda sql: parse_partition_filter(sql, ("id", "s"))])
@pytest.mark.parametrize(
    "sql",
    [
        "NOT " * 10_000 + "id = 1",
        "(" * 10_000 + "id = 1" + ")" * 10_000,
        "id = " + "(" * 10_000 + "1" + ")" * 10_000,
        "id = 1 AND (" * 10_000 + "id = 1" + ")" * 10_000,
        "id = " + "9" * 5_000,
        "id = 0." + "9" * 5_000,
        "id IN (" + "1," * 250_000 + "1)",
        "s = '" + "x" * (5 << 20) + "'",
    ],
    ids=["not", "parens", "value", "and", "integer", "decimal", "list", "text"],
)
@pytest.mark.sample(3)
def test_what_is_too_deep_or_too_long_is_one_sentence(parse, sql):
    """No traceback, and the sentence does not repeat megabytes."""
    with pytest.raises(InvalidInputError) as caught:
        parse(sql)
    assert len(caught.value.message) < 1_000
    assert caught.value.message.endswith(".")


def test_filters_of_python_operators_have_the_same_limits():
    """A tree that no text was parsed for is as limited."""
    deep = col("id") == 1
    for _ in range(5_000):
        deep = Not(part=deep)
    with pytest.raises(InvalidInputError, match="deep"):
        prepare_filter(deep, SCHEMA)
    with pytest.raises(InvalidInputError, match="whole numbers"):
        prepare_filter(col("id") == "1" * 5_000, SCHEMA)


@pytest.mark.parametrize("quoted", ["'it''s'", '"it\'s"', r"'it\'s'", "'it''''s'", '"it""s"', "''''", "''"])
def test_a_doubled_quote_is_one_quote(quoted):
    """Inside a string a quote is written twice, as in Spark 4 and the SQL standard, in both languages."""
    inside = quoted[1:-1].replace(quoted[0] * 2, quoted[0]).replace("\\'", "'")
    rows = pa.RecordBatch.from_pydict({"s": [inside, "its", "it"]}, schema=pa.schema([("s", pa.string())]))
    prepared = prepare_filter(parse_filter(f"s = {quoted}"), rows.schema)
    assert select(prepared, rows).to_pylist() == [True, False, False]
    assert parse_partition_filter(f"s in ({quoted}, 'x')", ("s",)).matches({"s": inside})
    assert not parse_partition_filter(f"s = {quoted}", ("s",)).matches({"s": "its"})


def test_like_without_a_wildcard_compares():
    """On text it is an equality; on other columns the texts count, so it is Spark's to test; it prints as it parses."""
    schema = pa.schema([("s", pa.string()), ("id", pa.int64())])
    rows = pa.RecordBatch.from_pydict({"s": ["DE", "DEU", None, "50%"], "id": [1, 2, 3, 4]}, schema=schema)
    for sql, wanted in [
        ("s LIKE 'DE'", [True, False, False, False]),
        ("s NOT LIKE 'DE'", [False, True, False, True]),
        ("NOT (s LIKE 'DE')", [False, True, False, True]),
        ("s LIKE '50!%' ESCAPE '!'", [False, False, False, True]),
        (r"s LIKE '50\\%'", [False, False, False, True]),
    ]:
        parsed = parse_filter(sql)
        assert parse_filter(str(parsed)) == parsed
        assert select(prepare_filter(parsed, schema), rows).to_pylist() == wanted, sql
    assert str(prepare_filter(parse_filter("id LIKE '01'"), schema)) == "(id LIKE '01')"
    assert parse_partition_filter("p LIKE 'DE'", ("p",)).matches({"p": "DE"})
    assert not parse_partition_filter("p LIKE 'DE'", ("p",)).matches({"p": "DEU"})


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 38), (38, 10), (10, 2), (5, 5), (1, 0)])
def test_decimals_compare_exactly_with_any_number_of_digits(precision, scale):
    """A literal with more digits than the column is between its values: never equal, and on the right side of each."""
    with localcontext(prec=100):
        _check_decimals(precision, scale)


def _check_decimals(precision, scale):
    rng = random.Random(precision * 100 + scale)
    one = Decimal(1).scaleb(-scale)
    numbers = {0, 1, 2, 10 ** (precision - 1), 10**precision - 1, *(rng.randrange(10**precision) for _ in range(9))}
    values = [sign * Decimal(number).scaleb(-scale) for number in numbers for sign in (1, -1)]
    values = [value for value in values if len(value.as_tuple().digits) <= max(precision, scale)]
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], pa.decimal128(precision, scale))], ["d"])
    for _ in range(150):
        near = rng.choice(values)
        literal = near + rng.choice([0, 5, -5, 1, 9]) * one.scaleb(-rng.randrange(1, 4))
        operator, wanted = rng.choice(
            [
                ("= {}", lambda value, at=literal: value == at),
                ("<> {}", lambda value, at=literal: value != at),
                ("< {}", lambda value, at=literal: value < at),
                ("<= {}", lambda value, at=literal: value <= at),
                ("> {}", lambda value, at=literal: value > at),
                (">= {}", lambda value, at=literal: value >= at),
                ("IN ({}, 1.5)", lambda value, at=literal: value in (at, Decimal("1.5"))),
                ("NOT IN ({}, 1.5)", lambda value, at=literal: value not in (at, Decimal("1.5"))),
                ("BETWEEN {} AND 1.5", lambda value, at=literal: at <= value <= Decimal("1.5")),
            ]
        )
        sql = f"d {operator.format(f'{literal:f}')}"
        prepared = prepare_filter(parse_filter(sql), rows.schema)
        assert select(prepared, rows).to_pylist() == [*map(wanted, values), False], sql
        again = prepare_filter(parse_filter(str(prepared)), rows.schema)
        assert again == prepared, sql  # what Spark is given has the digits of the column, and no more
