"""Random rows, random filters on them, and what SQL says of each row, in plain Python."""

# ruff: noqa: DTZ001 - wall times are one of the kinds of values

import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pyarrow as pa

from packstone.query.filter.expression import (
    And,
    Compare,
    IsNull,
    Literal,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    all_of,
    any_of,
    literal,
)

SCHEMA = pa.schema([
    ("b", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("n", pa.int64()), ("c", pa.decimal128(9, 2)),
    ("f", pa.float32()), ("x", pa.float64()), ("s", pa.string()), ("y", pa.binary()), ("flag", pa.bool_()),
    ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("tn", pa.timestamp("us")),
])  # fmt: skip
CODED = pa.schema([
    pa.field(field.name, pa.dictionary(pa.int32(), field.type)) if field.name in {"s", "n", "x", "y"} else field
    for field in SCHEMA
])  # fmt: skip
INTEGERS = {"b": 8, "h": 16, "i": 32, "n": 64}

PLUS_TWO = timezone(timedelta(hours=2))
F32_TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]
WHOLE = [0, 1, -1, 2, 5, 127, 128, -128, -129, 300, 32767, 32768, -32769, 2**31 - 1, 2**31, 2**53, 2**53 + 1,
         2**53 + 2, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**20]  # fmt: skip
DECIMALS = [Decimal(text) for text in ("0.5", "3.5", "127.5", "-128.5", "1.00", "1.005", "-0.01", "9999999.99",
                                       "10000000.00", "0.1", "9223372036854775807.5", "5.0")]  # fmt: skip
DOUBLES = [0.0, -0.0, 0.5, 1.0, 0.1, F32_TENTH, 1.1, 1e300, -1e300, 2.0**53, 2.0**63, -(2.0**63), 7e-46, 127.0,
           math.nan, math.inf, -math.inf]  # fmt: skip
TEXTS = ["", "a", "ab", "abc", "b", "A", "ä", "日本", "日", "\U0001f600", "\ufffd", "it's", "back\\slash", "a%b", "a_",
         "new\nline", 'dou"ble', "z" * 40]  # fmt: skip
BYTES = [b"", b"\x00", b"\x00\x00", b"a", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(2024, 10, 27), date(9999, 12, 31)]
# The second and third are in the hour that Berlin has twice; no time is in one that Berlin leaves out.
WALLS = [datetime(1970, 1, 1), datetime(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 2, 59, 59, 999999),
         datetime(2024, 10, 27, 3), datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 30, 0, 1),
         datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2200, 1, 1, 0, 0, 1)]  # fmt: skip
MOMENTS = [*(wall.replace(tzinfo=UTC) for wall in WALLS), datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
           datetime(2024, 10, 27, 1, 30, tzinfo=UTC), datetime(2024, 2, 28, 23, tzinfo=UTC),
           datetime(2024, 2, 29, 2, tzinfo=PLUS_TWO)]  # fmt: skip
_POOLS = {
    "c": [Decimal(text) for text in ("0.00", "1.00", "1.10", "0.10", "-0.01", "9999999.99", "-9999999.99", "5.00")],
    "f": [0.0, -0.0, 0.5, 1.0, F32_TENTH, -1.5, 2.0**24, 3.4028234663852886e38, 1e-45, math.nan, math.inf, -math.inf],
    "x": DOUBLES, "s": TEXTS, "y": BYTES, "flag": [True, False], "d": DAYS, "ts": MOMENTS, "tn": WALLS,
}  # fmt: skip


def random_rows(rng, count):
    """Rows as dicts; one value in six is NULL."""
    return [{name: None if rng.randrange(6) == 0 else _value(rng, name) for name in SCHEMA.names} for _ in range(count)]


def _value(rng, name):
    if name in INTEGERS:
        bound = 2 ** (INTEGERS[name] - 1)
        return rng.choice([value for value in WHOLE if -bound <= value < bound])
    return rng.choice(_POOLS[name])


def batch_of(rows, *, coded=False):
    """The rows as Arrow; coded: some columns in dictionaries."""
    plain = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    if not coded:
        return plain
    columns = [
        column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
        for column, field in zip(plain.columns, CODED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CODED)


def _instants(rng):
    day, wall, moment = rng.choice(DAYS[1:-1]), rng.choice(WALLS), rng.choice(MOMENTS)
    return rng.choice([day, wall, moment, wall.isoformat(" "), day.isoformat()])


def random_value(rng, name):
    """A value that SQL lets one compare the column with, be it one of the column's or not; None now and then."""
    if rng.randrange(20) == 0:
        return None
    match name:
        case "b" | "h" | "i" | "n":
            return rng.choice(
                [rng.choice(WHOLE), rng.choice(DECIMALS), rng.choice(DOUBLES), rng.choice(["1", " -128"])]
            )
        case "c":
            return rng.choice(
                [rng.choice(WHOLE), rng.choice(DECIMALS), rng.choice(DOUBLES), rng.choice(["1.1", "1e2"])]
            )
        case "f" | "x":
            return rng.choice([
                rng.choice(WHOLE), rng.choice(DECIMALS), rng.choice(DOUBLES), rng.choice(["0.1", "NaN", "-Infinity"])
            ])  # fmt: skip
        case "flag":
            return rng.choice([True, False, "yes", "0"])
        case "d":
            return rng.choice([rng.choice(DAYS), _instants(rng)])
        case "ts" | "tn":
            return _instants(rng)
        case _:
            return rng.choice(_POOLS[name])


def random_leaf(rng, value_of=random_value):
    """One test of one column."""
    name = rng.choice(SCHEMA.names)
    match rng.randrange(10):
        case 0:
            return IsNull(column=name, negated=rng.random() < 0.5)
        case 1 | 2:
            values = tuple(literal(value_of(rng, name)) for _ in range(rng.choice([1, 2, 3, 12])))
            return OneOf(column=name, literals=values, negated=rng.random() < 0.5)
        case 3:
            name = rng.choice("sy")
            prefix = literal(rng.choice(_POOLS[name])[:2])
            return StartsWith(column=name, prefix=prefix, negated=rng.random() < 0.5)
        case 4 if rng.randrange(4) == 0:
            return Truth(value=rng.choice([True, False, None]))
    return Compare(column=name, op=rng.choice(list(Op)), literal=literal(value_of(rng, name)))


def random_filter(rng, depth=3, value_of=random_value):
    """A tree of tests; often several of one column, so that ranges meet."""
    kind = rng.randrange(8)
    if depth == 0 or kind < 3:
        return random_leaf(rng, value_of)
    if kind == 3:
        return Not(part=random_filter(rng, depth - 1, value_of))
    join = all_of if kind < 6 else any_of
    if rng.random() < 0.4:
        name = rng.choice(SCHEMA.names)
        return join(
            Compare(column=name, op=rng.choice(list(Op)), literal=literal(value_of(rng, name)))
            for _ in range(rng.randint(2, 4))
        )
    return join(random_filter(rng, depth - 1, value_of) for _ in range(rng.randint(2, 3)))


def truth(node, row, zone="UTC"):
    """True, False or None for unknown, by the book."""
    match node:
        case And():
            truths = [truth(part, row, zone) for part in node.parts]
            return False if False in truths else None if None in truths else True
        case Or():
            truths = [truth(part, row, zone) for part in node.parts]
            return True if True in truths else None if None in truths else False
        case Not():
            inner = truth(node.part, row, zone)
            return None if inner is None else not inner
        case Truth():
            return node.value
    value = row[node.column]
    match node:
        case IsNull():
            return (value is None) != node.negated
        case Compare():
            return _compared(node.op, _order(node.column, value, node.literal, zone))
        case StartsWith():
            return None if value is None else value.startswith(node.prefix.value) != node.negated
        case OneOf():
            return _listed(node, value, zone)


def _compared(op, order):
    if order is None:
        return None
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]


def _listed(node, value, zone):
    values = node.literals
    if node.column in {*INTEGERS, "c"}:
        # Spark brings a list to one type, which is double as soon as one of it is, or is text beside a decimal.
        found = {type(item.value) for item in values}
        if float in found or (str in found and node.column == "c"):
            values = [item if item.value is None else literal(float(item.value)) for item in values]
    truths = [_compared(Op.EQ, _order(node.column, value, item, zone)) for item in values]
    found = True if True in truths else None if None in truths else False
    return None if found is None else found != node.negated


def _order(name, value, item: Literal, zone):
    other = item.value
    if value is None or other is None:
        return None
    left, right = _comparable(name, value, other, ZoneInfo(zone))
    return (left > right) - (left < right)


def _comparable(name, value, other, zone):
    if name in INTEGERS:
        if isinstance(other, float):
            return _double(value), _double(other)
        return Fraction(value), Fraction(int(other) if isinstance(other, str) else other)
    if name == "c" and not isinstance(other, float | str):
        return Fraction(value), Fraction(other)
    if name in {"c", "f", "x"}:
        return _double(value), _double(other)
    if name == "s":
        return value.encode(), other.encode()
    if name == "flag":
        return value, other == "yes" if isinstance(other, str) else other
    if name == "d" and isinstance(other, str):
        return value, date.fromisoformat(other[:10])
    if name in {"d", "ts", "tn"}:
        return _moment(value, zone), _moment(datetime.fromisoformat(other) if isinstance(other, str) else other, zone)
    return value, other


def _double(value):
    number = float(value)
    return (1, 0.0) if math.isnan(number) else (0, number)


def _moment(value, zone):
    """Micros since the epoch; a day is its midnight, and a wall time that came twice the first."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        offset = value.replace(tzinfo=zone).utcoffset()
        return (value - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
