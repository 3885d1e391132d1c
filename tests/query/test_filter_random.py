"""Random filters on random rows: the rows selected are those of a plain model and of DuckDB."""

import random
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from filter_model import CODED, INTEGERS, SCHEMA, batch_of, random_filter, random_rows, random_value, truth
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.query.filter.evaluate import evaluate, select
from packstone.query.filter.expression import And, Compare, IsNull, Not, OneOf, Or, StartsWith, Truth
from packstone.query.filter.normalise import normalise, push_not
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter, resolve

SEEDS = st.integers(0, 2**40)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"])


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS, zone=ZONES, coded=st.booleans())
def test_every_truth_is_that_of_the_model(seed, zone, coded):
    """Resolving and evaluating keep TRUE, FALSE and unknown apart, as SQL does."""
    rng = random.Random(seed)
    rows = random_rows(rng, 40)
    batch = batch_of(rows, coded=coded)
    for _ in range(4):
        node = random_filter(rng)
        expected = [truth(node, row, zone) for row in rows]
        resolved = resolve(node, CODED if coded else SCHEMA, zone=zone)
        assert evaluate(resolved, batch).to_pylist() == expected, str(node)
        assert evaluate(push_not(resolved), batch).to_pylist() == expected, str(node)


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS, zone=ZONES, coded=st.booleans())
def test_normalising_keeps_the_rows_that_are_true(seed, zone, coded):
    """Before resolving, after it, or both: the same rows are selected."""
    rng = random.Random(seed)
    rows = random_rows(rng, 40)
    batch = batch_of(rows, coded=coded)
    for _ in range(4):
        node = random_filter(rng)
        expected = [truth(node, row, zone) is True for row in rows]
        assert [truth(normalise(node), row, zone) is True for row in rows] == expected, str(node)
        before = resolve(normalise(node), SCHEMA, zone=zone)
        after = prepare_filter(node, SCHEMA, zone=zone)
        for form in (before, after, normalise(before)):
            assert select(form, batch).to_pylist() == expected, (str(node), str(form))
            assert [found is True for found in evaluate(form, batch).to_pylist()] == expected, (str(node), str(form))


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_normal_forms_are_fixed_points_without_not(seed):
    """Nothing is left to do, and no NOT is left."""
    rng = random.Random(seed)
    node = prepare_filter(random_filter(rng), SCHEMA)
    assert normalise(node) == node
    assert "NOT (" not in str(node)


@settings(max_examples=300, deadline=None)
@given(seed=SEEDS)
def test_text_parses_back(seed):
    """What a filter prints is the filter."""
    node = random_filter(random.Random(seed))
    assert parse_filter(str(node)) == node


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_resolved_filters_print_what_they_mean(seed):
    """Text of a resolved filter, parsed and resolved again, selects the same rows."""
    rng = random.Random(seed)
    batch = batch_of(random_rows(rng, 30))
    node = prepare_filter(random_filter(rng), SCHEMA)
    again = prepare_filter(parse_filter(str(node)), SCHEMA)
    assert select(again, batch) == select(node, batch), str(node)


def _own_value(rng, name):
    """A value that DuckDB compares as Spark does: of the column's own type."""
    wanted = {"s": str, "y": bytes, "flag": bool, "d": date, "ts": datetime, "tn": datetime, "c": Decimal}
    while True:
        value = random_value(rng, name)
        kind = int if name in INTEGERS else wanted.get(name, float)
        if value is None or type(value) is kind:
            if name == "tn" and value is not None and value.tzinfo:
                continue
            if name == "ts" and value is not None and not value.tzinfo:
                continue
            return value


def _duck(node):
    match node:
        case And() | Or():
            return (" AND " if isinstance(node, And) else " OR ").join(f"({_duck(part)})" for part in node.parts)
        case Not():
            return f"NOT ({_duck(node.part)})"
        case Truth():
            return f"CAST({'NULL' if node.value is None else node.value} AS BOOLEAN)"
        case IsNull():
            return str(node)
        case Compare():
            return f"{node.column} {node.op} {_duck_value(node.literal.value)}"
        case OneOf():
            # DuckDB finds no -0.0 in a list with 0.0, so a list is written as the comparisons it means.
            parts = " OR ".join(f"{node.column} = {_duck_value(item.value)}" for item in node.literals)
            return f"NOT ({parts})" if node.negated else f"({parts})"
        case StartsWith():
            prefix = node.prefix.value
            if isinstance(prefix, bytes):
                found = f"starts_with(hex({node.column}), '{prefix.hex().upper()}')"
            else:
                found = f"starts_with({node.column}, {_duck_value(prefix)})"
            return f"NOT {found}" if node.negated else found
    raise AssertionError(node)


def _duck_value(value):
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return "from_hex('" + value.hex() + "')"
        case datetime():
            return f"CAST('{value}' AS {'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'})"
        case date():
            return f"CAST('{value}' AS DATE)"
    return f"CAST('{value}' AS DECIMAL(38, 10))"


@pytest.fixture(scope="module")
def duck():
    """One connection, in UTC."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_duckdb_says_the_same(duck, seed):
    """Each row's truth, for literals of the column's own type."""
    rng = random.Random(seed)
    batch = batch_of(random_rows(rng, 30))
    nodes = [random_filter(rng, value_of=_own_value) for _ in range(6)]
    duck.register("rows_", pa.Table.from_batches([batch]))
    answers = duck.sql(f"SELECT {', '.join(f'({_duck(node)})' for node in nodes)} FROM rows_").fetchall()
    for node, expected in zip(nodes, zip(*answers, strict=True), strict=True):
        assert evaluate(resolve(node, SCHEMA), batch).to_pylist() == list(expected), str(node)
