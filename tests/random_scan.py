"""Random tables, and random filters on them as Spark and as DuckDB write them."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

SCHEMA = "id long, n int, x double, s string, d date, ts timestamp, c decimal(9,2), b boolean, tags array<string>"
LONG = "w" * 300


def random_table(rng, rows):
    """Rows with nulls, NaN, both zeros and text beyond the length of a bound; some columns nearly constant."""
    base = rng.randrange(0, 1000)

    def some(values):
        return [None if rng.randrange(8) == 0 else rng.choice(values) for _ in range(rows)]

    texts = rng.choice([["a", "ab", "b", ""], [LONG, LONG + "a", LONG + "z"], ["\U0010ffff" * 70, "日本", "é"], ["k"]])
    xs = rng.choice([[0.0, -0.0], [math.nan], [1.5, math.nan, -2.0], [math.inf, 3.0], [0.5, 0.25]])
    columns = {
        "id": [None if rng.randrange(20) == 0 else base + rng.randrange(rows) for _ in range(rows)],
        "n": some([rng.randrange(-3, 4) for _ in range(rng.choice([1, 4]))]),
        "x": some(xs),
        "s": some(texts),
        "d": some([date(2024, 1, day) for day in range(1, rng.choice([3, 20]))]),
        "ts": some([datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(rng.choice([1, 20]))]),
        "c": some([Decimal("1.10"), Decimal("-0.01"), Decimal("99.99")]),
        "b": some([True, False]),
        "tags": some([[], ["a"], ["b", None]]),
    }
    if rng.randrange(4) == 0:
        columns["n"] = [None] * rows
    return pa.table(columns, schema=ARROW)


ARROW = pa.schema([
    ("id", pa.int64()), ("n", pa.int32()), ("x", pa.float64()), ("s", pa.string()), ("d", pa.date32()),
    ("ts", pa.timestamp("us", "UTC")), ("c", pa.decimal128(9, 2)), ("b", pa.bool_()), ("tags", pa.list_(pa.string())),
])  # fmt: skip
# Each value as packstone's SQL and as DuckDB's.
VALUES = {
    "id": [(str(v), str(v)) for v in (0, 5, 300, 500, 505, 999, 2**40)],
    "n": [(str(v), str(v)) for v in (-3, 0, 1, 3, 99)],
    "x": [(f"{v!r}D", f"{v!r}::double") for v in (0.0, -0.0, 1.5, -2.0, 0.3, 3.0)]
    + [("CAST('NaN' AS DOUBLE)", "'nan'::double"), ("CAST('Infinity' AS DOUBLE)", "'inf'::double")],
    "s": [(f"'{v}'", f"'{v}'") for v in ("a", "ab", "", "b", LONG, LONG + "a", "w" * 256, "日", "日本", "k", "zz")],
    "d": [(f"DATE '2024-01-{v:02}'", f"DATE '2024-01-{v:02}'") for v in (1, 2, 10, 31)],
    "ts": [(f"TIMESTAMP '2024-01-01 {v:02}:00:00Z'", f"TIMESTAMPTZ '2024-01-01 {v:02}:00:00Z'") for v in (0, 5, 23)],
    "c": [(v, v) for v in ("1.10", "-0.01", "50.00", "1.105")],
    "b": [("TRUE", "TRUE"), ("FALSE", "FALSE")],
}


def random_leaf(rng):
    """One test as both dialects write it."""
    name = rng.choice(list(VALUES))
    kind = rng.randrange(6)
    if kind == 0:
        negated = rng.choice(["", "NOT "])
        return (f"{name} IS {negated}NULL",) * 2
    if kind == 1:
        values = [rng.choice(VALUES[name]) for _ in range(rng.randrange(1, 4))]
        negated = rng.choice(["", "NOT "])
        return tuple(f"{name} {negated}IN ({', '.join(one[at] for one in values)})" for at in (0, 1))
    if kind == 2:
        prefix = rng.choice(["a", "w" * 300, "日", "", "wwww"])
        return f"s LIKE '{prefix}%'", f"starts_with(s, '{prefix}')"
    if kind == 3:
        low, high = rng.choice(VALUES[name]), rng.choice(VALUES[name])
        return tuple(f"{name} BETWEEN {low[at]} AND {high[at]}" for at in (0, 1))
    op, value = rng.choice(["=", "<>", "<", "<=", ">", ">="]), rng.choice(VALUES[name])
    return tuple(f"{name} {op} {value[at]}" for at in (0, 1))


def random_filter(rng, depth=2):
    """A tree of tests."""
    kind = rng.randrange(4) if depth else 3
    if kind == 3:
        return random_leaf(rng)
    if kind == 2:
        return tuple(f"NOT ({text})" for text in random_filter(rng, depth - 1))
    parts = [random_filter(rng, depth - 1) for _ in range(rng.randrange(2, 4))]
    word = " AND " if kind else " OR "
    return tuple("(" + word.join(part[at] for part in parts) + ")" for at in (0, 1))
