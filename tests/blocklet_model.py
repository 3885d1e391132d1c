"""Blocklets, their index and filters by hand: slow, row by row, and without any of the product's pruning.

Values are plain Python. `rows_of` and `filters` are Hypothesis strategies that love what goes wrong: nulls, NaN, both
zeros, extreme numbers, strings of highest bytes, of 300 bytes, beyond ASCII.
"""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from packstone.query.filter.expression import (
    FALSE,
    NULL,
    TRUE,
    And,
    Compare,
    IsNull,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    Unknown,
    ValueSet,
)
from packstone.rewrite.sorted_merge.block_facts import PartBuilder, read_part

LONG = 300
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LIMITS = [EPOCH.replace(year=1), EPOCH.replace(year=9999)]

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "h": pa.int8(),
        "f": pa.float64(),
        "g": pa.float32(),
        "s": pa.string(),
        "y": pa.binary(),
        "d": pa.decimal128(20, 3),
        "p": pa.decimal128(38, 0),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "e": pa.date32(),
        "b": pa.bool_(),
    }
)

# Few values each, so that filters hit them, with their neighbours.
POOL = {
    "i": [-(2**63), -1, 0, 1, 2, 3, 4, 5, 6, 2**63 - 1],
    "h": [-128, -1, 0, 1, 2, 127],
    "f": [-math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, math.inf, math.nan],
    "g": [-math.inf, -1.5, -0.0, 0.0, 1.0, 1.5, math.inf, math.nan],
    "s": [
        *("", "\0", "a", "a\0", "aa", "ab", "b", "ä", "z", "€", "😀", "\U0010ffff"),
        *("ab" * 150, "ab" * 150 + "c", "ab" * 151),
    ],
    "y": [
        *(b"", b"\0", b"a", b"a\0", b"ab", b"\xfe", b"\xfe\xff", b"\xff", b"\xff\xff", b"b" * LONG),
        *(b"\xff" * LONG, b"\xff" * LONG + b"a", b"a" + b"\xff" * LONG, b"a" + b"\xff" * 299 + b"\xfe"),
    ],
    "d": [Decimal(text) for text in ("-99999999999999999.999", "-0.001", "0", "0.001", "1.5", "99999999999999999.999")],
    "p": [Decimal(-(10**38) + 1), Decimal(-(2**64)), Decimal(-1), Decimal(0), Decimal(2**64), Decimal(10**38 - 1)],
    "t": [EPOCH + dt.timedelta(microseconds=us) for us in (-(10**15), -1, 0, 1, 10**15)] + LIMITS,
    "n": [moment.replace(tzinfo=None) for moment in (EPOCH, *LIMITS)],
    "e": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 5, 1), dt.date(9999, 12, 31)],
    "b": [False, True],
}


def order(value):
    """A key by which values compare as in SQL: NaN greatest and equal to itself, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def sort_order(value):
    """A key by which a segment is sorted: nulls first, -0.0 before 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float) and not math.isnan(value):
        return (1, order(value), math.copysign(1, value))
    return (1, order(value))


def compare(op, left, right):
    """Two values that are not null."""
    left, right = order(left), order(right)
    return {
        Op.EQ: left == right,
        Op.NE: left != right,
        Op.LT: left < right,
        Op.LE: left <= right,
        Op.GT: left > right,
        Op.GE: left >= right,
    }[op]


def truth(node, row):
    """What a filter says of a row: True, False or None; of what nobody understands, what its text says."""
    match node:
        case Truth():
            return node.value
        case Unknown():
            return node.text == "true"
        case Not():
            part = truth(node.part, row)
            return None if part is None else not part
        case And() | Or():
            parts = [truth(part, row) for part in node.parts]
            decider = isinstance(node, Or)
            return decider if decider in parts else (None if None in parts else not decider)
        case IsNull():
            return (row[node.column] is None) != node.negated
        case _:
            return truth_of_value(node, row[node.column])


def truth_of_value(node, value):
    """What a comparison says of a value."""
    if isinstance(node, OneOf) and not len(node.literals):
        return node.negated
    if value is None:
        return None
    match node:
        case Compare():
            return compare(node.op, value, node.literal.as_py())
        case OneOf():
            return any(compare(Op.EQ, value, one.as_py()) for one in node.literals) != node.negated
        case StartsWith():
            return order(value).startswith(order(node.prefix.as_py())) != node.negated


def cut(low, high, size):
    """Bounds of strings cut to some bytes, as the index does it."""
    if len(high) > size:
        high = high[:size]
        while high and high[-1] == 255:
            high = high[:-1]
        high = high[:-1] + bytes([high[-1] + 1]) if high else None
    return low[:size], high


def facts_of(name, values, *, size):
    """What the index says of one column of one blocklet."""
    known = [value for value in values if value is not None and value == value]  # noqa: PLR0124 - NaN is not
    low, high = (min(known, key=order), max(known, key=order)) if known else (None, None)
    facts = {f"nulls.{name}": values.count(None)}
    if name in "sy":
        facts[f"exact.{name}"] = all(bound is None or len(order(bound)) <= size for bound in (low, high))
        low, high = cut(order(low), order(high), size) if known else (None, None)
    if name in "fg":
        facts[f"nan.{name}"] = any(isinstance(value, float) and math.isnan(value) for value in values)
    return facts | {f"min.{name}": low, f"max.{name}": high}


def index_type(column):
    """The type of a column of the index."""
    fact, _, name = column.partition(".")
    if fact in {"rows", "nulls"}:
        return pa.int64()
    if fact in {"nan", "exact"}:
        return pa.bool_()
    return pa.binary() if fact in {"min", "max"} and name in "sy" else SCHEMA.field(name).type


def slow_index(blocklets, *, size=256, sort_columns=()):
    """The index of blocklets, lists of rows, computed value by value; strings cut to ``size`` bytes."""
    lines = []
    for rows in blocklets:
        line = {"rows": len(rows)}
        for name in rows[0]:
            line |= facts_of(name, [row[name] for row in rows], size=size)
        for name in sort_columns:
            line |= {f"start.{name}": rows[0][name], f"end.{name}": rows[-1][name]}
        lines.append(line)
    return pa.table({name: pa.array([line[name] for line in lines], index_type(name)) for name in lines[0]})


def own_index(blocklets, *, sort_columns=()):
    """The index of the same blocklets as a load makes it: a Parquet file is written and its part of the index."""
    schema = pa.schema([SCHEMA.field(name) for name in blocklets[0][0]])
    part, sink, footers = PartBuilder(schema, sort_columns), pa.BufferOutputStream(), []
    options = {"store_decimal_as_integer": True, "store_schema": False, "metadata_collector": footers}
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for rows in blocklets:
            table = pa.Table.from_pylist(rows, schema=schema)
            writer.write_table(table, row_group_size=len(rows))
            part.add(table)
    return read_part(part.finish(footers[0]))


def values_of(name):
    """A value or a null."""
    return st.none() | st.sampled_from(POOL[name])


def columns_of():
    """A few columns: what happens in one does not depend on the others."""
    return st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=2, unique=True)


@st.composite
def blocklets_of(draw, names):
    """A few blocklets; in each, a column has only a few of its values, or only nulls."""
    blocklets = []
    for _ in range(draw(st.integers(1, 5))):
        narrow = {name: draw(st.lists(values_of(name), min_size=1, max_size=2)) for name in names}
        row = st.fixed_dictionaries({name: st.sampled_from(narrow[name]) for name in names})
        blocklets.append(draw(st.lists(row, min_size=1, max_size=4)))
    return blocklets


@st.composite
def scenes(draw):
    """Blocklets, and filters on their columns."""
    names = draw(columns_of())
    return draw(blocklets_of(names)), draw(st.lists(filters(names), min_size=1, max_size=4))


def scalar(name, value):
    """A literal as the resolver makes it."""
    return pa.scalar(value, SCHEMA.field(name).type)


def value_set(name, values):
    """The values of an IN as the resolver makes them."""
    distinct = {order(value): value for value in values}
    return ValueSet(array=pa.array([distinct[key] for key in sorted(distinct)], SCHEMA.field(name).type))


@st.composite
def leaves(draw, names=tuple(SCHEMA.names)):
    """A filter without parts."""
    name = draw(st.sampled_from(names))
    value = st.sampled_from(POOL[name])
    kinds = ["compare"] * 4 + ["set", "null", "constant"] + ["prefix"] * (2 * (name in "sy"))
    match draw(st.sampled_from(kinds)):
        case "compare":
            return Compare(column=name, op=draw(st.sampled_from(list(Op))), literal=scalar(name, draw(value)))
        case "set":
            listed = value_set(name, draw(st.lists(value, max_size=4)))
            return OneOf(column=name, literals=listed, negated=draw(st.booleans()))
        case "null":
            return IsNull(column=name, negated=draw(st.booleans()))
        case "prefix":
            prefix = draw(value)
            prefix = prefix[: draw(st.integers(0, len(prefix)))]
            return StartsWith(column=name, prefix=scalar(name, prefix), negated=draw(st.booleans()))
    unknown = [Unknown(text=text, columns=(name,)) for text in ("true", "false")]
    return draw(st.sampled_from([TRUE, FALSE, NULL, *unknown]))


def filters(names=tuple(SCHEMA.names)):
    """Any filter, with NOT wherever it likes."""
    return st.recursive(
        leaves(names),
        lambda parts: (
            st.builds(Not, part=parts)
            | st.builds(And, parts=st.lists(parts, min_size=2, max_size=3).map(tuple))
            | st.builds(Or, parts=st.lists(parts, min_size=2, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )
